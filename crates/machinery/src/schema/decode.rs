//! What a typed decoder says of an object of a built-in kind.

use super::node::{Additional, Schema, Shape};
use super::prune::join;
use crate::json::{Map, Value};

/// A value of a type that the field does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field {path}: expected {expected}, found {found}")]
pub struct TypeMismatch {
    /// Which field.
    pub path: String,
    /// The type that the field has.
    pub expected: &'static str,
    /// The type of what was given.
    pub found: &'static str,
}

/// Checks an object against the types of a built-in kind; returns the paths of members that the kind
/// does not have, sorted. `null` is the absence of a value, whatever the type.
///
/// # Errors
/// The first value whose type is wrong: the object cannot be decoded.
pub fn decode_check(schema: &Schema, object: &Map) -> Result<Vec<String>, TypeMismatch> {
    let mut unknown = Vec::new();
    check_members(schema, object, "", &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

fn check(schema: &Schema, value: &Value, path: &str, unknown: &mut Vec<String>) -> Result<(), TypeMismatch> {
    let fits = match (schema.shape, value) {
        (_, Value::Null) | (Shape::Any, _) => true,
        (Shape::Object, Value::Object(map)) => return check_members(schema, map, path, unknown),
        (Shape::Array, Value::Array(items)) => return check_items(schema, items, path, unknown),
        (Shape::String, Value::String(_)) => true,
        (Shape::Boolean, Value::Bool(_)) | (Shape::Number, Value::Number(_)) => true,
        (Shape::Integer, Value::Number(number)) => number.as_i64().is_some_and(|value| in_range(schema, value)),
        (Shape::IntOrString, Value::String(_)) => true,
        (Shape::IntOrString, Value::Number(number)) => {
            number.as_i64().is_some_and(|value| i32::try_from(value).is_ok())
        }
        _ => false,
    };
    if fits { Ok(()) } else { Err(mismatch(schema, value, path)) }
}

fn in_range(schema: &Schema, value: i64) -> bool {
    schema.format() != "int32" || i32::try_from(value).is_ok()
}

fn mismatch(schema: &Schema, value: &Value, path: &str) -> TypeMismatch {
    let expected = match schema.shape {
        Shape::IntOrString => "an integer or a string",
        shape => shape.type_name(),
    };
    TypeMismatch { path: path.to_owned(), expected, found: value.type_name() }
}

fn check_items(schema: &Schema, items: &[Value], path: &str, unknown: &mut Vec<String>) -> Result<(), TypeMismatch> {
    let Some(of_items) = &schema.items else { return Ok(()) };
    for (index, item) in items.iter().enumerate() {
        check(of_items.get(), item, &format!("{path}[{index}]"), unknown)?;
    }
    Ok(())
}

fn check_members(schema: &Schema, map: &Map, path: &str, unknown: &mut Vec<String>) -> Result<(), TypeMismatch> {
    let keeps = schema.preserve_unknown || schema.additional == Additional::Anything;
    for (name, value) in map.iter() {
        let root_type = path.is_empty() && matches!(name, "apiVersion" | "kind");
        match schema.member(name) {
            Some(member) => check(member, value, &join(path, name), unknown)?,
            None if keeps || root_type => {}
            None => unknown.push(join(path, name)),
        }
    }
    Ok(())
}
