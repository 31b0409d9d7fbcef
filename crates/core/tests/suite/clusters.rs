//! What becomes of Clusters, case by case.

use std::sync::Arc;

use allotment_core::requests::{ClusterPlan, decide_cluster};
use allotment_core::write::ObjectKey;
use serde_json::{Value, json};

use crate::store::{Names, Scheduler, Store, landscape, purpose, request, settle};

fn only_cluster(store: &Store) -> (ObjectKey, Value) {
    let (key, cluster) = store.all("Cluster").next().expect("a Cluster");
    (key.clone(), cluster.clone())
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().expect("conditions");
    conditions.iter().find(|condition| condition["type"] == kind).expect(kind)
}

fn granted(store: &mut Store) -> (Scheduler, Names) {
    store.put(request("team", "r", json!({"purposes": ["workload"]})));
    let (mut scheduler, mut names) = (Scheduler::default(), Names::default());
    settle(store, &mut scheduler, &mut names);
    store.provision();
    settle(store, &mut scheduler, &mut names);
    (scheduler, names)
}

/// A second passes, after which Clusters tell which generation of them was seen.
fn rest(store: &mut Store, scheduler: &mut Scheduler, names: &mut Names) {
    store.now += 1;
    let keys: Vec<ObjectKey> = store.all("Cluster").map(|(key, _)| key.clone()).collect();
    for key in &keys {
        scheduler.step_cluster(store, key).transpose().expect("nobody else writes");
        let cluster = store.get("Cluster", &key.namespace, &key.name).expect("there");
        assert_eq!(cluster["status"]["observedGeneration"], cluster["metadata"]["generation"], "{key}");
    }
    settle(store, scheduler, names);
}

fn place(kind: &str, namespace: &str, name: &str) -> (String, ObjectKey) {
    (kind.to_owned(), ObjectKey::new(namespace, name))
}

#[test]
fn an_unused_cluster_goes_after_its_grace_and_not_before() {
    let mut store = landscape();
    store.put(purpose("workload", json!({"idleGrace": "2m"})));
    let (mut scheduler, mut names) = granted(&mut store);
    store.delete(&place("ClusterRequest", "team", "r"));
    settle(&mut store, &mut scheduler, &mut names);
    rest(&mut store, &mut scheduler, &mut names);
    let (key, _) = only_cluster(&store);
    let again = match decide_cluster(&scheduler.snapshot, &key, store.time()) {
        ClusterPlan::Done { again: Some(again) } => again,
        plan => panic!("{plan:?}"),
    };
    assert_eq!(again.as_second(), store.now + 119);
    store.now += 118;
    scheduler.observe(&store, usize::MAX);
    assert_eq!(scheduler.step_cluster(&mut store, &key), None, "a second early");
    store.now += 1;
    assert_eq!(scheduler.step_cluster(&mut store, &key), Some(Ok(())), "marked as draining");
    settle(&mut store, &mut scheduler, &mut names);
    assert_eq!(store.all("Cluster").count(), 0);
}

#[test]
fn a_request_that_comes_in_time_keeps_the_cluster() {
    let mut store = landscape();
    let (mut scheduler, mut names) = granted(&mut store);
    let (key, _) = only_cluster(&store);
    store.delete(&place("ClusterRequest", "team", "r"));
    settle(&mut store, &mut scheduler, &mut names);
    store.now += 200;
    store.put(request("team", "next", json!({"purposes": ["workload"]})));
    settle(&mut store, &mut scheduler, &mut names);
    store.now += 1000;
    scheduler.observe(&store, usize::MAX);
    assert_eq!(scheduler.step_cluster(&mut store, &key), None);
    assert_eq!(only_cluster(&store).0, key);
}

#[test]
fn nobody_takes_room_on_a_cluster_that_is_draining() {
    let mut store = landscape();
    let (mut scheduler, mut names) = granted(&mut store);
    let (key, _) = only_cluster(&store);
    let mut late = Scheduler::default();
    store.delete(&place("ClusterRequest", "team", "r"));
    settle(&mut store, &mut scheduler, &mut names);
    store.put(request("team", "late", json!({"purposes": ["workload"]})));
    late.observe(&store, usize::MAX);
    store.now += 301;
    assert_eq!(scheduler.step_cluster(&mut store, &key), Some(Ok(())), "draining");
    let late_key = ObjectKey::new("team", "late");
    late.step(&mut store, &late_key, &mut names).expect("takes the finalizer").expect("it does");
    let events = store.log.len();
    // The late one has seen its own finalizer, not the draining.
    let (place, object) = store.log[events - 1].clone();
    assert_eq!(place.1, late_key);
    late.snapshot.apply(allotment_core::requests::Object::Request(Arc::new(
        serde_json::from_value(object.expect("there")).expect("a request"),
    )));
    assert_eq!(late.step(&mut store, &late_key, &mut names), Some(Err(crate::store::Failure::Conflict)));
}

#[test]
fn a_cluster_in_use_says_for_whom_it_waits_and_goes_once_they_went() {
    let mut store = landscape();
    let (mut scheduler, mut names) = granted(&mut store);
    let (key, cluster) = only_cluster(&store);
    store.put(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "a", "namespace": "team", "annotations": {
            "cluster.openmcp.cloud/live-in": cluster["metadata"]["uid"], "cluster.openmcp.cloud/live-in-name": key.to_string()}},
        "spec": {"requestRef": {"name": "r"}, "permissions": []}}));
    store.delete(&("Cluster".to_owned(), key.clone()));
    settle(&mut store, &mut scheduler, &mut names);
    let blocked = condition(store.get("Cluster", &key.namespace, &key.name).expect("waits"), "DeletionBlocked").clone();
    assert_eq!((&blocked["status"], &blocked["reason"]), (&json!("True"), &json!("InUse")));
    assert_eq!(blocked["message"], "in use by AccessRequest team/a, ClusterRequest team/r");
    store.delete(&place("ClusterRequest", "team", "r"));
    settle(&mut store, &mut scheduler, &mut names);
    assert!(store.get("ClusterRequest", "team", "r").is_some(), "waits for the access that came by it");
    store.edit("AccessRequest", "team", "a", &json!({"metadata": {"annotations": null}}));
    settle(&mut store, &mut scheduler, &mut names);
    assert!(store.get("ClusterRequest", "team", "r").is_none());
    assert_eq!(store.all("Cluster").count(), 0);
}

#[test]
fn retain_and_clusters_written_by_hand_never_go_by_themselves() {
    let mut store = landscape();
    store.put(purpose("workload", json!({"deletionPolicy": "Retain"})));
    store.put(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "hand", "namespace": "team"},
        "spec": {"clusterProviderRef": {"name": "local", "profile": "local"}, "purposes": ["mcp"]}}));
    let (mut scheduler, mut names) = granted(&mut store);
    store.delete(&place("ClusterRequest", "team", "r"));
    settle(&mut store, &mut scheduler, &mut names);
    rest(&mut store, &mut scheduler, &mut names);
    store.now += 1_000_000;
    let keys: Vec<ObjectKey> = store.all("Cluster").map(|(key, _)| key.clone()).collect();
    for key in &keys {
        assert_eq!(scheduler.step_cluster(&mut store, key), None, "{key}");
    }
    assert_eq!(keys.len(), 2);
    assert!(store.get("Cluster", "team", "hand").expect("kept")["spec"].get("deletionPolicy").is_none());
}

#[test]
fn a_cluster_written_by_hand_takes_requests_only_if_opened() {
    for (dedicated, purpose, expect) in [
        (json!(null), "workload", false),
        (json!(false), "workload", true),
        (json!(true), "workload", false),
        (json!(true), "mcp", true),
        (json!(false), "mcp", false),
    ] {
        let mut store = landscape();
        store.put(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "hand", "namespace": "team"},
            "spec": {"clusterProviderRef": {"name": "local", "profile": "local"}, "kubernetes": {"version": "1.36.3"},
                "purposes": [purpose], "dedicated": dedicated}}));
        store.put(request("team", "r", json!({"purposes": [purpose]})));
        settle(&mut store, &mut Scheduler::default(), &mut Names::default());
        let grant = store.get("ClusterRequestGrant", "team", "r").expect("granted");
        assert_eq!(grant["spec"]["clusterRef"]["name"] == "hand", expect, "{dedicated} {purpose}");
    }
}

#[test]
fn a_cluster_written_by_hand_takes_no_requests_of_namespaces_that_do_not_own_it() {
    for (home, from, spec, expect) in [
        ("mine", "team", json!({}), false),
        ("team", "team", json!({}), true),
        ("allot-clusters", "team", json!({}), true),
        ("mine", "team", json!({"namespace": "mine"}), true),
        ("allot-clusters", "team", json!({"namespace": "shared"}), false),
    ] {
        for dedicated in [false, true] {
            let mut store = landscape();
            for name in ["mine", "shared"] {
                store.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
            }
            let mut purposes = spec.clone();
            purposes["dedicated"] = json!(dedicated);
            store.put(purpose("p", purposes));
            store.put(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster",
                "metadata": {"name": "hand", "namespace": home},
                "spec": {"clusterProviderRef": {"name": "local", "profile": "local"}, "kubernetes": {"version": "1.36.3"},
                    "purposes": ["p"], "dedicated": dedicated}}));
            store.put(request(from, "r", json!({"purposes": ["p"]})));
            settle(&mut store, &mut Scheduler::default(), &mut Names::default());
            let grant = store.get("ClusterRequestGrant", from, "r").expect("granted");
            assert_eq!(grant["spec"]["clusterRef"]["name"] == "hand", expect, "{home} {spec} {dedicated}");
        }
    }
}

#[test]
fn a_cluster_gone_by_force_leaves_the_request_granted_and_lost() {
    let mut store = landscape();
    let (mut scheduler, mut names) = granted(&mut store);
    let (key, _) = only_cluster(&store);
    store.delete(&("Cluster".to_owned(), key.clone()));
    store.edit(
        "Cluster",
        &key.namespace,
        &key.name,
        &json!({"metadata": {"annotations": {"cluster.openmcp.cloud/force-delete": "true"}}}),
    );
    // At once, though the Grant is young: the Cluster was seen, and is gone.
    settle(&mut store, &mut scheduler, &mut names);
    assert_eq!(store.all("Cluster").count(), 0);
    let request = store.get("ClusterRequest", "team", "r").expect("there");
    assert_eq!(request["status"]["status"], "Granted");
    assert_eq!(condition(request, "Ready")["reason"], "ClusterLost");
    assert_eq!(store.get("ClusterRequestGrant", "team", "r").expect("kept")["status"]["phase"], "Lost");
}

#[test]
fn force_lets_a_cluster_go_whose_provider_of_another_process_is_not_there_to_act() {
    let silent = json!({"ready": false, "reason": "HeartbeatMissed"});
    let ending = json!({"ready": false, "reason": "Deleting"});
    for (provider, forced, goes) in [
        (Some(silent.clone()), true, true),
        (None, true, true),
        (Some(silent), false, false),
        (None, false, false),
        // Those who can are to take away what they made.
        (Some(json!({"ready": true, "reason": "AllGood"})), true, false),
        (Some(ending), true, false),
    ] {
        let mut store = landscape();
        store.put(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "home", "uid": "u-c", "finalizers":
                ["cluster.openmcp.cloud/cluster", "provider.cluster.openmcp.cloud/far", "example.com/theirs"]},
            "spec": {"clusterProviderRef": {"name": "far", "profile": "x"}, "purposes": [], "dedicated": false}}));
        if let Some(status) = &provider {
            store.put(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterProvider",
                "metadata": {"name": "far"}, "spec": {"package": "far"}, "status": status}));
        }
        let key = ObjectKey::new("home", "c");
        store.delete(&("Cluster".to_owned(), key.clone()));
        if forced {
            let force = json!({"metadata": {"annotations": {"cluster.openmcp.cloud/force-delete": "true"}}});
            store.edit("Cluster", &key.namespace, &key.name, &force);
        }
        let mut scheduler = Scheduler::default();
        scheduler.observe(&store, usize::MAX);
        let told = match decide_cluster(&scheduler.snapshot, &key, store.time()) {
            ClusterPlan::RemoveFinalizer { told, .. } => told,
            plan => panic!("{plan:?}"),
        };
        let names =
            told.as_ref().is_some_and(|told| told.contains("ClusterProvider \"far\"") && told.contains("UID uid-"));
        assert_eq!(names, goes, "{provider:?} forced {forced}: {told:?}");
        settle(&mut store, &mut scheduler, &mut Names::default());
        let left = store.get("Cluster", "home", "c").expect("others hold it");
        let kept = match goes {
            true => json!(["example.com/theirs"]),
            false => json!(["provider.cluster.openmcp.cloud/far", "example.com/theirs"]),
        };
        assert_eq!(left["metadata"]["finalizers"], kept, "{provider:?} forced {forced}");
        let blocked = condition(left, "DeletionBlocked")["message"].as_str().expect("text");
        let waits = !goes && !forced;
        assert_eq!(blocked.contains("far") && blocked.contains("force-delete"), waits, "{provider:?}: {blocked}");
    }
}

#[test]
fn a_forged_grant_of_a_cluster_that_is_gone_is_not_taken_for_a_lost_one() {
    for roomy in [true, false] {
        let mut store = landscape();
        // With room elsewhere, or Denied and without any.
        let purposes = if roomy { json!(["workload"]) } else { json!(["nowhere"]) };
        store.put(request("team", "r", json!({"purposes": purposes})));
        let uid = store.get("ClusterRequest", "team", "r").expect("there")["metadata"]["uid"].clone();
        let forged = json!({"apiVersion": "cluster.openmcp.cloud/v1", "kind": "ClusterRequestGrant",
            "metadata": {"name": "r", "namespace": "team"},
            "spec": {"clusterRef": {"name": "gone", "namespace": "allot-clusters", "uid": "u-gone"},
                "prefix": "evil-", "requestUID": uid, "resolved": {"purposes": ["workload"], "dedicated": false}}});
        if roomy {
            let (mut scheduler, mut names) = (Scheduler::default(), Names::default());
            scheduler.observe(&store, usize::MAX);
            let key = ObjectKey::new("team", "r");
            while store.all("Cluster").count() == 0 {
                scheduler.step(&mut store, &key, &mut names).expect("a write").expect("done");
                scheduler.observe(&store, usize::MAX);
            }
        }
        store.put(forged);
        store.now += 3600;
        settle(&mut store, &mut Scheduler::default(), &mut Names::default());
        let status = &store.get("ClusterRequest", "team", "r").expect("there")["status"];
        assert_eq!((&status["status"], &status["reason"]), (&json!("Pending"), &json!("Scheduling")), "{status}");
        assert!(status["message"].as_str().expect("text").contains("delete the Grant"), "{status}");
    }
}

#[test]
fn a_withdrawn_cluster_keeps_its_tenants_and_takes_no_new_ones() {
    let mut store = landscape();
    let (mut scheduler, mut names) = granted(&mut store);
    let (key, _) = only_cluster(&store);
    store.edit("ClusterProvider", "", "local", &json!({"status": {"profiles": []}}));
    store.put(request("team", "new", json!({"purposes": ["workload"]})));
    settle(&mut store, &mut scheduler, &mut names);
    let cluster = store.get("Cluster", &key.namespace, &key.name).expect("kept");
    assert_eq!(condition(cluster, "Withdrawn")["status"], "True");
    assert_eq!(store.get("ClusterRequest", "team", "r").expect("there")["status"]["status"], "Granted");
    let denied = &store.get("ClusterRequest", "team", "new").expect("there")["status"];
    assert_eq!((&denied["status"], &denied["reason"]), (&json!("Denied"), &json!("NoReadyProvider")));
    assert_eq!(denied["findings"][0]["reason"], "Withdrawn");
}

#[test]
fn ceilings_and_policy_follow_the_purpose_and_stay_when_it_goes() {
    let mut store = landscape();
    let (mut scheduler, mut names) = granted(&mut store);
    let (key, _) = only_cluster(&store);
    store.edit(
        "Purpose",
        "",
        "workload",
        &json!({"spec": {"deletionPolicy": "Retain", "idleGrace": "1h",
        "permissionCeiling": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}}),
    );
    settle(&mut store, &mut scheduler, &mut names);
    let spec = store.get("Cluster", &key.namespace, &key.name).expect("there")["spec"].clone();
    assert_eq!((&spec["deletionPolicy"], &spec["idleGrace"]), (&json!("Retain"), &json!("1h")));
    assert_eq!(spec["ceilings"][0]["rules"][0]["resources"], json!(["pods"]));
    let grant = store.get("ClusterRequestGrant", "team", "r").expect("there")["spec"].clone();
    store.delete(&place("Purpose", "", "workload"));
    settle(&mut store, &mut scheduler, &mut names);
    assert_eq!(store.get("Cluster", &key.namespace, &key.name).expect("there")["spec"], spec);
    assert_eq!(store.get("ClusterRequestGrant", "team", "r").expect("there")["spec"], grant);
}

#[test]
fn giving_room_back_on_an_old_view_fails_and_takes_nobody_elses_room() {
    let mut store = landscape();
    let (mut scheduler, mut names) = granted(&mut store);
    let key = ObjectKey::new("team", "r");
    store.delete(&place("ClusterRequest", "team", "r"));
    scheduler.observe(&store, usize::MAX);
    assert_eq!(scheduler.step(&mut store, &key, &mut names), Some(Ok(())), "the Grant goes");
    scheduler.observe(&store, usize::MAX);
    store.put(request("team", "other", json!({"purposes": ["workload"]})));
    settle(&mut store, &mut Scheduler::default(), &mut Names(1000));
    store.put(request("team", "third", json!({"purposes": ["workload"]})));
    assert_eq!(
        scheduler.step(&mut store, &key, &mut names),
        Some(Err(crate::store::Failure::Conflict)),
        "another took room meanwhile"
    );
    let (_, cluster) = only_cluster(&store);
    let live =
        cluster["spec"]["tenants"].as_array().expect("tenants").iter().filter(|tenant| tenant["name"] == "other");
    assert_eq!(live.count(), 1);
}
