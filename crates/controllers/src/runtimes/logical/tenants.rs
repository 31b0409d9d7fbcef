//! The seam to the process that serves logical control planes: who implements it has an API server.

use std::fmt::Debug;

use allotment_pki::{CertificateAuthority, PrivateKey};
use async_trait::async_trait;

use crate::frame::ObjectKey;
use crate::providers::Endpoint;

/// What a logical control plane is made with.
#[derive(Clone)]
pub struct Tenant {
    /// Names its key space, for ever. A UID.
    pub id: String,
    /// The Cluster whose control plane it is.
    pub cluster: ObjectKey,
    /// UID of that Cluster.
    pub cluster_uid: String,
    /// What `/version` answers: `1.36.2`.
    pub version: String,
    /// Its own certificate authority, for client certificates.
    pub authority: CertificateAuthority,
    /// The key that its service-account tokens are signed with.
    pub service_account_key: PrivateKey,
    /// Names the store that keeps it: see [`Tenants::home`].
    pub home: String,
}

impl Debug for Tenant {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tenant").field("id", &self.id).field("version", &self.version).finish_non_exhaustive()
    }
}

/// Why a tenant could not be served or removed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TenantError {
    /// What went wrong; holds no secret.
    pub message: String,
}

/// Serves logical control planes.
#[async_trait]
pub trait Tenants: Debug + Send + Sync + 'static {
    /// Serves the tenant. Done again, it changes nothing; once it returns, the tenant answers.
    async fn ensure(&self, tenant: &Tenant) -> Result<(), TenantError>;

    /// Names the store that keeps tenants here, among others that the same platform may know of; empty
    /// where there can be no other.
    fn home(&self) -> &str;

    /// Whether the tenant is served.
    fn is_served(&self, id: &str) -> bool;

    /// Refuses the tenant's requests, ends its watches, takes all its keys away and makes sure that none
    /// is left. A tenant that is not there is no error.
    async fn remove(&self, id: &str) -> Result<(), TenantError>;

    /// A client with all rights in the tenant.
    fn admin(&self, id: &str) -> kube::Client;

    /// Where clients reach the tenant.
    fn endpoint(&self, id: &str) -> Endpoint;
}
