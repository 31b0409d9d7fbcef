//! How an image of a provider runs on Kubernetes: a Deployment of one Pod, whose first container is `init` and whose second is
//! `run`, both with the arguments that every provider is started with.

use allotment_api::names::{SYSTEM_NAMESPACE, provider_object};
use serde_json::{Value, json};

/// Where the kubeconfig lies in the Pod.
const FOLDER: &str = "/etc/allot-provider";
const KUBECONFIG: &str = "kubeconfig";
/// Where Kubernetes puts the ServiceAccount's token and the server's authority.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Label of its Pod; the value is the ClusterProvider, whose name is short enough for that.
const LABEL: &str = "cluster.openmcp.cloud/provider";

/// What is deployed.
#[derive(Clone, Copy, Debug)]
pub struct Deployed<'a> {
    /// The ClusterProvider.
    pub provider: &'a str,
    /// Its image.
    pub image: &'a str,
    /// The Secrets in `allot-system` by which the image is pulled.
    pub pull_secrets: &'a [String],
    /// The name of the landscape.
    pub environment: &'a str,
}

/// The objects, in the order in which they are made.
pub fn deployment_objects(deployed: &Deployed<'_>) -> Vec<Value> {
    let name = provider_object(deployed.provider);
    let arguments = [
        "--provider-name",
        deployed.provider,
        "--kubeconfig",
        &format!("{FOLDER}/{KUBECONFIG}"),
        "--environment",
        deployed.environment,
    ]
    .map(str::to_owned);
    let container = |verb: &str| {
        let arguments: Vec<&str> = std::iter::once(verb).chain(arguments.iter().map(String::as_str)).collect();
        json!({
            "name": verb, "image": deployed.image, "args": arguments,
            "volumeMounts": [{ "name": KUBECONFIG, "mountPath": FOLDER, "readOnly": true }],
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        })
    };
    let pull: Vec<Value> = deployed.pull_secrets.iter().map(|secret| json!({ "name": secret })).collect();
    let labels = json!({ LABEL: deployed.provider });
    let pod = json!({
        "serviceAccountName": name, "imagePullSecrets": pull,
        "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
        "initContainers": [container("init")], "containers": [container("run")],
        "volumes": [{ "name": KUBECONFIG, "configMap": { "name": name } }],
    });
    let metadata = json!({ "name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels });
    vec![
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { KUBECONFIG: kubeconfig() } }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": 1,
                // Two at once would work on the same Clusters.
                "strategy": { "type": "Recreate" },
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": pod },
            },
        }),
    ]
}

/// A kubeconfig that leads to the API server around the Pod, with the token that Kubernetes renews.
fn kubeconfig() -> String {
    let whole = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "platform",
        "clusters": [{ "name": "platform", "cluster": {
            "server": "https://kubernetes.default.svc", "certificate-authority": format!("{ACCOUNT}/ca.crt") } }],
        "users": [{ "name": "provider", "user": { "tokenFile": format!("{ACCOUNT}/token") } }],
        "contexts": [{ "name": "platform", "context": { "cluster": "platform", "user": "provider" } }],
    });
    format!("{whole:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_started_as_an_executable_is() {
        let secrets = ["pull".to_owned()];
        let deployed = Deployed { provider: "p", image: "r.example/p:v1", pull_secrets: &secrets, environment: "live" };
        let objects = deployment_objects(&deployed);
        let pod = &objects[1]["spec"]["template"]["spec"];
        let rest = ["--provider-name", "p", "--kubeconfig", "/etc/allot-provider/kubeconfig", "--environment", "live"];
        for (list, verb) in [("initContainers", "init"), ("containers", "run")] {
            let container = &pod[list][0];
            assert_eq!(container["image"], "r.example/p:v1");
            let args: Vec<&str> =
                container["args"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
            assert_eq!(args[0], verb);
            assert_eq!(args[1..], rest);
        }
        assert_eq!(
            (&pod["serviceAccountName"], &pod["imagePullSecrets"][0]["name"]),
            (&json!("provider-p"), &json!("pull"))
        );
        assert_eq!(objects[1]["spec"]["selector"]["matchLabels"], objects[1]["spec"]["template"]["metadata"]["labels"]);
        let kubeconfig: Value =
            serde_json::from_str(objects[0]["data"]["kubeconfig"].as_str().expect("text")).expect("JSON");
        assert_eq!(kubeconfig["current-context"], kubeconfig["contexts"][0]["name"]);
    }
}
