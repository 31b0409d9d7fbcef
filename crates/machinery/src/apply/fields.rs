//! Sets of fields as `FieldsV1` writes them: nested objects whose keys are steps, `.` for the field itself
//! where fields within it are in the set too.

use super::element::{ElementError, PathElement};
use super::scalar;
use super::set::{FieldSet, Node};
use crate::json::{Map, Value};

/// Why a value is no set of fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A key is no step.
    #[error("parsing key as path element: {0}")]
    Element(ElementError),
    /// Something else than an object stands below a key.
    #[error("a set of fields is made of objects, not of a {0}")]
    NoObject(&'static str),
}

impl FieldSet {
    /// Reads `fieldsV1`. Steps of kinds that are not known are left out with all below them.
    ///
    /// # Errors
    /// Malformed steps, or values that are no objects.
    pub fn from_fields(fields: &Value) -> Result<FieldSet, FieldsError> {
        Ok(read(fields)?.1)
    }

    /// The set as `fieldsV1`.
    pub fn to_fields(&self) -> Value {
        Value::Object(write(self, false))
    }

    /// The set as the bytes of `fieldsV1`, members in the order of their steps rather than of their texts.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        write_text(self, false, &mut out);
        out
    }
}

/// Whether the field itself is meant, and which ones within it.
fn read(value: &Value) -> Result<(bool, FieldSet), FieldsError> {
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Ok((true, FieldSet::new())),
        other => return Err(FieldsError::NoObject(other.type_name())),
    };
    let mut children = FieldSet::new();
    let mut itself = false;
    for (key, value) in map.iter() {
        if key == "." {
            itself = true;
            continue;
        }
        let element = match PathElement::parse(key) {
            Ok(element) => element,
            Err(ElementError::UnknownKind) => continue,
            Err(error) => return Err(FieldsError::Element(error)),
        };
        let (member, within) = read(value)?;
        children.push(Node { element, member, children: within });
    }
    Ok((itself || children.is_empty(), children))
}

fn write(set: &FieldSet, itself: bool) -> Map {
    let mut members = Vec::with_capacity(set.nodes().len() + 1);
    if itself && !set.is_empty() {
        members.push((".".to_owned(), Value::Object(Map::new())));
    }
    for node in set.nodes() {
        members.push((node.element.text(), Value::Object(write(&node.children, node.member))));
    }
    Map::from_iter(members)
}

fn write_text(set: &FieldSet, itself: bool, out: &mut String) {
    out.push('{');
    let mut comma = "";
    if itself && !set.is_empty() {
        out.push_str("\".\":{}");
        comma = ",";
    }
    for node in set.nodes() {
        out.push_str(comma);
        comma = ",";
        scalar::write_json_string(&node.element.text(), false, out);
        out.push(':');
        write_text(&node.children, node.member, out);
    }
    out.push('}');
}
