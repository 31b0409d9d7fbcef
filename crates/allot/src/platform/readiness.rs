//! The check of `/readyz` that is about the controllers.

use std::sync::{Arc, OnceLock};

use allotment_apiserver::ReadinessCheck;
use allotment_controllers::Controllers;
use async_trait::async_trait;

/// Whether the controllers have seen everything once.
#[derive(Debug, Default)]
pub(super) struct ControllersSynced {
    controllers: OnceLock<Arc<Controllers>>,
}

impl ControllersSynced {
    /// The controllers have been started.
    pub(super) fn set_controllers(&self, controllers: Arc<Controllers>) {
        // Set once, at the start.
        let _ = self.controllers.set(controllers);
    }
}

#[async_trait]
impl ReadinessCheck for ControllersSynced {
    fn name(&self) -> &str {
        "controllers"
    }

    async fn check(&self) -> Result<(), String> {
        match self.controllers.get() {
            Some(controllers) if controllers.is_synced() => Ok(()),
            Some(_) => Err("not every kind has been listed yet".to_owned()),
            None => Err("not started yet".to_owned()),
        }
    }
}
