//! Which namespaces a label selector selects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Whether the selector selects these labels. An operator that there is not selects nothing; admission
/// refuses it.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let have = labels.get(&requirement.key);
            let listed = || have.is_some_and(|have| requirement.values.iter().flatten().any(|value| value == have));
            match requirement.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => have.is_some(),
                "DoesNotExist" => have.is_none(),
                _ => false,
            }
        })
}

/// The selector as kubectl writes selectors: `a=1,b in (x,y),!c`.
pub(crate) fn shown(selector: &LabelSelector) -> String {
    let equal = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let others = selector.match_expressions.iter().flatten().map(|requirement| {
        let (key, values) = (&requirement.key, requirement.values.iter().flatten().cloned().collect::<Vec<_>>());
        match requirement.operator.as_str() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        }
    });
    equal.chain(others).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_all_to_hold() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        for (text, expect) in [
            (r"{}", true),
            (r#"{"matchLabels":{"a":"1"}}"#, true),
            (r#"{"matchLabels":{"a":"2"}}"#, false),
            (r#"{"matchExpressions":[{"key":"a","operator":"In","values":["1","9"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"c","operator":"NotIn","values":["1"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"a","operator":"NotIn","values":["1"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"c","operator":"Exists"}]}"#, false),
            (r#"{"matchExpressions":[{"key":"c","operator":"DoesNotExist"}]}"#, true),
            (r#"{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"Odd"}]}"#, false),
        ] {
            let selector: LabelSelector = serde_json::from_str(text).expect(text);
            assert_eq!(selects(&selector, &labels), expect, "{text}");
        }
    }

    #[test]
    fn selectors_are_shown_as_kubectl_writes_them() {
        let text = r#"{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"In","values":["x","y"]},
            {"key":"c","operator":"NotIn","values":["z"]},{"key":"d","operator":"Exists"},
            {"key":"e","operator":"DoesNotExist"}]}"#;
        let selector: LabelSelector = serde_json::from_str(text).expect(text);
        assert_eq!(shown(&selector), "a=1,b in (x,y),c notin (z),d,!e");
    }
}
