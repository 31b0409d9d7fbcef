//! Dropping what no schema knows.
//!
//! Follows `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning`: the metadata of the object
//! itself is left to the caller, that of embedded resources is cut down to what object metadata has.

use super::metadata;
use super::node::{Additional, Schema, Shape};
use crate::json::{Map, Value};

/// How the path of a member is shown: `spec.list[0].name`.
pub(super) fn join(path: &str, member: &str) -> String {
    if path.is_empty() { member.to_owned() } else { format!("{path}.{member}") }
}

/// What [`prune`] dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Paths of the members that are gone, in the order in which they were met.
    pub unknown: Vec<String>,
}

/// Drops members that `schema` does not know from an object of a kind whose root is `schema`.
/// `apiVersion`, `kind` and `metadata` stay.
pub fn prune(schema: &Schema, object: &mut Map) -> Pruned {
    let mut pruned = Pruned::default();
    prune_members(schema, object, true, "", &mut pruned.unknown);
    pruned
}

fn prune_value(schema: &Schema, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => prune_members(schema, map, schema.embedded, path, unknown),
        Value::Array(items) => {
            let nothing = Schema::of(Shape::Any);
            let of_items = match &schema.items {
                Some(items) => items.get(),
                None if schema.preserve_unknown => return,
                None => &nothing,
            };
            for (index, item) in items.iter_mut().enumerate() {
                prune_value(of_items, item, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

fn prune_members(schema: &Schema, map: &mut Map, resource: bool, path: &str, unknown: &mut Vec<String>) {
    if resource && !path.is_empty() {
        metadata::prune_embedded(map, path, unknown);
    }
    let keeps = schema.preserve_unknown || schema.additional == Additional::Anything;
    map.retain(|name, value| {
        if resource && matches!(name, "apiVersion" | "kind" | "metadata") {
            return true;
        }
        match schema.member(name) {
            Some(member) => prune_value(member, value, &join(path, name), unknown),
            None if keeps => {}
            None => {
                unknown.push(join(path, name));
                return false;
            }
        }
        true
    });
}
