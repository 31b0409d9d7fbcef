//! From an AccessRequest to a kubeconfig that can do what was asked, and nothing else.

use allotment_api::reasons::Verdict;
use allotment_api::requests::{AccessRequest, ClusterRequest};
use allotment_testkit::ports;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use serde_json::json;

use crate::harness::{Folder, LIMIT, Up, client, client_of, code, create, make_namespace, run, until, until_gone};
use crate::requests::is_ready;

pub(crate) fn is_granted(request: &AccessRequest) -> bool {
    request.status.as_ref().is_some_and(|status| {
        status.status == Some(Verdict::Granted) && status.observed_generation == request.metadata.generation
    })
}

/// A cluster of one's own and access to it; gives the kubeconfig's text.
pub(crate) async fn granted(admin: &kube::Client, namespace: &str) -> (Api<AccessRequest>, String) {
    make_namespace(admin, namespace).await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), namespace);
    create(
        &requests,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": "r"}, "spec": {"purposes": ["mcp"]}}),
    )
    .await;
    let access = Api::<AccessRequest>::namespaced(admin.clone(), namespace);
    create(
        &access,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "a"}, "spec": {"requestRef": {"name": "r"}, "permissions": [
            {"rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}]},
            {"namespace": "default", "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]}]}}),
    )
    .await;
    until(&requests, "r", is_ready).await;
    let request = until(&access, "a", is_granted).await;
    let name = request.status.and_then(|status| status.access).expect("access").secret_ref.name;
    let secret = Api::<Secret>::namespaced(admin.clone(), namespace).get(&name).await.expect("the Secret");
    let data = secret.data.expect("data");
    for key in ["kubeconfig", "host", "ca.crt", "token", "expirationTimestamp"] {
        assert!(data.contains_key(key), "the Secret lacks {key}");
    }
    (access, String::from_utf8(data["kubeconfig"].0.clone()).expect("text"))
}

#[tokio::test]
async fn a_kubeconfig_does_what_was_asked_for_and_nothing_else_until_it_is_taken_back() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let (access, kubeconfig) = granted(&admin, "n").await;
    let inside = client_of(&kubeconfig).await;

    let namespaces = Api::<Namespace>::all(inside.clone());
    assert!(namespaces.list(&ListParams::default()).await.expect("asked for").items.len() >= 4);
    let maps = Api::<ConfigMap>::namespaced(inside.clone(), "default");
    create(&maps, json!({"metadata": {"name": "m"}, "data": {"k": "v"}})).await;
    assert_eq!(code(Api::<Secret>::all(inside.clone()).list(&ListParams::default()).await), 403);
    assert_eq!(code(Api::<ConfigMap>::namespaced(inside.clone(), "kube-system").get("m").await), 403);
    assert_eq!(code(Api::<ClusterRole>::all(inside.clone()).list(&ListParams::default()).await), 403);
    assert_eq!(code(namespaces.delete("default", &DeleteParams::default()).await), 403);

    access.delete("a", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&access, "a").await;
    assert_eq!(code(namespaces.list(&ListParams::default()).await), 401);
    let secrets = Api::<Secret>::namespaced(admin, "n").list(&ListParams::default()).await.expect("an admin may list");
    assert!(secrets.items.is_empty(), "the Secret outlived its AccessRequest");
}

#[tokio::test]
async fn a_token_of_one_cluster_is_nothing_to_another_or_to_the_platform() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let ((_, one), (_, other)) = (granted(&admin, "one").await, granted(&admin, "other").await);
    let server = |text: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with("server:")).expect("a server");
        line.split_once("server:").expect("a value").1.trim().trim_matches('"').to_owned()
    };
    let (here, there) = (server(&one), server(&other));
    assert_ne!(here, there);
    let elsewhere = client_of(&one.replace(&here, &there)).await;
    let answer = Api::<Namespace>::all(elsewhere).list(&ListParams::default()).await;
    assert_eq!(code(answer), 401, "the token of one cluster worked at {there}");

    let token = Kubeconfig::from_yaml(&one).expect("a kubeconfig").auth_infos.remove(0).auth_info.expect("a user");
    let text = std::fs::read_to_string(folder.kubeconfig()).expect("the kubeconfig is there");
    let mut platform = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    platform.auth_infos[0].auth_info = Some(token);
    let platform = client_of(&serde_json::to_string(&platform).expect("JSON")).await;
    let answer = Api::<Namespace>::all(platform).list(&ListParams::default()).await;
    assert_eq!(code(answer), 401, "the token of a cluster worked at the platform");
}

#[tokio::test]
async fn permissions_that_are_taken_out_of_a_request_end() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let (access, kubeconfig) = granted(&admin, "n").await;
    let inside = client_of(&kubeconfig).await;
    let narrower = json!({"spec": {"permissions": [
        {"rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}]}]}});
    access.patch("a", &PatchParams::default(), &Patch::Merge(&narrower)).await.expect("it can be changed");
    until(&access, "a", is_granted).await;
    let maps = Api::<ConfigMap>::namespaced(inside.clone(), "default");
    assert_eq!(code(maps.list(&ListParams::default()).await), 403);
    let namespaces = Api::<Namespace>::all(inside);
    assert_eq!(code(namespaces.list(&ListParams::default()).await), 200);
}

#[tokio::test]
async fn tokens_are_renewed_before_they_end() {
    let folder = Folder::new();
    let _up = Up::start_with(&folder, &["--access-token-lifetime", "5s"]).await;
    let admin = client(&folder.kubeconfig()).await;
    let (access, first) = granted(&admin, "n").await;
    let request = access.get("a").await.expect("it is there");
    let info = request.status.and_then(|status| status.access).expect("access");
    let end = info.not_after.clone().expect("an end").0;
    let renewed = until(&access, "a", move |request: &AccessRequest| {
        let access = request.status.as_ref().and_then(|status| status.access.as_ref());
        access.and_then(|access| access.not_after.as_ref()).is_some_and(|at| at.0 > end)
    })
    .await;
    assert!(is_granted(&renewed), "renewal took the grant back");
    let secret = Api::<Secret>::namespaced(admin, "n").get(&info.secret_ref.name).await.expect("the Secret");
    let second = String::from_utf8(secret.data.expect("data")["kubeconfig"].0.clone()).expect("text");
    assert_ne!(first, second);
    let answer = Api::<Namespace>::all(client_of(&second).await).list(&ListParams::default()).await;
    assert_eq!(code(answer), 200);
}

#[tokio::test]
async fn the_kubeconfig_with_the_exec_plugin_gets_the_current_token() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    granted(&admin, "n").await;
    let printed = run(&folder, &["access", "a", "-n", "n", "--wait"]);
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let inside = client_of(&String::from_utf8(printed.stdout).expect("text")).await;
    let listed =
        tokio::time::timeout(LIMIT, async { Api::<Namespace>::all(inside).list(&ListParams::default()).await });
    assert_eq!(code(listed.await.expect("an answer in time")), 200);
    let fixed = run(&folder, &["access", "a", "-n", "n", "--static"]);
    let inside = client_of(&String::from_utf8(fixed.stdout).expect("text")).await;
    assert_eq!(code(Api::<Namespace>::all(inside).list(&ListParams::default()).await), 200);
}

#[tokio::test]
async fn access_says_what_it_waits_for_and_gives_up_in_time() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let output = run(&folder, &["access", "nobody", "-n", "default", "--wait", "--timeout", "100ms"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "AccessRequest nobody does not exist yet; waiting until it does",
            "error: AccessRequest default/nobody: gave up after 100.0 ms: AccessRequest nobody does not exist",
        ]
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn a_server_that_is_not_there_is_told_in_one_line_with_its_address() {
    let folder = Folder::new();
    let [port] = ports::unused().expect("a port");
    let address = format!("127.0.0.1:{port}");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: a, cluster: {{server: \
         \"https://{address}\"}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, \
         user: {{token: t}}}}]\n"
    );
    std::fs::write(folder.kubeconfig(), text).expect("a kubeconfig");
    for arguments in [&["tree"][..], &["request", "r", "--purpose", "mcp", "--wait"], &["explain", "request", "r"]] {
        let output = run(&folder, arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.starts_with(&format!("error: cannot reach https://{address} of the kubeconfig ")), "{text}");
        assert!(text.contains("allot up"), "{text}");
    }
}

#[tokio::test]
async fn an_identity_that_is_deleted_inside_its_cluster_comes_back_with_another_token() {
    let folder = Folder::new();
    let up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let (access, first) = granted(&admin, "n").await;
    let uid = access.get("a").await.expect("it is there").metadata.uid.expect("a UID");
    create(
        &access,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "janitor"}, "spec": {"requestRef": {"name": "r"}, "permissions": [
            {"namespace": "allot-access", "rules": [{"apiGroups": [""], "resources": ["serviceaccounts"],
                "verbs": ["delete"]}]}]}}),
    )
    .await;
    let janitor = until(&access, "janitor", is_granted).await;
    let secrets = Api::<Secret>::namespaced(admin.clone(), "n");
    let kubeconfig =
        |secret: Secret| String::from_utf8(secret.data.expect("data")["kubeconfig"].0.clone()).expect("text");
    let name = janitor.status.and_then(|status| status.access).expect("access").secret_ref.name;
    let inside = client_of(&kubeconfig(secrets.get(&name).await.expect("the Secret"))).await;
    let accounts = Api::<k8s_openapi::api::core::v1::ServiceAccount>::namespaced(inside, "allot-access");
    accounts.delete(&format!("access-{uid}"), &DeleteParams::default()).await.expect("it was asked for");
    let list = ListParams::default();
    assert_eq!(code(Api::<Namespace>::all(client_of(&first).await).list(&list).await), 401);

    // A process looks when it starts, and then every ten minutes.
    up.kill();
    let _up = Up::start(&folder).await;
    let secrets = Api::<Secret>::namespaced(client(&folder.kubeconfig()).await, "n");
    let old = first.clone();
    let secret = until(&secrets, "a-kubeconfig", move |secret: &Secret| {
        secret.data.as_ref().is_some_and(|data| data["kubeconfig"].0 != old.as_bytes())
    })
    .await;
    assert_eq!(code(Api::<Namespace>::all(client_of(&kubeconfig(secret)).await).list(&list).await), 200);
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_left_alone_and_the_access_granted_by_another_name() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let (access, _) = granted(&admin, "team").await;
    let secrets = Api::<Secret>::namespaced(admin.clone(), "team");
    create(&secrets, json!({"metadata": {"name": "b-kubeconfig"}, "stringData": {"mine": "yes"}})).await;
    create(
        &access,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest", "metadata": {"name": "b"},
        "spec": {"requestRef": {"name": "r"}, "permissions": [
            {"rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]}]}}),
    )
    .await;
    let request = until(&access, "b", is_granted).await;
    let answer = request.status.and_then(|status| status.access).expect("granted").secret_ref.name;
    assert_eq!(answer, format!("access-{}", request.metadata.uid.expect("a UID")));
    assert!(secrets.get(&answer).await.expect("there").data.expect("data").contains_key("kubeconfig"));
    let mine = secrets.get("b-kubeconfig").await.expect("there").data.expect("data");
    assert!(mine.len() == 1 && mine.contains_key("mine"), "left as it was");
}
