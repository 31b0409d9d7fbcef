//! Tenants of a shared Cluster keep to their prefixes, and a prefix is free again once nothing bears it.

use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest, ClusterRequestGrant, Purpose};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::access::is_granted;
use crate::harness::{Folder, Up, client, client_of, code, create, make_namespace, until, until_gone};
use crate::policy::give;
use crate::requests::is_ready;

/// A request for a place on a shared Cluster; gives its Grant once it is ready.
async fn place(admin: &Client, name: &str, prefix: &str) -> ClusterRequestGrant {
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    create(
        &requests,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": name}, "spec": {"purposes": ["workload"], "prefix": prefix}}),
    )
    .await;
    until(&requests, name, is_ready).await;
    Api::<ClusterRequestGrant>::namespaced(admin.clone(), "team").get(name).await.expect("a Grant")
}

/// A client with access to namespaces and definitions, by this reference.
async fn enter(admin: &Client, namespace: &str, name: &str, reference: &Value) -> Client {
    let rule = json!({"apiGroups": ["", "apiextensions.k8s.io"],
        "resources": ["namespaces", "customresourcedefinitions"],
        "verbs": ["get", "list", "create", "update", "patch", "delete"]});
    enter_with(admin, namespace, name, reference, &rule).await
}

/// A client with that access, by this reference.
async fn enter_with(admin: &Client, namespace: &str, name: &str, reference: &Value, rule: &Value) -> Client {
    let access = Api::<AccessRequest>::namespaced(admin.clone(), namespace);
    let mut spec = json!({"permissions": [{"rules": [rule]}]});
    spec.as_object_mut().expect("an object").extend(reference.as_object().expect("an object").clone());
    create(
        &access,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": name}, "spec": spec}),
    )
    .await;
    let request = until(&access, name, is_granted).await;
    let secret = request.status.and_then(|status| status.access).expect("access").secret_ref.name;
    let secret = Api::<Secret>::namespaced(admin.clone(), namespace).get(&secret).await.expect("the Secret");
    client_of(std::str::from_utf8(&secret.data.expect("data")["kubeconfig"].0).expect("text")).await
}

fn namespace(metadata: Value) -> Namespace {
    serde_json::from_value(json!({"metadata": metadata})).expect("a namespace")
}

fn definition(plural: &str) -> CustomResourceDefinition {
    serde_json::from_value(json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": plural, "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}}))
    .expect("a definition")
}

#[tokio::test]
async fn a_tenant_of_a_shared_cluster_makes_changes_and_deletes_nothing_outside_its_prefix() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    let (one, other) = (place(&admin, "one", "foo-").await, place(&admin, "other", "bar-").await);
    assert_eq!(one.spec.cluster_ref, other.spec.cluster_ref, "the Cluster is shared");
    let inside = enter(&admin, "team", "one", &json!({"requestRef": {"name": "one"}})).await;
    let neighbour = enter(&admin, "team", "other", &json!({"requestRef": {"name": "other"}})).await;

    let (namespaces, params) = (Api::<Namespace>::all(inside.clone()), PostParams::default());
    for (metadata, expect) in [
        (json!({"name": "foo-app"}), 200),
        (json!({"generateName": "foo-"}), 200),
        (json!({"name": "bar-app"}), 403),
        (json!({"name": "foo"}), 403),
        (json!({"name": "app"}), 403),
        (json!({"generateName": "app-"}), 403),
    ] {
        assert_eq!(code(namespaces.create(&params, &namespace(metadata.clone())).await), expect, "{metadata}");
    }
    let refused = namespaces.create(&params, &namespace(json!({"name": "app"}))).await.expect_err("refused");
    let words = refused.to_string();
    assert!(words.contains("have to begin with \"foo-\"") && words.contains("team/one"), "{words}");

    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let theirs = Api::<Namespace>::all(neighbour);
    theirs.create(&params, &namespace(json!({"name": "bar-app"}))).await.expect("it is the neighbour's");
    assert_eq!(code(namespaces.patch("bar-app", &PatchParams::default(), &label).await), 403);
    assert_eq!(code(namespaces.delete("bar-app", &DeleteParams::default()).await), 403);
    assert_eq!(code(namespaces.delete("default", &DeleteParams::default()).await), 403);
    assert_eq!(code(namespaces.patch("foo-app", &PatchParams::default(), &label).await), 200);
    assert_eq!(code(theirs.delete("foo-app", &DeleteParams::default()).await), 403);

    let definitions = Api::<CustomResourceDefinition>::all(inside.clone());
    assert_eq!(code(definitions.create(&params, &definition("widgets")).await), 403);
    assert_eq!(code(definitions.create(&params, &definition("foo-widgets")).await), 200);

    // Reviews are asked and never stored: they have no names.
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "namespaces"}}});
    let review: SelfSubjectAccessReview = serde_json::from_value(review).expect("a review");
    let answer = Api::<SelfSubjectAccessReview>::all(inside).create(&params, &review).await.expect("an answer");
    assert!(answer.status.expect("an answer").allowed);
}

#[tokio::test]
async fn a_tenant_gives_no_rights_outside_namespaces_to_those_who_keep_to_no_prefix() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    let free = Patch::Merge(json!({"spec": {"permissionCeiling": null}}));
    Api::<Purpose>::all(admin.clone()).patch("workload", &PatchParams::default(), &free).await.expect("no ceiling");
    let home = place(&admin, "one", "foo-").await.spec.cluster_ref;
    // Everybody may do everything, so that nothing but the rule refuses.
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let owner = enter_with(&admin, &home.namespace, "owner", &json!({"clusterRef": {"name": home.name}}), &all).await;
    let tenant = enter_with(&admin, "team", "one", &json!({"requestRef": {"name": "one"}}), &all).await;
    give(&tenant, &owner, Some("foo-")).await;
    give(&owner, &owner, None).await;
}

#[tokio::test]
async fn a_released_prefix_is_in_quarantine_until_nothing_bears_it() {
    let folder = Folder::new();
    let up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    let first = place(&admin, "first", "foo-").await;
    let home = first.spec.cluster_ref.clone();
    let inside = enter(&admin, "team", "first", &json!({"requestRef": {"name": "first"}})).await;
    let app = namespace(json!({"name": "foo-app"}));
    Api::<Namespace>::all(inside).create(&PostParams::default(), &app).await.expect("its own prefix");
    // Somebody stays, so that the Cluster does.
    place(&admin, "stays", "bar-").await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    requests.delete("first", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&requests, "first").await;

    let second = place(&admin, "second", "foo-").await;
    assert_eq!(second.spec.cluster_ref, home);
    assert_ne!(second.spec.prefix, "foo-", "objects of the first tenant begin with it");
    let status = requests.get("second").await.expect("there").status.expect("a status");
    let honored = status.conditions.iter().find(|condition| condition.type_ == "PrefixHonored").expect("proposed");
    assert_eq!((honored.status.as_str(), honored.reason.as_str()), ("False", "Quarantined"));

    let cleaner = enter(&admin, &home.namespace, "cleaner", &json!({"clusterRef": {"name": home.name}})).await;
    let namespaces = Api::<Namespace>::all(cleaner);
    namespaces.delete("foo-app", &DeleteParams::default()).await.expect("access by clusterRef has no prefix");
    until_gone(&namespaces, "foo-app").await;
    // A process looks when it starts, and then now and then.
    up.kill();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let clusters = Api::<Cluster>::namespaced(admin.clone(), &home.namespace);
    until(&clusters, &home.name, |cluster: &Cluster| cluster.spec.tenants.iter().all(|tenant| !tenant.released)).await;
    let third = place(&admin, "third", "foo-").await;
    assert_eq!((third.spec.cluster_ref, third.spec.prefix.as_str()), (home, "foo-"));
}

#[tokio::test]
async fn nobody_is_given_a_prefix_that_names_of_the_cluster_itself_begin_with() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    for (name, prefix, place) in
        [("one", "allot-", "allot-access"), ("two", "kube-", "kube-system"), ("three", "system-", "kube-public")]
    {
        let grant = self::place(&admin, name, prefix).await;
        assert_ne!(grant.spec.prefix, prefix);
        let request = Api::<ClusterRequest>::namespaced(admin.clone(), "team").get(name).await.expect("there");
        let conditions = request.status.expect("decided").conditions;
        let told = conditions.iter().find(|condition| condition.type_ == "PrefixHonored").expect("told");
        assert_eq!((told.status.as_str(), told.reason.as_str()), ("False", "Taken"));
        assert!(told.message.starts_with("names of the cluster itself begin with"), "{}", told.message);
        create(
            &access,
            json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
            "metadata": {"name": name}, "spec": {"requestRef": {"name": name}, "permissions": [{"namespace": place,
                "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}]}}),
        )
        .await;
        let refused = until(&access, name, |access: &AccessRequest| access.status.is_some()).await;
        assert_eq!(refused.status.expect("decided").reason, "ExceedsCeiling", "{name}");
    }
}

#[tokio::test]
async fn a_prefix_that_somebody_elses_names_begin_with_gives_no_access() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    let home = place(&admin, "first", "bar-").await.spec.cluster_ref;
    let owner = enter(&admin, &home.namespace, "owner", &json!({"clusterRef": {"name": home.name}})).await;
    make_namespace(&owner, "foo-theirs").await;
    assert_eq!(place(&admin, "second", "foo-").await.spec.prefix, "foo-");
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    create(
        &access,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "second"}, "spec": {"requestRef": {"name": "second"}, "permissions": [{"namespace": "foo-theirs",
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}]}}),
    )
    .await;
    let refused = until(&access, "second", |found: &AccessRequest| {
        found.status.as_ref().is_some_and(|status| status.reason == "PrefixTaken")
    })
    .await;
    let words = refused.status.expect("a status").message;
    assert!(words.contains("kind Namespace") && words.contains("ask with another prefix"), "{words}");

    // Who does as it says is given another prefix, and access.
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    requests.delete("second", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&requests, "second").await;
    let third = place(&admin, "third", "foo-").await;
    assert_eq!(third.spec.cluster_ref, home);
    assert_ne!(third.spec.prefix, "foo-", "names of others begin with it");
    let inside = enter(&admin, "team", "third", &json!({"requestRef": {"name": "third"}})).await;
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let namespaces = Api::<Namespace>::all(inside);
    assert_eq!(code(namespaces.patch("foo-theirs", &PatchParams::default(), &label).await), 403);
}
