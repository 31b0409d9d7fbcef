//! A provider's part of a Cluster: make it, say how it does, take it away. For providers of this process.

use std::sync::Arc;
use std::time::Duration;

use allotment_api::names::CLUSTER_FINALIZER;
use allotment_api::reasons::{ClusterConditionReason, ConditionType};
use allotment_api::requests::{Cluster, ClusterPhase, KubernetesVersion};
use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client, Resource, ResourceExt};

use crate::frame::{Next, ObjectKey, Reconcile, ReconcileError, Seams, Writer, conditions};
use crate::providers::{Directory, Health, Order, Provider, Removal};
use crate::world::World;

const WRITER: Writer = Writer::new("allot-planes");
/// When to ask again for a cluster that is being made or removed by something that does not tell.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The controller of the providers' part of Clusters.
pub(crate) struct Planes {
    client: Client,
    world: Arc<World>,
    directory: Arc<Directory>,
    seams: Seams,
}

impl Planes {
    /// A controller for the providers of that directory.
    pub(crate) fn new(client: Client, world: Arc<World>, directory: Arc<Directory>, seams: Seams) -> Self {
        Planes { client, world, directory, seams }
    }

    fn api(&self, cluster: &Cluster) -> Api<Cluster> {
        Api::namespaced(self.client.clone(), &cluster.namespace().unwrap_or_default())
    }

    async fn update(&self, before: &Cluster, after: &Cluster) -> Result<(), ReconcileError> {
        if let Some(written) = WRITER.update(&self.api(before), before, after).await? {
            self.world.written(written);
        }
        Ok(())
    }

    /// Takes the cluster away once the platform has let it go, and then the provider's finalizer.
    async fn remove(&self, cluster: &Cluster, provider: &dyn Provider) -> Result<Next, ReconcileError> {
        match provider.remove(&Order::of(cluster)).await? {
            Removal::Going => Ok(Next::After(ASK_AGAIN)),
            Removal::Gone => {
                let mut after = cluster.clone();
                after.finalizers_mut().retain(|finalizer| finalizer != provider.finalizer());
                self.update(cluster, &after).await?;
                Ok(Next::Change)
            }
        }
    }

    /// Brings the cluster nearer to what is ordered, and says how it does.
    async fn serve(&self, cluster: &Cluster, provider: &dyn Provider) -> Result<Next, ReconcileError> {
        let order = Order::of(cluster);
        let health = provider.ensure(&order).await?;
        self.write_status(cluster, &health).await?;
        let waiting = matches!(health, Health::Progressing { .. }) && !order.going;
        Ok(if waiting { Next::After(ASK_AGAIN) } else { Next::Change })
    }

    async fn write_status(&self, cluster: &Cluster, health: &Health) -> Result<(), ReconcileError> {
        let now = self.seams.now();
        let mut after = cluster.clone();
        let generation = cluster.meta().generation;
        let status = after.status.get_or_insert_default();
        let (truth, reason, message, phase) = match health {
            Health::Healthy { .. } => {
                let message = "the control plane answers".to_owned();
                ("True", ClusterConditionReason::AllGood.as_str(), message, ClusterPhase::Succeeded)
            }
            Health::Progressing { message } => {
                let reason = ClusterConditionReason::NotReported.as_str();
                ("False", reason, message.clone(), ClusterPhase::Progressing)
            }
            Health::Unhealthy { reason, message } => ("False", *reason, message.clone(), ClusterPhase::Failed),
        };
        let type_ = ConditionType::ClusterHealthy.as_str();
        let desired = conditions::Desired { type_, status: truth, reason, message };
        conditions::set(&mut status.conditions, desired, generation, now);
        let going = cluster.meta().deletion_timestamp.is_some();
        status.phase = Some(if going { ClusterPhase::Deleting } else { phase });
        if let Health::Healthy { version } = health {
            status.kubernetes = Some(KubernetesVersion { version: Some(version.clone()) });
        }
        if after.status == cluster.status {
            return Ok(());
        }
        after.status.get_or_insert_default().last_reconcile_time = Some(Time(now));
        if let Some(written) = WRITER.update_status(&self.api(cluster), cluster, &after).await? {
            self.world.written(written);
        }
        Ok(())
    }
}

#[async_trait]
impl Reconcile for Planes {
    fn name(&self) -> &'static str {
        "planes"
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let Some(cluster) = self.world.read().clusters.get(key).cloned() else { return Ok(Next::Change) };
        let Some(provider) = self.directory.of_cluster(&self.world, &cluster) else { return Ok(Next::Change) };
        if cluster.meta().deletion_timestamp.is_some() {
            let has = |name: &str| cluster.finalizers().iter().any(|finalizer| finalizer == name);
            return match (has(provider.finalizer()), has(CLUSTER_FINALIZER)) {
                (false, _) => Ok(Next::Change),
                (true, false) => self.remove(&cluster, provider.as_ref()).await,
                // Somebody uses it still, and the deletion waits for them.
                (true, true) => self.serve(&cluster, provider.as_ref()).await,
            };
        }
        let mut current = cluster;
        if !current.finalizers().iter().any(|finalizer| finalizer == provider.finalizer()) {
            let mut after = Cluster::clone(&current);
            after.finalizers_mut().push(provider.finalizer().to_owned());
            self.update(&current, &after).await?;
            // What follows is decided on what is there now; a deletion may have come in between.
            match self.world.read().clusters.get(key).cloned() {
                Some(now) if now.meta().deletion_timestamp.is_none() => current = now,
                _ => return Ok(Next::Change),
            }
        }
        self.serve(&current, provider.as_ref()).await
    }
}
