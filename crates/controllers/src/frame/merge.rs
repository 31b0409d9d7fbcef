//! The JSON merge patch (RFC 7386) that leads from one value to another.

use serde_json::{Map, Value};

/// The patch that makes `after` of `before`; absent if they are equal. Arrays are replaced whole, as the
/// RFC has it.
pub(crate) fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, value) in new {
                match old.get(key) {
                    Some(old) => {
                        if let Some(change) = merge_patch(old, value) {
                            patch.insert(key.clone(), change);
                        }
                    }
                    None => {
                        patch.insert(key.clone(), value.clone());
                    }
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ if before == after => None,
        _ => Some(after.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_in_the_patch() {
        let check = |before: Value, after: Value, expect: Option<Value>| {
            assert_eq!(merge_patch(&before, &after), expect, "{before} to {after}");
        };
        check(json!({"a": 1}), json!({"a": 1}), None);
        check(json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3}), Some(json!({"b": 3})));
        check(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"c": 2}}), Some(json!({"a": {"b": null}})));
        check(json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]})));
        check(json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}})));
    }
}
