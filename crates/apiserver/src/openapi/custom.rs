//! Schemas of the kinds of definitions, as both forms of OpenAPI can say them
//! (`k8s.io/apiextensions-apiserver/pkg/controller/openapi`).
//!
//! The new form says everything. Clients of the old one take it at its word where it cannot say enough: a
//! field whose unknown members are kept, or that may be null, has neither type nor members there.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

use super::names::{Form, META};
use super::types::{type_meta, wrapped};
use crate::builtin::describe;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const JUNCTORS: [&str; 4] = ["allOf", "anyOf", "not", "oneOf"];

/// The schema of an object of a custom kind. `given` is `openAPIV3Schema` of the definition.
pub(super) fn of_object(form: Form, given: Value) -> Map {
    let Value::Object(given) = given else { return untyped() };
    if form == Form::Two && flag(&given, PRESERVE) {
        return untyped();
    }
    let Value::Object(mut schema) = node(form, given) else { return untyped() };
    if let Some(properties) = schema.object_mut("properties") {
        properties.insert("metadata", metadata(form, "ObjectMeta"));
        type_meta(properties);
    }
    schema
}

fn untyped() -> Map {
    Map::from_iter([("type".to_owned(), Value::from("object"))])
}

/// The schema of `metadata`.
pub(super) fn metadata(form: Form, name: &str) -> Value {
    let mut schema = Map::new();
    schema.insert("$ref", form.reference(&format!("{META}.{name}")));
    if let Some(text) = describe("", "metadata") {
        schema.insert("description", text);
    }
    wrapped(form, schema)
}

fn flag(map: &Map, name: &str) -> bool {
    map.get(name) == Some(&Value::Bool(true))
}

/// Whether a keyword says nothing: `false`, or empty where that is the same as absent.
fn says_nothing(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => !matches!(name, "additionalProperties" | "default" | "example"),
        Value::String(text) => text.is_empty() && !matches!(name, "default" | "example"),
        Value::Array(items) => items.is_empty() && !matches!(name, "default" | "example" | "enum"),
        Value::Object(map) => map.is_empty() && matches!(name, "properties"),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// A node of the schema and all below it.
fn node(form: Form, mut given: Map) -> Value {
    given.retain(|name, value| !says_nothing(name, value));
    if flag(&given, INT_OR_STRING) {
        unfold(&mut given);
    }
    if form == Form::Two {
        simplify(&mut given);
    }
    let mut out = Map::new();
    for (name, value) in given {
        let value = match (name.as_str(), value) {
            ("items" | "additionalProperties", Value::Object(inner)) => node(form, inner),
            ("properties", Value::Object(properties)) => {
                Value::Object(properties.into_iter().map(|(name, property)| (name, inner(form, property))).collect())
            }
            (_, other) => other,
        };
        out.insert(name, value);
    }
    if flag(&out, EMBEDDED) && !(form == Form::Two && flag(&out, PRESERVE)) {
        embed(form, &mut out);
    }
    Value::Object(out)
}

fn inner(form: Form, value: Value) -> Value {
    match value {
        Value::Object(map) => node(form, map),
        other => other,
    }
}

/// Says of a number or text what `x-kubernetes-int-or-string` means, for those who do not know it.
fn unfold(node: &mut Map) {
    let choice = || vec![json!({"type": "integer"}), json!({"type": "string"})];
    let is_choice = |value: Option<&Value>| value == Some(&Value::Array(choice()));
    let all_of = node.get("allOf").and_then(Value::as_array);
    let first = all_of.and_then(<[Value]>::first);
    if is_choice(node.get("anyOf")) || first.is_some_and(|first| is_choice(first.get("anyOf"))) {
        return;
    }
    if !node.contains_key("anyOf") {
        node.insert("anyOf", choice());
        return;
    }
    let mut all = vec![json!({ "anyOf": (choice()) })];
    all.extend(all_of.unwrap_or_default().iter().cloned());
    node.insert("allOf", all);
}

/// Takes away what the old form has no words for.
fn simplify(node: &mut Map) {
    let required_dropped: Vec<String> = node
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::iter)
        .filter(|(_, property)| property.get("nullable") == Some(&Value::Bool(true)))
        .map(|(name, _)| name.to_owned())
        .collect();
    for name in JUNCTORS.into_iter().chain(["default"]) {
        node.remove(name);
    }
    if flag(node, "nullable") {
        for name in ["nullable", "type", "items", "properties"] {
            node.remove(name);
        }
    }
    if flag(node, PRESERVE) {
        node.remove("items");
        node.remove("properties");
    }
    let kind = node.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "array" && !node.contains_key("items") || kind == "object" && flag(node, PRESERVE) {
        node.remove("type");
    }
    // A member that may be null cannot be called required.
    if let Some(required) = node.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !required_dropped.iter().any(|dropped| name.as_str() == Some(dropped)));
        if required.is_empty() {
            node.remove("required");
        }
    }
}

/// Adds what every object has to an object within an object.
fn embed(form: Form, node: &mut Map) {
    if let Some(properties) = node.object_mut("properties") {
        properties.insert("metadata", metadata(form, "ObjectMeta"));
        type_meta(properties);
    }
    let required = node.get_or_insert_with("required", || Value::Array(Vec::new()));
    if let Some(required) = required.as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|have| have.as_str() == Some(name)) {
                required.push(name.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json::parse;

    use super::*;

    /// What becomes of `a` of an object in the new and in the old form.
    #[track_caller]
    fn check(property: &str, three: &str, two: &str) {
        let given = format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#);
        for (form, expect) in [(Form::Three, three), (Form::Two, two)] {
            let schema = Value::Object(of_object(form, parse(given.as_bytes()).expect(&given)));
            let found = schema.at(&["properties", "a"]).expect("is there");
            assert_eq!(found, &parse(expect.as_bytes()).expect(expect), "{property} in {form:?}");
        }
    }

    #[test]
    fn plain_rules_stand_in_both_forms() {
        let text = r#"{"type":"string","maxLength":5,"description":"A."}"#;
        check(text, text, text);
        let text = r#"{"type":"string","default":"x"}"#;
        check(text, text, r#"{"type":"string"}"#);
        check(r#"{"type":"string","nullable":false,"description":""}"#, r#"{"type":"string"}"#, r#"{"type":"string"}"#);
        let list = r#"{"type":"array","items":{"type":"object"},"x-kubernetes-list-type":"atomic"}"#;
        check(list, list, list);
    }

    #[test]
    fn the_old_form_says_nothing_of_what_it_cannot_say_in_full() {
        check(r#"{"type":"string","nullable":true}"#, r#"{"type":"string","nullable":true}"#, "{}");
        let free =
            r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"b":{"type":"string"}}}"#;
        check(free, free, r#"{"x-kubernetes-preserve-unknown-fields":true}"#);
        check(
            r#"{"x-kubernetes-int-or-string":true}"#,
            r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}"#,
            r#"{"x-kubernetes-int-or-string":true}"#,
        );
        check(
            r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"minimum":1}],"allOf":[{"maximum":9}]}"#,
            r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"minimum":1}],
                "allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"maximum":9}]}"#,
            r#"{"x-kubernetes-int-or-string":true}"#,
        );
        check(
            r#"{"type":"object","required":["b"],"properties":{"b":{"type":"string","nullable":true}}}"#,
            r#"{"type":"object","required":["b"],"properties":{"b":{"type":"string","nullable":true}}}"#,
            r#"{"type":"object","properties":{"b":{}}}"#,
        );
        let whole = parse(br#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#).expect("parses");
        assert_eq!(of_object(Form::Two, whole.clone()), untyped());
        assert!(of_object(Form::Three, whole).contains_key("properties"));
    }

    #[test]
    fn embedded_objects_have_type_and_metadata() {
        let given = br#"{"type":"object","properties":{"a":{"type":"object","x-kubernetes-embedded-resource":true}}}"#;
        let schema = Value::Object(of_object(Form::Three, parse(given).expect("parses")));
        let embedded = schema.at(&["properties", "a"]).expect("is there");
        assert!(embedded.at(&["properties", "metadata", "allOf"]).is_some(), "{embedded}");
        assert_eq!(embedded.get("required"), Some(&json!(["kind", "apiVersion"])));
    }
}
