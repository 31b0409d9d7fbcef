//! The check of `/readyz` that is about the controllers.

use std::sync::{Arc, PoisonError, RwLock};

use allotment_apiserver::ReadinessCheck;
use allotment_controllers::Controllers;
use async_trait::async_trait;

/// Whether the controllers have seen everything once.
#[derive(Debug, Default)]
pub(crate) struct ControllersSynced {
    controllers: RwLock<Option<Arc<Controllers>>>,
}

impl ControllersSynced {
    /// None run for the moment.
    pub(crate) fn clear_controllers(&self) {
        *self.controllers.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The controllers have been started.
    pub(crate) fn set_controllers(&self, controllers: Arc<Controllers>) {
        *self.controllers.write().unwrap_or_else(PoisonError::into_inner) = Some(controllers);
    }
}

#[async_trait]
impl ReadinessCheck for ControllersSynced {
    fn name(&self) -> &str {
        "controllers"
    }

    async fn check(&self) -> Result<(), String> {
        match &*self.controllers.read().unwrap_or_else(PoisonError::into_inner) {
            Some(controllers) if controllers.is_synced() => Ok(()),
            Some(_) => Err("not every kind has been listed yet".to_owned()),
            None => Err("none run at the moment".to_owned()),
        }
    }
}
