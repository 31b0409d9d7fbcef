//! Update: replaces an object, its status or another part of it, by compare-and-swap.

use std::ops::Range;
use std::sync::Arc;

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::metadata as rules;
use allotment_machinery::object::{metadata_mut, metadata_str};
use allotment_store::{Entry, Expect, Key};
use bytes::Bytes;

use super::admission::{Admission, Turns};
use super::definitions::Turn;
use super::options::WriteOptions;
use super::store::{self, Refused, about};
use super::{Call, Reply, create, decode, definitions, metadata, ownership, services};
use crate::auth::check_escalation;
use crate::registry::{Operation, Row};
use crate::server::{AdmissionOperation, Context, Held};
use crate::status::ApiError;

/// How often a write that names no revision is tried again when somebody else was faster.
pub(super) const ATTEMPTS: usize = 10;

/// What a conflict says.
pub(super) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Answers a PUT on an object or on a part of it.
pub(super) async fn update(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Call { cx, row, .. } = call;
    let options = WriteOptions::parse(call.query, "UpdateOptions")?;
    let mut object = decode::object(cx, row, call.body_media()?, &call.body, options.field_validation)?;
    check_names(cx, row, &mut object)?;
    let key = store::named(call)?;
    let mut attempts = 0..ATTEMPTS;
    while !attempts.is_empty() {
        let Some(current) = store::find(cx, &key).await? else {
            if row.kind.strategy.creates_on_update() && cx.info.subresource.is_empty() {
                check_creation(row, &object, &key, options.dry_run)?;
                if let Some(metadata) = metadata_mut(&mut object).filter(|_| !options.dry_run) {
                    metadata.remove("resourceVersion");
                }
                // Unlike a POST, it may say that the object is being deleted.
                ownership::own_created(cx, row, &mut object);
                let body = create::store_new(cx, row, object, options.dry_run).await?;
                return Ok(Reply::Object { code: 201, body });
            }
            return Err(ApiError::not_found(about(row, &key.name)));
        };
        check_uid(row, &object, &current, options.dry_run)?;
        // One that names its revision is tried once, and needs no copy.
        let once = given_revision(&object).is_ok_and(|revision| revision != 0);
        let sent = if once { std::mem::take(&mut object) } else { object.clone() };
        match replace(cx, row, current, sent, options, Revision::Sent).await {
            Ok(body) => return Ok(Reply::Object { code: 200, body }),
            Err(raced) => raced.again(&mut attempts)?,
        }
    }
    Err(ApiError::conflict(about(row, &key.name), MODIFIED))
}

fn check_names(cx: &Context, row: &Row, object: &mut Map) -> Result<(), ApiError> {
    create::check_path_namespace(row, object, &cx.info.namespace)?;
    metadata::check_name(object, &cx.info.name)
}

/// A UID in the body of a PUT is a precondition.
pub(super) fn check_uid(row: &Row, object: &Map, current: &Entry, dry_run: bool) -> Result<(), ApiError> {
    let Some(uid) = metadata_str(object, "uid") else { return Ok(()) };
    if current.has_uid(uid) {
        return Ok(());
    }
    let stored = allotment_machinery::json::parse(&current.body()).ok();
    let have = stored.as_ref().and_then(|stored| stored.at(&["metadata", "uid"])).and_then(Value::as_str);
    match have {
        Some(have) if have != uid => {
            let place = Place { row, namespace: &current.namespace, name: &current.name, dry_run };
            Err(place.other_uid(uid, have))
        }
        _ => Ok(()),
    }
}

/// What a PUT that creates may say of what is not there: no UID, and a version that could be one.
fn check_creation(row: &Row, object: &Map, key: &Key, dry_run: bool) -> Result<(), ApiError> {
    match metadata_str(object, "uid").filter(|uid| !uid.is_empty()) {
        Some(uid) => Err(Place { row, namespace: &key.namespace, name: &key.name, dry_run }.other_uid(uid, "")),
        None => given_revision(object).map(|_| ()),
    }
}

/// Where an object lies whose UID is another one than that of the body.
struct Place<'a> {
    row: &'a Row,
    namespace: &'a str,
    name: &'a str,
    dry_run: bool,
}

impl Place<'_> {
    /// 409. A dry run does not come to the storage, and so does not put its prefix before the key.
    fn other_uid(&self, uid: &str, have: &str) -> ApiError {
        let kind = &self.row.kind;
        // Where etcd keeps them there; some have older names.
        let place = match kind.plural.as_str() {
            _ if kind.custom => format!("{}/{}", kind.group, kind.plural),
            "services" => "services/specs".to_owned(),
            "endpoints" => "services/endpoints".to_owned(),
            "replicationcontrollers" => "controllers".to_owned(),
            "ingresses" => "ingress".to_owned(),
            "nodes" => "minions".to_owned(),
            plural => plural.to_owned(),
        };
        let namespace = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        let (prefix, name) = (if self.dry_run { "" } else { "/registry" }, self.name);
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {prefix}/{place}/{namespace}{name}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {have}",
        );
        ApiError::conflict(about(self.row, name), &why)
    }
}

/// The revision that an object names; 0 where it names none.
fn given_revision(object: &Map) -> Result<u64, ApiError> {
    match metadata_str(object, "resourceVersion").unwrap_or_default() {
        "" => Ok(0),
        text => text
            .parse()
            .map_err(|_| ApiError::new(500, "", format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))),
    }
}

/// Why a replacement did not happen.
pub(super) enum Raced {
    /// Somebody else was faster, and the client named no revision: try again on the newest state.
    Again,
    /// The same of one whose turn came after that: nothing was judged yet.
    Overtaken,
    /// It cannot be done.
    Failed(ApiError),
}

impl Raced {
    /// Has it tried again, if it can be. Who was overtaken lost no attempt: somebody else got on.
    pub(super) fn again(self, attempts: &mut Range<usize>) -> Result<(), ApiError> {
        match self {
            Raced::Again => _ = attempts.next(),
            Raced::Overtaken => {}
            Raced::Failed(error) => return Err(error),
        }
        Ok(())
    }
}

impl From<ApiError> for Raced {
    fn from(error: ApiError) -> Self {
        Raced::Failed(error)
    }
}

/// Whose word the revision is that an object to be written names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revision {
    /// The client's: if somebody else was faster, it has to know.
    Sent,
    /// That of the object that a patch was applied to: if somebody else was faster, it is applied again.
    Patched,
}

/// Puts `object` in the place of `current`, and says who owns what from now on; returns the stored form
/// afterwards.
pub(super) async fn replace(
    cx: &Context,
    row: &Row,
    current: Arc<Entry>,
    mut object: Map,
    options: WriteOptions,
    revision: Revision,
) -> Result<Bytes, Raced> {
    let mut old = store::object_of(row, &current.body())?;
    let entries = ownership::take_entries(&mut old);
    ownership::own_updated(cx, row, &old, entries.as_ref(), &mut object);
    let options = WriteOptions { retyped: row.version().schema.settle_numbers(&mut object), ..options };
    if let (Some(metadata), Some(entries)) = (metadata_mut(&mut old), entries) {
        metadata.insert("managedFields", entries);
    }
    replace_owned(cx, row, current, old, object, options, revision).await
}

/// Puts `object`, of which it is said who owns what, in the place of `current`, which is `old`.
pub(super) async fn replace_owned(
    cx: &Context,
    row: &Row,
    current: Arc<Entry>,
    old: Map,
    mut object: Map,
    options: WriteOptions,
    revision: Revision,
) -> Result<Bytes, Raced> {
    let conditional = check_revision(row, &mut object, &current)? && revision == Revision::Sent;
    // As admission sees it, so that it is not copied for each look.
    let old = Value::Object(old);
    let modified = |raced| match raced {
        Raced::Again | Raced::Overtaken if conditional => {
            Raced::Failed(ApiError::conflict(about(row, &current.name), MODIFIED))
        }
        raced => raced,
    };
    let (object, held, _turns) = prepared(cx, row, &old, object, &current, options).await.map_err(modified)?;
    write(cx, row, &current, object, options.dry_run).await.map_err(|raced| {
        if let Raced::Failed(error) = &raced {
            services::after_write(held, Some(error));
        }
        modified(raced)
    })
}

/// Checks the revision that the writer expects and sets the current one; whether the writer named one.
fn check_revision(row: &Row, object: &mut Map, current: &Entry) -> Result<bool, ApiError> {
    let expected = given_revision(object)?;
    if expected == 0 && !row.kind.strategy.updates_unconditionally() {
        let at = Path::new("metadata").child("resourceVersion");
        let error = FieldError::invalid(&at, 0_i64, "must be specified for an update");
        return Err(ApiError::invalid(row.kind.shown_group(), &row.kind.plural, &current.name, &[error]));
    }
    if expected != 0 && expected != current.revision.0 {
        return Err(ApiError::conflict(about(row, &current.name), MODIFIED));
    }
    if let Some(metadata) = metadata_mut(object) {
        metadata.insert("resourceVersion", current.revision.to_string());
    }
    Ok(expected != 0)
}

/// Runs everything that makes of what the client sent the object that is written.
async fn prepared(
    cx: &Context,
    row: &Row,
    before: &Value,
    mut object: Map,
    current: &Entry,
    options: WriteOptions,
) -> Result<(Map, Option<Held>, (Turns, Turn)), Raced> {
    let subresource = cx.info.subresource.as_str();
    let empty = Map::new();
    let old = before.as_object().unwrap_or(&empty);
    let old_metadata = old.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    if let Some(metadata) = metadata_mut(&mut object) {
        metadata::keep_from_old(metadata, old_metadata, options.dry_run);
        metadata::drop_repeated_owners(cx, metadata);
    }
    if subresource == "status" {
        object = with_status_of(row, old, object);
    }
    let operation = AdmissionOperation::Update;
    let (namespace, name) = (&*current.namespace, &*current.name);
    let admission = Admission { cx, row, operation, namespace, name, dry_run: options.dry_run };
    let (object, turns) = admission.turn(object, Some(before)).await?;
    if admission.is_overtaken(&turns, current).await? {
        return Err(Raced::Overtaken);
    }
    let mut object = admission.mutate(object, Some(before)).await?;
    check_escalation(cx, &row.kind.group, &row.kind.plural, &object, Some(old)).await?;
    let operation = Operation::Update { old, subresource };
    let held = services::before_write(cx, row, Some(old), &mut object).await?;
    row.kind.strategy.prepare(operation, &mut object);
    count_generation(row, subresource, options.retyped, old, &mut object);
    if subresource == "scale" && row.kind.custom {
        // A number at a place that no schema knows is a change all the same, and nowhere to be found.
        row.version().schema.decode(&mut object).map_err(|error| ApiError::bad_request(error.message))?;
    }
    validate(row, operation, old, &object, name)?;
    for text in row.kind.strategy.warnings(operation, &object) {
        cx.warn(text);
    }
    row.kind.strategy.canonicalise(&mut object);
    ownership::keep_times(old, &mut object);
    let mut object = admission.validate(object, Some(before)).await?;
    let turn = definitions::before_write(cx, row, &mut object).await?;
    Ok((object, held, (turns, turn)))
}

/// `/status` takes the status, who owns it and, of most built-in kinds, metadata.
fn with_status_of(row: &Row, old: &Map, mut new: Map) -> Map {
    let keeps_metadata = row.kind.custom || row.kind.strategy.status_keeps_metadata();
    let members: &[&str] = if keeps_metadata { &["status"] } else { &["metadata", "status"] };
    let entries = ownership::take_entries(&mut new);
    // What is replaced may be nearly all of it, and is not copied before.
    let kept = old.iter().filter(|(name, _)| !members.contains(name));
    let mut object: Map = kept.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    for member in members {
        if let Some(value) = new.remove(member) {
            object.insert(*member, value);
        }
    }
    if let Some(metadata) = metadata_mut(&mut object) {
        match entries {
            Some(entries) => metadata.insert("managedFields", entries),
            None => metadata.remove("managedFields"),
        };
    }
    object
}

/// Counts a change of what is neither metadata nor status; that of a number's type is one.
fn count_generation(row: &Row, subresource: &str, retyped: bool, old: &Map, new: &mut Map) {
    if !row.kind.strategy.counts_generation() || subresource == "status" {
        return;
    }
    let counts_status = row.kind.custom && !row.version().subresources.status;
    let counted = |(key, _): &(&str, &Value)| *key != "metadata" && (counts_status || *key != "status");
    let same = || old.iter().filter(counted).eq(new.iter().filter(counted));
    let metadata = |object: &'_ Map| {
        let name = row.kind.strategy.counts_metadata()?;
        let value = object.get("metadata").and_then(|metadata| metadata.get(name));
        value.filter(|value| value.as_object().is_none_or(|map| !map.is_empty())).cloned()
    };
    if !retyped && same() && metadata(old) == metadata(new) {
        return;
    }
    if let Some(metadata) = metadata_mut(new) {
        let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
        metadata.insert("generation", generation + 1);
    }
}

fn validate(row: &Row, operation: Operation<'_>, old: &Map, new: &Map, name: &str) -> Result<(), ApiError> {
    create::check_kind(row, Some(old), new)?;
    let empty = Map::new();
    let old_metadata = old.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let new_metadata = new.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    // Kubernetes judges metadata in layers, and each tells what it finds.
    let checks = row.kind.strategy.metadata_checks();
    let mut errors = told(&rules::validate_update(new_metadata, old_metadata), 1 + checks.change);
    errors.extend(told(&rules::validate_always(new_metadata), 1 + checks.whole));
    if checks.core {
        errors.extend(told(&rules::validate_core_finalizers(new_metadata), checks.change + checks.whole));
    }
    let schema = &row.version().schema;
    errors.extend(match operation {
        Operation::Update { subresource: "status", .. } => schema.validate_status(old, new),
        _ => schema.validate(Some(old), new),
    });
    errors.extend(row.kind.strategy.validate(operation, new));
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(row.kind.shown_group(), &row.kind.kind, name, &errors))
    }
}

/// Faults as often as they are found.
fn told(errors: &[FieldError], times: usize) -> Vec<FieldError> {
    (0..times).flat_map(|_| errors.iter().cloned()).collect()
}

/// Whether nothing holds the object back any more whose deletion has begun.
fn is_emptied(row: &Row, object: &Map) -> bool {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let deleting = metadata.is_some_and(|metadata| metadata.contains_key("deletionTimestamp"));
    let finalizers = metadata.and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    deleting && finalizers.unwrap_or_default().is_empty() && !row.kind.strategy.holds_deletion(object)
}

async fn write(cx: &Context, row: &Row, current: &Entry, mut object: Map, dry_run: bool) -> Result<Bytes, Raced> {
    let encoded = if dry_run { store::encode(row, &object) } else { store::encode_to_write(row, &mut object) }?;
    let unchanged = Bytes::from(encoded.at_revision(current.revision.0));
    let emptied = is_emptied(row, &object);
    if dry_run || (current.has_body(&unchanged) && !emptied) {
        return Ok(unchanged);
    }
    let key = current.key(&cx.tenant.tenant);
    let written = if emptied {
        // The last finalizer is gone: the object goes with it, and the client sees its last state at
        // the old revision, as in Kubernetes.
        store::delete(cx, key, current.revision).await.map(|_| unchanged)
    } else {
        let entry = store::put(cx, key, Expect::Revision(current.revision), encoded).await;
        entry.map(|entry| entry.body().into_owned())
    };
    written.map_err(|refused| match refused {
        Refused::Conflict(_) => Raced::Again,
        Refused::Failed(error) => Raced::Failed(error),
    })
}

/// A value as an error shows it, without what it holds.
pub(super) fn unshown() -> ShownValue {
    ShownValue::raw("\"(not shown)\"")
}
