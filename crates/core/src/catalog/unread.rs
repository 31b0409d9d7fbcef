//! Profiles and Shoots of which the spec cannot be read: nothing follows from them, and nothing that they may use is taken
//! from them.

use allotment_api::catalog::{CloudProfileReference, KeptStatus, ParentRef, ShootSpec, Unread};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::index::ProfileKey;
use super::reference::used_profile;

/// A profile of either kind that cannot be read.
#[derive(Clone, Debug)]
pub struct UnreadProfile {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What the platform said of it.
    pub status: KeptStatus,
    /// The CloudProfile that a private one names; nothing where that cannot be read either, so that it may be any.
    pub parent: Option<String>,
    /// Which field cannot be read, and why.
    pub why: String,
}

impl UnreadProfile {
    /// What is known of it.
    pub fn read(unread: Unread) -> Self {
        let Unread { metadata, spec, status, why } = unread;
        let parent: Option<ParentRef> =
            spec.get("parent").and_then(|parent| serde_json::from_value(parent.clone()).ok());
        UnreadProfile { metadata, status, parent: parent.map(|parent| parent.name), why }
    }
}

/// What is not known of a Shoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// Which field cannot be read, and why.
    pub why: String,
    /// Whether that is so of its profile: it may be any that it could name.
    pub profile: bool,
}

/// Which profile a Shoot names that cannot be read whole, if one; an error where that cannot be read either.
pub(super) fn profile_of(spec: &Value, namespace: &str) -> Result<Option<ProfileKey>, ()> {
    fn member<T: DeserializeOwned>(spec: &Value, name: &str) -> Result<Option<T>, ()> {
        let Some(members) = spec.as_object() else { return Err(()) };
        members.get(name).map_or(Ok(None), |value| serde_json::from_value(value.clone()).map_err(drop))
    }
    let cloud_profile: Option<CloudProfileReference> = member(spec, "cloudProfile")?;
    let cloud_profile_name: Option<String> = member(spec, "cloudProfileName")?;
    let alone = ShootSpec { cloud_profile, cloud_profile_name, ..ShootSpec::default() };
    Ok(used_profile(&alone).map(|named| ProfileKey::of(&named, namespace)))
}

/// How texts name an object that may be one that cannot be read.
pub(super) fn shown(name: &str, is_unread: bool) -> String {
    if is_unread { format!("{name} (cannot be read)") } else { name.to_owned() }
}
