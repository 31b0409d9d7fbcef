//! Provider `existing`: Kubernetes' own API server, taken over the network as a Cluster, used, and left. Needs
//! kube-apiserver and etcd (`cargo xtask beside`).

use std::path::PathBuf;

use allotment_api::reasons::Verdict;
use allotment_api::requests::{AccessRequest, Cluster, ClusterProvider, ClusterRequest, ExistingConfig};
use allotment_machinery::yaml;
use allotment_testkit::kubernetes::{Kubernetes, Options};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::access::is_granted;
use crate::harness::{Folder, LIMIT, Up, client, client_of, code, create, make_namespace, until, until_gone};
use crate::requests::is_ready;

/// What the documents say to apply.
const EXAMPLE: &str = include_str!("../../../../examples/existing.yaml");
pub(crate) const SHARED: &str = "team-workload";

/// Starts the cluster that is there.
pub(crate) async fn kubernetes(folder: &Folder) -> Kubernetes {
    kubernetes_with(folder, Vec::new()).await
}

/// The same, with more flags of its API server.
pub(crate) async fn kubernetes_with(folder: &Folder, flags: Vec<String>) -> Kubernetes {
    let programs = std::env::var_os("ALLOTMENT_KUBERNETES").map(PathBuf::from);
    let options = Options {
        programs: programs.expect("ALLOTMENT_KUBERNETES names the folder with kube-apiserver and etcd"),
        dir: folder.0.join("existing"),
        controllers: true,
        quotas: false,
        durable: false,
        flags,
    };
    Kubernetes::start(&options).await.expect("Kubernetes starts")
}

/// Applies the example, with that kubeconfig in its Secret.
pub(crate) async fn apply_example(admin: &Client, kubeconfig: &str) {
    for document in yaml::parse_stream(EXAMPLE).expect("YAML") {
        let mut object: Value = serde_json::from_slice(&document.value.to_vec()).expect("JSON");
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        match kind.as_str() {
            "Secret" => {
                object["stringData"]["kubeconfig"] = kubeconfig.into();
                create(&Api::<Secret>::namespaced(admin.clone(), "allot-planes"), object).await;
            }
            "ClusterProvider" => drop(create(&Api::<ClusterProvider>::all(admin.clone()), object).await),
            "ProviderConfig" => drop(create(&Api::<ExistingConfig>::all(admin.clone()), object).await),
            "Purpose" => {
                create(&Api::<allotment_api::requests::Purpose>::all(admin.clone()), object).await;
            }
            other => panic!("the example has a {other}, which nobody tests"),
        }
    }
}

fn says(provider: &ClusterProvider, kind: &str, reason: &str) -> bool {
    let conditions = provider.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.type_ == kind && condition.reason == reason)
}

fn cluster_says(cluster: &Cluster, kind: &str, status: &str, reason: &str) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.into_iter();
    conditions.any(|said| (said.type_.as_str(), said.status.as_str(), said.reason.as_str()) == (kind, status, reason))
}

pub(crate) async fn ask(admin: &Client, name: &str, spec: Value) {
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": name}, "spec": spec});
    create(&requests, object).await;
}

/// Access to what `request` was given; the text of its kubeconfig.
pub(crate) async fn enter(admin: &Client, name: &str, request: &str, permissions: Value) -> String {
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": name}, "spec": {"requestRef": {"name": request}, "permissions": permissions}});
    create(&access, object).await;
    let granted = until(&access, name, is_granted).await;
    let secret = granted.status.and_then(|status| status.access).expect("access").secret_ref.name;
    let secret = Api::<Secret>::namespaced(admin.clone(), "team").get(&secret).await.expect("the Secret");
    String::from_utf8(secret.data.expect("data")["kubeconfig"].0.clone()).expect("text")
}

/// Waits until a token is refused: kube-apiserver remembers for ten seconds that it took one.
async fn until_unknown(kubeconfig: &str) {
    let namespaces = Api::<Namespace>::all(client_of(kubeconfig).await);
    let begin = tokio::time::Instant::now();
    loop {
        let answer = code(namespaces.get("default").await);
        if answer == 401 {
            return;
        }
        assert!(begin.elapsed() < LIMIT, "the token still works: {answer}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// How many objects bear the label of an AccessRequest.
pub(crate) async fn labelled(inside: &Client) -> usize {
    let of_access = ListParams::default().labels("cluster.openmcp.cloud/access-request");
    let accounts = Api::<ServiceAccount>::all(inside.clone()).list(&of_access).await.expect("a list").items.len();
    let roles = Api::<Role>::all(inside.clone()).list(&of_access).await.expect("a list").items.len();
    let bindings = Api::<RoleBinding>::all(inside.clone()).list(&of_access).await.expect("a list").items.len();
    let wide = Api::<ClusterRole>::all(inside.clone()).list(&of_access).await.expect("a list").items.len();
    let bound = Api::<ClusterRoleBinding>::all(inside.clone()).list(&of_access).await.expect("a list").items.len();
    accounts + roles + bindings + wide + bound
}

/// A tenant that may make namespaces makes those with its prefix, and so does an account in one of them.
async fn kept_to_its_prefix(inside: &Client, kubeconfig: &str, prefix: &str) {
    let tenant = client_of(kubeconfig).await;
    let (named, params) = (|name: &str| json!({"metadata": {"name": name}}), PostParams::default());
    let make = |client: &Client, name: String| {
        let (namespaces, params) = (Api::<Namespace>::all(client.clone()), params.clone());
        let namespace = serde_json::from_value(named(&name)).expect("a namespace");
        async move { namespaces.create(&params, &namespace).await }
    };
    assert_eq!(code(make(&tenant, format!("{prefix}a")).await), 200);
    let refused = make(&tenant, "bar".to_owned()).await.expect_err("it is not the tenant's").to_string();
    assert!(refused.contains(&format!("have to begin with \"{prefix}\"")) && refused.contains("team/one"), "{refused}");
    let home = format!("{prefix}a");
    create(&Api::<ServiceAccount>::namespaced(inside.clone(), &home), named("robot")).await;
    let binding = json!({"metadata": {"name": "robot"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": home}]});
    create(&Api::<ClusterRoleBinding>::all(inside.clone()), binding).await;
    let accounts = Api::<ServiceAccount>::namespaced(inside.clone(), &home);
    let token = accounts.create_token_request("robot", &params, &TokenRequest::default()).await.expect("a token");
    let mut own = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let token = token.status.and_then(|status| status.token).expect("a token");
    for user in &mut own.auth_infos {
        user.auth_info = Some(AuthInfo { token: Some(token.clone().into()), ..AuthInfo::default() });
    }
    let robot = client_of(&serde_json::to_string(&own).expect("JSON")).await;
    assert_eq!(code(make(&robot, format!("{prefix}b")).await), 200);
    assert_eq!(code(make(&robot, "bar".to_owned()).await), 403);
    assert_eq!(code(Api::<Namespace>::all(robot.clone()).delete("default", &DeleteParams::default()).await), 403);
    assert_eq!(code(make(inside, "bar".to_owned()).await), 200, "an administrator is no tenant");
    let bar = Api::<Namespace>::all(inside.clone());
    bar.delete("bar", &DeleteParams::default()).await.expect("it can be deleted");
    Api::<ClusterRoleBinding>::all(inside.clone()).delete("robot", &DeleteParams::default()).await.expect("it goes");

    // Who makes it toothless gives nobody a free hand for long.
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(inside.clone());
    let audit = Patch::Merge(json!({"spec": {"validationActions": ["Audit"]}}));
    bindings.patch("allotment-prefixes", &PatchParams::default(), &audit).await.expect("an administrator may");
    let denies = |found: &ValidatingAdmissionPolicyBinding| found.spec.validation_actions == ["Deny"];
    until(&bindings, "allotment-prefixes", denies).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn a_cluster_that_is_there_is_taken_used_lost_for_a_while_and_left_as_it_was() {
    let folder = Folder::new();
    let (up, mut kubernetes) = tokio::join!(Up::start(&folder), kubernetes(&folder));
    let admin = client(&folder.kubeconfig()).await;
    let own = std::fs::read_to_string(kubernetes.kubeconfig()).expect("a kubeconfig");
    let inside = client_of(&own).await;
    make_namespace(&admin, "team").await;
    // Somebody else's, which stays.
    create(&Api::<ConfigMap>::namespaced(inside.clone(), "default"), json!({"metadata": {"name": "theirs"}})).await;

    // The kubeconfig is missing, then wrong, then right; each time it is told what to do.
    apply_example(&admin, "no kubeconfig").await;
    let providers = Api::<ClusterProvider>::all(admin.clone());
    let provider = until(&providers, "existing", |found| says(found, "ConfigsUsable", "ConfigNotUsable")).await;
    let status = provider.status.expect("a status");
    assert!(status.ready, "{status:?}");
    let told = status.conditions.iter().find(|condition| condition.type_ == "ConfigsUsable").expect("told");
    assert!(told.message.contains("Secret allot-planes/production"), "{}", told.message);
    let secrets = Api::<Secret>::namespaced(admin.clone(), "allot-planes");
    let right = Patch::Merge(json!({"stringData": {"kubeconfig": own}}));
    secrets.patch("production", &PatchParams::default(), &right).await.expect("it can be changed");
    let provider = until(&providers, "existing", |found| says(found, "ConfigsUsable", "AllGood")).await;
    let profile = provider.status.expect("a status").profiles.remove(0);
    assert_eq!((profile.name.as_str(), profile.max_clusters), ("production", Some(1)));
    assert_eq!(profile.supported_versions.first().map(|offered| offered.version.as_str()), Some("1.36.3"));
    let traits: Vec<_> = profile.supported_traits.iter().filter_map(|known| known.key()).collect();
    assert_eq!(traits, ["cluster.openmcp.cloud/workerless", "infrastructure/vendor/example"]);

    // Two tenants share it.
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    for (name, prefix) in [("one", "foo-"), ("two", "bar-")] {
        ask(&admin, name, json!({"purposes": [SHARED], "prefix": prefix})).await;
        until(&requests, name, is_ready).await;
    }
    // There is no second of it: who wants one of their own waits.
    ask(&admin, "own", json!({"purposes": [SHARED], "dedicated": true})).await;
    let waits = until(&requests, "own", |found: &ClusterRequest| {
        found.status.as_ref().is_some_and(|status| status.status == Some(Verdict::Pending))
    })
    .await;
    let status = waits.status.expect("a status");
    assert_eq!(status.reason, "MaxClustersReached", "{status:?}");
    assert!(
        status.findings.iter().any(|finding| finding.reason == "MaxClustersReached" && finding.profile == "production")
    );

    let rule =
        |groups: &[&str], kind: &str, verbs: &[&str]| json!({"apiGroups": groups, "resources": [kind], "verbs": verbs});
    let first = enter(
        &admin,
        "a",
        "one",
        json!([{"rules": [rule(&[""], "namespaces", &["get", "create"])]},
            {"namespace": "foo-app", "rules": [rule(&[""], "configmaps", &["*"])]}]),
    )
    .await;
    assert!(first.contains(&kubernetes.target().address.to_string()), "it leads to the cluster itself: {first}");
    let tenant = client_of(&first).await;
    let maps = Api::<ConfigMap>::namespaced(tenant.clone(), "foo-app");
    create(&maps, json!({"metadata": {"name": "m"}})).await;
    let namespaces = Api::<Namespace>::all(tenant.clone());
    assert_eq!(code(namespaces.get("default").await), 200);
    assert_eq!(code(namespaces.delete("default", &DeleteParams::default()).await), 403);
    assert_eq!(code(Api::<ConfigMap>::namespaced(tenant.clone(), "default").get("theirs").await), 403);
    assert_eq!(code(Api::<Secret>::all(tenant.clone()).list(&ListParams::default()).await), 403);
    // Its server keeps it, and whoever it lets in, to its prefix; whoever has the cluster is kept to nothing.
    kept_to_its_prefix(&inside, &first, "foo-").await;
    let second = enter(&admin, "b", "two", json!([{"rules": [rule(&[""], "namespaces", &["get"])]}])).await;

    // Revoked: its token is unknown, its neighbour's is not.
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    access.delete("a", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&access, "a").await;
    until_unknown(&first).await;
    assert_eq!(code(Api::<Namespace>::all(client_of(&second).await).get("default").await), 200);

    // It dies: its Cluster says so, and others are served as before. It comes back.
    let cluster = requests.get("one").await.expect("there");
    let noted = cluster.annotations()["cluster.openmcp.cloud/cluster-name"].clone();
    let (home, name) = noted.split_once('/').expect("a namespace and a name");
    let clusters = Api::<Cluster>::namespaced(admin.clone(), home);
    kubernetes.kill_apiserver();
    until(&clusters, name, |found| cluster_says(found, "ClusterHealthy", "False", "Unreachable")).await;
    ask(&admin, "elsewhere", json!({"purposes": ["mcp"]})).await;
    until(&requests, "elsewhere", is_ready).await;
    access.delete("b", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&access, "b").await;
    let left =
        until(&clusters, name, |found| found.status.as_ref().is_some_and(|status| !status.leftovers.is_empty())).await;
    assert_eq!(left.status.expect("a status").leftovers[0].access_request, "team/b");
    kubernetes.restart_apiserver().await.expect("it comes back");
    until(&clusters, name, |found| cluster_says(found, "ClusterHealthy", "True", "AllGood")).await;
    until(&clusters, name, |found| found.status.as_ref().is_some_and(|status| status.leftovers.is_empty())).await;
    until_unknown(&second).await;

    // The platform forgets all it had in memory, and goes on.
    up.kill();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let third = enter(&admin, "c", "two", json!([{"rules": [rule(&[""], "namespaces", &["get"])]}])).await;

    // Deleting the Cluster takes the platform's objects out and leaves the rest.
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    for name in ["one", "two", "own"] {
        requests.delete(name, &DeleteParams::default()).await.expect("it can be deleted");
        until_gone(&requests, name).await;
    }
    let clusters = Api::<Cluster>::namespaced(admin.clone(), home);
    clusters.delete(name, &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&clusters, name).await;
    until_unknown(&third).await;
    assert_eq!(labelled(&inside).await, 0, "something of the platform's is left");
    until_gone(&Api::<Namespace>::all(inside.clone()), "allot-access").await;
    let policies = Api::<ValidatingAdmissionPolicy>::all(inside.clone());
    assert!(policies.list(&ListParams::default()).await.expect("a list").items.is_empty());
    assert_eq!(code(Api::<ConfigMap>::namespaced(inside.clone(), "default").get("theirs").await), 200);
    assert_eq!(
        code(Api::<ConfigMap>::namespaced(inside.clone(), "foo-app").get("m").await),
        200,
        "what tenants made stays"
    );
    let records = Api::<Secret>::namespaced(admin.clone(), "allot-planes").list(&ListParams::default()).await;
    let records = records.expect("a list").items;
    assert!(records.iter().all(|secret| !secret.name_any().starts_with("existing-")), "its record is left");

    // And it can be taken again, by somebody who has all of it.
    ask(&admin, "mine", json!({"purposes": [SHARED], "dedicated": true})).await;
    until(&requests, "mine", is_ready).await;
    let fourth = enter(&admin, "d", "mine", json!([{"rules": [rule(&["*"], "*", &["*"])]}])).await;
    make_namespace(&client_of(&fourth).await, "anything").await;
}
