//! The scheduler: from a ClusterRequest to room on a Cluster, a Grant and an answer.
//!
//! # Guarantees
//! The writes that choose or make a Cluster are decided one request after another, each on what the one before left
//! behind, and those that only join others are carried out together; all other writes run side by side. Another instance
//! at the same time is met by compare-and-swap. Whose write is refused holds nobody else up.

mod line;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use allotment_core::requests::{Plan, decide_request, proposals};
use allotment_core::write::Write;
use async_trait::async_trait;
use futures::future::join_all;
use kube::Client;

use crate::frame::{Next, ObjectKey, Reconcile, ReconcileError, Seams, execute};
use crate::world::World;
use line::Line;

const MANAGER: &str = "allot-scheduler";
/// Writes of one pass. A request that makes its own Cluster takes seven; more means that something
/// flaps, and others are let in between.
const MOST_STEPS: usize = 16;

/// Held while a Cluster is chosen or made, so that each choice sees what the one before it left behind.
pub(crate) type Choosing = Arc<tokio::sync::Mutex<()>>;

/// The controller of ClusterRequests.
pub(crate) struct Scheduler {
    client: Client,
    world: Arc<World>,
    seams: Seams,
    choosing: Choosing,
    line: Line,
}

impl Scheduler {
    /// A scheduler over that API.
    pub(crate) fn new(client: Client, world: Arc<World>, seams: Seams, choosing: Choosing) -> Self {
        Scheduler { client, world, seams, choosing, line: Line::default() }
    }

    fn decide(&self, key: &ObjectKey) -> Plan {
        let mut texts = proposals(self.seams.entropy.as_ref());
        decide_request(&self.world.read().snapshot, key, self.seams.now(), &mut texts)
    }

    /// Carries a write out; false if its effect is known only once the watch tells of it.
    async fn write(&self, write: &Write) -> Result<bool, ReconcileError> {
        let written = execute(&self.client, MANAGER, write).await?;
        let seen = written.is_some();
        if let Some(written) = written {
            self.world.took(written);
        }
        Ok(seen)
    }

    /// Does all writes that choose or make a Cluster for a request, with nobody else choosing meanwhile; and on the way
    /// the same for all that wait for their turn.
    async fn choose(&self, key: &ObjectKey) -> Result<(), ReconcileError> {
        let _place = self.line.enter(key);
        let _choosing = self.choosing.lock().await;
        let mut failed = BTreeSet::new();
        for _ in 0..MOST_STEPS {
            // Decided anew each time: those before may have changed the answer, or done this one's writes.
            if !self.decide(key).chooses() {
                return Ok(());
            }
            let mut texts = proposals(self.seams.entropy.as_ref());
            let steps = self.world.choose(self.line.served_with(key), &failed, self.seams.now(), &mut texts);
            if steps.is_empty() {
                return Ok(());
            }
            let written = join_all(steps.iter().map(|step| self.write(step.write()))).await;
            let mut own = Ok(true);
            for (step, written) in steps.iter().zip(written) {
                match written {
                    Ok(true) => {}
                    written if step.requests().contains(key) => own = written,
                    // It finds out in its own turn. Until then the others go on without it, since the same write again
                    // would most likely have the same end.
                    Ok(false) | Err(_) => {
                        step.requests().iter().for_each(|request| self.line.leave_out(request));
                        failed.extend(step.requests().iter().cloned());
                    }
                }
            }
            if !own? {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn pass(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        for _ in 0..MOST_STEPS {
            let plan = self.decide(key);
            match (&plan, plan.write()) {
                (_, Some(_)) if plan.chooses() => self.choose(key).await?,
                (plan, Some(write)) => {
                    if !self.write(write).await? || matches!(plan, Plan::RemoveFinalizer(_)) {
                        return Ok(Next::Change);
                    }
                }
                (Plan::Done { again: Some(at) }, None) => return Ok(Next::After(self.seams.until(*at))),
                (_, None) => return Ok(Next::Change),
            }
        }
        Ok(Next::After(Duration::from_millis(1)))
    }
}

#[async_trait]
impl Reconcile for Scheduler {
    fn name(&self) -> &'static str {
        "clusterrequests"
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let done = self.pass(key).await;
        if done.as_ref().is_err_and(ReconcileError::is_refusal) {
            self.world.was_refused(key);
        }
        done
    }
}

#[cfg(test)]
mod tests;
