//! Providers of other processes: what the platform makes for them, who runs them, and whether they live. What they are and may
//! do is decided in `allotment_core::providers`.
//!
//! # Flow
//! `Outside::serve` makes a ClusterProvider's identity (rights follow the Secrets that its ProviderConfigs name and that say so themselves), then has its
//! package run by the [`Runner`]. `Outside::remove` ends the process first, then takes its rights, and its Lease last: while
//! that is there, there may be something to take away.

mod configs;
mod consents;
mod deployment;
mod desk;
pub(crate) mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allotment_api::names::{READ_BY, SYSTEM_NAMESPACE, provider_object};
use allotment_api::reasons::EventReason;
use allotment_api::requests::{AccessBy, Cluster, ClusterProvider};
use allotment_core::providers::{Heartbeat, OutsideIdentity, PackageRef, Refusal, Removal, Run, outside_group};
use async_trait::async_trait;
use kube::{Client, ResourceExt};
use serde_json::Value;
use tracing::debug;

use super::{AdminAccess, ProviderError};
use crate::frame::{ObjectKey, ReconcileError, Seams, Tasks, chain, warn_of};
use crate::world::World;
use configs::FollowedConfigs;
use consents::{Consents, Readable};
pub use deployment::Deployments;
use desk::Desk;

/// Secrets that one Event names.
const MOST_TOLD: usize = 8;

/// What is to run for a ClusterProvider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOrder {
    /// The ClusterProvider's name.
    pub provider: String,
    /// Its `spec.package`.
    pub package: String,
    /// The Secrets in `allot-system` by which its image is pulled.
    pub pull_secrets: Vec<String>,
}

/// Called with the name of a ClusterProvider whose process does otherwise than before.
pub type Told = Arc<dyn Fn(&str) + Send + Sync>;

/// Why a package could not be run or ended, whose turn it was not.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} the process of ClusterProvider {provider}")]
pub struct RunnerError {
    /// `start`, `stop`
    pub what: &'static str,
    /// The ClusterProvider.
    pub provider: String,
    /// What went wrong.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Who runs packages outside this process. Every method can be called again at any time.
#[async_trait]
pub trait Runner: Debug + Send + Sync + 'static {
    /// Whether that package may run here, as of now.
    ///
    /// # Errors
    /// It may not; says why and what to do.
    fn admit(&self, package: PackageRef<'_>) -> Result<(), Refusal>;

    /// Whom to tell when a process begins, fails or ends.
    fn tell(&self, told: Told);

    /// Has it run, and says how it does.
    async fn ensure(&self, order: &RunOrder) -> Result<Run, RunnerError>;

    /// Ends what runs for that ClusterProvider. What it kept stays, for when it runs again.
    async fn end(&self, provider: &str) -> Result<Removal, RunnerError>;

    /// Takes away what was kept for a ClusterProvider that is gone, after it ended.
    async fn forget(&self, provider: &str) -> Result<(), RunnerError>;
}

/// Runs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

#[async_trait]
impl Runner for Nowhere {
    fn admit(&self, package: PackageRef<'_>) -> Result<(), Refusal> {
        Err(match package {
            PackageRef::Image(image) => Refusal::needs_kubernetes(image),
            PackageRef::Executable(path) | PackageRef::BuiltIn(path) => Refusal::no_folder(path),
        })
    }

    fn tell(&self, _told: Told) {}

    async fn ensure(&self, _order: &RunOrder) -> Result<Run, RunnerError> {
        Ok(Run::Running)
    }

    async fn end(&self, _provider: &str) -> Result<Removal, RunnerError> {
        Ok(Removal::Gone)
    }

    async fn forget(&self, _provider: &str) -> Result<(), RunnerError> {
        Ok(())
    }
}

/// The providers of other processes.
pub struct Outside {
    client: Client,
    world: Arc<World>,
    seams: Seams,
    runner: Arc<dyn Runner>,
    configs: FollowedConfigs,
    consents: Consents,
    desk: Arc<Desk>,
    /// What was applied for each ClusterProvider since this process began.
    applied: Mutex<BTreeMap<String, Vec<Value>>>,
    /// The Secrets that were told of last, which a ClusterProvider may not read.
    closed: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

impl Debug for Outside {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Outside").field("runner", &self.runner).finish_non_exhaustive()
    }
}

impl Outside {
    /// Providers that `runner` runs. What they are asked for and what they answer is followed in `tasks`.
    pub(crate) fn new(
        tasks: &Tasks,
        client: Client,
        world: Arc<World>,
        seams: Seams,
        runner: Arc<dyn Runner>,
    ) -> Arc<Self> {
        let queue = world.queues.providers.clone();
        runner.tell(Arc::new(move |provider: &str| queue.add(ObjectKey::cluster_wide(provider))));
        let desk = Arc::new(Desk::new(client.clone(), seams.clone()));
        tasks.spawn(desk.clone().keep());
        let configs = FollowedConfigs::new(tasks.clone(), client.clone(), world.queues.providers.clone());
        let consents = Consents::new(tasks.clone(), client.clone(), world.queues.providers.clone());
        let (applied, closed) = (Mutex::default(), Mutex::default());
        Arc::new(Outside { client, world, seams, runner, configs, consents, desk, applied, closed })
    }

    fn applied(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Value>>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The API group of a ClusterProvider whose package runs outside this process.
    pub(crate) fn admit(&self, provider: &str, package: &str, built_in: &[&str]) -> Result<String, Refusal> {
        let read = PackageRef::parse(package);
        let group = outside_group(provider, read, built_in)?;
        self.runner.admit(read)?;
        Ok(group)
    }

    /// What the Lease of that ClusterProvider says.
    pub(crate) fn heartbeat(&self, provider: &str) -> Heartbeat {
        let lease = self.world.read().lease_of(provider);
        Heartbeat::read(lease.as_ref().and_then(|lease| lease.spec.as_ref()), self.seams.now())
    }

    /// Whether there is, or may be, anything outside that was made for that ClusterProvider.
    pub(crate) fn is_there(&self, provider: &str) -> bool {
        self.world.read().lease_of(provider).is_some() || self.applied().contains_key(provider)
    }

    /// Makes the identity of a ClusterProvider as far as it is not there, and has its package run.
    pub(crate) async fn serve(&self, provider: &ClusterProvider, group: String) -> Result<Run, ReconcileError> {
        let name = provider.name_any();
        let lease_is_there = self.world.read().lease_of(&name).is_some();
        let followed = self.configs.follow(&name, &group);
        let configs_are_known = followed.is_some();
        let Readable { open: secrets, closed, known } = self.consents.judge(&name, followed.unwrap_or_default());
        let is_known = configs_are_known && known;
        self.tell_of_closed(provider, closed).await;
        let profiles = provider.status.iter().flat_map(|status| &status.profiles);
        let fulfils_access = profiles.into_iter().any(|profile| profile.access_by == Some(AccessBy::Provider));
        let mut wanted = OutsideIdentity { provider: name.clone(), group, secrets, fulfils_access }.objects();
        if lease_is_there && !is_known {
            // It may run since before this process began: the Secrets that it was let to stay its until it is known which.
            wanted.retain(|object| !(object["kind"] == "Role" && object["metadata"]["namespace"] == SYSTEM_NAMESPACE));
        }
        let as_applied = self.applied().get(&name) == Some(&wanted);
        if !(as_applied && lease_is_there) {
            for object in &wanted {
                objects::apply(&self.client, object).await?;
            }
            self.applied().insert(name.clone(), wanted);
        }
        let pull_secrets = provider.spec.package_pull_secret.iter().map(|secret| secret.name.clone()).collect();
        let order = RunOrder { provider: name, package: provider.spec.package.clone(), pull_secrets };
        let run = self.runner.ensure(&order).await?;
        if matches!(run, Run::Failed { .. }) {
            // It may be its identity that somebody took away: by the next pass all of it is made again.
            self.applied().remove(&order.provider);
        }
        Ok(run)
    }

    /// Ends a ClusterProvider's process, and leaves all else of it: it may run again.
    pub(crate) async fn halt(&self, provider: &str) -> Result<Removal, ReconcileError> {
        Ok(self.runner.end(provider).await?)
    }

    /// Tells operators once of Secrets that they named in ProviderConfigs and that the provider may not read.
    async fn tell_of_closed(&self, provider: &ClusterProvider, closed: BTreeSet<String>) {
        let name = provider.name_any();
        let before = {
            let mut told = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
            if closed.is_empty() { told.remove(&name) } else { told.insert(name.clone(), closed.clone()) }
        };
        let before = before.unwrap_or_default();
        let Some(secret) = closed.iter().find(|secret| !before.contains(*secret)) else { return };
        let all: Vec<&str> = closed.iter().map(String::as_str).take(MOST_TOLD).collect();
        let text = format!(
            "its ProviderConfigs name Secrets in {SYSTEM_NAMESPACE} that do not say that it may read them: {}; let it by \
             kubectl label secret {secret} -n {SYSTEM_NAMESPACE} {READ_BY}={name}, one ClusterProvider for each Secret",
            all.join(", ")
        );
        let told = warn_of(&self.client, &self.seams, provider, EventReason::SecretNotShared, &text).await;
        if let Err(error) = told {
            debug!(error = %chain(&error), provider = name, "cannot tell of Secrets that it may not read");
        }
    }

    /// Ends a ClusterProvider's process, and takes away what was made for it; where it is `gone` for good, what it kept too.
    pub(crate) async fn remove(&self, provider: &str, gone: bool) -> Result<Removal, ReconcileError> {
        if self.runner.end(provider).await? == Removal::Going {
            return Ok(Removal::Going);
        }
        if gone {
            self.runner.forget(provider).await?;
        }
        self.configs.forget(provider);
        self.desk.forget(provider);
        let identity = OutsideIdentity {
            provider: provider.to_owned(),
            group: String::new(),
            secrets: Default::default(),
            fulfils_access: false,
        };
        // The Lease comes first when it is made, and goes last: while it is there, there may be others. The rights go before
        // what they are about, so what the provider put on that to keep it is not put there again.
        let objects = identity.objects();
        let Some((lease, others)) = objects.split_first() else { return Ok(Removal::Gone) };
        let mut left = false;
        for object in others.iter().rev() {
            left |= !objects::take_away(&self.client, object).await?;
        }
        if left || !objects::take_away(&self.client, lease).await? {
            return Ok(Removal::Going);
        }
        self.applied().remove(provider);
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).remove(provider);
        Ok(Removal::Gone)
    }

    /// Admin rights on a Cluster of a provider of another process.
    pub(crate) async fn admin_access(&self, cluster: &Cluster) -> Result<AdminAccess, ProviderError> {
        let provider = &cluster.spec.cluster_provider_ref.name;
        let alive = self.heartbeat(provider).is_alive();
        self.desk.ask(provider, &cluster.uid().unwrap_or_default(), alive).await
    }
}

/// The ClusterProvider whose heartbeat the Lease of that name is.
pub(crate) fn provider_of_lease(lease: &str) -> Option<&str> {
    let name = lease.strip_prefix("provider-")?;
    (provider_object(name) == lease).then_some(name)
}
