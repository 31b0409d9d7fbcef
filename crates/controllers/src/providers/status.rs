//! ClusterProviders: carries out what `allotment_core::providers` decides, for those of this process.

use std::sync::Arc;

use allotment_api::requests::{NameRef, Profile, SupportedTrait, SupportedVersion};
use allotment_core::providers::{
    Package, PackageRef, ProviderObserved, ProviderPlan, Readiness, Refusal, decide_provider, outside_group,
};
use async_trait::async_trait;
use kube::Client;

use super::{Config, Directory, OfferedProfile};
use crate::frame::{Next, ObjectKey, Reconcile, ReconcileError, Seams, execute};
use crate::world::World;

const MANAGER: &str = "allot-providers";
/// Steps of one pass: a new ClusterProvider takes two.
const MOST_STEPS: usize = 8;

/// The controller of ClusterProviders.
pub struct Providers {
    client: Client,
    world: Arc<World>,
    directory: Arc<Directory>,
    seams: Seams,
}

impl Providers {
    /// A controller for the providers of this process.
    pub fn new(client: Client, world: Arc<World>, directory: Arc<Directory>, seams: Seams) -> Self {
        Providers { client, world, directory, seams }
    }

    /// The ProviderConfigs that refer to the provider, in order.
    fn configs(&self, package: &str, provider: &str) -> Vec<Config> {
        self.world.read().configs_of(package, provider)
    }

    fn refuse(&self, provider: &str, package: &str) -> Refusal {
        let read = PackageRef::parse(package);
        match outside_group(provider, read, &self.directory.packages()) {
            Err(refusal) => refusal,
            Ok(_) if matches!(read, PackageRef::Image(_)) => Refusal::needs_kubernetes(package),
            Ok(_) => Refusal::no_folder(package),
        }
    }

    fn decide(&self, key: &ObjectKey, readiness: &Readiness) -> Option<ProviderPlan> {
        let provider = self.world.read().providers.get(key).cloned()?;
        let package = match self.directory.by_package(&provider.spec.package) {
            Some(built_in) => {
                let offers = built_in.offers(&self.configs(built_in.package(), &key.name));
                if !offers.settled {
                    return None;
                }
                let profiles = offers.profiles.into_iter().map(publish).collect();
                Package::BuiltIn { readiness: readiness.clone(), profiles, unusable: offers.unusable }
            }
            None => Package::Refused(self.refuse(&key.name, &provider.spec.package)),
        };
        let clusters: Vec<ObjectKey> = self.world.read().snapshot.clusters_of_provider(&key.name).cloned().collect();
        let now = self.seams.now();
        Some(decide_provider(&ProviderObserved { provider: &provider, package, clusters: &clusters, now }))
    }
}

fn publish(offer: OfferedProfile) -> Profile {
    let version =
        |offer: super::OfferedVersion| SupportedVersion { version: offer.version, deprecated: offer.deprecated };
    Profile {
        name: offer.name,
        provider_config_ref: Some(NameRef { name: offer.config }),
        supported_versions: offer.versions.into_iter().map(version).collect(),
        supported_traits: offer
            .traits
            .into_iter()
            .map(|name| SupportedTrait { trait_: Some(name), name: None })
            .collect(),
        max_clusters: offer.max_clusters,
        ..Profile::default()
    }
}

#[async_trait]
impl Reconcile for Providers {
    fn name(&self) -> &'static str {
        "clusterproviders"
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let package = self.world.read().providers.get(key).map(|found| found.spec.package.clone());
        let built_in = package.and_then(|package| self.directory.by_package(&package));
        let (readiness, again) = match built_in {
            Some(built_in) => built_in.readiness().await,
            None => (Readiness::Ready, None),
        };
        for _ in 0..MOST_STEPS {
            let Some(plan) = self.decide(key, &readiness) else { return Ok(Next::Change) };
            let Some(write) = plan.write() else { break };
            if let Some(written) = execute(&self.client, MANAGER, write).await? {
                self.world.took(written);
            }
            if matches!(plan, ProviderPlan::RemoveFinalizer(_)) {
                break;
            }
        }
        Ok(again.map_or(Next::Change, Next::After))
    }
}
