//! The part of JSONPath that printer columns, scale and selectable fields use
//! (`k8s.io/client-go/util/jsonpath`): `.spec.a.b`, `.status.conditions[?(@.type=="Ready")].status`,
//! `[0]`, `[-1]`, `[1:3]`, `[*]`, `['x']`, `.a\.b`.
//!
//! Left out are recursive descent, unions and nested filters: what remains takes a time linear in path
//! and object, and no result is found twice.

mod parse;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::json::{Map, Value};

/// The longest path, in bytes.
pub const MAX_LENGTH: usize = 4096;
/// The most steps of a path.
pub const MAX_STEPS: usize = 64;

/// A path to parts of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    text: String,
    steps: Vec<Step>,
}

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a JSONPath as fields are named by: {problem} at byte {offset}")]
pub struct JsonPathError {
    /// The text.
    pub text: String,
    /// Where it goes wrong.
    pub offset: usize,
    /// What is wrong.
    pub problem: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A member.
    Field(String),
    /// An element; from the end where negative.
    Index(i64),
    /// Elements from one to before another.
    Slice(Option<i64>, Option<i64>),
    /// All members or elements.
    Wildcard,
    /// The elements for which something holds.
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    /// From the element.
    left: Vec<Step>,
    /// What has to hold; nothing means that something is there.
    test: Option<(Comparison, Operand)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    Literal(Value),
    Path(Vec<Step>),
}

impl JsonPath {
    /// What the path finds in `value`, in its order.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        find(&self.steps, value)
    }

    /// The first thing that the path finds.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.find(value).into_iter().next()
    }

    /// The names of members, if the path consists of such alone.
    pub fn fields(&self) -> Option<Vec<&str>> {
        let name = |step: &Step| match step {
            Step::Field(_) => true,
            Step::Index(_) | Step::Slice(..) | Step::Wildcard | Step::Filter(_) => false,
        };
        self.steps.iter().all(name).then(|| {
            let names = self.steps.iter().filter_map(|step| match step {
                Step::Field(name) => Some(name.as_str()),
                _ => None,
            });
            names.collect()
        })
    }

    /// Sets the member that a path of members names, making objects on the way; false where something
    /// else is in the way, or the path has other steps.
    pub fn set(&self, object: &mut Map, value: Value) -> bool {
        let Some(fields) = self.fields() else { return false };
        let Some((last, parents)) = fields.split_last() else { return false };
        let parent = parents.iter().try_fold(object, |map, name| map.object_mut(name));
        parent.map(|map| map.insert(*last, value)).is_some()
    }
}

impl FromStr for JsonPath {
    type Err = JsonPathError;

    /// Reads a path that begins with a dot or a bracket; braces around it are dropped.
    fn from_str(text: &str) -> Result<Self, JsonPathError> {
        let steps = parse::steps(text)?;
        Ok(JsonPath { text: text.to_owned(), steps })
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn find<'a>(steps: &[Step], value: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in steps {
        let mut next = Vec::new();
        for value in found {
            follow(step, value, &mut next);
        }
        found = next;
    }
    found
}

fn follow<'a>(step: &Step, value: &'a Value, out: &mut Vec<&'a Value>) {
    match (step, value) {
        (Step::Field(name), Value::Object(map)) => out.extend(map.get(name)),
        (Step::Wildcard, Value::Object(map)) => out.extend(map.iter().map(|(_, value)| value)),
        (Step::Wildcard, Value::Array(items)) => out.extend(items),
        (Step::Index(index), Value::Array(items)) => {
            let index = if *index < 0 { index.checked_add_unsigned(items.len() as u64) } else { Some(*index) };
            out.extend(index.and_then(|index| usize::try_from(index).ok()).and_then(|index| items.get(index)));
        }
        (Step::Slice(from, to), Value::Array(items)) => {
            let place = |index: i64| {
                let index = if index < 0 { index.saturating_add_unsigned(items.len() as u64) } else { index };
                usize::try_from(index.max(0)).unwrap_or(usize::MAX).min(items.len())
            };
            let (from, to) = (from.map_or(0, place), to.map_or(items.len(), place));
            out.extend(items.get(from..to).unwrap_or_default());
        }
        (Step::Filter(filter), Value::Array(items)) => out.extend(items.iter().filter(|item| filter.holds(item))),
        (Step::Filter(filter), Value::Object(map)) => {
            out.extend(map.iter().map(|(_, value)| value).filter(|value| filter.holds(value)));
        }
        _ => {}
    }
}

impl Filter {
    fn holds(&self, element: &Value) -> bool {
        let left = find(&self.left, element);
        let Some((comparison, operand)) = &self.test else { return !left.is_empty() };
        let right = match operand {
            Operand::Literal(value) => Some(value),
            Operand::Path(steps) => find(steps, element).first().copied(),
        };
        let (Some(left), Some(right)) = (left.first(), right) else { return false };
        let Some(order) = order(left, right) else { return false };
        match comparison {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// How two scalars of one type compare; `None` for all others.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64().partial_cmp(&right.as_f64()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json;

    #[track_caller]
    fn check(path: &str, expect: &[&str]) {
        let value = json!({
            "spec": {"replicas": 3, "a.b": "dotted", "nested": {"x": 1}},
            "metadata": {"labels": {"e.com/a": "1"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 2, "m": 2},
                {"type": "Synced", "status": "False", "n": 10, "m": 3},
                {"status": "Unknown"}
            ]}
        });
        let path: JsonPath = path.parse().expect(path);
        let found: Vec<String> = path.find(&value).into_iter().map(ToString::to_string).collect();
        assert_eq!(found, expect, "{path}");
        assert_eq!(path.first(&value).map(ToString::to_string).as_deref(), expect.first().copied());
    }

    #[test]
    fn paths_find_members_elements_and_what_a_filter_lets_through() {
        for (path, expect) in [
            (".spec.replicas", &["3"][..]),
            ("{.spec.replicas}", &["3"]),
            ("$.spec.replicas", &["3"]),
            (".spec.nested", &[r#"{"x":1}"#]),
            (".spec.absent.deeper", &[]),
            (".spec.replicas.x", &[]),
            (r".spec.a\.b", &["\"dotted\""]),
            (".spec['a.b']", &["\"dotted\""]),
            (r#".metadata.labels["e.com/a"]"#, &["\"1\""]),
            (r".metadata.labels.e\.com/a", &["\"1\""]),
            (r"['metadata'].labels['e\.com/a']", &["\"1\""]),
            (".spec.nested.*", &["1"]),
            (".status.conditions[0].type", &["\"Ready\""]),
            (".status.conditions[-1].status", &["\"Unknown\""]),
            (".status.conditions[9].status", &[]),
            (".status.conditions[*].type", &["\"Ready\"", "\"Synced\""]),
            (".status.conditions[1:].status", &["\"False\"", "\"Unknown\""]),
            (".status.conditions[:-1].status", &["\"True\"", "\"False\""]),
            (".status.conditions[2:1].status", &[]),
            (r#".status.conditions[?(@.type=="Ready")].status"#, &["\"True\""]),
            (".status.conditions[?(@.type == 'Ready')].status", &["\"True\""]),
            (".status.conditions[?(@.type != 'Ready')].status", &["\"False\""]),
            (".status.conditions[?(@.type)].status", &["\"True\"", "\"False\""]),
            (".status.conditions[?(@.n>2)].type", &["\"Synced\""]),
            (".status.conditions[?(@.n<=2.5)].type", &["\"Ready\""]),
            (".status.conditions[?(@.n==@.m)].type", &["\"Ready\""]),
            (".status.conditions[?(@['type']=='Synced')]['n']", &["10"]),
        ] {
            check(path, expect);
        }
    }

    #[test]
    fn what_is_no_path_is_refused_with_its_place() {
        for (path, offset) in [
            ("", 0),
            ("spec", 0),
            (".", 1),
            (".spec.", 6),
            (".spec..a", 6),
            ("..a", 1),
            (".a[", 3),
            (".a[]", 3),
            (".a[x]", 3),
            (".a['x", 5),
            (".a[1,2]", 4),
            (".a[99999999999999999999]", 3),
            (".a[?(@.b=='x']", 13),
            (".a[?(@.b[?(@.c)])]", 9),
            (".a[?(.b)]", 5),
            (".a[?(@.b=x)]", 8),
            ("{.a", 3),
            (".a}", 2),
        ] {
            let error = path.parse::<JsonPath>().expect_err(path);
            assert_eq!(error.offset, offset, "{error}");
        }
        assert!(".a".repeat(MAX_STEPS).parse::<JsonPath>().is_ok());
        assert!(".a".repeat(MAX_STEPS + 1).parse::<JsonPath>().is_err());
        assert!(format!(".{}", "a".repeat(MAX_LENGTH)).parse::<JsonPath>().is_err());
    }

    #[test]
    fn a_path_of_members_can_be_written_to() {
        let path: JsonPath = ".spec.size.replicas".parse().expect("a path");
        assert_eq!(path.fields(), Some(vec!["spec", "size", "replicas"]));
        let mut object = Map::new();
        assert!(path.set(&mut object, 3.into()));
        assert_eq!(Value::Object(object.clone()).to_string(), r#"{"spec":{"size":{"replicas":3}}}"#);
        object.insert("spec", "text");
        assert!(!path.set(&mut object, 3.into()));
        let list: JsonPath = ".spec[0]".parse().expect("a path");
        assert!(list.fields().is_none() && !list.set(&mut object, 3.into()));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(path in "[.@a?()\\[\\]'0-9:*=\\\\ -]{0,24}") {
            if let Ok(path) = path.parse::<JsonPath>() {
                path.find(&json!({"a": [1, {"a": "a"}]}));
            }
        }
    }
}
