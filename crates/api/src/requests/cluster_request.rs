//! ClusterRequest: somebody wants a cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{KubernetesVersion, ObjectRef};
use crate::reasons::Verdict;
use crate::traits::TraitEntry;

/// What is asked for.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "ClusterRequest",
    plural = "clusterrequests",
    singular = "clusterrequest",
    shortname = "creq",
    category = "openmcp",
    namespaced,
    status = "ClusterRequestStatus",
    derive = "PartialEq",
    doc = "A ClusterRequest asks for a cluster, shared or dedicated. It is answered by a ClusterRequestGrant of the same name, or Denied with findings.",
    printcolumn(name = "Purposes", type_ = "string", json_path = ".spec.purposes"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".status.clusterRef.name"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRequestSpec {
    /// The Kubernetes version: none, partial or full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesVersion>,
    /// A cluster of one's own. Where unset, true if a purpose says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedicated: Option<bool>,
    /// What the cluster is for: names of Purposes, in order of precedence, each once.
    #[schemars(length(min = 1, max = 16))]
    pub purposes: Vec<String>,
    /// Traits that the cluster needs or should have, beside those of the purposes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub traits: Vec<TraitEntry>,
    /// The prefix that one would like for one's cluster-scoped names on a shared cluster: a letter,
    /// letters and digits, one hyphen at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    pub prefix: Option<String>,
    /// Higher ones are decided first; a waiting request gains one per minute. 0 where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRequestStatus {
    /// The generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When this status was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconcile_time: Option<Time>,
    /// Granted, Denied or Pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Verdict>,
    /// Why, for machines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The Cluster it is bound to; the Grant is what counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ObjectRef>,
    /// Conditions: `Ready` once granted; `PrefixHonored`, `VersionDeprecated`, `TraitsOverridden` where they apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions_schema")]
    pub conditions: Vec<Condition>,
    /// Per candidate, what it lacks; fewest unmet first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub findings: Vec<Finding>,
    /// How many findings there are beyond those listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings_omitted: Option<i64>,
}

/// One requirement that one candidate does not meet.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The ClusterProvider of the candidate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// The profile of the candidate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profile: String,
    /// `namespace/name` of the candidate, where it is a Cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// What is unmet, for machines.
    pub reason: String,
    /// The trait as the request wrote it, the version, or the purpose.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}
