//! What becomes of requests whose callers go, on a store that takes its time.

use std::sync::atomic::{AtomicU64, Ordering};

use allotment_machinery::seams::{Clock, Entropy};
use allotment_store::{Faults, HistoryLimits, Key, Memory, Resource, Store, WatchScope};
use http_body_util::Full;

use super::*;
use crate::auth::{AccessConfig, GROUP_MASTERS};
use crate::builtin;
use crate::registry::Registry;
use crate::server::{ServerConfig, TenantConfig, bootstrap_template};

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

async fn start(store: &Memory) -> ApiServer {
    let seams = Arc::<Seams>::default();
    let server = ApiServer::start(ServerConfig {
        store: Arc::new(store.clone()),
        clock: seams.clone(),
        entropy: seams,
        builtin: Registry::new(builtin::kinds()),
        admission: Vec::new(),
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
