//! Patch: an update whose new object is made from the current one.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::object::metadata_str;
use allotment_machinery::patch::json::{JsonPatch, JsonPatchDecodeError};
use allotment_machinery::patch::merge;

use super::options::{FieldValidation, WriteOptions};
use super::store::{self, about};
use super::update::{ATTEMPTS, MODIFIED, Revision, replace, unshown};
use super::{Call, Reply, apply, create, decode, metadata};
use crate::negotiation::unsupported_media;
use crate::registry::Row;
use crate::status::ApiError;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_YAML: &str = "application/apply-patch+yaml";

/// What custom resources take.
const CUSTOM: [&str; 3] = [JSON_PATCH, MERGE_PATCH, APPLY_YAML];
/// What built-in kinds take.
const BUILT_IN: [&str; 4] = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_YAML];

/// A kind of patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Answers a PATCH on an object or on a part of it.
pub(super) async fn patch(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Call { cx, row, .. } = call;
    let patch_type = patch_type(call)?;
    if patch_type == PatchType::Apply {
        return apply::apply(call).await;
    }
    let options = WriteOptions::parse_patch(call.query)?;
    let key = store::named(call)?;
    let mut attempts = 0..ATTEMPTS;
    while !attempts.is_empty() {
        let current = store::get(cx, row, &key).await?;
        let old = store::object_of(row, &current.body())?;
        let object = patched(call, patch_type, old, options.field_validation)?;
        match replace(cx, row, current, object, options, Revision::Patched).await {
            Ok(body) => return Ok(Reply::Object { code: 200, body }),
            Err(raced) => raced.again(&mut attempts)?,
        }
    }
    Err(ApiError::conflict(about(row, &key.name), MODIFIED))
}

/// The media type of a patch: unlike other bodies', it has to be written as it is.
fn patch_media(header: Option<&str>) -> &str {
    header.unwrap_or_default().split(';').next().unwrap_or_default()
}

/// Whether it is a patch that built-in kinds take.
pub(super) fn is_patch_of_built_in(header: Option<&str>) -> bool {
    BUILT_IN.contains(&patch_media(header))
}

/// Refuses what is no patch that custom resources take.
pub(super) fn check_patch_of_custom(header: Option<&str>) -> Result<(), ApiError> {
    if CUSTOM.contains(&patch_media(header)) { Ok(()) } else { Err(unsupported_media(&CUSTOM.join(", "))) }
}

fn patch_type(call: &Call<'_>) -> Result<PatchType, ApiError> {
    match patch_media(call.content_type) {
        JSON_PATCH => Ok(PatchType::Json),
        MERGE_PATCH => Ok(PatchType::Merge),
        STRATEGIC_PATCH => Ok(PatchType::Strategic),
        APPLY_YAML => Ok(PatchType::Apply),
        _ => Err(unsupported_media(&BUILT_IN.join(", "))),
    }
}

/// What the patch in the body makes of `old`, brought into shape.
fn patched(call: &Call<'_>, patch_type: PatchType, old: Map, validation: FieldValidation) -> Result<Map, ApiError> {
    let row = call.row;
    let decoding = |error: &dyn std::fmt::Display| ApiError::bad_request(format!("error decoding patch: {error}"));
    let parsed = json::parse_with_duplicates(&call.body).map_err(|error| decoding(&error))?;
    // Operations that name no place in an object are told of by their place in the patch.
    let whose = if patch_type == PatchType::Json { "json patch " } else { "" };
    let mut complaints: Vec<String> =
        parsed.duplicates.iter().map(|path| format!("{whose}duplicate field {path:?}")).collect();
    let patched = match patch_type {
        PatchType::Json => apply_json(parsed.value, old, &mut complaints)?,
        PatchType::Merge | PatchType::Strategic | PatchType::Apply => {
            let patch = match parsed.value {
                Value::Object(patch) => patch,
                // A strategic merge patch of nothing changes nothing.
                Value::Null if patch_type == PatchType::Strategic => Map::new(),
                Value::Null => return Err(ApiError::bad_request("Invalid JSON Patch")),
                other => {
                    let found = other.type_name();
                    return Err(decoding(&format_args!(
                        "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
                    )));
                }
            };
            if patch_type == PatchType::Strategic {
                Value::Object(apply_strategic(row, &old, &patch)?)
            } else {
                merge::apply(Value::Object(old), Value::Object(patch))
            }
        }
    };
    let Value::Object(mut object) = patched else {
        return Err(invalid_result("the result of the patch is no object"));
    };
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if row.kind.custom && call.cx.info.subresource == "status" && !kind.is_empty() {
        // Nothing but the status is taken from it.
        object.insert("kind", row.kind.kind.as_str());
    }
    check_unmoved(row, patch_type, &mut object)?;
    let complaints = decode::shape(row, &mut object, complaints).map_err(|error| invalid_result(&error.message))?;
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => complaints.into_iter().for_each(|text| call.cx.warn(text)),
        FieldValidation::Strict if complaints.is_empty() => {}
        FieldValidation::Strict => {
            return Err(invalid_result(&format!("strict decoding error: {}", complaints.join(", "))));
        }
    }
    create::check_path_namespace(row, &mut object, &call.cx.info.namespace)?;
    metadata::check_name(&object, &call.cx.info.name)?;
    Ok(object)
}

/// A patch cannot make another kind of an object. What it takes away of the type of a built-in object is
/// filled in again.
fn check_unmoved(row: &Row, patch_type: PatchType, object: &mut Map) -> Result<(), ApiError> {
    let is_text = |member: &str| matches!(object.get(member), None | Some(Value::Null | Value::String(_)));
    if patch_type == PatchType::Strategic && is_text("kind") && is_text("apiVersion") {
        // Its result is read as what the object is, whatever it calls itself.
        object.insert("kind", row.kind.kind.as_str());
        object.insert("apiVersion", row.api_version());
        return Ok(());
    }
    let text = |member: &str| object.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (given_version, given_kind) = (text("apiVersion"), text("kind"));
    for (member, given, own) in
        [("kind", &given_kind, row.kind.kind.clone()), ("apiVersion", &given_version, row.api_version())]
    {
        if *given == own || (given.is_empty() && !row.kind.custom) {
            object.insert(member, own);
        } else if row.kind.custom && !given.is_empty() {
            let group = given_version.split_once('/').map_or("", |(group, _)| group);
            let error = FieldError::invalid(&Path::new(member), given, format!("must be {own}"));
            let name = metadata_str(object, "name").unwrap_or_default();
            return Err(ApiError::invalid(group, &given_kind, name, &[error]));
        } else {
            return Err(invalid_result(&format!("{member} has to be {own:?} and cannot be changed to {given:?}")));
        }
    }
    Ok(())
}

/// 422: the patch applies, but what comes out is no object of the kind. The object is not shown, since the
/// client may not be allowed to read it.
pub(super) fn invalid_result(why: &str) -> ApiError {
    ApiError::invalid("", "", "", &[FieldError::invalid(&Path::new("patch"), unshown(), why)])
}

fn apply_json(patch: Value, old: Map, complaints: &mut Vec<String>) -> Result<Value, ApiError> {
    let patch = JsonPatch::decode(patch).map_err(|error| match error {
        JsonPatchDecodeError::TooMany(_) => ApiError::too_large(error),
        JsonPatchDecodeError::NotAList(_) => ApiError::bad_request(error.to_string()),
    })?;
    complaints
        .extend(patch.unknown().take(decode::MAX_COMPLAINTS).map(|path| format!("json patch unknown field {path:?}")));
    // Kubernetes does not tell which operation failed; clients compare the text.
    patch.apply(Value::Object(old)).map_err(|_| {
        let message = "the server rejected our request due to an error in our request";
        ApiError::new(422, "Invalid", message).with_details()
    })
}

fn apply_strategic(row: &Row, old: &Map, patch: &Map) -> Result<Map, ApiError> {
    match row.version().schema.strategic_merge(old, patch) {
        Some(Ok(object)) => Ok(object),
        Some(Err(error)) => Err(ApiError::bad_request(error.message)),
        None => Err(unsupported_media(&CUSTOM.join(", "))),
    }
}

/// Whether the patch is an apply.
pub(super) fn is_apply(call: &Call<'_>) -> bool {
    patch_type(call) == Ok(PatchType::Apply)
}

/// What a patch that is no apply makes of a value that is not stored itself (a `Scale`).
pub(super) fn apply_to_value(call: &Call<'_>, value: Value, patch: Value) -> Result<Value, ApiError> {
    match patch_type(call)? {
        PatchType::Json => match value {
            Value::Object(map) => apply_json(patch, map, &mut Vec::new()),
            other => Ok(other),
        },
        // A Scale has no lists, so that the two are the same.
        PatchType::Merge | PatchType::Strategic | PatchType::Apply => Ok(merge::apply(value, patch)),
    }
}
