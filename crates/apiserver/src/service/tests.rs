//! What becomes of requests whose callers go, on a store that takes its time; and of panics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use allotment_machinery::json::{Value, parse};
use allotment_machinery::object::Encoded;
use allotment_machinery::seams::{Clock, Entropy};
use allotment_store::{
    Entry, Event, Expect, Faults, HistoryLimits, Key, ListQuery, Memory, Outcome, Page, Resource, Revision, Store,
    StoreError, Watch, WatchScope, Write,
};
use async_trait::async_trait;
use http_body_util::Full;

use super::*;
use crate::auth::{AccessConfig, GROUP_MASTERS};
use crate::builtin;
use crate::registry::Registry;
use crate::server::{AdmissionRequest, InProcessAdmission, ServerConfig, TenantConfig, bootstrap_template};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
struct Seams(AtomicU64);

impl Clock for Seams {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }
}

impl Entropy for Seams {
    fn fill(&self, out: &mut [u8]) {
        let next = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        out.iter_mut().rev().zip(next.iter().rev()).for_each(|(out, next)| *out = *next);
    }
}

/// An object of this name makes whatever meets it panic.
const PLANTED: &str = "planted";

/// Admission that panics at [`PLANTED`].
#[derive(Debug)]
struct PlantedAdmission;

#[async_trait]
impl InProcessAdmission for PlantedAdmission {
    fn covers(&self, _group: &str, _resource: &str, _namespace: &str) -> bool {
        true
    }

    async fn validate(&self, request: &AdmissionRequest<'_>) -> Result<Vec<String>, ApiError> {
        assert_ne!(request.name, PLANTED, "planted");
        Ok(Vec::new())
    }
}

/// A store whose watches panic at [`PLANTED`], and so many lists of ClusterRoles.
#[derive(Debug)]
struct PlantedStore(Memory, AtomicUsize);

#[derive(Debug)]
struct PlantedWatch(Box<dyn Watch>);

#[async_trait]
impl Watch for PlantedWatch {
    async fn next(&mut self) -> Result<Arc<Event>, StoreError> {
        let event = self.0.next().await;
        assert!(event.as_ref().is_ok_and(|event| &*event.entry.name != PLANTED), "planted");
        event
    }

    fn progress(&self) -> Revision {
        self.0.progress()
    }
}

#[async_trait]
impl Store for PlantedStore {
    async fn commit(&self, write: Write) -> Result<Outcome, StoreError> {
        self.0.commit(write).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, StoreError> {
        self.0.get(key).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page, StoreError> {
        let roles = query.scope.resource == Resource::new("clusterroles", "rbac.authorization.k8s.io");
        let planted =
            self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(usize::from(roles)));
        assert!(!roles || planted.is_err(), "planted");
        self.0.list(query).await
    }

    async fn watch(&self, scope: WatchScope, from: Revision) -> Result<Box<dyn Watch>, StoreError> {
        Ok(Box::new(PlantedWatch(self.0.watch(scope, from).await?)))
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.0.revision().await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        self.0.tenants().await
    }

    async fn resources(&self, tenant: &Tenant) -> Result<Vec<(Resource, usize)>, StoreError> {
        self.0.resources(tenant).await
    }
}

async fn start(store: &Memory) -> ApiServer {
    start_with(Arc::new(store.clone()), Vec::new()).await
}

async fn start_with(store: Arc<dyn Store>, admission: Vec<Arc<dyn InProcessAdmission>>) -> ApiServer {
    let seams = Arc::<Seams>::default();
    let server = ApiServer::start(ServerConfig {
        store,
        clock: seams.clone(),
        entropy: seams,
        builtin: Registry::new(builtin::kinds()),
        admission,
        readiness: Vec::new(),
    });
    let config = TenantConfig {
        tenant: Tenant::platform(),
        version: "1.36.0".to_owned(),
        server_url: String::new(),
        root_ca_pem: Arc::from(""),
        access: AccessConfig::default(),
        template: Arc::new(bootstrap_template(jiff::Timestamp::UNIX_EPOCH)),
    };
    server.ensure_tenant(config).await.expect("the tenant is served");
    server
}

fn create(name: &str) -> Request<Full<Bytes>> {
    let body = format!(r#"{{"metadata": {{"name": "{name}"}}}}"#);
    let request = Request::post("/api/v1/namespaces/default/configmaps").header("content-type", "application/json");
    let mut request = request.body(Full::new(Bytes::from(body))).expect("a request");
    request.extensions_mut().insert(UserInfo::in_process("system:test", &[GROUP_MASTERS]));
    request
}

#[tokio::test]
async fn what_is_left_of_a_dropped_request_goes_on_and_the_server_waits_for_it() {
    let store = Memory::new(0, HistoryLimits::default());
    let server = start(&store).await;
    let service = ApiService::new(server.clone());
    let (namespace, name) = (Arc::from("default"), Arc::from("left"));
    let key = Key { tenant: Tenant::platform(), resource: Resource::new("configmaps", ""), namespace, name };
    let from = store.revision().await.expect("answers");
    let mut watch = store.watch(WatchScope::All, from).await.expect("watches");

    store.set_faults(Faults { delay: Duration::from_millis(100), ..Faults::default() });
    let mut answering = service.answer(create("left"));
    assert!(futures::poll!(&mut answering).is_pending(), "the store takes its time");
    store.set_faults(Faults::default());
    assert!(store.get(&key).await.expect("answers").is_none(), "it is dropped before its write");
    drop(answering);
    let written = async { while watch.next().await.expect("an event").entry.name != key.name {} };
    tokio::time::timeout(PATIENCE, written).await.expect("the write is done all the same");

    let whole = service.answer(create("whole")).await.expect("infallible");
    assert_eq!(whole.status(), 201);
    tokio::time::timeout(PATIENCE, server.stop()).await.expect("nothing is left to wait for");
}

#[tokio::test]
async fn a_request_that_panics_is_answered_and_holds_up_no_other() {
    let store = Arc::new(Memory::new(0, HistoryLimits::default()));
    let server = start_with(store, vec![Arc::new(PlantedAdmission)]).await;
    let service = ApiService::new(server.clone());
    // As a connection does, and as a client within the process does, whose write has a task of its own.
    let here = service.answer(create(PLANTED)).await.expect("infallible");
    let apart = tower::Service::call(&mut service.clone(), create(PLANTED)).await.expect("infallible");
    for answer in [here, apart] {
        assert_eq!(answer.status(), 500);
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        let status = String::from_utf8_lossy(&body);
        assert!(status.contains(r#""kind":"Status""#) && status.contains(r#""code":500"#), "{status}");
        assert!(!status.contains(PLANTED), "what it says is for the log: {status}");
    }
    for name in ["one", "two"] {
        assert_eq!(service.answer(create(name)).await.expect("infallible").status(), 201, "{name}");
    }
    assert!(server.metrics().text(1, 1).contains("apiserver_request_panics_total 2"));
    let broken = tokio::time::timeout(Duration::from_millis(10), server.broken()).await;
    assert!(broken.is_err(), "the server goes on: {broken:?}");
    tokio::time::timeout(PATIENCE, server.stop()).await.expect("nothing of it holds up the end");
}

#[tokio::test]
async fn a_part_of_the_server_that_panics_is_told_to_whoever_runs_it() {
    let store = Arc::new(PlantedStore(Memory::new(0, HistoryLimits::default()), AtomicUsize::new(0)));
    let server = start_with(store, Vec::new()).await;
    let service = ApiService::new(server.clone());
    assert_eq!(service.answer(create(PLANTED)).await.expect("infallible").status(), 201);
    let why = tokio::time::timeout(PATIENCE, server.broken()).await.expect("told");
    assert!(why.ends_with(" panicked"), "{why}");
    tokio::time::timeout(PATIENCE, server.stop()).await.expect("it ends all the same");
}

#[tokio::test(start_paused = true)]
async fn roles_whose_aggregation_panics_are_brought_up_to_date_later() {
    let store = Arc::new(PlantedStore(Memory::new(0, HistoryLimits::default()), AtomicUsize::new(0)));
    let server = start_with(store.clone(), Vec::new()).await;
    // What a new tenant begins with is done before.
    tokio::time::sleep(PATIENCE).await;
    store.1.store(2, Ordering::Relaxed);
    let name = Arc::from("part");
    let role = r#"{"metadata": {"name": "part", "uid": "part", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"]}]}"#;
    let Ok(Value::Object(role)) = parse(role.as_bytes()) else { panic!("{role}") };
    let key = |name| Key {
        tenant: Tenant::platform(),
        resource: Resource::new("clusterroles", "rbac.authorization.k8s.io"),
        namespace: Arc::from(""),
        name,
    };
    let body = Encoded::of(&role).expect("has a uid");
    store.commit(Write::Put { key: key(name), expect: Expect::Absent, body }).await.expect("is written");
    let grants = async || {
        let view = store.get(&key(Arc::from("view"))).await.expect("answers").expect("there from the beginning");
        String::from_utf8_lossy(&view.body()).contains("example.com")
    };
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(!grants().await, "it panicked twice");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(grants().await, "nobody changed a role since");
    server.stop().await;
}
