//! A server on a store in memory, and an administrator who asks it.

mod seams;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use allotment_apiserver::ResponseBody;
use allotment_apiserver::auth::{AccessConfig, GROUP_MASTERS, UserInfo};
use allotment_apiserver::builtin;
use allotment_apiserver::registry::Registry;
use allotment_apiserver::server::{ApiServer, ServerConfig, TenantConfig, bootstrap_template};
use allotment_apiserver::service::ApiService;
use allotment_apiserver::status::ApiError;
use allotment_machinery::json::{Value, parse};
use allotment_machinery::seams::Clock as _;
use allotment_store::{HistoryLimits, Memory, Revision, Store, Tenant};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tower::ServiceExt as _;

pub(crate) use seams::{Counter, Still};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

impl Reply {
    /// The text at a path; empty where there is none.
    pub(crate) fn text(&self, path: &[&str]) -> String {
        self.body.at(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

pub(crate) struct World<S = Memory> {
    pub(crate) store: S,
    pub(crate) server: ApiServer,
}

impl World {
    /// A server with the platform's tenant.
    pub(crate) async fn new() -> Self {
        let store = Memory::new(0, HistoryLimits::default());
        World::over(store).await
    }
}

impl<S: Store + Clone> World<S> {
    /// A server with the platform's tenant over a store.
    pub(crate) async fn over(store: S) -> Self {
        let server = ApiServer::start(ServerConfig {
            store: Arc::new(store.clone()),
            clock: Arc::new(Still),
            entropy: Arc::<Counter>::default(),
            builtin: Registry::new(builtin::kinds()),
            admission: Vec::new(),
            readiness: Vec::new(),
        });
        let world = World { store, server };
        world.ensure(Tenant::platform()).await.expect("a tenant");
        world
    }

    /// The same objects behind another server, which knows nothing of what this one did.
    pub(crate) async fn restarted(self) -> Self {
        self.server.stop().await;
        World::over(self.store).await
    }

    /// Adds the tenant `id`.
    pub(crate) async fn tenant(&self, id: &str) {
        self.ensure(Tenant::logical(id)).await.expect("a tenant");
    }

    pub(crate) async fn ensure(&self, tenant: Tenant) -> Result<(), ApiError> {
        self.admit(tenant, AccessConfig::default()).await
    }

    /// Adds a tenant whose clients have such credentials.
    pub(crate) async fn admit(&self, tenant: Tenant, access: AccessConfig) -> Result<(), ApiError> {
        let config = TenantConfig {
            tenant,
            version: "1.36.0".to_owned(),
            server_url: "https://127.0.0.1:1".to_owned(),
            root_ca_pem: "".into(),
            access,
            template: Arc::new(bootstrap_template(Still.now())),
        };
        self.server.ensure_tenant(config).await.map(drop)
    }

    pub(crate) async fn revision(&self) -> Revision {
        self.store.revision().await.expect("a revision")
    }

    /// A request of an administrator in this process.
    pub(crate) fn request(&self, method: &str, path: &str, body: &Value) -> Request<Full<Bytes>> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_vec()) };
        let builder = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let mut request = builder.body(Full::new(body)).expect("a request");
        request.extensions_mut().insert(UserInfo::in_process("system:test", &[GROUP_MASTERS]));
        request
    }

    pub(crate) async fn raw(&self, request: Request<Full<Bytes>>) -> Response<ResponseBody> {
        ApiService::new(self.server.clone()).oneshot(request).await.expect("infallible")
    }

    pub(crate) async fn answer(&self, request: Request<Full<Bytes>>) -> Reply {
        let response = self.raw(request).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("infallible").to_bytes();
        Reply { code, body: parse(&bytes).unwrap_or_default() }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.answer(self.request(method, path, body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &Value::Null).await
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Reply {
        let reply = self.send("POST", path, &object).await;
        assert_eq!(reply.code, 201, "{path}: {}", reply.body);
        reply
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        let reply = self.send("DELETE", path, &Value::Null).await;
        assert_eq!(reply.code, 200, "{path}: {}", reply.body);
        reply
    }

    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Reply {
        let mut request = self.request("PATCH", path, patch);
        request.headers_mut().insert("content-type", "application/merge-patch+json".parse().expect("a value"));
        self.answer(request).await
    }

    pub(crate) async fn watch(&self, path: &str) -> Watched {
        let response = self.raw(self.request("GET", path, &Value::Null)).await;
        assert_eq!(response.status(), 200, "{path}");
        Watched { body: response.into_body(), events: VecDeque::new() }
    }

    /// Asks until the reply is as wished; fails with the last one when it takes too long.
    pub(crate) async fn until(&self, path: &str, wished: impl Fn(&Reply) -> bool) {
        let mut last = None;
        let waiting = async {
            loop {
                let reply = self.get(path).await;
                if wished(&reply) {
                    return;
                }
                last = Some(reply);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("{path} did not come to be as wished: {last:?}");
        }
    }
}

/// A watch, and the events that have come and were not looked at yet.
pub(crate) struct Watched {
    body: ResponseBody,
    events: VecDeque<Value>,
}

/// The next event of a watch; `None` when it has ended.
pub(crate) async fn next(watch: &mut Watched) -> Option<Value> {
    while watch.events.is_empty() {
        let frame = tokio::time::timeout(PATIENCE, watch.body.frame()).await.expect("a frame in time")?;
        let bytes = frame.expect("infallible").into_data().expect("data");
        assert!(bytes.ends_with(b"\n"), "frames hold whole events");
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        watch.events.extend(lines.map(|line| parse(line).expect("an event is JSON")));
    }
    watch.events.pop_front()
}
