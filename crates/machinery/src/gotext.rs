//! Values as Go writes them, and what it calls their types: messages of Kubernetes show both.
//!
//! A number is an `int64` if it is written as an integer that fits, else a `float64`, as
//! `k8s.io/apimachinery/pkg/util/json` decodes it. Which message shows what is left to those who say it.

use crate::json::{Number, Value};

/// A number as Go's `%v` writes it: integers plainly, floats in their shortest form, with an exponent below
/// 1e-4 and from 1e6 on.
pub fn go_number(number: &Number) -> String {
    if let Some(value) = number.as_i64() {
        return value.to_string();
    }
    let value = number.as_f64();
    let exponent_form = format!("{value:e}");
    match exponent_form.split_once('e').and_then(|(mantissa, text)| Some((mantissa, text.parse::<i32>().ok()?))) {
        Some((mantissa, exponent)) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => value.to_string(),
    }
}

/// A text quoted as Go's `%q` does it.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            plain if is_printable(plain) => out.push(plain),
            other => match u32::from(other) {
                code @ ..0x80 => out.push_str(&format!("\\x{code:02x}")),
                code @ ..0x1_0000 => out.push_str(&format!("\\u{code:04x}")),
                code => out.push_str(&format!("\\U{code:08x}")),
            },
        }
    }
    out.push('"');
    out
}

/// Whether Go's `unicode.IsPrint` holds: everything with a shape of its own, and the space.
pub(crate) fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    // Behind a letter, so that a combining mark is not taken for one that lacks its base.
    ["a", character.encode_utf8(&mut [0; 4])].concat().escape_debug().count() == 2
}

/// A value as Go's `%v` writes an `interface{}`: `map[a:1 b:x]`, `[1 2]`.
pub fn go_plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => go_number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_plain).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let members: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", go_plain(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// A value as Go's `%#v` writes an `interface{}`: `map[string]interface {}{"a":1}`.
pub fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => go_number(number),
        Value::String(text) => go_quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let member = |(key, value): (&str, &Value)| format!("{}:{}", go_quote(key), go_syntax(value));
            format!("map[string]interface {{}}{{{}}}", map.iter().map(member).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The Go type that a value decodes into where it is told none.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn numbers_are_shown_as_go_shows_them() {
        let shown = |text: &str| go_number(&Number::parse(text).expect(text));
        for (input, expect) in [
            ("3000000", "3000000"),
            ("3000000.0", "3e+06"),
            ("80.0", "80"),
            ("123456.0", "123456"),
            ("1.5", "1.5"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1e21", "1e+21"),
            ("-0.0", "-0"),
            ("1234567.5", "1.2345675e+06"),
        ] {
            assert_eq!(shown(input), expect, "{input}");
        }
    }

    #[test]
    fn values_are_written_as_go_writes_them() {
        let value = json!({"a": [1, "x", null], "b": {"c": true}});
        assert_eq!(go_plain(&value), "map[a:[1 x <nil>] b:map[c:true]]");
        assert_eq!(
            go_syntax(&value),
            r#"map[string]interface {}{"a":[]interface {}{1, "x", interface {}(nil)}, "b":map[string]interface {}{"c":true}}"#
        );
    }

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        for (input, expect) in [
            ("plain ä e\u{301} 漢 🦀", "plain ä e\u{301} 漢 🦀"),
            ("\u{301}", "\u{301}"),
            ("\"\\", r#"\"\\"#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r"\a\b\f\n\r\t\v"),
            ("\0\u{1b}\u{7f}", r"\x00\x1b\x7f"),
            ("\u{85}\u{a0}\u{ad}", r"\u0085\u00a0\u00ad"),
            ("\u{200b}\u{2028}\u{3000}\u{e000}\u{feff}", r"\u200b\u2028\u3000\ue000\ufeff"),
            ("\u{e0001}\u{10ffff}", r"\U000e0001\U0010ffff"),
        ] {
            assert_eq!(go_quote(input), format!("\"{expect}\""), "{input:?}");
            assert_eq!(go_syntax(&Value::from(input)), go_quote(input));
        }
    }

    #[test]
    fn integers_that_do_not_fit_are_floats() {
        for (text, expect) in [
            ("9223372036854775807", "int64"),
            ("9223372036854775808", "float64"),
            ("-9223372036854775809", "float64"),
            ("1e3", "float64"),
            ("1.0", "float64"),
        ] {
            let value = json::parse(text.as_bytes()).expect(text);
            assert_eq!(go_type(&value), expect, "{text}");
        }
        assert_eq!(go_plain(&json::parse(b"9223372036854775808").expect("a number")), "9.223372036854776e+18");
    }
}
