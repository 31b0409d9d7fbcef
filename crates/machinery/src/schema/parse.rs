//! From the `openAPIV3Schema` of a definition to a [`Schema`].

use super::defaults_check;
use super::node::{Additional, Junctors, ListType, MapType, Schema, SchemaRef, Shape, ValueRules};
use super::numbers::normalise;
use super::pattern::Pattern;
use super::raw::{Junctor, Raw};
use super::{format, keywords, structural};
use crate::field::{FieldError, Path};
use crate::json::{Number, Value};

/// Makes a schema of what stands at `path` of a definition.
///
/// # Errors
/// Everything that is not structural or not supported, with the texts of Kubernetes' own validation.
pub fn parse_structural(value: &Value, path: &Path) -> Result<Schema, Vec<FieldError>> {
    match read_structural(value, path) {
        (Some(schema), errors) if errors.is_empty() => Ok(schema),
        (_, errors) => Err(errors),
    }
}

/// The schema that stands at `path` of a definition, as far as it can be read, and what is wrong with it. Where
/// only its defaults are wrong, say, other parts of the definition can still be held against it.
pub fn read_structural(value: &Value, path: &Path) -> (Option<Schema>, Vec<FieldError>) {
    let raw = Raw::new(value);
    let keywords = keywords::check(raw, path);
    let mut errors = Vec::new();
    if !keywords.unsupported {
        errors = structural::check(raw, path);
    }
    if errors.is_empty() && !keywords.unsupported && says_schema(raw) {
        errors.push(FieldError::invalid(path, "", "OpenAPIV3Schema 'schema' is not supported"));
    }
    let structural = errors.is_empty() && !keywords.unsupported;
    errors.extend(keywords.errors);
    let schema = node(raw);
    if structural {
        errors.extend(defaults_check::check(&schema, path));
    }
    ((!keywords.unsupported).then_some(schema), errors)
}

/// Whether some node names the dialect that it is written in.
fn says_schema(raw: Raw<'_>) -> bool {
    raw.says("$schema") || children(raw).any(says_schema)
}

fn children(raw: Raw<'_>) -> impl Iterator<Item = Raw<'_>> {
    let nested = raw.junctors().map(|(_, _, node)| node);
    raw.properties().map(|(_, node)| node).chain(raw.items()).chain(raw.additional()).chain(nested)
}

/// Formats in a schema that are not checked, sorted, each once.
pub fn unrecognized_formats(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_formats(Raw::new(value), &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect_formats(raw: Raw<'_>, found: &mut Vec<String>) {
    if let Some(name) = raw.text("format")
        && !format::is_known(raw.kind(), name)
    {
        found.push(name.to_owned());
    }
    for child in children(raw) {
        collect_formats(child, found);
    }
}

fn node(raw: Raw<'_>) -> Schema {
    let mut properties: Vec<(Box<str>, SchemaRef)> =
        raw.properties().map(|(name, property)| (name.into(), node(property).into())).collect();
    properties.sort_by(|left, right| left.0.cmp(&right.0));
    Schema {
        shape: shape(raw),
        nullable: raw.flag("nullable"),
        preserve_unknown: raw.flag("x-kubernetes-preserve-unknown-fields"),
        embedded: raw.flag("x-kubernetes-embedded-resource"),
        map_type: match raw.text("x-kubernetes-map-type") {
            Some("atomic") => MapType::Atomic,
            _ => MapType::Granular,
        },
        properties: properties.into(),
        required: raw.texts("required").map(Box::from).collect(),
        additional: match (raw.additional(), raw.flag("additionalProperties")) {
            (Some(values), _) => Additional::Values(node(values).into()),
            (None, true) => Additional::Anything,
            (None, false) => Additional::Unsaid,
        },
        items: raw.items().map(|items| node(items).into()),
        list_type: match raw.text("x-kubernetes-list-type") {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(raw.texts("x-kubernetes-list-map-keys").map(Box::from).collect()),
            _ => ListType::Atomic,
        },
        default: raw.get("default").map(|value| Box::new(normalised(value))),
        rules: Some(rules(raw)).filter(|rules| *rules != ValueRules::default()).map(Box::new),
        patch: None,
    }
}

fn shape(raw: Raw<'_>) -> Shape {
    if raw.flag("x-kubernetes-int-or-string") {
        return Shape::IntOrString;
    }
    match raw.kind() {
        "object" => Shape::Object,
        "array" => Shape::Array,
        "string" => Shape::String,
        "integer" => Shape::Integer,
        "number" => Shape::Number,
        "boolean" => Shape::Boolean,
        _ => Shape::Any,
    }
}

fn rules(raw: Raw<'_>) -> ValueRules {
    let count = |name: &str| raw.get(name).and_then(Value::as_i64).and_then(|value| u64::try_from(value).ok());
    ValueRules {
        format: raw.text("format").unwrap_or("").into(),
        pattern: raw.text("pattern").and_then(|pattern| Pattern::new(pattern).ok()),
        one_of_values: raw.list("enum").iter().map(normalised).collect(),
        minimum: number(raw, "minimum").map(|limit| (limit, raw.flag("exclusiveMinimum"))),
        maximum: number(raw, "maximum").map(|limit| (limit, raw.flag("exclusiveMaximum"))),
        multiple_of: number(raw, "multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        junctors: junctors(raw),
    }
}

fn junctors(raw: Raw<'_>) -> Option<Box<Junctors>> {
    let (mut all_of, mut any_of, mut one_of, mut not) = (Vec::new(), Vec::new(), Vec::new(), None);
    for (junctor, _, nested) in raw.junctors() {
        match junctor {
            Junctor::AllOf => all_of.push(node(nested)),
            Junctor::AnyOf => any_of.push(node(nested)),
            Junctor::OneOf => one_of.push(node(nested)),
            Junctor::Not => not = Some(node(nested)),
        }
    }
    let said = !(all_of.is_empty() && any_of.is_empty() && one_of.is_empty() && not.is_none());
    said.then(|| Box::new(Junctors { all_of: all_of.into(), any_of: any_of.into(), one_of: one_of.into(), not }))
}

fn number(raw: Raw<'_>, name: &str) -> Option<Number> {
    match raw.get(name).map(normalised) {
        Some(Value::Number(number)) => Some(number),
        _ => None,
    }
}

fn normalised(value: &Value) -> Value {
    let mut value = value.clone();
    normalise(&mut value);
    value
}
