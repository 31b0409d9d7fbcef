//! Lists whose elements have to differ: sets, and maps by their keys.

use std::collections::HashSet;

use super::node::{ListType, Schema};
use super::trail::Trail;
use crate::field::{FieldError, Path};
use crate::json::{Map, Value};

/// Every second occurrence of an element of a set, or of the keys of an element of a map.
pub(super) fn check(schema: &Schema, object: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    members(schema, object, Trail::Start, &mut errors);
    errors
}

fn members(schema: &Schema, map: &Map, trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    for (name, value) in map.iter().filter(|(_, value)| matches!(value, Value::Array(_) | Value::Object(_))) {
        if let Some(property) = schema.property(name) {
            walk(property, value, Trail::Member(&trail, name), errors);
        } else if let Some(values) = schema.member(name) {
            walk(values, value, Trail::Key(&trail, name), errors);
        }
    }
}

fn walk(schema: &Schema, value: &Value, trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => members(schema, map, trail, errors),
        Value::Array(items) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => duplicates(items.iter().cloned(), trail, errors),
                ListType::Map(keys) => duplicates(items.iter().map(|item| keys_of(item, keys)), trail, errors),
            }
            let Some(of_items) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                walk(of_items.get(), item, Trail::Index(&trail, index), errors);
            }
        }
        _ => {}
    }
}

/// The keys of an element of a map, as the object that a message shows.
fn keys_of(item: &Value, keys: &[Box<str>]) -> Value {
    let present = keys.iter().filter_map(|key| Some((key.to_string(), item.get(key)?.clone())));
    Value::Object(present.collect())
}

/// Complains of each value that stands twice, once, at its second place.
fn duplicates(values: impl Iterator<Item = Value>, trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    let mut told = HashSet::new();
    for (index, value) in values.enumerate() {
        if seen.contains(&value) {
            if told.insert(value.clone()) {
                errors.push(FieldError::duplicate(&trail.path(&Path::root()).index(index), &value));
            }
        } else {
            seen.insert(value);
        }
    }
}
