//! The spare Clusters of Purposes: makes those that are missing. Those that are too many go as idle Clusters do.

use std::sync::Arc;
use std::time::Duration;

use allotment_core::requests::{PurposePlan, decide_purpose, proposals};
use async_trait::async_trait;
use kube::Client;

use super::Choosing;
use crate::frame::{Next, ObjectKey, Reconcile, ReconcileError, Seams, execute};
use crate::world::World;

const MANAGER: &str = "allot-spares";
/// Writes of one pass, two a spare; requests that wait are let in between.
const MOST_STEPS: usize = 8;

/// The controller of what `warm` of a Purpose asks for.
pub(crate) struct Spares {
    client: Client,
    world: Arc<World>,
    seams: Seams,
    choosing: Choosing,
}

impl Spares {
    /// A controller over that API.
    pub(crate) fn new(client: Client, world: Arc<World>, seams: Seams, choosing: Choosing) -> Self {
        Spares { client, world, seams, choosing }
    }

    fn decide(&self, key: &ObjectKey) -> PurposePlan {
        let mut texts = proposals(self.seams.entropy.as_ref());
        decide_purpose(&self.world.read().snapshot, &key.name, self.seams.now(), &mut texts)
    }
}

#[async_trait]
impl Reconcile for Spares {
    fn name(&self) -> &'static str {
        "purposes"
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        for _ in 0..MOST_STEPS {
            let mut plan = self.decide(key);
            let mut _choosing = None;
            if matches!(plan, PurposePlan::RecordSpareName(_) | PurposePlan::CreateSpare(_)) {
                _choosing = Some(self.choosing.lock().await);
                // Whoever chose before may have changed what is missing.
                plan = self.decide(key);
            }
            let write = match &plan {
                PurposePlan::Done { again } => {
                    return Ok(again.map_or(Next::Change, |at| Next::After(self.seams.until(at))));
                }
                PurposePlan::RecordSpareName(write)
                | PurposePlan::CreateSpare(write)
                | PurposePlan::WriteStatus(write) => write,
            };
            match execute(&self.client, MANAGER, write).await? {
                Some(written) => self.world.took(written),
                None => return Ok(Next::Change),
            }
        }
        Ok(Next::After(Duration::from_millis(1)))
    }
}
