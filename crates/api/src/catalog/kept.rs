//! What the platform keeps in memory of PrivateCloudProfiles: thousands of them share most of what they are rendered to, which
//! can be made anew at any time.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
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

/// A status; nothing where it is no object.
pub(super) fn or_nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KeptStatus, D::Error> {
    deserializer.deserialize_any(OrNothing)
}

/// Reads a status as it comes, since what it was rendered to is large.
struct OrNothing;

impl<'de> Visitor<'de> for OrNothing {
    type Value = KeptStatus;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a status")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<KeptStatus, A::Error> {
        KeptStatus::deserialize(MapAccessDeserializer::new(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<KeptStatus, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(KeptStatus::default())
    }

    fn visit_unit<E: Error>(self) -> Result<KeptStatus, E> {
        Ok(KeptStatus::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<KeptStatus, E> {
        Ok(KeptStatus::default())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<KeptStatus, E> {
        Ok(KeptStatus::default())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<KeptStatus, E> {
        Ok(KeptStatus::default())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<KeptStatus, E> {
        Ok(KeptStatus::default())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<KeptStatus, E> {
        Ok(KeptStatus::default())
    }
}

/// A status that is none where it is no object.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct KeptOrNothing(#[serde(deserialize_with = "or_nothing")] pub(super) KeptStatus);

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
