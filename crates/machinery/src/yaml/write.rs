//! Writing, as `kubectl -o yaml` looks: lists as far left as their key, text plain where it can be, blocks
//! for text of several lines.

use super::resolve;
use crate::json::{Map, Value, write_string};

/// How long a key may be that stands before its colon in one line, in bytes: YAML allows 1024 characters
/// with quotes and escapes.
const LONGEST_SIMPLE_KEY: usize = 128;

/// `value` as one YAML document without a marker, ending in a line break.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// Appends `value` as one YAML document without a marker, ending in a line break.
pub fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => members(map, 0, out),
        Value::Array(items) if !items.is_empty() => elements(items, 0, out),
        other => {
            scalar(other, 0, out);
            out.push('\n');
        }
    }
}

/// The members of a map, the first where the writer is, the others `indent` from the left.
fn members(map: &Map, indent: usize, out: &mut String) {
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 {
            pad(indent, out);
        }
        member_key(key, indent, out);
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push('\n');
                pad(indent + 2, out);
                members(map, indent + 2, out);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                pad(indent, out);
                elements(items, indent, out);
            }
            other => {
                out.push(' ');
                scalar(other, indent + 2, out);
                out.push('\n');
            }
        }
    }
}

/// The elements of a list, the first where the writer is, the others `indent` from the left.
fn elements(items: &[Value], indent: usize, out: &mut String) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            pad(indent, out);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => members(map, indent + 2, out),
            Value::Array(items) if !items.is_empty() => elements(items, indent + 2, out),
            other => {
                scalar(other, indent + 2, out);
                out.push('\n');
            }
        }
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A value on one line, or a block whose lines are `indent` from the left.
fn scalar(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(number.as_str()),
        Value::String(text) if fits_block(text) => block(text, indent, out),
        Value::String(text) => flow_text(text, out),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// A key and its colon. Readers look only so far for the colon; behind a question mark they need not.
fn member_key(key: &str, indent: usize, out: &mut String) {
    let is_long = key.len() > LONGEST_SIMPLE_KEY;
    if is_long {
        out.push_str("? ");
    }
    flow_text(key, out);
    if is_long {
        out.push('\n');
        pad(indent, out);
    }
    out.push(':');
}

fn flow_text(text: &str, out: &mut String) {
    let means_text = matches!(resolve::plain(text), Some(Value::String(_))) && !resolve::was_special(text);
    if !text.chars().all(is_plain_character) || !means_text {
        double_quoted(text, out);
    } else if is_plain(text) {
        out.push_str(text);
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

/// What YAML shows as it is in one line.
fn is_plain_character(character: char) -> bool {
    !character.is_control() && !is_special_break(character)
}

fn is_special_break(character: char) -> bool {
    matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a text of plain characters that means a text needs no quotes.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let begins = match bytes {
        [b'-', second, ..] => second.is_ascii_graphic() && !text.starts_with("---"),
        [first, ..] => first.is_ascii_alphanumeric() || b"_/.$(+^;~\\<".contains(first) || !first.is_ascii(),
        [] => false,
    };
    // What marks or merges is kept apart from what only looks so.
    let reserved = matches!(text, "<<" | "=") || text.starts_with("...");
    begins
        && !reserved
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with(char::is_whitespace)
        && !text.ends_with(char::is_whitespace)
}

fn double_quoted(text: &str, out: &mut String) {
    if text.chars().any(is_unsafe_in_json) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                special if is_unsafe_in_json(special) || special.is_control() => {
                    out.push_str(&format!("\\u{:04x}", u32::from(special)));
                }
                plain => out.push(plain),
            }
        }
        out.push('"');
        return;
    }
    let mut bytes = Vec::with_capacity(text.len() + 2);
    write_string(text, &mut bytes);
    out.push_str(&String::from_utf8_lossy(&bytes));
}

/// Characters that JSON shows as they are and YAML does not.
fn is_unsafe_in_json(character: char) -> bool {
    is_special_break(character) || matches!(character, '\u{7f}'..='\u{9f}')
}

/// Whether a text of several lines can be a literal block: no line that a reader would change.
fn fits_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n'])
        && text.chars().all(|character| character == '\n' || is_plain_character(character))
        && text.lines().all(|line| !line.ends_with(' ') && !line.starts_with(['\t', '\u{a0}']))
}

fn block(text: &str, indent: usize, out: &mut String) {
    let body = text.trim_end_matches('\n');
    out.push('|');
    match text.len() - body.len() {
        0 => out.push('-'),
        1 => {}
        _ => out.push('+'),
    }
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(indent, out);
            out.push_str(line);
        }
    }
    // The line break behind a block is the writer's; further ones are the text's.
    out.extend(std::iter::repeat_n('\n', (text.len() - body.len()).saturating_sub(1)));
}
