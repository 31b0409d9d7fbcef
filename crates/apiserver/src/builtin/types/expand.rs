//! Built-in types as schemas: made from the type table when a kind is first patched or described, shared
//! by all kinds that contain a type. Types that nobody asks for cost nothing.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use allotment_machinery::json::Value;
use allotment_machinery::schema::{ListType, MapType, NamedSchema, Patch, Schema, SchemaRef, Shape};

use crate::builtin::types::{self, Field, List, Message, Type};

/// What has been made so far, by message name. Types contain themselves, so a name is known before its
/// schema is.
static MADE: LazyLock<Mutex<BTreeMap<&'static str, NamedSchema>>> = LazyLock::new(Mutex::default);

/// The schema of a message; any value where there is no such message.
pub(crate) fn schema(name: &'static str) -> NamedSchema {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    named(name, &mut made)
}

fn named(name: &'static str, made: &mut BTreeMap<&'static str, NamedSchema>) -> NamedSchema {
    if let Some(known) = made.get(name) {
        return known.clone();
    }
    let node = NamedSchema::new(name);
    made.insert(name, node.clone());
    if let Some(message) = types::message(name) {
        let mut properties = Vec::new();
        let mut required = Vec::new();
        members(message, made, &mut properties, &mut required);
        let mut schema = Schema::object(properties);
        schema.required = required.into();
        schema.map_type = if message.atomic { MapType::Atomic } else { MapType::Granular };
        node.define(schema);
    }
    node
}

type Properties = Vec<(Box<str>, SchemaRef)>;

fn members(
    message: &'static Message,
    made: &mut BTreeMap<&'static str, NamedSchema>,
    properties: &mut Properties,
    required: &mut Vec<Box<str>>,
) {
    if message.is_kind {
        properties.extend(["apiVersion", "kind"].map(|name| (name.into(), Schema::of(Shape::String).into())));
    }
    for field in &message.fields {
        if let (".", Type::Message(name)) = (field.name, &field.ty) {
            if let Some(inner) = types::message(name) {
                members(inner, made, properties, required);
            }
            continue;
        }
        if field.required {
            required.push(field.name.into());
        }
        properties.push((field.name.into(), property(field, made)));
    }
}

/// The schema of a field: that of its type, with what the field itself says.
fn property(field: &'static Field, made: &mut BTreeMap<&'static str, NamedSchema>) -> SchemaRef {
    let plain = node(&field.ty, made);
    let says_something = field.list.is_some()
        || field.atomic.is_some()
        || !field.patch_strategies.is_empty()
        || field.default.is_some()
        || !field.values.is_empty();
    if let Some(zero) = zero(field).filter(|_| !says_something) {
        return zero;
    }
    // A field that says something of a named type needs a node of its own, which a copy of the type is;
    // the types in it stay shared.
    if !says_something {
        return plain;
    }
    let mut own = plain.get().clone();
    own.list_type = match &field.list {
        Some(List::Set) => ListType::Set,
        Some(List::Map(keys)) => ListType::Map(keys.iter().map(|key| Box::from(*key)).collect()),
        Some(List::Atomic) | None => own.list_type,
    };
    if let Some(atomic) = field.atomic {
        own.map_type = if atomic { MapType::Atomic } else { MapType::Granular };
    }
    if !field.patch_strategies.is_empty() {
        let strategies = field.patch_strategies.iter().map(|strategy| Box::from(*strategy)).collect();
        own.patch = Some(Box::new(Patch { strategies, merge_key: field.patch_key.into() }));
    }
    own.default = field.default.clone().map(Box::new);
    if !field.values.is_empty() {
        let values = field.values.iter().map(|value| Value::from(value.replace('~', " "))).collect();
        own.rules.get_or_insert_default().one_of_values = values;
    }
    own.into()
}

/// The node of a scalar that Go writes even where it is zero, which the published schemas call its default:
/// elements of lists are told apart by it where it is not given. There is one for each type.
fn zero(field: &'static Field) -> Option<SchemaRef> {
    static NODES: LazyLock<[SchemaRef; 4]> = LazyLock::new(|| {
        let node = |shape, format: &str, zero: Value| {
            let schema = if format.is_empty() { Schema::of(shape) } else { Schema::of(shape).with_format(format) };
            Schema { default: Some(Box::new(zero)), ..schema }.into()
        };
        [
            node(Shape::String, "", Value::from("")),
            node(Shape::Integer, "int32", Value::from(0)),
            node(Shape::Integer, "int64", Value::from(0)),
            node(Shape::Boolean, "", Value::from(false)),
        ]
    });
    if field.pointer || field.omit_empty || field.omit_zero {
        return None;
    }
    let [text, short, long, truth] = &*NODES;
    let node = match field.ty {
        Type::String => text,
        Type::Int32 => short,
        Type::Int64 => long,
        Type::Bool => truth,
        _ => return None,
    };
    Some(node.clone())
}

fn node(ty: &'static Type, made: &mut BTreeMap<&'static str, NamedSchema>) -> SchemaRef {
    let text = |format: &str| Schema::of(Shape::String).with_format(format);
    // Whatever it is, it is one value: nobody owns a part of it.
    let any_object = || Schema { preserve_unknown: true, map_type: MapType::Atomic, ..Schema::of(Shape::Object) };
    // That it is an object is for whoever reads it to say.
    let anything_whole = || Schema { map_type: MapType::Atomic, ..Schema::anything() };
    match ty {
        Type::String | Type::Duration => Schema::of(Shape::String).into(),
        // Numbers are quantities too, which a string with a format leaves open.
        Type::Quantity => text("quantity").into(),
        Type::Bool => Schema::of(Shape::Boolean).into(),
        Type::Int32 => Schema::of(Shape::Integer).with_format("int32").into(),
        Type::Int64 => Schema::of(Shape::Integer).with_format("int64").into(),
        Type::Double => Schema::of(Shape::Number).with_format("double").into(),
        Type::Bytes => text("byte").into(),
        Type::Time | Type::MicroTime => text("date-time").into(),
        Type::IntOrString => Schema::of(Shape::IntOrString).into(),
        Type::FieldsV1 => any_object().into(),
        Type::RawExtension => anything_whole().into(),
        Type::Json | Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings => Schema::anything().into(),
        Type::Items => Schema::array(Schema::of(Shape::String)).into(),
        Type::List(of) => Schema::array(node(of, made)).into(),
        Type::Map(of) => Schema::map(node(of, made)).into(),
        Type::Message(name) => named(name, made).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::types::SCHEMA_PROPS;

    fn at(root: &'static str, path: &[&str]) -> Schema {
        let root = schema(root);
        path.iter().fold(root.get().clone(), |node, step| match *step {
            "[]" => node.items.as_ref().expect("a list").get().clone(),
            name => node.member(name).unwrap_or_else(|| panic!("no {name}")).clone(),
        })
    }

    #[test]
    fn fields_say_how_they_merge() {
        let ports = at("core/v1.Service", &["spec", "ports"]);
        assert_eq!(ports.list_type, ListType::Map(["port".into(), "protocol".into()].into()));
        assert_eq!(ports.patch.as_ref().map(|patch| &*patch.merge_key), Some("port"));
        assert_eq!(at("core/v1.Service", &["spec", "selector"]).map_type, MapType::Atomic);
        let volumes = at("apps/v1.Deployment", &["spec", "template", "spec", "volumes"]);
        let strategies = volumes.patch.expect("says how it merges").strategies;
        assert_eq!(strategies.iter().map(|name| &**name).collect::<Vec<_>>(), ["merge", "retainKeys"]);
        let protocol = at("core/v1.Service", &["spec", "ports", "[]", "protocol"]);
        assert_eq!(protocol.default.as_deref(), Some(&Value::from("TCP")));
    }

    #[test]
    fn types_contain_themselves_and_embedded_members_stand_inline() {
        let deep = at(SCHEMA_PROPS, &["properties", "a", "not", "allOf", "[]", "type"]);
        assert_eq!(deep.shape, Shape::String);
        let volume = at("core/v1.Pod", &["spec", "volumes", "[]"]);
        assert!(volume.property("configMap").is_some() && volume.property("name").is_some());
    }
}
