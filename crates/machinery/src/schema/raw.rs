//! A schema as a definition has it: JSON, looked at without being copied.

use crate::field::Path;
use crate::json::{Map, Value};

/// A node of a schema in JSON. What is no object counts as a node that says nothing.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a>(Option<&'a Map>);

/// What combines rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Junctor {
    /// `allOf`
    AllOf,
    /// `anyOf`
    AnyOf,
    /// `oneOf`
    OneOf,
    /// `not`
    Not,
}

impl Junctor {
    const ALL: [Junctor; 4] = [Junctor::AllOf, Junctor::AnyOf, Junctor::OneOf, Junctor::Not];

    fn name(self) -> &'static str {
        match self {
            Junctor::AllOf => "allOf",
            Junctor::AnyOf => "anyOf",
            Junctor::OneOf => "oneOf",
            Junctor::Not => "not",
        }
    }

    /// The path of the nested node at `at`.
    pub(super) fn path(self, path: &Path, at: Option<usize>) -> Path {
        let path = path.child(self.name());
        at.map_or(path.clone(), |index| path.index(index))
    }
}

impl<'a> Raw<'a> {
    /// The node that `value` is.
    pub(super) fn new(value: &'a Value) -> Self {
        Raw(value.as_object())
    }

    /// The keyword `name`, unless it is null.
    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.0?.get(name).filter(|value| !value.is_null())
    }

    /// The keyword `name` as text that is not empty.
    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// The type; empty where none is said.
    pub(super) fn kind(self) -> &'a str {
        self.text("type").unwrap_or("")
    }

    /// Whether the keyword `name` is `true`.
    pub(super) fn flag(self, name: &str) -> bool {
        self.get(name) == Some(&Value::Bool(true))
    }

    /// Whether the keyword `name` says anything: is neither absent nor empty nor `false`, unless it is
    /// one for which those differ from absence.
    pub(super) fn says(self, name: &str) -> bool {
        let Some(value) = self.get(name) else { return false };
        if matches!(name, "default" | "additionalProperties" | "externalDocs" | "dependencies" | "example" | "$ref") {
            return true;
        }
        match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty() || matches!(name, "not" | "items" | "additionalItems"),
            Value::Bool(true) | Value::Number(_) => true,
        }
    }

    /// Whether a keyword other than `but` says anything.
    pub(super) fn says_more_than(self, but: &[&str]) -> bool {
        self.0.is_some_and(|map| map.keys().any(|name| !but.contains(&name) && self.says(name)))
    }

    /// Nodes under the keyword `name`, which is an object.
    fn nodes(self, name: &str) -> impl Iterator<Item = (&'a str, Raw<'a>)> + use<'a> {
        let map = self.get(name).and_then(Value::as_object);
        map.into_iter().flat_map(Map::iter).map(|(name, value)| (name, Raw::new(value)))
    }

    /// The declared properties.
    pub(super) fn properties(self) -> impl Iterator<Item = (&'a str, Raw<'a>)> + use<'a> {
        self.nodes("properties")
    }

    /// The declared property `name`.
    pub(super) fn property(self, name: &str) -> Option<Raw<'a>> {
        self.get("properties")?.get(name).map(Raw::new)
    }

    /// The schema of elements; none where `items` is a list.
    pub(super) fn items(self) -> Option<Raw<'a>> {
        self.get("items").filter(|value| value.as_object().is_some()).map(Raw::new)
    }

    /// Whether there is an `additionalProperties`.
    pub(super) fn says_additional(self) -> bool {
        self.get("additionalProperties").is_some()
    }

    /// The schema of other members.
    pub(super) fn additional(self) -> Option<Raw<'a>> {
        self.get("additionalProperties").filter(|value| value.as_object().is_some()).map(Raw::new)
    }

    /// The elements of the keyword `name`, which is a list.
    pub(super) fn list(self, name: &str) -> &'a [Value] {
        self.get(name).and_then(Value::as_array).unwrap_or_default()
    }

    /// The texts in the keyword `name`, which is a list.
    pub(super) fn texts(self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list(name).iter().filter_map(Value::as_str)
    }

    /// Nested nodes with how they are combined and their place in the list.
    pub(super) fn junctors(self) -> impl Iterator<Item = (Junctor, Option<usize>, Raw<'a>)> {
        Junctor::ALL.into_iter().flat_map(move |junctor| {
            let nodes: Vec<(Junctor, Option<usize>, Raw<'a>)> = match junctor {
                Junctor::Not => self.get("not").map(|value| (junctor, None, Raw::new(value))).into_iter().collect(),
                _ => {
                    let list = self.list(junctor.name()).iter().enumerate();
                    list.map(|(index, value)| (junctor, Some(index), Raw::new(value))).collect()
                }
            };
            nodes
        })
    }

    /// Whether `anyOf` is exactly integer or string.
    pub(super) fn is_int_or_string_choice(self) -> bool {
        let [first, second] = self.list("anyOf") else { return false };
        let only = |value: &Value, kind: &str| {
            let node = Raw::new(value);
            node.kind() == kind && !node.says_more_than(&["type"])
        };
        only(first, "integer") && only(second, "string")
    }
}
