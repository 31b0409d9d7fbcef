//! ClusterRequestGrant: the lasting answer to a ClusterRequest.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterRequestSpec, DeletionPolicy};
use crate::traits::TraitEntry;

/// What was granted. Written once, whole; never changed.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "ClusterRequestGrant",
    plural = "clusterrequestgrants",
    singular = "clusterrequestgrant",
    shortname = "cgrant",
    category = "openmcp",
    namespaced,
    status = "ClusterRequestGrantStatus",
    derive = "PartialEq",
    doc = "A ClusterRequestGrant binds the ClusterRequest of the same name to a Cluster. The Cluster's spec.tenants is what it rests on.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "Cluster-Namespace", type_ = "string", json_path = ".spec.clusterRef.namespace"),
    printcolumn(name = "Prefix", type_ = "string", json_path = ".spec.prefix"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRequestGrantSpec {
    /// The Cluster.
    pub cluster_ref: BoundClusterRef,
    /// The prefix for one's cluster-scoped names, unique on the Cluster; empty on a dedicated one.
    #[serde(default)]
    #[schemars(length(max = 20))]
    pub prefix: String,
    /// UID of the ClusterRequest.
    #[serde(rename = "requestUID")]
    #[schemars(length(min = 1, max = 64))]
    pub request_uid: String,
    /// The request with everything that its Purposes added, as it was when granted.
    pub resolved: ResolvedRequest,
}

/// A Cluster, by name and by what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BoundClusterRef {
    /// Name of the Cluster.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the Cluster.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// UID of the Cluster.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}

/// A request with everything that its Purposes added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedRequest {
    /// The purposes, in the request's order.
    #[schemars(length(max = 16))]
    pub purposes: Vec<String>,
    /// Whether the Cluster is one's own.
    pub dedicated: bool,
    /// Every trait once, and the expressions.
    #[serde(default)]
    #[schemars(length(max = 1100))]
    pub traits: Vec<ResolvedTrait>,
    /// The version asked for; empty for none.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub version: String,
    /// What happens to the Cluster when nobody uses it.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// How long it is kept unused, a Go duration.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub idle_grace: String,
}

/// A trait or an expression after aggregation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedTrait {
    /// The trait, under its canonical name.
    #[serde(rename = "trait", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub trait_: Option<String>,
    /// The expression, where this is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<Box<TraitEntry>>,
    /// A wish, not a demand.
    pub optional: bool,
    /// The absence of the trait is meant.
    pub negated: bool,
    /// How much the wish counts.
    pub weight: i32,
}

/// A view of the request; may be lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterRequestGrantStatus {
    /// Bound, or Lost once the Cluster is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<GrantPhase>,
    /// The request as it was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<MirroredRequest>,
}

/// Whether the Cluster of a Grant is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum GrantPhase {
    /// The Cluster exists.
    Bound,
    /// The Cluster is gone.
    Lost,
}

/// A ClusterRequest, mirrored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MirroredRequest {
    /// Name and namespace of the request.
    pub metadata: MirroredMetadata,
    /// The request's spec.
    pub spec: ClusterRequestSpec,
}

/// Name and namespace of a mirrored request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MirroredMetadata {
    /// Name of the request.
    pub name: String,
    /// Namespace of the request.
    pub namespace: String,
}
