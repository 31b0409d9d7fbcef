//! Types as structured-merge-diff knows them, read off schemas while values are walked.
//!
//! A type allows up to three forms of value at once: a scalar, a list, a map. Lists are one value (atomic)
//! or their elements are told apart, by value (sets) or by some members (maps); maps are one value or their
//! members are told apart. Follows `k8s.io/kube-openapi/pkg/schemaconv`.

use super::element::PathElement;
use super::object_meta;
use crate::json::Value;
use crate::schema::{Additional, ListType, MapType, Schema, SchemaRef, Shape};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub struct TypeRef<'a>(Kind<'a>);

#[derive(Clone, Copy, Debug)]
enum Kind<'a> {
    /// As a schema says. `keeps` tells that a schema around it keeps members that it does not know;
    /// `resource` that `apiVersion`, `kind` and `metadata` are declared besides the properties.
    Schema { schema: &'a Schema, keeps: bool, resource: bool },
    /// Anything: members of maps are told apart, lists are one value.
    Deduced,
    /// Anything, as one value.
    Whole,
    /// A string.
    Text,
    /// No value at all.
    Nothing,
}

/// What scalars a type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    String,
    Boolean,
    /// Any of these.
    Untyped,
}

/// The forms that a type allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atom<'a> {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<ListAtom<'a>>,
    pub(super) map: Option<MapAtom<'a>>,
}

/// A form for lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListAtom<'a> {
    of: TypeRef<'a>,
    /// Whether the list is one value.
    pub(super) atomic: bool,
    /// The members that tell elements apart; none in a set.
    pub(super) keys: &'a [Box<str>],
}

/// A form for maps.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapAtom<'a> {
    of: TypeRef<'a>,
    /// Whether the map is one value.
    pub(super) atomic: bool,
}

impl<'a> TypeRef<'a> {
    /// The type of objects of a kind whose schema declares all their members, metadata included.
    pub fn of(schema: &'a Schema) -> Self {
        TypeRef(Kind::Schema { schema, keeps: false, resource: false })
    }

    /// The type of objects of a kind whose schema leaves `apiVersion`, `kind` and `metadata` to the server.
    pub fn of_resource(schema: &'a Schema) -> Self {
        TypeRef(Kind::Schema { schema, keeps: false, resource: true })
    }

    /// The type that no value has.
    pub(super) fn nothing() -> Self {
        TypeRef(Kind::Nothing)
    }

    /// Whether this is the type that no value has.
    pub(super) fn is_nothing(self) -> bool {
        matches!(self.0, Kind::Nothing)
    }

    /// Whether every value is of this type, with all that is in it.
    pub(super) fn takes_anything(self) -> bool {
        matches!(self.0, Kind::Deduced | Kind::Whole)
    }

    /// Whether values are deduced, or any scalar among others is allowed without a name being given.
    pub(super) fn is_untyped(self) -> bool {
        match self.0 {
            Kind::Deduced => true,
            Kind::Whole | Kind::Nothing | Kind::Text => false,
            Kind::Schema { .. } => self.resolve().scalar == Some(Scalar::Untyped),
        }
    }

    /// The forms that values of this type may have.
    pub(super) fn resolve(self) -> Atom<'a> {
        let list = |atomic, keys| Some(ListAtom { of: self, atomic, keys });
        let map = |atomic| Some(MapAtom { of: self, atomic });
        match self.0 {
            Kind::Nothing => Atom { scalar: None, list: None, map: None },
            Kind::Text => Atom { scalar: Some(Scalar::String), list: None, map: None },
            Kind::Deduced => Atom { scalar: Some(Scalar::Untyped), list: list(true, &[]), map: map(false) },
            Kind::Whole => Atom { scalar: Some(Scalar::Untyped), list: list(true, &[]), map: map(true) },
            Kind::Schema { schema, .. } => {
                let (one_list, keys): (bool, &[Box<str>]) = match &schema.list_type {
                    ListType::Atomic => (true, &[]),
                    ListType::Set => (false, &[]),
                    ListType::Map(keys) => (false, keys),
                };
                let one_map = schema.map_type == MapType::Atomic;
                match schema.shape {
                    Shape::Object => Atom { scalar: None, list: None, map: map(one_map) },
                    Shape::Array => Atom { scalar: None, list: list(one_list, keys), map: None },
                    Shape::Any | Shape::IntOrString => {
                        Atom { scalar: Some(Scalar::Untyped), list: list(one_list, keys), map: map(one_map) }
                    }
                    other => Atom { scalar: Some(scalar(other, schema.format())), list: None, map: None },
                }
            }
        }
    }
}

fn scalar(shape: Shape, format: &str) -> Scalar {
    match shape {
        Shape::Integer | Shape::Number => Scalar::Numeric,
        Shape::Boolean => Scalar::Boolean,
        Shape::String if matches!(format, "" | "byte") => Scalar::String,
        _ => Scalar::Untyped,
    }
}

impl<'a> Atom<'a> {
    /// The one form that `value` has; all of them for null, no value, and values of no allowed form.
    pub(super) fn deduced(self, value: Option<&Value>) -> Atom<'a> {
        match value {
            Some(Value::String(_) | Value::Bool(_) | Value::Number(_)) if self.scalar.is_some() => {
                Atom { list: None, map: None, ..self }
            }
            Some(Value::Array(_)) if self.list.is_some() => Atom { scalar: None, map: None, ..self },
            Some(Value::Object(_)) if self.map.is_some() => Atom { scalar: None, list: None, ..self },
            _ => self,
        }
    }

    /// Whether two atoms that were deduced from one are the same.
    pub(super) fn is_same(&self, other: &Atom<'_>) -> bool {
        let forms = |atom: &Atom<'_>| (atom.scalar.is_some(), atom.list.is_some(), atom.map.is_some());
        forms(self) == forms(other)
    }
}

impl<'a> MapAtom<'a> {
    /// The type of the declared member `name`.
    pub(super) fn field(&self, name: &str) -> Option<TypeRef<'a>> {
        let Kind::Schema { schema, keeps, resource } = self.of.0 else { return None };
        if resource || schema.embedded {
            match name {
                "apiVersion" | "kind" => return Some(TypeRef(Kind::Text)),
                "metadata" => return Some(TypeRef::of(object_meta::schema())),
                _ => {}
            }
        }
        Some(inner(schema.property(name)?, keeps || schema.preserve_unknown))
    }

    /// The type of members that are not declared; nothing where there are none.
    pub(super) fn element(&self) -> TypeRef<'a> {
        let Kind::Schema { schema, keeps, .. } = self.of.0 else { return self.of };
        match &schema.additional {
            Additional::Values(values) => inner(values.get(), keeps || schema.preserve_unknown),
            Additional::Anything => TypeRef(Kind::Deduced),
            Additional::Unsaid if keeps || schema.preserve_unknown || !self.has_fields() => TypeRef(Kind::Deduced),
            Additional::Unsaid => TypeRef::nothing(),
        }
    }

    /// Whether any member is declared.
    pub(super) fn has_fields(&self) -> bool {
        match self.of.0 {
            Kind::Schema { schema, resource, .. } => resource || schema.embedded || !schema.properties.is_empty(),
            _ => false,
        }
    }

    /// The type of the member `name`, declared or not.
    pub(super) fn member(&self, name: &str) -> TypeRef<'a> {
        self.field(name).unwrap_or_else(|| self.element())
    }
}

fn inner(schema: &Schema, keeps: bool) -> TypeRef<'_> {
    TypeRef(Kind::Schema { schema, keeps, resource: false })
}

impl<'a> ListAtom<'a> {
    /// The type of the elements.
    pub(super) fn element(&self) -> TypeRef<'a> {
        match self.of.0 {
            Kind::Schema { schema, keeps, .. } => match schema.items.as_ref().map(SchemaRef::get) {
                Some(items) => inner(items, keeps || schema.preserve_unknown),
                None => TypeRef(Kind::Whole),
            },
            _ => TypeRef(Kind::Whole),
        }
    }

    /// How `item` is found in the list.
    pub(super) fn path_element(&self, item: &Value) -> Result<PathElement, String> {
        if self.atomic {
            return Err("invalid indexing of non-associative list".to_owned());
        }
        if self.keys.is_empty() {
            return set_element(item);
        }
        let members = match item {
            Value::Object(members) => members,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut found = Vec::with_capacity(self.keys.len());
        for key in self.keys {
            let value = match members.get(key) {
                Some(value) => Some(value.clone()),
                None => self.key_default(key)?,
            };
            found.extend(value.map(|value| (key.clone(), value)));
        }
        if found.is_empty() {
            let keys: Vec<String> = self.keys.iter().map(|key| crate::gotext::go_quote(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(PathElement::key(found))
    }

    fn key_default(&self, key: &str) -> Result<Option<Value>, String> {
        let Some(map) = self.element().resolve().map else {
            let why = "associative list may not have non-map types";
            return Err(format!("couldn't find default value for {key}: {why}"));
        };
        Ok(match map.field(key) {
            Some(TypeRef(Kind::Schema { schema, .. })) => schema.default.as_deref().cloned(),
            _ => None,
        })
    }
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        scalar => Ok(PathElement::Value(scalar.clone())),
    }
}
