//! The platform's part of a Cluster: finalizer, what follows its Purposes, idleness, draining, deletion,
//! status.

use std::sync::Arc;
use std::time::Duration;

use allotment_api::reasons::EventReason;
use allotment_api::requests::ClusterRequest;
use allotment_core::requests::{ClusterPlan, ConfirmAbsent, decide_cluster};
use allotment_core::write::Write;
use async_trait::async_trait;
use kube::{Api, Client, ResourceExt};

use crate::frame::{Next, ObjectKey, Reconcile, ReconcileError, Seams, execute, warn_of};
use crate::world::World;

const MANAGER: &str = "allot-clusters";
/// Writes of one pass; more means that something flaps, and others are let in between.
const MOST_STEPS: usize = 16;
/// When to ask again for a request that is still there although the mirror lost it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The controller of the platform's part of Clusters.
pub(crate) struct Lifecycle {
    client: Client,
    world: Arc<World>,
    seams: Seams,
}

impl Lifecycle {
    /// A controller over that API.
    pub(crate) fn new(client: Client, world: Arc<World>, seams: Seams) -> Self {
        Lifecycle { client, world, seams }
    }

    /// Carries the write out; false if its effect is known only once the watch tells of it.
    async fn write(&self, write: &Write) -> Result<bool, ReconcileError> {
        let written = execute(&self.client, MANAGER, write).await?;
        let seen = written.is_some();
        if let Some(written) = written {
            self.world.took(written);
        }
        Ok(seen)
    }

    /// Whether the request is gone, by a read that no cache answers.
    async fn is_absent(&self, confirm: &ConfirmAbsent) -> Result<bool, ReconcileError> {
        let requests = Api::<ClusterRequest>::namespaced(self.client.clone(), &confirm.request.namespace);
        let there = requests.get_opt(&confirm.request.name).await?;
        Ok(there.is_none_or(|request| request.uid().as_deref() != Some(&confirm.uid)))
    }
}

#[async_trait]
impl Reconcile for Lifecycle {
    fn name(&self) -> &'static str {
        "clusters"
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        for _ in 0..MOST_STEPS {
            let plan = decide_cluster(&self.world.read().snapshot, key, self.seams.now());
            let seen = match &plan {
                ClusterPlan::Done { again } => {
                    return Ok(again.map_or(Next::Change, |at| Next::After(self.seams.until(at))));
                }
                ClusterPlan::ReleaseOrphan { confirm, write } => {
                    if !self.is_absent(confirm).await? {
                        return Ok(Next::After(ASK_AGAIN));
                    }
                    self.write(write).await?
                }
                ClusterPlan::Delete(write) => {
                    self.write(write).await?;
                    false
                }
                ClusterPlan::RemoveFinalizer { write, told } => {
                    let cluster = self.world.read().clusters.get(key).cloned();
                    if let (Some(cluster), Some(told)) = (cluster, told) {
                        let reason = EventReason::DeletedByForce;
                        warn_of(&self.client, &self.seams, cluster.as_ref(), reason, told).await?;
                    }
                    self.write(write).await?;
                    false
                }
                ClusterPlan::AddFinalizer(write)
                | ClusterPlan::FollowPurposes(write)
                | ClusterPlan::MarkIdle(write)
                | ClusterPlan::MarkUsed(write)
                | ClusterPlan::MarkDraining(write)
                | ClusterPlan::NoteLost(write)
                | ClusterPlan::WriteStatus(write) => self.write(write).await?,
            };
            if !seen {
                return Ok(Next::Change);
            }
        }
        Ok(Next::After(Duration::from_millis(1)))
    }
}
