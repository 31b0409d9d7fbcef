//! Create: from a decoded object to a stored one.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::metadata as rules;
use allotment_machinery::object::{Encoded, metadata_mut, metadata_str};
use allotment_store::Expect;
use bytes::Bytes;

use super::admission::{Admission, check_namespace};
use super::metadata::{drop_repeated_owners, drop_self_link, format_time};
use super::options::WriteOptions;
use super::store::{self, Refused, about};
use super::{Call, Reply, decode, definitions, ownership, pods, services};
use crate::auth::{self, Attributes, Decision, check_escalation};
use crate::registry::{Operation, Row};
use crate::request::RequestInfo;
use crate::server::{AdmissionOperation, Context};
use crate::status::ApiError;

/// What clients cannot set in the metadata of a new object (`rest.WipeObjectMetaSystemFields`).
const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"];
/// How many characters are put to a `generateName`.
const SUFFIX_LENGTH: usize = 5;
/// How often a generated name that is taken is replaced by another one.
const GENERATE_ATTEMPTS: usize = 8;

/// Answers a POST on a collection.
pub(super) async fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Call { cx, row, .. } = call;
    let media = call.body_media()?;
    let options = WriteOptions::parse(call.query, "CreateOptions")?;
    let mut object = decode::object(cx, row, media, &call.body, options.field_validation)?;
    check_path_namespace(row, &mut object, &cx.info.namespace)?;
    own(cx, row, &mut object);
    if let Some(connect) = &row.kind.connect {
        let value = connect.create(cx, Value::Object(object), options.dry_run).await?;
        return Ok(Reply::Value { code: 201, value });
    }
    let body = store_new(cx, row, object, options.dry_run).await?;
    Ok(Reply::Object { code: 201, body })
}

/// Says of an object that is to be made who owns what in it. What the server sets, nobody does.
pub(super) fn own(cx: &Context, row: &Row, object: &mut Map) {
    if let Some(metadata) = metadata_mut(object) {
        for field in SYSTEM_FIELDS {
            metadata.remove(field);
        }
    }
    ownership::own_created(cx, row, object);
    row.version().schema.settle_numbers(object);
}

/// The namespace of the body has to be that of the path, and is filled in from there.
pub(super) fn check_path_namespace(row: &Row, object: &mut Map, namespace: &str) -> Result<(), ApiError> {
    let Some(metadata) = metadata_mut(object) else { return Err(ApiError::bad_request("metadata is no object")) };
    if !row.kind.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    metadata.insert("namespace", namespace);
    Ok(())
}

/// Whether the caller may create what an update or an apply makes where there is nothing.
pub(super) async fn check_access(cx: &Context) -> Result<(), ApiError> {
    let request = RequestInfo { verb: "create", ..cx.info.clone() };
    let attributes = Attributes { user: &cx.user, request: &request, verb: request.verb };
    match auth::authorize(&cx.server, &cx.tenant, &attributes).await {
        Decision::Allow { .. } => Ok(()),
        Decision::NoOpinion { reason } => Err(auth::forbidden(&attributes, &reason)),
    }
}

/// Stores a new object that has a name; `None` where there is one of that name already.
pub(super) async fn store_named(
    cx: &Context,
    row: &Row,
    mut object: Map,
    dry_run: bool,
) -> Result<Option<Bytes>, ApiError> {
    let (namespace, name) = (cx.info.namespace.as_str(), cx.info.name.as_str());
    if let Some(metadata) = metadata_mut(&mut object) {
        drop_repeated_owners(cx, metadata);
    }
    let admission = admitted(cx, row, namespace, name, dry_run).await?;
    pods::before_create(cx, row, &mut object).await?;
    let (object, _turns) = admission.turn(object, None).await?;
    let object = admission.mutate(object, None).await?;
    match attempt(&admission, object, dry_run).await {
        Ok(body) => Ok(Some(body)),
        Err(Taken::Yes(_)) => Ok(None),
        Err(Taken::No(error)) => Err(error),
    }
}

/// The write of a new object, once it is known that new ones are taken there.
async fn admitted<'a>(
    cx: &'a Context,
    row: &'a Row,
    namespace: &'a str,
    name: &'a str,
    dry_run: bool,
) -> Result<Admission<'a>, ApiError> {
    if !row.kind.strategy.takes_new() {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(about(row, name), why));
    }
    let namespace = if row.kind.namespaced { namespace } else { "" };
    if row.kind.namespaced {
        check_namespace(cx, row, namespace, name).await?;
    }
    Ok(Admission { cx, row, operation: AdmissionOperation::Create, namespace, name, dry_run })
}

/// Stores a new object, under a generated name if it has none; returns its stored form.
pub(super) async fn store_new(cx: &Context, row: &Row, mut object: Map, dry_run: bool) -> Result<Bytes, ApiError> {
    let text = |field: &str| metadata_str(&object, field).unwrap_or_default().to_owned();
    let (name, generate_name, namespace) = (text("name"), text("generateName"), text("namespace"));
    if let Some(metadata) = metadata_mut(&mut object) {
        drop_repeated_owners(cx, metadata);
    }
    let admission = admitted(cx, row, &namespace, &name, dry_run).await?;
    pods::before_create(cx, row, &mut object).await?;
    let (object, _turns) = admission.turn(object, None).await?;
    let object = admission.mutate(object, None).await?;
    if generate_name.is_empty() {
        return attempt(&admission, object, dry_run).await.map_err(Into::into);
    }
    if !name.is_empty() {
        return attempt(&admission, object, dry_run).await.map_err(not_generated);
    }
    for _ in 1..GENERATE_ATTEMPTS {
        match attempt(&admission, with_generated_name(cx, &object, &generate_name), dry_run).await {
            Err(Taken::Yes(_)) => {}
            done => return done.map_err(Into::into),
        }
    }
    attempt(&admission, with_generated_name(cx, &object, &generate_name), dry_run).await.map_err(not_generated)
}

/// The name is taken, and the client asked for one that is not, be it that it gave one all the same.
fn not_generated(taken: Taken) -> ApiError {
    match taken {
        Taken::No(error) => error,
        Taken::Yes(mut error) => {
            error.message.push_str(", the server was not able to generate a unique name for the object");
            error.details.get_or_insert_default().retry_after_seconds = 1;
            error
        }
    }
}

fn with_generated_name(cx: &Context, object: &Map, generate_name: &str) -> Map {
    let mut object = object.clone();
    let name = allotment_machinery::names::generated(generate_name, &cx.server.entropy().suffix(SUFFIX_LENGTH));
    if let Some(metadata) = metadata_mut(&mut object) {
        metadata.insert("name", name);
    }
    object
}

/// Whether an attempt failed only since the name is taken.
enum Taken {
    Yes(ApiError),
    No(ApiError),
}

impl From<ApiError> for Taken {
    fn from(error: ApiError) -> Self {
        Taken::No(error)
    }
}

impl From<Taken> for ApiError {
    fn from(taken: Taken) -> Self {
        match taken {
            Taken::Yes(error) | Taken::No(error) => error,
        }
    }
}

async fn attempt(admission: &Admission<'_>, mut object: Map, dry_run: bool) -> Result<Bytes, Taken> {
    let Admission { cx, row, .. } = *admission;
    check_escalation(cx, &row.kind.group, &row.kind.plural, &object, None).await?;
    set_system_fields(cx, row, &mut object, dry_run)?;
    let held = services::before_write(cx, row, None, &mut object).await?;
    row.kind.strategy.prepare(Operation::Create, &mut object);
    validate(row, &object)?;
    for text in row.kind.strategy.warnings(Operation::Create, &object) {
        cx.warn(text);
    }
    row.kind.strategy.canonicalise(&mut object);
    pods::check_overhead(cx, row, &object).await?;
    let mut object = admission.validate(object, None).await?;
    let _turn = definitions::before_write(cx, row, &mut object).await?;
    let encoded = if dry_run { store::encode(row, &object) } else { store::encode_to_write(row, &mut object) }?;
    let name = metadata_str(&object, "name").unwrap_or_default();
    let key = store::key(cx, row, metadata_str(&object, "namespace").unwrap_or_default(), name);
    if !dry_run {
        check_no_version(&object)?;
    }
    if dry_run {
        return match store::find(cx, &key).await? {
            Some(current) => Err(Taken::Yes(already_exists(row, &object, Some(&current.body())))),
            None => Ok(definitions::as_created(row, unstored(&object, encoded)?)?),
        };
    }
    match store::put(cx, key, Expect::Absent, encoded).await {
        Ok(entry) => Ok(definitions::as_created(row, entry.body().into_owned())?),
        Err(Refused::Conflict(current)) => {
            let current = current.as_ref().map(|entry| entry.body());
            Err(Taken::Yes(already_exists(row, &object, current.as_ref().map(|body| &***body))))
        }
        Err(Refused::Failed(error)) => {
            services::after_write(held, Some(&error));
            Err(Taken::No(error))
        }
    }
}

/// What a dry run answers with: the object as it would be stored, with the version that the client gave it.
fn unstored(object: &Map, encoded: Encoded) -> Result<Bytes, ApiError> {
    let Some(version) = metadata_str(object, "resourceVersion").filter(|version| !version.is_empty()) else {
        return Ok(Bytes::from(encoded.bytes));
    };
    let Ok(Value::Object(mut object)) = json::parse(&encoded.bytes) else {
        return Err(ApiError::internal("an object that was just written cannot be read"));
    };
    if let Some(metadata) = metadata_mut(&mut object) {
        metadata.insert("resourceVersion", version);
    }
    Ok(Bytes::from(Value::Object(object).to_vec()))
}

fn already_exists(row: &Row, object: &Map, current: Option<&[u8]>) -> ApiError {
    let mut about = about(row, metadata_str(object, "name").unwrap_or_default());
    // Where a name was to be generated, it is the kind that errors name, not what the path says.
    if metadata_str(object, "generateName").is_some_and(|prefix| !prefix.is_empty()) {
        about.group = row.kind.shown_group();
    }
    let mut error = ApiError::already_exists(about);
    let current = current.and_then(|body| json::parse(body).ok());
    if current.is_some_and(|object| object.at(&["metadata", "deletionTimestamp"]).is_some()) {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}

/// Sets what the server alone sets (`rest.FillObjectMetaSystemFields`).
fn set_system_fields(cx: &Context, row: &Row, object: &mut Map, dry_run: bool) -> Result<(), ApiError> {
    let Some(metadata) = metadata_mut(object) else { return Err(ApiError::bad_request("metadata is no object")) };
    drop_self_link(metadata, dry_run);
    metadata.insert("uid", cx.server.entropy().uid());
    metadata.insert("creationTimestamp", format_time(cx.server.clock().now()));
    if row.kind.strategy.counts_generation() {
        metadata.insert("generation", 1_i64);
    }
    if row.kind.strategy.names_itself() && metadata.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
        metadata.insert("name", cx.server.entropy().uid());
    }
    Ok(())
}

/// Custom kinds find only here that an object is of another one. Its values are not looked at then, but the
/// resources and lists in it are.
pub(super) fn check_kind(row: &Row, old: Option<&Map>, object: &Map) -> Result<(), ApiError> {
    let given = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if given == row.kind.kind {
        return Ok(());
    }
    let mut errors = vec![FieldError::invalid(&Path::new("kind"), given, format!("must be {}", row.kind.kind))];
    errors.extend(row.version().schema.validate_parts(old, object));
    Err(ApiError::invalid(&row.kind.group, given, metadata_str(object, "name").unwrap_or_default(), &errors))
}

/// A new object has no version yet; what is no version at all is none either. Kubernetes' storage finds it,
/// after everything else, and a dry run does not come that far.
fn check_no_version(object: &Map) -> Result<(), ApiError> {
    let given = metadata_str(object, "resourceVersion").unwrap_or_default();
    match given.parse::<u64>() {
        Ok(0) | Err(_) => Ok(()),
        Ok(_) => Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created")),
    }
}

fn validate(row: &Row, object: &Map) -> Result<(), ApiError> {
    check_kind(row, None, object)?;
    let empty = Map::new();
    let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut errors = row.version().schema.validate(None, object);
    errors.extend(row.kind.strategy.validate(Operation::Create, object));
    if row.kind.strategy.metadata_checks().core {
        errors.extend(rules::validate_core_finalizers(metadata));
    }
    // What holds for all kinds is looked at in the end where the kind itself does not look at it.
    if errors.is_empty() || row.kind.strategy.validates_metadata() {
        let rule = row.kind.strategy.name_rule();
        errors.splice(0..0, rules::validate_create(metadata, row.kind.namespaced, rule));
    }
    if errors.is_empty() {
        return Ok(());
    }
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    Err(ApiError::invalid(row.kind.shown_group(), &row.kind.kind, name, &errors))
}
