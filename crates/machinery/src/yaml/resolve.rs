//! What plain scalars mean to go-yaml v2.

use crate::json::{Number, Value};

/// What a plain scalar stands for; `None` for numbers that JSON does not have.
pub(super) fn plain(text: &str) -> Option<Value> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Value::Bool(false),
        _ if is_not_finite(text) => return None,
        _ => number(text).map_or_else(|| Value::from(text), Value::Number),
    })
}

fn is_not_finite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return None;
    }
    let plain;
    let text = if text.contains('_') && !text.starts_with('.') {
        plain = text.replace('_', "");
        &plain
    } else {
        text
    };
    integer(text).or_else(|| float(text))
}

/// Integers with the prefixes of Go, a leading zero meaning eights.
fn integer(text: &str) -> Option<Number> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    if radix == 10 {
        return Number::parse(&[sign, digits].concat());
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    Number::parse(&[sign, &value.to_string()].concat())
}

/// Decimal floats; the text is kept, but for what JSON does not allow in it.
fn float(text: &str) -> Option<Number> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(index) => unsigned.split_at(index),
        None => (unsigned, ""),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // A number such as 08 is no octal one and is read as a decimal.
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    Number::parse(&[sign, whole, point, fraction, exponent].concat())
}

/// Whether go-yaml reads or once read a text as a time or as a number with base 60, so that a writer
/// quotes it.
pub(super) fn was_special(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = text.splitn(3, '-');
    let is_date = parts.next().is_some_and(|year| year.len() == 4 && digits(year))
        && parts.next().is_some_and(|month| month.len() <= 2 && digits(month))
        && parts.next().is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    let is_base_60 = text.contains(':') && text.bytes().all(|byte| byte.is_ascii_digit() || b":+-._".contains(&byte));
    is_date || is_base_60
}
