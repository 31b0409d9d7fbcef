//! What is deleted goes in its order, and waits for whoever uses it.

use allotment_api::reasons::ConditionType;
use allotment_api::requests::{Cluster, ClusterRequest, ClusterRequestGrant};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::access::granted;
use crate::harness::{Folder, Up, client, client_of, code, until, until_gone};

/// The Cluster that a ClusterRequest is bound to, and its name.
async fn cluster_of(admin: &Client, namespace: &str, request: &str) -> (Api<Cluster>, String) {
    let grants = Api::<ClusterRequestGrant>::namespaced(admin.clone(), namespace);
    let bound = grants.get(request).await.expect("a Grant").spec.cluster_ref;
    (Api::namespaced(admin.clone(), &bound.namespace), bound.name)
}

fn is_blocked(cluster: &Cluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    ConditionType::DeletionBlocked.is_true(conditions)
}

#[tokio::test]
async fn a_cluster_in_use_that_is_being_deleted_serves_its_users_through_a_restart() {
    let folder = Folder::new();
    let up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let (_, kubeconfig) = granted(&admin, "n").await;
    let (clusters, name) = cluster_of(&admin, "n", "r").await;
    clusters.delete(&name, &DeleteParams::default()).await.expect("it can be deleted");
    until(&clusters, &name, is_blocked).await;
    up.kill();

    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let (clusters, name) = cluster_of(&admin, "n", "r").await;
    until(&clusters, &name, is_blocked).await;
    let namespaces = Api::<Namespace>::all(client_of(&kubeconfig).await);
    assert_eq!(code(namespaces.list(&ListParams::default()).await), 200, "the users are locked out");

    let requests = Api::<ClusterRequest>::namespaced(admin, "n");
    requests.delete("r", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&requests, "r").await;
    until_gone(&clusters, &name).await;
    let answer = code(namespaces.list(&ListParams::default()).await);
    assert!([401, 404].contains(&answer), "the token outlived its Cluster: {answer}");
}

/// The Event of that reason in a namespace; whoever deletes by force waits for nothing, so it is there by then.
async fn event(admin: &Client, namespace: &str, reason: &str) -> Event {
    let events = Api::<Event>::namespaced(admin.clone(), namespace);
    let params = ListParams::default().fields(&format!("reason={reason}"));
    let mut found = events.list(&params).await.expect("an admin may list").items;
    assert_eq!(found.len(), 1, "{reason}: {found:#?}");
    found.remove(0)
}

fn force() -> Patch<serde_json::Value> {
    Patch::Merge(json!({"metadata": {"annotations": {"cluster.openmcp.cloud/force-delete": "true"}}}))
}

#[tokio::test]
async fn what_is_deleted_by_force_goes_at_once_and_an_event_tells_what_may_be_left_and_who_lost_it() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let (access, kubeconfig) = granted(&admin, "n").await;
    access.patch("a", &PatchParams::default(), &force()).await.expect("whoever may change it may force it");
    access.delete("a", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&access, "a").await;
    let left = event(&admin, "n", "LeftBehind").await;
    assert_eq!((left.type_.as_deref(), left.involved_object.name.as_deref()), (Some("Warning"), Some("a")));
    let message = left.message.expect("a message");
    let (clusters, name) = cluster_of(&admin, "n", "r").await;
    assert!(message.contains("ServiceAccount allot-access/") && message.contains(&format!("n/{name}")), "{message}");
    // What was left is looked for as soon as the Cluster is looked through: the old token does not last.
    let namespaces = Api::<Namespace>::all(client_of(&kubeconfig).await);
    let begin = tokio::time::Instant::now();
    while code(namespaces.list(&ListParams::default()).await) != 401 {
        assert!(begin.elapsed() < crate::harness::LIMIT, "what was left behind is never removed");
    }

    clusters.patch(&name, &PatchParams::default(), &force()).await.expect("whoever may change it may force it");
    clusters.delete(&name, &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&clusters, &name).await;
    let lost = event(&admin, "n", "DeletedByForce").await;
    assert_eq!((lost.type_.as_deref(), lost.involved_object.name.as_deref()), (Some("Warning"), Some(name.as_str())));
    assert!(lost.message.as_ref().expect("a message").contains("n/r"), "{:?}", lost.message);
    let requests = Api::<ClusterRequest>::namespaced(admin, "n");
    let told = until(&requests, "r", |request| {
        let conditions = request.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.reason == "ClusterLost")
    });
    told.await;
}
