//! What writes of definitions need beyond other writes: status and finalizer are set in the same write,
//! so that a definition is served as soon as its create is answered.

use std::sync::Arc;

use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::object::metadata_str;
use allotment_store::{ListQuery, Scope};
use bytes::Bytes;
use tokio::sync::OwnedMutexGuard;

use super::metadata::format_time;
use super::store;
use crate::crd;
use crate::registry::Row;
use crate::server::Context;
use crate::status::ApiError;

fn is_definition(row: &Row) -> bool {
    row.kind.group == "apiextensions.k8s.io" && row.kind.plural == "customresourcedefinitions"
}

/// The turn of a write of a definition, until it is dropped; no other kind has any.
pub(super) type Turn = Option<OwnedMutexGuard<()>>;

/// Sets accepted names, conditions and stored versions. Who else writes a definition has to see what this one
/// got: the turn is kept until the write is done.
pub(super) async fn before_write(cx: &Context, row: &Row, object: &mut Map) -> Result<Turn, ApiError> {
    if !is_definition(row) {
        return Ok(None);
    }
    let turn = Arc::clone(&cx.tenant.naming).lock_owned().await;
    let group = object.get("spec").and_then(|spec| spec.get("group")).and_then(Value::as_str).unwrap_or_default();
    let own = metadata_str(object, "name").unwrap_or_default();
    let scope = Scope { tenant: cx.tenant.tenant.clone(), resource: row.kind.resource(), namespace: None };
    let query = ListQuery { scope, at: None, after: None, limit: 0 };
    let page = cx.server.store().list(query).await.map_err(|error| store::api_error(&error))?;
    let others = crd::NamesInUse::in_group(group, own, &cx.tenant.registry(), &page.entries);
    crd::establish(object, &others, &format_time(cx.server.clock().now()));
    Ok(Some(turn))
}

/// A new object as its creation is answered. Of a definition that is what Kubernetes shows, whose controllers
/// have not looked at it by then: no names and no conditions yet. Whoever reads it next finds them.
pub(super) fn as_created(row: &Row, body: Bytes) -> Result<Bytes, ApiError> {
    if !is_definition(row) {
        return Ok(body);
    }
    let Ok(Value::Object(mut object)) = json::parse(&body) else {
        return Err(ApiError::internal("a definition that was just written cannot be read"));
    };
    crd::forget_observed(&mut object);
    Ok(Bytes::from(Value::Object(object).to_vec()))
}

/// Keeps a definition until its instances are gone.
pub(super) fn before_deletion(cx: &Context, row: &Row, object: &mut Map) {
    if !is_definition(row) {
        return;
    }
    if metadata_str(object, "deletionTimestamp").is_none() {
        crd::begin_deletion(object, &format_time(cx.server.clock().now()));
    }
}
