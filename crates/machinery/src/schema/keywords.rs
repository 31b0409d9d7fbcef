//! Rules about keywords that hold for every node, structural or not: what is not supported, what goes
//! together. Texts are those of `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

use std::collections::BTreeSet;

use super::raw::Raw;
use crate::field::{FieldError, Path, ShownValue};
use crate::json::Value;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What is true of all nodes below some place.
#[derive(Clone, Copy)]
struct Place {
    /// The node describes a whole object.
    root: bool,
    /// The node is within metadata, or another member that each object has.
    in_metadata: bool,
    /// Why there may be no default here.
    no_defaults: Option<&'static str>,
}

/// What is wrong with keywords.
#[derive(Default)]
pub(super) struct Findings {
    /// Everything that is.
    pub(super) errors: Vec<FieldError>,
    /// Whether there are keywords that have no structural counterpart at all.
    pub(super) unsupported: bool,
}

impl Findings {
    fn forbid(&mut self, path: &Path, name: &str, detail: impl Into<String>) {
        self.errors.push(FieldError::forbidden(&path.child(name), detail));
    }

    fn require(&mut self, path: &Path, name: &str, detail: &str) {
        self.errors.push(FieldError::required(&path.child(name), detail));
    }

    fn refuse(&mut self, path: &Path, name: &str, value: impl Into<ShownValue>, detail: &str) {
        self.errors.push(FieldError::invalid(&path.child(name), value, detail));
    }
}

/// Checks the schema at `path`, which is that of a whole object.
pub(super) fn check(schema: Raw<'_>, path: &Path) -> Findings {
    let mut found = Findings::default();
    if schema.flag("nullable") {
        found.forbid(path, "nullable", "nullable cannot be true at the root");
    }
    node(schema, Place { root: true, in_metadata: false, no_defaults: None }, path, &mut found);
    found
}

fn node(schema: Raw<'_>, place: Place, path: &Path, found: &mut Findings) {
    supported(schema, place, path, found);
    if schema.flag("uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.forbid(path, "uniqueItems", detail);
    }
    let permits_all = schema.flag("additionalProperties");
    if schema.says_additional() && schema.properties().next().is_some() && !permits_all {
        found.forbid(path, "additionalProperties", "additionalProperties and properties are mutual exclusive");
    }
    extensions(schema, path, found);
    list_extensions(schema, path, found);
    expression_rules(schema, path, found);
    children(schema, place, path, found);
}

fn children(schema: Raw<'_>, place: Place, path: &Path, found: &mut Findings) {
    let inner = Place { root: false, ..place };
    if let Some(values) = schema.additional() {
        let mut inner = inner;
        if inner.in_metadata {
            inner.no_defaults = Some("inside additionalProperties applying to object metadata");
        }
        node(values, inner, &path.child("additionalProperties"), found);
    }
    let is_resource = place.root || schema.flag("x-kubernetes-embedded-resource");
    let properties = path.child("properties");
    for (name, property) in schema.properties() {
        let mut inner = inner;
        if is_resource && let Some(reason) = in_top_level(name) {
            inner.in_metadata = true;
            inner.no_defaults = if place.root { Some(reason) } else { inner.no_defaults };
        }
        node(property, inner, &properties.key(name), found);
    }
    if let Some(items) = schema.items() {
        node(items, inner, &path.child("items"), found);
    }
    for (junctor, at, nested) in schema.junctors() {
        node(nested, inner, &junctor.path(path, at), found);
    }
}

/// Why members that each object has take no default at the root; none for other members.
fn in_top_level(name: &str) -> Option<&'static str> {
    match name {
        "metadata" => Some("in top-level metadata"),
        "apiVersion" => Some("in top-level apiVersion"),
        "kind" => Some("in top-level kind"),
        _ => None,
    }
}

/// Keywords of JSON schema that Kubernetes has no use for.
const UNSUPPORTED: [&str; 6] = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

fn supported(schema: Raw<'_>, place: Place, path: &Path, found: &mut Findings) {
    let kind = schema.kind();
    if !kind.is_empty() && !TYPES.contains(&kind) {
        found.errors.push(FieldError::not_supported(&path.child("type"), kind, &TYPES));
    }
    if kind == "null" {
        found.forbid(path, "type", "type cannot be set to null, use nullable as an alternative");
    }
    if let Some(reason) = place.no_defaults
        && schema.says("default")
    {
        found.forbid(path, "default", format!("must not be set {reason}"));
    }
    for name in UNSUPPORTED {
        if schema.says(name) {
            found.unsupported = true;
            found.forbid(path, name, format!("{name} is not supported"));
        }
    }
    if !schema.list("items").is_empty() {
        found.unsupported = true;
        found.forbid(path, "items", "items must be a schema object and not an array");
    }
    if place.in_metadata && schema.flag("x-kubernetes-embedded-resource") {
        found.forbid(path, "x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }
}

fn extensions(schema: Raw<'_>, path: &Path, found: &mut Findings) {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.get(preserve) == Some(&Value::Bool(false)) {
        found.refuse(path, preserve, &Value::Bool(false), "must be true or undefined");
    }
    let Some(map_type) = schema.get("x-kubernetes-map-type").and_then(Value::as_str) else { return };
    of_type(schema, "object", "must be object if x-kubernetes-map-type is specified", path, found);
    if !matches!(map_type, "atomic" | "granular") {
        let path = path.child("x-kubernetes-map-type");
        found.errors.push(FieldError::not_supported(&path, map_type, &["atomic", "granular"]));
    }
}

/// Complains with `detail` unless the node is of type `kind`.
fn of_type(schema: Raw<'_>, kind: &str, detail: &str, path: &Path, found: &mut Findings) {
    match schema.kind() {
        "" => found.require(path, "type", detail),
        have if have != kind => found.refuse(path, "type", have, detail),
        _ => {}
    }
}

fn list_extensions(schema: Raw<'_>, path: &Path, found: &mut Findings) {
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    if let Some(list_type) = list_type {
        of_type(schema, "array", "must be array if x-kubernetes-list-type is specified", path, found);
        if list_type == "set" && schema.kind() == "array" {
            set_items(schema, path, found);
        }
        if !matches!(list_type, "atomic" | "set" | "map") {
            let path = path.child("x-kubernetes-list-type");
            found.errors.push(FieldError::not_supported(&path, list_type, &["atomic", "set", "map"]));
        }
        if matches!(list_type, "set" | "map") && schema.items().is_some_and(|items| items.flag("nullable")) {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            found.forbid(&path.child("items"), "nullable", detail);
        }
    }
    let has_keys = !schema.list("x-kubernetes-list-map-keys").is_empty();
    match list_type {
        Some("map") => map_items(schema, path, found),
        Some(other) if has_keys => {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            found.refuse(path, "x-kubernetes-list-type", other, detail);
        }
        None if has_keys => {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            found.require(path, "x-kubernetes-list-type", detail);
        }
        _ => {}
    }
}

fn set_items(schema: Raw<'_>, path: &Path, found: &mut Findings) {
    let Some(items) = schema.items() else { return };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let path = path.child("items");
    let shown = |value: Option<&Value>| value.map_or_else(|| ShownValue::raw("null"), ShownValue::from);
    match items.kind() {
        "array" => {
            let list_type = items.get("x-kubernetes-list-type");
            if list_type.is_some_and(|value| value.as_str() != Some("atomic")) {
                found.refuse(&path, "x-kubernetes-list-type", shown(list_type), detail);
            }
        }
        "object" => {
            let map_type = items.get("x-kubernetes-map-type");
            if map_type.and_then(Value::as_str) != Some("atomic") {
                found.refuse(&path, "x-kubernetes-map-type", shown(items.get("x-kubernetes-list-type")), detail);
            }
        }
        _ => {}
    }
}

fn map_items(schema: Raw<'_>, path: &Path, found: &mut Findings) {
    let keys_name = "x-kubernetes-list-map-keys";
    if schema.list(keys_name).is_empty() {
        found.require(path, keys_name, "must not be empty if x-kubernetes-list-type is map");
    }
    let Some(items) = schema.items() else {
        return found.require(path, "items", "must have a schema if x-kubernetes-list-type is map");
    };
    let items_path = path.child("items");
    if items.kind() != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        found.refuse(&items_path, "type", items.kind(), detail);
    }
    let shown_keys = || schema.get(keys_name).map_or_else(|| ShownValue::raw("null"), ShownValue::from);
    let mut seen = BTreeSet::new();
    for key in schema.texts(keys_name) {
        let property_path = items_path.child("properties").key(key);
        match items.property(key) {
            Some(property) => map_key(items, key, property, &property_path, found),
            None if items.kind() == "object" => {
                found.refuse(path, keys_name, shown_keys(), "entries must all be names of item properties");
            }
            None => {}
        }
        if !seen.insert(key) {
            found.refuse(path, keys_name, shown_keys(), "must not contain duplicate entries");
        }
    }
}

fn map_key(items: Raw<'_>, key: &str, property: Raw<'_>, path: &Path, found: &mut Findings) {
    if matches!(property.kind(), "array" | "object") && items.kind() == "object" {
        let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
        found.refuse(path, "type", items.kind(), detail);
    }
    if !items.texts("required").any(|name| name == key) && !property.says("default") {
        let detail =
            "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
        found.require(path, "default", detail);
    }
    if property.flag("nullable") {
        found.forbid(path, "nullable", "this property is in x-kubernetes-list-map-keys, so it cannot be nullable");
    }
}

/// Rules in CEL cannot be evaluated yet. An object that such a rule would refuse must not pass, so the
/// definition is refused.
fn expression_rules(schema: Raw<'_>, path: &Path, found: &mut Findings) {
    let path = path.child("x-kubernetes-validations");
    for index in 0..schema.list("x-kubernetes-validations").len() {
        let detail =
            "rules in CEL are not evaluated by this server; express the rule with other keywords of the schema";
        found.errors.push(FieldError::forbidden(&path.index(index), detail));
    }
}
