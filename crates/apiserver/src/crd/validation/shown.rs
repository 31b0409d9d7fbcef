//! Versions and schemas as messages show them: by the names of their fields in Go, each field there whether
//! it says anything or not. Messages show the internal form, in which parts that all versions share have
//! moved elsewhere.

use allotment_machinery::field::ShownValue;
use allotment_machinery::json::Value;
use allotment_machinery::schema::canonical_number;

use crate::crd::spec::VersionSpec;

/// How many bytes are written at least before the rest is left out: no message shows more.
const ENOUGH: usize = 64 * 1024;

/// How a member is written.
#[derive(Clone, Copy)]
enum Form {
    /// A text, empty where it is absent.
    Text,
    /// `true` or `false`.
    Flag,
    /// A number, zero where it is absent.
    Number,
    /// As it was given, null where it is absent.
    Given,
    /// A schema.
    Schema,
    /// A list of schemas.
    Schemas,
    /// An object of schemas.
    Named,
    /// `items`: a schema or a list of them.
    Items,
    /// `additionalProperties` and its like: a schema, or whether there may be others.
    Allowed,
    /// `dependencies`: schemas or lists of names.
    Dependencies,
    /// An object of these members.
    Members(&'static [Member]),
    /// A list of objects of these members.
    List(&'static [Member]),
}

/// Name in Go, name in JSON, form.
type Member = (&'static str, &'static str, Form);

const DOCS: &[Member] = &[("Description", "description", Form::Text), ("URL", "url", Form::Text)];

const RULE: &[Member] = &[
    ("Rule", "rule", Form::Text),
    ("Message", "message", Form::Text),
    ("MessageExpression", "messageExpression", Form::Text),
    ("Reason", "reason", Form::Given),
    ("FieldPath", "fieldPath", Form::Text),
    ("OptionalOldSelf", "optionalOldSelf", Form::Given),
];

const SCHEMA: &[Member] = &[
    ("ID", "id", Form::Text),
    ("Schema", "$schema", Form::Text),
    ("Ref", "$ref", Form::Given),
    ("Description", "description", Form::Text),
    ("Type", "type", Form::Text),
    ("Nullable", "nullable", Form::Flag),
    ("Format", "format", Form::Text),
    ("Title", "title", Form::Text),
    ("Default", "default", Form::Given),
    ("Maximum", "maximum", Form::Given),
    ("ExclusiveMaximum", "exclusiveMaximum", Form::Flag),
    ("Minimum", "minimum", Form::Given),
    ("ExclusiveMinimum", "exclusiveMinimum", Form::Flag),
    ("MaxLength", "maxLength", Form::Given),
    ("MinLength", "minLength", Form::Given),
    ("Pattern", "pattern", Form::Text),
    ("MaxItems", "maxItems", Form::Given),
    ("MinItems", "minItems", Form::Given),
    ("UniqueItems", "uniqueItems", Form::Flag),
    ("MultipleOf", "multipleOf", Form::Given),
    ("Enum", "enum", Form::Given),
    ("MaxProperties", "maxProperties", Form::Given),
    ("MinProperties", "minProperties", Form::Given),
    ("Required", "required", Form::Given),
    ("Items", "items", Form::Items),
    ("AllOf", "allOf", Form::Schemas),
    ("OneOf", "oneOf", Form::Schemas),
    ("AnyOf", "anyOf", Form::Schemas),
    ("Not", "not", Form::Schema),
    ("Properties", "properties", Form::Named),
    ("AdditionalProperties", "additionalProperties", Form::Allowed),
    ("PatternProperties", "patternProperties", Form::Named),
    ("Dependencies", "dependencies", Form::Dependencies),
    ("AdditionalItems", "additionalItems", Form::Allowed),
    ("Definitions", "definitions", Form::Named),
    ("ExternalDocs", "externalDocs", Form::Members(DOCS)),
    ("Example", "example", Form::Given),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Form::Given),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Form::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Form::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Form::Given),
    ("XListType", "x-kubernetes-list-type", Form::Given),
    ("XMapType", "x-kubernetes-map-type", Form::Given),
    ("XValidations", "x-kubernetes-validations", Form::List(RULE)),
];

const SCALE: &[Member] = &[
    ("SpecReplicasPath", "specReplicasPath", Form::Text),
    ("StatusReplicasPath", "statusReplicasPath", Form::Text),
    ("LabelSelectorPath", "labelSelectorPath", Form::Given),
];

const COLUMN: &[Member] = &[
    ("Name", "name", Form::Text),
    ("Type", "type", Form::Text),
    ("Format", "format", Form::Text),
    ("Description", "description", Form::Text),
    ("Priority", "priority", Form::Number),
    ("JSONPath", "jsonPath", Form::Text),
];

/// The members of a version that each keeps for itself.
const OWN: &[Member] = &[
    ("Name", "name", Form::Text),
    ("Served", "served", Form::Flag),
    ("Storage", "storage", Form::Flag),
    ("Deprecated", "deprecated", Form::Flag),
    ("DeprecationWarning", "deprecationWarning", Form::Given),
];

/// The members that move elsewhere where all versions have the same.
const PARTS: &[Member] = &[
    ("Schema", "schema", Form::Members(&[("OpenAPIV3Schema", "openAPIV3Schema", Form::Schema)])),
    (
        "Subresources",
        "subresources",
        Form::Members(&[("Status", "status", Form::Members(&[])), ("Scale", "scale", Form::Members(SCALE))]),
    ),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", Form::List(COLUMN)),
    ("SelectableFields", "selectableFields", Form::List(&[("JSONPath", "jsonPath", Form::Text)])),
];

/// A list of versions; `shared` tells of a part whether all have the same.
pub(super) fn versions(versions: &[VersionSpec<'_>], shared: impl Fn(&str) -> bool) -> ShownValue {
    let mut out = String::from("[");
    for (index, version) in versions.iter().enumerate() {
        out.push_str(if index == 0 { "{" } else { ",{" });
        let own = OWN.iter().map(|member| (member, version.0.get(member.1)));
        let parts = PARTS.iter().map(|member| (member, version.part(member.1).filter(|_| !shared(member.1))));
        members(own.chain(parts), &mut out);
        out.push('}');
    }
    out.push(']');
    ShownValue::raw(out)
}

/// A schema.
pub(super) fn schema(schema: &Value) -> ShownValue {
    let mut out = String::new();
    write(Form::Schema, Some(schema), &mut out);
    ShownValue::raw(out)
}

fn members<'a>(list: impl Iterator<Item = (&'a Member, Option<&'a Value>)>, out: &mut String) {
    for (index, ((name, _, form), value)) in list.enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&format!("\"{name}\":"));
        write(*form, value, out);
    }
}

fn write(form: Form, value: Option<&Value>, out: &mut String) {
    if out.len() > ENOUGH {
        return;
    }
    let value = value.filter(|value| !value.is_null());
    match (form, value) {
        (Form::Text, None) => out.push_str("\"\""),
        (Form::Flag, value) => out.push_str(if value == Some(&Value::Bool(true)) { "true" } else { "false" }),
        (Form::Number, None) => out.push('0'),
        (_, None) => out.push_str("null"),
        (Form::Text | Form::Given | Form::Number, Some(value)) => out.push_str(&plain(value).to_string()),
        (Form::Schema, Some(value)) => write(Form::Members(SCHEMA), Some(value), out),
        (Form::Members(list), Some(value)) => {
            out.push('{');
            members(list.iter().map(|member| (member, value.get(member.1))), out);
            out.push('}');
        }
        (Form::Schemas, Some(value)) => elements(Form::Schema, value, out),
        (Form::List(list), Some(value)) => elements(Form::Members(list), value, out),
        (Form::Named, Some(value)) => entries(Form::Schema, value, out),
        (Form::Dependencies, Some(value)) => entries(Form::Dependencies, value, out),
        (Form::Items, Some(value)) => choice(value, ["Schema", "JSONSchemas"], out),
        (Form::Allowed, Some(value)) => {
            let allows = value != &Value::Bool(false);
            out.push_str(&format!("{{\"Allows\":{allows},\"Schema\":"));
            write(Form::Schema, Some(value).filter(|value| value.as_object().is_some()), out);
            out.push('}');
        }
    }
}

/// A schema under the first name or a list under the second.
fn choice(value: &Value, [one, many]: [&str; 2], out: &mut String) {
    let list = value.as_array().is_some();
    out.push_str(&format!("{{\"{one}\":"));
    write(Form::Schema, Some(value).filter(|_| !list), out);
    out.push_str(&format!(",\"{many}\":"));
    let texts = value.as_array().unwrap_or_default().iter().all(|item| item.as_str().is_some());
    write(if texts { Form::Given } else { Form::Schemas }, Some(value).filter(|_| list), out);
    out.push('}');
}

fn elements(form: Form, value: &Value, out: &mut String) {
    out.push('[');
    for (index, item) in value.as_array().unwrap_or_default().iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(form, Some(item), out);
    }
    out.push(']');
}

fn entries(form: Form, value: &Value, out: &mut String) {
    out.push('{');
    for (index, (name, entry)) in value.as_object().into_iter().flat_map(|map| map.iter()).enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&format!("{}:", Value::from(name)));
        match form {
            Form::Dependencies => choice(entry, ["Schema", "Property"], out),
            form => write(form, Some(entry), out),
        }
    }
    out.push('}');
}

/// A value with its numbers as Go writes them.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.as_i64().is_none() => Value::Number(canonical_number(number)),
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        Value::Object(map) => Value::Object(map.iter().map(|(name, value)| (name.to_owned(), plain(value))).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::field::{FieldError, Path};
    use allotment_machinery::json;
    use allotment_machinery::json::{Map, Number};

    use super::*;

    #[track_caller]
    fn check(shown: ShownValue, starts: &str, holds: &[&str]) {
        let text = FieldError::invalid(&Path::new("x"), shown, "").to_string();
        assert!(text.starts_with(&format!("x: Invalid value: {starts}")), "{text}");
        holds.iter().for_each(|part| assert!(text.contains(part), "{part} is not in {text}"));
    }

    #[test]
    fn schemas_are_shown_with_all_their_fields() {
        let given = json!({"type": "object", "maximum": (Value::Number(Number::parse("1.50").unwrap())),
            "properties": {"a": {"items": {"type": "string"}, "x-kubernetes-list-map-keys": ["k"]}},
            "additionalProperties": true, "dependencies": {"d": ["e"]}, "externalDocs": {"url": "u"}});
        check(
            schema(&given),
            r#"{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false,"#,
            &[
                r#""Maximum":1.5,"ExclusiveMaximum":false"#,
                r#""Properties":{"a":{"ID":"","#,
                r#""Items":{"Schema":{"ID":"","#,
                r#""JSONSchemas":null},"AllOf":null"#,
                r#""XListMapKeys":["k"]"#,
                r#""AdditionalProperties":{"Allows":true,"Schema":null}"#,
                r#""Dependencies":{"d":{"Schema":null,"Property":["e"]}}"#,
                r#""ExternalDocs":{"Description":"","URL":"u"}"#,
            ],
        );
    }

    #[test]
    fn versions_are_shown_without_what_they_share() {
        let first: Map =
            json!({"name": "v1", "subresources": {"status": {}}, "additionalPrinterColumns": [{"name": "c"}]})
                .as_object()
                .cloned()
                .unwrap();
        let second: Map = json!({"name": "v2"}).as_object().cloned().unwrap();
        check(
            versions(&[VersionSpec(&first), VersionSpec(&second)], |part| part == "schema"),
            r#"[{"Name":"v1","Served":false,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"#,
            &[
                r#""Subresources":{"Status":{},"Scale":null}"#,
                r#"[{"Name":"c","Type":"","Format":"","Description":"","Priority":0,"JSONPath":""}]"#,
                r#"{"Name":"v2""#,
            ],
        );
    }
}
