//! Purpose: what clusters are for, and what follows from that for scheduling and access.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::traits::TraitEntry;

/// What a cluster for this purpose has to be like.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "Purpose",
    plural = "purposes",
    singular = "purpose",
    category = "openmcp",
    status = "PurposeStatus",
    derive = "PartialEq",
    doc = "A Purpose says what clusters are for: whether they are shared, which traits they have, how many tenants and how much access they take.",
    printcolumn(name = "Dedicated", type_ = "boolean", json_path = ".spec.dedicated"),
    printcolumn(name = "Max-Tenants", type_ = "integer", json_path = ".spec.maxTenants"),
    printcolumn(name = "Max-Clusters", type_ = "integer", json_path = ".spec.maxClusters"),
    printcolumn(name = "Clusters", type_ = "integer", json_path = ".status.clusters"),
    printcolumn(name = "Spares", type_ = "integer", json_path = ".status.spares"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PurposeSpec {
    /// Whether each request gets a cluster of its own. False where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedicated: Option<bool>,
    /// Traits that its clusters need or should have; plain ones only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub traits: Vec<TraitEntry>,
    /// Most tenants of one shared Cluster; unlimited where unset. Lowering it evicts nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_tenants: Option<i32>,
    /// Most Clusters that list this purpose; unlimited where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_clusters: Option<i32>,
    /// Namespaces from which it may be asked for; all where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<LabelSelector>,
    /// Profiles in order of preference, `profile` or `provider/profile`; others come after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub profiles: Vec<String>,
    /// Which of several Clusters or profiles that fit alike is taken. Balanced where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Namespace of new Clusters. Where unset, the request's for dedicated ones, `allot-clusters` for shared ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// What happens to a Cluster that nobody uses. WhenIdle where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// How long an unused Cluster is kept, a Go duration. 5m where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub idle_grace: Option<String>,
    /// Clusters kept ready for requests to come: a request for this Purpose alone that fits gets one at once. They
    /// count against `maxClusters`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub warm: Option<i32>,
    /// The most that AccessRequests to its Clusters may be granted; what they ask for where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub permission_ceiling: Option<Vec<CeilingRule>>,
}

/// What there is for a Purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PurposeStatus {
    /// The generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When this status was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconcile_time: Option<Time>,
    /// Clusters that count against `maxClusters`; lags behind by some seconds where it alone changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<i64>,
    /// Spare Clusters that the next request for this Purpose alone may get; lags in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spares: Option<i64>,
    /// Conditions: `SparesReady`, where `warm` asks for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// Which of several Clusters that fit alike is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    /// The one with the fewest tenants.
    #[default]
    Balanced,
    /// The one with the most tenants.
    Pack,
}

/// What happens to a Cluster that nobody uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It is deleted once its grace is over.
    #[default]
    WhenIdle,
    /// It is kept.
    Retain,
}

/// An RBAC rule that bounds what may be granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CeilingRule {
    /// API groups; `*` for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub api_groups: Vec<String>,
    /// Resources; `*` for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub resources: Vec<String>,
    /// Names of objects; all where empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub resource_names: Vec<String>,
    /// Paths that are no resources; only for permissions without namespace.
    #[serde(default, rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub non_resource_urls: Vec<String>,
    /// Verbs; `*` for all.
    #[schemars(length(min = 1, max = 256))]
    pub verbs: Vec<String>,
    /// Where it counts. Any where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<CeilingScope>,
}

/// Where a rule of a ceiling counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum CeilingScope {
    /// Everywhere.
    #[default]
    Any,
    /// Only in namespaces that begin with the tenant's prefix; everywhere on a dedicated Cluster.
    PrefixedNamespaces,
}
