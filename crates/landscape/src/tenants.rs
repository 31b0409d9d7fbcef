//! Logical control planes over this process's API server, and clients that need no socket.

use std::sync::Arc;

use allotment_apiserver::auth::{AccessConfig, GROUP_MASTERS, ServiceAccountIssuer, UserInfo};
use allotment_apiserver::server::{ApiServer, TenantConfig};
use allotment_controllers::providers::Endpoint;
use allotment_controllers::runtimes::logical::{Tenant, TenantError, Tenants};
use allotment_pki::{CaBundle, PkiError, PrivateKey, ServiceAccountKeys};
use allotment_store::{Template, Tenant as KeySpace};
use async_trait::async_trait;
use kube::Client;

use crate::client::client_of;
use crate::prefixes::Homes;

/// Serves logical control planes in this process.
pub(crate) struct LogicalTenants {
    server: ApiServer,
    template: Arc<Template>,
    /// `https://HOST:PORT`
    base_url: String,
    home: String,
    root_ca_pem: Arc<str>,
    homes: Arc<Homes>,
}

impl std::fmt::Debug for LogicalTenants {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LogicalTenants").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

impl LogicalTenants {
    /// Planes of that server, reached below `base_url` and kept in the store that is called `home`.
    pub(crate) fn new(
        server: ApiServer,
        template: Arc<Template>,
        base_url: String,
        home: String,
        root_ca_pem: Arc<str>,
        homes: Arc<Homes>,
    ) -> Self {
        LogicalTenants { server, template, base_url, home, root_ca_pem, homes }
    }

    fn server_url(&self, id: &str) -> String {
        format!("{}/clusters/{id}", self.base_url)
    }
}

/// Who may ask: client certificates of that authority, tokens signed with that key.
pub(crate) fn access(authorities: CaBundle, key: PrivateKey, issuer: &str) -> Result<AccessConfig, PkiError> {
    let service_accounts = ServiceAccountIssuer {
        issuer: issuer.to_owned(),
        keys: ServiceAccountKeys::new(key, &[])?,
        audiences: Vec::new(),
    };
    Ok(AccessConfig {
        client_authorities: authorities,
        service_accounts: Some(service_accounts),
        ..AccessConfig::default()
    })
}

fn failed(error: impl std::fmt::Display) -> TenantError {
    TenantError { message: error.to_string() }
}

#[async_trait]
impl Tenants for LogicalTenants {
    async fn ensure(&self, tenant: &Tenant) -> Result<(), TenantError> {
        // Before it answers, so that nobody is let past the rule of prefixes.
        self.homes.set(&tenant.id, tenant.cluster.clone(), tenant.cluster_uid.clone());
        let server_url = self.server_url(&tenant.id);
        let access = access(tenant.authority.bundle(), tenant.service_account_key.clone(), &server_url);
        let config = TenantConfig {
            tenant: KeySpace::logical(&tenant.id),
            version: tenant.version.clone(),
            server_url,
            root_ca_pem: Arc::clone(&self.root_ca_pem),
            access: access.map_err(failed)?,
            template: Arc::clone(&self.template),
        };
        self.server.ensure_tenant(config).await.map(drop).map_err(failed)
    }

    fn home(&self) -> &str {
        &self.home
    }

    fn is_served(&self, id: &str) -> bool {
        self.server.tenant(&KeySpace::logical(id)).is_some()
    }

    async fn remove(&self, id: &str) -> Result<(), TenantError> {
        self.server.remove_tenant(&KeySpace::logical(id)).await.map_err(failed)?;
        self.homes.remove(id);
        Ok(())
    }

    fn admin(&self, id: &str) -> Client {
        let user = UserInfo::in_process("system:allotment", &[GROUP_MASTERS]);
        client_of(&self.server, &KeySpace::logical(id), user)
    }

    fn endpoint(&self, id: &str) -> Endpoint {
        Endpoint {
            server: self.server_url(id),
            certificate_authority: self.root_ca_pem.to_string(),
            tls_server_name: None,
        }
    }
}
