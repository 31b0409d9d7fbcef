//! ClusterProviders: whether they can be used, and the profiles that those of this process offer.

use std::sync::Arc;

use allotment_api::names::PROVIDER_FINALIZER;
use allotment_api::reasons::{ConditionType, ProviderReason};
use allotment_api::requests::{
    ClusterProvider, ClusterProviderStatus, NameRef, Profile, SupportedTrait, SupportedVersion,
};
use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client, Resource, ResourceExt};

use super::{Directory, OfferedProfile};
use crate::frame::{Next, ObjectKey, Reconcile, ReconcileError, Seams, Writer, conditions};
use crate::world::World;

const WRITER: Writer = Writer::new("allot-providers");

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

    /// The names of the ProviderConfigs that refer to the provider, in order.
    fn configs(&self, provider: &str) -> Vec<String> {
        let state = self.world.read();
        let of_it = state
            .configs
            .iter()
            .filter(|(_, config)| config.spec.provider_ref == provider && config.metadata.deletion_timestamp.is_none());
        of_it.map(|(key, _)| key.name.clone()).collect()
    }

    fn has_clusters(&self, provider: &str) -> bool {
        let state = self.world.read();
        state.clusters.iter().any(|(_, cluster)| cluster.spec.cluster_provider_ref.name == provider)
    }

    async fn update(&self, before: &ClusterProvider, after: &ClusterProvider) -> Result<(), ReconcileError> {
        let api = Api::<ClusterProvider>::all(self.client.clone());
        if let Some(written) = WRITER.update(&api, before, after).await? {
            self.world.written(written);
        }
        Ok(())
    }

    fn desired_status(&self, provider: &ClusterProvider) -> ClusterProviderStatus {
        let mut status = provider.status.clone().unwrap_or_default();
        let (reason, message, profiles) = match self.directory.by_package(&provider.spec.package) {
            Some(built_in) => {
                let profiles = built_in.profiles(&self.configs(&provider.name_any()));
                let message = "The provider is ready.".to_owned();
                (ProviderReason::AllGood, message, profiles.into_iter().map(publish).collect())
            }
            None => {
                let (reason, message) = unusable(&provider.spec.package);
                (reason, message, Vec::new())
            }
        };
        let ready = reason == ProviderReason::AllGood;
        let condition = conditions::Desired {
            type_: ConditionType::ProviderReady.as_str(),
            status: if ready { "True" } else { "False" },
            reason: reason.as_str(),
            message: message.clone(),
        };
        conditions::set(&mut status.conditions, condition, provider.meta().generation, self.seams.now());
        status.ready = ready;
        reason.as_str().clone_into(&mut status.reason);
        status.message = message;
        status.profiles = profiles;
        status.observed_generation = provider.meta().generation;
        status
    }
}

/// Why a package that is not built in cannot run here, and what to do.
fn unusable(package: &str) -> (ProviderReason, String) {
    let looks_like_image = !package.starts_with(['/', '.']) && package.contains('/');
    if package.starts_with("builtin:") {
        let message = format!("spec.package: there is no built-in provider \"{package}\"; there is builtin:local");
        return (ProviderReason::PackageNotAllowed, message);
    }
    if looks_like_image {
        let message = format!(
            "spec.package: \"{package}\" is an image, which needs a platform on Kubernetes; use builtin:local here"
        );
        return (ProviderReason::PackageNeedsKubernetes, message);
    }
    let message = format!("spec.package: \"{package}\" may not run here; use builtin:local");
    (ProviderReason::PackageNotAllowed, message)
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
        ..Profile::default()
    }
}

#[async_trait]
impl Reconcile for Providers {
    fn name(&self) -> &'static str {
        "clusterproviders"
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let Some(provider) = self.world.read().providers.get(key).cloned() else { return Ok(Next::Change) };
        let ours = |finalizer: &String| finalizer == PROVIDER_FINALIZER;
        let held = provider.finalizers().iter().any(ours);
        if provider.meta().deletion_timestamp.is_some() {
            if held && !self.has_clusters(&key.name) {
                let mut after = ClusterProvider::clone(&provider);
                after.finalizers_mut().retain(|finalizer| !ours(finalizer));
                self.update(&provider, &after).await?;
                return Ok(Next::Change);
            }
        } else if !held {
            let mut after = ClusterProvider::clone(&provider);
            after.finalizers_mut().push(PROVIDER_FINALIZER.to_owned());
            self.update(&provider, &after).await?;
            // The status is written by the pass that this write wakes.
            return Ok(Next::Change);
        }
        let mut after = ClusterProvider::clone(&provider);
        after.status = Some(self.desired_status(&provider));
        if after.status != provider.status {
            after.status.get_or_insert_default().last_reconcile_time = Some(Time(self.seams.now()));
            let api = Api::<ClusterProvider>::all(self.client.clone());
            if let Some(written) = WRITER.update_status(&api, &provider, &after).await? {
                self.world.written(written);
            }
        }
        Ok(Next::Change)
    }
}
