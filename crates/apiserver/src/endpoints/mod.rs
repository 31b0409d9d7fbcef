//! The generic handlers: one for each verb, for every kind alike.

mod admission;
mod apply;
mod create;
mod decode;
mod definitions;
mod delete;
mod get;
mod list;
pub(crate) mod metadata;
mod options;
mod order;
mod ownership;
mod patch;
pub(crate) mod render;
mod scale;
mod services;
mod store;
mod table;
mod update;
mod watch;

use std::pin::Pin;

use allotment_machinery::field::go_quote;
use allotment_machinery::json::Value;
use bytes::Bytes;
use futures::Stream;

use crate::negotiation::{self, Accept, BodyMedia};
use crate::query::Query;
use crate::registry::{Row, Subresource};
use crate::request::RequestInfo;
use crate::server::Context;
use crate::status::ApiError;

pub(crate) use delete::delete_entry;
pub(crate) use list::ListPage;
pub(crate) use options::Propagation;
pub(crate) use ownership::manager_name;
pub(crate) use store::api_error;

/// A request to a resource that exists.
pub(crate) struct Call<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) row: &'a Row,
    pub(crate) query: &'a Query,
    pub(crate) accept: Accept,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) body: Bytes,
}

/// What a handler answers with.
pub(crate) enum Reply {
    /// One object, in its stored form.
    Object { code: u16, body: Bytes },
    /// A page of a collection.
    List(ListPage),
    /// Something that is not stored.
    Value { code: u16, value: Value },
    /// Events.
    Watch(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Call<'_> {
    /// The namespace that objects of this request lie in; empty for cluster-scoped kinds (the path of a
    /// namespace names itself).
    fn object_namespace(&self) -> String {
        if self.row.kind.namespaced { self.cx.info.namespace.clone() } else { String::new() }
    }

    fn body_media(&self) -> Result<BodyMedia, ApiError> {
        negotiation::body_media(self.content_type)
    }
}

/// Answers a request.
pub(crate) async fn answer(call: &Call<'_>) -> Result<render::Rendered, ApiError> {
    check_scope(call)?;
    if let Some(warning) = call.row.version().deprecation_warning.as_ref().filter(|_| is_routed(call)) {
        call.cx.warn(warning.as_str());
    }
    let reply = match call.cx.info.subresource.as_str() {
        "" => main_resource(call).await?,
        name => Box::pin(subresource(call, name)).await?,
    };
    render::render(call, reply)
}

/// Whether there is something to ask at this path: what is not there cannot be deprecated.
fn is_routed(call: &Call<'_>) -> bool {
    let (version, info) = (call.row.version(), &call.cx.info);
    let named = info.names_object == !matches!(info.verb, "list" | "create" | "deletecollection" | "watch");
    match info.subresource.as_str() {
        "" => version.verbs.contains(&info.verb) && (named || info.verb == "watch"),
        "status" => version.subresources.status,
        "scale" => version.subresources.scale.is_some(),
        other => version.subresources.others.iter().any(|have| have.name == other),
    }
}

/// Whether a path with, or without, a namespace fits the kind.
fn check_scope(call: &Call<'_>) -> Result<(), ApiError> {
    let info = &call.cx.info;
    let itself = info.group.is_empty() && info.resource == "namespaces";
    let fits = match (call.row.kind.namespaced, info.namespace.is_empty()) {
        (false, false) => itself,
        (true, true) => !info.names_object,
        _ => true,
    };
    if !fits || info.has_surplus {
        return Err(ApiError::unknown_resource());
    }
    let needs_namespace = call.row.kind.namespaced && info.namespace.is_empty();
    if needs_namespace && !matches!(info.verb, "list" | "watch") {
        return Err(ApiError::method_not_allowed());
    }
    Ok(())
}

/// Names that could not be told from parts of a path (`k8s.io/apimachinery/pkg/api/validation/path`).
fn check_name(info: &RequestInfo) -> Result<(), ApiError> {
    let name = info.name.as_str();
    let fault = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    Err(ApiError::bad_request(format!("Name parameter invalid: {}: {fault}", go_quote(name))))
}

async fn main_resource(call: &Call<'_>) -> Result<Reply, ApiError> {
    let info = &call.cx.info;
    let verbs = call.row.version().verbs;
    if !verbs.contains(&info.verb) {
        // Reviews and the like have no objects, and so no paths that name one.
        let nameless = info.names_object && verbs == ["create"];
        return Err(if nameless { ApiError::unknown_resource() } else { ApiError::method_not_allowed() });
    }
    if info.names_object {
        check_name(info)?;
    }
    match (info.verb, info.names_object) {
        ("get", true) => get::get(call).await,
        ("list", false) => list::list(call).await,
        ("watch", _) => watch::watch(call).await,
        // In boxes, so that the state of a read does not have the size of the largest write.
        ("create", false) => Box::pin(create::create(call)).await,
        ("update", true) => Box::pin(update::update(call)).await,
        ("patch", true) => Box::pin(patch::patch(call)).await,
        ("delete", true) => Box::pin(delete::delete(call)).await,
        ("deletecollection", false) => Box::pin(delete::delete_collection(call)).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn subresource(call: &Call<'_>, name: &str) -> Result<Reply, ApiError> {
    let (row, info) = (call.row, &call.cx.info);
    let subresources = &row.version().subresources;
    check_name(info)?;
    match name {
        "status" if subresources.status => match info.verb {
            "get" => get::get(call).await,
            "update" => update::update(call).await,
            "patch" => patch::patch(call).await,
            verb => Err(not_supported(row, verb)),
        },
        "scale" if subresources.scale.is_some() => match info.verb {
            "get" | "update" | "patch" => scale::scale(call).await,
            verb => Err(not_supported(row, verb)),
        },
        _ => match subresources.others.iter().find(|other| other.name == name) {
            Some(other) => other_subresource(call, other).await,
            None if row.kind.custom => Err(ApiError::not_found(store::about(row, &info.name))),
            None => Err(ApiError::unknown_resource()),
        },
    }
}

/// 405, in the words that custom resources have for it.
fn not_supported(row: &Row, verb: &str) -> ApiError {
    if !row.kind.custom || verb.is_empty() {
        return ApiError::method_not_allowed();
    }
    let about = store::about(row, "");
    let message = format!("{verb} is not supported on resources of kind \"{}.{}\"", about.resource, about.group);
    let mut error = ApiError::new(405, "MethodNotAllowed", message).with_details();
    let details = error.details.get_or_insert_default();
    (details.group, details.kind) = (about.group.to_owned(), about.resource.to_owned());
    error
}

async fn other_subresource(call: &Call<'_>, subresource: &Subresource) -> Result<Reply, ApiError> {
    let verb = call.cx.info.verb;
    if !subresource.verbs.contains(&verb) {
        return Err(ApiError::method_not_allowed());
    }
    match (&subresource.connect, verb) {
        (Some(connect), "create") => {
            let options = options::WriteOptions::parse(call.query, "CreateOptions")?;
            let object = decode::connected(call, subresource, options.field_validation)?;
            let value = connect.create(call.cx, object).await?;
            Ok(Reply::Value { code: 201, value })
        }
        (_, "get") => get::get(call).await,
        (_, "update") => update::update(call).await,
        (_, "patch") => patch::patch(call).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}
