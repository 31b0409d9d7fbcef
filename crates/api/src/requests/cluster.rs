//! Cluster: a Kubernetes cluster, and the record of who has room on it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CeilingRule, DeletionPolicy, KubernetesVersion};

/// What the cluster is, and who has room on it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    singular = "cluster",
    category = "openmcp",
    namespaced,
    status = "ClusterStatus",
    derive = "PartialEq",
    doc = "A Cluster is a Kubernetes cluster that a ClusterProvider makes from one of its profiles.",
    printcolumn(name = "Purposes", type_ = "string", json_path = ".spec.purposes"),
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.clusterProviderRef.name"),
    printcolumn(name = "Profile", type_ = "string", json_path = ".spec.clusterProviderRef.profile"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.kubernetes.version"),
    printcolumn(name = "Dedicated", type_ = "boolean", json_path = ".spec.dedicated", priority = 1),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// The provider that makes it, and from which of its profiles.
    pub cluster_provider_ref: ClusterProviderRef,
    /// Provider-specific settings beyond the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_config_ref: Option<ClusterConfigRef>,
    /// The Kubernetes version to run.
    #[serde(default)]
    pub kubernetes: KubernetesVersion,
    /// What it is for: the purposes of the request that it was made for, in its order. Never grows.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub purposes: Vec<String>,
    /// Whether it is for one tenant only. On a Cluster written by hand, unset keeps it closed to requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedicated: Option<bool>,
    /// Who has room on it. Written by the platform only; this record decides, Grants follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub tenants: Vec<Tenant>,
    /// What happens when nobody uses it. Written by the platform only; unset on one written by hand,
    /// which is never deleted for being idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// How long it is kept unused, a Go duration. Written by the platform only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub idle_grace: Option<String>,
    /// The most that access to it may include, one entry per Purpose that sets one. Written by the platform only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ceilings: Vec<ClusterCeiling>,
}

/// A provider and one of its profiles.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ClusterProviderRef {
    /// Name of the ClusterProvider.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Name of one of its profiles.
    #[schemars(length(min = 1, max = 253))]
    pub profile: String,
}

/// A provider-specific object with settings for one Cluster, in the Cluster's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterConfigRef {
    /// Its API group.
    #[schemars(length(max = 253))]
    pub api_group: String,
    /// Its kind.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// One ClusterRequest that has, or had, room on a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Tenant {
    /// UID of the ClusterRequest.
    #[serde(rename = "requestUID")]
    #[schemars(length(min = 1, max = 64))]
    pub request_uid: String,
    /// Namespace of the ClusterRequest.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Name of the ClusterRequest.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its prefix for cluster-scoped names; empty on a dedicated Cluster.
    #[serde(default)]
    #[schemars(length(max = 20))]
    pub prefix: String,
    /// The room is free again; the entry stays while names with the prefix may be left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// Nobody looked yet whether names in the cluster begin with the prefix that are not the tenant's, or some do: no access
    /// is given to it until none does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
}

/// The ceiling of one Purpose, as last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterCeiling {
    /// Name of the Purpose.
    #[schemars(length(min = 1, max = 253))]
    pub purpose: String,
    /// The most that access may include.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub rules: Vec<CeilingRule>,
}

/// What is known of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When this status was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconcile_time: Option<Time>,
    /// A word for people; decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClusterPhase>,
    /// Conditions: `ClusterHealthy` (the provider's word), `Provisioned`, `Withdrawn`, `DeletionBlocked`, `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions_schema")]
    pub conditions: Vec<Condition>,
    /// What runs, not what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesVersion>,
    /// Identities that could not be removed when their access ended, for want of a connection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub leftovers: Vec<Leftover>,
    /// The provider's own notes; anything in here can be recovered if lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::anything_schema")]
    pub provider_status: Option<serde_json::Map<String, serde_json::Value>>,
}

/// How far a Cluster is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ClusterPhase {
    /// Being made or changed.
    Progressing,
    /// Usable.
    Succeeded,
    /// Not to be had without somebody's help.
    Failed,
    /// Being removed.
    Deleting,
}

/// An identity that outlived its AccessRequest because its Cluster could not be reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Leftover {
    /// `namespace/name` of the AccessRequest.
    #[schemars(length(max = 320))]
    pub access_request: String,
    /// UID of the AccessRequest.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// When its last token ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
}
