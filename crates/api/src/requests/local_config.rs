//! ProviderConfig of the built-in provider `local`, group `local.cluster.openmcp.cloud`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of one profile of the local provider.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "local.cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "ProviderConfig",
    plural = "providerconfigs",
    singular = "providerconfig",
    category = "openmcp",
    derive = "PartialEq",
    doc = "A ProviderConfig makes one profile, of its name, of a ClusterProvider that runs the package builtin:local.",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.providerRef"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfigSpec {
    /// Name of the ClusterProvider that this belongs to.
    #[schemars(length(min = 1, max = 253))]
    pub provider_ref: String,
}
