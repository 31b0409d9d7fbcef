//! What is particular to `allot controllers`: replicas, the Lease between them, and webhooks that may be out of
//! reach. These tests need kube-apiserver and etcd (`cargo xtask beside`).

use std::collections::BTreeSet;
use std::time::Duration;

use allotment_api::requests::{Cluster, ClusterRequest, ClusterRequestGrant};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::access::granted;
use crate::harness::{
    ACTS, Folder, LIMIT, STANDS_BY, Up, allot, client, client_of, code, create, make_namespace, until,
};
use crate::requests::is_ready;

fn request(name: &str) -> serde_json::Value {
    json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest", "metadata": {"name": name},
        "spec": {"purposes": ["mcp"]}})
}

async fn holder(admin: &Client) -> String {
    let lease = Api::<Lease>::namespaced(admin.clone(), "allot-system").get("allot-controllers").await;
    lease.expect("the Lease").spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn when_the_one_that_acts_is_killed_another_takes_over_and_nothing_is_granted_twice() {
    let folder = Folder::new();
    let first = Up::replica(&folder, "first", &[]).await;
    let second = Up::replica(&folder, "second", &[]).await;
    assert!(first.log().contains(ACTS) && second.log().contains(STANDS_BY), "{}\n{}", first.log(), second.log());
    let admin = client(&folder.kubeconfig()).await;
    let (_, kubeconfig) = granted(&admin, "before").await;
    make_namespace(&admin, "n").await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "n");
    let names: Vec<String> = (0..30).map(|number| format!("r{number}")).collect();
    for name in &names {
        create(&requests, request(name)).await;
    }
    let before = holder(&admin).await;
    first.kill();
    second.until_says(ACTS).await;
    assert_ne!(holder(&admin).await, before);
    for name in &names {
        until(&requests, name, is_ready).await;
    }
    let grants = Api::<ClusterRequestGrant>::namespaced(admin.clone(), "n").list(&ListParams::default()).await;
    let grants = grants.expect("an admin may list").items;
    let homes: BTreeSet<&str> = grants.iter().map(|grant| grant.spec.cluster_ref.uid.as_str()).collect();
    assert_eq!((grants.len(), homes.len()), (names.len(), names.len()), "each request has a Cluster of its own");
    let clusters = Api::<Cluster>::namespaced(admin.clone(), "n").list(&ListParams::default()).await;
    let clusters = clusters.expect("an admin may list").items;
    assert_eq!(clusters.len(), names.len(), "no Cluster was made for nobody");
    for cluster in &clusters {
        assert_eq!(cluster.spec.tenants.len(), 1, "{}", cluster.name_any());
    }
    let inside = Api::<Namespace>::all(client_of(&kubeconfig).await);
    assert_eq!(code(inside.list(&ListParams::default()).await), 200, "what was handed out before works on");
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn one_that_is_told_to_stop_gives_the_lease_back_at_once() {
    let folder = Folder::new();
    // Nobody could wait for the end of this Lease here.
    let flags = ["--lease-duration", "10m"];
    let second_flags = ["--lease-duration", "15s"];
    let first = Up::replica(&folder, "first", &flags).await;
    let second = Up::replica(&folder, "second", &second_flags).await;
    assert!(second.log().contains(STANDS_BY), "{}", second.log());
    assert!(first.interrupt().await.success());
    second.until_says(ACTS).await;
    let admin = client(&folder.kubeconfig()).await;
    create(&Api::<ClusterRequest>::namespaced(admin.clone(), "default"), request("r")).await;
    until(&Api::<ClusterRequest>::namespaced(admin, "default"), "r", is_ready).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn one_that_was_frozen_past_its_lease_stops_acting_when_it_wakes_up() {
    let folder = Folder::new();
    let first = Up::replica(&folder, "first", &[]).await;
    let second = Up::replica(&folder, "second", &[]).await;
    let admin = client(&folder.kubeconfig()).await;
    let before = holder(&admin).await;
    first.signal("STOP");
    let begin = tokio::time::Instant::now();
    while holder(&admin).await == before {
        assert!(begin.elapsed() < LIMIT, "nobody takes the Lease: {}", second.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let now = holder(&admin).await;
    first.signal("CONT");
    first.until_says("the Lease is lost").await;
    second.until_says(ACTS).await;
    first.until_says(STANDS_BY).await;
    assert_eq!(holder(&admin).await, now, "the Lease stays where it is");
    create(&Api::<ClusterRequest>::namespaced(admin.clone(), "default"), request("r")).await;
    until(&Api::<ClusterRequest>::namespaced(admin, "default"), "r", is_ready).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn while_no_webhook_answers_our_kinds_cannot_be_written_and_all_others_can() {
    let folder = Folder::new();
    let up = Up::replica(&folder, "first", &[]).await;
    let admin = client(&folder.kubeconfig()).await;
    up.kill();
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "default");
    let object: ClusterRequest = serde_json::from_value(request("r")).expect("a request");
    let refused = requests.create(&PostParams::default(), &object).await.expect_err("nobody looks at it");
    let text = refused.to_string();
    assert!(text.contains("failed calling webhook \"") && text.contains("cluster.openmcp.cloud\""), "{text}");
    assert_eq!(code(Api::<Cluster>::namespaced(admin.clone(), "default").list(&ListParams::default()).await), 200);
    make_namespace(&admin, "others").await;
    let maps = Api::<ConfigMap>::namespaced(admin.clone(), "others");
    create(&maps, json!({"metadata": {"name": "m"}})).await;
    maps.delete("m", &DeleteParams::default()).await.expect("it is nobody's business but its owner's");

    let up = Up::replica(&folder, "again", &[]).await;
    up.until_says(ACTS).await;
    create(&requests, request("r")).await;
    until(&requests, "r", is_ready).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn webhooks_are_asked_about_our_groups_and_no_others() {
    let folder = Folder::new();
    let _up = Up::replica(&folder, "first", &[]).await;
    let admin = client(&folder.kubeconfig()).await;
    let mutating = Api::<MutatingWebhookConfiguration>::all(admin.clone()).list(&ListParams::default()).await;
    let validating = Api::<ValidatingWebhookConfiguration>::all(admin).list(&ListParams::default()).await;
    let mutating = mutating.expect("an admin may list").items.into_iter().flat_map(|found| found.webhooks);
    let validating = validating.expect("an admin may list").items.into_iter().flat_map(|found| found.webhooks);
    let mutating = mutating
        .flatten()
        .map(|hook| (hook.rules, hook.failure_policy, hook.client_config.ca_bundle, hook.match_conditions));
    let validating = validating
        .flatten()
        .map(|hook| (hook.rules, hook.failure_policy, hook.client_config.ca_bundle, hook.match_conditions));
    let all: Vec<_> = mutating.chain(validating).collect();
    assert_eq!(all.len(), 3);
    let built_in = ["local", "existing", "kind"].map(|name| format!("{name}.cluster.openmcp.cloud"));
    let ours: Vec<&str> = ["cluster.openmcp.cloud"].into_iter().chain(built_in.iter().map(String::as_str)).collect();
    let (mut of_catalog, mut by_others) = (0, 0);
    for (rules, policy, bundle, conditions) in all {
        assert_eq!(policy.as_deref(), Some("Fail"));
        assert!(bundle.is_some_and(|bundle| bundle.0.starts_with(b"-----BEGIN CERTIFICATE-----")));
        for rule in rules.expect("rules") {
            let groups = rule.api_groups.expect("groups");
            if groups == ours {
                continue;
            }
            if groups == ["core.gardener.cloud"] {
                // A Gardener may serve more of that group.
                let resources = rule.resources.expect("resources");
                assert!(!resources.is_empty() && !resources.iter().any(|one| one.starts_with('*')), "{resources:?}");
                of_catalog += 1;
                continue;
            }
            // Of what is not ours, only what providers in other processes write.
            by_others += 1;
            let only = "request.userInfo.username.startsWith('system:serviceaccount:allot-system:provider-')";
            assert!(conditions.iter().flatten().any(|condition| condition.expression == only), "{conditions:?}");
        }
    }
    assert_eq!((of_catalog, by_others), (2, 2));
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn a_folder_is_that_of_one_api_server_and_no_whole_platforms() {
    let folder = Folder::new();
    let up = Up::replica(&folder, "first", &[]).await;
    up.kill();
    let check = |arguments: &[&str], says: &str| {
        let output = allot(&folder).args(arguments).arg("--data-dir").arg(folder.data()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(11), "{text}");
        assert!(text.contains(says), "{text}");
    };
    check(&["up", "--listen", "127.0.0.1:0"], "it is one of `allot controllers`");
    let own = folder.own_kubeconfig();
    std::fs::write(folder.data().join("platform"), "another\n").expect("it can be written");
    let arguments = ["controllers", "--lease-duration", "3s", "--kubeconfig", own.to_str().expect("a path")];
    check(&arguments, "it keeps clusters of another API server");
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn one_that_cannot_listen_ends_and_gives_the_lease_back() {
    let folder = Folder::new();
    folder.kubernetes().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = taken.local_addr().expect("its address").to_string();
    let own = folder.own_kubeconfig();
    let mut command = allot(&folder);
    command.args(["controllers", "--lease-duration", "3s", "--listen", &listen]);
    command.arg("--kubeconfig").arg(own).arg("--data-dir").arg(folder.data());
    let ran = tokio::task::spawn_blocking(move || command.output().expect("it runs"));
    let output = tokio::time::timeout(LIMIT, ran).await.expect("it ends").expect("no panic");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(13), "{text}");
    assert_eq!(holder(&client(&folder.kubeconfig()).await).await, "", "nobody has to wait for its end");
}
