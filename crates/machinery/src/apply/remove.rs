//! Taking fields out of a value.

use super::element::PathElement;
use super::set::FieldSet;
use super::types::{ListAtom, MapAtom, TypeRef};
use crate::json::{Map, Value};

/// The object without `fields`. A map or list of which nothing is left becomes null; what is one value is
/// null as soon as anything within it is to go.
pub fn remove(object: &Map, fields: &FieldSet, ty: TypeRef<'_>) -> Map {
    match ty.resolve().map {
        Some(map) if !map.atomic => members(&map, object, fields),
        _ => Map::new(),
    }
}

fn value(value: &Value, fields: &FieldSet, ty: TypeRef<'_>) -> Value {
    let atom = ty.resolve().deduced(Some(value));
    if let Some(map) = atom.map {
        return match value.as_object().filter(|_| !map.atomic).map(|object| members(&map, object, fields)) {
            Some(left) if !left.is_empty() => Value::Object(left),
            _ => Value::Null,
        };
    }
    if atom.scalar.is_some() {
        return value.clone();
    }
    match (atom.list, value.as_array()) {
        (Some(list), Some(elements)) if !list.atomic => match items(&list, elements, fields) {
            left if left.is_empty() => Value::Null,
            left => Value::Array(left),
        },
        _ => Value::Null,
    }
}

fn members(map: &MapAtom<'_>, object: &Map, fields: &FieldSet) -> Map {
    let left = object.iter().filter_map(|(name, member)| {
        let Some(node) = fields.find(&PathElement::field(name)) else {
            return Some((name.to_owned(), member.clone()));
        };
        if node.member {
            return None;
        }
        Some((name.to_owned(), value(member, &node.children, map.member(name))))
    });
    left.collect()
}

fn items(list: &ListAtom<'_>, elements: &[Value], fields: &FieldSet) -> Vec<Value> {
    let element = list.element();
    let left = elements.iter().filter_map(|item| {
        let Some(node) = list.path_element(item).ok().and_then(|step| fields.find(&step)) else {
            return Some(item.clone());
        };
        if node.member {
            return None;
        }
        Some(value(item, &node.children, element))
    });
    left.collect()
}
