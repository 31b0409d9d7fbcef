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
pub(crate) mod pods;
pub(crate) mod render;
mod route;
mod scale;
mod services;
mod store;
mod table;
mod update;
mod watch;

use std::pin::Pin;

use allotment_machinery::json::Value;
use bytes::Bytes;
use futures::Stream;

use crate::negotiation::{self, Accept, BodyMedia};
use crate::query::Query;
use crate::registry::Row;
use crate::server::Context;
use crate::status::ApiError;

pub(crate) use delete::delete_entry;
pub(crate) use list::ListPage;
pub(crate) use options::Propagation;
pub(crate) use ownership::manager_name;
pub(crate) use pods::await_account;
pub(crate) use route::negotiate;
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
    /// Nothing at all: 204.
    Nothing,
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
    let reply = match call.cx.info.subresource.as_str() {
        "" => main_resource(call).await?,
        name => Box::pin(subresource(call, name)).await?,
    };
    render::render(call, reply).await
}

async fn main_resource(call: &Call<'_>) -> Result<Reply, ApiError> {
    match call.cx.info.verb {
        "get" => get::get(call).await,
        "list" => list::list(call).await,
        "watch" => watch::watch(call).await,
        // In boxes, so that the state of a read does not have the size of the largest write.
        "create" => Box::pin(create::create(call)).await,
        "update" => Box::pin(update::update(call)).await,
        "patch" => Box::pin(patch::patch(call)).await,
        "delete" => Box::pin(delete::delete(call)).await,
        "deletecollection" => Box::pin(delete::delete_collection(call)).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn subresource(call: &Call<'_>, name: &str) -> Result<Reply, ApiError> {
    let subresources = &call.row.version().subresources;
    if name == "scale" && subresources.scale.is_some() {
        return scale::scale(call).await;
    }
    let connect = subresources.others.iter().find(|other| other.name == name).and_then(|other| {
        let connect = other.connect.as_ref()?;
        Some((other, connect))
    });
    match (connect, call.cx.info.verb) {
        (Some((_, connect)), _) if connect.streams() => {
            connect.stream(call.cx, call.query).await?;
            Ok(Reply::Nothing)
        }
        (Some((subresource, connect)), "create") => {
            let options = options::WriteOptions::parse(call.query, "CreateOptions")?;
            let object = decode::connected(call, subresource, options.field_validation)?;
            let value = connect.create(call.cx, object, options.dry_run).await?;
            Ok(Reply::Value { code: 201, value })
        }
        (_, "get") => get::get(call).await,
        (_, "update") => update::update(call).await,
        (_, "patch") => patch::patch(call).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}
