//! The providers of this process, and which of them a Cluster belongs to; what belongs to none of them is asked of
//! providers outside.

use std::sync::Arc;

use allotment_api::names::is_platform_finalizer;
use allotment_api::requests::Cluster;
use kube::ResourceExt;

use super::{AdminAccess, Nowhere, Order, Outside, Provider, ProviderError, Runner};
use crate::frame::{Lane, ObjectKey};
use crate::world::World;

/// The providers of this process.
#[derive(Debug)]
pub struct Directory {
    providers: Vec<Arc<dyn Provider>>,
    runner: Arc<dyn Runner>,
    /// The providers of other processes, once the controllers run.
    outside: Option<Arc<Outside>>,
}

impl Directory {
    /// A directory of these providers.
    pub fn new(providers: Vec<Arc<dyn Provider>>) -> Self {
        // By its finalizer a Cluster's provider is known, so admission has to keep others from writing it.
        debug_assert!(providers.iter().all(|provider| is_platform_finalizer(provider.finalizer())), "unprotected");
        Directory { providers, runner: Arc::new(Nowhere), outside: None }
    }

    /// The same, with who runs the packages of other processes.
    pub fn with_runner(self, runner: Arc<dyn Runner>) -> Self {
        Directory { runner, ..self }
    }

    /// Who runs the packages of other processes.
    pub(crate) fn runner(&self) -> Arc<dyn Runner> {
        self.runner.clone()
    }

    pub(crate) fn with_outside(self, outside: Arc<Outside>) -> Self {
        Directory { outside: Some(outside), ..self }
    }

    /// The providers of other processes, once the controllers run.
    pub(crate) fn outside(&self) -> Option<&Arc<Outside>> {
        self.outside.as_ref()
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

    /// What `provider` has to know of a Cluster.
    pub fn order(&self, world: &World, provider: &dyn Provider, cluster: &Cluster) -> Order {
        let reference = &cluster.spec.cluster_provider_ref;
        let config = world.read().config(provider.package(), &reference.profile);
        Order::of(cluster, config.filter(|config| config.provider == reference.name))
    }

    /// Whether a Cluster keeps its tenants to their prefixes by itself.
    pub fn keeps_prefixes(&self, world: &World, cluster: &Cluster) -> bool {
        self.of_cluster(world, cluster).is_some_and(|provider| provider.keeps_prefixes())
    }

    /// Admin rights on a Cluster, from whichever provider it belongs to.
    pub async fn admin_access(&self, world: &World, cluster: &Cluster) -> Result<AdminAccess, ProviderError> {
        let absent =
            || ProviderError::Absent { namespace: cluster.namespace().unwrap_or_default(), name: cluster.name_any() };
        match (self.of_cluster(world, cluster), &self.outside) {
            (Some(provider), _) => provider.admin_access(&self.order(world, provider.as_ref(), cluster)).await,
            (None, Some(outside)) => outside.admin_access(cluster).await,
            (None, None) => Err(absent()),
        }
    }

    /// The lane for work on a Cluster, where its provider may be slow.
    pub(crate) fn lane(&self, world: &World, key: &ObjectKey) -> Option<Lane> {
        let cluster = world.read().clusters.get(key).cloned()?;
        let remote = self.of_cluster(world, &cluster).is_none_or(|provider| provider.is_remote());
        let provider = &cluster.spec.cluster_provider_ref.name;
        remote.then(|| Lane::new(provider.as_str(), cluster.uid().unwrap_or_default()))
    }
}
