//! What the server knows of one tenant.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use allotment_store::{Template, Tenant};

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
    registry: RwLock<Arc<Registry>>,
}

impl TenantState {
    pub(crate) fn new(config: TenantConfig, registry: Arc<Registry>) -> Self {
        TenantState {
            tenant: config.tenant,
            version: config.version,
            server_url: config.server_url,
            root_ca_pem: config.root_ca_pem,
            access: Access::new(config.access),
            registry: RwLock::new(registry),
        }
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
