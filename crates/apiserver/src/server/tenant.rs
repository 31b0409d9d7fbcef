//! What the server knows of one tenant.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use allotment_machinery::schema::Interner;
use allotment_store::{Revision, Template, Tenant};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::claims::Claims;
use super::shares::WATCHES;
use crate::auth::{Access, AccessConfig};
use crate::registry::Registry;

/// What a tenant is made from.
pub struct TenantConfig {
    /// Its key space.
    pub tenant: Tenant,
    /// What `/version` answers, without a leading `v`: `1.36.0`.
    pub version: String,
    /// Where clients reach it, without a trailing slash: `https://127.0.0.1:6443/clusters/ID`.
    pub server_url: String,
    /// The certificate authority that clients trust, as PEM; published as `kube-root-ca.crt`.
    pub root_ca_pem: Arc<str>,
    /// Who may ask: certificate authorities, keys, tokens.
    pub access: AccessConfig,
    /// What an empty key space begins with.
    pub template: Arc<Template>,
}

impl fmt::Debug for TenantConfig {
    /// Keys and tokens are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantConfig")
            .field("tenant", &self.tenant)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// One tenant, shared by all its requests.
#[derive(Debug)]
pub struct TenantState {
    /// Its key space.
    pub tenant: Tenant,
    /// What `/version` answers, without a leading `v`.
    pub version: String,
    /// Where clients reach it.
    pub server_url: String,
    /// The certificate authority that clients trust, as PEM.
    pub root_ca_pem: Arc<str>,
    /// Authenticators and the RBAC index.
    pub access: Access,
    /// Addresses and ports of its Services.
    pub(crate) claims: Claims,
    /// Held while a definition is written: two that ask for the same free name do not both get it.
    pub(crate) naming: Arc<tokio::sync::Mutex<()>>,
    /// Places for watches that come over the wire.
    pub(crate) watches: Arc<Semaphore>,
    registry: RwLock<Arc<Registry>>,
    /// Schemas, shared by content with all other tenants.
    pub(super) interner: Arc<Interner>,
    /// What the first load of definitions and access rules has seen; taken while they are loaded.
    pub(super) loaded: tokio::sync::Mutex<Revision>,
    ready: AtomicBool,
    /// Cancelled when the tenant is removed: whatever works within it ends.
    ended: CancellationToken,
    /// What works within it.
    work: TaskTracker,
}

impl TenantState {
    pub(super) fn new(config: TenantConfig, registry: Arc<Registry>, interner: Arc<Interner>) -> Self {
        TenantState {
            tenant: config.tenant,
            version: config.version,
            server_url: config.server_url,
            root_ca_pem: config.root_ca_pem,
            access: Access::new(config.access),
            claims: Claims::default(),
            watches: Arc::new(Semaphore::new(WATCHES)),
            naming: Arc::default(),
            registry: RwLock::new(registry),
            interner,
            loaded: tokio::sync::Mutex::default(),
            ready: AtomicBool::new(false),
            ended: CancellationToken::new(),
            work: TaskTracker::new(),
        }
    }

    /// Does work on the tenant's objects; `None` where the tenant is removed before it is done. The removal
    /// drops it where it waits, and begins only once it is dropped.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let _working = self.work.token();
        tokio::select! {
            biased;
            () = self.ended.cancelled() => None,
            done = work => Some(done),
        }
    }

    /// Ends all work within the tenant and waits for it; from then on there is none.
    pub(super) async fn end(&self) {
        self.ended.cancel();
        self.work.close();
        self.work.wait().await;
    }

    /// Whether everything has been loaded that requests depend on.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub(super) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// The kinds there are now. A request looks once and keeps what it got.
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another table of kinds in place, whole.
    pub fn set_registry(&self, registry: Arc<Registry>) {
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = registry;
    }
}
