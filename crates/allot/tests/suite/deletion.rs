//! What is deleted goes in its order, and waits for whoever uses it.

use allotment_api::reasons::ConditionType;
use allotment_api::requests::{Cluster, ClusterRequest, ClusterRequestGrant};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};

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
