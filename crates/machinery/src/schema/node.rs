//! What a schema is: a tree of nodes.
//!
//! Nodes are kept small: what most of them lack lies behind one pointer.

use super::pattern::Pattern;
use crate::json::{Number, Value};

/// What kind of value a node is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Any: nothing is said about the type.
    #[default]
    Any,
    /// `object`
    Object,
    /// `array`
    Array,
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `boolean`
    Boolean,
    /// `x-kubernetes-int-or-string`
    IntOrString,
}

impl Shape {
    /// The name of the type in a schema; empty for [`Shape::Any`] and [`Shape::IntOrString`].
    pub fn type_name(self) -> &'static str {
        match self {
            Shape::Any | Shape::IntOrString => "",
            Shape::Object => "object",
            Shape::Array => "array",
            Shape::String => "string",
            Shape::Integer => "integer",
            Shape::Number => "number",
            Shape::Boolean => "boolean",
        }
    }
}

/// How elements of a list are told apart (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Scalars, each once.
    Set,
    /// Objects with these keys (`x-kubernetes-list-map-keys`), each combination once.
    Map(Box<[Box<str>]>),
}

/// How members of an object are told apart (`x-kubernetes-map-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MapType {
    /// Each member by itself.
    #[default]
    Granular,
    /// The object is one value.
    Atomic,
}

/// What `additionalProperties` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Additional {
    /// Nothing: members without a property are unknown.
    #[default]
    Unsaid,
    /// `true`: members may be anything.
    Anything,
    /// Members have this schema.
    Values(Box<Schema>),
}

/// Rules about values that few nodes have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueRules {
    /// `format`, known or not.
    pub format: Box<str>,
    /// `pattern`
    pub pattern: Option<Pattern>,
    /// `enum`; empty says nothing.
    pub one_of_values: Box<[Value]>,
    /// `minimum`, and whether it is excluded.
    pub minimum: Option<(Number, bool)>,
    /// `maximum`, and whether it is excluded.
    pub maximum: Option<(Number, bool)>,
    /// `multipleOf`
    pub multiple_of: Option<Number>,
    /// `minLength`, in characters.
    pub min_length: Option<u64>,
    /// `maxLength`, in characters.
    pub max_length: Option<u64>,
    /// `minItems`
    pub min_items: Option<u64>,
    /// `maxItems`
    pub max_items: Option<u64>,
    /// `minProperties`
    pub min_properties: Option<u64>,
    /// `maxProperties`
    pub max_properties: Option<u64>,
    /// `allOf`, `anyOf`, `oneOf`, `not`; rare even among nodes that have rules.
    pub junctors: Option<Box<Junctors>>,
}

/// Rules that combine rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Junctors {
    /// `allOf`
    pub all_of: Box<[Schema]>,
    /// `anyOf`
    pub any_of: Box<[Schema]>,
    /// `oneOf`
    pub one_of: Box<[Schema]>,
    /// `not`
    pub not: Option<Schema>,
}

/// A node: what one value may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Schema {
    /// The type.
    pub shape: Shape,
    /// Whether `null` is a value of it.
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`
    pub embedded: bool,
    /// `x-kubernetes-map-type`
    pub map_type: MapType,
    /// The members that are known, sorted by name.
    pub properties: Box<[(Box<str>, Schema)]>,
    /// The names of members that have to be there, as given.
    pub required: Box<[Box<str>]>,
    /// What other members are.
    pub additional: Additional,
    /// What elements are.
    pub items: Option<Box<Schema>>,
    /// `x-kubernetes-list-type`
    pub list_type: ListType,
    /// What is filled in where nothing is given.
    pub default: Option<Box<Value>>,
    /// Rules about values.
    pub rules: Option<Box<ValueRules>>,
}

impl Schema {
    /// A node for values of a type about which nothing else is said.
    pub fn of(shape: Shape) -> Self {
        Schema { shape, ..Schema::default() }
    }

    /// Any value, kept as it is.
    pub fn anything() -> Self {
        Schema { preserve_unknown: true, ..Schema::default() }
    }

    /// An object whose members have any name and this schema.
    pub fn map(values: Schema) -> Self {
        Schema { additional: Additional::Values(Box::new(values)), ..Schema::of(Shape::Object) }
    }

    /// The schema of the member `name`, if it is a known property.
    pub fn property(&self, name: &str) -> Option<&Schema> {
        self.properties
            .binary_search_by(|(have, _)| (**have).cmp(name))
            .ok()
            .map(|index| &self.properties[index].1)
    }

    /// The schema of the member `name`: its property, or what other members are.
    pub fn member(&self, name: &str) -> Option<&Schema> {
        self.property(name).or(match &self.additional {
            Additional::Values(schema) => Some(schema),
            Additional::Unsaid | Additional::Anything => None,
        })
    }

    /// The rules about values, if there are any.
    pub fn rules(&self) -> Option<&ValueRules> {
        self.rules.as_deref()
    }

    /// The format, empty if none is said.
    pub fn format(&self) -> &str {
        self.rules().map_or("", |rules| &rules.format)
    }
}
