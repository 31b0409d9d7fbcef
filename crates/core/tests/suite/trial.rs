//! What a forecast says is what then happens, and a trial ends as the platform does.

use std::sync::Arc;

use std::collections::BTreeMap;

use allotment_api::requests::ClusterRequest;
use allotment_core::requests::{Fate, Forecast, Object, Trial, forecast};
use allotment_core::write::ObjectKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::store::{Names, Scheduler, Store, landscape, provider, purpose, request, settle};

/// What a request asks for.
#[derive(Clone, Debug)]
struct Shape {
    purposes: Vec<usize>,
    dedicated: Option<bool>,
    version: Option<&'static str>,
    wish: Option<(&'static str, bool, bool)>,
    prefix: Option<&'static str>,
    namespace: &'static str,
    priority: i32,
}

/// What a landscape is like, and what was asked for in it before.
#[derive(Clone, Debug)]
struct Scene {
    rooms: Vec<Option<u32>>,
    most: Vec<Option<u32>>,
    own: Vec<bool>,
    warm: Vec<u32>,
    home: Option<&'static str>,
    closed: bool,
    ready: Vec<bool>,
    by_hand: Vec<Option<bool>>,
    healthy: bool,
    waited: i64,
    before: Vec<Shape>,
    dropped: Vec<usize>,
}

const PURPOSES: [&str; 3] = ["a", "b", "c"];

fn shape() -> impl Strategy<Value = Shape> {
    let wish = prop_oneof![
        3 => Just(None),
        1 => (prop::sample::select(vec!["fast", "near", "nowhere"]), any::<bool>(), any::<bool>()).prop_map(Some)
    ];
    (
        prop::sample::subsequence(vec![0, 1, 2], 1..3).prop_shuffle(),
        prop::option::weighted(0.2, any::<bool>()),
        prop::option::weighted(0.3, prop::sample::select(vec!["1.30", "1.31.0", "1.29", "1.99"])),
        wish,
        prop::option::of(prop::sample::select(vec!["foo-", "bar-", "a-", "kube-"])),
        prop::sample::select(vec!["team", "other"]),
        0..3i32,
    )
        .prop_map(|(purposes, dedicated, version, wish, prefix, namespace, priority)| Shape {
            purposes,
            dedicated,
            version,
            wish,
            prefix,
            namespace,
            priority,
        })
}

fn scene() -> impl Strategy<Value = Scene> {
    let each = PURPOSES.len();
    let bounds = (
        prop::collection::vec(prop::option::of(1u32..4), each),
        prop::collection::vec(prop::option::weighted(0.4, 1u32..4), each),
        prop::collection::vec(prop::bool::weighted(0.3), each),
        prop::collection::vec(prop_oneof![3 => Just(0u32), 1 => 1u32..3], each),
    );
    let place = (
        prop::option::weighted(0.2, prop::sample::select(vec!["allot-clusters", "elsewhere"])),
        prop::bool::weighted(0.2),
        prop::collection::vec(prop::bool::weighted(0.8), 2),
        prop::collection::vec(prop::option::of(any::<bool>()), 0..3),
        any::<bool>(),
        prop_oneof![3 => Just(0i64), 1 => Just(3600i64)],
    );
    (bounds, place, prop::collection::vec(shape(), 0..8), prop::collection::vec(0usize..8, 0..3)).prop_map(
        |((rooms, most, own, warm), (home, closed, ready, by_hand, healthy, waited), before, dropped)| Scene {
            rooms,
            most,
            own,
            warm,
            home,
            closed,
            ready,
            by_hand,
            healthy,
            waited,
            before,
            dropped,
        },
    )
}

fn manifest(name: &str, shape: &Shape) -> Value {
    let purposes: Vec<&str> = shape.purposes.iter().map(|index| PURPOSES[*index]).collect();
    let mut spec = json!({"purposes": purposes, "priority": shape.priority});
    if let Some(dedicated) = shape.dedicated {
        spec["dedicated"] = json!(dedicated);
    }
    if let Some(version) = shape.version {
        spec["kubernetes"] = json!({"version": version});
    }
    if let Some((name, optional, negated)) = shape.wish {
        spec["traits"] = json!([{"trait": name, "optional": optional, "negated": negated}]);
    }
    if let Some(prefix) = shape.prefix {
        spec["prefix"] = json!(prefix);
    }
    request(shape.namespace, name, spec)
}

/// A landscape in which everything was decided, and the scheduler that did it.
fn play(scene: &Scene) -> (Store, Scheduler, Names) {
    let mut store = Store::new();
    for (index, ready) in scene.ready.iter().enumerate() {
        let traits: Vec<Value> = ["fast", "near"].iter().skip(index).map(|name| json!({"trait": name})).collect();
        let name = format!("p{index}");
        store.put(provider(
            &name,
            json!([{"name": "small", "supportedVersions": [{"version": "1.30.1"}, {"version": "1.29.0", "deprecated": true}],
                "supportedTraits": traits},
                {"name": "big", "supportedVersions": [{"version": "1.31.0"}], "supportedTraits": []}]),
        ));
        store.edit("ClusterProvider", "", &name, &json!({"status": {"ready": true}}));
        let _ = ready;
    }
    for name in ["team", "other", "allot-clusters"] {
        let labels = json!({"kubernetes.io/metadata.name": name});
        store.put(json!({"kind": "Namespace", "metadata": {"name": name, "labels": labels}}));
    }
    for (index, name) in PURPOSES.iter().enumerate() {
        let mut spec = json!({"dedicated": scene.own[index], "warm": scene.warm[index]});
        if let Some(room) = scene.rooms[index] {
            spec["maxTenants"] = json!(room);
        }
        if let Some(most) = scene.most[index] {
            spec["maxClusters"] = json!(most);
        }
        if let Some(home) = scene.home.filter(|_| index == 0) {
            spec["namespace"] = json!(home);
        }
        if scene.closed && index == 1 {
            spec["allowedNamespaces"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "team"}});
        }
        store.put(purpose(name, spec));
    }
    for (index, dedicated) in scene.by_hand.iter().enumerate() {
        let mut spec = json!({"clusterProviderRef": {"name": "p0", "profile": "small"}, "purposes": [PURPOSES[index]],
            "kubernetes": {"version": "1.30.1"}});
        if let Some(dedicated) = dedicated {
            spec["dedicated"] = json!(dedicated);
        }
        store.put(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster",
            "metadata": {"name": format!("hand-{index}"), "namespace": "team"}, "spec": spec}));
    }
    let (mut scheduler, mut names) = (Scheduler::default(), Names::default());
    for (index, shape) in scene.before.iter().enumerate() {
        store.put(manifest(&format!("r{index}"), shape));
        settle(&mut store, &mut scheduler, &mut names);
    }
    if scene.healthy {
        store.provision();
    }
    for index in &scene.dropped {
        if let Some(shape) = scene.before.get(*index) {
            let key = ObjectKey::new(shape.namespace, format!("r{index}"));
            store.delete(&("ClusterRequest".to_owned(), key));
        }
    }
    for (index, ready) in scene.ready.iter().enumerate() {
        store.edit("ClusterProvider", "", &format!("p{index}"), &json!({"status": {"ready": ready}}));
    }
    // Long enough that what never came up is late; idle ones go meanwhile.
    store.now += scene.waited;
    // Timers wake who waits for a time; whoever starts asks everybody.
    scheduler = Scheduler::default();
    settle(&mut store, &mut scheduler, &mut names);
    (store, scheduler, names)
}

/// The request as a dry run sees it: without a UID.
fn asked(shape: &Shape) -> ClusterRequest {
    serde_json::from_value(manifest("asked", shape)).expect("a request")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    #[test]
    fn what_is_asked_first_is_what_the_scheduler_then_does(scene in scene(), shape in shape()) {
        let (mut store, mut scheduler, mut names) = play(&scene);
        let clusters: Vec<ObjectKey> = store.all("Cluster").map(|(key, _)| key.clone()).collect();
        let said = forecast(&scheduler.snapshot, &asked(&shape), store.time());
        store.put(manifest("asked", &shape));
        settle(&mut store, &mut scheduler, &mut names);

        let status = &store.get("ClusterRequest", shape.namespace, "asked").expect("there")["status"];
        let grant = store.get("ClusterRequestGrant", shape.namespace, "asked");
        let bound = grant.map(|grant| {
            let text = |field: &str| grant["spec"]["clusterRef"][field].as_str().expect("a text");
            ObjectKey::new(text("namespace"), text("name"))
        });
        let honored = status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "PrefixHonored");
        let missed = honored.filter(|one| one["status"] == "False").and_then(|one| one["reason"].as_str());
        match said {
            Forecast::Kept { .. } | Forecast::Lost { .. } => prop_assert!(false, "it is not there yet"),
            Forecast::Granted { cluster, prefix } => {
                prop_assert!(clusters.contains(&cluster));
                prop_assert_eq!(bound, Some(cluster));
                prop_assert_eq!(prefix.map(|reason| reason.as_str()), missed);
            }
            Forecast::NewCluster { provider, profile, version, prefix } => {
                let bound = bound.expect("granted");
                prop_assert!(!clusters.contains(&bound));
                let spec = &store.get("Cluster", &bound.namespace, &bound.name).expect("there")["spec"];
                prop_assert_eq!(&spec["clusterProviderRef"], &json!({"name": provider, "profile": profile}));
                prop_assert_eq!(&spec["kubernetes"]["version"], &json!(version));
                prop_assert_eq!(prefix.map(|reason| reason.as_str()), missed);
            }
            Forecast::Refused(refusal) => {
                prop_assert_eq!(bound, None);
                prop_assert_eq!(&status["status"], &json!(refusal.reason.verdict()));
                prop_assert_eq!(&status["reason"], &json!(refusal.reason.as_str()));
                prop_assert_eq!(&status["message"], &json!(refusal.message));
                let findings = if refusal.findings.is_empty() { Value::Null } else { json!(refusal.findings.listed()) };
                prop_assert_eq!(&status["findings"], &findings);
            }
            Forecast::Waiting { message } => {
                prop_assert_eq!(bound, None);
                prop_assert_eq!(&status["status"], &json!("Pending"));
                prop_assert_eq!(&status["message"], &json!(message));
            }
        }
        // Asked again, it stays where it is.
        let there: ClusterRequest = serde_json::from_value(
            store.get("ClusterRequest", shape.namespace, "asked").expect("there").clone(),
        ).expect("a request");
        let again = forecast(&scheduler.snapshot, &there, store.time());
        prop_assert_eq!(matches!(again, Forecast::Kept { .. }), grant_of(&store, &shape));
    }

    #[test]
    fn a_trial_ends_as_the_platform_does(scene in scene(), shape in shape(), count in 1usize..6) {
        let (mut store, mut scheduler, mut names) = play(&scene);
        let mut trial = Trial::new(scheduler.snapshot.clone(), store.time());
        let spec = asked(&shape).spec;
        let keys = trial.ask(shape.namespace, "new", &spec, count);
        trial.run().expect("an end");

        for key in &keys {
            store.put(manifest(&key.name, &shape));
        }
        let there = store.all("Cluster").count();
        settle(&mut store, &mut scheduler, &mut names);
        let mut granted: BTreeMap<bool, usize> = BTreeMap::new();
        for key in &keys {
            let status = &store.get("ClusterRequest", &key.namespace, &key.name).expect("there")["status"];
            match trial.fate(key) {
                Fate::Granted { cluster } => {
                    prop_assert_eq!(&status["status"], &json!("Granted"));
                    *granted.entry(trial.made().contains(&cluster)).or_default() += 1;
                }
                Fate::Refused { reason, .. } => prop_assert_eq!(&status["reason"], &json!(reason)),
                Fate::Undecided => prop_assert!(false, "{key} was not decided"),
            }
        }
        prop_assert_eq!(store.all("Cluster").count(), there + trial.made().len());
        prop_assert_eq!(trial.run().expect("an end"), 0, "deciding again changes nothing");
    }
}

fn grant_of(store: &Store, shape: &Shape) -> bool {
    store.get("ClusterRequestGrant", shape.namespace, "asked").is_some()
}

fn trial_of(store: &Store) -> Trial {
    let mut scheduler = Scheduler::default();
    scheduler.observe(store, usize::MAX);
    Trial::new(scheduler.snapshot, store.time())
}

#[test]
fn a_drained_cluster_and_a_provider_that_is_gone_take_nothing_new() {
    let mut store = landscape();
    store.put(request("team", "first", json!({"purposes": ["workload"]})));
    settle(&mut store, &mut Scheduler::default(), &mut Names::default());
    let cluster = store.all("Cluster").next().expect("made").0.clone();
    let spec = asked(&Shape {
        purposes: vec![0],
        dedicated: None,
        version: None,
        wish: None,
        prefix: None,
        namespace: "team",
        priority: 0,
    })
    .spec;
    let spec = allotment_api::requests::ClusterRequestSpec { purposes: vec!["workload".to_owned()], ..spec };

    let mut trial = trial_of(&store);
    let keys = trial.ask("team", "new", &spec, 1);
    trial.run().expect("an end");
    assert_eq!(trial.fate(&keys[0]), Fate::Granted { cluster: cluster.clone() });

    let mut trial = trial_of(&store);
    assert!(trial.drain(&cluster) && !trial.drain(&ObjectKey::new("no", "where")));
    let keys = trial.ask("team", "new", &spec, 1);
    trial.run().expect("an end");
    assert_eq!(trial.fate(&keys[0]), Fate::Granted { cluster: trial.made()[0].clone() });

    let mut trial = trial_of(&store);
    assert!(trial.stop_provider("local") && !trial.stop_provider("other"));
    let keys = trial.ask("team", "new", &spec, 2);
    trial.run().expect("an end");
    assert!(matches!(trial.fate(&keys[1]), Fate::Refused { reason, .. } if reason == "NoReadyProvider"));
    let first = ObjectKey::new("team", "first");
    assert_eq!(trial.fate(&first), Fate::Granted { cluster }, "who is there stays");
}

#[test]
fn a_changed_purpose_lets_those_in_that_waited() {
    let mut store = landscape();
    for name in ["one", "two"] {
        let spec = json!({"purposes": ["platform"], "dedicated": true});
        store.put(request("team", name, spec));
    }
    settle(&mut store, &mut Scheduler::default(), &mut Names::default());
    let mut trial = trial_of(&store);
    let waiting: Vec<ObjectKey> = trial.snapshot().waiting().cloned().collect();
    assert_eq!(waiting, [ObjectKey::new("team", "two")]);
    trial.run().expect("an end");
    assert!(matches!(trial.fate(&waiting[0]), Fate::Refused { reason, .. } if reason == "MaxClustersReached"));
    let raised = purpose("platform", json!({"dedicated": false, "maxClusters": 2}));
    trial.put(Object::Purpose(Arc::new(serde_json::from_value(raised).expect("a Purpose"))));
    trial.run().expect("an end");
    assert_eq!(trial.fate(&waiting[0]), Fate::Granted { cluster: trial.made()[0].clone() });
}
