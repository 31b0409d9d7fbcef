//! One tenant does not slow another: in which order writes come to the store while one tenant has a thousand
//! requests on their way. What counts is the order, not the time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allotment_apiserver::auth::{GROUP_MASTERS, UserInfo};
use allotment_machinery::json::Value;
use allotment_store::{
    Entry, HistoryLimits, Key, ListQuery, Memory, Outcome, Page, Resource, Revision, Store, StoreError, Tenant, Watch,
    WatchScope, Write,
};
use http::Request;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::world::World;
use crate::{CONFIG_MAPS, config_map};

/// How many requests are served at once, and how many of them may be one tenant's.
const SERVED: usize = 128;
const OF_TENANT: usize = 96;
/// How many of one user's requests may wait.
const WAITING: usize = 512;
/// How many watches a tenant may have open.
const WATCHES: usize = 4096;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A store that holds writes of ConfigMaps named `held…` until each is let go, and notes in which order they came.
#[derive(Clone, Debug)]
struct Held {
    store: Memory,
    gate: Arc<Semaphore>,
    /// `TENANT/NAME`
    came: Arc<Mutex<Vec<String>>>,
}

impl Held {
    fn came(&self) -> Vec<String> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until as many writes have come.
    async fn until(&self, count: usize) {
        let waiting = async {
            while self.came().len() < count {
                tokio::task::yield_now().await;
            }
        };
        let came = || self.came().len();
        assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "{} writes came, not {count}", came());
    }

    /// Lets writes go, one at a time, until this one has come; how many. Whatever was sent before waits by then.
    async fn let_go_until(&self, write: &str) -> usize {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let mut gone = 0;
        while !self.came().iter().any(|have| have == write) {
            let came = self.came().len();
            self.gate.add_permits(1);
            self.until(came + 1).await;
            gone += 1;
        }
        gone
    }
}

#[async_trait::async_trait]
impl Store for Held {
    async fn commit(&self, write: Write) -> Result<Outcome, StoreError> {
        if let Write::Put { key, .. } = &write
            && key.name.starts_with("held")
        {
            let came = format!("{}/{}", key.tenant.as_str(), key.name);
            self.came.lock().unwrap_or_else(PoisonError::into_inner).push(came);
            self.gate.acquire().await.expect("it is never closed").forget();
        }
        self.store.commit(write).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page, StoreError> {
        self.store.list(query).await
    }

    async fn watch(&self, scope: WatchScope, from: Revision) -> Result<Box<dyn Watch>, StoreError> {
        self.store.watch(scope, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision().await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        self.store.tenants().await
    }

    async fn resources(&self, tenant: &Tenant) -> Result<Vec<(Resource, usize)>, StoreError> {
        self.store.resources(tenant).await
    }
}

async fn served(tenants: &[&str]) -> World<Held> {
    let store = Memory::new(0, HistoryLimits::default());
    let held = Held { store, gate: Arc::new(Semaphore::new(0)), came: Arc::default() };
    let world = World::over(held).await;
    for tenant in tenants {
        world.tenant(tenant).await;
    }
    world
}

/// A request as one of an administrator who comes over the wire.
fn of_client<B>(mut request: Request<B>, user: &str) -> Request<B> {
    let user = UserInfo { name: user.to_owned(), groups: vec![GROUP_MASTERS.to_owned()], ..UserInfo::default() };
    request.extensions_mut().insert(user);
    request
}

/// Sends a create of `name` as a client over the wire would, and tells the code of the answer.
fn send(world: &World<Held>, tenant: &str, user: &str, name: &str) -> impl Future<Output = u16> + Send + use<> {
    let path = format!("/clusters/{tenant}{CONFIG_MAPS}");
    let request = of_client(world.request("POST", &path, &config_map(name, "")), user);
    let service = allotment_apiserver::service::ApiService::new(world.server.clone());
    async move { tower::ServiceExt::oneshot(service, request).await.expect("infallible").status().as_u16() }
}

#[tokio::test]
async fn a_tenant_waits_for_a_constant_number_of_the_requests_that_another_one_has_pending() {
    let world = served(&["noisy", "loud", "quiet"]).await;
    let mut clients = JoinSet::new();
    for number in 0..500 {
        for user in ["a", "b"] {
            clients.spawn(send(&world, "noisy", user, &format!("held-{user}{number}")));
        }
    }
    world.store.until(OF_TENANT).await;
    clients.spawn(send(&world, "quiet", "c", "held-first"));
    world.store.until(OF_TENANT + 1).await;
    assert_eq!(world.store.let_go_until("quiet/held-first").await, 0, "one tenant leaves room for others");

    // Another tenant takes what is left, and the server is full.
    for number in 0..500 {
        clients.spawn(send(&world, "loud", "d", &format!("held-{number}")));
    }
    world.store.until(SERVED).await;
    clients.spawn(send(&world, "quiet", "c", "held-second"));
    clients.spawn(send(&world, "quiet", "c", "held-third"));
    let reply = world.get(&format!("/clusters/quiet{CONFIG_MAPS}")).await;
    assert_eq!(reply.code, 200, "what the server asks itself does not wait");
    // One of each tenant's goes at a time.
    let gone =
        [world.store.let_go_until("quiet/held-second").await, world.store.let_go_until("quiet/held-third").await];
    assert!(gone.iter().all(|gone| *gone <= 3), "{gone:?} came before them");
    world.store.gate.add_permits(2000);
    while let Some(code) = clients.join_next().await {
        assert_eq!(code.expect("no panic"), 201);
    }
}

#[tokio::test]
async fn users_of_one_tenant_take_turns_and_those_who_send_too_much_are_refused() {
    let world = served(&["one"]).await;
    let mut clients = JoinSet::new();
    for number in 0..OF_TENANT + WAITING + 10 {
        clients.spawn(send(&world, "one", "noisy", &format!("held-{number}")));
    }
    // The others cannot be answered yet.
    for _ in 0..10 {
        let refused = tokio::time::timeout(PATIENCE, clients.join_next()).await.expect("it is refused at once");
        assert_eq!(refused.expect("there are some").expect("no panic"), 429);
    }
    clients.spawn(send(&world, "one", "quiet", "held-quiet"));
    let gone = world.store.let_go_until("one/held-quiet").await;
    assert!(gone <= 2, "{gone} came before it");
    world.store.gate.add_permits(2000);
    while let Some(code) = clients.join_next().await {
        assert_eq!(code.expect("no panic"), 201);
    }
}

#[tokio::test]
async fn watches_hold_no_share_and_health_needs_none() {
    let world = served(&["one"]).await;
    let mut watches = Vec::new();
    for _ in 0..SERVED * 2 {
        let request = world.request("GET", &format!("/clusters/one{CONFIG_MAPS}?watch=1"), &Value::Null);
        let response = world.raw(of_client(request, "w")).await;
        assert_eq!(response.status(), 200);
        watches.push(response);
    }
    let mut clients = JoinSet::new();
    for number in 0..OF_TENANT + 10 {
        clients.spawn(send(&world, "one", "w", &format!("held-{number}")));
    }
    world.store.until(OF_TENANT).await;
    let request = of_client(world.request("GET", "/clusters/one/readyz", &Value::Null), "w");
    let response = tokio::time::timeout(PATIENCE, world.raw(request)).await.expect("out of turn");
    assert_eq!(response.status(), 200);
    world.store.gate.add_permits(2000);
    while let Some(code) = clients.join_next().await {
        assert_eq!(code.expect("no panic"), 201);
    }
}

#[tokio::test]
async fn a_tenant_has_so_many_watches_and_others_have_theirs() {
    let world = served(&["one", "two"]).await;
    let watch = async |tenant: &str| {
        let request = world.request("GET", &format!("/clusters/{tenant}{CONFIG_MAPS}?watch=1"), &Value::Null);
        world.raw(of_client(request, "w")).await
    };
    let mut open = Vec::new();
    for _ in 0..WATCHES {
        open.push(watch("one").await);
    }
    assert!(open.iter().all(|response| response.status() == 200));
    let refused = watch("one").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers().get("retry-after").map(|value| value.as_bytes()), Some(&b"1"[..]));
    assert_eq!(watch("two").await.status(), 200);
    open.pop();
    assert_eq!(watch("one").await.status(), 200, "one has ended");
}
