//! Writes objects as Go's generated code does, by the type table, so that tests have bodies of any kind.

use allotment_machinery::json::{Map, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::MAGIC;
use crate::builtin::{self, Message, SCHEMA_PROPS, Type};

/// A whole body.
pub(super) fn body(api_version: &str, kind: &str, message: &'static Message, object: &Map) -> Vec<u8> {
    let mut type_meta = Vec::new();
    bytes(1, api_version.as_bytes(), &mut type_meta);
    bytes(2, kind.as_bytes(), &mut type_meta);
    let mut out = MAGIC.to_vec();
    bytes(1, &type_meta, &mut out);
    bytes(2, &encode(message, object), &mut out);
    bytes(3, b"", &mut out);
    bytes(4, b"", &mut out);
    out
}

pub(super) fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn tag(number: u32, wire_type: u8, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | u64::from(wire_type), out);
}

pub(super) fn bytes(number: u32, content: &[u8], out: &mut Vec<u8>) {
    tag(number, 2, out);
    varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

fn integer(number: u32, value: i64, out: &mut Vec<u8>) {
    tag(number, 0, out);
    varint(value as u64, out);
}

/// A message. Fields that Go always writes are written where the object has none, too.
pub(super) fn encode(message: &'static Message, object: &Map) -> Vec<u8> {
    let mut out = Vec::new();
    for field in message.fields.iter().filter(|field| field.number != 0) {
        if let (".", Type::Message(name)) = (field.name, &field.ty) {
            bytes(field.number, &encode(builtin::message(name).expect(name), object), &mut out);
            continue;
        }
        match (object.get(field.name).filter(|value| !value.is_null()), &field.ty) {
            (Some(Value::Array(items)), Type::List(of)) => {
                items.iter().for_each(|item| value(field.number, of, item, &mut out))
            }
            (Some(Value::Object(map)), Type::Map(of)) => {
                for (key, item) in map.iter() {
                    let mut entry = Vec::new();
                    bytes(1, key.as_bytes(), &mut entry);
                    value(2, of, item, &mut entry);
                    bytes(field.number, &entry, &mut out);
                }
            }
            (Some(given), ty) => value(field.number, ty, given, &mut out),
            (None, _) if field.pointer => {}
            (None, Type::String) => bytes(field.number, b"", &mut out),
            (None, Type::Bool | Type::Int32 | Type::Int64) => integer(field.number, 0, &mut out),
            (None, Type::Time | Type::MicroTime) => bytes(field.number, b"", &mut out),
            (None, Type::Message(name)) => {
                bytes(field.number, &encode(builtin::message(name).expect(name), &Map::new()), &mut out);
            }
            (None, _) => {}
        }
    }
    out
}

fn value(number: u32, ty: &'static Type, given: &Value, out: &mut Vec<u8>) {
    let one = |field: u32, content: &[u8]| {
        let mut inner = Vec::new();
        bytes(field, content, &mut inner);
        inner
    };
    let schema =
        |given: &Value| encode(builtin::message(SCHEMA_PROPS).expect("is there"), given.as_object().expect("a schema"));
    let all = |field: u32, items: &[Value], content: &dyn Fn(&Value) -> Vec<u8>| {
        let mut inner = Vec::new();
        items.iter().for_each(|item| bytes(field, &content(item), &mut inner));
        inner
    };
    let text = |given: &Value| given.as_str().unwrap_or_default().as_bytes().to_vec();
    match (ty, given) {
        (Type::Bool, given) => integer(number, i64::from(given.as_bool() == Some(true)), out),
        (Type::Int32 | Type::Int64, given) => integer(number, given.as_i64().unwrap_or(0), out),
        (Type::Double, Value::Number(given)) => {
            tag(number, 1, out);
            out.extend_from_slice(&given.as_f64().to_le_bytes());
        }
        (Type::Bytes, given) => bytes(number, &STANDARD.decode(text(given)).expect("base64"), out),
        (Type::String, given) => bytes(number, &text(given), out),
        (Type::Quantity, given) => bytes(number, &one(1, &text(given)), out),
        (Type::Time | Type::MicroTime, Value::String(given)) => {
            let time: jiff::Timestamp = given.parse().expect("a time");
            let mut inner = Vec::new();
            integer(1, time.as_second(), &mut inner);
            integer(2, i64::from(time.subsec_nanosecond()), &mut inner);
            bytes(number, &inner, out);
        }
        (Type::Time | Type::MicroTime, _) => bytes(number, b"", out),
        (Type::IntOrString, given) => {
            let mut inner = Vec::new();
            integer(1, i64::from(given.as_str().is_some()), &mut inner);
            integer(2, given.as_i64().unwrap_or(0), &mut inner);
            bytes(3, &text(given), &mut inner);
            bytes(number, &inner, out);
        }
        (Type::RawExtension | Type::FieldsV1 | Type::Json, given) => bytes(number, &one(1, &given.to_vec()), out),
        (Type::Items, Value::Array(items)) => bytes(number, &all(1, items, &text), out),
        (Type::SchemaOrBool, Value::Bool(allows)) => {
            let mut inner = Vec::new();
            integer(1, i64::from(*allows), &mut inner);
            bytes(number, &inner, out);
        }
        (Type::SchemaOrBool, given) => {
            let mut inner = Vec::new();
            integer(1, 1, &mut inner);
            bytes(2, &schema(given), &mut inner);
            bytes(number, &inner, out);
        }
        (Type::SchemaOrArray, Value::Array(items)) => bytes(number, &all(2, items, &schema), out),
        (Type::SchemaOrStrings, Value::Array(items)) => bytes(number, &all(2, items, &text), out),
        (Type::SchemaOrArray | Type::SchemaOrStrings, given) => bytes(number, &one(1, &schema(given)), out),
        (Type::Message(name), given) => {
            let message = builtin::message(name).expect(name);
            bytes(number, &encode(message, given.as_object().unwrap_or(&Map::new())), out);
        }
        (ty, given) => panic!("{given} is no {ty:?}"),
    }
}
