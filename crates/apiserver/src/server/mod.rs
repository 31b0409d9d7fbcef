//! The server's shared state: store, clock, tenants, admission chain, readiness.

mod admission;
mod claims;
mod context;
mod follow;
mod shares;
mod template;
mod tenant;
mod turns;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use allotment_machinery::schema::Interner;
use allotment_machinery::seams::{Clock, Entropy};
use allotment_store::{Store, Tenant, Write};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use admission::{AdmissionOperation, AdmissionRequest, AdmissionTurn, InProcessAdmission};
pub(crate) use claims::{Claims, Held, Outcome};
pub use context::Context;
pub(crate) use shares::Share;
use shares::Shares;
pub use template::bootstrap_template;
pub use tenant::{TenantConfig, TenantState};

use crate::auth::{Aggregation, run_aggregation};
use crate::discovery;
use crate::health::ReadinessCheck;
use crate::loops;
use crate::metrics::Metrics;
use crate::openapi::Documents;
use crate::registry::Registry;
use crate::status::ApiError;

/// How long running requests may take to end when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// What a server is made from.
pub struct ServerConfig {
    /// Where objects lie.
    pub store: Arc<dyn Store>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives names and UIDs.
    pub entropy: Arc<dyn Entropy>,
    /// The built-in kinds.
    pub builtin: Registry,
    /// Admission rules in this process.
    pub admission: Vec<Arc<dyn InProcessAdmission>>,
    /// What has to hold besides the store's answering for `/readyz` to say yes.
    pub readiness: Vec<Arc<dyn ReadinessCheck>>,
}

/// The API server: many tenants over one store. Cheap to clone.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

/// A server that may be gone.
#[derive(Clone)]
pub struct WeakApiServer(Weak<Shared>);

impl fmt::Debug for WeakApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakApiServer").finish_non_exhaustive()
    }
}

impl WeakApiServer {
    /// The server, if it is still there.
    pub fn upgrade(&self) -> Option<ApiServer> {
        self.0.upgrade().map(|shared| ApiServer { shared })
    }
}

struct Shared {
    config: ServerConfig,
    tenants: RwLock<BTreeMap<Tenant, Arc<TenantState>>>,
    turns: turns::Turns,
    shares: Shares,
    long_replies: Shares,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Cancelled once a part broke that everything depends on, and which.
    broken: CancellationToken,
    broke: OnceLock<&'static str>,
    followed: follow::Followed,
    /// Schemas of all tenants' definitions: equal ones are kept once.
    interner: Arc<Interner>,
    metrics: Metrics,
    aggregation: Aggregation,
    /// Documents of OpenAPI that have been written, of all tenants.
    documents: Documents,
    /// The same of discovery.
    discovered: discovery::Documents,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

impl ApiServer {
    /// A server without tenants, which begins to follow its store and runs the loops of all tenants. Call it within a tokio runtime; the
    /// server runs until [`ApiServer::stop`].
    pub fn start(config: ServerConfig) -> Self {
        let server = ApiServer {
            shared: Arc::new(Shared {
                config,
                tenants: RwLock::default(),
                turns: turns::Turns::default(),
                shares: Shares::default(),
                long_replies: Shares::of_long_replies(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
                broken: CancellationToken::new(),
                broke: OnceLock::new(),
                followed: follow::Followed::default(),
                interner: Arc::default(),
                metrics: Metrics::default(),
                aggregation: Aggregation::default(),
                documents: Documents::default(),
                discovered: discovery::Documents::default(),
            }),
        };
        server.spawn_part("what follows the store", server.clone().follow());
        server.spawn_part("what aggregates roles", run_aggregation(server.clone()));
        server.spawn_part("the loops of the tenants", loops::run(server.clone()));
        server
    }

    /// Runs a part without which the server's answers would be wrong, or its work left undone.
    fn spawn_part(&self, what: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        let server = self.clone();
        self.tasks().spawn(async move {
            if AssertUnwindSafe(part).catch_unwind().await.is_err() {
                server.break_down(what);
            }
        });
    }

    /// Says that the server cannot go on.
    pub(crate) fn break_down(&self, what: &'static str) {
        self.shared.broke.get_or_init(|| what);
        self.shared.broken.cancel();
    }

    /// Waits until a part of the server panicked without which it must not go on; says which. Whoever runs the server has to end
    /// it, and begin anew.
    pub async fn broken(&self) -> String {
        self.shared.broken.cancelled().await;
        format!("{} panicked", self.shared.broke.get().unwrap_or(&"a part of the API server"))
    }

    /// The server for those whom it holds itself, and who must not keep it.
    pub fn downgrade(&self) -> WeakApiServer {
        WeakApiServer(Arc::downgrade(&self.shared))
    }

    /// Ends watches and everything else that runs, and waits for it, though not for ever: a client must
    /// not be able to keep the process.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = self.shared.tasks.len(), "the server stopped while requests were still running");
        }
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    pub(crate) fn shares(&self) -> &Shares {
        &self.shared.shares
    }

    /// The shares of making replies that take long.
    pub(crate) fn long_replies(&self) -> &Shares {
        &self.shared.long_replies
    }

    pub(crate) fn documents(&self) -> &Documents {
        &self.shared.documents
    }

    pub(crate) fn discovered(&self) -> &discovery::Documents {
        &self.shared.discovered
    }

    pub(crate) fn aggregation(&self) -> &Aggregation {
        &self.shared.aggregation
    }

    /// Where objects lie.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.config.store
    }

    /// Tells the time.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.config.clock
    }

    /// Gives names and UIDs.
    pub fn entropy(&self) -> &Arc<dyn Entropy> {
        &self.shared.config.entropy
    }

    /// The admission chain, in order.
    pub fn admission(&self) -> &[Arc<dyn InProcessAdmission>] {
        &self.shared.config.admission
    }

    /// What `/readyz` asks.
    pub(crate) fn readiness_checks(&self) -> &[Arc<dyn ReadinessCheck>] {
        &self.shared.config.readiness
    }

    /// The set that every task of this server runs in.
    pub fn tasks(&self) -> &TaskTracker {
        &self.shared.tasks
    }

    /// Ends everything that runs, once cancelled.
    pub fn stopping(&self) -> &CancellationToken {
        &self.shared.stop
    }

    /// The tenant, if it is served.
    pub fn tenant(&self, tenant: &Tenant) -> Option<Arc<TenantState>> {
        self.known_tenant(tenant).filter(|state| state.is_ready())
    }

    /// The tenant, even if its definitions and access rules are still being loaded.
    pub(crate) fn known_tenant(&self, tenant: &Tenant) -> Option<Arc<TenantState>> {
        self.shared.tenants.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    /// All tenants that are served, in order.
    pub fn tenants(&self) -> Vec<Arc<TenantState>> {
        self.shared.tenants.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Serves a tenant: begins its key space from the template where there is none, loads its definitions
    /// and access rules. A tenant that is served already is left as it is; one that was removed is refused,
    /// since whoever asks for it does not know yet.
    pub async fn ensure_tenant(&self, config: TenantConfig) -> Result<Arc<TenantState>, ApiError> {
        if let Some(state) = self.tenant(&config.tenant) {
            return Ok(state);
        }
        let turn = self.shared.turns.of(&config.tenant);
        let _turn = turn.lock().await;
        if let Some(state) = self.tenant(&config.tenant) {
            return Ok(state);
        }
        if self.shared.turns.is_removed(&config.tenant) {
            return Err(ApiError::unavailable(format!("tenant {} was removed", config.tenant.as_str())));
        }
        let write = Write::Instantiate { tenant: config.tenant.clone(), template: Arc::clone(&config.template) };
        self.store().commit(write).await.map_err(|error| ApiError::internal(error.to_string()))?;
        let tenant = config.tenant.clone();
        let registry = Arc::new(self.shared.config.builtin.clone());
        let state = Arc::new(TenantState::new(config, registry, Arc::clone(&self.shared.interner)));
        let state = {
            let mut tenants = self.shared.tenants.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(tenants.entry(tenant).or_insert(state))
        };
        // It is known from here on, so that no event is missed, and served once it is loaded.
        self.load(&state).await?;
        let namespaces = template::ensure_namespaces(self, &state).await;
        namespaces.map_err(|error| ApiError::internal(error.to_string()))?;
        state.set_ready();
        Ok(state)
    }

    /// Serves a tenant no longer and takes away all that it has: first its requests and whatever else works
    /// within it are ended, then its key space. What comes too late all the same is refused by the store.
    /// After an error the tenant is not served and may still have its key space; removing it again goes on.
    pub async fn remove_tenant(&self, tenant: &Tenant) -> Result<(), ApiError> {
        let turn = self.shared.turns.of(tenant);
        let _turn = turn.lock().await;
        self.shared.turns.remove(tenant);
        let state = self.shared.tenants.write().unwrap_or_else(PoisonError::into_inner).remove(tenant);
        if let Some(state) = state {
            state.end().await;
        }
        let write = Write::DropTenant { tenant: tenant.clone() };
        self.store().commit(write).await.map_err(|error| ApiError::internal(error.to_string()))?;
        Ok(())
    }
}
