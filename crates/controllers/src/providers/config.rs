//! A ProviderConfig as its provider reads it, whichever kind it is.

use allotment_api::requests::{ExistingConfig, ExistingConfigSpec, KindConfig, KindConfigSpec, ProviderConfig};
use kube::ResourceExt;

/// A ProviderConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name, which is that of the profile.
    pub name: String,
    /// The ClusterProvider that it belongs to.
    pub provider: String,
    /// What it says.
    pub settings: ConfigSettings,
}

/// What a ProviderConfig says, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSettings {
    /// One of `local.cluster.openmcp.cloud`.
    Local,
    /// One of `existing.cluster.openmcp.cloud`.
    Existing(ExistingConfigSpec),
    /// One of `kind.cluster.openmcp.cloud`.
    Kind(KindConfigSpec),
}

/// A kind of ProviderConfigs.
pub trait AsConfig: ResourceExt {
    /// The package of the provider that reads it.
    const PACKAGE: &'static str;

    /// The ClusterProvider that it belongs to.
    fn provider(&self) -> &str;

    /// What it says.
    fn settings(&self) -> ConfigSettings;

    /// The same for its provider; absent for one that is being deleted.
    fn as_config(&self) -> Option<Config> {
        let config =
            || Config { name: self.name_any(), provider: self.provider().to_owned(), settings: self.settings() };
        self.meta().deletion_timestamp.is_none().then(config)
    }
}

impl AsConfig for ProviderConfig {
    const PACKAGE: &'static str = super::LOCAL;

    fn provider(&self) -> &str {
        &self.spec.provider_ref
    }

    fn settings(&self) -> ConfigSettings {
        ConfigSettings::Local
    }
}

impl AsConfig for ExistingConfig {
    const PACKAGE: &'static str = super::EXISTING;

    fn provider(&self) -> &str {
        &self.spec.provider_ref
    }

    fn settings(&self) -> ConfigSettings {
        ConfigSettings::Existing(self.spec.clone())
    }
}

impl AsConfig for KindConfig {
    const PACKAGE: &'static str = super::KIND;

    fn provider(&self) -> &str {
        &self.spec.provider_ref
    }

    fn settings(&self) -> ConfigSettings {
        ConfigSettings::Kind(self.spec.clone())
    }
}
