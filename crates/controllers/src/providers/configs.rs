//! ProviderConfigs: has what they stand for looked at, and wakes whom it concerns when that changed.

use std::sync::Arc;

use async_trait::async_trait;

use super::Directory;
use crate::frame::{Lane, Next, ObjectKey, Reconcile, ReconcileError};
use crate::world::World;

/// The controller of ProviderConfigs. Its keys are packages, as namespaces, and names.
pub(crate) struct Configs {
    world: Arc<World>,
    directory: Arc<Directory>,
}

impl Configs {
    /// A controller for the providers of that directory.
    pub(crate) fn new(world: Arc<World>, directory: Arc<Directory>) -> Self {
        Configs { world, directory }
    }
}

#[async_trait]
impl Reconcile for Configs {
    fn name(&self) -> &'static str {
        "providerconfigs"
    }

    fn lane(&self, key: &ObjectKey) -> Option<Lane> {
        let provider = self.directory.by_package(&key.namespace)?;
        let of = || self.world.read().config(&key.namespace, &key.name).map(|config| config.provider);
        provider.is_remote().then(|| Lane::new(of().unwrap_or_default(), key.to_string()))
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let Some(provider) = self.directory.by_package(&key.namespace) else { return Ok(Next::Change) };
        let Some(config) = self.world.read().config(&key.namespace, &key.name) else {
            provider.forget(&key.name);
            return Ok(Next::Change);
        };
        let looked = provider.look(&config).await?;
        if looked.changed {
            self.world.config_changed(&config);
        }
        Ok(looked.again.map_or(Next::Change, Next::After))
    }
}
