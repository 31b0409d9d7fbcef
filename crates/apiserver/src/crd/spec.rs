//! The parts of a definition, read off its JSON.

use allotment_machinery::json::{Map, Value};

/// `spec` of a definition; an empty one where it has none.
pub(super) fn of(definition: &Map) -> &Map {
    static NONE: Map = Map::new();
    definition.get("spec").and_then(Value::as_object).unwrap_or(&NONE)
}

/// A text within a map; empty where it is absent.
pub(super) fn text<'a>(map: &'a Map, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or("")
}

/// The texts of a list within a map.
pub(super) fn texts<'a>(map: &'a Map, name: &str) -> impl Iterator<Item = &'a str> {
    list(map, name).iter().filter_map(Value::as_str)
}

/// A list within a map; empty where it is absent.
pub(super) fn list<'a>(map: &'a Map, name: &str) -> &'a [Value] {
    map.get(name).and_then(Value::as_array).unwrap_or_default()
}

/// A map within a map; an empty one where it is absent.
pub(super) fn map<'a>(map: &'a Map, name: &str) -> &'a Map {
    static NONE: Map = Map::new();
    map.get(name).and_then(Value::as_object).unwrap_or(&NONE)
}

/// The group that a definition adds to.
pub(super) fn group(definition: &Map) -> &str {
    text(of(definition), "group")
}

/// The names that a definition asks for.
pub(super) fn names(definition: &Map) -> &Map {
    map(of(definition), "names")
}

/// The versions of a definition, in the order given.
pub(super) fn versions(definition: &Map) -> impl Iterator<Item = VersionSpec<'_>> {
    list(of(definition), "versions").iter().filter_map(Value::as_object).map(VersionSpec)
}

/// One of `spec.versions`.
#[derive(Clone, Copy)]
pub(super) struct VersionSpec<'a>(pub(super) &'a Map);

impl<'a> VersionSpec<'a> {
    /// `v1`
    pub(super) fn name(self) -> &'a str {
        text(self.0, "name")
    }

    /// Whether objects are written in it.
    pub(super) fn is_storage(self) -> bool {
        self.flag("storage")
    }

    /// Whether `name` is true.
    pub(super) fn flag(self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    /// Its schema.
    pub(super) fn schema(self) -> Option<&'a Value> {
        self.0.get("schema")?.get("openAPIV3Schema").filter(|value| !value.is_null())
    }

    /// A member that is the same as absent when null or an empty list.
    pub(super) fn part(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty()))
    }

    /// Whether it has the subresource status.
    pub(super) fn has_status(self) -> bool {
        self.subresource("status").is_some()
    }

    /// The subresource `name`, if it has it.
    pub(super) fn subresource(self, name: &str) -> Option<&'a Map> {
        self.0.get("subresources")?.get(name)?.as_object()
    }
}
