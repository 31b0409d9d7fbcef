//! What the commands say to those with few rights or none, and where there is nobody to ask.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::access::granted;
use crate::commands::{check, said};
use crate::harness::{Folder, LIMIT, Up, allot, client, create, run};

/// A kubeconfig of a ServiceAccount with these rights in one namespace, in a file.
async fn few_rights(folder: &Folder, admin: &Client, namespace: &str, rules: Value) -> String {
    let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), namespace);
    create(&accounts, json!({"metadata": {"name": "few"}})).await;
    create(&Api::<Role>::namespaced(admin.clone(), namespace), json!({"metadata": {"name": "few"}, "rules": rules}))
        .await;
    let binding = json!({"metadata": {"name": "few"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "few"},
        "subjects": [{"kind": "ServiceAccount", "name": "few", "namespace": namespace}]});
    create(&Api::<RoleBinding>::namespaced(admin.clone(), namespace), binding).await;
    let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let token = accounts.create_token_request("few", &PostParams::default(), &request).await.expect("a token");
    let token = token.status.and_then(|status| status.token).expect("a token");
    let text = std::fs::read_to_string(folder.kubeconfig()).expect("the kubeconfig is there");
    let mut own = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    for user in &mut own.auth_infos {
        user.auth_info = Some(kube::config::AuthInfo { token: Some(token.clone().into()), ..Default::default() });
    }
    let path = folder.0.join("few.kubeconfig");
    std::fs::write(&path, serde_json::to_string(&own).expect("JSON")).expect("a file");
    path.to_str().expect("text").to_owned()
}

#[tokio::test]
async fn with_few_rights_commands_show_what_may_be_seen_and_say_what_may_not() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    granted(&admin, "team").await;
    let rules = json!([{"apiGroups": ["cluster.openmcp.cloud"], "verbs": ["get", "list", "watch", "create"],
        "resources": ["clusterrequests", "clusterrequestgrants", "accessrequests", "accesspolicies"]}]);
    let few = few_rights(&folder, &admin, "team", rules).await;
    let as_few = |arguments: &[&str]| run(&folder, &[arguments, &["--kubeconfig", &few]].concat());

    check(&as_few(&["tree"]), 1, &["cannot list clusterrequests", "name a namespace of yours with -n"]);
    check(&as_few(&["tree", "-n", "team"]), 0, &["(may not be seen)", "ClusterRequest team/r", "AccessRequest team/a"]);
    check(&as_few(&["tree", "-n", "default"]), 1, &["cannot list", "in namespace default"]);
    let top = as_few(&["top", "-n", "team"]);
    check(&top, 0, &["not shown: cannot list clusters", "1 request granted", "- Clusters: they may not be listed"]);
    check(&as_few(&["top"]), 1, &["cannot list", "-n names another"]);
    let told = as_few(&["top", "-o", "json"]);
    assert_eq!(told.status.code(), Some(1), "what reads it is not told that all is well");
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert!(told["unseen"].as_array().is_some_and(|unseen| unseen.len() == 5), "{told}");
    for section in ["clusters", "purposes", "requests", "providers"] {
        assert_eq!(told[section], json!({"seen": false, "items": null, "omitted": 0}), "{section}");
    }
    check(&as_few(&["simulate", "-n", "team", "-p", "mcp"]), 1, &["cannot list namespaces", "allot help simulate"]);
    let explained = as_few(&["explain", "request", "--dry-run", "-n", "team", "-p", "mcp"]);
    check(&explained, 0, &["would create a Cluster from local/local"]);
    check(&as_few(&["explain", "request", "--dry-run", "-n", "default", "-p", "mcp"]), 1, &["cannot create resource"]);
    check(&as_few(&["explain", "request", "r", "-n", "team"]), 0, &["Granted"]);
    check(&as_few(&["explain", "request", "r", "-n", "default"]), 1, &["cannot get resource"]);
    check(&as_few(&["access", "a", "-n", "team"]), 1, &["cannot get resource"]);
    check(&as_few(&["access", "a", "-n", "default"]), 1, &["cannot get resource"]);
    check(&as_few(&["request", "r", "-n", "default", "-p", "mcp"]), 1, &["cannot create resource"]);

    // One right after another goes: what is left is shown still.
    let roles = Api::<Role>::namespaced(admin.clone(), "team");
    let rules = |resources: &[&str]| json!({"rules": [{"apiGroups": ["cluster.openmcp.cloud"], "verbs": ["get", "list"], "resources": resources}]});
    let narrowed = rules(&["clusterrequests"]);
    roles.patch("few", &PatchParams::default(), &Patch::Merge(&narrowed)).await.expect("an admin may");
    let says = async |arguments: &[&str], says: &[&str]| {
        let begin = tokio::time::Instant::now();
        loop {
            let output = as_few(arguments);
            if says.iter().all(|part| said(&output).contains(part)) {
                return check(&output, 0, says);
            }
            assert!(begin.elapsed() < LIMIT, "{arguments:?}: {}", said(&output));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let not_shown = "not shown: cannot list accessrequests in namespace team";
    says(&["tree", "-n", "team"], &["ClusterRequest team/r Granted", not_shown]).await;
    let unseen = "not shown: ClusterRequestGrant team/r: ";
    says(&["explain", "request", "r", "-n", "team"], &[unseen, "status     Granted (Success)", "cluster    team/mcp-"])
        .await;
    let told = as_few(&["explain", "request", "r", "-n", "team", "-o", "json"]);
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(
        (&told["grantSeen"], &told["prefix"], &told["status"]),
        (&json!(false), &Value::Null, &json!("Granted"))
    );
    let narrowed = rules(&["accesspolicies"]);
    roles.patch("few", &PatchParams::default(), &Patch::Merge(&narrowed)).await.expect("an admin may");
    says(&["tree", "-n", "team"], &["nothing that may be seen in namespace team", "cannot list clusterrequests"]).await;
}

/// The commands that ask the platform.
const ASKING: [&[&str]; 9] = [
    &["request", "r", "-n", "n", "-p", "mcp"],
    &["access", "a", "-n", "n"],
    &["credential", "a", "-n", "n"],
    &["explain", "request", "r", "-n", "n"],
    &["explain", "request", "r", "-n", "n", "--dry-run", "-p", "mcp"],
    &["tree"],
    &["top"],
    &["simulate", "-p", "mcp"],
    &["top", "--watch"],
];

#[tokio::test]
async fn every_command_says_why_it_cannot_ask_and_what_to_do() {
    let folder = Folder::new();
    let nobody = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}], "users": [{"name": "c", "user": {}}]});
    let unreachable = folder.0.join("unreachable");
    std::fs::write(&unreachable, nobody.to_string()).expect("a file");
    let broken = folder.0.join("broken");
    std::fs::write(&broken, "clusters: [").expect("a file");
    let absent = folder.0.join("absent");
    for arguments in ASKING {
        for (kubeconfig, says) in [
            (&unreachable, ["cannot reach https://127.0.0.1:1", "allot up"]),
            (&broken, ["cannot read the kubeconfig", "broken"]),
            (&absent, ["cannot read the kubeconfig", "absent"]),
        ] {
            let output = allot(&folder).args(arguments).arg("--kubeconfig").arg(kubeconfig).output().expect("it runs");
            check(&output, 1, &says);
            assert_eq!(String::from_utf8_lossy(&output.stderr).trim_end().lines().count(), 1, "{arguments:?}");
            assert!(output.stdout.is_empty(), "{arguments:?}: {}", said(&output));
        }
        let output = allot(&folder).args(arguments).output().expect("it runs");
        check(&output, 1, &["no platform to talk to", "--kubeconfig"]);
        let output = allot(&folder).args(arguments).env("KUBECONFIG", &absent).output().expect("it runs");
        check(&output, 1, &["no file of KUBECONFIG=", "absent"]);
        let context = [arguments, &["--context", "other"]].concat();
        let output = allot(&folder).args(context).env("KUBECONFIG", &unreachable).output().expect("it runs");
        check(&output, 1, &["cannot be used", "other"]);
    }
    // Whoever nobody knows is told by the server.
    let _up = Up::start(&folder).await;
    let text = std::fs::read_to_string(folder.kubeconfig()).expect("the kubeconfig is there");
    let mut strangers = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    for user in &mut strangers.auth_infos {
        user.auth_info =
            Some(kube::config::AuthInfo { token: Some("nonsense".to_owned().into()), ..Default::default() });
    }
    let path = folder.0.join("stranger");
    std::fs::write(&path, serde_json::to_string(&strangers).expect("JSON")).expect("a file");
    for arguments in ASKING {
        let output = allot(&folder).args(arguments).arg("--kubeconfig").arg(&path).output().expect("it runs");
        check(&output, 1, &["Unauthorized"]);
    }
}

#[tokio::test]
async fn a_role_in_the_platforms_namespace_is_not_enough_to_act() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let documents = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/controllers/rbac.yaml"));
    let documents = allotment_machinery::yaml::parse_stream(&documents.expect("the manifest is there")).expect("YAML");
    let role = documents
        .into_iter()
        .map(|document| document.value)
        .find(|value| value.get("kind").and_then(allotment_machinery::json::Value::as_str) == Some("ClusterRole"));
    let role: Value = serde_json::from_str(&role.expect("a ClusterRole").to_string()).expect("JSON");
    let few = few_rights(&folder, &admin, "allot-system", role["rules"].clone()).await;
    let data = folder.0.join("other");
    let arguments = ["controllers", "--listen", "127.0.0.1:0", "--kubeconfig", &few, "--data-dir"];
    let output = run(&folder, &[&arguments[..], &[data.to_str().expect("a path")]].concat());
    let everywhere = ["* *.cluster.openmcp.cloud", "get, list, watch, create namespaces", "by a ClusterRoleBinding"];
    check(&output, 1, &everywhere);
    let text = said(&output);
    assert!(!text.contains("leases") && !text.contains("configmaps"), "what it has where it needs it: {text}");
}
