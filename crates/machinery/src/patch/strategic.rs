//! Strategic merge patch: lists that a type calls mergeable are merged element by element
//! (`k8s.io/apimachinery/pkg/util/strategicpatch`).
//!
//! Directives: `$patch: replace|delete` in objects and in elements of lists, `$retainKeys`,
//! `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`. Only within a new element of a merged list
//! they reach the result, and `$retainKeys` wherever there is nothing to be merged with, as Kubernetes has it: a
//! decoder finds fields there that it does not know.
//! What a type says about its fields comes through [`PatchSchema`]; fields that it does not know are
//! merged as objects and replaced as lists.

mod error;
mod list;

use std::collections::BTreeMap;

pub use error::StrategicError;

use crate::json::{Map, Value};
use crate::schema::Schema;

pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// What strategic merge patch has to know about a value: one node of a type's schema.
pub trait PatchSchema {
    /// The node of the member `name`.
    fn member(&self, name: &str) -> Option<&Self>;
    /// The node of the elements, for lists.
    fn items(&self) -> Option<&Self>;
    /// Whether lists are merged (`x-kubernetes-patch-strategy: merge`) rather than replaced.
    fn merges_lists(&self) -> bool;
    /// Whether objects are replaced (`replace`) rather than merged.
    fn replaces_objects(&self) -> bool;
    /// The member by which elements are found (`x-kubernetes-patch-merge-key`); empty for lists of
    /// scalars.
    fn merge_key(&self) -> &str;
}

impl PatchSchema for Schema {
    fn member(&self, name: &str) -> Option<&Self> {
        Schema::member(self, name)
    }

    fn items(&self) -> Option<&Self> {
        self.items.as_ref().map(|items| items.get())
    }

    fn merges_lists(&self) -> bool {
        has_strategy(self, "merge")
    }

    fn replaces_objects(&self) -> bool {
        has_strategy(self, "replace")
    }

    fn merge_key(&self) -> &str {
        self.patch.as_ref().map_or("", |patch| &patch.merge_key)
    }
}

fn has_strategy(schema: &Schema, wanted: &str) -> bool {
    schema.patch.as_ref().is_some_and(|patch| patch.strategies.iter().any(|strategy| **strategy == *wanted))
}

/// What `patch` makes of `original`.
pub fn apply<S: PatchSchema>(original: Map, patch: Map, schema: Option<&S>) -> Result<Map, StrategicError> {
    objects(original, patch, schema)
}

/// What a patch says about one field, its directives gathered.
#[derive(Default)]
struct FieldPatch {
    value: Option<Value>,
    order: Option<Value>,
    delete: Option<Value>,
}

pub(super) fn objects<S: PatchSchema>(
    mut original: Map,
    mut patch: Map,
    schema: Option<&S>,
) -> Result<Map, StrategicError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(without_directives(patch))
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(StrategicError::unknown_directive(&patch)),
        };
    }
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        retain_keys(&keys, &mut original, &patch)?;
    }
    let mut members = Vec::with_capacity(original.len() + patch.len());
    let mut fields = gather(patch)?;
    for (key, old) in original {
        let merged = match fields.remove(&key) {
            Some(field) => merge_field(Some(old), field, schema.and_then(|schema| schema.member(&key)))?,
            None => Some(old),
        };
        members.extend(merged.map(|value| (key, value)));
    }
    for (key, field) in fields {
        let merged = merge_field(None, field, schema.and_then(|schema| schema.member(&key)))?;
        members.extend(merged.map(|value| (key, value)));
    }
    Ok(Map::from_iter(members))
}

fn gather(patch: Map) -> Result<BTreeMap<String, FieldPatch>, StrategicError> {
    let mut fields: BTreeMap<String, FieldPatch> = BTreeMap::new();
    for (key, value) in patch {
        if let Some(rest) = key.strip_prefix(ELEMENT_ORDER) {
            let field = rest.strip_prefix('/').ok_or(StrategicError::BadElementOrder)?;
            fields.entry(field.to_owned()).or_default().order = Some(value);
        } else if let Some(rest) = key.strip_prefix(DELETE_FROM_LIST) {
            let field = rest.strip_prefix('/').ok_or(StrategicError::BadPrimitiveList)?;
            fields.entry(field.to_owned()).or_default().delete = Some(value);
        } else {
            fields.entry(key).or_default().value = Some(value);
        }
    }
    Ok(fields)
}

/// Drops the members of `original` that are not among `keys`; those of the patch have to be.
fn retain_keys(keys: &Value, original: &mut Map, patch: &Map) -> Result<(), StrategicError> {
    let keys = keys.as_array().ok_or(StrategicError::BadRetainKeys)?;
    let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
    let sorted: std::collections::BTreeSet<&str> = keys.into_iter().collect();
    let is_directive = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(ELEMENT_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_directive(key) && !sorted.contains(key)) {
        return Err(StrategicError::BadRetainKeys);
    }
    original.retain(|key, _| sorted.contains(key));
    Ok(())
}

/// The field after the patch; `None` where it is no more. Merged first, then ordered, then cleared of
/// what the patch deletes from it.
fn merge_field<S: PatchSchema>(
    old: Option<Value>,
    field: FieldPatch,
    schema: Option<&S>,
) -> Result<Option<Value>, StrategicError> {
    let merged = match (field.order, field.value) {
        (Some(order), new) => list::merge_in_order(old, new, order, schema)?,
        (None, Some(new)) => merge_value(old, new, schema)?,
        (None, None) => old,
    };
    Ok(match (merged, field.delete) {
        (Some(Value::Array(items)), Some(Value::Array(gone))) => Some(Value::Array(list::without(items, &gone))),
        (merged, _) => merged,
    })
}

fn merge_value<S: PatchSchema>(
    old: Option<Value>,
    new: Value,
    schema: Option<&S>,
) -> Result<Option<Value>, StrategicError> {
    Ok(match (old, new) {
        (_, Value::Null) => None,
        (Some(Value::Object(old)), Value::Object(new)) if !schema.is_some_and(S::replaces_objects) => {
            Some(Value::Object(objects(old, new, schema)?))
        }
        (Some(Value::Object(_)), Value::Object(new)) => Some(Value::Object(without_directives(new))),
        (Some(Value::Array(old)), Value::Array(new)) => Some(Value::Array(list::merge(old, new, schema)?)),
        (_, new) => clean(new),
    })
}

/// A value of a patch that stands for itself: without directives and `null` members. `None` where it is
/// a directive altogether.
pub(super) fn clean(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(without_directives(map))),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(clean).collect())),
        other => Some(other),
    }
}

fn without_directives(map: Map) -> Map {
    let is_directive =
        |key: &str| key == DIRECTIVE || key.starts_with(DELETE_FROM_LIST) || key.starts_with(ELEMENT_ORDER);
    map.into_iter()
        .filter(|(key, value)| !value.is_null() && !is_directive(key))
        .filter_map(|(key, value)| clean(value).map(|value| (key, value)))
        .collect()
}

#[cfg(test)]
mod tests;
