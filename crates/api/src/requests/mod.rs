//! The kinds of clusters on request, group `cluster.openmcp.cloud`: one file per kind.

#![expect(clippy::duplicated_attributes, reason = "each printer column is an attribute with the same keys")]

mod access_policy;
mod access_request;
mod cluster;
mod cluster_provider;
mod cluster_request;
mod equivalence;
mod existing_config;
mod grant;
mod kind_config;
mod local_config;
mod purpose;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

pub use access_policy::{AccessPolicy, AccessPolicySpec, PolicyPeer};
pub use access_request::{
    AccessInfo, AccessRequest, AccessRequestSpec, AccessRequestStatus, AccessType, Permission, RequestedBy, SecretRef,
};
pub use cluster::{
    Cluster, ClusterCeiling, ClusterConfigRef, ClusterPhase, ClusterProviderRef, ClusterSpec, ClusterStatus, Leftover,
    Tenant,
};
pub use cluster_provider::{
    AccessBy, ClusterProvider, ClusterProviderSpec, ClusterProviderStatus, OidcIssuer, Profile, SupportedTrait,
    SupportedVersion,
};
pub use cluster_request::{ClusterRequest, ClusterRequestSpec, ClusterRequestStatus, Finding};
pub use equivalence::{TraitEquivalence, TraitEquivalenceSpec};
pub use existing_config::{ExistingConfig, ExistingConfigSpec, KubeconfigRef, KubeconfigRefType};
pub use grant::{
    BoundClusterRef, ClusterRequestGrant, ClusterRequestGrantSpec, ClusterRequestGrantStatus, GrantPhase,
    MirroredMetadata, MirroredRequest, ResolvedRequest, ResolvedTrait,
};
pub use kind_config::{KindConfig, KindConfigSpec, KindVersion};
pub use local_config::{ProviderConfig, ProviderConfigSpec};
pub use purpose::{CeilingRule, CeilingScope, DeletionPolicy, Purpose, PurposeSpec, PurposeStatus, Strategy};

/// The name of an object without a namespace, or of one in a namespace that is clear from the place.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct NameRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// The name of an object, in this namespace or another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the object; the one of the referring object where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
}

/// The Kubernetes version of a request or a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubernetesVersion {
    /// A version: none, partial ("1.30") or full ("1.30.2"); compared by numeric components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,
}

/// Conditions are a map by type for server-side apply: several writers, each its own.
pub(crate) fn conditions_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = Vec::<Condition>::json_schema(generator);
    schema.insert("x-kubernetes-list-type".into(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".into(), serde_json::json!(["type"]));
    schema
}

/// An object of any shape, kept whole.
fn anything_schema(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
