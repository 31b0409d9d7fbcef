//! What providers of other processes say of themselves and of their Clusters: names that can be told apart, versions that are some, and
//! texts that a terminal shows as they are. What was said before is not judged again.

use std::collections::BTreeSet;

use allotment_core::requests::Version;
use allotment_machinery::field::{FieldError, Path, ShownValue};
use serde_json::Value;

use crate::review::{Denial, Found};
use crate::traits;
use crate::validate::name;

/// The longest `providerStatus` of a Cluster, in bytes of JSON: what can be found out again needs no more, and each change of the
/// Cluster carries it.
const MOST_PROVIDER_STATUS: usize = 32 << 10;

/// Checks the profiles that a provider publishes.
pub(crate) fn check_profiles(new: &Value, old: &Value) -> Result<(), Denial> {
    let mut found = Found::default();
    if new != old {
        let at = Path::new("status").child("profiles");
        let mut seen = BTreeSet::new();
        for (index, profile) in new.as_array().into_iter().flatten().enumerate() {
            let at = at.index(index);
            let called = profile["name"].as_str().unwrap_or_default();
            name(called, &at.child("name"), &mut found);
            if !seen.insert(called) {
                found.errors.push(FieldError::duplicate(&at.child("name"), called));
            }
            versions(&profile["supportedVersions"], &at.child("supportedVersions"), &mut found);
            let traits = profile["supportedTraits"].as_array().into_iter().flatten().enumerate();
            for (index, entry) in traits {
                let text = entry["trait"].as_str().or(entry["name"].as_str()).unwrap_or_default();
                traits::check_name(text, &at.child("supportedTraits").index(index).child("trait"), &mut found);
            }
            if found.errors.is_empty() {
                texts(profile, &at, &mut found);
            }
        }
    }
    found.denied()
}

/// Checks a provider's part of the status of a Cluster.
pub(crate) fn check_cluster(new: &Value, old: &Value) -> Result<(), Denial> {
    let (mut found, at) = (Found::default(), Path::new("status"));
    for (member, value) in
        new.as_object().into_iter().flatten().filter(|(member, value)| **value != old[member.as_str()])
    {
        texts(value, &at.child(member), &mut found);
    }
    let (own, had) = (&new["providerStatus"], &old["providerStatus"]);
    if own != had && own.to_string().len() > MOST_PROVIDER_STATUS {
        found.errors.push(FieldError::too_long(&at.child("providerStatus"), MOST_PROVIDER_STATUS));
    }
    let (version, had) = (&new["kubernetes"]["version"], &old["kubernetes"]["version"]);
    if let Some(version) = version.as_str().filter(|version| !version.is_empty() && Some(*version) != had.as_str()) {
        full(version, &at.child("kubernetes").child("version"), &mut found);
    }
    found.denied()
}

fn versions(list: &Value, at: &Path, found: &mut Found) {
    for (index, offer) in list.as_array().into_iter().flatten().enumerate() {
        full(offer["version"].as_str().unwrap_or_default(), &at.index(index).child("version"), found);
    }
}

fn full(version: &str, at: &Path, found: &mut Found) {
    if !Version::parse(version).is_some_and(|version| version.is_full()) {
        found.errors.push(FieldError::invalid(at, version, "must be a full version, such as 1.36.3"));
    }
}

/// Whether a terminal would take part of it for a command. Lines and tabs are text.
fn texts(value: &Value, at: &Path, found: &mut Found) {
    let is_odd = |text: &str| text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    match value {
        Value::String(text) if is_odd(text) => {
            found.errors.push(FieldError::invalid(at, text.as_str(), "must not contain control characters"));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                texts(item, &at.index(index), found);
            }
        }
        Value::Object(members) => {
            for (member, value) in members {
                if is_odd(member) {
                    let detail = "has a member whose name contains control characters";
                    found.errors.push(FieldError::invalid(at, ShownValue::raw("object"), detail));
                } else {
                    texts(value, &at.child(member), found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl Found {
    /// A refusal that names each field, where there is one.
    fn denied(self) -> Result<(), Denial> {
        if self.errors.is_empty() { Ok(()) } else { Err(Denial::Invalid(self.errors)) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The fields that are refused, in order.
    fn fields(answer: Result<(), Denial>) -> Vec<String> {
        match answer {
            Ok(()) => Vec::new(),
            Err(Denial::Invalid(errors)) => {
                errors.iter().map(|error| error.to_string().split(": ").next().unwrap_or_default().to_owned()).collect()
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn profiles_are_told_apart_and_say_what_can_be_asked_for() {
        let whole = json!({"name": "a", "supportedVersions": [{"version": "1.36.3"}], "supportedTraits": [{"trait": "t"}],
            "providerConfigRef": {"name": "a"}});
        let with = |member: &str, value: Value| {
            let mut changed = whole.clone();
            changed[member] = value;
            json!([changed])
        };
        for (profiles, expect) in [
            (json!([whole]), &[][..]),
            (Value::Null, &[]),
            (json!([whole, whole]), &["status.profiles[1].name"]),
            (with("name", json!("../../x")), &["status.profiles[0].name"]),
            (with("name", Value::Null), &["status.profiles[0].name"]),
            (
                with(
                    "supportedVersions",
                    json!([{"version": "1.36.3"}, {"version": "\u{1b}[31m1.36"}, {"version": "1.36"}]),
                ),
                &["status.profiles[0].supportedVersions[1].version", "status.profiles[0].supportedVersions[2].version"],
            ),
            (with("supportedTraits", json!([{"trait": "a\u{7}"}])), &["status.profiles[0].supportedTraits[0].trait"]),
            (with("providerConfigRef", json!({"name": "a\u{9b}"})), &["status.profiles[0].providerConfigRef.name"]),
        ] {
            assert_eq!(fields(check_profiles(&profiles, &Value::Null)), expect, "{profiles}");
            assert_eq!(fields(check_profiles(&profiles, &profiles)), [""; 0], "what stands there is not judged again");
        }
    }

    #[test]
    fn a_status_of_a_cluster_is_text_and_bounded() {
        for (status, expect) in [
            (json!({"kubernetes": {"version": "1.36.3"}, "conditions": [{"message": "two\nlines"}]}), &[][..]),
            (json!({"kubernetes": {"version": "hello"}}), &["status.kubernetes.version"]),
            (json!({"conditions": [{"message": "\u{1b}[2J"}]}), &["status.conditions[0].message"]),
            (json!({"providerStatus": {"a\u{0}": 1}}), &["status.providerStatus"]),
            (json!({"providerStatus": {"a": "x".repeat(MOST_PROVIDER_STATUS)}}), &["status.providerStatus"]),
        ] {
            assert_eq!(fields(check_cluster(&status, &Value::Null)), expect);
            assert_eq!(fields(check_cluster(&status, &status)), [""; 0]);
        }
    }
}
