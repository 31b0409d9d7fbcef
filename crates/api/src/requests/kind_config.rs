//! ProviderConfig of the built-in provider `kind`, group `kind.cluster.openmcp.cloud`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What clusters the kind command makes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kind.cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "ProviderConfig",
    plural = "providerconfigs",
    singular = "providerconfig",
    category = "openmcp",
    root = "KindConfig",
    derive = "PartialEq",
    doc = "A ProviderConfig makes one profile, of its name, of a ClusterProvider that runs the package builtin:kind.",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.providerRef"),
    printcolumn(name = "Workers", type_ = "integer", json_path = ".spec.workers"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct KindConfigSpec {
    /// Name of the ClusterProvider that this belongs to.
    #[schemars(length(min = 1, max = 253))]
    pub provider_ref: String,
    /// Kubernetes versions on offer; where empty, those of the node images that a release of kind names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub versions: Vec<KindVersion>,
    /// Nodes beside the one of the control plane, which runs Pods where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 16))]
    pub workers: Option<i32>,
    /// Most clusters at a time; 8 where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub max_clusters: Option<i32>,
    /// Traits beside `kubernetes.io/apis/compute` and `infrastructure/vendor/kind`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub traits: Vec<String>,
}

/// A Kubernetes version and the node image that runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KindVersion {
    /// A full version, "1.34.0".
    #[schemars(length(min = 1, max = 64))]
    pub version: String,
    /// The node image; `kindest/node:v<version>` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Given only to those who ask for exactly this version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
}
