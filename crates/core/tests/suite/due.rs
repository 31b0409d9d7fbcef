//! Who is decided again because of a change, and who is not: each look costs, and there are many.

use allotment_core::requests::{Due, Plan, decide_request};
use allotment_core::write::ObjectKey;
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use crate::store::{Names, Scheduler, Store, landscape, provider, purpose, request, settle};

const VERSION: &str = "cluster.openmcp.cloud/v1alpha1";

/// What becomes due by changes of a store that is settled.
fn due_by(store: &Store, change: impl FnOnce(&mut Store)) -> Due {
    let mut store = store.clone();
    let (mut scheduler, mut names) = (Scheduler::default(), Names::default());
    settle(&mut store, &mut scheduler, &mut names);
    scheduler.observe(&store, usize::MAX);
    scheduler.snapshot.take_due();
    change(&mut store);
    scheduler.observe(&store, usize::MAX);
    scheduler.snapshot.take_due()
}

fn names(keys: &[ObjectKey]) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

fn namespace(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

fn access(namespace: &str, name: &str, to: &str) -> Value {
    json!({"apiVersion": VERSION, "kind": "AccessRequest", "metadata": {"name": name, "namespace": namespace},
        "spec": {"requestRef": {"namespace": to, "name": "target"}, "permissions": []}})
}

fn policy(namespace: &str, from: &str) -> Value {
    json!({"apiVersion": VERSION, "kind": "AccessPolicy", "metadata": {"name": "p", "namespace": namespace},
        "spec": {"from": [{"namespace": from}], "permissions": []}})
}

/// Two that are granted, and two that wait: `full` since no more Clusters of its Purpose may be made, `odd` since nothing
/// has its trait.
fn scene() -> Store {
    let mut store = landscape();
    store.put(purpose("one", json!({"dedicated": true, "maxClusters": 1})));
    store.put(purpose("chosen", json!({"dedicated": true, "allowedNamespaces": {"matchLabels": {"let": "in"}}})));
    store.put(namespace("team", json!({})));
    store.put(namespace("far", json!({})));
    store.put(request("team", "has", json!({"purposes": ["one"]})));
    store.put(request("team", "own", json!({"purposes": ["mcp"]})));
    store.now += 1;
    store.put(request("team", "full", json!({"purposes": ["one"]})));
    store.put(request("far", "odd", json!({"purposes": ["mcp"], "traits": [{"trait": "none/has/it"}]})));
    store.put(access("team", "a", "team"));
    store.put(access("far", "b", "team"));
    store
}

#[test]
fn what_is_said_of_a_purpose_concerns_nobody_else_and_what_it_asks_for_all() {
    let store = scene();
    for patch in [
        json!({"status": {"clusters": 7}}),
        json!({"metadata": {"annotations": {"cluster.openmcp.cloud/spare-name": "allot-clusters/x"}}}),
    ] {
        let due = due_by(&store, |store| store.edit("Purpose", "", "one", &patch));
        assert_eq!(due, Due { purposes: vec![ObjectKey::cluster_wide("one")], ..Due::default() }, "{patch}");
    }
    let due = due_by(&store, |store| store.edit("Purpose", "", "one", &json!({"spec": {"maxClusters": 2}})));
    assert_eq!(names(&due.requests), ["team/has", "far/odd", "team/full"].map(str::to_owned));
    assert_eq!(due.clusters.len(), 1);
}

#[test]
fn the_labels_of_a_namespace_concern_those_in_it() {
    let store = scene();
    let due = due_by(&store, |store| store.put(namespace("far", json!({}))));
    assert_eq!(due, Due::default(), "they are the same");
    let due = due_by(&store, |store| store.put(namespace("far", json!({"let": "in"}))));
    assert_eq!((names(&due.requests), names(&due.access)), (vec!["far/odd".to_owned()], vec!["far/b".to_owned()]));
    let due = due_by(&store, |store| store.put(namespace("new", json!({}))));
    assert_eq!(due, Due::default(), "nobody is in it");
}

#[test]
fn a_namespace_that_a_purpose_waits_for_concerns_those_that_wait_for_the_purpose() {
    let mut store = scene();
    store.put(purpose("elsewhere", json!({"dedicated": true, "namespace": "later"})));
    store.put(request("team", "waits", json!({"purposes": ["elsewhere"]})));
    let due = due_by(&store, |store| store.put(namespace("later", json!({}))));
    assert_eq!(names(&due.requests), ["team/waits".to_owned()]);
}

#[test]
fn a_policy_concerns_those_from_elsewhere_that_refer_to_its_namespace() {
    let mut store = scene();
    let due = due_by(&store, |store| store.put(policy("team", "far")));
    assert_eq!(names(&due.access), ["far/b".to_owned()]);
    let due = due_by(&store, |store| store.put(policy("far", "team")));
    assert_eq!(due, Due::default());
    store.put(policy("team", "far"));
    let due = due_by(&store, |store| store.put(policy("team", "far")));
    assert_eq!(due, Due::default(), "it says the same");
}

#[test]
fn a_cluster_concerns_those_that_wait_for_a_purpose_of_it() {
    let store = scene();
    let gone = |purpose: &str| {
        due_by(&store, |store| {
            let of_it = store.all("Cluster").find(|(_, cluster)| cluster["spec"]["purposes"] == json!([purpose]));
            let key = of_it.expect("there").0.clone();
            let drained =
                json!({"metadata": {"annotations": {"cluster.openmcp.cloud/draining": "2027-01-01T00:00:00Z"}}});
            store.edit("Cluster", &key.namespace, &key.name, &drained);
        })
    };
    assert_eq!(names(&gone("mcp").requests), ["team/own", "far/odd"].map(str::to_owned));
    assert_eq!(names(&gone("one").requests), ["team/has", "team/full"].map(str::to_owned));
}

#[test]
fn a_cluster_of_a_profile_that_makes_only_so_many_concerns_all_that_wait() {
    let mut store = scene();
    let profile = json!({"name": "few", "maxClusters": 1, "supportedVersions": [{"version": "1.30.1"}]});
    store.put(provider("other", json!([profile])));
    let cluster = json!({"apiVersion": VERSION, "kind": "Cluster", "metadata": {"name": "c", "namespace": "far"},
        "spec": {"clusterProviderRef": {"name": "other", "profile": "few"}, "purposes": ["platform"]}});
    let due = due_by(&store, |store| store.put(cluster.clone()));
    assert_eq!(names(&due.requests), ["far/odd".to_owned(), "team/full".to_owned()]);
}

#[test]
fn what_a_provider_says_beside_its_profiles_concerns_no_request_and_no_cluster() {
    let store = scene();
    let said = json!({"status": {"lastReconcileTime": "2027-01-01T00:00:00Z"}, "metadata": {"labels": {"a": "b"}}});
    let due = due_by(&store, |store| store.edit("ClusterProvider", "", "local", &said));
    assert_eq!((due.requests, due.clusters), (Vec::new(), Vec::new()));
    let stopped = json!({"status": {"ready": false}});
    let due = due_by(&store, |store| store.edit("ClusterProvider", "", "local", &stopped));
    assert_eq!((due.requests.len(), due.clusters.len()), (4, 2), "of all, since all come from it");
}

#[test]
fn purposes_count_again_where_what_counts_has_changed() {
    let mut store = scene();
    // Spares are left of a Purpose that asks for none any more.
    store.put(purpose("warm", json!({"dedicated": true, "warm": 1})));
    let (mut scheduler, mut made) = (Scheduler::default(), Names::default());
    settle(&mut store, &mut scheduler, &mut made);
    store.edit("Purpose", "", "warm", &json!({"spec": {"warm": 0}}));
    let due = due_by(&store, |store| store.edit("ClusterProvider", "", "local", &json!({"status": {"ready": false}})));
    assert!(names(&due.purposes).contains(&ObjectKey::cluster_wide("warm").to_string()), "{:?}", due.purposes);
    // A Cluster that somebody wrote counts once its namespace may ask for its Purpose.
    store.put(json!({"apiVersion": VERSION, "kind": "Cluster", "metadata": {"name": "c", "namespace": "far"},
        "spec": {"clusterProviderRef": {"name": "local", "profile": "local"}, "purposes": ["chosen"]}}));
    let due = due_by(&store, |store| store.put(namespace("far", json!({"let": "in"}))));
    assert_eq!(due.purposes, [ObjectKey::cluster_wide("chosen")]);
}

#[test]
fn findings_alone_are_told_anew_a_hundred_a_second_and_an_answer_at_once() {
    let mut store = scene();
    let (mut scheduler, mut made) = (Scheduler::default(), Names::default());
    for index in 0..250 {
        store.put(request(
            "far",
            &format!("r{index}"),
            json!({"purposes": ["mcp"], "traits": [{"trait": "none/has/it"}]}),
        ));
    }
    settle(&mut store, &mut scheduler, &mut made);
    let key = ObjectKey::new("far", "r7");
    let profiles = |names: &[&str]| {
        let profile = |name: &&str| json!({"name": name, "supportedVersions": [{"version": "1.36.3"}]});
        json!({"status": {"profiles": names.iter().map(profile).collect::<Vec<_>>()}})
    };
    store.edit("ClusterProvider", "", "local", &profiles(&["local", "more"]));
    scheduler.observe(&store, usize::MAX);
    let now = store.time();
    let told = |scheduler: &Scheduler, now| decide_request(&scheduler.snapshot, &key, now, &mut Names::default());
    let after = |seconds| now + SignedDuration::from_secs(seconds);
    assert_eq!(told(&scheduler, now), Plan::Done { again: Some(after(2)) }, "252 wait");
    assert!(matches!(told(&scheduler, after(2)), Plan::WriteStatus(_)), "it lasted as long as it may");
    store.now += 2;
    store.edit("ClusterProvider", "", "local", &json!({"status": {"ready": false}}));
    scheduler.observe(&store, usize::MAX);
    assert!(matches!(told(&scheduler, now), Plan::WriteStatus(_)), "the answer is another");
    settle(&mut store, &mut scheduler, &mut made);
    let again = store.time() + SignedDuration::from_secs(10);
    assert_eq!(
        told(&scheduler, store.time()),
        Plan::Done { again: Some(again) },
        "looked at with time, whatever is told"
    );
}
