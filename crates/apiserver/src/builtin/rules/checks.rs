//! Rules that many fields share, with the texts of `k8s.io/kubernetes/pkg/apis/core/validation` and
//! `k8s.io/apimachinery/pkg/util/validation`.

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names::{self, Faults};
use allotment_machinery::selector;

use crate::builtin::rules::Errors;
use crate::builtin::rules::look::{int, is_given, object, text};

/// A text that may not be changed.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// Says of `value` what is wrong with it.
pub(crate) fn faults(path: &Path, value: &str, faults: Faults, errors: &mut Errors) {
    errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, value, fault)));
}

/// Numbers below zero are none of these fields.
pub(crate) fn not_negative(map: &Map, names: &[&str], path: &Path, errors: &mut Errors) {
    for name in names {
        if let Some(value) = int(map, name).filter(|value| *value < 0) {
            errors.push(FieldError::invalid(&path.child(name), value, "must be greater than or equal to 0"));
        }
    }
}

/// The text under `name` is one of `supported`, where it is given.
pub(crate) fn one_of(map: &Map, name: &str, supported: &[&str], path: &Path, errors: &mut Errors) {
    let value = text(map, name);
    if is_given(map, name) && !supported.contains(&value) {
        errors.push(FieldError::not_supported(&path.child(name), value, supported));
    }
}

/// The text under `name` is there and one of `supported`.
pub(crate) fn one_of_required(map: &Map, name: &str, supported: &[&str], path: &Path, errors: &mut Errors) {
    if text(map, name).is_empty() {
        errors.push(FieldError::required(&path.child(name), ""));
    } else {
        one_of(map, name, supported, path, errors);
    }
}

/// A text that has to be there.
pub(crate) fn required(map: &Map, name: &str, path: &Path, errors: &mut Errors) {
    if text(map, name).is_empty() {
        errors.push(FieldError::required(&path.child(name), ""));
    }
}

/// A name that has to be there and to follow `rule`.
pub(crate) fn required_name(map: &Map, name: &str, rule: fn(&str) -> Faults, path: &Path, errors: &mut Errors) {
    match text(map, name) {
        "" => errors.push(FieldError::required(&path.child(name), "")),
        value => faults(&path.child(name), value, rule(value), errors),
    }
}

/// A name that follows `rule`, where it is given.
pub(crate) fn optional_name(map: &Map, name: &str, rule: fn(&str) -> Faults, path: &Path, errors: &mut Errors) {
    let value = text(map, name);
    if !value.is_empty() {
        faults(&path.child(name), value, rule(value), errors);
    }
}

/// A name that follows `rule`, where it is given, be it empty.
pub(crate) fn given_name(map: &Map, name: &str, rule: fn(&str) -> Faults, path: &Path, errors: &mut Errors) {
    if let Some(value) = map.get(name).and_then(Value::as_str) {
        faults(&path.child(name), value, rule(value), errors);
    }
}

/// A port's number.
pub(crate) fn port_number(value: i64, path: &Path, errors: &mut Errors) {
    in_range(value, 1, 65_535, path, errors);
}

/// A number between two, both included.
pub(crate) fn in_range(value: i64, least: i64, most: i64, path: &Path, errors: &mut Errors) {
    if !(least..=most).contains(&value) {
        errors.push(FieldError::invalid(path, value, format!("must be between {least} and {most}, inclusive")));
    }
}

/// A port by number or by name.
pub(crate) fn port(value: &Value, path: &Path, errors: &mut Errors) {
    match value {
        Value::String(name) => faults(path, name, port_name(name), errors),
        other => port_number(other.as_i64().unwrap_or_default(), path, errors),
    }
}

/// The name of a port: IANA's service names (RFC 6335).
pub(crate) fn port_name(name: &str) -> Faults {
    let mut faults = Faults::new();
    if name.len() > 15 {
        faults.push("must be no more than 15 characters");
    }
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens");
    }
    if name.is_empty() || name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen");
    }
    faults
}

/// The number that a percentage stands for; `None` for anything else.
pub(crate) fn percent(value: &Value) -> Option<i64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// A number that is not below zero, or a percentage.
pub(crate) fn number_or_percent(value: &Value, path: &Path, errors: &mut Errors) {
    match value {
        Value::String(text) if percent(value).is_none() => {
            let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                '93%', regex used for validation is '[0-9]+%')";
            errors.push(FieldError::invalid(path, text.as_str(), detail));
        }
        Value::String(_) => {}
        other => {
            if let Some(value) = other.as_i64().filter(|value| *value < 0) {
                errors.push(FieldError::invalid(path, value, "must be greater than or equal to 0"));
            }
        }
    }
}

/// Not more than everything.
pub(crate) fn at_most_all(value: &Value, path: &Path, errors: &mut Errors) {
    if percent(value).is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(path, value, "must not be greater than 100%"));
    }
}

/// Whether a number or percentage is nothing.
pub(crate) fn is_nothing(value: Option<&Value>) -> bool {
    value.is_some_and(|value| value.as_i64() == Some(0) || percent(value) == Some(0))
}

/// The fields stay as they are.
pub(crate) fn immutable(old: &Map, new: &Map, names: &[&str], path: &Path, errors: &mut Errors) {
    for name in names {
        let (was, is) = (old.get(name), new.get(name));
        if was != is {
            // A text that is gone is an empty one.
            let gone = if was.is_some_and(|was| was.as_str().is_some()) { Value::from("") } else { Value::Null };
            errors.push(FieldError::invalid(&path.child(name), is.unwrap_or(&gone), IMMUTABLE));
        }
    }
}

/// A `LabelSelector`, where it is given.
pub(crate) fn label_selector(map: &Map, name: &str, path: &Path, errors: &mut Errors) {
    if let Some(selector) = object(map, name) {
        errors.extend(selector::validate_object(selector, &path.child(name)));
    }
}

/// A selector as messages show it.
pub(crate) fn selector_shown(selector: &Map) -> ShownValue {
    ShownValue::raw(selector_text(selector))
}

/// A selector as JSON, labels first, as in its type.
pub(crate) fn selector_text(selector: &Map) -> String {
    let known = |name: &str| {
        let own = selector.get(name).filter(|own| !own.is_null())?;
        Some(format!("{}:{own}", Value::from(name)))
    };
    let members: Vec<String> = ["matchLabels", "matchExpressions"].into_iter().filter_map(known).collect();
    format!("{{{}}}", members.join(","))
}

/// Whether a selector says nothing.
pub(crate) fn is_empty_selector(selector: &Map) -> bool {
    selector.iter().all(|(_, value)| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    })
}

/// A name such as `example.com/thing`.
pub(crate) fn domain_prefixed(value: &str, path: &Path, errors: &mut Errors) {
    let (domain, rest) = value.split_once('/').unwrap_or((value, ""));
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if domain.is_empty() || rest.is_empty() {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(path, value, detail));
    } else {
        faults(path, domain, names::dns1123_subdomain(domain), errors);
        let fits = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/%-._~!$&'()*+,;=:".contains(&byte));
        if !fits {
            let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
            errors.push(FieldError::invalid(path, rest, detail));
        }
    }
}

/// Label keys and values.
pub(crate) fn labels(map: &Map, name: &str, path: &Path, errors: &mut Errors) {
    if let Some(labels) = object(map, name) {
        errors.extend(allotment_machinery::metadata::validate_labels(labels, &path.child(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_names_of_services() {
        for (name, faults) in [("http", 0), ("a-b", 0), ("8080", 1), ("Bad_Name", 1), ("a--b", 1), ("-a", 1), ("", 2)] {
            assert_eq!(port_name(name).len(), faults, "{name}: {:?}", port_name(name));
        }
        assert_eq!(port_name("abcdefghijklmnop"), ["must be no more than 15 characters"]);
    }

    #[test]
    fn percentages_are_digits_and_a_sign() {
        for (text, expect) in
            [("50%", Some(50)), ("0%", Some(0)), ("x%", None), ("%", None), ("5", None), ("-1%", None)]
        {
            assert_eq!(percent(&Value::from(text)), expect, "{text}");
        }
    }
}
