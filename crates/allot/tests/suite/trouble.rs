//! What `allot controllers` does when things are taken from it: webhooks, definitions, rights, its folder, its API server, its
//! own process's time. These tests need kube-apiserver and etcd (`cargo xtask beside`).

use std::process::Stdio;
use std::time::Duration;

use allotment_api::requests::ClusterRequest;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhookConfiguration, ValidatingWebhook, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::access::granted;
use crate::harness::{ACTS, Folder, LIMIT, STANDS_BY, Up, allot, client, client_of, code, create, signal, until};
use crate::requests::is_ready;

/// How soon what somebody changed is right again: a watch tells of it.
const SOON: Duration = Duration::from_secs(15);

/// Waits for something that no watch of the test can tell of.
async fn soon<F: Future<Output = bool>>(limit: Duration, what: &str, mut is_so: impl FnMut() -> F) {
    let begin = tokio::time::Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn lease(admin: &Client) -> Lease {
    Api::<Lease>::namespaced(admin.clone(), "allot-system").get("allot-controllers").await.expect("the Lease")
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn what_somebody_adds_to_the_webhooks_goes_again_at_once_and_is_told() {
    let folder = Folder::new();
    let up = Up::replica(&folder, "first", &[]).await;
    up.until_says(ACTS).await;
    let admin = client(&folder.kubeconfig()).await;
    let validating = Api::<ValidatingWebhookConfiguration>::all(admin.clone());
    let mutating = Api::<MutatingWebhookConfiguration>::all(admin.clone());
    let never = MatchCondition { name: "never".to_owned(), expression: "false".to_owned() };
    let nobody: LabelSelector = serde_json::from_value(json!({"matchLabels": {"a": "b"}})).expect("a selector");
    let before = validating.get("allotment").await.expect("there").webhooks;
    let mut changed = validating.get("allotment").await.expect("there");
    for webhook in changed.webhooks.iter_mut().flatten() {
        webhook.match_conditions.get_or_insert_default().push(never.clone());
        webhook.namespace_selector = Some(nobody.clone());
    }
    let another = changed.webhooks.iter().flatten().next().cloned().expect("one");
    changed.webhooks.get_or_insert_default().push(ValidatingWebhook { name: "more.example.com".to_owned(), ..another });
    validating.replace("allotment", &PostParams::default(), &changed).await.expect("replaced");
    let mut changed = mutating.get("allotment").await.expect("there");
    for webhook in changed.webhooks.iter_mut().flatten() {
        webhook.match_conditions.get_or_insert_default().push(never.clone());
    }
    mutating.replace("allotment", &PostParams::default(), &changed).await.expect("replaced");
    soon(SOON, "the webhooks are right again", || async {
        let validating = validating.get("allotment").await.expect("there").webhooks;
        let mutating = mutating.get("allotment").await.expect("there").webhooks.expect("webhooks");
        let conditions = mutating.iter().flat_map(|webhook| webhook.match_conditions.iter().flatten());
        validating == before && conditions.count() == 1
    })
    .await;
    up.until_says("they are right again").await;
    let events = Api::<Event>::namespaced(admin.clone(), "default");
    soon(SOON, "an event tells of it", || async {
        let all = events.list(&ListParams::default()).await.expect("an admin may list").items;
        all.iter().any(|event| event.reason.as_deref() == Some("Repaired"))
    })
    .await;
    // Nobody writes them while nobody changes them.
    let settled = validating.get("allotment").await.expect("there").resource_version();
    mutating.delete("allotment", &DeleteParams::default()).await.expect("deleted");
    soon(SOON, "it is made again", || async { mutating.get_opt("allotment").await.expect("read").is_some() }).await;
    assert_eq!(validating.get("allotment").await.expect("there").resource_version(), settled);
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn webhook_configurations_that_somebody_deletes_are_made_again_and_that_is_told() {
    let folder = Folder::new();
    let up = Up::replica(&folder, "first", &[]).await;
    up.until_says(ACTS).await;
    let admin = client(&folder.kubeconfig()).await;
    let validating = Api::<ValidatingWebhookConfiguration>::all(admin.clone());
    let mutating = Api::<MutatingWebhookConfiguration>::all(admin.clone());
    let events = Api::<Event>::namespaced(admin.clone(), "default");
    let told = async |kind: &str| {
        let all = events.list(&ListParams::default()).await.expect("an admin may list").items;
        let is_of = |event: &&Event| event.involved_object.kind.as_deref() == Some(kind);
        all.iter().filter(|event| event.reason.as_deref() == Some("Repaired")).filter(is_of).count()
    };
    let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
    assert!(!up.log().contains("it is there again"), "the first time is no repair: {}", up.log());
    let delete = async || {
        validating.delete("allotment", &DeleteParams::default()).await.expect("deleted");
        mutating.delete("allotment", &DeleteParams::default()).await.expect("deleted");
    };
    delete().await;
    for kind in kinds {
        soon(SOON, kind, || async { told(kind).await == 1 }).await;
    }
    assert_eq!(up.log().matches("it is there again").count(), 2, "{}", up.log());
    assert!(up.interrupt().await.success());
    delete().await;
    let up = Up::replica(&folder, "second", &[]).await;
    up.until_says(ACTS).await;
    for kind in kinds {
        soon(SOON, kind, || async { told(kind).await == 2 }).await;
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn other_kinds_of_the_catalogs_group_are_nobodys_business_here() {
    let folder = Folder::new();
    let up = Up::replica(&folder, "first", &[]).await;
    up.until_says(ACTS).await;
    let admin = client(&folder.kubeconfig()).await;
    up.kill();
    let definitions = Api::<CustomResourceDefinition>::all(admin.clone());
    let open = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let names = json!({"plural": "seeds", "singular": "seed", "kind": "Seed", "listKind": "SeedList"});
    let definition = json!({"metadata": {"name": "seeds.core.gardener.cloud"},
        "spec": {"group": "core.gardener.cloud", "scope": "Cluster", "names": names,
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": open}]}});
    create(&definitions, definition).await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("core.gardener.cloud", "v1beta1", "Seed"));
    let seeds = Api::<DynamicObject>::all_with(admin, &resource);
    let seed = DynamicObject::new("one", &resource);
    soon(SOON, "a seed is written though nobody answers reviews", || async {
        let written = seeds.create(&PostParams::default(), &seed).await;
        written.map_err(|error| assert!(!error.to_string().contains("webhook"), "{error}")).is_ok()
    })
    .await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn kinds_that_another_server_is_to_serve_are_named_at_the_start_though_it_does_not_answer() {
    let folder = Folder::new();
    folder.kubernetes().await;
    let registered = Api::<APIService>::all(client(&folder.kubeconfig()).await);
    let starts = async |group: &str, flags: &[&str]| {
        let name = format!("v1beta1.{group}");
        let registration = json!({"metadata": {"name": name}, "spec": {"group": group, "version": "v1beta1",
            "groupPriorityMinimum": 1000, "versionPriority": 15, "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "nobody"}}});
        create(&registered, registration).await;
        let mut command = allot(&folder);
        command.args(["controllers", "--listen", "127.0.0.1:0", "--kubeconfig"]).arg(folder.own_kubeconfig());
        command.arg("--data-dir").arg(folder.data()).args(flags);
        let (code, says) = ends(command).await;
        assert_eq!(code, Some(1), "{says}");
        assert!(says.contains(&format!("APIService {name} (Service default/nobody)")), "{says}");
        registered.delete(&name, &DeleteParams::default()).await.expect("deleted");
        says
    };
    let says = starts("core.gardener.cloud", &[]).await;
    assert!(says.contains("--without-catalog"), "{says}");
    // What the platform cannot do without is refused in any case.
    let says = starts("existing.cluster.openmcp.cloud", &["--without-catalog"]).await;
    assert!(!says.contains("start with"), "{says}");
}

/// Runs it to its end, which comes soon.
async fn ends(command: std::process::Command) -> (Option<i32>, String) {
    let output = tokio::process::Command::from(command).kill_on_drop(true).stdin(Stdio::null()).output();
    let output = tokio::time::timeout(LIMIT, output).await.expect("it ends by itself").expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn a_definition_of_somebody_elses_that_takes_the_place_of_ours_is_left_alone_and_named() {
    let folder = Folder::new();
    // Stopped for a while it still holds the Lease.
    let up = Up::replica(&folder, "first", &["--lease-duration", "2m"]).await;
    up.until_says(ACTS).await;
    let definitions = Api::<CustomResourceDefinition>::all(client(&folder.kubeconfig()).await);
    let (theirs, ours) = ("shoots.core.gardener.cloud", "traitequivalences.cluster.openmcp.cloud");
    // Nobody makes it again while it is replaced.
    up.signal("STOP");
    let gone = async |name: &str| definitions.get_opt(name).await.expect("read").is_none();
    definitions.delete(theirs, &DeleteParams::default()).await.expect("deleted");
    soon(SOON, "it is gone", || gone(theirs)).await;
    let open = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let names = json!({"plural": "shoots", "singular": "shoot", "kind": "Shoot", "listKind": "ShootList"});
    let definition = json!({"metadata": {"name": theirs}, "spec": {"group": "core.gardener.cloud", "scope": "Namespaced",
        "names": names, "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": open}]}});
    let before = create(&definitions, definition).await;
    up.signal("CONT");
    up.until_says(&format!("CustomResourceDefinition {theirs}")).await;
    // All others are looked after nevertheless.
    definitions.delete(ours, &DeleteParams::default()).await.expect("deleted");
    soon(LIMIT, "the other one is there again", || async {
        let there = definitions.get_opt(ours).await.expect("read");
        there.is_some_and(|there| there.metadata.deletion_timestamp.is_none())
    })
    .await;
    let after = definitions.get(theirs).await.expect("there");
    assert_eq!((after.uid(), after.metadata.generation), (before.uid(), before.metadata.generation), "{after:?}");
    assert!(after.annotations().is_empty(), "{:?}", after.annotations());
    // Taken away again, it is ours.
    definitions.delete(theirs, &DeleteParams::default()).await.expect("deleted");
    soon(LIMIT, "ours is there", || async {
        let there = definitions.get_opt(theirs).await.expect("read");
        there.is_some_and(|there| !there.annotations().is_empty())
    })
    .await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn a_definition_that_somebody_deletes_is_made_again_at_once() {
    let folder = Folder::new();
    let up = Up::replica(&folder, "first", &[]).await;
    up.until_says(ACTS).await;
    let admin = client(&folder.kubeconfig()).await;
    let (name, definitions) = ("traitequivalences.cluster.openmcp.cloud", Api::<CustomResourceDefinition>::all(admin));
    let before = definitions.get(name).await.expect("there").uid();
    definitions.delete(name, &DeleteParams::default()).await.expect("deleted");
    soon(SOON, "the definition is there", || async {
        let there = definitions.get_opt(name).await.expect("read");
        there.is_some_and(|there| there.uid() != before && there.metadata.deletion_timestamp.is_none())
    })
    .await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn while_the_api_server_is_away_clusters_are_served_and_the_log_stays_short() {
    let folder = Folder::new();
    let up = Up::replica(&folder, "first", &[]).await;
    up.until_says(ACTS).await;
    let admin = client(&folder.kubeconfig()).await;
    let (_, kubeconfig) = granted(&admin, "before").await;
    let inside = client_of(&kubeconfig).await;
    let server = folder.kubernetes().await.api_server_id().expect("it runs");
    signal(server, "STOP");
    up.until_says("the Lease is lost").await;
    // Connections that are open hang, new ones too: by all that a replica sees the server is gone.
    let namespaces = Api::<Namespace>::all(inside.clone());
    for round in 0..20 {
        assert_eq!(code(namespaces.list(&ListParams::default()).await), 200, "round {round}");
        let map = json!({"metadata": {"name": format!("m{round}")}});
        create(&Api::<ConfigMap>::namespaced(inside.clone(), "default"), map).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let lines = up.log().lines().count();
    assert!(lines < 60, "{lines} lines: {}", up.log());
    signal(server, "CONT");
    let acts = || async { up.log().matches(ACTS).count() == 2 };
    soon(LIMIT, "it acts again", acts).await;
    let requests = Api::<ClusterRequest>::namespaced(admin, "default");
    let request = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": "r"}, "spec": {"purposes": ["mcp"]}});
    create(&requests, request).await;
    until(&requests, "r", is_ready).await;
    let maps = Api::<ConfigMap>::namespaced(inside, "default").list(&ListParams::default()).await;
    assert!(maps.expect("it is served on").items.len() >= 20, "what was written meanwhile is there");
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn one_that_hangs_is_named_to_whoever_finds_the_folder_in_use() {
    let folder = Folder::new();
    let first = Up::replica(&folder, "first", &[]).await;
    first.until_says(ACTS).await;
    let second = Up::replica(&folder, "second", &[]).await;
    assert!(second.log().contains(STANDS_BY), "{}", second.log());
    let pid = first.id();
    first.signal("STOP");
    let (code, says) = second.ends().await;
    assert_eq!(code, Some(10), "{says}");
    assert!(says.contains(&format!("process {pid} (`")), "{says}");
    assert!(says.contains("which is stopped") && says.contains(&format!("kill -9 {pid}")), "{says}");
    first.kill();
    let third = Up::replica(&folder, "third", &[]).await;
    third.until_says(ACTS).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn a_replica_with_another_folder_takes_no_lease() {
    let folder = Folder::new();
    let up = Up::replica(&folder, "first", &[]).await;
    up.until_says(ACTS).await;
    let admin = client(&folder.kubeconfig()).await;
    soon(LIMIT, "the Lease names the folder", || async {
        lease(&admin).await.annotations().contains_key("cluster.openmcp.cloud/data-folder")
    })
    .await;
    assert!(up.interrupt().await.success());
    let before = lease(&admin).await;
    let own = folder.own_kubeconfig();
    let start = |data: &str| {
        let mut command = allot(&folder);
        command.args(["controllers", "--lease-duration", "3s", "--listen", "127.0.0.1:0", "--kubeconfig"]).arg(&own);
        command.arg("--data-dir").arg(folder.0.join(data));
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, says) = start("elsewhere");
    assert_eq!(code, Some(11), "{says}");
    assert!(says.contains("keeps no clusters") && says.contains("--data-dir"), "{says}");
    assert!(!folder.0.join("elsewhere").exists(), "nothing was made");
    let after = lease(&admin).await;
    assert_eq!(after.resource_version(), before.resource_version(), "it was not taken for a moment");
    let up = Up::replica(&folder, "again", &[]).await;
    up.until_says(ACTS).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn all_rights_that_lack_are_told_at_once() {
    let folder = Folder::new();
    folder.kubernetes().await;
    let admin = client(&folder.kubeconfig()).await;
    let roles = Api::<ClusterRole>::all(admin);
    let mut role = roles.get("allot-controllers").await.expect("there");
    for rule in role.rules.iter_mut().flatten() {
        let about = |name: &str| rule.resources.iter().flatten().any(|resource| resource == name);
        if about("leases") {
            rule.verbs.retain(|verb| verb != "update");
        } else if about("customresourcedefinitions") {
            rule.verbs.retain(|verb| verb != "watch" && verb != "list");
        }
    }
    roles.replace("allot-controllers", &PostParams::default(), &role).await.expect("replaced");
    let output = allot(&folder)
        .args(["controllers", "--listen", "127.0.0.1:0", "--kubeconfig"])
        .arg(folder.own_kubeconfig())
        .arg("--data-dir")
        .arg(folder.data())
        .output()
        .expect("it runs");
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{says}");
    for part in [
        "update leases.coordination.k8s.io",
        "list, watch customresourcedefinitions.apiextensions.k8s.io",
        "deploy/controllers/rbac.yaml",
    ] {
        assert!(says.contains(part), "{part}: {says}");
    }
}
