//! Shoots that cannot be read: their owners are told. Nothing else is written of Shoots.

use std::sync::Arc;

use allotment_api::reasons::EventReason;
use allotment_core::catalog::KeptShoot;
use async_trait::async_trait;
use kube::Client;

use super::followed::Followed;
use super::profiles::in_time;
use super::world::CatalogWorld;
use crate::frame::{Next, ObjectKey, Reconcile, ReconcileError, Seams, warn_of};

/// Tells of Shoots that cannot be read.
pub(crate) struct UnreadShoots {
    client: Client,
    world: Arc<CatalogWorld>,
    seams: Seams,
}

impl UnreadShoots {
    /// A controller over that API.
    pub(crate) fn new(client: Client, world: Arc<CatalogWorld>, seams: Seams) -> Self {
        UnreadShoots { client, world, seams }
    }
}

#[async_trait]
impl Reconcile for UnreadShoots {
    fn name(&self) -> &'static str {
        "unread-shoots"
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let shoot = self.world.with(|catalog| catalog.shoot(key).cloned());
        let Some(shoot) = shoot else { return Ok(Next::Change) };
        let Some(unclear) = &shoot.unclear else { return Ok(Next::Change) };
        let told = format!(
            "it cannot be read: {}; until that is put right it counts as using all that it may, which keeps profiles and \
             versions from going",
            unclear.why
        );
        let about = Followed::<KeptShoot>::Read(shoot.clone());
        in_time(warn_of(&self.client, &self.seams, &about, EventReason::Unreadable, &told)).await?;
        Ok(Next::Change)
    }
}
