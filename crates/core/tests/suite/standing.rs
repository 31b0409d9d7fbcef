//! What is told of Purposes and of Clusters that go, and what profiles and Clusters are counted by.

use allotment_core::requests::{PurposePlan, decide_purpose};
use allotment_core::write::ObjectKey;
use serde_json::{Value, json};

use crate::store::{Names, Scheduler, Store, landscape, provider, purpose, request, settle};

struct World {
    store: Store,
    scheduler: Scheduler,
    names: Names,
}

impl World {
    fn of(store: Store) -> World {
        let mut world = World { store, scheduler: Scheduler::default(), names: Names::default() };
        world.settle();
        world
    }

    fn settle(&mut self) {
        settle(&mut self.store, &mut self.scheduler, &mut self.names);
    }

    fn ask(&mut self, name: &str, spec: Value) -> Value {
        self.store.put(request("team", name, spec));
        self.settle();
        self.status(name)
    }

    fn status(&self, name: &str) -> Value {
        self.store.get("ClusterRequest", "team", name).expect("there")["status"].clone()
    }

    fn cluster_of(&self, name: &str) -> Value {
        let reference = &self.status(name)["clusterRef"];
        let text = |field: &str| reference[field].as_str().expect("text");
        self.store.get("Cluster", text("namespace"), text("name")).expect("its Cluster").clone()
    }

    fn told_of_purpose(&self, name: &str) -> Value {
        self.store.get("Purpose", "", name).expect("there")["status"].clone()
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let list = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    list.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

fn place(kind: &str, object: &Value) -> (String, ObjectKey) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (kind.to_owned(), ObjectKey::new(text("namespace"), text("name")))
}

#[test]
fn profiles_that_fit_alike_are_ranked_by_strategy_before_version_and_name() {
    for (strategy, expect) in [("Balanced", ["old", "new", "old", "new"]), ("Pack", ["new", "new", "new", "new"])] {
        let mut store = Store::new();
        let profile = |name: &str, version: &str| json!({"name": name, "supportedVersions": [{"version": version}]});
        store.put(provider("p", json!([profile("old", "1.30.1"), profile("new", "1.31.0")])));
        store.put(purpose("own", json!({"dedicated": true, "strategy": strategy})));
        let mut world = World::of(store);
        // Without any tenants the newest version decides; from then on who has fewer, or more, of them.
        world.ask("first", json!({"purposes": ["own"]}));
        assert_eq!(world.cluster_of("first")["spec"]["clusterProviderRef"]["profile"], "new");
        let chosen: Vec<String> = (0..4)
            .map(|index| {
                let name = format!("r{index}");
                world.ask(&name, json!({"purposes": ["own"]}));
                world.cluster_of(&name)["spec"]["clusterProviderRef"]["profile"].as_str().expect("text").to_owned()
            })
            .collect();
        assert_eq!(chosen, expect, "{strategy}");
    }
}

#[test]
fn room_that_is_given_back_counts_for_a_profile_no_more() {
    let mut store = Store::new();
    let profile = |name: &str| json!({"name": name, "supportedVersions": [{"version": "1.30.1"}]});
    store.put(provider("p", json!([profile("a"), profile("b")])));
    store.put(purpose("own", json!({"dedicated": true, "deletionPolicy": "Retain"})));
    let mut world = World::of(store);
    let of = |world: &World, name: &str| world.cluster_of(name)["spec"]["clusterProviderRef"]["profile"].clone();
    world.ask("one", json!({"purposes": ["own"]}));
    assert_eq!(of(&world, "one"), "a");
    world.store.delete(&("ClusterRequest".to_owned(), ObjectKey::new("team", "one")));
    world.settle();
    world.ask("two", json!({"purposes": ["own"]}));
    assert_eq!(of(&world, "two"), "a", "its Cluster is kept, and has no tenant");
    world.ask("three", json!({"purposes": ["own"]}));
    assert_eq!(of(&world, "three"), "b");
}

#[test]
fn a_request_says_that_its_cluster_is_being_deleted_though_it_works() {
    let mut world = World::of(landscape());
    world.ask("r", json!({"purposes": ["mcp"]}));
    world.store.provision();
    world.settle();
    assert_eq!(condition(&world.status("r"), "Ready")["reason"], "ClusterReady");
    let cluster = world.cluster_of("r");
    world.store.delete(&place("Cluster", &cluster));
    world.settle();
    let status = world.status("r");
    let ready = condition(&status, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("ClusterDeleting")), "{status}");
    assert_eq!(status["status"], "Granted", "grants never move");
}

#[test]
fn nothing_replaces_a_cluster_that_went_by_force_even_if_its_grant_goes_first() {
    for grant_first in [true, false] {
        let mut world = World::of(landscape());
        world.ask("r", json!({"purposes": ["mcp"]}));
        world.store.provision();
        world.settle();
        let cluster = world.cluster_of("r");
        let (_, key) = place("Cluster", &cluster);
        let force = json!({"metadata": {"annotations": {"cluster.openmcp.cloud/force-delete": "true"}}});
        world.store.edit("Cluster", &key.namespace, &key.name, &force);
        let grant = ("ClusterRequestGrant".to_owned(), ObjectKey::new("team", "r"));
        world.store.delete(&place("Cluster", &cluster));
        if grant_first {
            // One turn of the Cluster alone: it tells whom it leaves. Then the Grant goes, and all else after it.
            world.scheduler.observe(&world.store, usize::MAX);
            while let Some(done) = world.scheduler.step_cluster(&mut world.store, &key) {
                done.expect("nobody else writes");
                world.scheduler.observe(&world.store, usize::MAX);
            }
            world.store.delete(&grant);
            world.settle();
        } else {
            world.settle();
            assert_eq!(condition(&world.status("r"), "Ready")["reason"], "ClusterLost");
            world.store.delete(&grant);
            world.settle();
        }
        assert_eq!(world.store.all("Cluster").count(), 0, "another Cluster was made unasked");
        let status = world.status("r");
        assert_eq!(status["status"], "Pending", "{status}");
        assert!(status["message"].as_str().is_some_and(|text| text.contains("delete and re-create")), "{status}");
        // Asked anew, it is another request.
        world.store.delete(&("ClusterRequest".to_owned(), ObjectKey::new("team", "r")));
        world.settle();
        world.ask("r", json!({"purposes": ["mcp"]}));
        assert_eq!(world.store.all("Cluster").count(), 1);
    }
}

#[test]
fn a_cluster_that_was_recorded_and_not_made_yet_is_made_after_a_crash() {
    let mut store = landscape();
    store.put(request("team", "r", json!({"purposes": ["mcp"]})));
    let (mut scheduler, mut names) = (Scheduler::default(), Names::default());
    scheduler.observe(&store, usize::MAX);
    scheduler.step(&mut store, &ObjectKey::new("team", "r"), &mut names).expect("a write").expect("it is noted");
    let mut world = World { store, scheduler: Scheduler::default(), names };
    world.settle();
    assert_eq!(world.store.all("Cluster").count(), 1);
}

#[test]
fn a_purpose_says_what_there_is_and_why_a_spare_is_missing() {
    for (spec, reason, told) in [
        (json!({"warm": 2}), "AllGood", "2 of the 2"),
        (json!({"warm": 2, "maxClusters": 1}), "MaxClustersReached", "maxClusters"),
        (json!({"warm": 1, "namespace": "nowhere"}), "NamespaceNotFound", "\"nowhere\""),
        (json!({"warm": 1, "traits": [{"trait": "x"}]}), "NoProfileFits", "no profile"),
    ] {
        let mut store = landscape();
        store.put(purpose("p", spec.clone()));
        let world = World::of(store);
        let status = world.told_of_purpose("p");
        let ready = condition(&status, "SparesReady");
        assert_eq!(ready["reason"], reason, "{spec}: {status}");
        assert_eq!(ready["status"] == "True", reason == "AllGood");
        assert!(ready["message"].as_str().is_some_and(|text| text.contains(told)), "{status}");
        let there = world.store.all("Cluster").count();
        assert_eq!((&status["clusters"], &status["spares"]), (&json!(there), &json!(there)), "{status}");
    }
    let mut world = World::of(landscape());
    assert_eq!(*condition(&world.told_of_purpose("mcp"), "SparesReady"), Value::Null, "it asks for none");
    // Counts alone are written only every so often, whatever comes and goes between.
    let before = world.store.log.len();
    for index in 0..20 {
        world.ask(&format!("r{index}"), json!({"purposes": ["mcp"]}));
    }
    let written = world.store.log[before..].iter().filter(|(place, _)| place.0 == "Purpose").count();
    assert_eq!(written, 0, "a write of the Purpose for each Cluster");
    let mut names = Names::default();
    let plan = decide_purpose(&world.scheduler.snapshot, "mcp", world.store.time(), &mut names);
    let PurposePlan::Done { again: Some(again) } = plan else { panic!("{plan:?}") };
    world.store.now = again.as_second();
    world.scheduler.step_purpose(&mut world.store, "mcp", &mut names).expect("a write").expect("nobody else writes");
    world.settle();
    assert_eq!(world.told_of_purpose("mcp")["clusters"], 20);
    let plan = decide_purpose(&world.scheduler.snapshot, "mcp", world.store.time(), &mut names);
    assert_eq!(plan, PurposePlan::Done { again: None }, "at rest nothing is written");
}

#[test]
fn clusters_by_hand_count_where_their_purpose_may_be_asked_for_or_operators_write() {
    for (namespace, allowed, expect) in [
        ("elsewhere", Value::Null, ("Pending", "MaxClustersReached")),
        ("elsewhere", json!({"matchLabels": {"may": "yes"}}), ("Granted", "Success")),
        ("team", json!({"matchLabels": {"may": "yes"}}), ("Pending", "MaxClustersReached")),
        ("allot-clusters", json!({"matchLabels": {"may": "yes"}}), ("Pending", "MaxClustersReached")),
    ] {
        let mut store = landscape();
        for (name, labels) in [("team", json!({"may": "yes"})), ("elsewhere", json!({}))] {
            store.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}));
        }
        store.put(purpose("p", json!({"dedicated": true, "maxClusters": 1, "allowedNamespaces": allowed})));
        store.put(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "by-hand", "namespace": namespace},
            "spec": {"clusterProviderRef": {"name": "local", "profile": "local"}, "kubernetes": {}, "purposes": ["p"]}}));
        let mut world = World::of(store);
        let status = world.ask("r", json!({"purposes": ["p"]}));
        let is = (status["status"].as_str().expect("text"), status["reason"].as_str().expect("text"));
        assert_eq!(is, expect, "{namespace} {allowed}");
    }
}
