//! Dropping what no schema knows.
//!
//! Follows `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning`: the metadata of the object
//! itself is left to the caller, that of embedded resources is cut down to what object metadata has.

use super::embedded;
use super::node::{Additional, Schema, Shape};
use super::trail::Trail;
use crate::field::note;
use crate::json::{Map, Value};

/// Drops members that `schema` does not know from an object of a kind whose root is `schema`, and
/// returns the paths of the first of them in the order in which they were met, those in the metadata of embedded resources
/// last. `apiVersion`, `kind` and `metadata` stay.
pub fn prune(schema: &Schema, object: &mut Map) -> Vec<String> {
    let mut unknown = Unknown::default();
    prune_members(schema, object, true, Trail::Start, &mut unknown);
    unknown.members.append(&mut unknown.metadata);
    unknown.members
}

/// Paths of what was dropped.
#[derive(Default)]
pub(super) struct Unknown {
    /// Members that no schema knows.
    pub(super) members: Vec<String>,
    /// Members of the metadata of embedded resources, which Kubernetes tells of by themselves.
    pub(super) metadata: Vec<String>,
}

/// As [`prune`], for a value at `trail` that is not an object of a kind.
pub(super) fn prune_value(schema: &Schema, value: &mut Value, trail: Trail<'_>, unknown: &mut Unknown) {
    match value {
        Value::Object(map) => prune_members(schema, map, schema.embedded, trail, unknown),
        Value::Array(items) => {
            let nothing = Schema::of(Shape::Any);
            let of_items = match &schema.items {
                Some(items) => items.get(),
                None if schema.preserve_unknown => return,
                None => &nothing,
            };
            for (index, item) in items.iter_mut().enumerate() {
                prune_value(of_items, item, Trail::Index(&trail, index), unknown);
            }
        }
        _ => {}
    }
}

fn prune_members(schema: &Schema, map: &mut Map, resource: bool, trail: Trail<'_>, unknown: &mut Unknown) {
    if schema.embedded {
        embedded::prune_metadata(map, trail, &mut unknown.metadata);
    }
    let keeps = schema.preserve_unknown || schema.additional == Additional::Anything;
    map.retain(|name, value| {
        if resource && matches!(name, "apiVersion" | "kind" | "metadata") {
            return true;
        }
        match schema.member(name) {
            Some(member) => prune_value(member, value, Trail::Member(&trail, name), unknown),
            None if keeps => {}
            None => {
                note(&mut unknown.members, || Trail::Member(&trail, name).to_string());
                return false;
            }
        }
        true
    });
}
