//! The ways of changing an object by a patch: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and
//! strategic merge patch. All take the object as JSON and give it back; what the result has to obey,
//! which kinds allow which patch, and server-side apply are left to others.
//!
//! Bounds: values are at most [`crate::json::MAX_DEPTH`] deep before and after; the time is linear in the
//! sizes of object and patch, but for JSON patch, which has a budget.

pub mod json;
pub mod merge;
pub mod strategic;
#[cfg(test)]
mod testing;

use crate::json::{Map, Value};

/// A value as Go prints it with `%v`: `map[a:1 b:[x y]]`. Messages about patches show it so.
pub fn go_print(value: &Value) -> String {
    let mut out = String::new();
    print(value, &mut out);
    out
}

fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(number.as_str()),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                print(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => print_map(map, out),
    }
}

fn print_map(map: &Map, out: &mut String) {
    out.push_str("map[");
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.extend([key, ":"]);
        print(value, out);
    }
    out.push(']');
}
