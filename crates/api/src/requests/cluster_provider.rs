//! ClusterProvider: an instance of something that makes clusters, and the profiles it publishes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AccessType, NameRef};

/// What runs as the provider. Profiles and readiness are in the status.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "ClusterProvider",
    plural = "clusterproviders",
    singular = "clusterprovider",
    shortname = "cprov",
    category = "openmcp",
    status = "ClusterProviderStatus",
    derive = "PartialEq",
    doc = "A ClusterProvider makes and removes clusters. It publishes profiles: kinds of clusters it can make, with their versions and traits.",
    printcolumn(name = "Package", type_ = "string", json_path = ".spec.package"),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProviderSpec {
    /// What runs: `builtin:<name>` for one inside the platform, an OCI image, or the path of an
    /// executable below the provider directory.
    #[schemars(length(min = 1, max = 1024))]
    pub package: String,
    /// Secrets in the platform's system namespace with which the image is pulled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub package_pull_secret: Vec<NameRef>,
}

/// What the provider can do, and whether it is there to do it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProviderStatus {
    /// The generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When this status was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconcile_time: Option<Time>,
    /// Whether the provider takes new Clusters. Always written.
    #[serde(default)]
    pub ready: bool,
    /// Why it is ready or not, for machines: `AllGood`, `HeartbeatMissed`, ….
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The same for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Conditions, among them `ProviderReady`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions_schema")]
    pub conditions: Vec<Condition>,
    /// The kinds of clusters that it makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub profiles: Vec<Profile>,
}

/// One kind of cluster that a provider makes; known by provider and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Name of the profile, unique within the provider.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The ProviderConfig that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config_ref: Option<NameRef>,
    /// Kubernetes versions that it can make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    pub supported_versions: Vec<SupportedVersion>,
    /// Traits that its clusters have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub supported_traits: Vec<SupportedTrait>,
    /// Types of access that its clusters support; `Token` where unset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_types: Vec<AccessType>,
    /// Who makes identities in its clusters; `Platform` where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_by: Option<AccessBy>,
    /// Most Clusters at a time, those being deleted included; unlimited where unset. Beyond it requests
    /// wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_clusters: Option<i32>,
    /// The issuer that its clusters trust; needed for `OIDC` where the platform makes identities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcIssuer>,
}

/// An OpenID Connect issuer that clusters trust, and how they name its users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcIssuer {
    /// URL of the issuer: `--oidc-issuer-url` of the clusters' API servers.
    #[schemars(length(min = 1, max = 1024))]
    pub issuer: String,
    /// `--oidc-client-id` of the clusters' API servers.
    #[serde(rename = "clientID")]
    #[schemars(length(min = 1, max = 253))]
    pub client_id: String,
    /// `--oidc-username-prefix` of the clusters' API servers: what they put before the names of the issuer's users.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub username_prefix: String,
    /// What the platform's own API server puts before them: only users with it are the issuer's, and have it cut
    /// off. Every user that is no `system:` one where unset.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub requester_prefix: String,
    /// Scopes that clients ask for beside `openid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub extra_scopes: Vec<String>,
}

/// A Kubernetes version of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SupportedVersion {
    /// A full version, "1.30.2".
    #[schemars(length(min = 1, max = 64))]
    pub version: String,
    /// Given only to those who ask for exactly this version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
}

/// A trait of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SupportedTrait {
    /// The trait. What is written.
    #[serde(rename = "trait", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub trait_: Option<String>,
    /// The trait, under the key that some write; read as `trait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
}

impl SupportedTrait {
    /// The trait, under whichever of its two keys it was written.
    pub fn key(&self) -> Option<&str> {
        self.trait_.as_deref().or(self.name.as_deref())
    }
}

/// Who makes the identities of AccessRequests in a profile's clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum AccessBy {
    /// The platform, with admin access that the provider mints for it.
    #[default]
    Platform,
    /// The provider itself; the platform decides only.
    Provider,
}
