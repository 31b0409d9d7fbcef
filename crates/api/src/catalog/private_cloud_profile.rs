//! PrivateCloudProfile: what the Shoots of one namespace are offered beyond a CloudProfile.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    API_VERSION, CloudProfileSpec, Date, Kubernetes, Limits, MachineImage, MachineType, Other, Region, Shared,
    VolumeType, bounds, list, schemas,
};

/// A CloudProfile, and what is added to it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.gardener.cloud",
    version = "v1beta1",
    kind = "PrivateCloudProfile",
    plural = "privatecloudprofiles",
    singular = "privatecloudprofile",
    shortname = "pcp",
    namespaced,
    status = "PrivateCloudProfileStatus",
    derive = "PartialEq",
    doc = "A PrivateCloudProfile adds to a CloudProfile what the Shoots of its namespace alone may use.",
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parent"),
    printcolumn(name = "Rendered", type_ = "string", json_path = ".status.conditions[?(@.type==\"Rendered\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PrivateCloudProfileSpec {
    /// Name of the CloudProfile that this adds to, or `{kind: CloudProfile, name: …}`. It cannot be changed.
    #[serde(default)]
    pub parent: ParentRef,
    /// Later dates for Kubernetes versions of the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::kubernetes")]
    pub kubernetes: Option<Shared<Kubernetes>>,
    /// Further machine images and versions, and later dates for those of the parent.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::machine_images")]
    pub machine_images: Vec<Shared<MachineImage>>,
    /// Further machine types.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::MACHINE_TYPES))]
    pub machine_types: Vec<Shared<MachineType>>,
    /// Further volume types.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::VOLUME_TYPES))]
    pub volume_types: Vec<Shared<VolumeType>>,
    /// Further regions, and further zones of those of the parent.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::REGIONS))]
    pub regions: Vec<Shared<Region>>,
    /// Further certificates, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::BUNDLE))]
    pub ca_bundle: Option<Shared<String>>,
    /// Lower limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// The CloudProfile that a private one adds to: written as its name, or as an object, and kept as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParentRef {
    /// `kind`, where it is an object that says one.
    pub kind: Option<String>,
    /// Name of the profile.
    pub name: String,
    /// Whether it is written as an object.
    pub is_object: bool,
}

impl ParentRef {
    /// A parent written as its name.
    pub fn named(name: impl Into<String>) -> Self {
        ParentRef { kind: None, name: name.into(), is_object: false }
    }
}

impl Serialize for ParentRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        if !self.is_object {
            return serializer.serialize_str(&self.name);
        }
        let mut map = serializer.serialize_map(None)?;
        if let Some(kind) = &self.kind {
            map.serialize_entry("kind", kind)?;
        }
        map.serialize_entry("name", &self.name)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ParentRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrObject)
    }
}

/// Reads either form.
struct NameOrObject;

impl<'de> Visitor<'de> for NameOrObject {
    type Value = ParentRef;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the name of a CloudProfile, or an object with kind and name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<ParentRef, E> {
        Ok(ParentRef::named(name))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ParentRef, M::Error> {
        let mut parent = ParentRef { is_object: true, ..ParentRef::default() };
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "kind" => parent.kind = map.next_value()?,
                "name" => parent.name = map.next_value::<Option<String>>()?.unwrap_or_default(),
                other => return Err(Error::unknown_field(other, &["kind", "name"])),
            }
        }
        Ok(parent)
    }
}

impl JsonSchema for ParentRef {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ParentRef".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-preserve-unknown-fields": true})
    }
}

/// What came of a private profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrivateCloudProfileStatus {
    /// The generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The parent with what is added to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "whole")]
    pub cloud_profile: Option<RenderedProfile>,
    /// What parent and private profile both have and mean differently: the parent's holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Versions that were taken out since they expired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<RemovedVersion>,
    /// Versions that expired and stay until the Shoots that use them are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expired_in_use: Vec<ExpiredInUse>,
    /// Conditions: `Rendered`, `ParentFound`, `InUse`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::requests::conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// An object that is written and owned as a whole: its schema is that of CloudProfiles, and thousands of owned fields would
/// take more room than what they are of.
fn whole(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-map-type": "atomic",
    })
}

/// A CloudProfile that stands in no store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenderedProfile {
    /// `core.gardener.cloud/v1beta1`.
    pub api_version: String,
    /// `CloudProfile`.
    pub kind: String,
    /// The private profile's name.
    pub metadata: RenderedMetadata,
    /// What is offered.
    pub spec: CloudProfileSpec,
}

impl RenderedProfile {
    /// A profile of that name.
    pub fn new(name: impl Into<String>, spec: CloudProfileSpec) -> Self {
        let metadata = RenderedMetadata { name: name.into() };
        RenderedProfile { api_version: API_VERSION.to_owned(), kind: "CloudProfile".to_owned(), metadata, spec }
    }
}

/// What a rendered profile is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenderedMetadata {
    /// The name.
    pub name: String,
}

/// One thing that parent and private profile both have and mean differently.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// Which entry, by keys: `spec.machineImages[custom].versions[5.0.0]`.
    pub path: String,
    /// Those of the parent's fields that differ, as JSON. They hold.
    pub parent_value: String,
    /// The same fields of the private profile, as JSON.
    pub child_value: String,
    /// Why it is a conflict.
    pub reason: String,
}

/// A version that was taken out since it expired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovedVersion {
    /// Which entry it was: `spec.kubernetes.versions[1.28.6]`.
    pub path: String,
    /// The version.
    pub version: String,
    /// The date by which it went: the later of its own and its parent's.
    pub expired_at: Date,
    /// The date that it had itself, where that was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_date: Option<Date>,
    /// When it was taken out.
    pub removed_at: Date,
}

/// A version that expired and stays until the Shoots that use it are gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpiredInUse {
    /// Which entry: `spec.machineImages[custom].versions[5.0.0]`.
    pub path: String,
    /// The version.
    pub version: String,
    /// The date that it has.
    pub expired_at: Date,
    /// The first Shoots of the namespace that use it.
    pub shoots: Vec<String>,
    /// How many more do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_shoots: Option<i32>,
}
