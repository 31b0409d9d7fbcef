//! What is read of profiles from a server. Private profiles without their status, which holds all that they render to and is a
//! hundred times what they say themselves: it is rendered here.

use std::fmt::Debug;

use allotment_api::catalog::{CloudProfile, PrivateCloudProfile, PrivateCloudProfileSpec};
use allotment_core::catalog::Parent;
use anyhow::anyhow;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::{self, Platform};

/// A PrivateCloudProfile without its status.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = PrivateCloudProfile)]
pub(super) struct PrivateProfile {
    /// Its name and the like.
    #[serde(default)]
    pub(super) metadata: ObjectMeta,
    /// What it adds.
    #[serde(default)]
    pub(super) spec: PrivateCloudProfileSpec,
}

/// One object, by its kind and name in what goes wrong.
pub(super) async fn get<K>(api: Api<K>, kind: &str, name: &str) -> anyhow::Result<K>
where
    K: Clone + Debug + DeserializeOwned,
{
    api.get(name).await.map_err(|error| anyhow!("{kind} {name}: {}", client::explain(&error)))
}

/// A private profile, and the CloudProfile that it adds to.
pub(super) async fn private_with_parent(
    platform: &Platform,
    namespace: &str,
    name: &str,
) -> anyhow::Result<(PrivateProfile, Parent)> {
    let own = Api::<PrivateProfile>::namespaced(platform.client.clone(), namespace);
    let private = own.get(name).await;
    let private =
        private.map_err(|error| anyhow!("PrivateCloudProfile {namespace}/{name}: {}", client::explain(&error)))?;
    let parent = cloud_profile(platform, &private.spec.parent.name).await?;
    Ok((private, parent))
}

/// A CloudProfile, prepared to be rendered over.
pub(super) async fn cloud_profile(platform: &Platform, name: &str) -> anyhow::Result<Parent> {
    let all = Api::<CloudProfile>::all(platform.client.clone());
    Ok(Parent::new(name, get(all, "CloudProfile", name).await?.spec))
}
