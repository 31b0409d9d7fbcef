//! Printer columns and the subresource scale.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};

use crate::crd::spec;

const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Checks one printer column.
pub(super) fn check(column: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    if spec::text(column, "name").is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    let kind = spec::text(column, "type");
    let types = || format!("must be one of {}", TYPES.join(","));
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), types()));
    } else if !TYPES.contains(&kind) {
        errors.push(FieldError::invalid(&path.child("type"), kind, types()));
    }
    let format = spec::text(column, "format");
    if !format.is_empty() && !FORMATS.contains(&format) {
        let detail = format!("must be one of {}", FORMATS.join(","));
        errors.push(FieldError::invalid(&path.child("format"), format, detail));
    }
    let json_path = spec::text(column, "jsonPath");
    if json_path.is_empty() {
        errors.push(FieldError::required(&path.child("JSONPath"), ""));
    } else {
        errors.extend(not_simple(json_path, &path.child("JSONPath")));
    }
}

fn not_simple(json_path: &str, path: &Path) -> Option<FieldError> {
    let fault = "must be a simple json path starting with .";
    (!json_path.starts_with('.')).then(|| FieldError::invalid(path, json_path, fault))
}

/// Checks the subresources of a version.
pub(super) fn check_subresources(subresources: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(scale) = subresources.get("scale").and_then(Value::as_object) else { return };
    let path = path.child("scale");
    for (name, below) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let json_path = spec::text(scale, name);
        let path = path.child(name);
        if json_path.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if let Some(error) = not_simple(json_path, &path) {
            errors.push(error);
        } else if !json_path.starts_with(&format!("{below}.")) {
            errors.push(FieldError::invalid(&path, json_path, format!("should be a json path under {below}")));
        }
    }
    let selector = spec::text(scale, "labelSelectorPath");
    let path = path.child("labelSelectorPath");
    if selector.is_empty() {
        return;
    }
    if let Some(error) = not_simple(selector, &path) {
        errors.push(error);
    } else if !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        let detail = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(&path, selector, detail));
    }
}
