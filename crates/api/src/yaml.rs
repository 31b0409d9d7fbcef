//! Writes JSON values as block YAML, for generated files that people read and compare.
//!
//! Strings that could be taken for anything else are written as JSON strings, which YAML includes.

use std::fmt::Write as _;

use serde_json::Value;

/// The value as a YAML document, ending in a newline.
pub(crate) fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    write_block(value, 0, &mut out);
    out
}

fn write_block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    pad(indent, out);
                }
                out.push_str(&scalar(key));
                out.push(':');
                write_member(member, indent, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    pad(indent, out);
                }
                out.push_str("- ");
                write_block(item, indent + 2, out);
            }
        }
        Value::Object(_) => out.push_str("{}\n"),
        Value::Array(_) => out.push_str("[]\n"),
        Value::String(text) => {
            let _ = writeln!(out, "{}", scalar(text));
        }
        other => {
            let _ = writeln!(out, "{other}");
        }
    }
}

/// What stands behind `key:`: on the same line where it is one line, else below. Lists stand as deep
/// as their key, as kubectl writes them.
fn write_member(member: &Value, indent: usize, out: &mut String) {
    let deeper = match member {
        Value::Object(members) if !members.is_empty() => indent + 2,
        Value::Array(items) if !items.is_empty() => indent,
        _ => {
            out.push(' ');
            return write_block(member, indent, out);
        }
    };
    out.push('\n');
    pad(deeper, out);
    write_block(member, deeper, out);
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_values_are_written_as_kubectl_does() {
        let value = json!({"a": {"b": [{"c": 1, "d": []}, "x"], "e": "true"}, "f": {}, "g": "1.30", "h": null});
        let expect = "a:\n  b:\n  - c: 1\n    d: []\n  - x\n  e: \"true\"\nf: {}\ng: \"1.30\"\nh: null\n";
        assert_eq!(to_yaml(&value), expect);
    }
}
