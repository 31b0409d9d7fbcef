//! What is told of Purposes and of Clusters that go, and what profiles and Clusters are counted by.

use allotment_core::requests::{Forecast, PurposePlan, decide_purpose, forecast};
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

    /// What is said of it once all is settled.
    fn ask_again(&mut self, name: &str) -> String {
        self.settle();
        self.status(name)["message"].as_str().unwrap_or_default().to_owned()
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
fn a_dry_run_says_of_a_request_without_its_cluster_what_the_scheduler_says() {
    let lost = json!({"metadata": {"annotations": {"cluster.openmcp.cloud/lost-cluster": "u-gone"}}});
    let grant = ("ClusterRequestGrant".to_owned(), ObjectKey::new("team", "r"));
    // By what becomes of Cluster and Grant: what is waited for, or that it stays lost.
    for (what, told) in [
        ("grant is gone and lost is noted", Some("delete and re-create")),
        ("grant of a cluster that never had it", Some("never had this request")),
        ("grant of a cluster without a record", Some("has no record of this request")),
        ("grant of another request", Some("belongs to another request")),
        ("cluster is gone", None),
    ] {
        let mut world = World::of(landscape());
        world.ask("other", json!({"purposes": ["workload"]}));
        world.ask("r", json!({"purposes": ["workload"]}));
        world.store.provision();
        world.settle();
        let cluster = world.cluster_of("r");
        let (at, key) = place("Cluster", &cluster);
        let force = json!({"metadata": {"annotations": {"cluster.openmcp.cloud/force-delete": "true"}}});
        match what {
            "cluster is gone" => {
                world.store.edit("Cluster", &key.namespace, &key.name, &force);
                world.store.delete(&(at, key));
            }
            "grant is gone and lost is noted" => {
                world.store.edit("ClusterRequest", "team", "r", &lost);
                let tenants = json!({"spec": {"tenants": []}});
                world.store.edit("Cluster", &key.namespace, &key.name, &tenants);
                world.store.delete(&grant);
            }
            _ => {
                let change = match what {
                    "grant of a cluster that never had it" => {
                        json!({"clusterRef": {"name": "never", "uid": "u-never"}})
                    }
                    "grant of another request" => json!({"requestUID": "another"}),
                    _ => {
                        let tenants = json!({"spec": {"tenants": []}});
                        world.store.edit("Cluster", &key.namespace, &key.name, &tenants);
                        json!({})
                    }
                };
                world.store.edit("ClusterRequestGrant", "team", "r", &json!({ "spec": change }));
            }
        }
        world.settle();
        let status = world.status("r");
        let object = world.store.get("ClusterRequest", "team", "r").expect("there").clone();
        let asked = serde_json::from_value(object).expect("a request");
        world.scheduler.observe(&world.store, usize::MAX);
        match (forecast(&world.scheduler.snapshot, &asked, world.store.time()), told) {
            (Forecast::Waiting { message }, Some(told)) => {
                assert!(message.contains(told), "{what}: {message}");
                assert_eq!((&status["status"], &status["message"]), (&json!("Pending"), &json!(message)), "{what}");
            }
            (Forecast::Lost { .. }, None) => {
                assert_eq!(condition(&status, "Ready")["reason"], "ClusterLost", "{what}: {status}");
            }
            (said, _) => panic!("{what}: {said}, and the status is {status}"),
        }
    }
}

#[test]
fn those_who_are_chosen_for_together_get_no_other_cluster_where_theirs_was_lost() {
    let mut world = World::of(landscape());
    world.ask("other", json!({"purposes": ["workload"]}));
    world.store.provision();
    world.settle();
    // Bound in the pass of another one, and its Cluster went by force before its own turn.
    let lost = request("team", "r", json!({"purposes": ["workload"]}));
    world.store.put(lost);
    let note = json!({"metadata": {"annotations": {"cluster.openmcp.cloud/lost-cluster": "u-gone"}}});
    world.store.edit("ClusterRequest", "team", "r", &note);
    world.scheduler.observe(&world.store, usize::MAX);
    let steps = world.scheduler.choose(&mut world.store, &[ObjectKey::new("team", "r")], &mut world.names);
    assert!(steps.is_empty(), "it is joined to another Cluster unasked");
    assert!(world.ask_again("r").contains("delete and re-create"));
}

#[test]
fn a_cluster_that_was_to_be_joined_and_went_is_not_made_anew_under_its_name() {
    let mut world = World::of(landscape());
    world.ask("first", json!({"purposes": ["workload"]}));
    world.store.provision();
    world.settle();
    let guess = world.cluster_of("first");
    world.store.put(request("team", "r", json!({"purposes": ["workload"]})));
    world.scheduler.observe(&world.store, usize::MAX);
    let key = ObjectKey::new("team", "r");
    world.scheduler.step(&mut world.store, &key, &mut world.names).expect("a write").expect("it is taken over");
    let noted = world.store.get("ClusterRequest", "team", "r").expect("there")["metadata"]["annotations"].clone();
    let (at, cluster) = place("Cluster", &guess);
    assert_eq!(noted["cluster.openmcp.cloud/cluster-name"], cluster.to_string(), "the one that it will probably join");
    let force = json!({"metadata": {"annotations": {"cluster.openmcp.cloud/force-delete": "true"}}});
    world.store.edit("Cluster", &cluster.namespace, &cluster.name, &force);
    world.store.delete(&(at, cluster.clone()));
    world.settle();
    let (_, bound) = place("Cluster", &world.cluster_of("r"));
    assert_ne!(bound, cluster, "who means the old one would mean the new one");
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
