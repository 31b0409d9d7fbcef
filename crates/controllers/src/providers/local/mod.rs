//! Provider `local`: a Cluster is a logical control plane in this process, there in milliseconds.

mod versions;

use std::sync::Arc;

use allotment_api::reasons::ClusterConditionReason;
use async_trait::async_trait;

use super::{AdminAccess, Config, Health, LOCAL, OfferedProfile, Offers, Order, Provider, ProviderError, Removal};
use crate::runtimes::logical::LogicalRuntime;

/// Traits of every cluster of this provider: no nodes, and where it runs.
const TRAITS: [&str; 2] = ["cluster.openmcp.cloud/workerless", "infrastructure/vendor/local"];

/// The provider `builtin:local`.
#[derive(Debug)]
pub struct Local {
    runtime: Arc<LogicalRuntime>,
}

impl Local {
    /// A provider whose clusters `runtime` runs.
    pub fn new(runtime: Arc<LogicalRuntime>) -> Self {
        Local { runtime }
    }
}

#[async_trait]
impl Provider for Local {
    fn package(&self) -> &'static str {
        LOCAL
    }

    fn finalizer(&self) -> &'static str {
        "local.cluster.openmcp.cloud/plane"
    }

    fn offers(&self, configs: &[Config]) -> Offers {
        let offer = |config: &Config| OfferedProfile {
            name: config.name.clone(),
            config: config.name.clone(),
            versions: versions::offered(),
            traits: TRAITS.map(str::to_owned).to_vec(),
            max_clusters: None,
            oidc: None,
        };
        Offers { profiles: configs.iter().map(offer).collect(), ..Offers::default() }
    }

    async fn ensure(&self, order: &Order) -> Result<Health, ProviderError> {
        let version = match versions::chosen(&order.version) {
            Ok(version) => version,
            // One that is there goes on, whatever is offered by now.
            Err(_) if !matches!(self.runtime.observe(order).await?, Health::Progressing { .. }) => {
                order.version.clone()
            }
            Err(message) => {
                return Ok(Health::Unhealthy { reason: ClusterConditionReason::VersionNotOffered, message });
            }
        };
        self.runtime.ensure(&Order { version, ..order.clone() }).await
    }

    async fn observe(&self, order: &Order) -> Result<Health, ProviderError> {
        self.runtime.observe(order).await
    }

    async fn remove(&self, order: &Order) -> Result<Removal, ProviderError> {
        self.runtime.remove(order).await
    }

    fn keeps_prefixes(&self) -> bool {
        true
    }

    async fn admin_access(&self, order: &Order) -> Result<AdminAccess, ProviderError> {
        self.runtime.admin_access(order).await
    }
}
