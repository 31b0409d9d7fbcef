//! Filling in what is not given.
//!
//! Follows `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting`: a member that is absent, or
//! `null` where `null` is no value, gets its default; what then still is such a `null` is dropped.

use super::node::{Additional, Schema, SchemaRef};
use crate::json::{Map, Value};

/// Fills in defaults, then drops members that are `null` where `null` is no value.
pub fn apply_defaults(schema: &Schema, object: &mut Map) {
    fill_members(schema, object);
}

fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => fill_members(schema, map),
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
                fill(items, element);
            }
        }
        _ => {}
    }
}

fn fill_members(schema: &Schema, map: &mut Map) {
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
                None => return false,
            }
        }
        fill(member, value);
        true
    });
}
