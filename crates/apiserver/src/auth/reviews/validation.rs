//! What is wrong with an access review (`k8s.io/kubernetes/pkg/apis/authorization/validation`).

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use super::{AUTHORIZATION, text};
use crate::status::ApiError;

const AT_MOST_ONE: &str = "cannot be specified in combination with resourceAttributes";
const EXACTLY_ONE: &str = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
const NOT_BOTH: &str = "may not specified at the same time as requirements";
const WANTS_VALUES: &str = "must be specified when `operator` is 'In' or 'NotIn'";
const WANTS_NO_VALUES: &str = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";

/// Checks a review about anybody.
pub(super) fn check_subject(object: &Value) -> Result<(), ApiError> {
    let mut errors = check_spec(object.get("spec"), true);
    check_metadata(object, &[], "must be empty", &mut errors);
    refuse(&errors)
}

/// Checks a review about oneself.
pub(super) fn check_self(object: &Value) -> Result<(), ApiError> {
    let mut errors = check_spec(object.get("spec"), false);
    check_metadata(object, &[], "must be empty", &mut errors);
    refuse(&errors)
}

/// Checks a review about anybody in `namespace`.
pub(super) fn check_local(object: &Value, namespace: &str) -> Result<(), ApiError> {
    let spec = object.get("spec");
    let mut errors = check_spec(spec, true);
    check_metadata(object, &["namespace"], "must be empty except for namespace", &mut errors);
    if let Some(attributes) = member(spec, "resourceAttributes") {
        let asked = text(Some(attributes), "namespace");
        if asked != namespace {
            let path = Path::new("spec.resourceAttributes.namespace");
            errors.push(FieldError::invalid(&path, asked, "must match metadata.namespace"));
        }
    }
    if let Some(attributes) = member(spec, "nonResourceAttributes") {
        let path = Path::new("spec.nonResourceAttributes");
        errors.push(FieldError::invalid(&path, shown_path(attributes), "disallowed on this kind of request"));
    }
    refuse(&errors)
}

fn refuse(errors: &[FieldError]) -> Result<(), ApiError> {
    // Kubernetes names no kind here: internal reviews do not know theirs.
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(AUTHORIZATION, "", "", errors)) }
}

fn member<'a>(object: Option<&'a Value>, field: &str) -> Option<&'a Value> {
    object.and_then(|object| object.get(field)).filter(|value| !value.is_null())
}

/// Attributes of a path as Go prints the internal type.
fn shown_path(attributes: &Value) -> ShownValue {
    let (path, verb) = (text(Some(attributes), "path"), text(Some(attributes), "verb"));
    ShownValue::raw(format!("{{\"Path\":{},\"Verb\":{}}}", Value::from(path), Value::from(verb)))
}

fn check_spec(spec: Option<&Value>, of_anybody: bool) -> Vec<FieldError> {
    let at = Path::new("spec");
    let (resource, path) = (member(spec, "resourceAttributes"), member(spec, "nonResourceAttributes"));
    let mut errors = Vec::new();
    match (resource, path) {
        (Some(_), Some(path)) => {
            errors.push(FieldError::invalid(&at.child("nonResourceAttributes"), shown_path(path), AT_MOST_ONE));
        }
        (None, None) => {
            let null = ShownValue::raw("null");
            errors.push(FieldError::invalid(&at.child("resourceAttributes"), null, EXACTLY_ONE));
        }
        _ => {}
    }
    let groups = member(spec, "groups").and_then(Value::as_array).unwrap_or_default();
    if of_anybody && text(spec, "user").is_empty() && groups.is_empty() {
        errors.push(FieldError::invalid(&at.child("user"), "", "at least one of user or group must be specified"));
    }
    if let Some(attributes) = resource {
        let at = at.child("resourceAttributes");
        for (field, is_label) in [("fieldSelector", false), ("labelSelector", true)] {
            if let Some(selector) = member(Some(attributes), field) {
                check_selector(selector, &at.child(field), is_label, &mut errors);
            }
        }
    }
    errors
}

fn check_selector(selector: &Value, at: &Path, is_label: bool, errors: &mut Vec<FieldError>) {
    let raw = text(Some(selector), "rawSelector");
    let requirements = member(Some(selector), "requirements").and_then(Value::as_array).unwrap_or_default();
    if !raw.is_empty() && !requirements.is_empty() {
        errors.push(FieldError::invalid(&at.child("rawSelector"), raw, NOT_BOTH));
    }
    if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {at} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(&at.child("requirements"), detail));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        check_requirement(requirement, &at.child("requirements").index(index), is_label, errors);
    }
}

/// Operators that are not known pass: a newer client may mean something by them.
fn check_requirement(requirement: &Value, at: &Path, is_label: bool, errors: &mut Vec<FieldError>) {
    let key = text(Some(requirement), "key");
    let values = member(Some(requirement), "values").and_then(Value::as_array).unwrap_or_default();
    if !is_label && key.is_empty() {
        errors.push(FieldError::required(&at.child("key"), "must be specified"));
    }
    match text(Some(requirement), "operator") {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(&at.child("values"), WANTS_VALUES)),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.push(FieldError::forbidden(&at.child("values"), WANTS_NO_VALUES));
        }
        _ => {}
    }
    if !is_label {
        return;
    }
    for fault in names::qualified_name(key) {
        errors.push(FieldError::invalid(&at.child("key"), key, fault));
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        for fault in names::label_value(value) {
            errors.push(FieldError::invalid(&at.child("values").index(index), value, fault));
        }
    }
}

fn check_metadata(object: &Value, allowed: &[&str], detail: &str, errors: &mut Vec<FieldError>) {
    let Some(metadata) = object.get("metadata").and_then(Value::as_object) else { return };
    let ignored = |key: &str| key == "managedFields" || key == "creationTimestamp" || allowed.contains(&key);
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    };
    if metadata.iter().any(|(key, value)| !ignored(key) && is_set(value)) {
        errors.push(FieldError::invalid(&Path::new("metadata"), shown_metadata(metadata), detail));
    }
}

/// Metadata as Go writes it: in the order of its type.
fn shown_metadata(metadata: &Map) -> ShownValue {
    const MEMBERS: [&str; 14] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
    ];
    const ENTRY: [&str; 7] = ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
    let ordered = |members: &[&str], of: &Map| -> Vec<String> {
        let member = |name: &&str| of.get(name).map(|value| format!("{}:{value}", Value::from(*name)));
        members.iter().filter_map(member).collect()
    };
    let mut members = ordered(&MEMBERS, metadata);
    if let Some(entries) = metadata.get("managedFields").and_then(Value::as_array) {
        let entries = entries.iter().filter_map(Value::as_object);
        let entries: Vec<String> = entries.map(|entry| format!("{{{}}}", ordered(&ENTRY, entry).join(","))).collect();
        members.push(format!("\"managedFields\":[{}]", entries.join(",")));
    }
    ShownValue::raw(format!("{{{}}}", members.join(",")))
}
