//! Objects within objects: what their metadata may hold, and that they say what they are.

use super::node::Schema;
use super::trail::Trail;
use crate::field::{FieldError, Path, note};
use crate::json::{Map, Value};
use crate::metadata;
use crate::names::{self, NameRule};

/// The types of members of object metadata, as Go calls them in its messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberType {
    Text,
    Integer,
    Texts,
    TextMap,
    Objects,
    Time,
}

impl MemberType {
    fn go_name(self) -> &'static str {
        match self {
            MemberType::Text => "string",
            MemberType::Integer => "int64",
            MemberType::Texts => "[]string",
            MemberType::TextMap => "map[string]string",
            MemberType::Objects => "[]v1.OwnerReference",
            MemberType::Time => "v1.Time",
        }
    }

    fn takes(self, value: &Value) -> bool {
        let text = |value: &Value| value.is_null() || value.as_str().is_some();
        match (self, value) {
            (_, Value::Null) => true,
            (MemberType::Text, value) => value.as_str().is_some(),
            (MemberType::Time, value) => value.as_str().is_some_and(|text| crate::time::parse(text).is_ok()),
            (MemberType::Integer, value) => value.as_i64().is_some(),
            (MemberType::Texts, Value::Array(items)) => items.iter().all(text),
            (MemberType::Objects, Value::Array(items)) => items.iter().all(|item| item.as_object().is_some()),
            (MemberType::TextMap, Value::Object(map)) => map.iter().all(|(_, value)| text(value)),
            _ => false,
        }
    }
}

/// The type of a member of object metadata (`k8s.io/apimachinery/pkg/apis/meta/v1`, ObjectMeta).
fn member_type(name: &str) -> Option<MemberType> {
    Some(match name {
        "name" | "generateName" | "namespace" | "selfLink" | "uid" | "resourceVersion" => MemberType::Text,
        "generation" | "deletionGracePeriodSeconds" => MemberType::Integer,
        "creationTimestamp" | "deletionTimestamp" => MemberType::Time,
        "labels" | "annotations" => MemberType::TextMap,
        "finalizers" => MemberType::Texts,
        "ownerReferences" | "managedFields" => MemberType::Objects,
        _ => return None,
    })
}

/// Drops members from the metadata of an embedded resource that object metadata does not have.
pub(super) fn prune_metadata(resource: &mut Map, trail: Trail<'_>, unknown: &mut Vec<String>) {
    let Some(Value::Object(metadata)) = resource.get_mut("metadata") else { return };
    metadata.retain(|name, value| {
        let known = member_type(name).is_some();
        if !known {
            note(unknown, || Trail::Member(&Trail::Member(&trail, "metadata"), name).to_string());
        }
        known && !value.is_null()
    });
    let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else { return };
    let metadata = Trail::Member(&trail, "metadata");
    let list = Trail::Member(&metadata, "ownerReferences");
    for (index, owner) in owners.iter_mut().enumerate() {
        let Value::Object(owner) = owner else { continue };
        owner.retain(|name, _| {
            let known = OWNER_MEMBERS.contains(&name);
            if !known {
                note(unknown, || Trail::Member(&Trail::Index(&list, index), name).to_string());
            }
            known
        });
    }
}

/// The members of an owner reference (`k8s.io/apimachinery/pkg/apis/meta/v1`, OwnerReference).
const OWNER_MEMBERS: [&str; 6] = ["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];

/// Finds the first embedded resource whose metadata has a member of the wrong type: one that a decoder
/// of object metadata refuses.
///
/// # Errors
/// Which, and why, in the words of Go's decoder.
pub fn check_embedded_metadata(schema: &Schema, object: &Map) -> Result<(), FieldError> {
    let mut first = None;
    walk_members(schema, object, Trail::Start, &mut |resource, trail| {
        if first.is_none() {
            first = wrong_metadata(resource, &trail.path(&Path::root()));
        }
    });
    first.map_or(Ok(()), Err)
}

/// The first of what makes an object no resource to a decoder.
pub(super) fn wrong_metadata(resource: &Map, path: &Path) -> Option<FieldError> {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = resource.get(name).filter(|value| value.as_str().is_none()) {
            return Some(FieldError::invalid(&path.child(name), value, "must be a string"));
        }
    }
    let metadata = resource.get("metadata")?;
    let path = path.child("metadata");
    let members = match metadata {
        Value::Null => return None,
        Value::Object(members) => members,
        other => {
            let detail = format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", other.go_kind());
            return Some(FieldError::invalid(&path, metadata, detail));
        }
    };
    members.iter().find_map(|(name, value)| {
        let expected = member_type(name)?;
        let found = culprit(expected, value)?;
        let go_type = if std::ptr::eq(found, value) { expected.go_name() } else { "string" };
        let kind = found.go_kind();
        let detail = format!("json: cannot unmarshal {kind} into Go struct field ObjectMeta.{name} of type {go_type}");
        Some(FieldError::invalid(&path, metadata, detail))
    })
}

/// The value that has the wrong type: the member itself, or what it holds.
fn culprit(expected: MemberType, value: &Value) -> Option<&Value> {
    if expected.takes(value) {
        return None;
    }
    let inner = match (expected, value) {
        (MemberType::TextMap, Value::Object(map)) => map.iter().map(|(_, value)| value).find(|value| !is_text(value)),
        (MemberType::Texts, Value::Array(items)) => items.iter().find(|value| !is_text(value)),
        _ => None,
    };
    Some(inner.unwrap_or(value))
}

fn is_text(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some()
}

/// What is wrong with the types and metadata of embedded resources in `value`, which is at `path`.
pub(super) fn check_value(schema: &Schema, value: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, Trail::Start, &mut |resource, trail| check_resource(resource, &trail.path(path), &mut errors));
    errors
}

/// As [`check_value`], for a whole object.
pub(super) fn check_members(schema: &Schema, object: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let base = Path::root();
    walk_members(schema, object, Trail::Start, &mut |resource, trail| {
        check_resource(resource, &trail.path(&base), &mut errors);
    });
    errors
}

/// Calls `visit` with every embedded resource and its place.
fn walk(schema: &Schema, value: &Value, trail: Trail<'_>, visit: &mut dyn FnMut(&Map, Trail<'_>)) {
    match value {
        Value::Object(map) => {
            if schema.embedded {
                visit(map, trail);
            }
            walk_members(schema, map, trail, visit);
        }
        Value::Array(items) => {
            let Some(of_items) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                walk(of_items.get(), item, Trail::Index(&trail, index), visit);
            }
        }
        _ => {}
    }
}

fn walk_members(schema: &Schema, map: &Map, trail: Trail<'_>, visit: &mut dyn FnMut(&Map, Trail<'_>)) {
    for (name, value) in map.iter().filter(|(_, value)| matches!(value, Value::Array(_) | Value::Object(_))) {
        if let Some(property) = schema.property(name) {
            walk(property, value, Trail::Member(&trail, name), visit);
        } else if let Some(values) = schema.member(name) {
            walk(values, value, Trail::Key(&trail, name), visit);
        }
    }
}

/// What is wrong with what a resource at `path` calls itself and with its metadata.
pub(super) fn check_resource(resource: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    for (name, rule) in [("apiVersion", group_version_fault as fn(&str) -> Option<String>), ("kind", kind_fault)] {
        let path = path.child(name);
        match resource.get(name) {
            None => errors.push(FieldError::required(&path, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&path, "", "must not be empty"));
            }
            Some(Value::String(text)) => {
                errors.extend(rule(text).map(|fault| FieldError::invalid(&path, text, fault)));
            }
            Some(other) => errors.push(FieldError::invalid(&path, other, "must be a string")),
        }
    }
    if let Some(Value::Object(members)) = resource.get("metadata") {
        errors.extend(metadata_faults(members, path));
    }
}

fn group_version_fault(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn kind_fault(text: &str) -> Option<String> {
    let faults = names::dns1035_label(&text.to_lowercase());
    (!faults.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {}", faults.join(",")))
}

/// The rules of object metadata. A name need not be given.
fn metadata_faults(members: &Map, path: &Path) -> Vec<FieldError> {
    let mut members = members.clone();
    if members.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        members.insert("name", "unnamed");
    }
    let namespaced = members.get("namespace").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let mut errors = metadata::validate_create(&members, namespaced, NameRule::PathSegment);
    for error in &mut errors {
        error.path = path.child(&error.path.to_string());
    }
    errors
}
