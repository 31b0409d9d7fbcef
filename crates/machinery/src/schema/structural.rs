//! What makes a schema structural: types outside of value validations, every field that a validation
//! names declared, metadata left to the server.
//!
//! Works on the JSON of a definition, since its complaints are about members that a [`Schema`] has no
//! place for. Texts and rules are those of `k8s.io/apiextensions-apiserver/pkg/apiserver/schema`.
//!
//! [`Schema`]: super::Schema

use super::pattern::Pattern;
use super::raw::{Junctor, Raw};
use crate::field::{FieldError, Path};
use crate::json::Value;

/// Where a node stands, for the texts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Everything that is not structural in the schema at `path`, which is that of a whole object.
pub(super) fn check(schema: Raw<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete(schema, Some(schema), path, path, &mut errors);
    errors
}

fn invariants(schema: Raw<'_>, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    if schema.kind() == "array" && schema.items().is_none() {
        errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = schema.items() {
        invariants(items, Level::Item, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in schema.properties() {
        invariants(property, Level::Field, &properties.key(name), errors);
    }
    if schema.says_additional() && level == Level::Root {
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), "must not be used at the root"));
    }
    if let Some(values) = schema.additional() {
        invariants(values, Level::Field, &path.child("additionalProperties"), errors);
    }
    extensions(schema, path, errors);
    value_rules(schema, schema.is_int_or_string_choice(), level, path, errors);
    resource(schema, level, path, errors);
}

fn extensions(schema: Raw<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    if !schema.flag("x-kubernetes-int-or-string") {
        return;
    }
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if schema.flag(name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&path.child(name), &Value::Bool(true), detail));
        }
    }
}

/// Types, and what only resources may or must have.
fn resource(schema: Raw<'_>, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let kind = schema.kind();
    let type_path = path.child("type");
    let embedded = schema.flag("x-kubernetes-embedded-resource");
    let preserves = schema.flag("x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(&type_path, detail)
        } else {
            FieldError::invalid(&type_path, kind, detail)
        });
    } else if kind.is_empty() && !schema.flag("x-kubernetes-int-or-string") && !preserves {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&type_path, detail));
    }
    if embedded && schema.says_additional() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(&type_path, kind, "must be object at the root"));
    }
    let is_resource = level == Level::Root || embedded;
    resource_members(schema, level, is_resource, path, errors);
    if embedded && !preserves && schema.properties().next().is_none() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), detail));
    }
}

fn resource_members(schema: Raw<'_>, level: Level, is_resource: bool, path: &Path, errors: &mut Vec<FieldError>) {
    let properties = path.child("properties");
    if !is_resource {
        return;
    }
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.property(name)
            && property.kind() != "string"
        {
            errors.push(FieldError::invalid(&properties.key(name).child("type"), property.kind(), "must be string"));
        }
    }
    let Some(metadata) = schema.property("metadata") else { return };
    let path = properties.key("metadata");
    if metadata.kind() != "object" {
        errors.push(FieldError::invalid(&path.child("type"), metadata.kind(), "must be object"));
    }
    let more_than_names = metadata.properties().any(|(name, _)| name != "name" && name != "generateName");
    if level == Level::Root && (more_than_names || metadata.says_more_than(&["type", "properties", "default"])) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(&path, detail));
    }
}

/// The rules of a node, and those within its junctors. `choice` tells that its `anyOf` only spells out
/// what `x-kubernetes-int-or-string` says.
fn value_rules(schema: Raw<'_>, choice: bool, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    for (junctor, at, nested) in schema.junctors() {
        if junctor == Junctor::AnyOf && choice {
            continue;
        }
        let first_choice = junctor == Junctor::AllOf && at == Some(0) && nested.is_int_or_string_choice();
        nested_rules(nested, first_choice, level, &junctor.path(path, at), errors);
    }
    if let Some(pattern) = schema.text("pattern")
        && let Err(reason) = Pattern::new(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {reason}");
        errors.push(FieldError::invalid(&path.child("pattern"), pattern, detail));
    }
}

/// What a node within a junctor must not say, with the word for how it has to be instead.
const NOT_NESTED: [(&str, &str); 11] = [
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("externalDocs", "undefined"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
];

fn nested_rules(schema: Raw<'_>, choice: bool, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    value_rules(schema, choice, level, path, errors);
    if let Some(items) = schema.items() {
        nested_rules(items, false, level, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in schema.properties() {
        nested_rules(property, false, Level::Field, &properties.key(name), errors);
    }
    for (name, instead) in NOT_NESTED {
        // That there are no others is taken for nothing said.
        let unsaid = name == "additionalProperties" && schema.get(name) == Some(&Value::Bool(false));
        if schema.says(name) && !unsaid {
            errors.push(FieldError::forbidden(&path.child(name), format!("must be {instead} to be structural")));
        }
    }
    for name in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if schema.says(name) {
            errors.push(FieldError::forbidden(&path.child(name), "must be undefined to be structural"));
        }
    }
    if schema.says("x-kubernetes-validations") {
        let path = path.child("x-kubernetes-validations");
        errors.push(FieldError::forbidden(&path, "must be empty to be structural"));
    }
    if schema.property("metadata").is_some() {
        errors.push(FieldError::forbidden(&properties.key("metadata"), "must not be specified in a nested context"));
    }
}

/// Checks that what the junctors of `rules` name is declared in `schema`.
fn complete(rules: Raw<'_>, schema: Option<Raw<'_>>, path: &Path, rules_path: &Path, errors: &mut Vec<FieldError>) {
    let Some(schema) = schema else {
        return errors.push(FieldError::required(path, format!("because it is defined in {rules_path}")));
    };
    for (junctor, at, nested) in rules.junctors() {
        complete_nested(nested, Some(schema), path, &junctor.path(rules_path, at), errors);
    }
}

fn complete_nested(
    rules: Raw<'_>,
    schema: Option<Raw<'_>>,
    path: &Path,
    rules_path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = schema else {
        return errors.push(FieldError::required(path, format!("because it is defined in {rules_path}")));
    };
    complete(rules, Some(schema), path, rules_path, errors);
    if let Some(items) = rules.items() {
        complete_nested(items, schema.items(), &path.child("items"), &rules_path.child("items"), errors);
    }
    let (properties, rules_properties) = (path.child("properties"), rules_path.child("properties"));
    for (name, nested) in rules.properties() {
        let (path, rules_path) = (properties.key(name), rules_properties.key(name));
        complete_nested(nested, schema.property(name), &path, &rules_path, errors);
    }
}
