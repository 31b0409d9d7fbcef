//! Decodes `metadata` as a typed decoder would, keeps what the server alone may set, and holds the name
//! against the URL's.

use std::collections::BTreeSet;

use allotment_machinery::field::note;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;

use crate::registry::DecodeError;
use crate::server::Context;
use crate::status::ApiError;

/// Types of the members of object metadata.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Integer,
    Time,
    Texts,
    TextMap,
    Owners,
    ManagedFields,
}

/// The members of object metadata (`k8s.io/apimachinery/pkg/apis/meta/v1`, ObjectMeta).
const MEMBERS: [(&str, Type); 15] = [
    ("annotations", Type::TextMap),
    ("creationTimestamp", Type::Time),
    ("deletionGracePeriodSeconds", Type::Integer),
    ("deletionTimestamp", Type::Time),
    ("finalizers", Type::Texts),
    ("generateName", Type::Text),
    ("generation", Type::Integer),
    ("labels", Type::TextMap),
    ("managedFields", Type::ManagedFields),
    ("name", Type::Text),
    ("namespace", Type::Text),
    ("ownerReferences", Type::Owners),
    ("resourceVersion", Type::Text),
    ("selfLink", Type::Text),
    ("uid", Type::Text),
];

/// The members of an owner reference, and whether they stand there even when empty.
const OWNER_TEXTS: [&str; 4] = ["apiVersion", "kind", "name", "uid"];
const OWNER_FLAGS: [&str; 2] = ["blockOwnerDeletion", "controller"];

/// Brings `object.metadata` into shape: makes it where it is absent, drops what is unknown (and says
/// so) or empty, refuses members of the wrong type.
pub(super) fn decode(object: &mut Map, unknown: &mut Vec<String>) -> Result<(), DecodeError> {
    let value = object.get_or_insert_with("metadata", || Value::Object(Map::new()));
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    let found = type_name(value);
    let Some(metadata) = value.as_object_mut() else { return Err(mismatch(found, "metadata", "v1.ObjectMeta")) };
    metadata.retain(|name, _| {
        let known = MEMBERS.iter().any(|(member, _)| *member == name);
        if !known {
            note(unknown, || format!("metadata.{name}"));
        }
        known
    });
    for (name, kind) in MEMBERS {
        if let Some(member) = metadata.get_mut(name) {
            decode_member(name, kind, member, unknown)?;
        }
    }
    // That nobody is to own anything any more is said by an empty list.
    metadata.retain(|name, value| match name {
        "managedFields" => !value.is_null(),
        // Zero is not the same as nothing here.
        "deletionGracePeriodSeconds" => !value.is_null(),
        _ => !is_empty(value),
    });
    Ok(())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}

fn decode_member(name: &str, kind: Type, value: &mut Value, unknown: &mut Vec<String>) -> Result<(), DecodeError> {
    let found = type_name(value);
    let wrong = |expected: &str| mismatch(found, &format!("metadata.{name}"), expected);
    match (kind, value) {
        (_, Value::Null) => Ok(()),
        (Type::Text, Value::String(_)) => Ok(()),
        (Type::ManagedFields, Value::Array(items)) => {
            let mut entries = items.iter_mut().enumerate();
            entries.try_for_each(|(index, entry)| decode_entry(index, entry, unknown))
        }
        (Type::Text, _) => Err(wrong("string")),
        (Type::Integer, Value::Number(number)) if number.as_i64().is_some() => Ok(()),
        (Type::Integer, _) => Err(wrong("int64")),
        (Type::Time, Value::String(text)) => decode_time(text),
        (Type::Time, _) => Err(wrong("v1.Time")),
        (Type::Texts, Value::Array(items)) => items.iter_mut().try_for_each(|item| decode_text(item, name)),
        (Type::Texts, _) => Err(wrong("[]string")),
        (Type::TextMap, Value::Object(map)) => map.iter_mut().try_for_each(|(_, item)| decode_text(item, name)),
        (Type::TextMap, _) => Err(wrong("map[string]string")),
        (Type::Owners, Value::Array(items)) => {
            let mut owners = items.iter_mut().enumerate();
            owners.try_for_each(|(index, owner)| decode_owner(index, owner, unknown))
        }
        (Type::Owners, _) => Err(wrong("[]v1.OwnerReference")),
        (Type::ManagedFields, _) => Err(wrong("[]v1.ManagedFieldsEntry")),
    }
}

/// A null among texts is an empty one.
fn decode_text(value: &mut Value, member: &str) -> Result<(), DecodeError> {
    match value {
        Value::String(_) => Ok(()),
        Value::Null => {
            *value = Value::from("");
            Ok(())
        }
        other => Err(mismatch(type_name(other), &format!("metadata.{member}"), "string")),
    }
}

/// Times are kept in seconds of UTC.
fn decode_time(text: &mut String) -> Result<(), DecodeError> {
    if text.is_empty() {
        return Ok(());
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => {
            *text = format_time(time);
            Ok(())
        }
        Err(_) => Err(DecodeError {
            message: format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse"),
            at_once: true,
        }),
    }
}

/// A time as metadata shows it.
pub(crate) fn format_time(time: jiff::Timestamp) -> String {
    let seconds = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
    // A whole second shows no fraction.
    jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |time| time.to_string())
}

fn decode_owner(index: usize, owner: &mut Value, unknown: &mut Vec<String>) -> Result<(), DecodeError> {
    let path = format!("metadata.ownerReferences[{index}]");
    let found = type_name(owner);
    let Some(map) = owner.as_object_mut() else { return Err(mismatch(found, &path, "v1.OwnerReference")) };
    map.retain(|name, value| {
        let known = OWNER_TEXTS.contains(&name) || OWNER_FLAGS.contains(&name);
        if !known {
            note(unknown, || format!("{path}.{name}"));
        }
        known && !value.is_null()
    });
    for name in OWNER_TEXTS {
        let value = map.get_or_insert_with(name, || Value::from(""));
        if value.as_str().is_none() {
            return Err(mismatch(type_name(value), &format!("{path}.{name}"), "string"));
        }
    }
    for name in OWNER_FLAGS {
        if let Some(value) = map.get(name).filter(|value| value.as_bool().is_none()) {
            return Err(mismatch(type_name(value), &format!("{path}.{name}"), "bool"));
        }
    }
    Ok(())
}

/// The members of an entry of managed fields that are texts.
const ENTRY_TEXTS: [&str; 5] = ["apiVersion", "fieldsType", "manager", "operation", "subresource"];

fn decode_entry(index: usize, entry: &mut Value, unknown: &mut Vec<String>) -> Result<(), DecodeError> {
    let path = format!("metadata.managedFields[{index}]");
    if entry.is_null() {
        *entry = Value::Object(Map::new());
    }
    let found = type_name(entry);
    let Some(map) = entry.as_object_mut() else { return Err(mismatch(found, &path, "v1.ManagedFieldsEntry")) };
    map.retain(|name, value| {
        let known = ENTRY_TEXTS.contains(&name) || matches!(name, "fieldsV1" | "time");
        if !known {
            note(unknown, || format!("{path}.{name}"));
        }
        known && !value.is_null()
    });
    for (name, value) in map.iter_mut() {
        match (name, value) {
            ("fieldsV1", _) => {}
            ("time", Value::String(text)) => decode_time(text)?,
            ("time", other) => return Err(mismatch(type_name(other), &format!("{path}.time"), "v1.Time")),
            (_, Value::String(_)) => {}
            (name, other) => return Err(mismatch(type_name(other), &format!("{path}.{name}"), "string")),
        }
    }
    Ok(())
}

/// A type as Go's decoder calls it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn mismatch(found: &str, path: &str, expected: &str) -> DecodeError {
    DecodeError {
        message: format!("json: cannot unmarshal {found} into Go struct field ObjectMeta.{path} of type {expected}"),
        at_once: expected == "v1.Time",
    }
}

/// Sets in the metadata of an update what its writer may leave out or may not change.
pub(super) fn keep_from_old(new: &mut Map, old: &Map, dry_run: bool) {
    if !new.contains_key("uid") {
        copy(new, old, "uid");
    }
    for field in ["creationTimestamp", "generation", "namespace"] {
        copy(new, old, field);
    }
    // A deletion that has begun is never taken back.
    if old.contains_key("deletionTimestamp") {
        copy(new, old, "deletionTimestamp");
    }
    if !new.contains_key("deletionGracePeriodSeconds") {
        copy(new, old, "deletionGracePeriodSeconds");
    }
    drop_self_link(new, dry_run);
}

/// Kubernetes' storage drops it, to which a dry run does not come.
pub(super) fn drop_self_link(metadata: &mut Map, dry_run: bool) {
    if !dry_run {
        metadata.remove("selfLink");
    }
}

/// Of owners that are named more than once the first stays, and the client is warned.
pub(super) fn drop_repeated_owners(cx: &Context, metadata: &mut Map) {
    let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else { return };
    let mut seen = BTreeSet::new();
    let mut repeated: Vec<String> = Vec::new();
    owners.retain(|owner| {
        let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
        let first = seen.insert(uid.to_owned());
        if !first && !repeated.iter().any(|known| known == uid) {
            repeated.push(uid.to_owned());
        }
        first
    });
    if !repeated.is_empty() {
        // A patch is one only once it was applied, which Kubernetes does behind admission.
        let when = if cx.info.verb == "patch" { " after mutating admission happens" } else { "" };
        cx.warn(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        ));
    }
}

fn copy(new: &mut Map, old: &Map, field: &str) {
    match old.get(field) {
        Some(value) => new.insert(field, value.clone()),
        None => new.remove(field),
    };
}

/// An object of a PUT or a patch has the name that the URL has.
pub(super) fn check_name(object: &Map, path: &str) -> Result<(), ApiError> {
    match metadata_str(object, "name").unwrap_or_default() {
        "" => {
            let message =
                format!("the name of the object ({path} based on URL) was undeterminable: name must be provided");
            Err(ApiError::bad_request(message))
        }
        name if name != path => {
            let message = format!("the name of the object ({name}) does not match the name on the URL ({path})");
            Err(ApiError::bad_request(message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json::parse;

    use super::*;

    #[track_caller]
    fn check(input: &str, expect: Result<(&str, &[&str]), &str>) {
        let mut object = parse(input.as_bytes()).expect(input);
        let mut unknown = Vec::new();
        let got = decode(object.as_object_mut().expect("an object"), &mut unknown).map_err(|error| error.message);
        let metadata = object.get("metadata").map(ToString::to_string).unwrap_or_default();
        let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
        match (got, expect) {
            (Ok(()), Ok(expect)) => assert_eq!((metadata.as_str(), unknown.as_slice()), expect, "{input}"),
            (Err(got), Err(expect)) => assert!(got.contains(expect), "{input}: {got}"),
            (got, _) => panic!("{input}: {got:?}"),
        }
    }

    #[test]
    fn times_are_shown_in_whole_seconds_as_go_shows_them() {
        for time in
            ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.999999999Z", "1969-12-31T23:59:59.5Z", "0001-01-01T00:00:00Z"]
        {
            let time: jiff::Timestamp = time.parse().expect("a time");
            assert_eq!(format_time(time), time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
    }

    #[test]
    fn metadata_is_decoded_as_typed_metadata() {
        check("{}", Ok(("{}", &[])));
        check(r#"{"metadata":null}"#, Ok(("{}", &[])));
        check(r#"{"metadata":{"name":"a","foo":1}}"#, Ok((r#"{"name":"a"}"#, &["metadata.foo"])));
        check(r#"{"metadata":{"labels":{"a":null},"annotations":{}}}"#, Ok((r#"{"labels":{"a":""}}"#, &[])));
        check(
            r#"{"metadata":{"creationTimestamp":"2020-01-02T03:04:05.678901+02:00"}}"#,
            Ok((r#"{"creationTimestamp":"2020-01-02T01:04:05Z"}"#, &[])),
        );
        check(
            r#"{"metadata":{"ownerReferences":[{"kind":"K","x":1}]}}"#,
            Ok((
                r#"{"ownerReferences":[{"apiVersion":"","kind":"K","name":"","uid":""}]}"#,
                &["metadata.ownerReferences[0].x"],
            )),
        );
        check(
            r#"{"metadata":{"name":true}}"#,
            Err("cannot unmarshal bool into Go struct field ObjectMeta.metadata.name"),
        );
        check(r#"{"metadata":[]}"#, Err("cannot unmarshal array"));
        check(r#"{"metadata":{"labels":{"a":1}}}"#, Err("of type string"));
        check(r#"{"metadata":{"creationTimestamp":"yesterday"}}"#, Err("parsing time"));
    }
}
