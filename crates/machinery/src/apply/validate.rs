//! Whether a value is of a type. Texts are those of structured-merge-diff's `typed` package.

use std::fmt;

use super::element::PathElement;
use super::types::{ListAtom, MapAtom, Scalar, TypeRef};
use crate::gotext::{go_plain, go_syntax, go_type};
use crate::json::{Map, Value};

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeErrors(Vec<(String, String)>);

/// `.spec.ports: duplicate entries for key [=1]`, or a list of such lines.
impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |(path, why): &(String, String)| {
            if path.is_empty() { why.clone() } else { format!("{path}: {why}") }
        };
        match self.0.as_slice() {
            [only] => f.write_str(&one(only)),
            many => {
                f.write_str("errors:")?;
                many.iter().try_for_each(|error| write!(f, "\n  {}", one(error)))
            }
        }
    }
}

impl std::error::Error for TypeErrors {}

/// Whether elements of lists may have equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// They may: objects that were stored, or are about to be, are judged by others.
    Allowed,
    /// They may not: in what is applied.
    Refused,
}

/// Checks that an object is of a type.
///
/// # Errors
/// Every place where it is not, with the texts that clients of kube-apiserver know.
pub fn validate(object: &Map, ty: TypeRef<'_>, duplicates: Duplicates) -> Result<(), TypeErrors> {
    let mut validator = Validator { duplicates, path: Vec::new(), errors: Vec::new() };
    match ty.resolve().map {
        Some(map) => validator.members(&map, object),
        None => validator.fault("schema error: invalid atom: inlined"),
    }
    if validator.errors.is_empty() { Ok(()) } else { Err(TypeErrors(validator.errors)) }
}

struct Validator {
    duplicates: Duplicates,
    path: Vec<String>,
    errors: Vec<(String, String)>,
}

impl Validator {
    fn fault(&mut self, why: impl Into<String>) {
        self.errors.push((self.path.concat(), why.into()));
    }

    fn value(&mut self, value: &Value, ty: TypeRef<'_>) {
        if ty.takes_anything() {
            return;
        }
        let atom = ty.resolve().deduced(Some(value));
        if let Some(map) = atom.map {
            match value {
                Value::Object(members) => self.members(&map, members),
                Value::Null => {}
                other => self.fault(format!("expected map, got &{{{}}}", go_plain(other))),
            }
        } else if let Some(scalar) = atom.scalar {
            if let Some(why) = scalar_fault(scalar, value) {
                self.fault(why);
            }
        } else if let Some(list) = atom.list {
            match value {
                Value::Array(items) => self.items(&list, items),
                Value::Null => {}
                other => self.fault(format!("expected list, got &{{{}}}", go_plain(other))),
            }
        } else {
            self.fault("schema error: invalid atom: inlined");
        }
    }

    fn members(&mut self, map: &MapAtom<'_>, members: &Map) {
        for (name, value) in members.iter() {
            let ty = map.member(name);
            self.path.push(format!(".{name}"));
            if ty.is_nothing() {
                self.fault("field not declared in schema");
                self.path.pop();
                return;
            }
            self.value(value, ty);
            self.path.pop();
        }
    }

    fn items(&mut self, list: &ListAtom<'_>, items: &[Value]) {
        let element = list.element();
        let mut seen: Vec<PathElement> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let step = if list.atomic {
                format!("[{index}]")
            } else {
                let step = match list.path_element(item) {
                    Ok(step) => step,
                    Err(why) => return self.fault(format!("element {index}: {why}")),
                };
                let shown = step.to_string();
                match seen.binary_search(&step) {
                    Ok(_) if self.duplicates == Duplicates::Refused => {
                        self.fault(format!("duplicate entries for key {shown}"));
                    }
                    Ok(_) => {}
                    Err(place) => seen.insert(place, step),
                }
                shown
            };
            self.path.push(step);
            self.value(item, element);
            self.path.pop();
        }
    }
}

/// Why a value is no such scalar.
fn scalar_fault(scalar: Scalar, value: &Value) -> Option<String> {
    let shown = || format!("&{{{}}}", go_plain(value));
    let fits = |fits: bool, why: &dyn Fn() -> String| (!fits).then(why);
    if value.is_null() {
        return None;
    }
    match scalar {
        Scalar::Numeric => fits(matches!(value, Value::Number(_)), &|| {
            format!("expected numeric (int or float), got {}", go_type(value))
        }),
        Scalar::String => fits(matches!(value, Value::String(_)), &|| {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))
        }),
        Scalar::Boolean => fits(matches!(value, Value::Bool(_)), &|| format!("expected boolean, got {}", shown())),
        Scalar::Untyped => fits(matches!(value, Value::Number(_) | Value::String(_) | Value::Bool(_)), &|| {
            format!("expected any scalar, got {}", shown())
        }),
    }
}
