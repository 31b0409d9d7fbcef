//! How fast decisions about requests are with a big landscape in the snapshot:
//! `cargo run --release -p allotment-core --example decisions [CLUSTERS [REQUESTS [KIND]]]`. One Cluster changes between
//! any two decisions, in words but for the last kind, and each decision is for another request. Nothing is written.
//! KIND is the number of the one kind of request that is to be measured, for a profile of it.
#![expect(clippy::print_stdout, reason = "figures are what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::sync::Arc;

use std::time::Instant;

use allotment_api::requests::{Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, Purpose};
use allotment_core::requests::{Object, Plan, Snapshot, decide_request};
use allotment_core::write::{ObjectKey, Write};
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The program's allocator: decisions make and drop small texts.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Shared purposes; the Clusters are spread over them.
const PURPOSES: usize = 50;
/// Decisions of one measurement.
const DECISIONS: usize = 100_000;

type Failure = Box<dyn std::error::Error>;

fn read<T: DeserializeOwned>(object: Value) -> Result<Arc<T>, Failure> {
    Ok(Arc::new(serde_json::from_value(object)?))
}

fn cluster(index: usize, tenants: &[usize], turn: usize) -> Result<Object, Failure> {
    let tenants: Vec<Value> = tenants
        .iter()
        .map(|request| {
            json!({"requestUID": format!("request-{request}"), "namespace": format!("team-{}", request % 997),
                "name": format!("r{request}"), "prefix": format!("p{request}-")})
        })
        .collect();
    let message = format!("the control plane answers, {turn}");
    Ok(Object::Cluster(read::<Cluster>(json!({
        "metadata": {"name": format!("c{index}"), "namespace": "allot-clusters", "uid": format!("cluster-{index}"),
            "resourceVersion": turn.to_string(), "finalizers": ["cluster.openmcp.cloud/cluster"]},
        "spec": {"clusterProviderRef": {"name": "local", "profile": "local"}, "kubernetes": {"version": "1.36.3"},
            "purposes": [format!("purpose-{}", index % PURPOSES)], "dedicated": false, "deletionPolicy": "WhenIdle",
            "idleGrace": "5m", "tenants": tenants},
        "status": {"phase": "Succeeded", "kubernetes": {"version": "1.36.3"}, "conditions": [{"type": "ClusterHealthy",
            "status": "True", "reason": "AllGood", "message": message, "lastTransitionTime": "2027-01-01T00:00:00Z"}]}
    }))?))
}

fn request(index: usize, clusters: usize, spec: Value) -> Result<Object, Failure> {
    Ok(Object::Request(read::<ClusterRequest>(json!({
        "metadata": {"name": format!("r{index}"), "namespace": format!("team-{}", index % 997),
            "uid": format!("request-{index}"), "generation": 1, "finalizers": ["cluster.openmcp.cloud/request"],
            "annotations": {"cluster.openmcp.cloud/cluster-name": format!("allot-clusters/c{}", index % clusters)}},
        "spec": spec
    }))?))
}

fn key(index: usize) -> ObjectKey {
    ObjectKey::new(format!("team-{}", index % 997), format!("r{index}"))
}

/// A landscape with that many Clusters, and that many requests bound to them.
fn landscape(clusters: usize, requests: usize) -> Result<Snapshot, Failure> {
    let mut snapshot = Snapshot::new();
    snapshot.apply(Object::Provider(read::<ClusterProvider>(json!({"metadata": {"name": "local"},
        "spec": {"package": "builtin:local"}, "status": {"ready": true, "profiles": [{"name": "local",
            "providerConfigRef": {"name": "local"}, "supportedVersions": [{"version": "1.36.3"}],
            "supportedTraits": [{"trait": "cluster.openmcp.cloud/workerless"}]}]}}))?));
    for index in 0..PURPOSES {
        snapshot.apply(Object::Purpose(read::<Purpose>(
            json!({"metadata": {"name": format!("purpose-{index}")}, "spec": {"maxTenants": 500}}),
        )?));
    }
    for index in 0..clusters {
        let tenants: Vec<usize> = (index..requests).step_by(clusters).collect();
        snapshot.apply(cluster(index, &tenants, 0)?);
    }
    for index in 0..requests {
        let at = index % clusters;
        let purposes = json!([format!("purpose-{}", at % PURPOSES)]);
        snapshot.apply(request(index, clusters, json!({"purposes": purposes}))?);
        snapshot.apply(Object::Grant(read::<ClusterRequestGrant>(json!({
            "metadata": {"name": format!("r{index}"), "namespace": format!("team-{}", index % 997), "uid": format!("grant-{index}")},
            "spec": {"requestUID": format!("request-{index}"), "prefix": format!("p{index}-"),
                "clusterRef": {"name": format!("c{at}"), "namespace": "allot-clusters", "uid": format!("cluster-{at}")},
                "resolved": {"purposes": purposes, "dedicated": false}}
        }))?));
    }
    snapshot.take_due();
    Ok(snapshot)
}

/// Carries decisions about a request out in the snapshot, as far as they are about statuses.
fn settle(snapshot: &mut Snapshot, key: &ObjectKey, now: Timestamp) -> Result<(), Failure> {
    loop {
        let mut names = std::iter::empty();
        match decide_request(snapshot, key, now, &mut names) {
            Plan::WriteStatus(Write::ApplyStatus { object, .. }) => {
                let mut request = snapshot.request(key).cloned().ok_or("the request is gone")?;
                request.status = Some(serde_json::from_value(object.to_value()["status"].take())?);
                snapshot.apply(Object::Request(Arc::new(request)));
            }
            Plan::WriteGrantStatus(Write::ApplyStatus { object, .. }) => {
                let mut grant = snapshot.grant(key).cloned().ok_or("the Grant is gone")?;
                grant.status = Some(serde_json::from_value(object.to_value()["status"].take())?);
                snapshot.apply(Object::Grant(Arc::new(grant)));
            }
            _ => return Ok(()),
        }
    }
}

/// How many there are of what, and which kind of requests is measured; all where none is given.
#[derive(Clone, Copy)]
struct Exercise {
    clusters: usize,
    requests: usize,
    only: Option<usize>,
}

/// What changes of a Cluster before each decision.
#[derive(Clone, Copy)]
enum Changes {
    /// What its provider says of its health, in words.
    Words,
    /// The same, and a tenant of no request that is there comes or goes.
    Tenants,
}

/// Decides requests of one kind, each once, with one Cluster changed before each.
fn measure(
    (number, name): (usize, &str),
    snapshot: &mut Snapshot,
    Exercise { clusters, requests, only }: Exercise,
    kind_of_change: Changes,
    of: impl Fn(usize) -> usize,
) -> Result<(), Failure> {
    if only.is_some_and(|only| only != number) {
        return Ok(());
    }
    let now: Timestamp = "2027-01-02T00:00:00Z".parse()?;
    // Parsing what a watch brings is not what is measured here.
    let mut changes = Vec::with_capacity(DECISIONS);
    for turn in 0..DECISIONS {
        let index = turn * 7919 % clusters;
        let mut tenants: Vec<usize> = (index..requests).step_by(clusters).collect();
        // Each Cluster changes once in as many turns as there are Clusters.
        if matches!(kind_of_change, Changes::Tenants) && turn / clusters % 2 == 0 {
            tenants.push(10 * (requests + DECISIONS) + index);
        }
        changes.push(cluster(index, &tenants, turn + 1)?);
    }
    let mut names = (0u64..).map(|number| format!("b{number:09}"));
    let mut plans = std::collections::BTreeMap::<&str, usize>::new();
    let mut due = 0;
    let begun = Instant::now();
    for (turn, change) in changes.into_iter().enumerate() {
        snapshot.apply(change);
        due += snapshot.take_due().requests.len();
        let plan = decide_request(snapshot, &key(of(turn)), now, &mut names);
        *plans.entry(kind(&plan)).or_default() += 1;
    }
    let rate = DECISIONS as f64 / begun.elapsed().as_secs_f64();
    println!("{name}: {rate:.0} a second; {plans:?}; {} requests due for each change", due / DECISIONS);
    Ok(())
}

fn kind(plan: &Plan) -> &'static str {
    match plan {
        Plan::Done { .. } => "nothing",
        Plan::TakeRoom { .. } => "room taken",
        Plan::WriteStatus(_) => "status",
        Plan::WriteGrantStatus(_) => "status of the Grant",
        Plan::RecordBinding(_) => "note of the Cluster",
        _ => "something else",
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let clusters = arguments.next().transpose()?.unwrap_or(10_000);
    let requests = arguments.next().transpose()?.unwrap_or(100_000);
    let begun = Instant::now();
    let exercise = Exercise { clusters, requests, only: arguments.next().transpose()? };
    let mut snapshot = landscape(clusters, requests)?;
    println!("{clusters} Clusters and {requests} requests read and indexed in {:.1} s", begun.elapsed().as_secs_f64());
    measure((1, "granted ones, told so"), &mut snapshot, exercise, Changes::Words, |turn| turn % requests)?;
    let now: Timestamp = "2027-01-02T00:00:00Z".parse()?;
    for index in 0..requests.min(DECISIONS) {
        settle(&mut snapshot, &key(index), now)?;
    }
    snapshot.take_due();
    measure((2, "granted ones, looked at again"), &mut snapshot, exercise, Changes::Words, |turn| turn % requests)?;
    let new = requests;
    for index in 0..DECISIONS {
        snapshot.apply(request(new + index, clusters, json!({"purposes": [format!("purpose-{}", index % PURPOSES)]}))?);
    }
    snapshot.take_due();
    measure((3, "new ones that find room"), &mut snapshot, exercise, Changes::Words, |turn| new + turn)?;
    for index in 0..DECISIONS {
        snapshot.delete(allotment_core::requests::ObjectKind::Request, &key(new + index));
    }
    let refused = 1000;
    for index in 0..refused {
        let purposes = [format!("purpose-{}", index % PURPOSES)];
        snapshot.apply(request(
            new + index,
            clusters,
            json!({"purposes": purposes, "kubernetes": {"version": "1.99"}}),
        )?);
    }
    snapshot.take_due();
    measure((4, "refused ones, told so with findings"), &mut snapshot, exercise, Changes::Words, |turn| {
        new + turn % refused
    })?;
    for index in 0..refused {
        settle(&mut snapshot, &key(new + index), now)?;
    }
    snapshot.take_due();
    measure((5, "refused ones, looked at again"), &mut snapshot, exercise, Changes::Words, |turn| {
        new + turn % refused
    })?;
    let name = "granted ones, looked at again as tenants come and go";
    measure((6, name), &mut snapshot, exercise, Changes::Tenants, |turn| turn % requests)
}
