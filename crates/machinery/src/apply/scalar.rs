//! Values as structured-merge-diff sees them: numbers compared by value, one order over all values, and
//! their JSON. Their other texts are [`crate::gotext`]'s.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::gotext::{go_number, go_quote};
use crate::json::{Map, Number, Value};
use crate::schema::canonical_number;

/// A number as Go decodes it.
enum Num {
    Int(i64),
    Float(f64),
}

fn num(number: &Number) -> Num {
    number.as_i64().map_or_else(|| Num::Float(number.as_f64()), Num::Int)
}

#[expect(clippy::cast_precision_loss, reason = "integers are compared with floats as floats, as in the reference")]
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    let floats = |left: f64, right: f64| left.partial_cmp(&right).unwrap_or(Ordering::Equal);
    match (num(left), num(right)) {
        (Num::Int(left), Num::Int(right)) => left.cmp(&right),
        (Num::Int(left), Num::Float(right)) => floats(left as f64, right),
        (Num::Float(left), Num::Int(right)) => floats(left, right as f64),
        (Num::Float(left), Num::Float(right)) => floats(left, right),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// One order over all values: numbers, strings, truth values, lists, objects, null.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let differing = left.iter().zip(right).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            differing.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let pairs = left.iter().zip(right.iter());
            let differing = pairs.map(|((a, x), (b, y))| a.cmp(b).then_with(|| compare(x, y))).find(|o| o.is_ne());
            differing.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Whether two values are the same; `1` and `1.0` are.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || compare_numbers(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => equal_maps(left, right),
        _ => left == right,
    }
}

/// Whether two objects are the same.
pub(super) fn equal_maps(left: &Map, right: &Map) -> bool {
    let mut pairs = left.iter().zip(right.iter());
    left.len() == right.len() && pairs.all(|((a, x), (b, y))| a == b && equal(x, y))
}

/// Makes floats of all numbers: what Go's decoder makes of them where it is told no type. They stay floats,
/// written or not, until [`crate::schema::normalise_numbers`].
pub(super) fn to_floats(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = Number::from_f64(number.as_f64()) {
                *number = float;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(to_floats),
        Value::Object(map) => map.iter_mut().for_each(|(_, value)| to_floats(value)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Appends a value as compact JSON with markup escaped, as Go's encoders do by default.
pub(super) fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) if number.as_i64().is_some() => out.push_str(number.as_str()),
        Value::Number(number) => out.push_str(canonical_number(number).as_str()),
        Value::String(text) => write_json_string(text, true, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json_string(key, true, out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
    }
}

/// Appends a string as JSON; `markup` tells whether `<`, `>` and `&` are escaped.
pub(super) fn write_json_string(text: &str, markup: bool, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' if !markup => out.push(character),
            '\u{0}'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// A value for people, as conflicts name it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => go_number(number),
        Value::String(text) => go_quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(map) => map.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn markup_is_escaped() {
        let mut out = String::new();
        write_json(&json!({"a<": "\u{2028}\u{1}"}), &mut out);
        assert_eq!(out, r#"{"a\u003c":"\u2028\u0001"}"#);
    }

    #[test]
    fn numbers_are_equal_by_value() {
        let parse = |text: &str| json::parse(text.as_bytes()).expect(text);
        assert!(equal(&parse(r#"{"a":[1,2.50]}"#), &parse(r#"{"a":[1.0,2.5]}"#)));
        assert!(!equal(&parse("9007199254740993"), &parse("9007199254740992")));
        assert!(equal(&parse("9007199254740993"), &parse("9007199254740992.0")));
        assert!(!equal(&parse("1"), &parse("\"1\"")));
    }
}
