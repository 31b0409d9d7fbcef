//! AccessPolicy: opens Clusters or ClusterRequests of its namespace to AccessRequests of others.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Permission;

/// To whom what is opened, and how far.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "AccessPolicy",
    plural = "accesspolicies",
    singular = "accesspolicy",
    shortname = "apol",
    category = "openmcp",
    namespaced,
    derive = "PartialEq",
    doc = "An AccessPolicy lets AccessRequests of other namespaces have access to Clusters or ClusterRequests beside it, up to the permissions it lists.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct AccessPolicySpec {
    /// The namespaces whose AccessRequests are let in; any one entry suffices.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub from: Vec<PolicyPeer>,
    /// What they may be granted; without namespace, everywhere.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub permissions: Vec<Permission>,
    /// Names of the Clusters or ClusterRequests in this namespace that are opened; all where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub names: Option<Vec<String>>,
}

/// Namespaces: one by name, or some by their labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyPeer {
    /// Name of a namespace; either this or namespaceSelector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Labels of namespaces; either this or namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}
