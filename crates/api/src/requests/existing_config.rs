//! ProviderConfig of the built-in provider `existing`, group `existing.cluster.openmcp.cloud`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OidcIssuer;

/// Where a cluster that is there is found, and what is known of it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "existing.cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "ProviderConfig",
    plural = "providerconfigs",
    singular = "providerconfig",
    category = "openmcp",
    root = "ExistingConfig",
    derive = "PartialEq",
    doc = "A ProviderConfig stands for one cluster that is there, and makes one profile, of its name, of a ClusterProvider that runs the package builtin:existing.",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.providerRef"),
    printcolumn(name = "Kubeconfig", type_ = "string", json_path = ".spec.kubeconfigRef.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ExistingConfigSpec {
    /// Name of the ClusterProvider that this belongs to.
    #[schemars(length(min = 1, max = 253))]
    pub provider_ref: String,
    /// The Secret with an admin's kubeconfig, in namespace `allot-planes`.
    pub kubeconfig_ref: KubeconfigRef,
    /// Traits of the cluster, beside what is seen of it: `kubernetes.io/apis/compute` where it has nodes,
    /// `cluster.openmcp.cloud/workerless` where it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub traits: Vec<String>,
    /// The issuer that the cluster's API server trusts: AccessRequests may then ask for type `OIDC` as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcIssuer>,
}

/// A Secret that holds a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubeconfigRef {
    /// `Secret`, if it is said.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<KubeconfigRefType>,
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// `allot-planes`, if it is said: what is admin access lies nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Key in the Secret's data; `kubeconfig` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

/// What a kubeconfig can lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KubeconfigRefType {
    /// A Secret.
    Secret,
}
