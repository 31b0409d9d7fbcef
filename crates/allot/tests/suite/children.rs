//! Providers as children of the server (`allot up --provider-dir`): one at a time, and none of their Clusters in the way of others.

use std::fs;
use std::time::Duration;

use allotment_api::requests::{ClusterRequest, ClusterRequestGrant};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;

use crate::harness::{Folder, LIMIT, Up, client, create, is_beside, make_namespace, until};
use crate::outside::{Planes, make_provider, provider_dir};
use crate::requests::is_ready;

/// Does not listen, and notes who runs: in `twice`, if somebody else does.
const DEAF: &str = r#"#!/bin/sh
[ "$1" = init ] && exit 0
trap '' TERM
for other in $(cat pids 2>/dev/null); do
  kill -0 "$other" 2>/dev/null && touch twice
done
echo $$ >> pids
while :; do sleep 0.1; done
"#;

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_runs_no_provider_beside_the_last_one() {
    if is_beside() {
        return;
    }
    let folder = Folder::new();
    let dir = provider_dir(&folder, "deaf.sh", DEAF);
    let flags = ["--provider-dir", dir.to_str().expect("text")];
    let up = Up::start_with(&folder, &flags).await;
    make_provider(&client(&folder.kubeconfig()).await, "deaf", "deaf.sh").await;
    let own = folder.data().join("providers/deaf");
    let ran = || fs::read_to_string(own.join("pids")).unwrap_or_default().lines().count();
    let until_ran = async |times: usize| {
        let begin = tokio::time::Instant::now();
        while ran() < times {
            assert!(begin.elapsed() < LIMIT, "it ran {} times", ran());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    until_ran(1).await;
    up.kill();
    let _up = Up::start_with(&folder, &flags).await;
    until_ran(2).await;
    assert!(!own.join("twice").exists(), "two ran at once");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_cluster_that_the_example_cannot_serve_holds_up_no_other() {
    if is_beside() {
        return;
    }
    let folder = Folder::new();
    let planes = Planes::start(&folder).await;
    let leases = Api::<Lease>::namespaced(planes.admin.clone(), "allot-system");
    let lease = leases.get("provider-planes").await.expect("it beats");
    let process: u32 =
        lease.spec.and_then(|spec| spec.holder_identity).expect("its process").parse().expect("a number");
    crate::harness::signal(process, "STOP");
    // The first that it comes to has no place for its folder.
    for (namespace, is_bad) in [("a-team", true), ("b-team", false)] {
        make_namespace(&planes.admin, namespace).await;
        let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest", "metadata": {"name": "r"},
            "spec": {"purposes": ["mcp"], "traits": [{"trait": "infrastructure/vendor/planes"}]}});
        create(&Api::<ClusterRequest>::namespaced(planes.admin.clone(), namespace), object).await;
        let grants = Api::<ClusterRequestGrant>::namespaced(planes.admin.clone(), namespace);
        let uid = until(&grants, "r", |_| true).await.spec.cluster_ref.uid;
        if is_bad {
            let clusters = folder.data().join("providers/planes/clusters");
            fs::create_dir_all(&clusters).expect("a folder");
            fs::write(clusters.join(uid), "in the way").expect("a file");
        }
    }
    crate::harness::signal(process, "CONT");
    let requests = Api::<ClusterRequest>::namespaced(planes.admin.clone(), "b-team");
    until(&requests, "r", is_ready).await;
    let requests = Api::<ClusterRequest>::namespaced(planes.admin.clone(), "a-team");
    assert!(!is_ready(&requests.get("r").await.expect("it is there")), "nobody made it");
}
