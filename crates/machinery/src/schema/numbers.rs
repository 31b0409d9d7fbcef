//! The one form in which numbers of custom resources are kept.
//!
//! Kubernetes decodes a custom resource's numbers into integers where they are written as such and fit
//! 64 bits, and into floats otherwise; `1.0` is written back as `1`. The writer follows Go's
//! `encoding/json`: decimal notation from 1e-6 up to 1e21, exponents outside.

use crate::json::{Map, Number, Value};

/// Brings every number of an object into its one form.
pub fn normalise_numbers(object: &mut Map) {
    for (_, value) in object.iter_mut() {
        normalise(value);
    }
}

/// Brings every number of an object into its one form, but leaves whole floats floats: `1e3` is `1000.0`.
/// Once stored it is the integer `1000`, so whoever sends it again changes the number's type.
pub fn normalise_but_floats(object: &mut Map) {
    for (_, value) in object.iter_mut() {
        mark(value);
    }
}

fn mark(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let float = number.as_i64().is_none();
            if float || number.as_str() == "-0" {
                let one_form = canonical_number(number);
                let whole = float && one_form.as_i64().is_some();
                *number = Number::from_f64(number.as_f64()).filter(|_| whole).unwrap_or(one_form);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mark),
        Value::Object(map) => normalise_but_floats(map),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Makes integers of the whole floats that [`normalise_but_floats`] left in a value; whether there were any.
pub fn settle_floats(value: &mut Value) -> bool {
    match value {
        Value::Number(number) if number.as_i64().is_none() => {
            let one_form = canonical_number(number);
            let whole = one_form.as_i64().is_some();
            *number = one_form;
            whole
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| settle_floats(item) | any),
        Value::Object(map) => map.iter_mut().fold(false, |any, (_, member)| settle_floats(member) | any),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Brings every number of a value into its one form.
pub(super) fn normalise(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if number.as_i64().is_none() || number.as_str() == "-0" {
                *number = canonical_number(number);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Object(map) => normalise_numbers(map),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A number that is no 64-bit integer, as Go writes the float that it decodes it into.
pub fn canonical_number(number: &Number) -> Number {
    let value = number.as_f64();
    if value == 0.0 {
        // Floats have a negative zero, integers have not; it would not stay one when read again.
        return Number::from(0_i64);
    }
    let magnitude = value.abs();
    let text = if !(1e-6..1e21).contains(&magnitude) { exponent_form(value) } else { format!("{value}") };
    Number::parse(&text).unwrap_or_else(|| number.clone())
}

/// `1e+21`, `1.5e-7`: a sign always, no leading zero.
fn exponent_form(value: f64) -> String {
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[track_caller]
    fn check(input: &str, expect: &str) {
        let mut object = Map::from_iter([("n".to_owned(), parse(input.as_bytes()).expect("a number"))]);
        normalise_numbers(&mut object);
        assert_eq!(object.get("n").expect("still there").to_string(), expect);
        let once = object.clone();
        normalise_numbers(&mut object);
        assert_eq!(object, once, "a second time changes nothing");
    }

    #[test]
    fn whole_floats_stay_floats_until_they_are_settled() {
        for (text, kept, settled, changed) in [
            ("1", "1", "1", false),
            ("1e3", "1000.0", "1000", true),
            ("2.0", "2.0", "2", true),
            ("-0.0", "-0.0", "0", true),
            ("-0", "0", "0", false),
            ("0.50", "0.5", "0.5", false),
            ("1e21", "1e+21", "1e+21", false),
            ("9223372036854775808", "9223372036854776000", "9223372036854776000", false),
        ] {
            let mut object = Map::new();
            object.insert("n", crate::json::parse(text.as_bytes()).expect(text));
            normalise_but_floats(&mut object);
            let mut value = Value::Object(object);
            assert_eq!(value.get("n").map(Value::to_string).as_deref(), Some(kept), "{text}");
            assert_eq!(settle_floats(&mut value), changed, "{text}");
            assert_eq!(value.get("n").map(Value::to_string).as_deref(), Some(settled), "{text}");
        }
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        check("1", "1");
        check("1.0", "1");
        check("-0", "0");
        check("-0.0", "0");
        check("1e3", "1000");
        check("9223372036854775807", "9223372036854775807");
        check("9223372036854775808", "9223372036854776000");
        check("1e21", "1e+21");
        check("123456789012345678901234567890", "1.2345678901234568e+29");
        check("0.00000015", "1.5e-7");
        check("0.000001", "0.000001");
        check("3.50", "3.5");
        check("1e308", "1e+308");
    }
}
