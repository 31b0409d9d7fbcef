//! One step of a field path: how a value is chosen among those of its parent, its order and its texts.

use std::cmp::Ordering;
use std::fmt;

use super::scalar;
use crate::json::{self, Value};

/// A step from a value to one within it.
///
/// Steps have an order, that of `FieldsV1`: members by name, elements by key, by value, by position.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// The member of this name.
    Field(Box<str>),
    /// The element of a list whose members have these values, sorted by name.
    Key(Box<[(Box<str>, Value)]>),
    /// The element of a set that is this value.
    Value(Value),
    /// The element at this position.
    Index(i64),
}

/// Why a text is no step of a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    /// It is of a kind that is not known, perhaps of a later version.
    #[error("unknown path element type")]
    UnknownKind,
    /// It is malformed.
    #[error("{0}")]
    Malformed(String),
}

impl PathElement {
    /// The step to the member `name`.
    pub fn field(name: &str) -> Self {
        PathElement::Field(name.into())
    }

    /// The step to the element with these members.
    pub fn key(mut members: Vec<(Box<str>, Value)>) -> Self {
        members.sort_by(|left, right| left.0.cmp(&right.0));
        PathElement::Key(members.into())
    }

    /// The name, if this is a step to a member.
    pub fn name(&self) -> Option<&str> {
        match self {
            PathElement::Field(name) => Some(name),
            _ => None,
        }
    }

    /// Reads the form that steps have as keys of `FieldsV1`: `f:spec`, `k:{"name":"a"}`, `v:1`, `i:0`.
    ///
    /// # Errors
    /// Text of another form. Numbers are read as floats, as the reference does.
    pub fn parse(text: &str) -> Result<Self, ElementError> {
        let malformed = |why: String| ElementError::Malformed(why);
        let bytes = text.as_bytes();
        if bytes.len() < 2 {
            return Err(malformed("key must be 2 characters long:".to_owned()));
        }
        if bytes[1] != b':' {
            return Err(malformed(format!("missing colon: {text}")));
        }
        let value = |rest: &str| {
            let (mut parsed, _) = json::parse_first(rest).map_err(|error| malformed(error.to_string()))?;
            scalar::to_floats(&mut parsed.value);
            Ok(parsed.value)
        };
        let rest = text.get(2..).unwrap_or_default();
        match bytes[0] {
            b'f' => Ok(PathElement::field(rest)),
            b'v' => Ok(PathElement::Value(value(rest)?)),
            b'k' => match value(rest)? {
                Value::Object(map) => Ok(PathElement::key(map.into_iter().map(|(k, v)| (k.into(), v)).collect())),
                other => Err(malformed(format!("a key is an object, not a {}", other.type_name()))),
            },
            b'i' => rest
                .parse()
                .map(PathElement::Index)
                .map_err(|_| malformed(format!("{rest:?} is no position in a list"))),
            _ => Err(ElementError::UnknownKind),
        }
    }

    /// The form that [`PathElement::parse`] reads.
    pub fn text(&self) -> String {
        match self {
            PathElement::Field(name) => ["f:", &**name].concat(),
            PathElement::Key(members) => {
                let mut out = String::from("k:{");
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    scalar::write_json_string(name, false, &mut out);
                    out.push(':');
                    scalar::write_json(value, &mut out);
                }
                out.push('}');
                out
            }
            PathElement::Value(value) => {
                let mut out = String::from("v:");
                scalar::write_json(value, &mut out);
                out
            }
            PathElement::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(left), PathElement::Field(right)) => left.cmp(right),
            (PathElement::Key(left), PathElement::Key(right)) => {
                let pairs = left.iter().zip(right.iter());
                let differing = pairs
                    .map(|((a, x), (b, y))| a.cmp(b).then_with(|| scalar::compare(x, y)))
                    .find(|order| order.is_ne());
                differing.unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (PathElement::Value(left), PathElement::Value(right)) => scalar::compare(left, right),
            (PathElement::Index(left), PathElement::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// For people: `.spec`, `[name="a"]`, `[=1]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(members) => {
                f.write_str("[")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", scalar::shown(value))?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={}]", scalar::shown(value)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Shows a path, step after step.
pub fn show_path(path: &[&PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[track_caller]
    fn check(text: &str, written: &str, shown: &str) {
        let element = PathElement::parse(text).expect(text);
        assert_eq!((element.text().as_str(), element.to_string().as_str()), (written, shown));
        assert_eq!(PathElement::parse(written).expect(written), element);
    }

    #[test]
    fn steps_have_one_form_each() {
        check("f:spec", "f:spec", ".spec");
        check("f:a.b/c", "f:a.b/c", ".a.b/c");
        check("f:", "f:", ".");
        check(r#"k:{"b":1.0,"a":"x"}"#, r#"k:{"a":"x","b":1}"#, r#"[a="x",b=1]"#);
        check(r#"k:{"p":3000000}"#, r#"k:{"p":3000000}"#, "[p=3e+06]");
        check(r#"v:"<a&b>""#, r#"v:"\u003ca\u0026b\u003e""#, r#"[="<a&b>"]"#);
        check("v:true", "v:true", "[=true]");
        check("v:9007199254740993", "v:9007199254740992", "[=9.007199254740992e+15]");
        check("v:1e21", "v:1e+21", "[=1e+21]");
        check("i:3", "i:3", "[3]");
    }

    #[test]
    fn other_texts_are_refused_and_unknown_kinds_are_told_apart() {
        for text in ["", "f", "fa", "v:", "k:1", "k:{", "i:x", "v:{"] {
            assert!(matches!(PathElement::parse(text), Err(ElementError::Malformed(_))), "{text}");
        }
        assert_eq!(PathElement::parse("x:1"), Err(ElementError::UnknownKind));
        assert!(PathElement::parse("é:1").is_err());
    }

    #[test]
    fn members_come_before_keys_before_values_before_positions() {
        let texts = [
            "f:a",
            "f:b",
            r#"k:{"a":1}"#,
            r#"k:{"a":1,"b":1}"#,
            r#"k:{"a":2}"#,
            r#"k:{"a":10}"#,
            r#"k:{"a":"1"}"#,
            r#"k:{"b":1}"#,
            "v:1",
            "v:1.5",
            "v:2",
            r#"v:"a""#,
            "v:false",
            "v:true",
            "v:[]",
            "v:{}",
            "v:null",
            "i:0",
            "i:1",
        ];
        let elements: Vec<PathElement> = texts.iter().map(|text| PathElement::parse(text).expect(text)).collect();
        for pair in elements.windows(2) {
            assert!(pair[0] < pair[1], "{} < {}", pair[0], pair[1]);
        }
        let int = PathElement::Value(json!(1));
        assert_eq!(int, PathElement::parse("v:1").expect("a value"), "integers and floats are compared by value");
    }
}
