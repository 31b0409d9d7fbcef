//! AccessRequest: somebody wants a kubeconfig with these permissions, and no more.

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ObjectRef;
use crate::reasons::Verdict;

/// Which cluster, and which permissions on it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "AccessRequest",
    plural = "accessrequests",
    singular = "accessrequest",
    shortname = "areq",
    category = "openmcp",
    namespaced,
    status = "AccessRequestStatus",
    derive = "PartialEq",
    doc = "An AccessRequest asks for access to a Cluster with exactly the permissions it lists. It is answered by a Secret with a kubeconfig in its namespace.",
    printcolumn(name = "Request", type_ = "string", json_path = ".spec.requestRef.name"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Secret", type_ = "string", json_path = ".status.access.secretRef.name"),
    // A date is shown as its age, and the age of what is to come as invalid.
    printcolumn(name = "Not-After", type_ = "string", json_path = ".status.access.notAfter", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AccessRequestSpec {
    /// The Cluster; either this or requestRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ObjectRef>,
    /// The ClusterRequest whose Cluster is meant; either this or clusterRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_ref: Option<ObjectRef>,
    /// The permissions; the access has these and no others.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub permissions: Vec<Permission>,
    /// The type of credential. Token where unset.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<AccessType>,
    /// How long the access lasts from when it is granted, a Go duration; without end where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ttl: Option<String>,
    /// Who created this. Stamped by the platform, whatever was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<RequestedBy>,
}

/// Rules in one namespace, or in the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permission {
    /// The namespace: rules become a Role there. Where unset they become a ClusterRole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// RBAC rules, as in Roles and ClusterRoles; passed through.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub rules: Vec<PolicyRule>,
}

/// Types of credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum AccessType {
    /// A bearer token of a ServiceAccount in the Cluster, renewed before it ends.
    #[default]
    Token,
    /// An identity of an OpenID Connect issuer that the Cluster trusts.
    #[serde(rename = "OIDC")]
    Oidc,
}

impl AccessType {
    /// The text in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            AccessType::Token => "Token",
            AccessType::Oidc => "OIDC",
        }
    }
}

/// The identity that created an AccessRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestedBy {
    /// User name.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub username: String,
    /// UID of the user, where authentication gives one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub uid: String,
    /// Groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub groups: Vec<String>,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessRequestStatus {
    /// The generation that this status is about; written once the Cluster acknowledged every change.
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
    /// Conditions; `Ready` says whether the access works now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions_schema")]
    pub conditions: Vec<Condition>,
    /// Where the credentials are, and how long they last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessInfo>,
}

/// Where credentials are, and how long they last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessInfo {
    /// The type of credential.
    #[serde(rename = "type")]
    pub type_: AccessType,
    /// The Secret, in the AccessRequest's namespace.
    pub secret_ref: SecretRef,
    /// UID of the Cluster.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,
    /// When the access ends as it stands: with the token, or with the ttl if that is earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
    /// When the token is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_after: Option<Time>,
}

/// A Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    pub name: String,
}
