//! Delete: begins a deletion, or carries it out where nothing holds the object back.

use std::sync::Arc;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use allotment_machinery::object::{metadata_mut, metadata_str};
use allotment_store::{Entry, Expect};
use bytes::Bytes;

use super::admission::Admission;
use super::list::{self, Selection};
use super::metadata::format_time;
use super::options::{DeleteOptions, ListOptions, Propagation};
use super::store::{self, Refused, about};
use super::update::ATTEMPTS;
use super::{Call, Reply, decode, definitions};
use crate::negotiation::BodyMedia;
use crate::registry::Row;
use crate::server::{AdmissionOperation, Context};
use crate::status::{About, ApiError};

/// Answers a DELETE on an object.
pub(super) async fn delete(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Call { cx, row, .. } = call;
    let options = options(call)?;
    warn_of_orphans(call, &options);
    let key = store::named(call)?;
    let current = store::get(cx, row, &key).await?;
    let deleted = delete_object(cx, row, current, &options).await?;
    Ok(match deleted {
        Deleted::Gone { uid, body } if !row.kind.strategy.delete_answers_object() => {
            let _ = body;
            Reply::Value { code: 200, value: success(row, &cx.info.name, &uid) }
        }
        Deleted::Gone { body, .. } => Reply::Object { code: 200, body },
        Deleted::Marked { body } => Reply::Object { code: if options.answers_accepted { 202 } else { 200 }, body },
    })
}

/// Answers a DELETE on a collection: deletes what the selectors select, and shows it as it was.
pub(super) async fn delete_collection(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Call { cx, row, .. } = call;
    let list_options = ListOptions::parse(call.query)?;
    let selection = Selection::of(row, &list_options)?;
    let options = options(call)?;
    warn_of_orphans(call, &options);
    let page = list::page(call, &list_options, &selection).await?;
    for entry in &page.entries {
        match delete_object(cx, row, Arc::clone(entry), &options).await {
            Ok(_) => {}
            // Somebody else deleted it meanwhile.
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Reply::List(page))
}

/// Tells whoever does not say what becomes of dependents, where that is not what most kinds do.
fn warn_of_orphans(call: &Call<'_>, options: &DeleteOptions) {
    if options.propagation.is_none()
        && let Some(text) = call.row.kind.strategy.orphans_unasked().filter(|text| !text.is_empty())
    {
        call.cx.warn(text);
    }
}

fn options(call: &Call<'_>) -> Result<DeleteOptions, ApiError> {
    if call.body.is_empty() {
        return DeleteOptions::parse(call.query, None);
    }
    let media = call.body_media()?;
    if media == BodyMedia::Protobuf {
        let value = decode::protobuf_options(&call.body).map_err(ApiError::bad_request)?;
        return DeleteOptions::parse(call.query, Some(&value));
    }
    let parsed = decode::parse(media, &call.body, call.row)
        .map_err(|fault| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {fault}")))?;
    DeleteOptions::parse(call.query, Some(&decode::delete_options(parsed.value)?))
}

fn success(row: &Row, name: &str, uid: &str) -> Value {
    let mut details = Map::new();
    let members = [("name", name), ("group", row.kind.group.as_str()), ("kind", &row.kind.plural), ("uid", uid)];
    for (key, text) in members.into_iter().filter(|(_, text)| !text.is_empty()) {
        details.insert(key, text);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// What a deletion did.
pub(super) enum Deleted {
    /// The object is gone; its last state.
    Gone { uid: String, body: Bytes },
    /// The deletion has begun and waits for finalizers; the object now.
    Marked { body: Bytes },
}

/// Deletes one object, as far as its finalizers let it.
async fn delete_object(
    cx: &Context,
    row: &Row,
    mut current: Arc<Entry>,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    let key = current.key(&cx.tenant.tenant);
    let mut attempts = 0..ATTEMPTS;
    while !attempts.is_empty() {
        let old = store::object_of(row, &current.body())?;
        check_preconditions(row, &old, &current, options)?;
        if let Some(why) = row.kind.strategy.refuses_deletion(&old) {
            return Err(ApiError::forbidden(about(row, &current.name), &why));
        }
        let (namespace, name) = (&*current.namespace, &*current.name);
        let operation = AdmissionOperation::Delete;
        let admission = Admission { cx, row, operation, namespace, name, dry_run: options.dry_run };
        let old = Value::Object(old);
        let turns = admission.turn_to_delete(&old).await?;
        if admission.is_overtaken(&turns, &current).await? {
            current = store::get(cx, row, &key).await?;
            continue;
        }
        attempts.next();
        admission.delete(&old).await?;
        let Value::Object(old) = old else { return Err(ApiError::internal("an object that is stored is none")) };
        match attempt(cx, row, &current, old, options).await {
            Ok(deleted) => return Ok(deleted),
            Err(Refused::Failed(error)) => return Err(error),
            Err(Refused::Conflict(_)) => current = store::get(cx, row, &key).await?,
        }
    }
    Err(ApiError::conflict(about(row, &current.name), "the object keeps changing; please try again"))
}

/// Deletes an object as a controller does, if it still is as `current` has it: 409 where it changed.
pub(crate) async fn delete_entry(
    cx: &Context,
    row: &Row,
    current: Arc<Entry>,
    propagation: Option<Propagation>,
) -> Result<(), ApiError> {
    let resource_version = Some(current.revision.to_string());
    let options = DeleteOptions { propagation, resource_version, ..DeleteOptions::default() };
    delete_object(cx, row, current, &options).await.map(|_| ())
}

/// Deletes a pod that is evicted, as it was found.
pub(super) async fn delete_evicted(
    cx: &Context,
    row: &Row,
    current: Arc<Entry>,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let resource_version = Some(current.revision.to_string());
    let options = DeleteOptions { resource_version, ..options.clone() };
    delete_object(cx, row, current, &options).await.map(|_| ())
}

pub(super) fn check_preconditions(
    row: &Row,
    old: &Map,
    current: &Entry,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let about = About { group: row.kind.shown_group(), resource: &row.kind.kind, name: &current.name };
    let uid = metadata_str(old, "uid").unwrap_or_default();
    // Namespaces and definitions look at them before the storage does, and have other words for it.
    let kind = &row.kind;
    let looks_first = !kind.custom && matches!(kind.plural.as_str(), "namespaces" | "customresourcedefinitions");
    let failed = |what: &str, asked: &str, have: &str| {
        let why = format!("Precondition failed: {what} in precondition: {asked}, {what} in object meta: {have}");
        ApiError::conflict(store::about(row, &current.name), &why)
    };
    if let Some(asked) = options.uid.as_deref().filter(|asked| *asked != uid) {
        if looks_first {
            return Err(failed("UID", asked, uid));
        }
        let why = format!(
            "the UID in the precondition ({asked}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        );
        return Err(ApiError::conflict(about, &why));
    }
    let revision = current.revision.to_string();
    if let Some(asked) = options.resource_version.as_deref().filter(|asked| *asked != revision) {
        if looks_first {
            return Err(failed("ResourceVersion", asked, &revision));
        }
        let why = format!(
            "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record \
             ({revision}). The object might have been modified"
        );
        return Err(ApiError::conflict(about, &why));
    }
    Ok(())
}

async fn attempt(
    cx: &Context,
    row: &Row,
    current: &Entry,
    mut object: Map,
    options: &DeleteOptions,
) -> Result<Deleted, Refused> {
    let key = current.key(&cx.tenant.tenant);
    let propagation = options.propagation.or_else(|| unasked(row, &object));
    set_finalizers(&mut object, propagation);
    definitions::before_deletion(cx, row, &mut object);
    let uid = metadata_str(&object, "uid").unwrap_or_default().to_owned();
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    if finalizers.unwrap_or_default().is_empty() && !row.kind.strategy.holds_deletion(&object) {
        let last = if options.dry_run { None } else { store::delete(cx, key, current.revision).await? };
        // Its last state, at the revision of the deletion.
        let revision = last.as_ref().map_or(current.revision, |entry| entry.revision);
        let mut body = last.as_deref().unwrap_or(current).body().into_owned();
        if row.kind.strategy.ends_gracefully() {
            begin_deletion(cx, row, &mut object);
            let encoded = store::encode(row, &object).map_err(Refused::Failed)?;
            body = Bytes::from(encoded.at_revision(revision.0));
        }
        return Ok(Deleted::Gone { uid, body });
    }
    begin_deletion(cx, row, &mut object);
    let encoded = store::encode(row, &object).map_err(Refused::Failed)?;
    let unchanged = Bytes::from(encoded.at_revision(current.revision.0));
    if options.dry_run || current.has_body(&unchanged) {
        return Ok(Deleted::Marked { body: unchanged });
    }
    let entry = store::put(cx, key, Expect::Revision(current.revision), encoded).await?;
    Ok(Deleted::Marked { body: entry.body().into_owned() })
}

/// What becomes of dependents where nobody says it: what finalizers say holds, else what the kind does.
fn unasked(row: &Row, object: &Map) -> Option<Propagation> {
    row.kind.strategy.orphans_unasked()?;
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    let said = |value: &Value| matches!(value.as_str(), Some(FINALIZER_FOREGROUND | FINALIZER_ORPHAN));
    (!finalizers.unwrap_or_default().iter().any(said)).then_some(Propagation::Orphan)
}

/// The finalizers by which the garbage collector is asked to treat dependents as wished.
fn set_finalizers(object: &mut Map, propagation: Option<Propagation>) {
    let wanted = match propagation {
        // What the finalizers say already holds.
        None => return,
        Some(Propagation::Foreground) => Some(FINALIZER_FOREGROUND),
        Some(Propagation::Orphan) => Some(FINALIZER_ORPHAN),
        Some(Propagation::Background) => None,
    };
    let Some(metadata) = metadata_mut(object) else { return };
    let have = metadata.get("finalizers").and_then(Value::as_array).unwrap_or_default();
    let ours = |value: &Value| matches!(value.as_str(), Some(FINALIZER_FOREGROUND | FINALIZER_ORPHAN));
    let mut finalizers: Vec<Value> =
        have.iter().filter(|value| !ours(value) || value.as_str() == wanted).cloned().collect();
    if let Some(wanted) = wanted
        && !finalizers.iter().any(|value| value.as_str() == Some(wanted))
    {
        finalizers.push(Value::from(wanted));
    }
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers", finalizers);
    }
}

/// Marks an object as going away; done again it changes nothing.
fn begin_deletion(cx: &Context, row: &Row, object: &mut Map) {
    let Some(metadata) = metadata_mut(object) else { return };
    if metadata.contains_key("deletionTimestamp") {
        return;
    }
    metadata.insert("deletionTimestamp", format_time(cx.server.clock().now()));
    metadata.insert("deletionGracePeriodSeconds", 0_i64);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|count| *count > 0) {
        metadata.insert("generation", generation + 1);
    }
    row.kind.strategy.begin_deletion(object);
}
