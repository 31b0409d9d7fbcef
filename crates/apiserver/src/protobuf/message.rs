//! Messages of the type table, from the wire into JSON: every field that is there, as it is there. What
//! JSON leaves out is left to [`crate::builtin`].

use allotment_machinery::duration::Duration;
use allotment_machinery::json::{self, Map, Number, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::ProtobufError;
use super::wire::{self, Field, Reader};
use crate::builtin::{self, Message, SCHEMA_PROPS, Type};

/// How deep messages may nest. Schemas of definitions nest deepest; each level of one takes up to three
/// of JSON's levels, of which there are [`json::MAX_DEPTH`].
const MAX_MESSAGE_DEPTH: usize = 100;

/// How many values one body may have. Two bytes of the wire make a value of a hundred in memory; without
/// this bound a body of the largest size would take hundreds of megabytes.
const MAX_VALUES: usize = 400_000;

/// `0001-01-01T00:00:00Z`, Go's zero time.
const GO_ZERO_SECONDS: i64 = -62_135_596_800;

/// Reads a message.
pub(super) fn read(message: &'static Message, bytes: &[u8]) -> Result<Map, ProtobufError> {
    let mut map = Map::new();
    Decoder { values: 0, depth: 0 }.message(message, bytes, &mut map)?;
    Ok(map)
}

struct Decoder {
    values: usize,
    depth: usize,
}

type Read<T> = Result<T, ProtobufError>;

/// The field that is being read, for errors.
#[derive(Clone, Copy)]
struct Place {
    message: &'static str,
    field: &'static str,
}

impl Place {
    fn text(self) -> String {
        format!("{}.{}", self.message.rsplit('.').next().unwrap_or_default(), self.field)
    }

    fn wrong(self, field: Field<'_>) -> ProtobufError {
        ProtobufError::WireType { field: self.text(), wire_type: field.wire_type() }
    }

    fn embedded(self, reason: impl ToString) -> ProtobufError {
        ProtobufError::Embedded { field: self.text(), reason: reason.to_string() }
    }
}

impl Decoder {
    fn count(&mut self) -> Read<()> {
        self.values += 1;
        if self.values > MAX_VALUES { Err(ProtobufError::TooMany) } else { Ok(()) }
    }

    /// Reads fields into `map`, over what is there: a message that comes in parts is merged.
    fn message(&mut self, message: &'static Message, bytes: &[u8], map: &mut Map) -> Read<()> {
        self.depth += 1;
        if self.depth > MAX_MESSAGE_DEPTH {
            return Err(ProtobufError::TooDeep);
        }
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.next()? {
            self.count()?;
            if let Some(field) = message.fields.iter().find(|field| field.number == number) {
                let place = Place { message: message.name, field: field.name };
                self.field(place, &field.ty, value, map)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn field(&mut self, place: Place, ty: &'static Type, value: Field<'_>, map: &mut Map) -> Read<()> {
        match ty {
            Type::Message(name) if place.field == "." => {
                let Field::Bytes(bytes) = value else { return Err(place.wrong(value)) };
                self.named(name, bytes, map)
            }
            Type::Message(_) | Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings => {
                let before = map.remove(place.field);
                let read = self.value(place, ty, value, before)?;
                map.insert(place.field, read);
                Ok(())
            }
            Type::List(of) => {
                let list = map.get_or_insert_with(place.field, || Value::Array(Vec::new()));
                let Value::Array(items) = list else { return Ok(()) };
                match (&**of, value) {
                    (Type::Int32 | Type::Int64, Field::Bytes(bytes)) => self.packed(of, bytes, items),
                    _ => {
                        items.push(self.value(place, of, value, None)?);
                        Ok(())
                    }
                }
            }
            Type::Map(of) => {
                let Some(entries) = map.object_mut(place.field) else { return Ok(()) };
                self.entry(place, of, value, entries)
            }
            _ => {
                let read = self.value(place, ty, value, None)?;
                map.insert(place.field, read);
                Ok(())
            }
        }
    }

    fn named(&mut self, name: &str, bytes: &[u8], map: &mut Map) -> Read<()> {
        match builtin::message(name) {
            Some(message) => self.message(message, bytes, map),
            None => Ok(()),
        }
    }

    fn packed(&mut self, of: &'static Type, bytes: &[u8], items: &mut Vec<Value>) -> Read<()> {
        let mut reader = Reader::new(bytes);
        while let Some(number) = reader.packed()? {
            self.count()?;
            items.push(integer(of, number));
        }
        Ok(())
    }

    /// An entry of a map: a message of a key and a value.
    fn entry(&mut self, place: Place, of: &'static Type, value: Field<'_>, entries: &mut Map) -> Read<()> {
        let Field::Bytes(bytes) = value else { return Err(place.wrong(value)) };
        let (mut key, mut content) = (String::new(), None);
        let mut reader = Reader::new(bytes);
        while let Some((number, field)) = reader.next()? {
            self.count()?;
            match (number, field) {
                (1, Field::Bytes(bytes)) => key = wire::text(bytes),
                (2, field) => content = Some(self.value(place, of, field, content)?),
                _ => {}
            }
        }
        entries.insert(key, content.unwrap_or_default());
        Ok(())
    }

    /// One value of a type; `before` is what a message that comes in parts has so far.
    fn value(&mut self, place: Place, ty: &'static Type, value: Field<'_>, before: Option<Value>) -> Read<Value> {
        match (ty, value) {
            (Type::Bool, Field::Varint(number)) => Ok(Value::from(number != 0)),
            (Type::Int32 | Type::Int64, Field::Varint(number)) => Ok(integer(ty, number)),
            (Type::Double, Field::Fixed64(bits)) => {
                let number = f64::from_bits(bits);
                let plain = number.fract() == 0.0 && number.abs() < 1e15;
                let number = if plain { Some(Number::from(number as i64)) } else { Number::from_f64(number) };
                number.map(Value::Number).ok_or_else(|| place.embedded("not a number that JSON has"))
            }
            (Type::String, Field::Bytes(bytes)) => Ok(Value::from(wire::text(bytes))),
            (Type::Bytes, Field::Bytes(bytes)) => Ok(Value::from(STANDARD.encode(bytes))),
            (Type::Message(name), Field::Bytes(bytes)) => {
                let mut map = into_map(before);
                self.named(name, bytes, &mut map)?;
                Ok(Value::Object(map))
            }
            (Type::Time | Type::MicroTime, Field::Bytes(bytes)) => time(place, ty, bytes),
            (Type::Duration, Field::Bytes(bytes)) => {
                let nanos = numbers(bytes, [1])?[0].unwrap_or(0);
                Ok(Value::from(Duration::from_nanos(nanos as i64).to_string()))
            }
            (Type::Quantity, Field::Bytes(bytes)) => {
                Ok(Value::from(only_text(bytes, 1)?.unwrap_or_else(|| "0".to_owned())))
            }
            (Type::IntOrString, Field::Bytes(bytes)) => int_or_string(bytes),
            (Type::RawExtension | Type::FieldsV1 | Type::Json, Field::Bytes(bytes)) => raw_json(place, bytes),
            (Type::Items, Field::Bytes(bytes)) => self.items(place, bytes),
            (Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings, Field::Bytes(bytes)) => {
                self.schema_or(place, ty, bytes, before)
            }
            (_, other) => Err(place.wrong(other)),
        }
    }

    /// A list that is a message of its own.
    fn items(&mut self, place: Place, bytes: &[u8]) -> Read<Value> {
        let mut items = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some((number, field)) = reader.next()? {
            self.count()?;
            if number == 1 {
                items.push(self.value(place, &Type::String, field, None)?);
            }
        }
        Ok(Value::Array(items))
    }

    /// A schema or something else, as Go writes it: the else only where there is no schema, but a list
    /// of schemas before a schema.
    fn schema_or(&mut self, place: Place, ty: &'static Type, bytes: &[u8], before: Option<Value>) -> Read<Value> {
        let (schema_number, other_number) = if *ty == Type::SchemaOrBool { (2, 1) } else { (1, 2) };
        let mut schema = before.filter(|before| matches!(before, Value::Object(_)));
        let (mut allows, mut list) = (false, Vec::new());
        let mut reader = Reader::new(bytes);
        while let Some((number, field)) = reader.next()? {
            self.count()?;
            if number == schema_number {
                schema = Some(self.value(place, &Type::Message(SCHEMA_PROPS), field, schema)?);
            } else if number == other_number {
                match ty {
                    Type::SchemaOrBool => allows = self.value(place, &Type::Bool, field, None)? == Value::from(true),
                    Type::SchemaOrArray => list.push(self.value(place, &Type::Message(SCHEMA_PROPS), field, None)?),
                    _ => list.push(self.value(place, &Type::String, field, None)?),
                }
            }
        }
        Ok(match (schema, *ty == Type::SchemaOrBool) {
            _ if !list.is_empty() => Value::Array(list),
            (Some(schema), _) => schema,
            (None, true) => Value::from(allows),
            (None, false) => Value::Null,
        })
    }
}

fn into_map(before: Option<Value>) -> Map {
    match before {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Numbers are written as the two's complement of 64 bits; Go cuts them to the type.
fn integer(ty: &Type, number: u64) -> Value {
    Value::from(if *ty == Type::Int32 { i64::from(number as i32) } else { number as i64 })
}

/// The numbers in the fields `wanted` of a small message; the last one of each.
fn numbers<const N: usize>(bytes: &[u8], wanted: [u32; N]) -> Read<[Option<u64>; N]> {
    let mut found = [None; N];
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        if let (Some(index), Field::Varint(value)) = (wanted.iter().position(|have| *have == number), field) {
            found[index] = Some(value);
        }
    }
    Ok(found)
}

/// The bytes in the field `wanted` of a small message.
fn only_bytes(bytes: &[u8], wanted: u32) -> Read<Option<&[u8]>> {
    let mut found = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        if let (true, Field::Bytes(value)) = (number == wanted, field) {
            found = Some(value);
        }
    }
    Ok(found)
}

fn only_text(bytes: &[u8], wanted: u32) -> Read<Option<String>> {
    Ok(only_bytes(bytes, wanted)?.map(wire::text))
}

fn int_or_string(bytes: &[u8]) -> Read<Value> {
    let [kind, number] = numbers(bytes, [1, 2])?;
    Ok(match kind {
        Some(1) => Value::from(only_text(bytes, 3)?.unwrap_or_default()),
        _ => integer(&Type::Int32, number.unwrap_or(0)),
    })
}

fn time(place: Place, ty: &Type, bytes: &[u8]) -> Read<Value> {
    let [seconds, nanos] = numbers(bytes, [1, 2])?;
    let (seconds, nanos) = (seconds.unwrap_or(0) as i64, nanos.unwrap_or(0) as i32);
    // Go writes nothing for no time, and reads nothing as none.
    if bytes.is_empty() || seconds == GO_ZERO_SECONDS && nanos == 0 {
        return Ok(Value::Null);
    }
    let time = Timestamp::new(seconds, nanos).map_err(|_| ProtobufError::Time { field: place.text() })?;
    builtin::time_text(time, *ty == Type::MicroTime)
        .map(Value::from)
        .ok_or_else(|| ProtobufError::Time { field: place.text() })
}

/// JSON that lies in bytes, in the field 1 of a small message.
fn raw_json(place: Place, bytes: &[u8]) -> Read<Value> {
    match only_bytes(bytes, 1)? {
        None | Some([]) => Ok(Value::Null),
        Some(raw) => json::parse(raw).map_err(|error| place.embedded(error)),
    }
}
