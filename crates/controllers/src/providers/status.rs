//! ClusterProviders: carries out what `allotment_core::providers` decides, for those of this process and of others.

use std::sync::Arc;
use std::time::Duration;

use allotment_api::reasons::EventReason;
use allotment_api::requests::{AccessType, ClusterProvider, NameRef, Profile, SupportedTrait, SupportedVersion};
use allotment_core::providers::{
    Package, PackageRef, ProviderObserved, ProviderPlan, Readiness, Refusal, Removal, decide_provider, is_served,
    outside_group,
};
use async_trait::async_trait;
use kube::{Client, ResourceExt};

use super::{Config, Directory, OfferedProfile};
use crate::frame::{Lane, Next, ObjectKey, Reconcile, ReconcileError, Seams, execute, warn_of};
use crate::world::World;

const MANAGER: &str = "allot-providers";
/// Steps of one pass: a new ClusterProvider takes two.
const MOST_STEPS: usize = 8;
/// When to look again at a process that takes its time to end.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

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

    /// What stands behind the package of a ClusterProvider. One that runs elsewhere is served first, so that it is there
    /// to be judged. Absent where that is not known yet.
    async fn observe(
        &self,
        provider: &ClusterProvider,
        readiness: &Readiness,
    ) -> Result<Option<Package>, ReconcileError> {
        let (name, package) = (provider.name_any(), provider.spec.package.as_str());
        if let Some(built_in) = self.directory.by_package(package) {
            let offers = built_in.offers(&self.configs(built_in.package(), &name));
            let profiles = offers.profiles.into_iter().map(publish).collect();
            let package = Package::BuiltIn { readiness: readiness.clone(), profiles, unusable: offers.unusable };
            return Ok(offers.settled.then_some(package));
        }
        let built_in = self.directory.packages();
        let Some(outside) = self.directory.outside() else {
            let refused = outside_group(&name, PackageRef::parse(package), &built_in).err();
            return Ok(Some(Package::Refused(refused.unwrap_or_else(|| Refusal::no_folder(package)))));
        };
        match outside.admit(&name, package, &built_in) {
            Err(refusal) => Ok(Some(Package::Refused(refusal))),
            Ok(group) => {
                let run = outside.serve(provider, group).await?;
                Ok(Some(Package::Outside { heartbeat: outside.heartbeat(&name), run }))
            }
        }
    }

    /// Ends what runs outside for a ClusterProvider that is gone, goes, or runs something else by now. Gives whether it
    /// is gone.
    async fn end_outside(&self, name: &str, gone: bool) -> Result<bool, ReconcileError> {
        match self.directory.outside().filter(|outside| outside.is_there(name)) {
            Some(outside) => Ok(outside.remove(name, gone).await? == Removal::Gone),
            None => Ok(true),
        }
    }

    async fn decide(&self, key: &ObjectKey, readiness: &Readiness) -> Result<Option<ProviderPlan>, ReconcileError> {
        let Some(provider) = self.world.read().providers.get(key).cloned() else { return Ok(None) };
        let clusters: Vec<ObjectKey> = self.world.read().snapshot.clusters_of_provider(&key.name).cloned().collect();
        let package = if is_served(&provider, !clusters.is_empty()) {
            match self.observe(&provider, readiness).await? {
                Some(package) => package,
                None => return Ok(None),
            }
        } else {
            // What is decided next is about the finalizer, whatever the package is.
            Package::BuiltIn { readiness: readiness.clone(), profiles: Vec::new(), unusable: Vec::new() }
        };
        let now = self.seams.now();
        Ok(Some(decide_provider(&ProviderObserved { provider: &provider, package, clusters: &clusters, now })))
    }

    /// Ends what may not go on outside: all of it where nobody wants it any more, the process alone where its package may
    /// not run as things are. Gives whether that is done.
    async fn end_what_may_not_go_on(&self, key: &ObjectKey) -> Result<bool, ReconcileError> {
        let provider = self.world.read().providers.get(key).cloned();
        let Some(provider) = provider else { return self.end_outside(&key.name, true).await };
        let package = provider.spec.package.as_str();
        let Some(outside) = self.directory.outside().filter(|_| self.directory.by_package(package).is_none()) else {
            return self.end_outside(&key.name, false).await;
        };
        match outside.admit(&key.name, package, &self.directory.packages()) {
            Ok(_) => Ok(true),
            Err(refusal) if refusal.keeps() => Ok(outside.halt(&key.name).await? == Removal::Gone),
            Err(_) => self.end_outside(&key.name, false).await,
        }
    }
}

fn publish(offer: OfferedProfile) -> Profile {
    let version =
        |offer: super::OfferedVersion| SupportedVersion { version: offer.version, deprecated: offer.deprecated };
    let types = offer.oidc.as_ref().map(|_| vec![AccessType::Token, AccessType::Oidc]);
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
        access_types: types.unwrap_or_default(),
        oidc: offer.oidc,
        ..Profile::default()
    }
}

#[async_trait]
impl Reconcile for Providers {
    fn name(&self) -> &'static str {
        "clusterproviders"
    }

    /// Whether a provider can work may be asked of a program that takes its time.
    fn lane(&self, key: &ObjectKey) -> Option<Lane> {
        let package = self.world.read().providers.get(key).map(|found| found.spec.package.clone())?;
        let remote = self.directory.by_package(&package).is_some_and(|provider| provider.is_remote());
        remote.then(|| Lane::new(package, key.name.as_str()))
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let package = self.world.read().providers.get(key).map(|found| found.spec.package.clone());
        let built_in = package.and_then(|package| self.directory.by_package(&package));
        let (readiness, again) = match built_in {
            Some(built_in) => built_in.readiness().await,
            None => (Readiness::Ready, None),
        };
        if !self.end_what_may_not_go_on(key).await? {
            return Ok(Next::After(LOOK_AGAIN));
        }
        for _ in 0..MOST_STEPS {
            let Some(plan) = self.decide(key, &readiness).await? else { return Ok(Next::Change) };
            if let ProviderPlan::Done { again: Some(beat) } = plan {
                return Ok(Next::After(again.map_or(beat, |again| again.min(beat))));
            }
            if let ProviderPlan::RemoveFinalizer { told, .. } = &plan {
                if !self.end_outside(&key.name, true).await? {
                    return Ok(Next::After(LOOK_AGAIN));
                }
                let provider = self.world.read().providers.get(key).cloned();
                if let (Some(provider), Some(told)) = (provider, told) {
                    let reason = EventReason::DeletedByForce;
                    warn_of(&self.client, &self.seams, provider.as_ref(), reason, told).await?;
                }
            }
            let Some(write) = plan.write() else { break };
            if let Some(written) = execute(&self.client, MANAGER, write).await? {
                self.world.took(written);
            }
            if matches!(plan, ProviderPlan::RemoveFinalizer { .. }) {
                break;
            }
        }
        Ok(again.map_or(Next::Change, Next::After))
    }
}
