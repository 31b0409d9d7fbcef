//! Documents in protobuf: the messages of gnostic's `OpenAPIv2.proto` and `OpenAPIv3.proto`, written from
//! the JSON of a document by tables of fields.
//!
//! Members that a table does not name and that are no extensions (`x-…`) are left out: the old form has no
//! place for `oneOf`, say.

pub(super) mod three;
pub(super) mod two;

use allotment_machinery::json::{Map, Value};

/// A message: its fields and the number of its extensions, 0 where it has none.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) fields: &'static [(&'static str, u32, Field)],
    pub(super) extensions: u32,
}

/// How a member of the JSON object is written.
#[derive(Debug)]
pub(super) enum Field {
    /// A text.
    Text,
    /// Texts, one field each.
    Texts,
    /// A text as a message of one text: the type of a schema.
    WrappedText,
    /// A truth value.
    Flag,
    /// A whole number.
    Integer,
    /// A number.
    Double,
    /// Any value, as YAML.
    Any,
    /// Any values, one field each.
    Anys,
    /// A default: a message with a number, a truth value or a text, empty for anything else.
    Scalar,
    /// A message.
    Message(&'static Shape),
    /// Messages, one field each.
    Messages(&'static Shape),
    /// A message, or a reference in its place.
    OrReference(&'static Shape),
    /// The same, one field each.
    OrReferences(&'static Shape),
    /// A message within a message of one field with this number.
    Within(u32, &'static Field),
    /// A message of names and values: the number of the entries in it, and what each value is.
    Named(u32, &'static Field),
    /// A schema or a truth value (`additionalProperties`).
    OrFlag(&'static Field),
    /// Values, one field each.
    Each(&'static Field),
    /// A parameter of the old form: of the body, of the query or of the path.
    OldParameter,
}

/// A document, or a part of one, as the message `shape`.
pub(super) fn encode(shape: &Shape, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(map) = value.as_object() {
        members(shape, map, &mut out);
    }
    out
}

/// An entry of a message of names and values, with the number that entries have there.
pub(super) fn entry(number: u32, name: &str, value: &[u8]) -> Vec<u8> {
    let mut inner = Vec::with_capacity(name.len() + value.len() + 8);
    bytes(1, name.as_bytes(), &mut inner);
    bytes(2, value, &mut inner);
    let mut out = Vec::with_capacity(inner.len() + 8);
    bytes(number, &inner, &mut out);
    out
}

/// A field of bytes.
pub(super) fn bytes(number: u32, content: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | 2, out);
    varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn members(shape: &Shape, map: &Map, out: &mut Vec<u8>) {
    for (name, number, field) in shape.fields {
        if let Some(value) = map.get(name) {
            write(*number, field, value, out);
        }
    }
    if shape.extensions == 0 {
        return;
    }
    for (name, value) in map.iter().filter(|(name, _)| name.starts_with("x-")) {
        out.extend_from_slice(&entry(shape.extensions, name, &any(value)));
    }
}

/// `Any`: its field 2 is YAML, of which JSON is a part.
fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(2, &value.to_vec(), &mut out);
    out
}

fn write(number: u32, field: &Field, value: &Value, out: &mut Vec<u8>) {
    let list = value.as_array().unwrap_or_default();
    match field {
        Field::Text => bytes(number, value.as_str().unwrap_or_default().as_bytes(), out),
        Field::Texts => list.iter().for_each(|text| write(number, &Field::Text, text, out)),
        Field::WrappedText => {
            let mut inner = Vec::new();
            write(1, &Field::Text, value, &mut inner);
            bytes(number, &inner, out);
        }
        Field::Flag => {
            if value.as_bool() == Some(true) {
                varint(u64::from(number) << 3, out);
                varint(1, out);
            }
        }
        Field::Integer => {
            varint(u64::from(number) << 3, out);
            varint(value.as_i64().unwrap_or_default().cast_unsigned(), out);
        }
        Field::Double => double(number, value, out),
        Field::Any => bytes(number, &any(value), out),
        Field::Anys => list.iter().for_each(|value| write(number, &Field::Any, value, out)),
        Field::Scalar => {
            let mut inner = Vec::new();
            match value {
                Value::Number(_) => double(1, value, &mut inner),
                // A choice is written even where it is false.
                Value::Bool(flag) => inner.extend_from_slice(&[2 << 3, u8::from(*flag)]),
                Value::String(text) => bytes(3, text.as_bytes(), &mut inner),
                Value::Null | Value::Array(_) | Value::Object(_) => {}
            }
            bytes(number, &inner, out);
        }
        Field::Message(shape) => bytes(number, &encode(shape, value), out),
        Field::Messages(shape) => list.iter().for_each(|value| bytes(number, &encode(shape, value), out)),
        Field::OrReference(shape) => {
            let mut inner = Vec::new();
            match value.get("$ref") {
                Some(target) => {
                    let mut reference = Vec::new();
                    write(1, &Field::Text, target, &mut reference);
                    bytes(2, &reference, &mut inner);
                }
                None => bytes(1, &encode(shape, value), &mut inner),
            }
            bytes(number, &inner, out);
        }
        Field::OrReferences(shape) => {
            list.iter().for_each(|value| write(number, &Field::OrReference(shape), value, out));
        }
        Field::Within(inner_number, field) => {
            let mut inner = Vec::new();
            write(*inner_number, field, value, &mut inner);
            bytes(number, &inner, out);
        }
        Field::Named(entries, field) => {
            let mut inner = Vec::new();
            for (name, value) in value.as_object().into_iter().flat_map(Map::iter) {
                let mut named = Vec::new();
                bytes(1, name.as_bytes(), &mut named);
                write(2, field, value, &mut named);
                bytes(*entries, &named, &mut inner);
            }
            bytes(number, &inner, out);
        }
        Field::OrFlag(field) => {
            let mut inner = Vec::new();
            match value {
                Value::Bool(flag) => inner.extend_from_slice(&[2 << 3, u8::from(*flag)]),
                other => write(1, field, other, &mut inner),
            }
            bytes(number, &inner, out);
        }
        Field::Each(field) => list.iter().for_each(|value| write(number, field, value, out)),
        Field::OldParameter => bytes(number, &two::parameter(value), out),
    }
}

fn double(number: u32, value: &Value, out: &mut Vec<u8>) {
    let Value::Number(written) = value else { return };
    let value: f64 = written.as_str().parse().unwrap_or_default();
    varint(u64::from(number) << 3 | 1, out);
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json::parse;

    use super::*;

    #[track_caller]
    fn check(shape: &Shape, text: &str, expect: &[u8]) {
        assert_eq!(encode(shape, &parse(text.as_bytes()).expect(text)), expect, "{text}");
    }

    #[test]
    fn lengths_are_written_seven_bits_a_byte() {
        let mut out = Vec::new();
        bytes(8, &[0; 300], &mut out);
        assert_eq!(out[..3], [0x42, 0xac, 0x02]);
        let mut out = Vec::new();
        bytes(16, b"", &mut out);
        assert_eq!(out, [0x82, 0x01, 0]);
    }

    #[test]
    fn schemas_of_the_new_form_stand_within_a_choice_of_schema_and_reference() {
        check(&three::SCHEMA, r#"{"type":"string"}"#, b"\xca\x01\x06string");
        check(&three::SCHEMA, r#"{"default":""}"#, b"\x8a\x02\x02\x1a\x00");
        check(&three::SCHEMA, r#"{"default":false}"#, b"\x8a\x02\x02\x10\x00");
        check(&three::SCHEMA, r#"{"default":{}}"#, b"\x8a\x02\x00");
        check(&three::SCHEMA, r##"{"items":{"$ref":"#/a"}}"##, b"\xf2\x01\x09\x0a\x07\x12\x05\x0a\x03#/a".as_slice());
        check(&three::SCHEMA, r#"{"additionalProperties":true}"#, b"\x82\x02\x02\x10\x01");
        check(&three::SCHEMA, r#"{"x-a":true}"#, b"\xa2\x02\x0d\x0a\x03x-a\x12\x06\x12\x04true");
        check(&three::SCHEMA, r#"{"unknown":1}"#, b"");
    }

    #[test]
    fn schemas_of_the_old_form_hold_their_reference_themselves() {
        check(&two::SCHEMA, r##"{"$ref":"#/a"}"##, b"\x0a\x03#/a");
        check(&two::SCHEMA, r#"{"type":"string"}"#, b"\xb2\x01\x08\x0a\x06string");
        check(&two::SCHEMA, r#"{"oneOf":[{}]}"#, b"");
        check(
            &two::SCHEMA,
            r#"{"properties":{"a":{"maxLength":5}}}"#,
            b"\xca\x01\x09\x0a\x07\x0a\x01a\x12\x02\x58\x05",
        );
    }

    #[test]
    fn parameters_of_the_old_form_are_told_apart_by_their_place() {
        let parameter = |text: &str| two::parameter(&parse(text.as_bytes()).expect(text));
        assert_eq!(parameter(r#"{"in":"query","name":"q"}"#), b"\x0a\x0e\x12\x0c\x1a\x0a\x12\x05query\x22\x01q");
        assert_eq!(parameter(r#"{"in":"path","name":"p"}"#), b"\x0a\x0d\x12\x0b\x22\x09\x12\x04path\x22\x01p");
        assert_eq!(parameter(r#"{"in":"body","name":"b"}"#), b"\x0a\x0b\x0a\x09\x12\x01b\x1a\x04body");
        assert_eq!(parameter(r##"{"$ref":"#/p"}"##), b"\x12\x05\x0a\x03#/p");
    }
}
