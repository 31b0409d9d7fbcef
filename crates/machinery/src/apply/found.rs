//! Which fields a value has.

use super::element::PathElement;
use super::set::{FieldSet, Node};
use super::types::{ListAtom, MapAtom, TypeRef};
use crate::json::{Map, Value};

/// The fields that an object of type `ty` says something about: scalars, lists and maps that are one value,
/// elements, members that are not declared, members that are null or empty.
pub fn fields_of(object: &Map, ty: TypeRef<'_>) -> FieldSet {
    match ty.resolve().map {
        Some(map) if !map.atomic => members(&map, object),
        _ => FieldSet::new(),
    }
}

/// Whether the value itself is one of the fields, and which there are within it.
fn value(value: &Value, ty: TypeRef<'_>) -> (bool, FieldSet) {
    let atom = ty.resolve().deduced(Some(value));
    if let Some(map) = atom.map {
        return match value.as_object() {
            _ if map.atomic => (true, FieldSet::new()),
            Some(object) => (false, members(&map, object)),
            None => (false, FieldSet::new()),
        };
    }
    if atom.scalar.is_some() {
        return (true, FieldSet::new());
    }
    match (atom.list, value.as_array()) {
        (Some(list), _) if list.atomic => (true, FieldSet::new()),
        (Some(list), Some(elements)) => (false, items(&list, elements)),
        _ => (false, FieldSet::new()),
    }
}

fn members(map: &MapAtom<'_>, object: &Map) -> FieldSet {
    let mut set = FieldSet::new();
    for (name, member) in object.iter() {
        let declared = map.field(name);
        let (itself, children) = value(member, declared.unwrap_or_else(|| map.element()));
        let empty = member.is_null() || member.as_object().is_some_and(Map::is_empty);
        let itself = itself || empty || declared.is_none();
        set.push(Node { element: PathElement::field(name), member: itself, children });
    }
    set
}

fn items(list: &ListAtom<'_>, elements: &[Value]) -> FieldSet {
    let mut steps: Vec<(PathElement, &Value)> =
        elements.iter().filter_map(|item| Some((list.path_element(item).ok()?, item))).collect();
    steps.sort_by(|left, right| left.0.cmp(&right.0));
    let mut set = FieldSet::new();
    for same in steps.chunk_by(|left, right| left.0 == right.0) {
        let Some((element, item)) = same.first() else { continue };
        // Of elements with one key, nothing within them can be owned.
        let children = if same.len() == 1 { value(item, list.element()).1 } else { FieldSet::new() };
        set.push(Node { element: element.clone(), member: true, children });
    }
    set
}
