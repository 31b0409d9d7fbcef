//! What the platform keeps in memory of PrivateCloudProfiles: thousands of them share most of what they are rendered to, which
//! can be made anew at any time.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;

use serde::{Deserialize, Deserializer, Serialize};

use super::stored::lenient;
use super::{Conflict, Digest, ExpiredInUse, PrivateCloudProfile, PrivateCloudProfileSpec, RemovedVersion};

/// A PrivateCloudProfile without what it was rendered to. It is read by this type, and written by others.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct KeptProfile {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What was written.
    pub spec: PrivateCloudProfileSpec,
    /// What the platform says of it.
    #[serde(default, deserialize_with = "or_nothing")]
    pub status: KeptStatus,
}

/// A status, or `null`.
fn or_nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KeptStatus, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The status of a private profile, of what it was rendered to the digest. What of it cannot be read counts as not written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeptStatus {
    /// The generation that it is about.
    #[serde(deserialize_with = "lenient")]
    pub observed_generation: Option<i64>,
    /// What it was rendered to.
    pub cloud_profile: Option<Digest>,
    /// Conflicts with the parent.
    #[serde(deserialize_with = "lenient")]
    pub conflicts: Vec<Conflict>,
    /// Versions that were taken out.
    #[serde(deserialize_with = "lenient")]
    pub removed: Vec<RemovedVersion>,
    /// Versions that expired and stay.
    #[serde(deserialize_with = "lenient")]
    pub expired_in_use: Vec<ExpiredInUse>,
    /// Its conditions.
    #[serde(deserialize_with = "lenient")]
    pub conditions: Vec<Condition>,
}

impl Resource for KeptProfile {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        PrivateCloudProfile::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        PrivateCloudProfile::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        PrivateCloudProfile::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        PrivateCloudProfile::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
