//! Whoever waits in the line beside requests whose writes fail. What is decided is tested in `core`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use allotment_api::requests::{Cluster, ClusterProvider, ClusterRequest, Purpose};
use allotment_core::write::merge_apply;
use allotment_machinery::seams::{Clock, Entropy};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::*;
use crate::world::Mirrored;

#[derive(Debug, Default)]
struct Still(Mutex<u8>);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000).expect("a time")
    }
}

impl Entropy for Still {
    fn fill(&self, out: &mut [u8]) {
        for byte in out {
            let mut state = self.0.lock().expect("no test panicked");
            *state = state.wrapping_add(37);
            *byte = *state;
        }
    }
}

/// Keeps what is written; nothing new is made in namespace `going`.
#[derive(Debug, Default)]
struct Server {
    objects: Mutex<BTreeMap<String, Value>>,
    written: Mutex<Vec<String>>,
    refused: Mutex<usize>,
}

impl Server {
    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let body: Value = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
        let mut path = parts.uri.path().trim_end_matches("/status").to_owned();
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let mut object = json!({"metadata": {"uid": format!("uid-{path}")}});
        if parts.method == Method::POST {
            if path.contains("/namespaces/going/") {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                let cause = json!({"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": ""});
                let status = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
                    "message": "it is being terminated", "details": {"causes": [cause]}});
                return Ok(response(403, &status));
            }
            path = format!("{path}/{}", body["metadata"]["name"].as_str().expect("a name"));
        } else {
            object = objects.get(&path).cloned().expect("it is there");
        }
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        merge_apply(&mut object, &body);
        object["metadata"]["resourceVersion"] = json!((objects.len() + 1000 + version(&object)).to_string());
        objects.insert(path, object.clone());
        Ok(response(200, &object))
    }
}

impl Server {
    /// How often that Cluster was written.
    fn writes_of(&self, cluster: &Cluster) -> usize {
        let name = format!("/clusters/{}", cluster.metadata.name.as_deref().expect("a name"));
        self.written.lock().expect("no test panicked").iter().filter(|path| path.ends_with(&name)).count()
    }
}

fn version(object: &Value) -> usize {
    object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn response(code: u16, body: &Value) -> Response<Body> {
    let body = serde_json::to_vec(body).expect("JSON");
    Response::builder().status(code).body(Body::from(body)).expect("a response")
}

fn put<K: Mirrored + kube::Resource<DynamicType = ()> + DeserializeOwned>(
    world: &World,
    server: &Server,
    mut object: Value,
) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let namespace = text("namespace");
    let path = format!("{}/{}", K::url_path(&(), (!namespace.is_empty()).then_some(&*namespace)), text("name"));
    object["metadata"]["uid"] = json!(format!("uid-{path}"));
    object["metadata"]["resourceVersion"] = json!("1");
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.watched(Event::Apply(serde_json::from_value::<K>(object.clone()).expect("an object")));
    server.objects.lock().expect("no test panicked").insert(path, object);
}

/// A provider, and two Purposes.
fn scene() -> (Arc<World>, Arc<Server>) {
    let (world, server) = (Arc::new(World::new(Duration::from_secs(1800))), Arc::new(Server::default()));
    let profile = json!({"name": "a", "supportedVersions": [{"version": "1.30.1"}]});
    let provider = json!({"metadata": {"name": "p"}, "spec": {"package": "builtin:p"}, "status": {"ready": true, "reason": "AllGood", "message": "", "profiles": [profile]}});
    put::<ClusterProvider>(&world, &server, provider);
    put::<Purpose>(&world, &server, json!({"metadata": {"name": "own"}, "spec": {"dedicated": true}}));
    put::<Purpose>(&world, &server, json!({"metadata": {"name": "all"}, "spec": {}}));
    (world, server)
}

fn asked(world: &World, server: &Server, namespace: &str, name: &str, spec: Value) -> ObjectKey {
    let request = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
    put::<ClusterRequest>(world, server, request);
    ObjectKey::new(namespace, name)
}

fn scheduler(world: &Arc<World>, server: &Arc<Server>, choosing: &Choosing) -> Arc<Scheduler> {
    let seams = Seams { clock: Arc::new(Still::default()), entropy: Arc::new(Still::default()) };
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move { server.answer(request).await }
    });
    Arc::new(Scheduler::new(Client::new(service, "default"), world.clone(), seams, choosing.clone()))
}

/// As if workers were at work on all that is ready.
async fn handed_out(world: &World) -> Vec<ObjectKey> {
    let mut taken = Vec::new();
    while let Ok(key) = tokio::time::timeout(Duration::ZERO, world.queues.requests.take()).await {
        taken.push(key);
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn new_ones_that_wait_for_a_worker_come_with_the_first_in_one_write_of_their_cluster() {
    let (world, server) = scene();
    let scheduler = scheduler(&world, &server, &Choosing::default());
    let first = asked(&world, &server, "team", "first", json!({"purposes": ["all"]}));
    handed_out(&world).await;
    scheduler.reconcile(&first).await.expect("nothing is in its way");
    let others: Vec<ObjectKey> = (0..40)
        .map(|index| asked(&world, &server, "team", &format!("r{index}"), json!({"purposes": ["all"]})))
        .collect();
    let cluster = || world.read().clusters.iter().next().map(|(_, cluster)| (**cluster).clone()).expect("there");
    let before = server.writes_of(&cluster());
    // All others wait for a worker.
    scheduler.reconcile(&others[0]).await.expect("nothing is in its way");
    assert_eq!(cluster().spec.tenants.len(), 41);
    assert_eq!(server.writes_of(&cluster()) - before, 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_chosen_for_leaves_room_to_those_that_come_before_it_and_have_no_worker_yet() {
    let (world, server) = scene();
    let one = json!({"metadata": {"name": "one"}, "spec": {"maxTenants": 1, "maxClusters": 1}});
    put::<Purpose>(&world, &server, one.clone());
    let scheduler = scheduler(&world, &server, &Choosing::default());
    let first = asked(&world, &server, "team", "first", json!({"purposes": ["one"]}));
    let low = asked(&world, &server, "team", "low", json!({"purposes": ["one"]}));
    let high = asked(&world, &server, "team", "high", json!({"purposes": ["one"], "priority": 5}));
    let mut taken = handed_out(&world).await;
    for key in [&first, &low, &high] {
        scheduler.reconcile(key).await.expect("nothing is in its way");
    }
    let reason =
        |key: &ObjectKey| world.read().requests.get(key).expect("there").status.clone().unwrap_or_default().reason;
    assert_eq!((reason(&low), reason(&high)), ("MaxClustersReached".to_owned(), "MaxClustersReached".to_owned()));
    // Nobody is looked at but the one that was at work when room for one came.
    taken.iter().for_each(|key| world.queues.requests.done(key));
    taken = handed_out(&world).await;
    taken.iter().for_each(|key| world.queues.requests.done(key));
    let mut two = one;
    two["metadata"]["resourceVersion"] = json!("7");
    two["spec"]["maxTenants"] = json!(2);
    world.watched(Event::Apply(serde_json::from_value::<Purpose>(two).expect("a Purpose")));
    scheduler.reconcile(&low).await.expect("nothing is in its way");
    let clusters: Vec<Arc<Cluster>> = world.read().clusters.iter().map(|(_, cluster)| cluster.clone()).collect();
    let tenants: Vec<&str> = clusters[0].spec.tenants.iter().map(|tenant| &*tenant.name).collect();
    assert_eq!((clusters.len(), tenants), (1, vec!["first", "high"]));
}

#[tokio::test(start_paused = true)]
async fn who_only_joins_others_does_not_wait_for_those_whose_cluster_nobody_makes() {
    let (world, server) = scene();
    let ask = |namespace: &str, name: &str, spec: Value| asked(&world, &server, namespace, name, spec);
    let last = ask("team", "last", json!({"purposes": ["all"]}));
    let stuck: Vec<ObjectKey> =
        (0..3).map(|index| ask("going", &format!("r{index}"), json!({"purposes": ["own"], "priority": 10}))).collect();

    handed_out(&world).await;
    let choosing = Choosing::default();
    let scheduler = scheduler(&world, &server, &choosing);
    // All wait before the first has its turn, which is not the first that is chosen for.
    let held = choosing.lock_owned().await;
    let mut turns = JoinSet::new();
    for key in [&last].into_iter().chain(&stuck).cloned() {
        let scheduler = scheduler.clone();
        turns.spawn(async move { (scheduler.reconcile(&key).await, key) });
        tokio::task::yield_now().await;
    }
    drop(held);
    let mut failed = Vec::new();
    while let Some(turn) = turns.join_next().await {
        let (result, key) = turn.expect("it ends");
        match key == last {
            true => _ = result.expect("nothing is in its way"),
            false => failed.extend(result.err().map(|_| key)),
        }
    }
    assert!(world.read().grants.get(&last).is_some(), "it has a Grant");
    assert_eq!(world.read().clusters.iter().count(), 1, "of the one Cluster that could be made");
    failed.sort();
    assert_eq!(failed, stuck, "each found out in its own turn");
    // Once on the way of the first, and once in its own turn.
    assert_eq!(*server.refused.lock().expect("no test panicked"), 2 * stuck.len());
    let clusters: Vec<Arc<Cluster>> = world.read().clusters.iter().map(|(_, cluster)| cluster.clone()).collect();
    assert_eq!(clusters[0].spec.tenants[0].name, "last");
}
