//! From a ClusterRequest to a Cluster, over the wire.

use allotment_api::names;
use allotment_api::reasons::{ConditionType, Verdict};
use allotment_api::requests::{Cluster, ClusterRequest, ClusterRequestGrant};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::harness::{Folder, Up, client, code, create, make_namespace, run, until, until_gone};

/// The sample of the document that the kinds come from.
fn sample() -> serde_json::Value {
    json!({
        "apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": "foo", "namespace": "bar"},
        "spec": {
            "kubernetes": {"version": "1.30"}, "dedicated": false, "purposes": ["platform", "onboarding"],
            "traits": [{"trait": "foo/bar/baz", "optional": true, "negated": false}], "prefix": "foo-"
        }
    })
}

pub(crate) fn is_ready(request: &ClusterRequest) -> bool {
    request.status.as_ref().is_some_and(|status| {
        status.status == Some(Verdict::Granted) && ConditionType::Ready.is_true(&status.conditions)
    })
}

#[tokio::test]
async fn the_sample_request_is_granted_with_its_prefix_and_everything_is_freed_with_it() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "bar").await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "bar");
    create(&requests, sample()).await;
    until(&requests, "foo", is_ready).await;

    let grants = Api::<ClusterRequestGrant>::namespaced(admin.clone(), "bar");
    let grant = grants.get("foo").await.expect("a grant of the same name");
    assert_eq!(grant.spec.prefix, "foo-");
    let clusters = Api::<Cluster>::namespaced(admin.clone(), &grant.spec.cluster_ref.namespace);
    let cluster = clusters.get(&grant.spec.cluster_ref.name).await.expect("the cluster it names");
    assert_eq!(cluster.uid().as_deref(), Some(grant.spec.cluster_ref.uid.as_str()));
    assert_eq!(cluster.spec.purposes, ["platform", "onboarding"]);
    let version = cluster.status.and_then(|status| status.kubernetes).and_then(|kubernetes| kubernetes.version);
    assert!(version.as_deref().is_some_and(|version| version.starts_with("1.30.")), "{version:?}");

    requests.delete("foo", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&requests, "foo").await;
    assert_eq!(code(grants.get("foo").await), 404);
    until(&clusters, &cluster.metadata.name.unwrap_or_default(), |cluster: &Cluster| {
        cluster.spec.tenants.iter().all(|tenant| tenant.released)
    })
    .await;
}

#[tokio::test]
async fn a_cluster_that_nobody_uses_goes_after_its_grace_with_its_keys() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "n").await;
    let purposes = Api::<allotment_api::requests::Purpose>::all(admin.clone());
    create(
        &purposes,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Purpose",
        "metadata": {"name": "brief"}, "spec": {"dedicated": true, "idleGrace": "100ms"}}),
    )
    .await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "n");
    create(
        &requests,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": "r"}, "spec": {"purposes": ["brief"]}}),
    )
    .await;
    let granted = until(&requests, "r", is_ready).await;
    let cluster = granted.status.and_then(|status| status.cluster_ref).expect("a cluster").name;
    let planes = Api::<Secret>::namespaced(admin.clone(), "allot-planes");
    let records = ListParams::default().labels("cluster.openmcp.cloud/cluster-uid");
    assert_eq!(planes.list(&records).await.expect("an admin may list").items.len(), 1);
    requests.delete("r", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&Api::<Cluster>::namespaced(admin.clone(), "n"), &cluster).await;
    assert_eq!(planes.list(&records).await.expect("an admin may list").items.len(), 0);
}

#[tokio::test]
async fn commands_end_with_the_codes_that_are_documented() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let check = |arguments: &[&str], expect: i32, says: &str| {
        let output = run(&folder, arguments);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(expect), "{arguments:?}: {text}");
        assert!(text.contains(says), "{arguments:?} does not say {says:?}: {text}");
    };
    check(&["request", "a", "-n", "default", "--purpose", "mcp", "--wait"], 0, "Granted");
    check(&["request", "a", "-n", "default", "--purpose", "mcp", "--wait"], 0, "Granted");
    check(&["request", "a", "-n", "default", "--purpose", "workload"], 1, "asks for something else");
    check(&["request", "b", "-n", "default", "--purpose", "nope", "--wait"], 2, "UnknownPurpose");
    check(
        &["request", "c", "-n", "default", "--purpose", "mcp", "--version", "1.12", "--wait"],
        2,
        "VersionNotOffered",
    );
    check(&["explain", "request", "c", "-n", "default"], 0, "VersionNotOffered");
    check(&["explain", "request", "c", "-n", "default", "-o", "json"], 0, "\"findings\"");
    check(&["explain", "request", "c", "-n", "default", "-o", "yaml"], 0, "reason: VersionNotOffered");
    check(
        &["request", "w", "-n", "default", "--purpose", "mcp", "--trait", "?odd"],
        0,
        "warning: spec.traits[0].trait",
    );
    check(&["request", "../x", "-n", "default", "--purpose", "mcp"], 64, "RFC 1123");
    check(&["explain", "request", "absent", "-n", "default"], 1, "not found");
    check(&["access", "absent", "-n", "default", "--wait", "--timeout", "100ms"], 1, "default/absent");
    check(&["tree"], 0, "ClusterRequest default/a");
    check(&["request", "d", "-n", "default"], 64, "--purpose");
    check(&["help", "exit-codes"], 0, "the request was denied");
    assert!(!folder.0.join(".kube").exists(), "something was written to ~/.kube");
}

#[tokio::test]
async fn a_spare_is_ready_before_anybody_asks_and_another_one_takes_its_place() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "n").await;
    let purposes = Api::<allotment_api::requests::Purpose>::all(admin.clone());
    create(
        &purposes,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Purpose",
        "metadata": {"name": "fast"}, "spec": {"dedicated": true, "warm": 1}}),
    )
    .await;
    let purpose = until(&purposes, "fast", |purpose| purpose.annotations().contains_key(names::SPARE_NAME)).await;
    let spare = purpose.annotations()[names::SPARE_NAME].split_once('/').expect("namespace/name").1.to_owned();
    let clusters = Api::<Cluster>::namespaced(admin.clone(), names::CLUSTERS_NAMESPACE);
    let ready = |cluster: &Cluster| {
        cluster.status.as_ref().is_some_and(|status| ConditionType::Ready.is_true(&status.conditions))
    };
    until(&clusters, &spare, ready).await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "n");
    create(
        &requests,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": "r"}, "spec": {"purposes": ["fast"]}}),
    )
    .await;
    let granted = until(&requests, "r", is_ready).await;
    assert_eq!(granted.status.and_then(|status| status.cluster_ref).expect("a cluster").name, spare);
    let taken = clusters.get(&spare).await.expect("there");
    assert!(!taken.annotations().contains_key(names::SPARE), "it is nobody's spare any more");
    let next = until(&purposes, "fast", |purpose| !purpose.annotations()[names::SPARE_NAME].ends_with(&spare)).await;
    let next = next.annotations()[names::SPARE_NAME].split_once('/').expect("namespace/name").1.to_owned();
    until(&clusters, &next, ready).await;
}
