//! Reads the generated table of the built-in types, a message at a time, when it is first asked for.
//!
//! Owns the table's form. What values of these types look like in JSON is left to [`crate::builtin::types::shape`], on
//! the wire to [`crate::protobuf`].

pub(super) mod defaults;
pub(super) mod depends;
pub(super) mod describe;
pub(super) mod expand;
pub(super) mod gojson;
pub(super) mod schema;
pub(super) mod shape;

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use allotment_machinery::json::{self, Value};

const TABLE: &str = include_str!("types.txt");

/// A message: a Go struct.
#[derive(Debug)]
pub(crate) struct Message {
    /// `core/v1.ConfigMap`
    pub(crate) name: &'static str,
    /// Whether it has `apiVersion` and `kind`.
    pub(crate) is_kind: bool,
    /// Whether the whole is one value when configurations are merged.
    pub(crate) atomic: bool,
    /// Its fields, in the order of the source.
    pub(crate) fields: Box<[Field]>,
}

/// A field of a message.
#[derive(Debug)]
pub(crate) struct Field {
    /// The name in JSON; `.` for an embedded message whose members stand inline.
    pub(crate) name: &'static str,
    /// The number in protobuf; 0 where it is not there.
    pub(crate) number: u32,
    /// Its type.
    pub(crate) ty: Type,
    /// Whether Go may tell absence from a zero value (a pointer).
    pub(crate) pointer: bool,
    /// Whether an empty value is left out of JSON.
    pub(crate) omit_empty: bool,
    /// Whether a zero value is left out of JSON, structs too.
    pub(crate) omit_zero: bool,
    /// Whether documentation calls it required; decoders do not ask for it.
    pub(crate) required: bool,
    /// How elements of a list are told apart.
    pub(crate) list: Option<List>,
    /// Whether a map or struct is one value when configurations are merged; where absent, as its type says.
    pub(crate) atomic: Option<bool>,
    /// Strategies of strategic merge patch.
    pub(crate) patch_strategies: Box<[&'static str]>,
    /// The merge key of strategic merge patch.
    pub(crate) patch_key: &'static str,
    /// The default that the type declares.
    pub(crate) default: Option<Value>,
    /// All values there are, where the set is closed.
    pub(crate) values: Box<[&'static str]>,
}

/// `+listType`
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// One value.
    Atomic,
    /// Scalars, each once.
    Set,
    /// Objects with these keys.
    Map(Box<[&'static str]>),
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// `string` and types of it.
    String,
    /// `bool`
    Bool,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `float64`
    Double,
    /// `[]byte`: base64 in JSON.
    Bytes,
    /// A list.
    List(Box<Type>),
    /// A map from strings.
    Map(Box<Type>),
    /// A message, by name.
    Message(&'static str),
    /// `metav1.Time`: seconds.
    Time,
    /// `metav1.MicroTime`: microseconds.
    MicroTime,
    /// `metav1.Duration`: text.
    Duration,
    /// `intstr.IntOrString`
    IntOrString,
    /// `resource.Quantity`
    Quantity,
    /// `runtime.RawExtension`: any object.
    RawExtension,
    /// `metav1.FieldsV1`: an object of paths.
    FieldsV1,
    /// `apiextensions.JSON`: any value.
    Json,
    /// A list that is a message of its own on the wire.
    Items,
    /// A schema, or a list of them.
    SchemaOrArray,
    /// A schema, or a truth value.
    SchemaOrBool,
    /// A schema, or a list of names.
    SchemaOrStrings,
}

struct Slot {
    text: &'static str,
    parsed: OnceLock<Message>,
}

/// Message names and their places in the table, found in one pass over it.
static MESSAGES: LazyLock<BTreeMap<&'static str, Slot>> = LazyLock::new(|| {
    let body = TABLE.find("\n=").map_or("", |start| &TABLE[start + 2..]);
    body.split("\n=")
        .map(|text| {
            let name = text.split([' ', '\n']).next().unwrap_or(text);
            (name, Slot { text, parsed: OnceLock::new() })
        })
        .collect()
});

/// The message `name`, as in `core/v1.ConfigMap`.
pub(crate) fn message(name: &str) -> Option<&'static Message> {
    MESSAGES.get(name).map(|slot| slot.parsed.get_or_init(|| parse_message(slot.text)))
}

/// The message of a kind: `rbac.authorization.k8s.io/v1`, `Role` → `rbac/v1.Role`. Options of requests
/// belong to every group.
pub(crate) fn message_of_kind(api_version: &str, kind: &str) -> Option<&'static Message> {
    if matches!(kind, "DeleteOptions" | "CreateOptions" | "UpdateOptions" | "PatchOptions") {
        return message(&format!("meta/v1.{kind}"));
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let package = group.split('.').next().unwrap_or(group);
    if group != package && !group.ends_with(".k8s.io") {
        return None;
    }
    message(&format!("{package}/{version}.{kind}")).filter(|message| message.is_kind)
}

fn parse_message(text: &'static str) -> Message {
    let mut lines = text.lines();
    let mut head = lines.next().unwrap_or_default().split(' ');
    let name = head.next().unwrap_or_default();
    let flags: Vec<&str> = head.collect();
    let fields = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).filter_map(parse_field).collect();
    Message { name, is_kind: flags.contains(&"kind"), atomic: flags.contains(&"atomic"), fields }
}

fn parse_field(line: &'static str) -> Option<Field> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let number = words.next()?.parse().ok()?;
    let written = words.next()?;
    let (pointer, ty) = match written.strip_prefix('*') {
        Some(rest) => (true, parse_type(rest)?),
        None => (false, parse_type(written)?),
    };
    let mut field = Field {
        name,
        number,
        ty,
        pointer,
        omit_empty: false,
        omit_zero: false,
        required: false,
        list: None,
        atomic: None,
        patch_strategies: Box::default(),
        patch_key: "",
        default: None,
        values: Box::default(),
    };
    for word in words {
        match word.split_once('=') {
            None => match word {
                "e" => field.omit_empty = true,
                "z" => field.omit_zero = true,
                "r" => field.required = true,
                _ => return None,
            },
            Some(("l", list)) => field.list = Some(parse_list(list)?),
            Some(("a", how)) => field.atomic = Some(how == "atomic"),
            Some(("p", patch)) => {
                let (strategies, key) = patch.split_once(':').unwrap_or((patch, ""));
                field.patch_strategies = strategies.split(',').collect();
                field.patch_key = key;
            }
            Some(("d", default)) => field.default = Some(json::parse(default.as_bytes()).ok()?),
            Some(("v", values)) => field.values = values.split('|').collect(),
            Some(_) => return None,
        }
    }
    Some(field)
}

fn parse_list(text: &'static str) -> Option<List> {
    match text.split_once(':').unwrap_or((text, "")) {
        ("atomic", _) => Some(List::Atomic),
        ("set", _) => Some(List::Set),
        ("map", keys) => Some(List::Map(keys.split(',').collect())),
        _ => None,
    }
}

fn parse_type(text: &'static str) -> Option<Type> {
    if let Some(rest) = text.strip_prefix("[]") {
        return Some(Type::List(Box::new(parse_type(rest)?)));
    }
    if let Some(rest) = text.strip_prefix("{}") {
        return Some(Type::Map(Box::new(parse_type(rest)?)));
    }
    if let Some(name) = text.strip_prefix('@') {
        return Some(Type::Message(name));
    }
    Some(match text {
        "string" => Type::String,
        "bool" => Type::Bool,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "duration" => Type::Duration,
        "intorstring" => Type::IntOrString,
        "quantity" => Type::Quantity,
        "raw" => Type::RawExtension,
        "fieldsv1" => Type::FieldsV1,
        "json" => Type::Json,
        "items" => Type::Items,
        "schemaorarray" => Type::SchemaOrArray,
        "schemaorbool" => Type::SchemaOrBool,
        "schemaorstrings" => Type::SchemaOrStrings,
        _ => return None,
    })
}

/// The text of the table, to name its content by.
pub(crate) fn table() -> &'static str {
    TABLE
}

/// The message that schemas of definitions are.
pub(crate) const SCHEMA_PROPS: &str = "apiextensions/v1.JSONSchemaProps";

/// The names of all messages, in order.
#[cfg(test)]
pub(crate) fn names() -> Vec<&'static str> {
    MESSAGES.keys().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn referred(ty: &Type) -> Option<&'static str> {
        match ty {
            Type::List(inner) | Type::Map(inner) => referred(inner),
            Type::Message(name) => Some(name),
            _ => None,
        }
    }

    #[test]
    fn every_line_of_the_table_is_understood_and_every_message_it_names_is_there() {
        let fields = TABLE.lines().filter(|line| !line.starts_with(['#', '='])).count();
        let mut understood = 0;
        for name in MESSAGES.keys() {
            let message = message(name).expect("it is in the index");
            assert_eq!(message.name, *name);
            understood += message.fields.len();
            for field in &message.fields {
                if let Some(target) = referred(&field.ty) {
                    assert!(MESSAGES.contains_key(target), "{name}.{} is a {target}", field.name);
                }
            }
        }
        assert_eq!(understood, fields);
        assert!(MESSAGES.len() > 400, "{}", MESSAGES.len());
    }

    #[test]
    fn kinds_are_found_by_api_version() {
        let name = |api_version, kind| message_of_kind(api_version, kind).map(|message| message.name);
        assert_eq!(name("v1", "ConfigMap"), Some("core/v1.ConfigMap"));
        assert_eq!(name("rbac.authorization.k8s.io/v1", "Role"), Some("rbac/v1.Role"));
        assert_eq!(name("apps/v1", "DeleteOptions"), Some("meta/v1.DeleteOptions"));
        assert_eq!(name("v1", "PodSpec"), None, "a part of a kind, not a kind");
        assert_eq!(name("v1", "Nope"), None);
        assert_eq!(name("core.example.com/v1", "ConfigMap"), None);
    }
}
