//! The kinds of the catalog, group `core.gardener.cloud`: one file per kind.
//!
//! Large lists hold [`Shared`] entries, so that what is made of a profile shares them with it. Fields that are not
//! listed are kept in `other`. What a profile means is left to `allotment-core`.

#![expect(clippy::duplicated_attributes, reason = "each printer column is an attribute with the same keys")]

mod amount;
mod bounds;
mod cloud_profile;
mod date;
mod digest;
mod kept;
mod private_cloud_profile;
mod schemas;
mod shared;
mod shoot;
mod stored;

use std::collections::BTreeMap;

pub use amount::Amount;
pub use cloud_profile::{
    AccessRestriction, Bastion, BastionImage, CloudProfile, CloudProfileSpec, CloudProfileStatus, ContainerRuntime,
    ImageVersion, Kubernetes, KubernetesVersion, Limits, MachineImage, MachineType, Named, Region, SeedSelector,
    Storage, VolumeType, Zone,
};
pub use date::Date;
pub use digest::Digest;
pub use kept::{KeptProfile, KeptStatus};
pub use private_cloud_profile::{
    Conflict, ExpiredInUse, ParentRef, PrivateCloudProfile, PrivateCloudProfileSpec, PrivateCloudProfileStatus,
    RemovedVersion, RenderedMetadata, RenderedProfile,
};
pub use shared::Shared;
pub use shoot::{
    CloudProfileReference, Machine, Shoot, ShootImage, ShootKubernetes, ShootProvider, ShootSpec, Volume, Worker,
};
pub use stored::{Lenient, Parts, Stored, Unread};

/// The group of the catalog's kinds.
pub const GROUP: &str = "core.gardener.cloud";
/// [`GROUP`] and the one version of its kinds, as `apiVersion` has them.
pub const API_VERSION: &str = "core.gardener.cloud/v1beta1";

/// Annotation of a PrivateCloudProfile: what `status.removed` shows, as JSON, kept where a wiped status cannot lose it.
pub const REMOVED_VERSIONS: &str = "allotment.dev/removed-versions";
/// Annotation of a CloudProfile: `"true"` lets the platform take versions out after their date.
pub const REMOVE_EXPIRED_VERSIONS: &str = "allotment.dev/remove-expired-versions";
/// Annotation of a CloudProfile: `"true"` accepts a write that makes private profiles invalid.
pub const ACCEPT_CHILD_ERRORS: &str = "allotment.dev/accept-child-errors";
/// Finalizer of both kinds of profiles: what uses them goes before it. Every profile has it, since only a deletion that has
/// begun keeps new users away.
pub const FINALIZER: &str = "allotment.dev/catalog";
/// The ClusterRole that holds the verbs which guard `spec.kubernetes` and `spec.machineImages` of PrivateCloudProfiles.
pub const SPECIAL_FIELDS_ROLE: &str = "privatecloudprofile-modify-special-fields";

/// Fields that are kept and not known.
pub type Other = BTreeMap<String, serde_json::Value>;

/// A list that may be written as `null`.
fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    Ok(<Option<Vec<T>> as serde::Deserialize>::deserialize(deserializer)?.unwrap_or_default())
}
