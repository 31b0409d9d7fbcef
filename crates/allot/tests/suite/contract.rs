//! What every provider has to do, whoever runs it: one suite, a row for each provider. What one of them cannot do stands in
//! its row, and is looked for like everything else.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use allotment_api::reasons::Verdict;
use allotment_api::requests::{AccessRequest, Cluster, ClusterProvider, ClusterRequest, KindConfig, Purpose};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::access::is_granted;
use crate::existing;
use crate::harness::{Folder, LIMIT, Up, by_token, client, client_of, code, create, make_namespace, until, until_gone};
use crate::outside::Planes;
use crate::requests::is_ready;

/// Stands where the kind command would, and makes clusters that are an API server and its store.
const KIND: &str = include_str!("../kind.py");

/// A provider, and what is not the same for all.
struct Row {
    /// A trait that its clusters have, and no others.
    of: &'static str,
    /// What who wants a second cluster gets.
    second: Second,
    /// What keeps the tenants of a shared cluster to their prefixes.
    prefixes: Prefixes,
}

/// What who wants a second cluster gets.
#[derive(PartialEq)]
enum Second {
    /// Another one, which knows nobody of the first.
    Another,
    /// Nothing, and is told why: each profile stands for one cluster.
    MaxClustersReached,
}

/// What keeps the tenants of a shared cluster to their prefixes.
#[derive(PartialEq)]
enum Prefixes {
    /// Its API server refuses what bears no prefix, or another one's.
    Kept,
    /// Nothing: its API server judges by no policies. So nobody gets access to a shared one, and is told why.
    NotEnforced,
}

#[tokio::test]
async fn provider_local_keeps_the_contract() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let row = Row { of: "infrastructure/vendor/local", second: Second::Another, prefixes: Prefixes::Kept };
    keeps(&admin, &row).await;
    let left = records(&admin, "c-").await;
    assert!(left.is_empty(), "what it made its clusters from is left: {left:?}");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn the_example_of_a_provider_in_another_process_keeps_the_contract() {
    let folder = Folder::new();
    let planes = Planes::start(&folder).await;
    let row = Row { of: "infrastructure/vendor/planes", second: Second::Another, prefixes: Prefixes::NotEnforced };
    keeps(&planes.admin, &row).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn provider_existing_keeps_the_contract() {
    let folder = Folder::new();
    let (_up, kubernetes) = tokio::join!(Up::start(&folder), existing::kubernetes(&folder));
    let admin = client(&folder.kubeconfig()).await;
    let own = std::fs::read_to_string(kubernetes.kubeconfig()).expect("a kubeconfig");
    let inside = client_of(&own).await;
    let theirs = Api::<ConfigMap>::namespaced(inside.clone(), "default");
    create(&theirs, json!({"metadata": {"name": "theirs"}})).await;
    existing::apply_example(&admin, &own).await;
    let row = Row { of: "infrastructure/vendor/example", second: Second::MaxClustersReached, prefixes: Prefixes::Kept };
    keeps(&admin, &row).await;
    // It was there before, and is left as it was.
    assert_eq!(code(theirs.get("theirs").await), 200);
    assert_eq!(existing::labelled(&inside).await, 0, "something of the platform's is left");
    until_gone(&Api::<Namespace>::all(inside), "allot-access").await;
    let left = records(&admin, "existing-").await;
    assert!(left.is_empty(), "its record is left: {left:?}");
}

#[tokio::test]
#[ignore = "needs kube-apiserver and python3"]
async fn provider_kind_keeps_the_contract() {
    let folder = Folder::new();
    let kind = Kind::install(&folder);
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let provider = json!({"metadata": {"name": "kind"}, "spec": {"package": "builtin:kind"}});
    create(&Api::<ClusterProvider>::all(admin.clone()), provider).await;
    let config = json!({"metadata": {"name": "small"},
        "spec": {"providerRef": "kind", "versions": [{"version": "1.36.3"}]}});
    create(&Api::<KindConfig>::all(admin.clone()), config).await;
    let row = Row { of: "infrastructure/vendor/kind", second: Second::Another, prefixes: Prefixes::Kept };
    keeps(&admin, &row).await;
    assert_eq!(kind.clusters(), Vec::<String>::new(), "its clusters go with their Clusters");
    let left = records(&admin, "kind-").await;
    assert!(left.is_empty(), "their records are left: {left:?}");
}

/// The program in kind's place. What it made goes with this.
struct Kind<'a>(&'a Folder);

impl Kind<'_> {
    fn install(folder: &Folder) -> Kind<'_> {
        let path = folder.0.join("bin/kind");
        std::fs::create_dir_all(folder.0.join("bin")).expect("a folder");
        std::fs::write(&path, KIND).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        Kind(folder)
    }

    fn clusters(&self) -> Vec<String> {
        let Ok(found) = std::fs::read_dir(self.0.0.join("clusters")) else { return Vec::new() };
        found.map(|entry| entry.expect("a folder").file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Kind<'_> {
    fn drop(&mut self) {
        let command =
            std::process::Command::new(self.0.0.join("bin/kind")).args(["delete", "clusters", "--all"]).status();
        drop(command);
    }
}

/// What is recorded of Clusters under names that begin so.
async fn records(admin: &Client, beginning: &str) -> Vec<String> {
    let all = Api::<Secret>::namespaced(admin.clone(), "allot-planes").list(&ListParams::default()).await;
    let names = all.expect("a list").items.into_iter().map(|secret| secret.name_any());
    names.filter(|name| name.starts_with(beginning)).collect()
}

/// Clusters of that provider are made, used, forgotten by their status, shared, and taken away.
async fn keeps(admin: &Client, row: &Row) {
    make_namespace(admin, "team").await;
    for (name, dedicated) in [("alone", true), ("together", false)] {
        let spec = json!({"dedicated": dedicated, "traits": [{"trait": row.of}]});
        create(&Api::<Purpose>::all(admin.clone()), json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    keeps_one_alone(admin, row).await;
    keeps_tenants_apart(admin, row).await;
}

async fn keeps_one_alone(admin: &Client, row: &Row) {
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    ask(admin, "r", json!({"purposes": ["alone"]})).await;
    until(&requests, "r", is_ready).await;
    let (clusters, name) = home(admin, "r").await;
    let cluster = clusters.get(&name).await.expect("the Cluster");

    // Each side holds it, and says its own part.
    let (ours, theirs): (Vec<_>, Vec<_>) =
        cluster.finalizers().iter().partition(|finalizer| finalizer.starts_with("cluster.openmcp.cloud/"));
    assert_eq!((ours.len(), theirs.len()), (1, 1), "{:?}", cluster.finalizers());
    assert!(is_told_of(&cluster), "{:?}", cluster.status);

    let everything = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
    let kubeconfig = enter(admin, "a", "r", json!([{"namespace": "default", "rules": everything}])).await;
    let inside = Api::<ConfigMap>::namespaced(client_of(&kubeconfig).await, "default");
    create(&inside, json!({"metadata": {"name": "c"}, "data": {"a": "b"}})).await;
    let other = Api::<Secret>::namespaced(client_of(&kubeconfig).await, "default");
    assert_eq!(code(other.list(&ListParams::default()).await), 403, "no more than was asked for");
    let elsewhere = Api::<ConfigMap>::namespaced(client_of(&kubeconfig).await, "kube-system");
    assert_eq!(code(elsewhere.list(&ListParams::default()).await), 403, "nowhere else");

    ask(admin, "second", json!({"purposes": ["alone"]})).await;
    match row.second {
        Second::Another => {
            until(&requests, "second", is_ready).await;
            let (_, another) = home(admin, "second").await;
            assert_ne!(another, name);
            let rules = json!([{"namespace": "default", "rules": everything}]);
            let second = enter(admin, "b", "second", rules).await;
            let maps = Api::<ConfigMap>::namespaced(client_of(&second).await, "default");
            assert_eq!(code(maps.get("c").await), 404, "it is a cluster of its own");
        }
        Second::MaxClustersReached => {
            let waits = until(&requests, "second", |found| is_pending(found, "MaxClustersReached")).await;
            assert!(!waits.status.expect("a status").message.is_empty());
        }
    }

    // Whatever a status says can be found out again.
    let wiped =
        Patch::Json::<()>(serde_json::from_value(json!([{"op": "remove", "path": "/status"}])).expect("a patch"));
    let left = clusters.patch_status(&name, &PatchParams::default(), &wiped).await;
    assert_eq!(left.expect("an admin repairs what he likes").status, None, "all of it is forgotten");
    until(&clusters, &name, is_told_of).await;
    until(&requests, "r", is_ready).await;
    assert_eq!(inside.get("c").await.expect("it is still there").data.expect("data")["a"], "b");

    // One in use waits for its users, and goes on for them.
    clusters.delete(&name, &DeleteParams::default()).await.expect("it may be deleted");
    until(&clusters, &name, |cluster| says(cluster, "DeletionBlocked")).await;
    assert_eq!(code(inside.get("c").await), 200, "it is used");
    revoke(admin, "a").await;
    until_refused(&inside).await;
    if row.second == Second::Another {
        revoke(admin, "b").await;
    }
    let (others, another) = match row.second {
        Second::Another => home(admin, "second").await,
        Second::MaxClustersReached => (clusters.clone(), name.clone()),
    };
    for request in ["second", "r"] {
        requests.delete(request, &DeleteParams::default()).await.expect("it may be deleted");
        until_gone(&requests, request).await;
    }
    until_gone(&clusters, &name).await;
    let _ = others.delete(&another, &DeleteParams::default()).await;
    until_gone(&others, &another).await;
}

async fn keeps_tenants_apart(admin: &Client, row: &Row) {
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    for (name, prefix) in [("one", "foo-"), ("two", "bar-")] {
        ask(admin, name, json!({"purposes": ["together"], "prefix": prefix})).await;
        until(&requests, name, is_ready).await;
    }
    let ((clusters, name), (_, same)) = (home(admin, "one").await, home(admin, "two").await);
    assert_eq!(name, same, "they share it");
    match row.prefixes {
        Prefixes::Kept => {
            let first = enter(admin, "a", "one", wanted("foo-")).await;
            let second = enter(admin, "b", "two", wanted("bar-")).await;
            kept_to_its_prefix(&first, "foo-", "bar-").await;
            kept_to_its_prefix(&second, "bar-", "foo-").await;
            for (access, kubeconfig, namespace) in [("a", first, "foo-app"), ("b", second, "bar-app")] {
                let inside = Api::<ConfigMap>::namespaced(client_of(&kubeconfig).await, namespace);
                revoke(admin, access).await;
                until_refused(&inside).await;
            }
        }
        Prefixes::NotEnforced => {
            ask_for_access(admin, "a", "one", wanted("foo-")).await;
            let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
            let waits = |found: &AccessRequest| {
                let status = found.status.clone().unwrap_or_default();
                status.status == Some(Verdict::Pending) && status.reason == "PrefixNotEnforced"
            };
            let found = until(&access, "a", waits).await;
            assert_eq!(found.status.and_then(|status| status.access), None, "nobody gets in");
            revoke(admin, "a").await;
        }
    }
    for request in ["one", "two"] {
        requests.delete(request, &DeleteParams::default()).await.expect("it may be deleted");
        until_gone(&requests, request).await;
    }
    let _ = clusters.delete(&name, &DeleteParams::default()).await;
    until_gone(&clusters, &name).await;
}

/// What a tenant with that prefix asks for: to make namespaces, and to let others do the same.
fn wanted(prefix: &str) -> Value {
    let rule =
        |group: &str, kind: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [kind], "verbs": verbs});
    let rbac = "rbac.authorization.k8s.io";
    json!([
        {"rules": [rule("", "namespaces", &["get", "create", "delete"]), rule(rbac, "clusterroles", &["create", "delete"]),
            rule(rbac, "clusterrolebindings", &["create", "delete"])]},
        {"namespace": format!("{prefix}app"), "rules": [rule("", "configmaps", &["*"]),
            rule("", "serviceaccounts", &["create"]), rule("", "serviceaccounts/token", &["create"])]},
    ])
}

/// The tenant with one prefix, whose neighbour has the other.
async fn kept_to_its_prefix(kubeconfig: &str, own: &str, other: &str) {
    let tenant = client_of(kubeconfig).await;
    makes_only(&tenant, own, other, "b").await;
    let app = format!("{own}app");
    let maps = Api::<ConfigMap>::namespaced(tenant.clone(), &app);
    create(&maps, json!({"metadata": {"name": "m"}})).await;
    let elsewhere = Api::<ConfigMap>::namespaced(tenant.clone(), &format!("{own}b"));
    assert_eq!(code(elsewhere.list(&ListParams::default()).await), 403);

    // So is who acts for it in its namespaces, with rights that it gave.
    let accounts = Api::<ServiceAccount>::namespaced(tenant.clone(), &app);
    create(&accounts, json!({"metadata": {"name": "robot"}})).await;
    let (roles, bindings) = (Api::<ClusterRole>::all(tenant.clone()), Api::<ClusterRoleBinding>::all(tenant));
    let rules = json!([{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create", "delete"]}]);
    create(&roles, json!({"metadata": {"name": format!("{own}makes")}, "rules": rules})).await;
    let binding = json!({"metadata": {"name": format!("{own}makes")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": format!("{own}makes")},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": app}]});
    create(&bindings, binding).await;
    let token = accounts.create_token_request("robot", &PostParams::default(), &TokenRequest::default()).await;
    let token = token.expect("it may ask").status.and_then(|status| status.token).expect("a token");
    makes_only(&by_token(kubeconfig, &token).await, own, other, "c").await;
    for gone in [
        code(bindings.delete(&format!("{own}makes"), &DeleteParams::default()).await),
        code(roles.delete(&format!("{own}makes"), &DeleteParams::default()).await),
    ] {
        assert_eq!(gone, 200, "what bears its prefix is its own");
    }
}

/// Makes namespaces as may be made with that prefix, and none otherwise; takes away its own, and no other.
async fn makes_only(caller: &Client, own: &str, other: &str, rest: &str) {
    let namespaces = Api::<Namespace>::all(caller.clone());
    let name = |prefix: &str, rest: &str| format!("{prefix}{rest}");
    for (name, expect) in [
        (name(own, rest), 200),
        (name(other, rest), 403),
        (name("plain", ""), 403),
        (name(own.trim_end_matches('-'), ""), 403),
    ] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
        assert_eq!(code(namespaces.create(&PostParams::default(), &namespace).await), expect, "{name}");
    }
    for (name, expect) in [(name("default", ""), 403), (name(other, "app"), 403), (name(own, rest), 200)] {
        assert_eq!(code(namespaces.delete(&name, &DeleteParams::default()).await), expect, "{name}");
    }
}

/// Whether its status says all that a status says.
fn is_told_of(cluster: &Cluster) -> bool {
    let status = cluster.status.clone().unwrap_or_default();
    let types: Vec<String> = status.conditions.iter().map(|condition| condition.type_.clone()).collect();
    let both = ["ClusterHealthy", "Provisioned", "Ready", "Withdrawn"];
    status.phase.is_some()
        && status.kubernetes.is_some_and(|kubernetes| kubernetes.version.is_some())
        && both.iter().all(|wanted| types.iter().any(|found| found == wanted))
}

fn says(cluster: &Cluster, kind: &str) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

fn is_pending(request: &ClusterRequest, reason: &str) -> bool {
    let status = request.status.as_ref();
    status.is_some_and(|status| status.status == Some(Verdict::Pending) && status.reason == reason)
}

async fn ask(admin: &Client, name: &str, spec: Value) {
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": name}, "spec": spec});
    create(&Api::<ClusterRequest>::namespaced(admin.clone(), "team"), object).await;
}

/// The Cluster that a request was given.
async fn home(admin: &Client, request: &str) -> (Api<Cluster>, String) {
    let request = Api::<ClusterRequest>::namespaced(admin.clone(), "team").get(request).await.expect("the request");
    let noted = &request.annotations()["cluster.openmcp.cloud/cluster-name"];
    let (namespace, name) = noted.split_once('/').expect("a namespace and a name");
    (Api::namespaced(admin.clone(), namespace), name.to_owned())
}

async fn ask_for_access(admin: &Client, name: &str, request: &str, permissions: Value) {
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": name}, "spec": {"requestRef": {"name": request}, "permissions": permissions}});
    create(&access, object).await;
}

/// Access to the Cluster of a request; the text of its kubeconfig.
async fn enter(admin: &Client, name: &str, request: &str, permissions: Value) -> String {
    ask_for_access(admin, name, request, permissions).await;
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    let granted = until(&access, name, is_granted).await;
    let secret = granted.status.and_then(|status| status.access).expect("access").secret_ref.name;
    let secret = Api::<Secret>::namespaced(admin.clone(), "team").get(&secret).await.expect("the Secret");
    String::from_utf8(secret.data.expect("data")["kubeconfig"].0.clone()).expect("text")
}

async fn revoke(admin: &Client, name: &str) {
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    access.delete(name, &DeleteParams::default()).await.expect("it may be deleted");
    until_gone(&access, name).await;
}

/// Waits until a token is not taken any more: kube-apiserver remembers for ten seconds that it took one.
async fn until_refused(inside: &Api<ConfigMap>) {
    let begin = tokio::time::Instant::now();
    while code(inside.get("c").await) != 401 {
        assert!(begin.elapsed() < LIMIT, "the token still works");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
