//! What a client is told that may not do what it asked for
//! (`k8s.io/apiserver/pkg/endpoints/handlers/responsewriters`).

use allotment_machinery::gotext::go_quote;

use super::Attributes;
use crate::status::{About, ApiError};

/// 403: `configmaps is forbidden: User "x" cannot list resource "configmaps" in API group "" in the
/// namespace "y"`, with what was in the way of deciding behind it.
pub(crate) fn forbidden(attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let request = attributes.request;
    let user = go_quote(&attributes.user.name);
    let mut why = if request.is_resource {
        let resource = if request.subresource.is_empty() {
            request.resource.clone()
        } else {
            format!("{}/{}", request.resource, request.subresource)
        };
        let scope = if request.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", go_quote(&request.namespace))
        };
        let (resource, group) = (go_quote(&resource), go_quote(&request.group));
        format!("User {user} cannot {} resource {resource} in API group {group} {scope}", attributes.verb)
    } else {
        format!("User {user} cannot {} path {}", attributes.verb, go_quote(&request.path))
    };
    why = without_markup(&why);
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    let about = if request.is_resource {
        About { group: &request.group, resource: &request.resource, name: &request.name }
    } else {
        About { group: "", resource: "", name: "" }
    };
    ApiError::forbidden(about, &why)
}

/// Paths and names come from the client; they must not read as HTML where a browser shows the error.
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
