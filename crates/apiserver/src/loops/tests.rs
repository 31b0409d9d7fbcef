//! The loops on a store in memory: what comes about without anyone asking, also after a start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use allotment_machinery::json;
use allotment_machinery::json::{Value, parse};
use allotment_machinery::object::Encoded;
use allotment_machinery::seams::{Clock, Entropy};
use allotment_store::{
    Expect, HistoryLimits, Key, ListQuery, Memory, Resource, Scope, Store, Template, Tenant, WatchScope, Write,
};

use crate::auth::AccessConfig;
use crate::builtin;
use crate::registry::Registry;
use crate::server::{ApiServer, ServerConfig, TenantConfig};

/// Draws other bytes each time; panics so often before.
#[derive(Debug, Default)]
struct Seams {
    next: AtomicU8,
    panics: AtomicU8,
}

impl Clock for Seams {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }
}

impl Entropy for Seams {
    fn fill(&self, out: &mut [u8]) {
        let planted = self.panics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        assert!(planted.is_err(), "planted");
        out.fill(self.next.fetch_add(1, Ordering::Relaxed));
    }
}

async fn start(store: &Arc<dyn Store>) -> ApiServer {
    start_at(store, "").await
}

/// A server that clients reach at an URL.
async fn start_at(store: &Arc<dyn Store>, url: &str) -> ApiServer {
    start_with(store, url, Arc::default()).await
}

async fn start_with(store: &Arc<dyn Store>, url: &str, seams: Arc<Seams>) -> ApiServer {
    let server = ApiServer::start(ServerConfig {
        store: Arc::clone(store),
        clock: seams.clone(),
        entropy: seams,
        builtin: Registry::new(builtin::kinds()),
        admission: Vec::new(),
        readiness: Vec::new(),
    });
    let config = TenantConfig {
        tenant: Tenant::platform(),
        version: "1.36.0".to_owned(),
        server_url: url.to_owned(),
        root_ca_pem: Arc::from("certificates"),
        access: AccessConfig::default(),
        template: empty(),
    };
    server.ensure_tenant(config).await.expect("the tenant is served");
    server
}

fn empty() -> Arc<Template> {
    Arc::new(Template { id: "empty".to_owned(), entries: Vec::new() })
}

fn key(resource: &str, namespace: &str, name: &str) -> Key {
    let resource = Resource::new(resource, "");
    Key { tenant: Tenant::platform(), resource, namespace: Arc::from(namespace), name: Arc::from(name) }
}

async fn put(store: &Arc<dyn Store>, key: Key, object: &str) {
    let Ok(Value::Object(object)) = parse(object.as_bytes()) else { panic!("{object}") };
    let current = store.get(&key).await.expect("the store answers");
    let expect = current.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
    let body = Encoded::of(&object).expect("has a uid");
    store.commit(Write::Put { key, expect, body }).await.expect("is written");
}

/// Waits until an object is there, or is not.
async fn until(store: &Arc<dyn Store>, key: &Key, there: bool) {
    until_holds(store, key, |object| object.is_some() == there).await;
}

async fn until_holds(store: &Arc<dyn Store>, key: &Key, holds: impl Fn(Option<&Value>) -> bool) {
    let mut watch = store.watch(WatchScope::All, store.revision().await.expect("answers")).await.expect("watches");
    let settled = async {
        loop {
            let entry = store.get(key).await.expect("the store answers");
            let object = entry.map(|entry| parse(&entry.body()).expect("JSON"));
            if holds(object.as_ref()) {
                return;
            }
            watch.next().await.expect("an event");
        }
    };
    tokio::time::timeout(Duration::from_secs(10), settled)
        .await
        .unwrap_or_else(|_| panic!("waited in vain for {key:?}"));
}

const NAMESPACE: &str = r#"{"metadata":{"name":"n","uid":"ns"},"spec":{"finalizers":["kubernetes"]}}"#;
const DELETING: &str = r#"{"metadata":{"name":"n","uid":"ns","deletionTimestamp":"2020-01-01T00:00:00Z"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}"#;

#[tokio::test]
async fn a_namespace_gets_its_defaults_and_takes_all_along() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(0, HistoryLimits::default()));
    let server = start(&store).await;
    put(&store, key("namespaces", "", "n"), NAMESPACE).await;
    until(&store, &key("serviceaccounts", "n", "default"), true).await;
    until(&store, &key("configmaps", "n", "kube-root-ca.crt"), true).await;
    put(&store, key("namespaces", "", "n"), DELETING).await;
    until(&store, &key("namespaces", "", "n"), false).await;
    for (resource, _) in store.resources(&Tenant::platform()).await.expect("the store answers") {
        let scope = Scope { tenant: Tenant::platform(), resource, namespace: Some(Arc::from("n")) };
        let left = store.list(ListQuery { scope, at: None, after: None, limit: 0 }).await.expect("the store answers");
        assert!(left.entries.is_empty(), "{:?}", left.entries);
    }
    server.stop().await;
}

#[tokio::test]
async fn what_was_left_undone_is_done_after_a_start() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(0, HistoryLimits::default()));
    store.commit(Write::Instantiate { tenant: Tenant::platform(), template: empty() }).await.expect("begins");
    put(&store, key("namespaces", "", "n"), DELETING).await;
    put(&store, key("configmaps", "n", "a"), r#"{"metadata":{"name":"a","namespace":"n","uid":"a"}}"#).await;
    let orphan = r#"{"metadata":{"name":"b","namespace":"m","uid":"b","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"never","uid":"x"}]}}"#;
    put(&store, key("configmaps", "m", "b"), orphan).await;
    let server = start(&store).await;
    until(&store, &key("namespaces", "", "n"), false).await;
    until(&store, &key("configmaps", "m", "b"), false).await;
    assert!(store.get(&key("configmaps", "n", "a")).await.expect("the store answers").is_none());
    server.stop().await;
}

#[tokio::test]
async fn where_the_api_is_found_is_put_right_at_a_start_whatever_was_taken_from_it() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(0, HistoryLimits::default()));
    store.commit(Write::Instantiate { tenant: Tenant::platform(), template: empty() }).await.expect("begins");
    put(&store, key("namespaces", "", "default"), &NAMESPACE.replace("\"n\"", "\"default\"")).await;
    let of = |resource| key(resource, "default", "kubernetes");
    let slice = Key { resource: Resource::new("endpointslices", "discovery.k8s.io"), ..of("endpoints") };
    let check = async |url: &str, address: &str, port: i64, family: &str| {
        let server = start_at(&store, url).await;
        let https = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
        let subsets = json!([{"addresses": [{"ip": address}], "ports": (https.clone())}]);
        let endpoints = json!([{"addresses": [address], "conditions": {"ready": true}}]);
        let service = json!([{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]);
        for (key, members) in [
            (of("services"), vec![(&["spec", "ports"][..], service)]),
            (of("endpoints"), vec![(&["subsets"][..], subsets)]),
            (
                slice.clone(),
                vec![
                    (&["addressType"][..], Value::from(family)),
                    (&["endpoints"][..], endpoints),
                    (&["ports"][..], https),
                ],
            ),
        ] {
            let right = |object: &Value| members.iter().all(|(path, value)| object.at(path) == Some(value));
            until_holds(&store, &key, |object| object.is_some_and(right)).await;
        }
        server.stop().await;
    };
    check("https://192.0.2.7:7443", "192.0.2.7", 7443, "IPv4").await;
    for (key, left) in [
        (of("services"), r#""spec":{"clusterIP":"10.0.0.1"}"#),
        (of("services"), r#""type":"nothing else""#),
        (of("endpoints"), r#""type":"nothing else""#),
        (slice.clone(), r#""addressType":"IPv4""#),
        (slice.clone(), r#""addressType":"IPv4","endpoints":null,"ports":[]"#),
    ] {
        let bare = r#"{"metadata":{"name":"kubernetes","namespace":"default","uid":"bare"},LEFT}"#;
        put(&store, key, &bare.replace("LEFT", left)).await;
        check("https://192.0.2.7:7443", "192.0.2.7", 7443, "IPv4").await;
    }
    check("https://192.0.2.8:443", "192.0.2.8", 443, "IPv4").await;
    check("https://[2001:db8::1]:6443", "2001:db8::1", 6443, "IPv6").await;
}

#[tokio::test]
async fn work_that_panics_is_done_again_and_holds_up_no_other() {
    let (store, seams): (Arc<dyn Store>, _) =
        (Arc::new(Memory::new(0, HistoryLimits::default())), Arc::<Seams>::default());
    let server = start_with(&store, "", seams.clone()).await;
    seams.panics.store(3, Ordering::Relaxed);
    put(&store, key("namespaces", "", "n"), NAMESPACE).await;
    put(&store, key("namespaces", "", "m"), &NAMESPACE.replace(r#""n""#, r#""m""#)).await;
    for namespace in ["n", "m"] {
        until(&store, &key("serviceaccounts", namespace, "default"), true).await;
        until(&store, &key("configmaps", namespace, "kube-root-ca.crt"), true).await;
    }
    assert_eq!(seams.panics.load(Ordering::Relaxed), 0);
    let broken = tokio::time::timeout(Duration::from_millis(10), server.broken()).await;
    assert!(broken.is_err(), "the server goes on: {broken:?}");
    server.stop().await;
}
