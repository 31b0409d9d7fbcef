//! What a request asks for, read off its method, path and query, before anything is looked up
//! (`k8s.io/apiserver/pkg/endpoints/request.RequestInfo`).

/// A request, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether it is about objects of the API (`/api/v1/…`, `/apis/GROUP/VERSION/…`).
    pub is_resource: bool,
    /// The path below the tenant's prefix, not decoded.
    pub path: String,
    /// The API verb, as RBAC knows it: get, list, watch, create, update, patch, delete,
    /// deletecollection; for other paths the method in lower case.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty where there is none.
    pub namespace: String,
    /// Plural resource name.
    pub resource: String,
    /// Subresource; empty where there is none.
    pub subresource: String,
    /// Object name; empty where there is none.
    pub name: String,
}
