//! Provider `local`: a Cluster is a logical control plane in this process, there in milliseconds.

mod versions;

use std::sync::Arc;

use async_trait::async_trait;

use super::{AdminAccess, Health, OfferedProfile, Order, Provider, ProviderError, Removal};
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
        "builtin:local"
    }

    fn finalizer(&self) -> &'static str {
        "local.cluster.openmcp.cloud/plane"
    }

    fn profiles(&self, configs: &[String]) -> Vec<OfferedProfile> {
        let offer = |config: &String| OfferedProfile {
            name: config.clone(),
            config: config.clone(),
            versions: versions::offered(),
            traits: TRAITS.map(str::to_owned).to_vec(),
        };
        configs.iter().map(offer).collect()
    }

    async fn ensure(&self, order: &Order) -> Result<Health, ProviderError> {
        self.runtime.ensure(order).await
    }

    async fn observe(&self, order: &Order) -> Result<Health, ProviderError> {
        self.runtime.observe(order).await
    }

    async fn remove(&self, order: &Order) -> Result<Removal, ProviderError> {
        self.runtime.remove(order).await
    }

    async fn admin_access(&self, order: &Order) -> Result<AdminAccess, ProviderError> {
        self.runtime.admin_access(order).await
    }
}
