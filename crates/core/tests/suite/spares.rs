//! Spare Clusters, case by case.

use allotment_core::requests::{Placement, PurposePlan, decide_purpose};
use allotment_core::write::ObjectKey;
use serde_json::{Value, json};

use crate::store::{Failure, Names, Scheduler, Store, landscape, purpose, request, settle};

const SPARE: &str = "cluster.openmcp.cloud/spare";

struct World {
    store: Store,
    scheduler: Scheduler,
    names: Names,
}

/// A landscape whose Purpose `mcp` is as given, settled, with everything provisioned.
fn world(spec: Value) -> World {
    let mut store = landscape();
    store.put(purpose("mcp", spec));
    let mut world = World { store, scheduler: Scheduler::default(), names: Names::default() };
    world.provision();
    world
}

impl World {
    fn settle(&mut self) {
        settle(&mut self.store, &mut self.scheduler, &mut self.names);
    }

    fn provision(&mut self) {
        self.settle();
        self.store.provision();
        self.settle();
    }

    /// Names of Clusters: those in use, and spares.
    fn clusters(&self) -> (Vec<String>, Vec<String>) {
        let (spare, used): (Vec<_>, Vec<_>) =
            self.store.all("Cluster").partition(|(_, cluster)| cluster["metadata"]["annotations"].get(SPARE).is_some());
        let names = |list: Vec<(&ObjectKey, &Value)>| list.into_iter().map(|(key, _)| key.to_string()).collect();
        (names(used), names(spare))
    }

    fn ask(&mut self, name: &str, spec: Value) -> Value {
        self.store.put(request("team", name, spec));
        self.settle();
        self.store.get("ClusterRequest", "team", name).expect("there").clone()
    }

    fn pass(&mut self, seconds: i64) {
        self.store.now += seconds;
        // Timers wake who waits for a time; here everybody is asked.
        let clusters: Vec<ObjectKey> = self.store.all("Cluster").map(|(key, _)| key.clone()).collect();
        for key in clusters {
            while let Some(result) = self.scheduler.step_cluster(&mut self.store, &key) {
                result.expect("nobody else writes");
                self.scheduler.observe(&self.store, usize::MAX);
            }
        }
        self.settle();
    }
}

#[test]
fn a_purpose_has_as_many_spares_as_it_says_and_a_request_gets_one_at_once() {
    let mut world = world(json!({"dedicated": true, "warm": 2}));
    let (used, spares) = world.clusters();
    assert_eq!((used.len(), spares.len()), (0, 2));
    assert!(spares.iter().all(|key| key.starts_with("allot-clusters/mcp-")), "{spares:?}");
    let granted = world.ask("r", json!({"purposes": ["mcp"]}));
    assert_eq!(granted["status"]["status"], "Granted");
    let (used, now) = world.clusters();
    assert_eq!((used.len(), now.len()), (1, 2), "another one takes its place");
    assert!(spares.contains(&used[0]), "{used:?} was a spare");
    let grant = world.store.get("ClusterRequestGrant", "team", "r").expect("granted");
    assert_eq!(grant["spec"]["prefix"], "");
    let cluster = &world.store.all("Cluster").find(|(key, _)| key.to_string() == used[0]).expect("there").1;
    assert!(cluster["metadata"]["annotations"].get(SPARE).is_none(), "the note went with the write that took it");
}

#[test]
fn ready_spares_are_taken_first() {
    let mut world = world(json!({"dedicated": true, "warm": 1}));
    let (_, ready) = world.clusters();
    world.store.put(purpose("mcp", json!({"dedicated": true, "warm": 3})));
    world.settle();
    world.ask("r", json!({"purposes": ["mcp"]}));
    assert_eq!(world.clusters().0, ready);
}

#[test]
fn only_a_request_for_exactly_the_purpose_gets_a_spare() {
    let mut world = world(json!({"dedicated": true, "warm": 1}));
    let (_, spares) = world.clusters();
    for (name, spec) in [
        ("both", json!({"purposes": ["mcp", "workload"], "dedicated": true})),
        ("older", json!({"purposes": ["mcp"], "kubernetes": {"version": "1.30"}})),
    ] {
        let granted = world.ask(name, spec);
        assert_eq!(granted["status"]["status"], "Granted", "{name}");
    }
    assert_eq!(world.clusters().1, spares, "the spare is still there");
}

#[test]
fn what_is_more_than_enough_goes_after_its_grace_whatever_the_policy() {
    for policy in ["WhenIdle", "Retain"] {
        let mut world = world(json!({"dedicated": true, "warm": 3, "idleGrace": "2m", "deletionPolicy": policy}));
        assert_eq!(world.clusters().1.len(), 3);
        world
            .store
            .put(purpose("mcp", json!({"dedicated": true, "warm": 1, "idleGrace": "2m", "deletionPolicy": policy})));
        world.settle();
        world.pass(119);
        assert_eq!(world.clusters().1.len(), 3, "{policy}: a second early");
        world.pass(1);
        assert_eq!(world.clusters().1.len(), 1, "{policy}");
        world.pass(100_000);
        assert_eq!(world.clusters().1.len(), 1, "{policy}: what warm asks for stays");
        world.store.delete(&("Purpose".to_owned(), ObjectKey::cluster_wide("mcp")));
        world.settle();
        world.pass(120);
        assert_eq!(world.clusters().1.len(), 0, "{policy}: nobody asks for spares any more");
    }
}

#[test]
fn a_cluster_that_had_a_tenant_is_no_spare_again() {
    let mut world = world(json!({"dedicated": true, "warm": 1, "deletionPolicy": "Retain"}));
    world.ask("r", json!({"purposes": ["mcp"]}));
    world.provision();
    let (used, spares) = world.clusters();
    world.store.delete(&("ClusterRequest".to_owned(), ObjectKey::new("team", "r")));
    world.settle();
    assert_eq!(world.clusters(), (used.clone(), spares.clone()), "kept, and not counted");
    world.ask("next", json!({"purposes": ["mcp"]}));
    let (now, _) = world.clusters();
    assert!(now.contains(&used[0]) && now.contains(&spares[0]), "{now:?}: the next one got the spare");
}

#[test]
fn spares_stop_at_the_most_clusters_of_a_purpose() {
    let mut world = world(json!({"dedicated": true, "warm": 5, "maxClusters": 2}));
    assert_eq!(world.clusters().1.len(), 2);
    world.ask("a", json!({"purposes": ["mcp"]}));
    world.ask("b", json!({"purposes": ["mcp"]}));
    let third = world.ask("c", json!({"purposes": ["mcp"]}));
    assert_eq!(third["status"]["reason"], "MaxClustersReached");
    assert_eq!((world.clusters().0.len(), world.clusters().1.len()), (2, 0));
}

#[test]
fn spares_of_a_shared_purpose_are_joined_and_made_again() {
    let mut world = world(json!({"dedicated": false, "warm": 1, "maxTenants": 2}));
    let (_, first) = world.clusters();
    for name in ["a", "b"] {
        world.ask(name, json!({"purposes": ["mcp"]}));
    }
    let (used, spares) = world.clusters();
    assert_eq!(used, first, "both fit into the spare");
    assert_eq!(spares.len(), 1);
}

#[test]
fn a_spare_that_no_request_would_get_is_replaced() {
    let mut world = world(json!({"dedicated": true, "warm": 1, "idleGrace": "1m"}));
    let (_, old) = world.clusters();
    world.store.put(purpose("mcp", json!({"dedicated": false, "warm": 1, "idleGrace": "1m"})));
    world.settle();
    world.pass(60);
    let (_, new) = world.clusters();
    assert_eq!(new.len(), 1);
    assert_ne!(new, old, "a dedicated one is no use to a Purpose that shares");
}

#[test]
fn a_spare_that_never_becomes_healthy_is_replaced_once_its_time_is_over() {
    let mut store = landscape();
    store.put(purpose("mcp", json!({"dedicated": true, "warm": 1, "idleGrace": "1m"})));
    let mut world = World { store, scheduler: Scheduler::default(), names: Names::default() };
    world.settle();
    let (_, dead) = world.clusters();
    let again = match decide_purpose(&world.scheduler.snapshot, "mcp", world.store.time(), &mut world.names) {
        PurposePlan::Done { again: Some(again) } => again,
        plan => panic!("{plan:?}"),
    };
    assert_eq!(again.as_second(), world.store.now + 1801, "looked at when it is overdue");
    world.store.now += 1801;
    while let Some(result) = world.scheduler.step_purpose(&mut world.store, "mcp", &mut world.names) {
        result.expect("nobody else writes");
        world.scheduler.observe(&world.store, usize::MAX);
    }
    world.pass(0);
    assert_eq!(world.clusters().1.len(), 2);
    world.pass(60);
    let (_, left) = world.clusters();
    assert!(left.len() == 1 && left != dead, "{left:?}");
}

#[test]
fn spares_of_a_provider_that_is_away_are_kept() {
    let mut world = world(json!({"dedicated": true, "warm": 1, "idleGrace": "1m"}));
    let (_, before) = world.clusters();
    world.store.edit("ClusterProvider", "", "local", &json!({"status": {"ready": false}}));
    world.settle();
    world.pass(3600);
    assert_eq!(world.clusters().1, before);
}

#[test]
fn spares_that_fail_once_they_are_up_are_replaced_only_so_often() {
    let mut world = world(json!({"dedicated": true, "warm": 2}));
    for _ in 0..8 {
        let time = world.store.time().to_string();
        let said = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "Said", "message": "", "lastTransitionTime": time});
        let conditions = json!([said("Provisioned", "True"), said("ClusterHealthy", "False")]);
        let clusters: Vec<ObjectKey> = world.store.all("Cluster").map(|(key, _)| key.clone()).collect();
        for key in clusters {
            let status = json!({"status": {"conditions": conditions}});
            world.store.edit("Cluster", &key.namespace, &key.name, &status);
        }
        world.settle();
    }
    assert_eq!(world.clusters().1.len(), 4, "twice as many as it asks for");
    let status = world.store.get("Purpose", "", "mcp").expect("there")["status"].clone();
    assert_eq!(status["conditions"][0]["reason"], "Unhealthy", "{status}");
    let message = status["conditions"][0]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("4 of the 4 Clusters kept ready take nothing"), "{message}");
}

#[test]
fn two_schedulers_that_saw_the_same_make_one_spare() {
    let mut store = landscape();
    store.put(purpose("mcp", json!({"dedicated": true, "warm": 1})));
    let (mut one, mut two, mut names) = (Scheduler::default(), Scheduler::default(), Names::default());
    one.observe(&store, usize::MAX);
    two.observe(&store, usize::MAX);
    assert_eq!(one.step_purpose(&mut store, "mcp", &mut names), Some(Ok(())), "the name is noted");
    assert_eq!(two.step_purpose(&mut store, "mcp", &mut names), Some(Err(Failure::Conflict)));
    one.observe(&store, usize::MAX);
    two.observe(&store, usize::MAX);
    assert_eq!(one.step_purpose(&mut store, "mcp", &mut names), Some(Ok(())), "and it is made");
    assert_eq!(two.step_purpose(&mut store, "mcp", &mut names), Some(Err(Failure::AlreadyExists)));
    assert_eq!(store.all("Cluster").count(), 1);
}

#[test]
fn a_dry_run_tells_of_the_spare_that_a_request_would_get() {
    let world = world(json!({"dedicated": true, "warm": 1}));
    let asked = request("team", "r", json!({"purposes": ["mcp"]}));
    let asked = serde_json::from_value(asked).expect("a request");
    let aggregated = world.scheduler.snapshot.resolve(&asked).expect("fits");
    let placement = world.scheduler.snapshot.place(&asked, &aggregated, world.store.time());
    assert!(matches!(&placement, Placement::Existing { cluster } if world.clusters().1 == [cluster.to_string()]));
}
