//! Fields that objects can be selected by.

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::schema::{Schema, Shape};

use crate::crd::spec;

/// How many fields there may be, as in Kubernetes.
const MOST_FIELDS: usize = 8;

/// Checks `selectableFields` of a version with `schema`, if that can be read.
pub(super) fn check(fields: &[Value], schema: Option<&Schema>, path: &Path, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().filter_map(Value::as_object).enumerate() {
        let path = path.index(index).child("jsonPath");
        check_one(field, schema, &path, &mut seen, errors);
    }
    if seen.len() > MOST_FIELDS {
        errors.push(FieldError::too_many(path, seen.len(), MOST_FIELDS));
    }
}

fn check_one(
    field: &Map,
    schema: Option<&Schema>,
    path: &Path,
    seen: &mut BTreeSet<String>,
    errors: &mut Vec<FieldError>,
) {
    let json_path = spec::text(field, "jsonPath");
    if json_path.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let Some(schema) = schema else { return };
    let found = match path_in_schema(json_path, schema) {
        Ok(found) => found,
        Err(reason) => {
            return errors.push(FieldError::invalid(path, json_path, format!("is an invalid path: {reason}")));
        }
    };
    if json_path == ".metadata" || json_path.starts_with(".metadata.") {
        errors.push(FieldError::invalid(path, json_path, "must not point to fields in metadata"));
    }
    if !matches!(found.shape, Shape::String | Shape::Boolean | Shape::Integer) {
        let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                      formats are allowed.";
        errors.push(FieldError::invalid(path, json_path, detail));
    }
    if !seen.insert(json_path.to_owned()) {
        errors.push(FieldError::duplicate(path, json_path));
    }
}

/// The node that a path of plain member names leads to.
///
/// # Errors
/// Why it leads nowhere.
fn path_in_schema<'a>(json_path: &str, schema: &'a Schema) -> Result<&'a Schema, String> {
    let Some(members) = json_path.strip_prefix('.') else {
        let first = json_path.split(['.', '[']).next().unwrap_or(json_path);
        return Err(format!("expected [ or . but got: {first}"));
    };
    let mut node = schema;
    for member in members.split('.') {
        let (name, is_element) = member.split_once('[').map_or((member, false), |(name, _)| (name, true));
        node = node.property(name).ok_or("does not refer to a valid field")?;
        if is_element {
            return Err("array notation is not allowed".to_owned());
        }
    }
    Ok(node)
}
