//! Tenants of a cluster that is there are kept to their prefixes whatever somebody does to what keeps them, and get no
//! prefix that is somebody else's. Needs kube-apiserver and etcd (`cargo xtask beside`).

use std::time::Duration;

use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest, ClusterRequestGrant};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::access::is_granted;
use crate::existing::{SHARED, apply_example, ask, enter, kubernetes, labelled};
use crate::harness::{
    Folder, LIMIT, Up, client, client_of, code, create, impersonate, make_namespace, until, until_gone,
};
use crate::requests::is_ready;

const GUARD: &str = "allotment-prefixes";

/// Asks for a place with that prefix and for access to namespaces there; gives who has it.
async fn tenant(admin: &Client, name: &str, prefix: &str) -> Client {
    ask(admin, name, json!({"purposes": [SHARED], "prefix": prefix})).await;
    until(&Api::<ClusterRequest>::namespaced(admin.clone(), "team"), name, is_ready).await;
    client_of(&enter(admin, name, name, rights()).await).await
}

fn rights() -> Value {
    json!([{"rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create", "delete"]}]}])
}

/// The code of an attempt to make a namespace, which is not made.
async fn tries(caller: &Client, name: &str) -> u16 {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    code(Api::<Namespace>::all(caller.clone()).create(&dry, &namespace).await)
}

/// Asserts what a tenant may make, as of now.
async fn keeps_to(caller: &Client, prefix: &str, when: &str) {
    for (name, expect) in [(format!("{prefix}a"), 200), ("bar".to_owned(), 403), ("other-a".to_owned(), 403)] {
        assert_eq!(tries(caller, &name).await, expect, "{when}: {name} by who keeps to {prefix}");
    }
}

async fn until_code(caller: &Client, name: &str, expect: u16, when: &str) {
    let begin = tokio::time::Instant::now();
    loop {
        let got = tries(caller, name).await;
        if got == expect {
            return;
        }
        assert!(begin.elapsed() < LIMIT, "{when}: {name} is answered with {got}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn tenants_of_a_cluster_that_is_there_are_kept_to_prefixes_whatever_was_done_to_the_policy() {
    let folder = Folder::new();
    let (up, kubernetes) = tokio::join!(Up::start(&folder), kubernetes(&folder));
    let admin = client(&folder.kubeconfig()).await;
    let own = std::fs::read_to_string(kubernetes.kubeconfig()).expect("a kubeconfig");
    let inside = client_of(&own).await;
    make_namespace(&admin, "team").await;
    apply_example(&admin, &own).await;
    let first = tenant(&admin, "one", "one-").await;
    keeps_to(&first, "one-", "at first").await;

    // Whoever changes or deletes any of it is followed: it is back long before anybody looks by the clock.
    let policies = Api::<ValidatingAdmissionPolicy>::all(inside.clone());
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(inside.clone());
    let begin = tokio::time::Instant::now();
    policies.delete(GUARD, &DeleteParams::default()).await.expect("an administrator may");
    until(&policies, GUARD, |_| true).await;
    bindings.delete(GUARD, &DeleteParams::default()).await.expect("an administrator may");
    until(&bindings, GUARD, |_| true).await;
    let first_keeps_to_nothing = |policy: &ValidatingAdmissionPolicy| {
        let variables = policy.spec.iter().flat_map(|spec| spec.variables.iter().flatten());
        variables
            .into_iter()
            .any(|variable| variable.name.starts_with("accounts") && variable.expression.contains("'any'"))
    };
    let mut edited = policies.get(GUARD).await.expect("it is there");
    let spec = edited.spec.as_mut().expect("a spec");
    for variable in spec.variables.iter_mut().flatten().filter(|variable| variable.name.starts_with("accounts")) {
        variable.expression = variable.expression.replace("'one-'", "'any'");
    }
    assert!(first_keeps_to_nothing(&edited));
    policies.replace(GUARD, &PostParams::default(), &edited).await.expect("an administrator may");
    until(&policies, GUARD, |found| !first_keeps_to_nothing(found)).await;
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    until_code(&first, "bar", 403, "all is right again").await;
    let second = tenant(&admin, "two", "two-").await;
    keeps_to(&first, "one-", "changed by hand").await;
    keeps_to(&second, "two-", "changed by hand").await;

    // Deleted while nobody was there to see it, for so long that the server forgot all of it.
    up.kill();
    policies.delete(GUARD, &DeleteParams::default()).await.expect("an administrator may");
    bindings.delete(GUARD, &DeleteParams::default()).await.expect("an administrator may");
    until_code(&first, "bar", 200, "without a policy nobody is kept").await;
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let third = tenant(&admin, "three", "three-").await;
    for (caller, prefix) in [(&first, "one-"), (&second, "two-"), (&third, "three-")] {
        keeps_to(caller, prefix, "deleted while nobody looked").await;
    }

    // Left, and taken again: nothing that the server knew of the first time is in the way.
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    let grant = Api::<ClusterRequestGrant>::namespaced(admin.clone(), "team").get("one").await.expect("a Grant");
    let clusters = Api::<Cluster>::namespaced(admin.clone(), &grant.spec.cluster_ref.namespace);
    // What a tenant made there has rights in its own namespaces, and outside no longer: nothing keeps it to the prefix.
    make_namespace(&inside, "one-stays").await;
    let of_tenants = Api::<ClusterRoleBinding>::all(inside.clone());
    for (name, account) in [("one-robot", "one-stays"), ("robot", "kube-system")] {
        let binding = json!({"metadata": {"name": name, "finalizers": ["example.com/stay"]},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": account}]});
        create(&of_tenants, binding).await;
    }
    let robot = impersonate(&own, "system:serviceaccount:one-stays:robot").await;
    assert_eq!(
        (tries(&robot, "one-x").await, tries(&robot, "bar").await),
        (200, 403),
        "it is kept while the rule is there"
    );
    for name in ["one", "two", "three"] {
        requests.delete(name, &DeleteParams::default()).await.expect("it can be deleted");
        until_gone(&requests, name).await;
    }
    clusters.delete(&grant.spec.cluster_ref.name, &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&clusters, &grant.spec.cluster_ref.name).await;
    until_gone(&of_tenants, "one-robot").await;
    until_code(&robot, "one-x", 403, "left").await;
    until_code(&robot, "bar", 403, "left").await;
    of_tenants.get("robot").await.expect("what is not a tenant's stays");
    let events = Api::<Event>::namespaced(admin.clone(), &grant.spec.cluster_ref.namespace);
    let told =
        events.list(&ListParams::default()).await.expect("Events").items.into_iter().filter_map(|event| event.message);
    let told: Vec<_> = told.filter(|message| message.contains("one-robot")).collect();
    assert!(told.iter().any(|message| message.contains("one-stays")), "{told:?}");
    let namespaces = Api::<Namespace>::all(inside.clone());
    namespaces.delete("one-stays", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&namespaces, "one-stays").await;
    until_gone(&policies, GUARD).await;
    until_gone(&bindings, GUARD).await;
    until_gone(&Api::<Namespace>::all(inside.clone()), "allot-access").await;
    let again = tenant(&admin, "again", "one-").await;
    keeps_to(&again, "one-", "taken again").await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn a_cluster_is_kept_by_one_platform_and_another_is_told_so() {
    let (folder, other) = (Folder::new(), Folder::new());
    let (_up, _other_up, kubernetes) = tokio::join!(Up::start(&folder), Up::start(&other), kubernetes(&folder));
    let (admin, stranger) = (client(&folder.kubeconfig()).await, client(&other.kubeconfig()).await);
    let own = std::fs::read_to_string(kubernetes.kubeconfig()).expect("a kubeconfig");
    let inside = client_of(&own).await;
    for admin in [&admin, &stranger] {
        make_namespace(admin, "team").await;
    }
    apply_example(&admin, &own).await;
    let first = tenant(&admin, "one", "one-").await;
    apply_example(&stranger, &own).await;
    ask(&stranger, "theirs", json!({"purposes": [SHARED], "prefix": "one-"})).await;
    let theirs = Api::<ClusterRequest>::namespaced(stranger.clone(), "team");
    let told = until(&theirs, "theirs", |found: &ClusterRequest| {
        found.status.as_ref().is_some_and(|status| !status.conditions.is_empty())
    })
    .await;
    assert!(!is_ready(&told), "it is somebody else's: {told:?}");
    let policies = Api::<ValidatingAdmissionPolicy>::all(inside.clone());
    let before = policies.get(GUARD).await.expect("it is there").metadata.resource_version;
    let second = tenant(&admin, "two", "two-").await;
    keeps_to(&first, "one-", "beside another platform").await;
    keeps_to(&second, "two-", "beside another platform").await;
    assert_ne!(policies.get(GUARD).await.expect("it is there").metadata.resource_version, before);
    assert!(!is_ready(&theirs.get("theirs").await.expect("there")));
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn what_was_in_a_cluster_before_comes_under_nobodys_prefix() {
    let folder = Folder::new();
    let (_up, kubernetes) = tokio::join!(Up::start(&folder), kubernetes(&folder));
    let admin = client(&folder.kubeconfig()).await;
    let own = std::fs::read_to_string(kubernetes.kubeconfig()).expect("a kubeconfig");
    let inside = client_of(&own).await;
    make_namespace(&admin, "team").await;
    make_namespace(&inside, "cert-manager").await;
    create(&Api::<ServiceAccount>::namespaced(inside.clone(), "cert-manager"), json!({"metadata": {"name": "it"}}))
        .await;
    create(&Api::<ConfigMap>::namespaced(inside.clone(), "cert-manager"), json!({"metadata": {"name": "m"}})).await;
    let all = json!({"metadata": {"name": "it"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "it", "namespace": "cert-manager"}]});
    create(&Api::<ClusterRoleBinding>::all(inside.clone()), all).await;
    apply_example(&admin, &own).await;

    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    ask(&admin, "one", json!({"purposes": [SHARED], "prefix": "cert-"})).await;
    until(&requests, "one", is_ready).await;
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    let wanted = json!([{"namespace": "cert-manager",
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}]);
    let asked = |name: &str| {
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
            "metadata": {"name": name}, "spec": {"requestRef": {"name": "one"}, "permissions": wanted}})
    };
    create(&access, asked("one")).await;
    let refused = until(&access, "one", |found: &AccessRequest| {
        found.status.as_ref().is_some_and(|status| status.reason == "PrefixTaken")
    })
    .await;
    let words = refused.status.expect("a status").message;
    assert!(words.contains("kind Namespace") && words.contains("ask with another prefix"), "{words}");
    assert_eq!(labelled(&inside).await, 0, "nothing was made for it");

    // Somebody else's access puts the rule in force, and the accounts of what was there are not kept to that prefix.
    let other = tenant(&admin, "other", "foo-").await;
    keeps_to(&other, "foo-", "beside a prefix that is taken").await;
    let it = impersonate(&own, "system:serviceaccount:cert-manager:it").await;
    assert_eq!(tries(&it, "anything").await, 200, "it is no tenant's");

    // Who asks again is given another prefix, and access.
    requests.delete("one", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&requests, "one").await;
    access.delete("one", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&access, "one").await;
    ask(&admin, "one", json!({"purposes": [SHARED], "prefix": "cert-"})).await;
    until(&requests, "one", is_ready).await;
    let grant = Api::<ClusterRequestGrant>::namespaced(admin.clone(), "team").get("one").await.expect("a Grant");
    assert_ne!(grant.spec.prefix, "cert-");
    let again = client_of(&enter(&admin, "again", "one", rights()).await).await;
    keeps_to(&again, &grant.spec.prefix, "by another prefix").await;
    assert!(is_granted(&access.get("again").await.expect("there")));

    // The one that was there goes its way as before; what it left is nobody's either.
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let namespaces = Api::<Namespace>::all(it);
    assert_eq!(code(namespaces.patch("cert-manager", &PatchParams::default(), &label).await), 200);
    assert_eq!(code(Api::<Namespace>::all(again).delete("cert-manager", &DeleteParams::default()).await), 403);
}
