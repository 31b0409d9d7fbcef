//! What a schema is: nodes, and the links between them.
//!
//! Nodes are kept small: what most nodes lack lies behind one pointer. A link may be to a node by name,
//! so that types can contain themselves and many kinds can share the type of, say, a pod's template.

use std::fmt;
use std::sync::{Arc, OnceLock};

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

/// How strategic merge patch treats a field of a built-in kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Patch {
    /// `merge`, `replace`, `retainKeys`, in the order in which the type says them.
    pub strategies: Box<[Box<str>]>,
    /// The field by which elements of the list are found; empty for lists of scalars.
    pub merge_key: Box<str>,
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
    Values(SchemaRef),
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
    pub properties: Box<[(Box<str>, SchemaRef)]>,
    /// The names of members that have to be there, as given.
    pub required: Box<[Box<str>]>,
    /// What other members are.
    pub additional: Additional,
    /// What elements are.
    pub items: Option<SchemaRef>,
    /// `x-kubernetes-list-type`
    pub list_type: ListType,
    /// What is filled in where nothing is given.
    pub default: Option<Box<Value>>,
    /// Rules about values.
    pub rules: Option<Box<ValueRules>>,
    /// For strategic merge patch of built-in kinds.
    pub patch: Option<Box<Patch>>,
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

    /// An object with these members, in any order.
    pub fn object<N: Into<Box<str>>>(properties: impl IntoIterator<Item = (N, SchemaRef)>) -> Self {
        let mut properties: Vec<(Box<str>, SchemaRef)> =
            properties.into_iter().map(|(name, schema)| (name.into(), schema)).collect();
        properties.sort_by(|left, right| left.0.cmp(&right.0));
        Schema { properties: properties.into(), ..Schema::of(Shape::Object) }
    }

    /// An object whose members have any name and this schema.
    pub fn map(values: impl Into<SchemaRef>) -> Self {
        Schema { additional: Additional::Values(values.into()), ..Schema::of(Shape::Object) }
    }

    /// A list of these.
    pub fn array(items: impl Into<SchemaRef>) -> Self {
        Schema { items: Some(items.into()), ..Schema::of(Shape::Array) }
    }

    /// The same with a format.
    #[must_use]
    pub fn with_format(mut self, format: &str) -> Self {
        self.rules.get_or_insert_default().format = format.into();
        self
    }

    /// The same with a list type.
    #[must_use]
    pub fn with_list_type(mut self, list_type: ListType) -> Self {
        self.list_type = list_type;
        self
    }

    /// The same with what strategic merge patch has to know.
    #[must_use]
    pub fn with_patch(mut self, patch: Patch) -> Self {
        self.patch = Some(Box::new(patch));
        self
    }

    /// The schema of the member `name`, if it is a known property.
    pub fn property(&self, name: &str) -> Option<&Schema> {
        self.properties
            .binary_search_by(|(have, _)| (**have).cmp(name))
            .ok()
            .map(|index| self.properties[index].1.get())
    }

    /// The schema of the member `name`: its property, or what other members are.
    pub fn member(&self, name: &str) -> Option<&Schema> {
        self.property(name).or(match &self.additional {
            Additional::Values(schema) => Some(schema.get()),
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

/// A link to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SchemaRef {
    /// The node itself, perhaps shared.
    Node(Arc<Schema>),
    /// A node that has a name.
    Named(NamedSchema),
}

impl SchemaRef {
    /// The node.
    pub fn get(&self) -> &Schema {
        match self {
            SchemaRef::Node(schema) => schema,
            SchemaRef::Named(named) => named.get(),
        }
    }
}

impl From<Schema> for SchemaRef {
    fn from(schema: Schema) -> Self {
        SchemaRef::Node(Arc::new(schema))
    }
}

impl From<Arc<Schema>> for SchemaRef {
    fn from(schema: Arc<Schema>) -> Self {
        SchemaRef::Node(schema)
    }
}

impl From<NamedSchema> for SchemaRef {
    fn from(named: NamedSchema) -> Self {
        SchemaRef::Named(named)
    }
}

/// A node by its name, which may be used before it is defined: types that contain themselves.
///
/// Caveat: names that refer to themselves keep each other alive. They are meant for types that live as
/// long as the process does.
#[derive(Clone)]
pub struct NamedSchema {
    inner: Arc<(Box<str>, OnceLock<Schema>)>,
}

impl NamedSchema {
    /// A name that [`NamedSchema::define`] is yet to be called for.
    pub fn new(name: &str) -> Self {
        NamedSchema { inner: Arc::new((name.into(), OnceLock::new())) }
    }

    /// Says what the name stands for. The first definition stays.
    pub fn define(&self, schema: Schema) {
        let _ = self.inner.1.set(schema);
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.0
    }

    /// What it stands for; any value as long as it is not defined.
    pub fn get(&self) -> &Schema {
        static UNDEFINED: OnceLock<Schema> = OnceLock::new();
        self.inner.1.get().unwrap_or_else(|| UNDEFINED.get_or_init(Schema::anything))
    }
}

/// Shows the name only: what it stands for may contain it.
impl fmt::Debug for NamedSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedSchema").field(&self.name()).finish()
    }
}

/// Names are equal when they are the same one.
impl PartialEq for NamedSchema {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for NamedSchema {}

impl std::hash::Hash for NamedSchema {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}
