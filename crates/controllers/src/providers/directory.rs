//! The providers of this process, and which of them a Cluster belongs to.

use std::sync::Arc;

use allotment_api::requests::Cluster;
use kube::ResourceExt;

use super::{AdminAccess, Order, Provider, ProviderError};
use crate::frame::ObjectKey;
use crate::world::World;

/// The providers of this process.
#[derive(Debug, Default)]
pub struct Directory {
    providers: Vec<Arc<dyn Provider>>,
}

impl Directory {
    /// A directory of these providers.
    pub fn new(providers: Vec<Arc<dyn Provider>>) -> Self {
        Directory { providers }
    }

    /// The provider that a package names.
    pub fn by_package(&self, package: &str) -> Option<&Arc<dyn Provider>> {
        self.providers.iter().find(|provider| provider.package() == package)
    }

    /// The packages of this process.
    pub fn packages(&self) -> Vec<&'static str> {
        self.providers.iter().map(|provider| provider.package()).collect()
    }

    /// The provider of a Cluster: the one whose finalizer it bears, since that outlives its
    /// ClusterProvider; else the one that its ClusterProvider's package names.
    pub fn of_cluster(&self, world: &World, cluster: &Cluster) -> Option<Arc<dyn Provider>> {
        let holds = |provider: &&Arc<dyn Provider>| {
            cluster.finalizers().iter().any(|finalizer| finalizer == provider.finalizer())
        };
        if let Some(provider) = self.providers.iter().find(holds) {
            return Some(provider.clone());
        }
        let key = ObjectKey::cluster_wide(cluster.spec.cluster_provider_ref.name.clone());
        let package = world.read().providers.get(&key).map(|found| found.spec.package.clone())?;
        self.by_package(&package).cloned()
    }

    /// Admin rights on a Cluster, from whichever provider it belongs to.
    pub async fn admin_access(&self, world: &World, cluster: &Cluster) -> Result<AdminAccess, ProviderError> {
        let order = Order::of(cluster);
        let absent = || ProviderError::Absent { namespace: order.namespace.clone(), name: order.name.clone() };
        self.of_cluster(world, cluster).ok_or_else(absent)?.admin_access(&order).await
    }
}
