//! What custom resources with `/scale` have to keep to, whoever writes them
//! (`k8s.io/apiextensions-apiserver/pkg/registry/customresource`).

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::gotext::{go_plain, go_type};
use allotment_machinery::json::{Map, Value};

use crate::registry::Scale;

/// What is wrong with the numbers and the selector of an object, or with its status alone.
pub(super) fn check(scale: &Scale, status_only: bool, object: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !status_only {
        errors.extend(check_count(&scale.spec_replicas, object));
        errors.extend(scale.label_selector.as_deref().and_then(|path| check_text(path, object)));
    }
    errors.extend(check_count(&scale.status_replicas, object));
    errors
}

fn check_count(path: &str, object: &Map) -> Option<FieldError> {
    let at = Path::new(path);
    let value = match find(path, object) {
        Ok(value) => value?,
        Err(why) => return Some(FieldError::invalid(&at, 0_i64, why)),
    };
    match value.as_i64() {
        None => Some(FieldError::invalid(&at, 0_i64, wrong_type(path, value, "int64"))),
        Some(count) if count < 0 => Some(FieldError::invalid(&at, count, "should be a non-negative integer")),
        Some(count) if i32::try_from(count).is_err() => {
            Some(FieldError::invalid(&at, count, format!("should be less than or equal to {}", i32::MAX)))
        }
        Some(_) => None,
    }
}

fn check_text(path: &str, object: &Map) -> Option<FieldError> {
    let at = Path::new(path);
    match find(path, object) {
        Ok(None | Some(Value::String(_))) => None,
        Ok(Some(value)) => Some(FieldError::invalid(&at, "", wrong_type(path, value, "string"))),
        Err(why) => Some(FieldError::invalid(&at, "", why)),
    }
}

/// The value at a path of plain member names; why there can be none.
fn find<'a>(path: &str, object: &'a Map) -> Result<Option<&'a Value>, String> {
    let mut members = path.trim_start_matches('.').split('.');
    let mut value = members.next().and_then(|name| object.get(name));
    let mut passed = String::new();
    for (name, parent) in members.zip(path.trim_start_matches('.').split('.')) {
        passed.extend([".", parent]);
        value = match value {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(map)) => map.get(name),
            Some(other) => {
                return Err(wrong_type(&format!("{passed}.{name}"), other, "map[string]interface{}"));
            }
        };
    }
    Ok(value)
}

/// As `k8s.io/apimachinery`'s accessors of unstructured objects word it.
fn wrong_type(path: &str, value: &Value, expected: &str) -> String {
    let (shown, go_type) = (go_plain(value), go_type(value));
    format!("{path} accessor error: {shown} is of the type {go_type}, expected {expected}")
}
