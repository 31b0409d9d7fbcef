//! What every provider has to do, whoever runs it: one suite, a row for each provider.

use std::time::Duration;

use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::access::is_granted;
use crate::harness::{Folder, LIMIT, Up, client, client_of, code, create, make_namespace, until, until_gone};
use crate::outside::Planes;
use crate::requests::is_ready;

#[tokio::test]
async fn provider_local_keeps_the_contract() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    keeps(&client(&folder.kubeconfig()).await, "infrastructure/vendor/local").await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn the_example_of_a_provider_in_another_process_keeps_the_contract() {
    let folder = Folder::new();
    let planes = Planes::start(&folder).await;
    keeps(&planes.admin, "infrastructure/vendor/planes").await;
}

/// A Cluster with that trait is made, used, forgotten by its status, and taken away.
async fn keeps(admin: &Client, of: &str) {
    make_namespace(admin, "team").await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    let clusters = Api::<Cluster>::namespaced(admin.clone(), "team");
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": "r"}, "spec": {"purposes": ["mcp"], "traits": [{"trait": of}]}});
    create(&requests, object).await;
    until(&requests, "r", is_ready).await;
    let cluster = the_only(&clusters).await;
    let name = cluster.name_any();

    // Each side holds it, and says its own part.
    let (ours, theirs): (Vec<_>, Vec<_>) =
        cluster.finalizers().iter().partition(|finalizer| finalizer.starts_with("cluster.openmcp.cloud/"));
    assert_eq!((ours.len(), theirs.len()), (1, 1), "{:?}", cluster.finalizers());
    let said = |cluster: &Cluster| {
        let status = cluster.status.clone().unwrap_or_default();
        let types: Vec<String> = status.conditions.iter().map(|condition| condition.type_.clone()).collect();
        let both = ["ClusterHealthy", "Provisioned", "Ready", "Withdrawn"];
        status.phase.is_some()
            && status.kubernetes.is_some_and(|kubernetes| kubernetes.version.is_some())
            && both.iter().all(|wanted| types.iter().any(|found| found == wanted))
    };
    assert!(said(&cluster), "{:?}", cluster.status);

    let kubeconfig = enter(admin).await;
    let inside = Api::<ConfigMap>::namespaced(client_of(&kubeconfig).await, "default");
    create(&inside, json!({"metadata": {"name": "c"}, "data": {"a": "b"}})).await;
    let other = Api::<Secret>::namespaced(client_of(&kubeconfig).await, "default");
    assert_eq!(code(other.list(&ListParams::default()).await), 403, "no more than was asked for");

    // Whatever a status says can be found out again.
    let wiped =
        Patch::Json::<()>(serde_json::from_value(json!([{"op": "remove", "path": "/status"}])).expect("a patch"));
    clusters.patch_status(&name, &PatchParams::default(), &wiped).await.expect("an admin repairs what he likes");
    until(&clusters, &name, said).await;
    until(&requests, "r", is_ready).await;
    assert_eq!(inside.get("c").await.expect("it is still there").data.expect("data")["a"], "b");

    // One in use waits for its users, and goes on for them.
    clusters.delete(&name, &DeleteParams::default()).await.expect("it may be deleted");
    let blocked = |cluster: &Cluster| says(cluster, "DeletionBlocked");
    until(&clusters, &name, blocked).await;
    assert_eq!(code(inside.get("c").await), 200, "it is used");
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    access.delete("a", &DeleteParams::default()).await.expect("it may be deleted");
    until_gone(&access, "a").await;
    until_refused(&inside).await;
    requests.delete("r", &DeleteParams::default()).await.expect("it may be deleted");
    until_gone(&clusters, &name).await;
}

fn says(cluster: &Cluster, kind: &str) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

async fn the_only(clusters: &Api<Cluster>) -> Cluster {
    let mut items = clusters.list(&ListParams::default()).await.expect("an admin may list").items;
    assert_eq!(items.len(), 1, "one request, one Cluster");
    items.remove(0)
}

/// Access to the Cluster of request `r`; the text of its kubeconfig.
async fn enter(admin: &Client) -> String {
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    let rules: Value = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "a"}, "spec": {"requestRef": {"name": "r"},
            "permissions": [{"namespace": "default", "rules": rules}]}});
    create(&access, object).await;
    let granted = until(&access, "a", is_granted).await;
    let secret = granted.status.and_then(|status| status.access).expect("access").secret_ref.name;
    let secret = Api::<Secret>::namespaced(admin.clone(), "team").get(&secret).await.expect("the Secret");
    String::from_utf8(secret.data.expect("data")["kubeconfig"].0.clone()).expect("text")
}

/// Waits until a token is not taken any more.
async fn until_refused(inside: &Api<ConfigMap>) {
    let begin = tokio::time::Instant::now();
    while code(inside.get("c").await) != 401 {
        assert!(begin.elapsed() < LIMIT, "the token still works");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
