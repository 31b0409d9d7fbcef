//! What holds whatever happens: several schedulers whose views lag, crashes between any two writes,
//! wiped statuses, forged Grants.

use std::collections::{BTreeMap, BTreeSet};

use allotment_core::requests::{Plan, Snapshot, decide_purpose, decide_request};
use allotment_core::write::{ObjectKey, Write};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::store::{Names, Scheduler, Store, is_done, landscape, purpose, request, settle};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// A scheduler sees some of what it has not seen.
    Observe { scheduler: usize, events: usize },
    /// A scheduler decides a request on what it has seen and makes one write.
    Request { scheduler: usize, request: usize },
    /// A scheduler chooses for all requests at once on what it has seen and makes the writes.
    Choose { scheduler: usize },
    /// A scheduler decides a Cluster on what it has seen and makes one write.
    Cluster { scheduler: usize, cluster: usize },
    /// A scheduler looks after the spares of a Purpose on what it has seen and makes one write.
    Spare { scheduler: usize, purpose: usize },
    /// A Purpose asks for so many spares.
    Warm { purpose: usize, warm: usize },
    /// A scheduler forgets everything.
    Crash { scheduler: usize },
    /// Somebody asks, for a purpose.
    Ask { request: usize, purpose: usize },
    /// Somebody does not want it any more.
    Drop { request: usize },
    /// Clusters become healthy.
    Provision,
    /// Time passes.
    Wait { seconds: i64 },
    /// Every status is lost.
    Wipe,
}

const SCHEDULERS: usize = 3;
const REQUESTS: usize = 6;
const PURPOSES: [&str; 3] = ["pair", "own", "both"];
const ROOM: usize = 2;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..SCHEDULERS, 1usize..12).prop_map(|(scheduler, events)| Step::Observe { scheduler, events }),
        8 => (0..SCHEDULERS, 0..REQUESTS).prop_map(|(scheduler, request)| Step::Request { scheduler, request }),
        3 => (0..SCHEDULERS).prop_map(|scheduler| Step::Choose { scheduler }),
        3 => (0..SCHEDULERS, 0usize..8).prop_map(|(scheduler, cluster)| Step::Cluster { scheduler, cluster }),
        2 => (0..SCHEDULERS, 0..PURPOSES.len()).prop_map(|(scheduler, purpose)| Step::Spare { scheduler, purpose }),
        1 => (0..PURPOSES.len(), 0usize..3).prop_map(|(purpose, warm)| Step::Warm { purpose, warm }),
        1 => (0..SCHEDULERS).prop_map(|scheduler| Step::Crash { scheduler }),
        3 => (0..REQUESTS, 0..PURPOSES.len()).prop_map(|(request, purpose)| Step::Ask { request, purpose }),
        1 => (0..REQUESTS).prop_map(|request| Step::Drop { request }),
        1 => Just(Step::Provision),
        1 => (0i64..400).prop_map(|seconds| Step::Wait { seconds }),
        1 => Just(Step::Wipe),
    ];
    prop::collection::vec(step, 1..160)
}

fn start() -> Store {
    let mut store = landscape();
    store.put(purpose("pair", json!({"maxTenants": ROOM})));
    store.put(purpose("own", json!({"dedicated": true})));
    store.put(purpose("both", json!({"maxTenants": ROOM})));
    store
}

fn ask(index: usize, purpose: usize) -> Value {
    let purposes = match PURPOSES[purpose] {
        "both" => json!(["both", "pair"]),
        one => json!([one]),
    };
    let prefix = ["foo-", "bar-"][index % 2];
    request("team", &format!("r{index}"), json!({"purposes": purposes, "prefix": prefix}))
}

fn wipe(store: &mut Store) {
    let places: Vec<_> = store.objects.keys().filter(|place| place.0 != "ClusterProvider").cloned().collect();
    for place in places {
        let had = store.objects[&place].get("status").cloned();
        if had.is_some() {
            // What the provider observed is lost too, and observed again.
            store.edit(&place.0, &place.1.namespace, &place.1.name, &json!({"status": null}));
        }
    }
}

fn run(store: &mut Store, schedulers: &mut [Scheduler], names: &mut Names, step: &Step) {
    match *step {
        Step::Observe { scheduler, events } => schedulers[scheduler].observe(store, events),
        Step::Request { scheduler, request } => {
            let key = ObjectKey::new("team", format!("r{request}"));
            let _ = schedulers[scheduler].step(store, &key, names);
        }
        Step::Choose { scheduler } => {
            let keys: Vec<_> = (0..REQUESTS).map(|request| ObjectKey::new("team", format!("r{request}"))).collect();
            let _ = schedulers[scheduler].choose(store, &keys, names);
        }
        Step::Cluster { scheduler, cluster } => {
            let key = store.all("Cluster").nth(cluster).map(|(key, _)| key.clone());
            if let Some(key) = key {
                let _ = schedulers[scheduler].step_cluster(store, &key);
            }
        }
        Step::Spare { scheduler, purpose } => {
            let _ = schedulers[scheduler].step_purpose(store, PURPOSES[purpose], names);
        }
        Step::Warm { purpose, warm } => {
            store.edit("Purpose", "", PURPOSES[purpose], &json!({"spec": {"warm": warm}}));
        }
        Step::Crash { scheduler } => {
            // A scheduler that starts lists before it decides.
            schedulers[scheduler] = Scheduler::default();
            schedulers[scheduler].observe(store, usize::MAX);
        }
        Step::Ask { request, purpose } => {
            let object = ask(request, purpose);
            if store.get("ClusterRequest", "team", &format!("r{request}")).is_none() {
                store.put(object);
            }
        }
        Step::Drop { request } => {
            store.delete(&("ClusterRequest".to_owned(), ObjectKey::new("team", format!("r{request}"))));
        }
        Step::Provision => store.provision(),
        Step::Wait { seconds } => store.now += seconds,
        Step::Wipe => wipe(store),
    }
}

/// What holds at every commit.
fn check_always(store: &Store, bound: &mut BTreeMap<String, String>) -> Result<(), TestCaseError> {
    let mut ever: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, cluster) in store.all("Cluster") {
        let tenants = cluster["spec"]["tenants"].as_array().cloned().unwrap_or_default();
        let live = tenants.iter().filter(|tenant| tenant["released"] != json!(true)).count();
        let dedicated = cluster["spec"]["dedicated"] == json!(true);
        prop_assert!(live <= ROOM, "{key} has {live} tenants");
        prop_assert!(!dedicated || tenants.len() <= 1, "{key} is dedicated and had {} tenants", tenants.len());
        let prefixes: BTreeSet<&str> = tenants.iter().filter_map(|tenant| tenant["prefix"].as_str()).collect();
        prop_assert!(prefixes.len() == tenants.len(), "prefixes of {key} repeat: {tenants:?}");
        for one in &prefixes {
            let begins = prefixes.iter().any(|other| other != one && other.starts_with(one));
            prop_assert!(dedicated || !begins, "prefix {one} begins another on {key}");
        }
        let spare = cluster["metadata"]["annotations"].get("cluster.openmcp.cloud/spare").is_some();
        prop_assert!(!spare || tenants.is_empty(), "{key} is a spare and has tenants");
        *ever.entry(key.name.as_str()).or_default() += 1;
    }
    for (key, grant) in store.all("ClusterRequestGrant") {
        let (request, cluster) =
            (grant["spec"]["requestUID"].to_string(), grant["spec"]["clusterRef"]["uid"].to_string());
        let first = bound.entry(request).or_insert_with(|| cluster.clone());
        prop_assert_eq!(&*first, &cluster, "the grant of {} moved", key);
        let uid = &grant["spec"]["requestUID"];
        let request = store.get("ClusterRequest", &key.namespace, &key.name);
        let wanted = request.is_some_and(|request| {
            request["metadata"]["uid"] == *uid && request["metadata"].get("deletionTimestamp").is_none()
        });
        let bound =
            store.all("Cluster").find(|(_, cluster)| cluster["metadata"]["uid"] == grant["spec"]["clusterRef"]["uid"]);
        if let (true, Some((cluster_key, cluster))) = (wanted, bound) {
            let mut tenants = cluster["spec"]["tenants"].as_array().into_iter().flatten();
            let recorded = tenants.any(|tenant| tenant["requestUID"] == *uid && tenant["released"] != json!(true));
            prop_assert!(recorded, "{cluster_key} lost its record of {key}");
        }
    }
    Ok(())
}

/// What holds once everything was seen and nothing is left to do.
fn check_settled(store: &Store) -> Result<(), TestCaseError> {
    for (key, request) in store.all("ClusterRequest") {
        let uid = &request["metadata"]["uid"];
        let holders: Vec<&Value> = store
            .all("Cluster")
            .map(|(_, cluster)| cluster)
            .filter(|cluster| {
                let mut tenants = cluster["spec"]["tenants"].as_array().into_iter().flatten();
                tenants.any(|tenant| tenant["requestUID"] == *uid && tenant["released"] != json!(true))
            })
            .collect();
        let status = &request["status"]["status"];
        prop_assert_eq!(
            holders.len(),
            usize::from(*status == json!("Granted")),
            "{} is {} on {:?}",
            key,
            status,
            holders
        );
        if let Some(cluster) = holders.first() {
            let grant = store.get("ClusterRequestGrant", &key.namespace, &key.name);
            prop_assert!(grant.is_some_and(|grant| grant["spec"]["clusterRef"]["uid"] == cluster["metadata"]["uid"]));
        }
    }
    let uids: BTreeSet<String> =
        store.all("ClusterRequest").map(|(_, request)| request["metadata"]["uid"].to_string()).collect();
    for (key, cluster) in store.all("Cluster") {
        for tenant in cluster["spec"]["tenants"].as_array().into_iter().flatten() {
            let live = tenant["released"] != json!(true);
            prop_assert!(!live || uids.contains(&tenant["requestUID"].to_string()), "{key} has a tenant that is gone");
        }
    }
    for (key, purpose) in store.all("Purpose") {
        let warm = purpose["spec"]["warm"].as_u64().unwrap_or(0);
        let kept = spares(store).filter(|cluster| {
            cluster["spec"]["purposes"] == json!([key.name])
                && cluster["metadata"]["annotations"].get("cluster.openmcp.cloud/idle-since").is_none()
        });
        prop_assert_eq!(kept.count() as u64, warm, "spares of {} that are not about to go", key);
    }
    Ok(())
}

/// Clusters that were made for nobody, that nobody took, and that are not going.
fn spares(store: &Store) -> impl Iterator<Item = &Value> {
    let going = |cluster: &&Value| {
        cluster["metadata"].get("deletionTimestamp").is_some()
            || cluster["metadata"]["annotations"].get("cluster.openmcp.cloud/draining").is_some()
    };
    store
        .all("Cluster")
        .map(|(_, cluster)| cluster)
        .filter(|cluster| cluster["metadata"]["annotations"]["cluster.openmcp.cloud/spare"] == json!("true"))
        .filter(move |cluster| !going(cluster))
}

fn bindings(store: &Store) -> BTreeMap<ObjectKey, Value> {
    store.all("ClusterRequestGrant").map(|(key, grant)| (key.clone(), grant["spec"].clone())).collect()
}

/// Who has room beside whom, with which of the proposed prefixes; names of Clusters are random.
fn places(store: &Store) -> BTreeSet<BTreeMap<String, String>> {
    let proposed =
        |prefix: &Value| prefix.as_str().filter(|prefix| ["foo-", "bar-"].contains(prefix)).map(str::to_owned);
    let tenants = |cluster: &Value| {
        let tenants = cluster["spec"]["tenants"].as_array().cloned().unwrap_or_default();
        let place = |tenant: Value| {
            (tenant["name"].as_str().unwrap_or_default().to_owned(), proposed(&tenant["prefix"]).unwrap_or_default())
        };
        tenants.into_iter().map(place).collect()
    };
    store.all("Cluster").map(|(_, cluster)| tenants(cluster)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn schedulers_that_lag_and_crash_never_exceed_room_or_move_a_grant(steps in steps()) {
        let mut store = start();
        let mut names = Names::default();
        let mut schedulers: Vec<Scheduler> = (0..SCHEDULERS).map(|_| Scheduler::default()).collect();
        let mut bound = BTreeMap::new();
        for step in &steps {
            run(&mut store, &mut schedulers, &mut names, step);
            check_always(&store, &mut bound)?;
        }
        let mut last = Scheduler::default();
        settle(&mut store, &mut last, &mut names);
        check_always(&store, &mut bound)?;
        check_settled(&store)?;
        // Deciding again changes nothing.
        for name in PURPOSES {
            prop_assert!(decide_purpose(&last.snapshot, name, store.time(), &mut names).write().is_none());
        }
        for (key, _) in store.all("ClusterRequest") {
            prop_assert!(is_done(&decide_request(&last.snapshot, key, store.time(), &mut names)));
        }
        // Every status lost, and a scheduler that knows nothing: the same grants.
        let before = bindings(&store);
        wipe(&mut store);
        settle(&mut store, &mut Scheduler::default(), &mut names);
        prop_assert_eq!(bindings(&store), before);
        check_settled(&store)?;
    }

    #[test]
    fn whoever_is_not_due_has_nothing_new_to_do(steps in steps()) {
        let mut store = start();
        let mut names = Names::default();
        let mut schedulers: Vec<Scheduler> = (0..SCHEDULERS).map(|_| Scheduler::default()).collect();
        let mut observer = Scheduler::default();
        let mut idle = BTreeSet::new();
        for step in &steps {
            run(&mut store, &mut schedulers, &mut names, step);
            observer.observe(&store, usize::MAX);
            let due = observer.snapshot.take_due();
            let mut still = BTreeSet::new();
            for (key, _) in store.all("ClusterRequest") {
                let plan = decide_request(&observer.snapshot, key, store.time(), &mut names.clone());
                let done = is_done(&plan);
                let forgotten = !done && idle.contains(key) && !due.requests.contains(key);
                prop_assert!(!forgotten || matches!(step, Step::Wait { .. }), "{key} is not due after {step:?}: {plan:?}");
                if done {
                    still.insert(key.clone());
                }
            }
            idle = still;
        }
    }

    #[test]
    fn whoever_stands_first_stands_for_all_that_wait_for_the_same(
        asks in prop::collection::vec((0usize..2, 0i64..2, prop::bool::ANY), 1..14), changes in prop::collection::vec(0usize..7, 0..12), first in 1usize..3,
        refused in prop::collection::btree_set(0usize..14, 0..4),
    ) {
        let mut store = landscape();
        store.put(purpose("few", json!({"maxTenants": 2, "maxClusters": 1})));
        let (mut names, mut scheduler) = (Names::default(), Scheduler::default());
        scheduler.snapshot = Snapshot::new().with_standing_for_all(first);
        let places = ["team", "far"].iter().flat_map(|namespace| refused.iter().map(move |index| (namespace, index)));
        scheduler.refused = places.map(|(namespace, index)| ObjectKey::new(*namespace, format!("r{index}"))).collect();
        for (index, (namespace, priority, odd)) in asks.iter().enumerate() {
            let traits = if *odd { json!([{"trait": "none/has/it"}]) } else { json!([]) };
            let spec = json!({"purposes": ["few"], "priority": priority, "traits": traits});
            store.put(request(["team", "far"][*namespace], &format!("r{index}"), spec));
            store.now += 1;
        }
        let mut room = 2;
        for change in [7].iter().chain(&changes) {
            let few = store.get("Purpose", "", "few").is_some();
            match change {
                0 | 1 if !few => {}
                0 => {
                    room += 3;
                    store.edit("Purpose", "", "few", &json!({"spec": {"maxTenants": room}}));
                }
                1 => store.edit("Purpose", "", "few", &json!({"spec": {"maxClusters": 2}})),
                2 => store.edit("ClusterProvider", "", "local", &json!({"status": {"ready": false}})),
                3 => store.edit("ClusterProvider", "", "local", &json!({"status": {"ready": true}})),
                4 => {
                    let traits = json!([{"trait": "cluster.openmcp.cloud/workerless"}, {"trait": "none/has/it"}]);
                    store.edit("ClusterProvider", "", "local", &json!({"status": {"profiles": [{"name": "local",
                        "supportedVersions": [{"version": "1.36.3"}], "supportedTraits": traits}]}}));
                }
                5 => {
                    let granted = store.all("ClusterRequest").find(|(_, request)| request["status"]["status"] == json!("Granted"));
                    if let Some(key) = granted.map(|(key, _)| key.clone()) {
                        store.delete(&("ClusterRequest".to_owned(), key));
                    }
                }
                6 => store.delete(&("Purpose".to_owned(), ObjectKey::cluster_wide("few"))),
                _ => {}
            }
            // Decided are only those that are due.
            settle(&mut store, &mut scheduler, &mut names);
            for (key, request) in store.all("ClusterRequest").filter(|(key, _)| !scheduler.refused.contains(*key)) {
                let plan = decide_request(&scheduler.snapshot, key, store.time(), &mut names);
                // Findings of those who stand behind are told anew with time.
                let answer = |object: &Value| ["status", "reason", "message"].map(|told| object["status"][told].clone());
                let same = matches!(&plan, Plan::WriteStatus(Write::ApplyStatus { object, .. })
                    if answer(&object.to_value()) == answer(request));
                prop_assert!(is_done(&plan) || same, "{} after {}: {:?}", key, change, plan);
            }
        }
    }

    #[test]
    fn removing_a_purpose_or_a_profile_changes_no_grant(asked in prop::collection::vec(0..PURPOSES.len(), 1..REQUESTS), gone in 0usize..4) {
        let mut store = start();
        for (index, purpose) in asked.iter().enumerate() {
            store.put(ask(index, *purpose));
        }
        let (mut scheduler, mut names) = (Scheduler::default(), Names::default());
        settle(&mut store, &mut scheduler, &mut names);
        let before = bindings(&store);
        prop_assert_eq!(before.len(), asked.len());
        match PURPOSES.get(gone) {
            Some(name) => store.delete(&("Purpose".to_owned(), ObjectKey::cluster_wide(*name))),
            None => store.edit("ClusterProvider", "", "local", &json!({"status": {"profiles": []}})),
        }
        settle(&mut store, &mut scheduler, &mut names);
        prop_assert_eq!(bindings(&store), before);
        for (key, request) in store.all("ClusterRequest") {
            prop_assert_eq!(&request["status"]["status"], &json!("Granted"), "{}", key);
        }
    }

    #[test]
    fn choosing_together_is_choosing_one_after_another(
        asks in prop::collection::vec((0..PURPOSES.len(), 0i64..3, 0usize..3), 1..12), first in 0usize..12, room in 1usize..5,
    ) {
        let mut store = start();
        for name in ["pair", "both"] {
            store.edit("Purpose", "", name, &json!({"spec": {"maxTenants": room}}));
        }
        let (mut scheduler, mut names) = (Scheduler::default(), Names::default());
        let mut keys = Vec::new();
        for (index, (purpose, priority, prefix)) in asks.iter().enumerate() {
            let mut object = ask(index, *purpose);
            object["spec"]["priority"] = json!(priority);
            object["spec"]["prefix"] = json!(["foo-", "bar-", ""][*prefix]);
            store.put(object);
            // The first are there already, so that the others find Clusters with tenants.
            if index < first {
                settle(&mut store, &mut scheduler, &mut names);
            } else {
                keys.push(ObjectKey::new("team", format!("r{index}")));
            }
        }
        scheduler.observe(&store, usize::MAX);
        let (mut one, mut all) = (store.clone(), store);
        let (mut singly, mut together) = (scheduler.clone(), scheduler);
        let due = singly.snapshot.take_due().requests;
        for key in due.iter().filter(|key| keys.contains(key)) {
            while decide_request(&singly.snapshot, key, one.time(), &mut names).chooses() {
                singly.step(&mut one, key, &mut names).transpose().expect("nobody else writes");
                singly.observe(&one, usize::MAX);
            }
        }
        for round in 0.. {
            let written = together.choose(&mut all, &keys, &mut names);
            if written.is_empty() {
                break;
            }
            prop_assert!(written.iter().all(Result::is_ok), "{:?}", written);
            prop_assert!(round < 100, "it never ends");
            together.observe(&all, usize::MAX);
        }
        prop_assert_eq!(places(&all), places(&one));
    }

    #[test]
    fn findings_are_sorted_and_bounded(profiles in prop::collection::vec(prop::collection::btree_set("[a-d]", 0..3), 0..60)) {
        let mut store = Store::new();
        let list: Vec<Value> = profiles.iter().enumerate().map(|(index, traits)| {
            let traits: Vec<Value> = traits.iter().map(|name| json!({"trait": name})).collect();
            json!({"name": format!("p{index:02}"), "supportedVersions": [{"version": "1.30.0"}], "supportedTraits": traits})
        }).collect();
        store.put(crate::store::provider("p", json!(list)));
        store.put(purpose("x", json!({})));
        store.put(request("team", "r", json!({"purposes": ["x"], "kubernetes": {"version": "1.31"},
            "traits": [{"trait": "a"}, {"trait": "b"}, {"trait": "c", "negated": true}]})));
        settle(&mut store, &mut Scheduler::default(), &mut Names::default());
        let status = &store.get("ClusterRequest", "team", "r").expect("there")["status"];
        prop_assert_eq!(&status["status"], &json!("Denied"));
        let findings = status["findings"].as_array().cloned().unwrap_or_default();
        let omitted = usize::try_from(status["findingsOmitted"].as_i64().unwrap_or(0)).expect("a count");
        let unmet = |traits: &BTreeSet<String>| {
            1 + usize::from(!traits.contains("a")) + usize::from(!traits.contains("b")) + usize::from(traits.contains("c"))
        };
        let total: usize = profiles.iter().map(unmet).sum();
        prop_assert!(findings.len() <= 32);
        prop_assert_eq!(findings.len() + omitted, total);
        let order: Vec<(usize, String)> = findings.iter().map(|finding| {
            let name = finding["profile"].as_str().expect("a profile").to_owned();
            let index: usize = name[1..].parse().expect("a number");
            (unmet(&profiles[index]), name)
        }).collect();
        prop_assert!(order.is_sorted(), "{:?}", order);
    }
}

#[test]
fn a_forged_grant_gives_nothing_and_moves_nothing() {
    let mut store = start();
    store.put(ask(0, 0));
    store.put(ask(1, 1));
    let (mut scheduler, mut names) = (Scheduler::default(), Names::default());
    settle(&mut store, &mut scheduler, &mut names);
    let victim = store.get("ClusterRequestGrant", "team", "r1").expect("granted")["spec"]["clusterRef"].clone();
    store.put(ask(2, 0));
    let uid = store.get("ClusterRequest", "team", "r2").expect("there")["metadata"]["uid"].clone();
    store.put(json!({"apiVersion": "cluster.openmcp.cloud/v1", "kind": "ClusterRequestGrant",
        "metadata": {"name": "r2", "namespace": "team"},
        "spec": {"clusterRef": victim, "prefix": "", "requestUID": uid, "resolved": {"purposes": ["pair"], "dedicated": false}}}));
    settle(&mut store, &mut scheduler, &mut names);
    let status = &store.get("ClusterRequest", "team", "r2").expect("there")["status"];
    assert_eq!(status["status"], "Pending");
    assert!(status["message"].as_str().expect("a message").contains("no record"), "{status}");
    let own = store.all("Cluster").find(|(_, cluster)| cluster["metadata"]["uid"] == victim["uid"]).expect("there").1;
    assert_eq!(own["spec"]["tenants"].as_array().map(Vec::len), Some(1));
}
