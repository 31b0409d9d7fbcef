//! CloudProfile: what a provider offers: versions, images, machine and volume types, regions.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelectorRequirement};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Amount, Date, Other, Shared, bounds, list, schemas};

/// What a provider offers.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.gardener.cloud",
    version = "v1beta1",
    kind = "CloudProfile",
    plural = "cloudprofiles",
    singular = "cloudprofile",
    shortname = "cprofile",
    shortname = "cpfl",
    status = "CloudProfileStatus",
    derive = "PartialEq",
    doc = "A CloudProfile says what a provider offers to Shoots: Kubernetes versions, machine images and types, volume types, regions.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CloudProfileSpec {
    /// The kind of provider: `aws`, `azure`, `gcp`, ….
    #[serde(rename = "type", default)]
    #[schemars(length(max = bounds::TEXT))]
    pub type_: String,
    /// The Kubernetes versions on offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::whole_kubernetes")]
    pub kubernetes: Option<Shared<Kubernetes>>,
    /// The machine images on offer, by name.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::whole_machine_images")]
    pub machine_images: Vec<Shared<MachineImage>>,
    /// The machine types on offer, by name.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::MACHINE_TYPES))]
    pub machine_types: Vec<Shared<MachineType>>,
    /// The volume types on offer, by name.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::VOLUME_TYPES))]
    pub volume_types: Vec<Shared<VolumeType>>,
    /// The regions on offer, by name.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::REGIONS))]
    pub regions: Vec<Shared<Region>>,
    /// Certificates, PEM, that are put on every machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::BUNDLE))]
    pub ca_bundle: Option<Shared<String>>,
    /// Which Seeds may run the control planes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_selector: Option<Shared<SeedSelector>>,
    /// Settings of the provider's own, kept as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub provider_config: Option<Shared<Value>>,
    /// The machine that bastions run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bastion: Option<Shared<Bastion>>,
    /// Limits of what a Shoot may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// Anything at all: objects and, in templates, texts.
fn anything(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// What became of a CloudProfile. It tells counts, never names: everybody may read it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloudProfileStatus {
    /// The generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions: `InUse`, `ChildrenValid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::requests::conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// Kubernetes versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kubernetes {
    /// The versions, each once.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::VERSIONS))]
    pub versions: Vec<Shared<KubernetesVersion>>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A Kubernetes version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesVersion {
    /// A full version, "1.30.2".
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub version: String,
    /// From when on it is not given any more, RFC 3339; never where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_date: Option<Date>,
    /// `preview`, `supported` or `deprecated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub classification: Option<String>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A machine image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineImage {
    /// Name of the image.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
    /// Which newer version machines are moved to: `patch`, `minor` or `major`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub update_strategy: Option<String>,
    /// The versions, each once.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::VERSIONS))]
    pub versions: Vec<Shared<ImageVersion>>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A version of a machine image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageVersion {
    /// The version, "15.4".
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub version: String,
    /// From when on it is not given any more, RFC 3339; never where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_date: Option<Date>,
    /// `preview`, `supported` or `deprecated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub classification: Option<String>,
    /// The container runtimes in it; `containerd` where unset.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::FEW))]
    pub cri: Vec<ContainerRuntime>,
    /// The CPU architectures that there is an image for; `amd64` where unset.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::FEW), inner(length(max = bounds::TEXT)))]
    pub architectures: Vec<String>,
    /// The kubelets that it works with, as "< 1.26".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub kubelet_version_constraint: Option<String>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A container runtime interface of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntime {
    /// `containerd` or another one.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A machine type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineType {
    /// Name of the type.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
    /// CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Amount>,
    /// GPUs; none where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Amount>,
    /// Memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Amount>,
    /// Whether new machines may be of it; true where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable: Option<bool>,
    /// CPU architecture; `amd64` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub architecture: Option<String>,
    /// The volume that comes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// The volume that comes with a machine type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Class of the volume.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub class: String,
    /// Type of the volume.
    #[serde(rename = "type", default)]
    #[schemars(length(max = bounds::TEXT))]
    pub type_: String,
    /// Size that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Amount>,
    /// Size that it has at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_size: Option<Amount>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A volume type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeType {
    /// Name of the type.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
    /// Class of the type.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub class: String,
    /// Whether new volumes may be of it; true where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable: Option<bool>,
    /// Size of a volume at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_size: Option<Amount>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Region {
    /// Name of the region.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
    /// Its zones, by name.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::ZONES))]
    pub zones: Vec<Zone>,
    /// What else is to be known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::labels")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Restrictions of access that hold there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::FEW))]
    pub access_restrictions: Option<Vec<AccessRestriction>>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A zone of a region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Name of the zone.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
    /// Machine types that it lacks.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::MACHINE_TYPES), inner(length(max = bounds::TEXT)))]
    pub unavailable_machine_types: Vec<String>,
    /// Volume types that it lacks.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::VOLUME_TYPES), inner(length(max = bounds::TEXT)))]
    pub unavailable_volume_types: Vec<String>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A restriction of access.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessRestriction {
    /// Name of the restriction.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// Which Seeds are meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeedSelector {
    /// Labels that they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::labels")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Rules that their labels keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::requirements")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
    /// Providers that they are of; that of the profile where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::FEW), inner(length(max = bounds::TEXT)))]
    pub provider_types: Option<Vec<String>>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// The machine that bastions run on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bastion {
    /// Its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_image: Option<BastionImage>,
    /// Its machine type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<Named>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// The image of bastions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BastionImage {
    /// Name of the image.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
    /// Version of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub version: Option<String>,
}

/// Something by its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    /// The name.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
}

/// Limits of what a Shoot may have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Most nodes of all its worker pools together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nodes_total: Option<i32>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}
