//! A provider's part of a Cluster, for providers of this process: carries out what
//! `allotment_core::providers` decides.

use std::sync::Arc;
use std::time::Duration;

use allotment_core::providers::{Answer, PlaneObserved, PlanePlan, decide_plane};
use allotment_core::write::Write;
use async_trait::async_trait;
use kube::Client;

use crate::frame::{Lane, Next, ObjectKey, Reconcile, ReconcileError, Seams, execute};
use crate::providers::{Directory, Provider};
use crate::world::World;

const MANAGER: &str = "allot-planes";
/// Steps of one pass: a new Cluster takes three. More means that something flaps, and others are let in
/// between.
const MOST_STEPS: usize = 8;

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

    async fn write(&self, write: &Write) -> Result<(), ReconcileError> {
        if let Some(written) = execute(&self.client, MANAGER, write).await? {
            self.world.took(written);
        }
        Ok(())
    }
}

#[async_trait]
impl Reconcile for Planes {
    fn name(&self) -> &'static str {
        "planes"
    }

    fn lane(&self, key: &ObjectKey) -> Option<Lane> {
        self.directory.lane(&self.world, key)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let mut answer = Answer::None;
        for _ in 0..MOST_STEPS {
            // Looked up each time: what follows a write is decided on what is there by then.
            let Some(cluster) = self.world.read().clusters.get(key).cloned() else { return Ok(Next::Change) };
            let Some(provider) = self.directory.of_cluster(&self.world, &cluster) else { return Ok(Next::Change) };
            let order = |provider: &Arc<dyn Provider>| self.directory.order(&self.world, provider.as_ref(), &cluster);
            let (finalizer, now) = (provider.finalizer(), self.seams.now());
            let published = self.world.read().snapshot.publishes_profile_of(&cluster);
            let (remote, answer_now) = (provider.is_remote(), &answer);
            let observed = PlaneObserved { cluster: &cluster, finalizer, published, remote, answer: answer_now, now };
            match decide_plane(&observed) {
                PlanePlan::Done { again } => return Ok(again.map_or(Next::Change, Next::After)),
                PlanePlan::Serve => answer = Answer::Served(provider.ensure(&order(&provider)).await?),
                PlanePlan::Remove => answer = Answer::Removed(provider.remove(&order(&provider)).await?),
                PlanePlan::AddFinalizer(write) | PlanePlan::WriteStatus(write) => self.write(&write).await?,
                PlanePlan::RemoveFinalizer(write) => {
                    self.write(&write).await?;
                    return Ok(Next::Change);
                }
            }
        }
        Ok(Next::After(Duration::from_millis(1)))
    }
}
