//! Which requests there are: what a path leads to, which verbs it takes there, and in which media it is
//! read and written. All of it is found out before a handler runs, in the order in which Kubernetes does.
//!
//! Built-in kinds have routes, and what fits none of them is refused in the words of the router
//! (`github.com/emicklei/go-restful`). Custom kinds have one handler for all paths
//! (`k8s.io/apiextensions-apiserver/pkg/apiserver`).

use http::header;
use http::request::Parts;

use super::patch;
use super::store::about;
use crate::negotiation::{self, Accept, Asked, BODY_OR_STREAM, ONE_BODY};
use crate::registry::Row;
use crate::request::RequestInfo;
use crate::server::Context;
use crate::service::text;
use crate::status::ApiError;

/// What objects take.
const OBJECT: &[&str] = &["get", "update", "patch", "delete", "watch"];
/// What collections take.
const COLLECTION: &[&str] = &["list", "watch", "create", "deletecollection"];
/// What is left of it where the path names no namespace but objects are in one.
const ALL_NAMESPACES: &[&str] = &["list", "watch"];
/// What parts of objects take.
const PART: &[&str] = &["get", "update", "patch"];

/// Finds out whether there is such a request at all, and what the client accepts of it. Warns of versions
/// that are deprecated once it is known to be of one.
pub(crate) fn negotiate(cx: &Context, row: &Row, parts: &Parts) -> Result<Accept, ApiError> {
    let accept = text(&parts.headers, &header::ACCEPT);
    if row.kind.custom {
        warn(cx, row);
        check_custom(row, &cx.info, parts)?;
    } else {
        check_built_in(row, &cx.info, parts)?;
        warn(cx, row);
    }
    negotiation::accept(accept, Asked::Objects)
}

fn warn(cx: &Context, row: &Row) {
    if let Some(warning) = &row.version().deprecation_warning {
        cx.warn(warning.as_str());
    }
}

/// The verbs that a path takes: those of the first list that are in the second too.
struct Verbs<'a>(&'static [&'static str], &'a [&'static str]);

impl Verbs<'_> {
    fn take(&self, verb: &str) -> bool {
        self.0.contains(&verb) && self.1.contains(&verb)
    }

    fn are_none(&self) -> bool {
        !self.0.iter().any(|verb| self.1.contains(verb))
    }
}

fn check_built_in(row: &Row, info: &RequestInfo, parts: &Parts) -> Result<(), ApiError> {
    let verbs = verbs(row, info).filter(|verbs| !verbs.are_none()).ok_or_else(ApiError::unknown_resource)?;
    // HEAD is no verb of the API.
    if parts.method == http::Method::HEAD || !verbs.take(info.verb) {
        return Err(ApiError::method_not_allowed());
    }
    if info.verb == "patch" && !patch::is_patch_of_built_in(text(&parts.headers, &header::CONTENT_TYPE)) {
        return Err(ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_details());
    }
    let streams = matches!(info.verb, "list" | "watch");
    negotiation::check_produced(text(&parts.headers, &header::ACCEPT), if streams { BODY_OR_STREAM } else { ONE_BODY })
}

/// What the path of a built-in kind takes; `None` where it leads nowhere.
fn verbs<'a>(row: &'a Row, info: &RequestInfo) -> Option<Verbs<'a>> {
    let version = row.version();
    // The path of a namespace names itself.
    let itself = info.group.is_empty() && info.resource == "namespaces";
    let no_namespace = info.namespace.is_empty();
    let misplaced = if row.kind.namespaced { no_namespace && info.names_object } else { !no_namespace && !itself };
    // A proxy is asked for any path below it.
    let below_proxy = info.subresource == "proxy" && !info.resource.is_empty();
    if misplaced || info.has_surplus && !below_proxy {
        return None;
    }
    match info.subresource.as_str() {
        "" if info.names_object => Some(Verbs(OBJECT, version.verbs)),
        "" if row.kind.namespaced && no_namespace => Some(Verbs(ALL_NAMESPACES, version.verbs)),
        "" => Some(Verbs(COLLECTION, version.verbs)),
        _ if info.verb == "watch" => None,
        "status" if version.subresources.status => Some(Verbs(PART, PART)),
        "scale" if version.subresources.scale.is_some() => Some(Verbs(PART, PART)),
        name => {
            let other = version.subresources.others.iter().find(|other| other.name == name)?;
            Some(Verbs(&["get", "update", "patch", "create", "delete"], other.verbs))
        }
    }
}

fn check_custom(row: &Row, info: &RequestInfo, parts: &Parts) -> Result<(), ApiError> {
    let subresources = &row.version().subresources;
    let takes = match info.subresource.as_str() {
        "" => row.version().verbs.contains(&info.verb),
        "status" if subresources.status => PART.contains(&info.verb),
        "scale" if subresources.scale.is_some() => PART.contains(&info.verb),
        _ => return Err(ApiError::not_found(about(row, &info.name))),
    };
    if !takes {
        return Err(not_supported(row, info.verb));
    }
    if info.verb == "patch" {
        patch::check_patch_of_custom(text(&parts.headers, &header::CONTENT_TYPE))?;
    }
    let needs_name = matches!(info.verb, "update" | "patch");
    if needs_name && !info.names_object { Err(ApiError::bad_request("name must be provided")) } else { Ok(()) }
}

/// 405, in the words that custom resources have for it.
fn not_supported(row: &Row, verb: &str) -> ApiError {
    let about = about(row, "");
    let message = format!("{verb} is not supported on resources of kind \"{}.{}\"", about.resource, about.group);
    let mut error = ApiError::new(405, "MethodNotAllowed", message).with_details();
    let details = error.details.get_or_insert_default();
    (details.group, details.kind) = (about.group.to_owned(), about.resource.to_owned());
    error
}
