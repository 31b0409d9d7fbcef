//! The scheduler: from a ClusterRequest to room on a Cluster, a Grant and an answer.
//!
//! # Guarantees
//! The writes that choose or make a Cluster are done one request after another, each decided on what the
//! one before left behind; all others run side by side. Another instance at the same time is met by
//! compare-and-swap.

use std::sync::Arc;
use std::time::Duration;

use allotment_core::requests::{Plan, decide_request, proposals};
use async_trait::async_trait;
use kube::Client;
use tokio::sync::Mutex;

use crate::frame::{Next, ObjectKey, Reconcile, ReconcileError, Seams, execute};
use crate::world::World;

const MANAGER: &str = "allot-scheduler";
/// Writes of one pass. A request that makes its own Cluster takes seven; more means that something
/// flaps, and others are let in between.
const MOST_STEPS: usize = 16;

/// Held while a Cluster is chosen or made, so that each choice sees what the one before it left behind.
pub(crate) type Choosing = Arc<Mutex<()>>;

/// The controller of ClusterRequests.
pub(crate) struct Scheduler {
    client: Client,
    world: Arc<World>,
    seams: Seams,
    choosing: Choosing,
}

impl Scheduler {
    /// A scheduler over that API.
    pub(crate) fn new(client: Client, world: Arc<World>, seams: Seams, choosing: Choosing) -> Self {
        Scheduler { client, world, seams, choosing }
    }

    fn decide(&self, key: &ObjectKey) -> Plan {
        let mut texts = proposals(self.seams.entropy.as_ref());
        decide_request(&self.world.read().snapshot, key, self.seams.now(), &mut texts)
    }

    /// Carries the write of a plan out; false if its effect is known only once the watch tells of it.
    async fn write(&self, plan: &Plan) -> Result<bool, ReconcileError> {
        let Some(write) = plan.write() else { return Ok(true) };
        let written = execute(&self.client, MANAGER, write).await?;
        let seen = written.is_some();
        if let Some(written) = written {
            self.world.took(written);
        }
        Ok(seen)
    }

    /// Does all writes that choose or make a Cluster, with nobody else choosing meanwhile.
    async fn choose(&self, key: &ObjectKey) -> Result<(), ReconcileError> {
        let _choosing = self.choosing.lock().await;
        for _ in 0..MOST_STEPS {
            // Decided anew, since the request before this one may have changed the answer.
            let plan = self.decide(key);
            if !chooses(&plan) || !self.write(&plan).await? {
                break;
            }
        }
        Ok(())
    }
}

/// Whether the plan chooses or makes a Cluster.
fn chooses(plan: &Plan) -> bool {
    match plan {
        Plan::RecordClusterName(_) | Plan::CreateCluster { .. } | Plan::TakeRoom { .. } => true,
        Plan::Done { .. }
        | Plan::AddFinalizer(_)
        | Plan::CreateGrant { .. }
        | Plan::RecordBinding(_)
        | Plan::DeleteGrant(_)
        | Plan::ReleaseRoom { .. }
        | Plan::RemoveFinalizer(_)
        | Plan::WriteGrantStatus(_)
        | Plan::WriteStatus(_) => false,
    }
}

#[async_trait]
impl Reconcile for Scheduler {
    fn name(&self) -> &'static str {
        "clusterrequests"
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        for _ in 0..MOST_STEPS {
            let plan = self.decide(key);
            if let Plan::Done { again } = plan {
                return Ok(again.map_or(Next::Change, |at| Next::After(self.seams.until(at))));
            }
            if chooses(&plan) {
                self.choose(key).await?;
            } else if !self.write(&plan).await? || matches!(plan, Plan::RemoveFinalizer(_)) {
                return Ok(Next::Change);
            }
        }
        Ok(Next::After(Duration::from_millis(1)))
    }
}
