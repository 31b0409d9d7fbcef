//! What handlers ask of the store, with its errors as clients see them and lost replies found out.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use allotment_machinery::gotext::go_quote;
use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::object::{Encoded, metadata_mut};
use allotment_store::{Entry, Expect, Key, Resource, Revision, StoreError, Write};
use bytes::Bytes;

use super::Call;
use crate::registry::Row;
use crate::server::Context;
use crate::status::{About, ApiError, Cause, Details};

/// The largest object that is stored, in bytes: what etcd takes by default, so that objects can move.
const OBJECT_LIMIT: usize = 1_572_864;

/// A stored object that is looked at more than once: where it is held packed, it is unpacked once, and only if it is
/// needed.
pub(super) struct Stored<'a> {
    entry: &'a Entry,
    body: OnceCell<Cow<'a, Bytes>>,
}

impl<'a> Stored<'a> {
    pub(super) fn of(entry: &'a Entry) -> Self {
        Stored { entry, body: OnceCell::new() }
    }

    pub(super) fn entry(&self) -> &'a Entry {
        self.entry
    }

    /// The stored form.
    pub(super) fn body(&self) -> &Bytes {
        self.body.get_or_init(|| self.entry.body())
    }
}

/// The key of an object of a row.
pub(super) fn key(cx: &Context, row: &Row, namespace: &str, name: &str) -> Key {
    Key {
        tenant: cx.tenant.tenant.clone(),
        resource: row.kind.resource(),
        namespace: Arc::from(namespace),
        name: Arc::from(name),
    }
}

/// The key of the object that a request names. Names that could not be told from parts of a path are refused
/// (`k8s.io/apimachinery/pkg/api/validate/content`), by Kubernetes' store and so after all else.
pub(super) fn named(call: &Call<'_>) -> Result<Key, ApiError> {
    let name = call.cx.info.name.as_str();
    let fault = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(key(call.cx, call.row, &call.object_namespace(), name)),
    };
    Err(ApiError::bad_request(format!("Name parameter invalid: {}: {fault}", go_quote(name))))
}

/// What errors call an object of a row.
pub(super) fn about<'a>(row: &'a Row, name: &'a str) -> About<'a> {
    About { group: &row.kind.group, resource: &row.kind.plural, name }
}

/// Why a write did not happen.
pub(super) enum Refused {
    /// The object is not as expected; what is there now.
    Conflict(Option<Arc<Entry>>),
    /// Anything else.
    Failed(ApiError),
}

/// An error of the store as clients see it.
pub(crate) fn api_error(error: &StoreError) -> ApiError {
    match error {
        StoreError::Conflict { .. } => ApiError::new(409, "Conflict", "the object has been modified"),
        // The control plane went while it was asked; from now on its paths lead nowhere either.
        StoreError::NoTenant { .. } => ApiError::unknown_resource(),
        StoreError::Compacted { asked, oldest } => {
            ApiError::expired(format!("too old resource version: {asked} ({oldest})"))
        }
        StoreError::Future { asked, current } => too_large_version(*asked, *current),
        StoreError::ReadOnly { reason } => ApiError::new(
            507,
            "InternalError",
            format!(
                "the store takes no writes until its disk is mended and the server started again; nothing was \
                 written, and reads go on: {reason}"
            ),
        ),
        StoreError::Unknown { reason } => ApiError::new(
            504,
            "Timeout",
            format!(
                "whether the write happened is not known; read the object again before writing it once more: {reason}"
            ),
        ),
        StoreError::Unavailable { .. } => ApiError::unavailable("the store does not answer; nothing was written"),
    }
}

/// 504: the client has seen a revision that this server has not.
pub(super) fn too_large_version(asked: Revision, current: Revision) -> ApiError {
    let cause = Cause {
        reason: "ResourceVersionTooLarge".to_owned(),
        message: "Too large resource version".to_owned(),
        ..Cause::default()
    };
    let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    ApiError { details: Some(Box::new(details)), ..ApiError::new(504, "Timeout", message) }
}

/// The newest state of an object.
pub(super) async fn find(cx: &Context, key: &Key) -> Result<Option<Arc<Entry>>, ApiError> {
    cx.server.store().get(key).await.map_err(|error| api_error(&error))
}

/// The newest state of an object; 404 where there is none.
pub(super) async fn get(cx: &Context, row: &Row, key: &Key) -> Result<Arc<Entry>, ApiError> {
    find(cx, key).await?.ok_or_else(|| ApiError::not_found(about(row, &key.name)))
}

/// Creates or replaces an object.
pub(super) async fn put(cx: &Context, key: Key, expect: Expect, body: Encoded) -> Result<Arc<Entry>, Refused> {
    if body.bytes.len() > OBJECT_LIMIT {
        return Err(Refused::Failed(ApiError::too_large(format_args!("an object may have {OBJECT_LIMIT} bytes"))));
    }
    let write = Write::Put { key: key.clone(), expect, body: body.clone() };
    let entry = match cx.server.store().commit(write).await {
        Ok(outcome) => outcome.entry,
        Err(StoreError::Conflict { current }) => return Err(Refused::Conflict(current)),
        // The reply was lost. If what we meant to write is there, it was written.
        Err(error @ StoreError::Unknown { .. }) => match cx.server.store().get(&key).await {
            Ok(Some(entry)) if entry.has_body(&body.at_revision(entry.revision.0)) => Some(entry),
            _ => return Err(Refused::Failed(api_error(&error))),
        },
        Err(error) => return Err(Refused::Failed(api_error(&error))),
    };
    let entry =
        entry.ok_or_else(|| Refused::Failed(ApiError::internal("the store answered a write without the object")))?;
    cx.server.await_followed(&key.resource, entry.revision).await;
    Ok(entry)
}

/// Takes an object away; its last state at the revision of the deletion, unless the store's reply was lost.
pub(super) async fn delete(cx: &Context, key: Key, expect: Revision) -> Result<Option<Arc<Entry>>, Refused> {
    let resource: Resource = key.resource.clone();
    let write = Write::Delete { key: key.clone(), expect, last: None };
    let outcome = match cx.server.store().commit(write).await {
        Ok(outcome) => outcome,
        Err(StoreError::Conflict { current }) => return Err(Refused::Conflict(current)),
        // The reply was lost. If the object is gone, what was asked for has happened.
        Err(error @ StoreError::Unknown { .. }) => match cx.server.store().get(&key).await {
            Ok(None) => return Ok(None),
            _ => return Err(Refused::Failed(api_error(&error))),
        },
        Err(error) => return Err(Refused::Failed(api_error(&error))),
    };
    cx.server.await_followed(&resource, outcome.revision).await;
    Ok(outcome.entry)
}

/// Whether stored bytes are not simply those of an object of the row's version.
pub(super) fn needs_work(row: &Row) -> bool {
    row.kind.strategy.stores_other_form() || row.version().schema.reads_need_work()
}

/// A stored object as an object of the row's version, with `apiVersion` and `kind`.
pub(super) fn object_of(row: &Row, body: &[u8]) -> Result<Map, ApiError> {
    let parsed = json::parse(body).ok();
    let Some(Value::Object(mut object)) = parsed else {
        return Err(ApiError::internal("a stored object cannot be read"));
    };
    if needs_work(row) {
        row.kind.strategy.to_shown(&mut object);
        row.version().schema.read_stored(&mut object);
    }
    object.insert("apiVersion", row.api_version());
    object.insert("kind", row.kind.kind.as_str());
    Ok(object)
}

/// An object of the row's version as it is stored.
pub(super) fn encode(row: &Row, object: &Map) -> Result<Encoded, ApiError> {
    let storage = row.kind.versions.iter().find(|version| version.storage);
    let other_version = storage.filter(|version| version.name != row.version().name);
    let encoded = if row.kind.strategy.stores_other_form() || other_version.is_some() {
        let mut stored = object.clone();
        row.kind.strategy.to_stored(&mut stored);
        if let Some(version) = other_version {
            // What the version that is stored does not know is lost, as in Kubernetes.
            let decoded = version.schema.decode(&mut stored);
            decoded.map_err(|error| ApiError::bad_request(error.message))?;
        }
        Encoded::of(&stored)
    } else {
        Encoded::of(object)
    };
    encoded.ok_or_else(|| ApiError::internal("an object without a UID cannot be stored"))
}

/// An object as it is written. Who owns what in it is let go of if it is too large with that, as in Kubernetes.
pub(super) fn encode_to_write(row: &Row, object: &mut Map) -> Result<Encoded, ApiError> {
    let encoded = encode(row, object)?;
    if encoded.bytes.len() <= OBJECT_LIMIT {
        return Ok(encoded);
    }
    match metadata_mut(object).and_then(|metadata| metadata.remove("managedFields")) {
        Some(_) => encode(row, object),
        None => Ok(encoded),
    }
}

/// A stored object as one of the row's version, held as the store would hold that, so that a long list of large ones is
/// not there whole. It was made anew only if it had to be.
pub(super) fn entry_in_version(cx: &Context, row: &Row, entry: &Arc<Entry>) -> Result<Arc<Entry>, ApiError> {
    if !needs_work(row) {
        return Ok(Arc::clone(entry));
    }
    let object = object_of(row, &entry.body())?;
    let encoded = Encoded::of(&object).ok_or_else(|| ApiError::internal("a stored object has no UID"))?;
    Ok(Arc::new(Entry::of(entry.key(&cx.tenant.tenant), entry.revision, encoded)))
}

/// The stored bytes as an item of the row's version: without `apiVersion` and `kind`.
pub(super) fn in_version(row: &Row, body: &Bytes) -> Result<Bytes, ApiError> {
    if !needs_work(row) {
        return Ok(body.clone());
    }
    let object = object_of(row, body)?;
    let revision =
        allotment_machinery::object::metadata_str(&object, "resourceVersion").and_then(|text| text.parse().ok());
    let encoded = Encoded::of(&object).ok_or_else(|| ApiError::internal("a stored object has no UID"))?;
    Ok(Bytes::from(revision.map_or_else(|| encoded.bytes.clone(), |revision| encoded.at_revision(revision))))
}
