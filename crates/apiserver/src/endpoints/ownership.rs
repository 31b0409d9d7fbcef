//! Who owns which fields: what every write does to `metadata.managedFields`.
//!
//! What owning means is left to [`allotment_machinery::apply`]; here it is brought together with the kinds
//! and their versions. Reads pay nothing for it, and a write reads and writes the entries once.

use allotment_machinery::apply::{FieldSet, Managers, TypeRef, Versions, Writer, set_managers};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_mut;

use super::metadata::format_time;
use crate::registry::{Row, Version};
use crate::server::Context;

/// The member of the metadata that says who owns what.
const ENTRIES: &str = "managedFields";
/// The longest name of a manager, in bytes; what a client calls itself is cut there.
const MAX_NAME: usize = 128;

/// The name under which a request's changes are owned: as it says, or else what its client calls itself,
/// up to the first slash and without what cannot be printed.
pub(crate) fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let mut name = String::new();
    let own = user_agent.split('/').next().unwrap_or_default();
    for character in own.chars().filter(|character| is_printable(*character)) {
        if name.len() + character.len_utf8() > MAX_NAME {
            break;
        }
        name.push(character);
    }
    name
}

/// As Go's `unicode.IsPrint`: of blanks only the plain one.
fn is_printable(character: char) -> bool {
    character == ' ' || !character.is_control() && !character.is_whitespace()
}

/// The versions of a row's kind, as one endpoint of it sees them.
pub(super) struct KindVersions<'a> {
    row: &'a Row,
    /// What the endpoint resets, by version.
    reset: Vec<(String, FieldSet)>,
}

impl<'a> KindVersions<'a> {
    pub(super) fn new(cx: &'a Context, row: &'a Row) -> Self {
        KindVersions { row, reset: reset_fields(row, &cx.info.subresource) }
    }

    /// A version of the kind. What was written through the other of two groups that show the same
    /// objects, as there are for events, is not known by that name, and so comes to be owned by nobody.
    fn find(&self, api_version: &str) -> Option<&Version> {
        let (group, name) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = &self.row.kind;
        kind.versions.iter().find(|version| kind.group == group && version.name == name)
    }
}

impl Versions for KindVersions<'_> {
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'_>> {
        self.find(api_version)?.schema.type_ref()
    }

    fn convert(&self, object: &Map, from: &str, to: &str) -> Result<Map, String> {
        let (Some(_), Some(new)) = (self.find(from), self.find(to)) else {
            return Err(format!("objects of {from} are not to be had as {to}"));
        };
        let kind = &self.row.kind;
        let mut object = object.clone();
        object.insert("apiVersion", to);
        object.insert("kind", kind.kind.as_str());
        if !kind.custom {
            let decoded = new.schema.decode(&mut object);
            decoded.map_err(|error| error.message)?;
        }
        Ok(object)
    }

    fn reset_fields(&self, api_version: &str) -> Option<&FieldSet> {
        self.reset.iter().find(|(have, _)| have == api_version).map(|(_, fields)| fields)
    }
}

/// What an endpoint of a kind resets, by version.
fn reset_fields(row: &Row, subresource: &str) -> Vec<(String, FieldSet)> {
    let kind = &row.kind;
    let fields: &[&str] = match (kind.strategy.reset_fields(subresource), subresource) {
        (Some(fields), _) => fields,
        (None, "status") if kind.custom => &["metadata", "spec"],
        (None, "status") => &["spec"],
        (None, "") if row.version().subresources.status => &["status"],
        (None, _) => &[],
    };
    if fields.is_empty() {
        return Vec::new();
    }
    // The status of custom resources is reset as all versions that have one say, all else as its own does.
    let all = kind.custom && subresource == "status";
    let versions = kind
        .versions
        .iter()
        .filter(|version| if all { version.subresources.status } else { version.name == row.version().name });
    let set = FieldSet::of_members(fields.iter().copied());
    versions.map(|version| (version.api_version(&kind.group), set.clone())).collect()
}

/// An object of the row's version of which nothing is said.
pub(super) fn empty_object(row: &Row) -> Map {
    let mut object = Map::new();
    object.insert("apiVersion", row.api_version());
    object.insert("kind", row.kind.kind.as_str());
    // An empty object is one of every kind.
    let _ = row.version().schema.decode(&mut object);
    object
}

/// The write that a request is, as far as owning goes.
pub(super) fn writer<'a>(
    cx: &'a Context,
    versions: &'a dyn Versions,
    api_version: &'a str,
    now: &'a str,
) -> Writer<'a> {
    Writer { versions, api_version, subresource: &cx.info.subresource, manager: &cx.manager, now }
}

/// The time that new entries get.
pub(super) fn now(cx: &Context) -> String {
    format_time(cx.server.clock().now())
}

/// Takes `managedFields` out of an object.
pub(super) fn take_entries(object: &mut Map) -> Option<Value> {
    object.get_mut("metadata").and_then(Value::as_object_mut)?.remove(ENTRIES)
}

/// Says of a new object who owns it: whoever makes it.
pub(super) fn own_created(cx: &Context, row: &Row, object: &mut Map) {
    let given = take_entries(object);
    let managers = managers_before(cx, given.as_ref(), None);
    track(cx, row, &empty_object(row), object, managers);
}

/// Says of an object that takes the place of `old` who owns what. `old` has no entries; they are `entries`.
pub(super) fn own_updated(cx: &Context, row: &Row, old: &Map, entries: Option<&Value>, object: &mut Map) {
    // Of a custom resource an empty list is none at all: it does not live through decoding there.
    let given = take_entries(object).filter(|given| !row.kind.custom || given.as_array() != Some(&[]));
    let managers = managers_before(cx, given.as_ref(), entries);
    track(cx, row, old, object, managers);
}

fn track(cx: &Context, row: &Row, old: &Map, object: &mut Map, managers: Managers) {
    let (versions, api_version, now) = (KindVersions::new(cx, row), row.api_version(), now(cx));
    // Where the objects cannot be compared, what is known of owners would be wrong from now on.
    let managers = writer(cx, &versions, &api_version, &now).update(old, object, managers).unwrap_or_default();
    set_managers(object, &managers);
    row.version().schema.drop_empty(object);
}

/// The managers that an update begins with: those of the object sent, if there are any that can be read,
/// else those of the object that there is. An empty list, or one of an empty entry, forgets all of them.
pub(super) fn managers_before(cx: &Context, given: Option<&Value>, stored: Option<&Value>) -> Managers {
    if let Some(given) = given.filter(|_| cx.info.subresource.is_empty()) {
        if is_reset(given) {
            return Managers::default();
        }
        if given != stored.unwrap_or(&Value::Null)
            && let Ok(managers) = Managers::decode(Some(given))
            && !managers.is_empty()
        {
            return managers;
        }
    }
    Managers::decode(stored).unwrap_or_default()
}

fn is_reset(given: &Value) -> bool {
    let blank = |entry: &Value| {
        let empty = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
        entry.as_object().is_some_and(|entry| entry.iter().all(|(_, value)| empty(value)))
    };
    match given.as_array() {
        Some([]) => true,
        Some([only]) => blank(only),
        _ => false,
    }
}

/// Takes new times back if they are all that a write changes: it is none then.
pub(super) fn keep_times(old: &Map, new: &mut Map) {
    fn metadata(object: &Map) -> Option<&Map> {
        object.get("metadata")?.as_object()
    }
    let (Some(old_metadata), Some(new_metadata)) = (metadata(old), metadata(new)) else { return };
    let (Some(before), Some(after)) = (old_metadata.get(ENTRIES), new_metadata.get(ENTRIES)) else { return };
    let same = before != after
        && same_but_times(before, after)
        && same_but(old, new, "metadata")
        && same_but(old_metadata, new_metadata, ENTRIES);
    if same {
        let before = before.clone();
        if let Some(metadata) = metadata_mut(new) {
            metadata.insert(ENTRIES, before);
        }
    }
}

/// Whether two objects are equal but for one member.
fn same_but(left: &Map, right: &Map, name: &str) -> bool {
    let others = |(have, _): &(&str, &Value)| *have != name;
    left.iter().filter(others).eq(right.iter().filter(others))
}

fn same_but_times(left: &Value, right: &Value) -> bool {
    let (Some(left), Some(right)) = (left.as_array(), right.as_array()) else { return false };
    let same = |(left, right): (&Value, &Value)| match (left.as_object(), right.as_object()) {
        (Some(left), Some(right)) => same_but(left, right, "time"),
        _ => left == right,
    };
    left.len() == right.len() && left.iter().zip(right).all(same)
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    #[test]
    fn managers_are_called_as_their_client_calls_itself() {
        assert_eq!(manager_name("m", "kubectl/v1.31.0 (linux/amd64)"), "m");
        assert_eq!(manager_name("", "kubectl/v1.31.0 (linux/amd64)"), "kubectl");
        assert_eq!(manager_name("", "a b\u{7}\u{a0}c"), "a bc");
        assert_eq!(manager_name("", &"é".repeat(100)).len(), MAX_NAME);
        assert_eq!(manager_name("", ""), "");
    }

    #[test]
    fn an_empty_entry_or_none_at_all_resets() {
        assert!(is_reset(&json!([])) && is_reset(&json!([{}])) && is_reset(&json!([{"manager": ""}])));
        assert!(!is_reset(&json!([{"manager": "a"}])) && !is_reset(&json!([{}, {}])));
    }

    #[test]
    fn new_times_alone_are_no_change() {
        let object = |time: &str, data: &str| {
            let entries = json!([{"manager": "a", "time": time}]);
            let object = json!({"metadata": {"managedFields": entries}, "data": data});
            object.as_object().expect("an object").clone()
        };
        let old = object("1", "x");
        for (mut new, kept) in [(object("2", "x"), "1"), (object("2", "y"), "2")] {
            keep_times(&old, &mut new);
            let time = new.get("metadata").and_then(|m| m.get("managedFields")).and_then(Value::as_array);
            assert_eq!(time.and_then(|entries| entries[0].get("time")), Some(&Value::from(kept)));
        }
    }
}
