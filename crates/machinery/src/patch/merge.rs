//! JSON merge patch (RFC 7386).

use std::cmp::Ordering;

use crate::json::{Map, Value};

/// What `patch` makes of `target`: members of objects are merged, `null` removes a member, everything
/// else replaces.
#[must_use]
pub fn apply(target: Value, patch: Value) -> Value {
    match patch {
        Value::Object(patch) => Value::Object(match target {
            Value::Object(target) => maps(target, patch),
            _ => maps(Map::new(), patch),
        }),
        other => other,
    }
}

/// Both maps are sorted: one pass over the two, so that many new members cost no more than few.
fn maps(target: Map, patch: Map) -> Map {
    let (mut target, mut patch) = (target.into_iter().peekable(), patch.into_iter().peekable());
    let mut merged = Vec::with_capacity(target.len() + patch.len());
    loop {
        let order = match (target.peek(), patch.peek()) {
            (None, None) => return Map::from_iter(merged),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((left, _)), Some((right, _))) => left.cmp(right),
        };
        let old = if order.is_le() { target.next() } else { None };
        let new = if order.is_ge() { patch.next() } else { None };
        match (old, new) {
            (Some(member), None) => merged.push(member),
            (_, None) | (_, Some((_, Value::Null))) => {}
            (old, Some((key, value))) => {
                merged.push((key, apply(old.map_or(Value::Null, |(_, value)| value), value)));
            }
        }
    }
}

/// The smallest merge patch that makes `to` of `from`. A member of `to` that is `null` cannot be said by
/// a merge patch and is left out.
pub fn diff(from: &Map, to: &Map) -> Map {
    let mut patch = Vec::new();
    for (key, _) in from.iter().filter(|(key, _)| !to.contains_key(key)) {
        patch.push((key.to_owned(), Value::Null));
    }
    for (key, value) in to.iter() {
        match (from.get(key), value) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => patch.push((key.to_owned(), diff(old, new).into())),
            (_, Value::Null) => {}
            (_, new) => patch.push((key.to_owned(), new.clone())),
        }
    }
    Map::from_iter(patch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::parse;
    use crate::patch::testing::{object, value};

    #[track_caller]
    fn check(target: &str, patch: &str, expect: &str) {
        let read = |text: &str| parse(text.as_bytes()).expect(text);
        assert_eq!(apply(read(target), read(patch)).to_string(), expect, "{target} + {patch}");
    }

    #[test]
    fn the_examples_of_rfc_7386_hold() {
        for (target, patch, expect) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            check(target, patch, expect);
        }
    }

    /// Without nulls among the members of objects, which merge patches cannot say.
    fn sayable(value: Value) -> Value {
        match value {
            Value::Object(map) => map
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, sayable(value)))
                .collect::<Map>()
                .into(),
            other => other,
        }
    }

    proptest! {
        #[test]
        fn applying_twice_changes_nothing_more(target in value(), patch in value()) {
            let once = apply(target, patch.clone());
            prop_assert_eq!(apply(once.clone(), patch), once);
        }

        #[test]
        fn a_patch_leaves_other_members_alone(target in object(), patch in object()) {
            let Value::Object(merged) = apply(target.clone().into(), patch.clone().into()) else { panic!("an object") };
            for key in target.keys().chain(patch.keys()) {
                match patch.get(key) {
                    None => prop_assert_eq!(merged.get(key), target.get(key)),
                    Some(Value::Null) => prop_assert_eq!(merged.get(key), None),
                    Some(_) => prop_assert!(merged.contains_key(key)),
                }
            }
        }

        #[test]
        fn a_difference_makes_one_object_of_another(from in object(), to in object()) {
            let Value::Object(to) = sayable(to.into()) else { panic!("an object") };
            let patch = diff(&from, &to);
            prop_assert_eq!(apply(from.into(), patch.into()), Value::from(to));
        }
    }
}
