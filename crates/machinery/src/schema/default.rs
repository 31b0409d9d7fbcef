//! Filling in what is not given.
//!
//! Follows `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting`: a member that is absent, or
//! `null` where `null` is no value, gets its default; what then still is such a `null` is dropped.

use super::node::{Additional, Schema, SchemaRef};
use crate::json::{Map, Value};

/// Fills in defaults, then drops members that are `null` where `null` is no value.
pub fn apply_defaults(schema: &Schema, object: &mut Map) {
    fill_members(schema, object, Nulls::Dropped);
}

/// Fills in defaults, and leaves members that are `null` where `null` is no value and that have none.
pub fn fill_defaults(schema: &Schema, object: &mut Map) {
    fill_members(schema, object, Nulls::Kept);
}

/// What happens to a null where it is no value and has no default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Dropped,
    Kept,
}

fn fill(schema: &Schema, value: &mut Value, nulls: Nulls) {
    match value {
        Value::Object(map) => fill_members(schema, map, nulls),
        Value::Array(elements) => {
            let Some(items) = schema.items.as_ref().map(SchemaRef::get) else { return };
            for element in elements {
                // A null element cannot be dropped without moving the others; it may be defaulted.
                if element.is_null()
                    && !items.nullable
                    && let Some(default) = &items.default
                {
                    *element = (**default).clone();
                }
                fill(items, element, nulls);
            }
        }
        _ => {}
    }
}

fn fill_members(schema: &Schema, map: &mut Map, nulls: Nulls) {
    for (name, property) in &schema.properties {
        let property = property.get();
        let Some(default) = &property.default else { continue };
        if map.get(name).is_none_or(|value| value.is_null() && !property.nullable) {
            map.insert(&**name, (**default).clone());
        }
    }
    map.retain(|name, value| {
        let Some(member) = schema.property(name).or(match &schema.additional {
            Additional::Values(values) => Some(values.get()),
            Additional::Unsaid | Additional::Anything => None,
        }) else {
            return true;
        };
        if value.is_null() && !member.nullable {
            match &member.default {
                Some(default) => *value = (**default).clone(),
                None => return nulls == Nulls::Kept,
            }
        }
        fill(member, value, nulls);
        true
    });
}
