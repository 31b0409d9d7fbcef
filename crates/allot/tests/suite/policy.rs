//! The rule of prefixes as Kubernetes' own API server keeps it, by the objects that `core` says for it, is the rule that
//! logical clusters keep: one table of cases, put to both. Needs kube-apiserver and etcd (`cargo xtask beside`).

use std::sync::Arc;

use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest};
use allotment_core::access::guard::{Policy, in_force, probe, table};
use allotment_core::access::{NamesAllowed, names_allowed};
use allotment_core::requests::{Object, Snapshot, owns};
use allotment_core::write::ObjectKey;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::harness::{Folder, LIMIT, client, code, create, impersonate, make_namespace};

/// Who asks: as many kinds of callers as the rule tells apart.
const CALLERS: [&str; 14] = [
    "system:serviceaccount:allot-access:access-u-mine",
    "system:serviceaccount:allot-access:access-u-other",
    "system:serviceaccount:allot-access:access-u-direct",
    "system:serviceaccount:allot-access:access-u-lost",
    "system:serviceaccount:allot-access:default",
    "system:serviceaccount:foo-app:default",
    "system:serviceaccount:foo-:x",
    "system:serviceaccount:bar-app:default",
    "system:serviceaccount:foo:default",
    "system:serviceaccount:kube-system:x",
    "system:serviceaccount:fooo-app:default",
    // Of a tenant whose prefix nobody has looked for, and of what bears it.
    "system:serviceaccount:allot-access:access-u-early",
    "system:serviceaccount:cert-manager:it",
    "somebody",
];
/// What they ask about.
const NAMES: [&str; 5] = ["foo-app", "bar-app", "foo", "food", "kube-public"];

/// Asks for a certificate of user `somebody`; whose key it is does not matter.
const CERTIFICATE_REQUEST: &str = "\
    LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlITk1IVUNBUUF3RXpFUk1BOEdBMVVFQXd3SWMyOXRaV0p2Wkhr\
    d1dUQVRCZ2NxaGtqT1BRSUJCZ2dxaGtqTwpQUU1CQndOQ0FBVHozc0YzNG96WUs0dmZMNklTQk9qQnRaTDVlbnh5ZFNuUDJmZDMy\
    WG1xdi9SMWQzYkNDUENvCkN1VnhFWnBhZnhYWnl1K3c5ZU51UlV0U1BudE9Pemh3b0FBd0NnWUlLb1pJemowRUF3SURTQUF3UlFJ\
    aEFNZ2sKRjRERzFyYWMrWEt4NnNHeDRMazlFdTJYOExxK1FrSjM4RGZSZUlDQUFpQk5mT3cyU0l3K0F5K2RHSnZlTy9pUwpIck1U\
    a2JlbTN1aytHYjcycXRDVVJ3PT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

fn read<T: serde::de::DeserializeOwned>(object: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(object).expect("an object of ours"))
}

/// A shared Cluster with a tenant of each kind.
fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::new();
    let tenant = |name: &str, prefix: &str, released: bool| json!({"requestUID": format!("u-r-{name}"), "namespace": "team", "name": name, "prefix": prefix, "released": released});
    let version = "cluster.openmcp.cloud/v1alpha1";
    snapshot.apply(Object::Cluster(read::<Cluster>(
        json!({"apiVersion": version, "kind": "Cluster", "metadata": {"name": "c", "namespace": "n", "uid": "here"},
        "spec": {"clusterProviderRef": {"name": "p", "profile": "p"}, "kubernetes": {}, "purposes": [], "dedicated": false,
            "tenants": [tenant("a", "foo-", false), tenant("b", "baz-", false), tenant("gone", "bar-", true),
                tenant("r", "kube-", false),
                {"requestUID": "u-r-new", "namespace": "team", "name": "new", "prefix": "cert-", "unseen": true}]}}),
    )));
    for name in ["a", "b", "new"] {
        snapshot.apply(Object::Request(read::<ClusterRequest>(json!({"apiVersion": version, "kind": "ClusterRequest",
            "metadata": {"name": name, "namespace": "team", "uid": format!("u-r-{name}")}, "spec": {"purposes": ["w"]}}))));
    }
    for (name, reference) in [
        ("mine", json!({"requestRef": {"name": "a"}})),
        ("other", json!({"requestRef": {"name": "b"}})),
        ("lost", json!({"requestRef": {"name": "gone"}})),
        ("early", json!({"requestRef": {"name": "new"}})),
        ("direct", json!({"clusterRef": {"name": "c", "namespace": "n"}})),
    ] {
        let mut spec = json!({"permissions": []});
        spec.as_object_mut().expect("an object").extend(reference.as_object().expect("an object").clone());
        let noted = json!({"cluster.openmcp.cloud/live-in": "here", "cluster.openmcp.cloud/live-in-name": "n/c"});
        snapshot.apply(Object::Access(read::<AccessRequest>(json!({"apiVersion": version, "kind": "AccessRequest",
            "metadata": {"name": name, "namespace": "team", "uid": format!("u-{name}"), "annotations": noted},
            "spec": spec}))));
    }
    snapshot
}

/// Puts an object there.
async fn put(admin: &Client, object: &Value) -> DynamicObject {
    let text = |member: &str| object[member].as_str().expect("it says what it is");
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let mut kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")));
    if kind.kind.ends_with("Policy") {
        kind.plural = "validatingadmissionpolicies".to_owned();
    }
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(admin.clone(), namespace, &kind),
        None => Api::all_with(admin.clone(), &kind),
    };
    let name = object["metadata"]["name"].as_str().expect("a name");
    api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.expect("it is accepted")
}

/// Waits until the server says that it judges by the policy with that stamp.
async fn until_in_force(admin: &Client, stamp: &str) {
    let probe: Namespace = serde_json::from_value(probe()).expect("a namespace");
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let begin = tokio::time::Instant::now();
    loop {
        let answer = Api::<Namespace>::all(admin.clone()).create(&params, &probe).await;
        let said = match answer {
            Err(kube::Error::Api(status)) => status.message,
            other => format!("{other:?}"),
        };
        if in_force(&said) == Some(stamp) {
            return;
        }
        assert!(begin.elapsed() < LIMIT, "it is not in force: {said}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// An object of RBAC that a tenant with prefix `foo-` writes under a name of its own.
pub(crate) struct Given {
    what: &'static str,
    object: Value,
    allowed: bool,
}

/// Rights that are given outside namespaces, and whether a tenant with prefix `foo-` may.
pub(crate) fn given() -> Vec<Given> {
    let account = |namespace: &str| json!({"kind": "ServiceAccount", "name": "x", "namespace": namespace});
    let named = |kind: &str, name: &str| json!({"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name});
    let binding = |what, subjects: Value, allowed| Given {
        what,
        object: json!({"metadata": {"name": "foo-given"}, "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "foo-role"}}),
        allowed,
    };
    let role = |label: &'static str, allowed| Given {
        what: label,
        object: json!({"metadata": {"name": "foo-given", "labels": {label: "true"}}, "rules": []}),
        allowed,
    };
    vec![
        binding("to nobody", json!([]), true),
        binding("to an account", json!([account("foo-app")]), true),
        binding("to two", json!([account("foo-app"), account("foo-")]), true),
        binding("to the accounts of a namespace", json!([named("Group", "system:serviceaccounts:foo-app")]), true),
        binding("to anonymous", json!([named("User", "system:anonymous")]), false),
        binding("to somebody", json!([named("User", "somebody")]), false),
        binding("to an account by its user name", json!([named("User", "system:serviceaccount:foo-app:x")]), false),
        binding("to a group", json!([named("Group", "system:unauthenticated")]), false),
        binding("to a group by that prefix", json!([named("Group", "foo-people")]), false),
        binding("to all accounts", json!([named("Group", "system:serviceaccounts")]), false),
        binding("to accounts of others", json!([named("Group", "system:serviceaccounts:bar-app")]), false),
        binding("to accounts of a like namespace", json!([named("Group", "system:serviceaccounts:foo")]), false),
        binding("to an account of a neighbour", json!([account("bar-app")]), false),
        binding("to an account of nobody", json!([account("default")]), false),
        binding("to one of a like namespace", json!([account("fooo-app")]), false),
        binding("to an identity of the platform", json!([account("allot-access")]), false),
        binding("to a stranger too", json!([account("foo-app"), named("User", "somebody")]), false),
        role("x", true),
        role("rbac.authorization.k8s.io/other", true),
        role("rbac.authorization.k8s.io/aggregate-to-foo-view", true),
        role("rbac.authorization.k8s.io/aggregate-to-view", false),
        role("rbac.authorization.k8s.io/aggregate-to-bar-view", false),
        role("example.com/aggregate-to-monitoring", false),
        role("aggregate-to-admin", false),
    ]
}

/// Gives rights by those objects: made, and put in place of one that is right. Nothing but the rule refuses.
pub(crate) async fn give(caller: &Client, admin: &Client, prefix: Option<&str>) {
    for Given { what, object, allowed } in given() {
        let expect = match prefix {
            None => 200,
            Some("foo-") if allowed => 200,
            Some(_) => 403,
        };
        if object.get("roleRef").is_some() {
            let object = serde_json::from_value(object).expect("a binding");
            put_in_place::<ClusterRoleBinding>((caller, admin), object, |object| object.subjects = None, what, expect)
                .await;
        } else {
            let object = serde_json::from_value(object).expect("a role");
            let plain = |object: &mut ClusterRole| object.metadata.labels = None;
            put_in_place::<ClusterRole>((caller, admin), object, plain, what, expect).await;
        }
    }
}

/// Makes the object, and changes a plain one to it.
async fn put_in_place<K>((caller, admin): (&Client, &Client), object: K, plain: fn(&mut K), what: &str, expect: u16)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let (params, gone) = (PostParams::default(), DeleteParams::default());
    let (theirs, all) = (Api::<K>::all(caller.clone()), Api::<K>::all(admin.clone()));
    let name = object.meta().name.clone().expect("a name");
    let made = theirs.create(&params, &object).await;
    if let Err(kube::Error::Api(status)) = &made {
        assert!(status.message.contains("this cluster is shared"), "{what}: {status:?}");
    }
    assert_eq!(code(made), expect, "{what}: create");
    let mut before = object.clone();
    plain(&mut before);
    if expect == 200 {
        all.delete(&name, &gone).await.expect("it can be deleted");
    }
    all.create(&params, &before).await.expect("an administrator may");
    let change = Patch::Merge(serde_json::to_value(&object).expect("JSON"));
    assert_eq!(code(theirs.patch(&name, &PatchParams::default(), &change).await), expect, "{what}: patch");
    all.delete(&name, &gone).await.expect("it can be deleted");
}

/// Everything that is tried with a name: what it is called, and the code of the answer.
async fn tries(caller: &Client, name: &str) -> Vec<(&'static str, u16)> {
    let (dry, change) = (PostParams { dry_run: true, ..PostParams::default() }, PatchParams::default().dry_run());
    let gone = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let labels = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    let status = Patch::Merge(json!({"status": {"phase": "Active"}}));
    let namespace = |metadata: Value| serde_json::from_value::<Namespace>(json!({"metadata": metadata})).expect("one");
    let role = |metadata: Value| serde_json::from_value::<ClusterRole>(json!({"metadata": metadata})).expect("one");
    let (namespaces, roles) = (Api::<Namespace>::all(caller.clone()), Api::<ClusterRole>::all(caller.clone()));
    // The group is a part of a definition's name, and its end.
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": format!("{name}.example.com")}, "spec": {"group": "example.com", "scope": "Cluster",
            "names": {"plural": name, "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}}))
    .expect("a definition");
    let definitions = Api::<CustomResourceDefinition>::all(caller.clone());
    let whole = namespaces.get(name).await.expect("it is there");
    let finalize = http::Request::put(format!("/api/v1/namespaces/{name}/finalize?dryRun=All"))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&whole).expect("JSON"))
        .expect("a request");
    let own = ListParams::default().labels(&format!("name={name}"));
    vec![
        ("create", code(roles.create(&dry, &role(json!({"name": format!("{name}-1")}))).await)),
        ("generate", code(namespaces.create(&dry, &namespace(json!({"generateName": format!("{name}-")}))).await)),
        ("define", code(definitions.create(&dry, &definition).await)),
        ("patch", code(namespaces.patch(name, &change, &labels).await)),
        ("apply", code(roles.patch(&format!("{name}-2"), &PatchParams::apply("t").dry_run(), &Patch::Apply(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": format!("{name}-2")}})))
            .await)),
        ("status", code(namespaces.patch_status(name, &change, &status).await)),
        ("finalize", code(caller.request::<Value>(finalize).await)),
        ("delete", code(roles.delete(name, &gone).await)),
        ("delete collection", code(roles.delete_collection(&gone, &own).await)),
    ]
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn kube_apiserver_keeps_the_rule_of_prefixes_as_logical_clusters_do() {
    let folder = Folder::new();
    folder.kubernetes().await;
    let admin = client(&folder.kubeconfig()).await;
    // Everybody may do everything, so that nothing but the rule refuses.
    let all = json!({"metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}]});
    create(&Api::<ClusterRoleBinding>::all(admin.clone()), all).await;
    make_namespace(&admin, "allot-access").await;
    for name in NAMES {
        let labels = json!({"metadata": {"name": name, "labels": {"name": name}}});
        create(&Api::<ClusterRole>::all(admin.clone()), labels).await;
        if name != "kube-public" {
            make_namespace(&admin, name).await;
        }
    }
    let (snapshot, key) = (snapshot(), ObjectKey::new("n", "c"));
    let table = table(&snapshot, &key, "here").table().expect("it is shared");
    for object in (Policy { table: &table, stamp: "first", holder: "test" }).objects() {
        let stored = put(&admin, &object).await;
        // Else each look would write it again.
        assert_eq!(stored.data["spec"], object["spec"], "the server adds something of its own");
    }
    until_in_force(&admin, "first").await;

    let own = std::fs::read_to_string(folder.kubeconfig()).expect("a kubeconfig");
    for user in CALLERS {
        let caller = impersonate(&own, user).await;
        let allowed = names_allowed(&snapshot, &key, "here", user);
        for name in NAMES {
            let expect = match &allowed {
                NamesAllowed::Any => 200,
                NamesAllowed::Prefix { prefix, .. } if owns(prefix, name) => 200,
                NamesAllowed::Prefix { .. } | NamesAllowed::Unknown => 403,
            };
            for (what, code) in tries(&caller, name).await {
                // A generated name, and one with an addition, may begin with a prefix that the name alone does not.
                let begins = |prefix: &str| owns(prefix, &format!("{name}-"));
                let longer = matches!(&allowed, NamesAllowed::Prefix { prefix, .. } if begins(prefix));
                let expect = if longer && matches!(what, "create" | "generate" | "apply") { 200 } else { expect };
                assert_eq!(code, expect, "{user}: {what} {name}");
            }
        }
        let review: SelfSubjectAccessReview =
            serde_json::from_value(json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}))
                .expect("one");
        let reviews = Api::<SelfSubjectAccessReview>::all(caller);
        assert_eq!(code(reviews.create(&PostParams::default(), &review).await), 200, "{user} may ask");
    }
    for user in [CALLERS[0], CALLERS[5], CALLERS[2], CALLERS[9], CALLERS[13]] {
        let prefix = match names_allowed(&snapshot, &key, "here", user) {
            NamesAllowed::Prefix { prefix, .. } => Some(prefix),
            _ => None,
        };
        give(&impersonate(&own, user).await, &admin, prefix.as_deref()).await;
    }
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "foo-user"}, "spec": {"signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"], "request": CERTIFICATE_REQUEST}});
    let approval = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Own"}]}});
    for (user, expect) in [(CALLERS[0], 403), (CALLERS[2], 200)] {
        let requests = Api::<CertificateSigningRequest>::all(impersonate(&own, user).await);
        create(&requests, request.clone()).await;
        let approved =
            requests.patch_subresource("approval", "foo-user", &PatchParams::default(), &Patch::Merge(&approval)).await;
        assert_eq!(code(approved), expect, "{user} approves");
        requests.delete("foo-user", &DeleteParams::default()).await.expect("its own");
    }
    let caller = impersonate(&own, CALLERS[0]).await;
    let named = serde_json::from_value(json!({"metadata": {"name": "mine"}})).expect("a namespace");
    let refused = Api::<Namespace>::all(caller).create(&PostParams::default(), &named).await.expect_err("refused");
    let words = refused.to_string();
    assert!(words.contains("have to begin with \"foo-\", the prefix of ClusterRequest team/a"), "{words}");
}
