//! Control planes without processes: a key range of the platform's store, served by the platform's own
//! API server. Owns the record of each in namespace `allot-planes`; what serves them is behind
//! [`Tenants`].
//!
//! # Flow
//! A Cluster's plane is recorded in one Secret, named by a hash of the Cluster's UID, before anything
//! else happens: the key space's name, the certificate authority, the service-account key. Whoever comes
//! later, after a crash or in another instance, finds the record or makes it, and never two.
//!
//! # Guarantees
//! A record that exists is never replaced; removal ends with the record, so that a crash in between is
//! taken up again. A plane is served from the store that keeps it and from no other.
//!
//! # Caveats
//! Of a plane that another store keeps only the record goes, and with it the keys: nobody serves it again,
//! but what it held stays in that store.

mod record;
mod tenants;

use std::sync::Arc;

use allotment_api::reasons::ClusterConditionReason;
use allotment_api::requests::Cluster;
use allotment_pki::KeySource;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};

use crate::frame::{Seams, Writer, is_conflict};
use crate::providers::{AdminAccess, Health, Order, ProviderError, Removal, recorded};

pub use record::PLANES_NAMESPACE;
use record::{from_secret, record_name, to_secret};
pub use tenants::{Tenant, TenantError, Tenants};

/// Runs logical control planes.
#[derive(Debug)]
pub struct LogicalRuntime {
    secrets: Api<Secret>,
    tenants: Arc<dyn Tenants>,
    keys: Arc<dyn KeySource>,
    seams: Seams,
    writer: Writer,
}

impl LogicalRuntime {
    /// A runtime whose records lie behind `platform`.
    pub fn new(platform: Client, tenants: Arc<dyn Tenants>, keys: Arc<dyn KeySource>, seams: Seams) -> Self {
        let secrets = Api::namespaced(platform, PLANES_NAMESPACE);
        LogicalRuntime { secrets, tenants, keys, seams, writer: Writer::new("allot-logical") }
    }

    /// Serves the plane of that Cluster, making it if there is none and the Cluster is not going.
    pub async fn ensure(&self, order: &Order) -> Result<Health, ProviderError> {
        let tenant = match self.recorded(order).await? {
            Some(tenant) => tenant,
            None if order.going => {
                let message = "the control plane was never made, and the Cluster is being deleted".to_owned();
                return Ok(Health::Progressing { message });
            }
            None => {
                let tenant = self.record(order).await?;
                // A view that lags may take a Cluster for one that is to be made although it is gone. Once the
                // record is there, whoever deletes the Cluster from now on finds it.
                if !self.is_wanted(order).await? {
                    self.remove(order).await?;
                    let message = "the Cluster was deleted before its control plane was made".to_owned();
                    return Ok(Health::Progressing { message });
                }
                tenant
            }
        };
        if let Some(elsewhere) = self.elsewhere(&tenant) {
            return Ok(elsewhere);
        }
        self.tenants.ensure(&tenant).await.map_err(|error| ProviderError::Runtime(Box::new(error)))?;
        Ok(Health::Healthy { version: tenant.version })
    }

    /// How the plane of that Cluster does.
    pub async fn observe(&self, order: &Order) -> Result<Health, ProviderError> {
        let Some(tenant) = self.recorded(order).await? else {
            let message = "the control plane is not made yet".to_owned();
            return Ok(Health::Progressing { message });
        };
        if let Some(elsewhere) = self.elsewhere(&tenant) {
            return Ok(elsewhere);
        }
        if self.tenants.is_served(&tenant.id) {
            return Ok(Health::Healthy { version: tenant.version });
        }
        Ok(Health::Unhealthy {
            reason: ClusterConditionReason::NotServed,
            message: "the control plane is not served".to_owned(),
        })
    }

    /// Takes the plane of that Cluster away: what it serves, its keys, its record, in this order.
    pub async fn remove(&self, order: &Order) -> Result<Removal, ProviderError> {
        let name = record_name(&order.uid);
        let Some(secret) = self.secrets.get_opt(&name).await? else { return Ok(Removal::Gone) };
        let tenant = from_secret(&secret, order)?;
        self.tenants.remove(&tenant.id).await.map_err(|error| ProviderError::Runtime(Box::new(error)))?;
        recorded::delete(&self.secrets, &secret).await?;
        Ok(Removal::Gone)
    }

    /// Admin rights on the plane of that Cluster.
    pub async fn admin_access(&self, order: &Order) -> Result<AdminAccess, ProviderError> {
        let absent = || ProviderError::Absent { namespace: order.namespace.clone(), name: order.name.clone() };
        let tenant = self.recorded(order).await?.ok_or_else(absent)?;
        if !self.tenants.is_served(&tenant.id) {
            return Err(absent());
        }
        let client = self.tenants.admin(&tenant.id);
        let endpoint = self.tenants.endpoint(&tenant.id);
        Ok(AdminAccess { client, endpoint, shortest_token_secs: 1 })
    }

    /// What is said of a plane that another store keeps. Serving it from here would show its owners a new and
    /// empty cluster that takes the keys of theirs.
    fn elsewhere(&self, tenant: &Tenant) -> Option<Health> {
        (tenant.home != self.tenants.home()).then(|| Health::Unhealthy {
            reason: ClusterConditionReason::NotServed,
            message: "another data folder than that of the process in charge keeps the control plane".to_owned(),
        })
    }

    /// Whether the Cluster is there and not being deleted, by a read that no cache answers.
    async fn is_wanted(&self, order: &Order) -> Result<bool, ProviderError> {
        let clusters = Api::<Cluster>::namespaced(self.secrets.clone().into_client(), &order.namespace);
        let there = clusters.get_opt(&order.name).await?;
        Ok(there.is_some_and(|cluster| {
            cluster.uid().as_deref() == Some(&order.uid) && cluster.metadata.deletion_timestamp.is_none()
        }))
    }

    async fn recorded(&self, order: &Order) -> Result<Option<Tenant>, ProviderError> {
        let secret = self.secrets.get_opt(&record_name(&order.uid)).await?;
        secret.map(|secret| from_secret(&secret, order)).transpose()
    }

    async fn record(&self, order: &Order) -> Result<Tenant, ProviderError> {
        let tenant = record::new_tenant(order, self.tenants.home(), self.keys.as_ref(), &self.seams)?;
        match self.writer.create(&self.secrets, &to_secret(&tenant, order)).await {
            Ok(_) => Ok(tenant),
            Err(error) if is_conflict(&error) => {
                // Somebody was faster, or an own write came through although its reply was lost. What
                // is there counts.
                let there = self.recorded(order).await?;
                there.ok_or(ProviderError::Api(error))
            }
            Err(error) => Err(error.into()),
        }
    }
}
