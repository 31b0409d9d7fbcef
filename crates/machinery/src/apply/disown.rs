//! Taking back what managers own of fields that are gone.
//!
//! Who owns what is settled before admission. What admission then takes out of an object would stay owned by whoever
//! sent it, and be a conflict for everybody else who applies it.

use super::element::PathElement;
use super::managers::Managers;
use super::set::{FieldSet, Node};
use super::track::set_managers;
use crate::json::{Map, Value};

/// Takes fields that the object does not have, at these places or within them, from those who own them. Owners that cannot
/// be read stay as they are.
pub fn disown_absent(object: &mut Map, places: &[&[&str]]) {
    let entries = object.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    let Ok(mut managers) = Managers::decode(entries) else { return };
    let mut changed = false;
    for place in places {
        managers.retain(|_, managed| {
            let left = present_at(&managed.fields, place, object);
            changed |= left != managed.fields;
            managed.fields = left;
            !managed.fields.is_empty()
        });
    }
    if changed {
        set_managers(object, &managers);
    }
}

/// Of a set all that is not at that place, and of what is there the fields that there are.
fn present_at(set: &FieldSet, place: &[&str], object: &Map) -> FieldSet {
    let Some((name, rest)) = place.split_first() else { return present_in(set, object) };
    let mut left = FieldSet::new();
    for node in set.nodes() {
        if node.element.name() != Some(name) {
            left.push(node.clone());
            continue;
        }
        match object.get(name) {
            Some(Value::Object(inner)) if !rest.is_empty() => {
                let children = present_at(&node.children, rest, inner);
                left.push(Node { element: node.element.clone(), member: node.member, children });
            }
            Some(value) if rest.is_empty() => left.push(kept(node, value)),
            _ => {}
        }
    }
    left
}

fn present_in(set: &FieldSet, object: &Map) -> FieldSet {
    let mut left = FieldSet::new();
    for node in set.nodes() {
        let value = node.element.name().and_then(|name| object.get(name));
        if let Some(value) = value {
            left.push(kept(node, value));
        }
    }
    left
}

/// A node whose field is there, with those of its children that are.
fn kept(node: &Node, value: &Value) -> Node {
    let children = match value {
        Value::Object(object) => present_in(&node.children, object),
        Value::Array(items) => present_among(&node.children, items),
        _ => FieldSet::new(),
    };
    Node { element: node.element.clone(), member: node.member, children }
}

fn present_among(set: &FieldSet, items: &[Value]) -> FieldSet {
    let mut left = FieldSet::new();
    for node in set.nodes() {
        let item = match &node.element {
            PathElement::Key(members) => items.iter().find(|item| {
                members.iter().all(|(name, value)| item.get(name).is_some_and(|have| is_same(have, value)))
            }),
            PathElement::Value(value) => items.iter().find(|item| is_same(item, value)),
            PathElement::Index(index) => usize::try_from(*index).ok().and_then(|index| items.get(index)),
            PathElement::Field(_) => None,
        };
        if let Some(item) = item {
            left.push(kept(node, item));
        }
    }
    left
}

/// As sets compare them: numbers by value.
fn is_same(left: &Value, right: &Value) -> bool {
    PathElement::Value(left.clone()) == PathElement::Value(right.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    const PLACES: [&[&str]; 2] = [&["spec", "kubernetes"], &["spec", "images"]];

    #[track_caller]
    fn check(spec: Value, fields: Value, expect: Value) {
        let entries = |fields: Value| {
            json!([{"apiVersion": "a/v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": "m",
                "operation": "Update", "time": "2026-01-01T00:00:00Z"}])
        };
        let mut object = json!({"metadata": {"name": "n", "managedFields": (entries(fields))}, "spec": spec});
        let object = object.as_object_mut().expect("an object");
        disown_absent(object, &PLACES);
        let left = object.get("metadata").and_then(|metadata| metadata.get("managedFields")).cloned();
        let expect = if expect.is_null() { None } else { Some(entries(expect)) };
        assert_eq!(left, expect);
    }

    #[test]
    fn what_is_gone_is_owned_by_nobody_and_all_else_by_whom_it_was() {
        let fields = json!({"f:spec": {"f:parent": {}, "f:gone": {},
            "f:kubernetes": {".": {}, "f:versions": {".": {},
                "k:{\"version\":\"1\"}": {".": {}, "f:version": {}}, "k:{\"version\":\"2\"}": {".": {}, "f:date": {}}}}}});
        check(
            json!({"parent": "p", "kubernetes": {"versions": [{"version": "2", "date": "d"}]}}),
            fields.clone(),
            json!({"f:spec": {"f:gone": {}, "f:kubernetes": {".": {}, "f:versions": {".": {},
                "k:{\"version\":\"2\"}": {".": {}, "f:date": {}}}}, "f:parent": {}}}),
        );
        check(json!({"parent": "p"}), fields, json!({"f:spec": {"f:gone": {}, "f:parent": {}}}));
    }

    #[test]
    fn whoever_owned_nothing_else_is_no_owner_any_more() {
        check(json!({}), json!({"f:spec": {"f:images": {"k:{\"name\":\"a\"}": {".": {}}}}}), Value::Null);
    }

    #[test]
    fn elements_are_found_by_key_by_value_and_by_place() {
        let fields = json!({"f:spec": {"f:images": {"i:0": {}, "i:2": {}, "k:{\"name\":1}": {".": {}}, "v:\"x\"": {}, "v:\"y\"": {}}}});
        check(
            json!({"images": ["x", {"name": 1}]}),
            fields,
            json!({"f:spec": {"f:images": {"i:0": {}, "k:{\"name\":1}": {}, "v:\"x\"": {}}}}),
        );
    }

    #[test]
    fn owners_that_cannot_be_read_stay() {
        let mut object = json!({"metadata": {"managedFields": [{"operation": "Other"}]}});
        let before = object.clone();
        disown_absent(object.as_object_mut().expect("an object"), &PLACES);
        assert_eq!(object, before);
    }
}
