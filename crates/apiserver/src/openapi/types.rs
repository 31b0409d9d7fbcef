//! Schemas of the built-in types: what the type table says, as OpenAPI says it.
//!
//! The rules of what has a default, what is required and how a reference with a description looks are
//! those of kube-openapi's generator (`k8s.io/kube-openapi/pkg/generators`).

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

use super::names::{self, Form, META};
use crate::builtin::{self, Field, List, Message, Type, describe};

/// A type that is no message of the table: it has a form of its own in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    Time,
    MicroTime,
    Duration,
    IntOrString,
    Quantity,
    RawExtension,
    FieldsV1,
    Json,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    VersionInfo,
}

impl Leaf {
    /// The type that is a leaf, if it is one.
    pub(super) fn of(ty: &Type) -> Option<Leaf> {
        Some(match ty {
            Type::Time => Leaf::Time,
            Type::MicroTime => Leaf::MicroTime,
            Type::Duration => Leaf::Duration,
            Type::IntOrString => Leaf::IntOrString,
            Type::Quantity => Leaf::Quantity,
            Type::RawExtension => Leaf::RawExtension,
            Type::FieldsV1 => Leaf::FieldsV1,
            Type::Json => Leaf::Json,
            Type::SchemaOrArray => Leaf::SchemaOrArray,
            Type::SchemaOrBool => Leaf::SchemaOrBool,
            Type::SchemaOrStrings => Leaf::SchemaOrStrings,
            Type::String
            | Type::Bool
            | Type::Int32
            | Type::Int64
            | Type::Double
            | Type::Bytes
            | Type::List(_)
            | Type::Map(_)
            | Type::Message(_)
            | Type::Items => return None,
        })
    }

    /// The name of its schema.
    pub(super) fn name(self) -> String {
        let definitions = |name: &str| names::of_message(&format!("apiextensions/v1.{name}"));
        match self {
            Leaf::Time => format!("{META}.Time"),
            Leaf::MicroTime => format!("{META}.MicroTime"),
            Leaf::Duration => format!("{META}.Duration"),
            Leaf::FieldsV1 => format!("{META}.FieldsV1"),
            Leaf::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
            Leaf::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
            Leaf::RawExtension => "io.k8s.apimachinery.pkg.runtime.RawExtension".to_owned(),
            Leaf::VersionInfo => "io.k8s.apimachinery.pkg.version.Info".to_owned(),
            Leaf::Json => definitions("JSON"),
            Leaf::SchemaOrArray => definitions("JSONSchemaPropsOrArray"),
            Leaf::SchemaOrBool => definitions("JSONSchemaPropsOrBool"),
            Leaf::SchemaOrStrings => definitions("JSONSchemaPropsOrStringArray"),
        }
    }

    /// Its schema.
    pub(super) fn schema(self, form: Form) -> Value {
        let described = |text: &str, mut rest: Value| {
            if let Some(map) = rest.as_object_mut() {
                map.insert("description", text);
            }
            rest
        };
        match self {
            Leaf::Time => {
                described("A time in RFC 3339, to the second.", json!({"type": "string", "format": "date-time"}))
            }
            Leaf::MicroTime => {
                described("A time in RFC 3339, to the microsecond.", json!({"type": "string", "format": "date-time"}))
            }
            Leaf::Duration => described("A length of time as Go writes it: 1h30m.", json!({"type": "string"})),
            Leaf::IntOrString => {
                let text = "A number or a text, as with a port that has a number or a name.";
                described(text, choice(form, "int-or-string", ["integer", "string"]))
            }
            Leaf::Quantity => {
                let text = "An amount with an optional suffix: 500m, 1.5Gi, 10e3.";
                described(text, choice(form, "", ["string", "number"]))
            }
            Leaf::RawExtension => described("Any object, kept as it is given.", json!({"type": "object"})),
            Leaf::FieldsV1 => described("A set of fields, as a tree of their paths.", json!({"type": "object"})),
            Leaf::Json => described("Any JSON value.", json!({})),
            Leaf::SchemaOrArray => described("A schema, or a list of schemas.", json!({})),
            Leaf::SchemaOrBool => described("A schema, or true or false.", json!({})),
            Leaf::SchemaOrStrings => described("A schema, or a list of names.", json!({})),
            Leaf::VersionInfo => version_info(form),
        }
    }
}

/// A value of one of two types, which the old form can only call a text.
fn choice(form: Form, format: &str, types: [&str; 2]) -> Value {
    let mut map = Map::new();
    if !format.is_empty() {
        map.insert("format", format);
    }
    match form {
        Form::Two => map.insert("type", "string"),
        Form::Three => map.insert("oneOf", types.map(|name| json!({ "type": name })).to_vec()),
    };
    Value::Object(map)
}

/// `/version` (`k8s.io/apimachinery/pkg/version.Info`).
fn version_info(form: Form) -> Value {
    const ALWAYS: [&str; 9] =
        ["major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];
    const OTHERS: [&str; 4] = ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    let text = |required: bool| match form {
        Form::Three if required => json!({"type": "string", "default": ""}),
        _ => json!({"type": "string"}),
    };
    let properties: Map = ALWAYS
        .iter()
        .map(|name| ((*name).to_owned(), text(true)))
        .chain(OTHERS.iter().map(|name| ((*name).to_owned(), text(false))))
        .collect();
    json!({
        "type": "object", "description": "Which version the server has.", "properties": (Value::Object(properties)),
        "required": (ALWAYS.map(Value::from).to_vec())
    })
}

/// Each field of a message. Those of an embedded message stand inline.
pub(super) fn each_field(message: &'static Message, each: &mut dyn FnMut(&'static Field)) {
    for field in &message.fields {
        match (field.name, &field.ty) {
            (".", Type::Message(name)) => {
                if let Some(embedded) = builtin::message(name) {
                    each_field(embedded, each);
                }
            }
            _ => each(field),
        }
    }
}

/// Each message and leaf that a type names.
pub(super) fn each_named(ty: &'static Type, message: &mut dyn FnMut(&'static Message), leaf: &mut dyn FnMut(Leaf)) {
    match ty {
        Type::List(of) | Type::Map(of) => each_named(of, message, leaf),
        Type::Message(name) => {
            if let Some(found) = builtin::message(name) {
                message(found);
            }
        }
        other => {
            if let Some(found) = Leaf::of(other) {
                leaf(found);
            }
        }
    }
}

/// The schema of a message. `kinds` is what `x-kubernetes-group-version-kind` says.
pub(super) fn of_message(form: Form, message: &'static Message, kinds: Vec<Value>) -> Value {
    let mut schema = Map::new();
    schema.insert("type", "object");
    if let Some(text) = describe(message.name, "") {
        schema.insert("description", text);
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    if message.is_kind {
        type_meta(&mut properties);
    }
    fields(form, message, &mut properties, &mut required);
    if !properties.is_empty() {
        schema.insert("properties", properties);
    }
    if !required.is_empty() {
        schema.insert("required", required);
    }
    if message.atomic {
        schema.insert("x-kubernetes-map-type", "atomic");
    }
    if !kinds.is_empty() {
        schema.insert("x-kubernetes-group-version-kind", kinds);
    }
    if let Some(union) = union_of(message.name) {
        schema.insert("x-kubernetes-unions", vec![union]);
    }
    Value::Object(schema)
}

/// Which members of a message exclude each other, and the member that says which of them is there, if one does:
/// the markers `union` and `unionDiscriminator` of Kubernetes' types.
fn union_of(message: &str) -> Option<Value> {
    match message {
        "core/v1.AppArmorProfile" | "core/v1.SeccompProfile" => {
            Some(json!({"discriminator": "type", "fields-to-discriminateBy": {"localhostProfile": "LocalhostProfile"}}))
        }
        "core/v1.PodSchedulingGroup" => Some(json!({"fields-to-discriminateBy": {"podGroupName": "PodGroupName"}})),
        _ => None,
    }
}

/// `apiVersion` and `kind`, which every object has.
pub(super) fn type_meta(properties: &mut Map) {
    properties.insert(
        "apiVersion",
        json!({"type": "string", "description": (describe("", "apiVersion").unwrap_or_default())}),
    );
    properties.insert("kind", json!({"type": "string", "description": (describe("", "kind").unwrap_or_default())}));
}

fn fields(form: Form, message: &'static Message, properties: &mut Map, required: &mut Vec<Value>) {
    for field in &message.fields {
        if let (".", Type::Message(name)) = (field.name, &field.ty) {
            if let Some(embedded) = builtin::message(name) {
                fields(form, embedded, properties, required);
            }
            continue;
        }
        if field.required {
            required.push(field.name.into());
        }
        properties.insert(field.name, property(form, message, field));
    }
}

fn property(form: Form, message: &Message, field: &'static Field) -> Value {
    let mut schema = value(form, &field.ty);
    let values: Vec<Value> = field.values.iter().map(|value| Value::from(value.replace('~', " "))).collect();
    if !values.is_empty() {
        match schema.get_mut("items").and_then(Value::as_object_mut) {
            Some(items) => items.insert("enum", values),
            None => schema.insert("enum", values),
        };
    }
    if form == Form::Three {
        let natural =
            || if field.pointer { None } else { natural_default(&field.ty, field.omit_empty || field.omit_zero) };
        if let Some(default) = field.default.clone().or_else(natural) {
            schema.insert("default", default);
        }
    }
    if let Some(text) = describe(message.name, field.name) {
        schema.insert("description", text);
    }
    match &field.list {
        Some(List::Atomic) => schema.insert("x-kubernetes-list-type", "atomic"),
        Some(List::Set) => schema.insert("x-kubernetes-list-type", "set"),
        Some(List::Map(keys)) => {
            let keys: Vec<Value> = keys.iter().map(|key| Value::from(*key)).collect();
            schema.insert("x-kubernetes-list-map-keys", keys);
            schema.insert("x-kubernetes-list-type", "map")
        }
        None => None,
    };
    if let Some(atomic) = field.atomic {
        schema.insert("x-kubernetes-map-type", if atomic { "atomic" } else { "granular" });
    }
    if !field.patch_strategies.is_empty() {
        schema.insert("x-kubernetes-patch-strategy", field.patch_strategies.join(","));
    }
    if !field.patch_key.is_empty() {
        schema.insert("x-kubernetes-patch-merge-key", field.patch_key);
    }
    wrapped(form, schema)
}

/// The new form takes nothing beside a reference: it stands within `allOf` then.
pub(super) fn wrapped(form: Form, mut schema: Map) -> Value {
    if form == Form::Three
        && schema.len() > 1
        && let Some(reference) = schema.remove("$ref")
    {
        schema.insert("allOf", vec![json!({ "$ref": reference })]);
    }
    Value::Object(schema)
}

/// The schema of a type alone.
fn value(form: Form, ty: &'static Type) -> Map {
    let mut schema = Map::new();
    let mut say = |kind: &str, format: &str| {
        schema.insert("type", kind);
        if !format.is_empty() {
            schema.insert("format", format);
        }
    };
    match ty {
        Type::String => say("string", ""),
        Type::Bool => say("boolean", ""),
        Type::Int32 => say("integer", "int32"),
        Type::Int64 => say("integer", "int64"),
        Type::Double => say("number", "double"),
        Type::Bytes => say("string", "byte"),
        Type::List(of) => {
            say("array", "");
            schema.insert("items", element(form, of));
        }
        Type::Items => {
            say("array", "");
            schema.insert("items", element(form, &Type::String));
        }
        Type::Map(of) => {
            say("object", "");
            schema.insert("additionalProperties", element(form, of));
        }
        Type::Message(name) => {
            schema.insert("$ref", form.reference(&names::of_message(name)));
        }
        other => {
            if let Some(leaf) = Leaf::of(other) {
                schema.insert("$ref", form.reference(&leaf.name()));
            }
        }
    }
    schema
}

/// The schema of an element of a list, or of a member of a map.
fn element(form: Form, ty: &'static Type) -> Value {
    let mut schema = value(form, ty);
    if form == Form::Three
        && let Some(default) = natural_default(ty, false)
    {
        schema.insert("default", default);
    }
    wrapped(form, schema)
}

/// What a value is in Go where nothing is given, if JSON shows it.
fn natural_default(ty: &Type, may_be_left_out: bool) -> Option<Value> {
    match ty {
        Type::Message(name) => {
            let has_fields = builtin::message(name).is_some_and(|message| !message.fields.is_empty());
            has_fields.then(|| Value::Object(Map::new()))
        }
        _ if may_be_left_out => None,
        Type::String => Some("".into()),
        Type::Bool => Some(false.into()),
        Type::Int32 | Type::Int64 | Type::Double => Some(0.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_exclude_each_other_are_told_of() {
        let unions = |name: &str| {
            let schema = of_message(Form::Two, builtin::message(name).expect(name), Vec::new());
            schema.get("x-kubernetes-unions").map(ToString::to_string)
        };
        assert_eq!(
            unions("core/v1.SeccompProfile").as_deref(),
            Some(r#"[{"discriminator":"type","fields-to-discriminateBy":{"localhostProfile":"LocalhostProfile"}}]"#)
        );
        assert_eq!(unions("core/v1.Pod"), None);
    }
}
