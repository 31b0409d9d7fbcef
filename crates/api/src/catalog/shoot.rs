//! Shoot: as much of it as says which profile it uses, and what of it. The rest is kept.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Amount, Other, bounds, list};

/// A cluster that is to be, in the words of a profile.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.gardener.cloud",
    version = "v1beta1",
    kind = "Shoot",
    plural = "shoots",
    singular = "shoot",
    namespaced,
    derive = "PartialEq",
    doc = "A Shoot is a cluster that is to be, of what its CloudProfile offers.",
    printcolumn(name = "CloudProfile", type_ = "string", json_path = ".spec.cloudProfile.name"),
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ShootSpec {
    /// The profile that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_profile: Option<CloudProfileReference>,
    /// The CloudProfile that it uses, as Shoots said it before there were private ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub cloud_profile_name: Option<String>,
    /// Region of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub region: Option<String>,
    /// The control plane's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<ShootKubernetes>,
    /// What it consists of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ShootProvider>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A profile by kind and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloudProfileReference {
    /// `CloudProfile` or `PrivateCloudProfile`; the former where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub kind: Option<String>,
    /// Name of the profile.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
}

/// A Kubernetes version, and settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShootKubernetes {
    /// A version of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub version: Option<String>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// What a Shoot consists of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShootProvider {
    /// The kind of provider: that of the profile.
    #[serde(rename = "type", default)]
    #[schemars(length(max = bounds::TEXT))]
    pub type_: String,
    /// Its worker pools, by name.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::WORKERS))]
    pub workers: Vec<Worker>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A worker pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Worker {
    /// Name of the pool.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
    /// What its machines are.
    #[serde(default)]
    pub machine: Machine,
    /// Their root volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Volume>,
    /// Their further volumes.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::ZONES))]
    pub data_volumes: Vec<Volume>,
    /// The zones that they are in.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::ZONES), inner(length(max = bounds::TEXT)))]
    pub zones: Vec<String>,
    /// The kubelets' version; that of the Shoot where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<ShootKubernetes>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// What a machine is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Its machine type.
    #[serde(rename = "type", default)]
    #[schemars(length(max = bounds::TEXT))]
    pub type_: String,
    /// Its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ShootImage>,
    /// Its CPU architecture; `amd64` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub architecture: Option<String>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// An image by name and version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShootImage {
    /// Name of the image.
    #[serde(default)]
    #[schemars(length(max = bounds::TEXT))]
    pub name: String,
    /// Version of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub version: Option<String>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its volume type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::TEXT))]
    pub type_: Option<String>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Amount>,
    /// Further fields, kept as they are.
    #[serde(flatten)]
    pub other: Other,
}
