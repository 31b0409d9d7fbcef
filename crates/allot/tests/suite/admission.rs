//! What writes of our kinds are answered, on every backend alike.

use allotment_api::requests::{AccessRequest, ClusterRequest};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::harness::{Folder, Up, client, create, make_namespace, until};
use crate::requests::is_ready;

const BASE: &str = "/apis/cluster.openmcp.cloud/v1alpha1";

/// Somebody who may do everything that roles can allow, and is not the platform.
async fn alice(folder: &Folder, admin: &Client) -> Client {
    create(
        &Api::<ClusterRoleBinding>::all(admin.clone()),
        json!({"metadata": {"name": "alice"}, "subjects": [{"kind": "User", "name": "alice",
            "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}}),
    )
    .await;
    let text = std::fs::read_to_string(folder.kubeconfig()).expect("the kubeconfig is there");
    let kubeconfig = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.expect("a kubeconfig that can be used");
    config.auth_info.impersonate = Some("alice".to_owned());
    config.auth_info.impersonate_groups = Some(vec!["team".to_owned()]);
    Client::try_from(config).expect("a client")
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: String,
    pub(crate) body: Value,
}

pub(crate) async fn ask(client: &Client, method: &str, path: &str, body: &Value) -> Answer {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", media);
    let request = request.body(kube::client::Body::from(serde_json::to_vec(body).expect("JSON"))).expect("a request");
    let response = client.send(request).await.expect("an answer");
    let headers = response.headers().get_all("warning").iter();
    let warnings = headers.map(|value| value.to_str().unwrap_or_default().to_owned()).collect::<Vec<_>>().join("\n");
    let code = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.expect("a body");
    Answer { code, warnings, body: serde_json::from_slice(&body).expect("JSON") }
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn what_only_the_platform_writes_and_what_can_never_work_is_refused_with_field_and_reason() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "n").await;
    let alice = alice(&folder, &admin).await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "n");
    create(&requests, object("ClusterRequest", "r", json!({"purposes": ["mcp"]}))).await;
    until(&requests, "r", is_ready).await;

    let within = |resource: &str| format!("{BASE}/namespaces/n/{resource}");
    let configs = |group: &str| format!("/apis/{group}.cluster.openmcp.cloud/v1alpha1/providerconfigs");
    let config = |group: &str, more: Value| {
        let mut spec = json!({"providerRef": group});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"apiVersion": format!("{group}.cluster.openmcp.cloud/v1alpha1"), "kind": "ProviderConfig",
            "metadata": {"name": "x"}, "spec": spec})
    };
    let rules = json!([{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]);
    let grant = json!({"clusterRef": {"name": "c", "namespace": "n", "uid": "u"}, "prefix": "", "requestUID": "u",
        "resolved": {"purposes": ["mcp"], "dedicated": true, "traits": [], "version": "1.36.3",
            "deletionPolicy": "WhenIdle", "idleGrace": "5m"}});
    let mut deep = json!({"trait": "a"});
    for _ in 0..7 {
        deep = json!({"not": deep});
    }
    let cases = [
        (
            "PATCH",
            format!("{}/status", within("clusterrequests/r")),
            json!({"status": {"status": "Denied"}}),
            403,
            "status of ClusterRequest is written by the platform only",
        ),
        (
            "POST",
            within("clusterrequestgrants"),
            object("ClusterRequestGrant", "forged", grant),
            403,
            "ClusterRequestGrant is written by the platform only",
        ),
        ("DELETE", within("clusterrequestgrants/r"), json!({}), 403, "a ClusterRequestGrant goes with its request"),
        (
            "PATCH",
            within("clusterrequests/r"),
            json!({"metadata": {"annotations": {"cluster.openmcp.cloud/cluster-name": "n/other"}}}),
            403,
            "metadata.annotations[cluster.openmcp.cloud/cluster-name] is written by the platform only",
        ),
        (
            "PATCH",
            within("clusterrequests/r"),
            json!({"metadata": {"finalizers": null}}),
            403,
            "metadata.finalizers: cluster.openmcp.cloud/request is put on and taken off by the platform",
        ),
        (
            "POST",
            within("clusterrequests"),
            object("ClusterRequest", "x", json!({"purposes": ["mcp"], "prefix": "Foo"})),
            422,
            "spec.prefix",
        ),
        (
            "POST",
            within("clusterrequests"),
            object("ClusterRequest", "x", json!({"purposes": ["mcp", "mcp"]})),
            422,
            "spec.purposes[1]",
        ),
        (
            "POST",
            within("clusterrequests"),
            object("ClusterRequest", "x", json!({"purposes": ["mcp"], "traits": [deep]})),
            422,
            "spec.traits[0]",
        ),
        (
            "POST",
            within("accessrequests"),
            object("AccessRequest", "x", json!({"permissions": rules})),
            422,
            "exactly one of clusterRef and requestRef",
        ),
        (
            "POST",
            within("accessrequests"),
            object(
                "AccessRequest",
                "x",
                json!({"requestRef": {"name": "r"},
            "permissions": [{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]}]}),
            ),
            422,
            "spec.permissions[0].rules[0].verbs",
        ),
        (
            "POST",
            format!("{BASE}/purposes"),
            object("Purpose", "x", json!({"idleGrace": "soon"})),
            422,
            "spec.idleGrace",
        ),
        (
            "POST",
            format!("{BASE}/clusterproviders"),
            object("ClusterProvider", "x", json!({"package": " "})),
            422,
            "spec.package",
        ),
        (
            "POST",
            configs("existing"),
            config("existing", json!({"kubeconfigRef": {"name": "k", "namespace": "n"}})),
            422,
            "spec.kubeconfigRef.namespace",
        ),
        ("POST", configs("kind"), config("kind", json!({"versions": [{"version": "1.34"}]})), 422, "spec.versions[0]"),
        ("POST", configs("local"), config("local", json!({"providerRef": "A"})), 422, "spec.providerRef"),
    ];
    for (method, path, body, code, says) in cases {
        let answer = ask(&alice, method, &path, &body).await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert_eq!(answer.code, code, "{method} {path}: {message}");
        assert!(message.contains(says), "{method} {path} does not say {says:?}: {message}");
    }
}

#[tokio::test]
async fn a_dry_run_tells_what_would_be_decided_and_a_stored_request_what_is_odd() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "n").await;
    let alice = alice(&folder, &admin).await;
    let path = format!("{BASE}/namespaces/n/clusterrequests");
    for (query, spec, warns) in [
        ("?dryRun=All", json!({"purposes": ["workload"]}), "would create a Cluster from local/local"),
        ("?dryRun=All", json!({"purposes": ["nope"]}), "would be Denied: UnknownPurpose"),
        ("?dryRun=All", json!({"purposes": ["mcp"], "kubernetes": {"version": "1.12"}}), "VersionNotOffered"),
        ("", json!({"purposes": ["mcp"], "traits": [{"trait": "odd", "optional": true}]}), "spec.traits[0].trait"),
    ] {
        let answer = ask(&alice, "POST", &format!("{path}{query}"), &object("ClusterRequest", "x", spec.clone())).await;
        assert_eq!(answer.code, 201, "{spec}: {}", answer.body);
        assert!(answer.warnings.contains(warns), "{spec} is not warned of {warns:?}: {}", answer.warnings);
    }
}

#[tokio::test]
async fn who_creates_an_access_request_is_stamped_whatever_was_sent_and_never_changes() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "n").await;
    let alice = alice(&folder, &admin).await;
    let path = format!("{BASE}/namespaces/n/accessrequests");
    let spec = json!({"requestRef": {"name": "r"}, "requestedBy": {"username": "bob", "uid": "1", "groups": ["wheel"]},
        "permissions": [{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]});
    let made = ask(&alice, "POST", &path, &object("AccessRequest", "a", spec)).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let by =
        Api::<AccessRequest>::namespaced(admin, "n").get("a").await.expect("there").spec.requested_by.expect("stamped");
    assert_eq!(by.username, "alice");
    assert!(by.groups.contains(&"team".to_owned()) && !by.groups.contains(&"wheel".to_owned()), "{by:?}");
    let path = format!("{path}/a");
    let other = ask(&alice, "PATCH", &path, &json!({"spec": {"requestedBy": {"username": "carol"}}})).await;
    assert_eq!(other.code, 422, "{}", other.body);
    let left_out = ask(&alice, "PATCH", &path, &json!({"spec": {"requestedBy": null, "ttl": "1h"}})).await;
    assert_eq!((left_out.code, left_out.body["spec"]["requestedBy"]["username"].as_str()), (200, Some("alice")));
}
