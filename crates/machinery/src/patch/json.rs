//! JSON patch (RFC 6902) as kube-apiserver applies it.
//!
//! Where its library differs from the RFC, so does this: of the document as a whole (the empty pointer) only
//! `replace` and `test` are known; what stands before the first slash of a pointer is passed over; `replace`
//! also adds a member; an absent member reads as `null` in `test` and `copy`; negative indexes count from the
//! end; an absent `value` is `null`.

use crate::json::{MAX_DEPTH, Map, Value};

/// The most operations of one patch, as in kube-apiserver.
pub const MAX_OPERATIONS: usize = 10_000;
/// The most bytes that all `copy` operations of a patch may add, as in kube-apiserver: a body's limit.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// How many elements and members all operations of a patch may move and look at: about a second's work.
/// Large lists and objects are vectors, so that an insertion at the front moves all that follows.
const MAX_WORK: usize = 200_000_000;

/// A patch that is a list of operations; whether each can be applied shows when it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPatch {
    operations: Vec<Map>,
}

/// The members of an operation.
const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// Why a body is no JSON patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchDecodeError {
    /// Not a list of objects. Answered with 400.
    #[error("error decoding patch: a JSON patch has to be a list of operations, and this is of type {0}")]
    NotAList(&'static str),
    /// Too many operations. Answered with 413.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooMany(usize),
}

/// Why an operation cannot be applied. Answered with 422.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operation {index} of the patch, {operation:?} at {path:?}: {problem}")]
pub struct JsonPatchError {
    /// Which operation, from 0.
    pub index: usize,
    /// Its name.
    pub operation: String,
    /// Its pointer.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is no such operation.
    #[error("there is no such operation")]
    UnknownOperation,
    /// `path`, or `from` where it is needed, is absent or no pointer to a part of the document.
    #[error("it needs pointers such as /metadata/labels to parts of the object")]
    Pointer,
    /// What contains the place is not there.
    #[error("there is nothing that could hold it")]
    MissingParent,
    /// Nothing is there.
    #[error("there is nothing there")]
    Missing,
    /// No position of the list.
    #[error("the list has no such position")]
    Index,
    /// The value is another one.
    #[error("another value is there")]
    TestFailed,
    /// The copies are too large together.
    #[error("copies may add no more than {MAX_COPIED_BYTES} bytes")]
    CopiesTooLarge,
    /// The result would be too deep.
    #[error("the object would be nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The patch takes too long.
    #[error("the patch moves too many elements")]
    TooMuchWork,
}

impl JsonPatch {
    /// A patch from its JSON.
    pub fn decode(patch: Value) -> Result<Self, JsonPatchDecodeError> {
        let Value::Array(items) = patch else { return Err(JsonPatchDecodeError::NotAList(patch.type_name())) };
        if items.len() > MAX_OPERATIONS {
            return Err(JsonPatchDecodeError::TooMany(items.len()));
        }
        let operations = items.into_iter().map(|item| match item {
            Value::Object(operation) => Ok(operation),
            other => Err(JsonPatchDecodeError::NotAList(other.type_name())),
        });
        Ok(JsonPatch { operations: operations.collect::<Result<_, _>>()? })
    }

    /// Paths of members that operations do not have: `[0].extra`.
    pub fn unknown(&self) -> impl Iterator<Item = String> {
        self.operations.iter().enumerate().flat_map(|(index, operation)| {
            let unknown = operation.iter().filter(|(name, _)| !MEMBERS.contains(name));
            unknown.map(move |(name, _)| format!("[{index}].{name}"))
        })
    }

    /// What the patch makes of `document`.
    pub fn apply(self, document: Value) -> Result<Value, JsonPatchError> {
        let mut run = Run { document, copied: 0, work: 0 };
        for (index, mut operation) in self.operations.into_iter().enumerate() {
            if let Err(problem) = run.operation(&mut operation) {
                let text = |field: &str| operation.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
                return Err(JsonPatchError { index, operation: text("op"), path: text("path"), problem });
            }
        }
        Ok(run.document)
    }
}

struct Run {
    document: Value,
    copied: usize,
    work: usize,
}

impl Run {
    fn operation(&mut self, operation: &mut Map) -> Result<(), Problem> {
        let value = operation.remove("value").unwrap_or_default();
        let name = operation.get("op").and_then(Value::as_str).unwrap_or_default();
        if operation.get("path").and_then(Value::as_str) == Some("") {
            return self.whole(name, value);
        }
        let path = pointer(operation, "path");
        match name {
            "add" => self.add(&path?, value),
            "replace" => self.replace(&path?, value),
            "remove" => self.take(&path?).map(drop),
            "test" => self.test(&path?, &value),
            "copy" => {
                let path = path?;
                let value = self.copy(&pointer(operation, "from")?)?;
                self.add(&path, value)
            }
            "move" => {
                let path = path?;
                let value = self.take(&pointer(operation, "from")?)?;
                self.add(&path, value)
            }
            _ => Err(Problem::UnknownOperation),
        }
    }

    /// An operation on the document as a whole.
    fn whole(&mut self, name: &str, value: Value) -> Result<(), Problem> {
        match (name, &value) {
            ("replace", Value::Object(_) | Value::Array(_)) => {
                if !fits(&value, MAX_DEPTH, &mut self.work) {
                    return Err(Problem::TooDeep);
                }
                self.document = value;
                self.check_work()
            }
            ("test", _) if self.document == value => Ok(()),
            ("test", _) => Err(Problem::TestFailed),
            ("add" | "remove" | "replace" | "copy" | "move", _) => Err(Problem::Pointer),
            _ => Err(Problem::UnknownOperation),
        }
    }

    fn add(&mut self, path: &Pointer, value: Value) -> Result<(), Problem> {
        self.check_depth(path, &value)?;
        match path.parent_mut(&mut self.document)? {
            Value::Object(map) => {
                self.work += map.len();
                map.insert(path.last.as_str(), value);
            }
            Value::Array(items) => {
                let index = match path.last.as_str() {
                    "-" => items.len(),
                    text => index(text, items.len() + 1)?,
                };
                self.work += items.len() - index;
                items.insert(index, value);
            }
            _ => return Err(Problem::MissingParent),
        }
        self.check_work()
    }

    fn replace(&mut self, path: &Pointer, value: Value) -> Result<(), Problem> {
        self.check_depth(path, &value)?;
        if let Value::Array(items) = path.parent_mut(&mut self.document)? {
            let index = index(&path.last, items.len())?;
            items[index] = value;
            return Ok(());
        }
        self.add(path, value)
    }

    /// Takes out what is at `path`.
    fn take(&mut self, path: &Pointer) -> Result<Value, Problem> {
        let taken = match path.parent_mut(&mut self.document)? {
            Value::Object(map) => {
                self.work += map.len();
                map.remove(&path.last).ok_or(Problem::Missing)?
            }
            Value::Array(items) => {
                let index = index(&path.last, items.len())?;
                self.work += items.len() - index;
                items.remove(index)
            }
            _ => return Err(Problem::MissingParent),
        };
        self.check_work()?;
        Ok(taken)
    }

    fn test(&mut self, path: &Pointer, value: &Value) -> Result<(), Problem> {
        if path.read(&self.document)?.unwrap_or(&Value::Null) == value { Ok(()) } else { Err(Problem::TestFailed) }
    }

    fn copy(&mut self, path: &Pointer) -> Result<Value, Problem> {
        let value = path.read(&self.document)?.unwrap_or(&Value::Null);
        self.copied += size(value, MAX_COPIED_BYTES - self.copied).ok_or(Problem::CopiesTooLarge)?;
        Ok(value.clone())
    }

    /// Whether `value` can lie at `path` without the document getting too deep.
    fn check_depth(&mut self, path: &Pointer, value: &Value) -> Result<(), Problem> {
        let allowed = MAX_DEPTH.checked_sub(path.parents.len() + 1).ok_or(Problem::TooDeep)?;
        if !fits(value, allowed, &mut self.work) {
            return Err(Problem::TooDeep);
        }
        self.check_work()
    }

    fn check_work(&self) -> Result<(), Problem> {
        if self.work > MAX_WORK { Err(Problem::TooMuchWork) } else { Ok(()) }
    }
}

/// Whether `value` nests arrays and objects no deeper than `allowed`; counts what it looks at.
fn fits(value: &Value, allowed: usize, work: &mut usize) -> bool {
    *work += 1;
    match value {
        Value::Array(items) => allowed > 0 && items.iter().all(|item| fits(item, allowed - 1, work)),
        Value::Object(map) => allowed > 0 && map.iter().all(|(_, member)| fits(member, allowed - 1, work)),
        _ => true,
    }
}

/// About how long `value` is as JSON, if no longer than `most`.
fn size(value: &Value, most: usize) -> Option<usize> {
    let length = match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => {
            items.iter().try_fold(2, |sum: usize, item| Some(sum + 1 + size(item, most.checked_sub(sum)?)?))?
        }
        Value::Object(map) => map.iter().try_fold(2, |sum: usize, (key, member)| {
            let sum = sum + key.len() + 4;
            Some(sum + size(member, most.checked_sub(sum)?)?)
        })?,
    };
    (length <= most).then_some(length)
}

/// The position that `text` names in a list of `length`.
fn index(text: &str, length: usize) -> Result<usize, Problem> {
    let number: i64 = text.parse().map_err(|_| Problem::Index)?;
    let length = i64::try_from(length).map_err(|_| Problem::Index)?;
    let index = if number < 0 { number + length } else { number };
    usize::try_from(index).ok().filter(|_| index < length).ok_or(Problem::Index)
}

/// A pointer (RFC 6901) to a part of the document.
struct Pointer {
    parents: Vec<String>,
    last: String,
}

fn pointer(operation: &Map, field: &str) -> Result<Pointer, Problem> {
    let text = operation.get(field).and_then(Value::as_str).ok_or(Problem::Pointer)?;
    let (_, text) = text.split_once('/').ok_or(Problem::Pointer)?;
    // `~01` is `~1`, so that slashes go first.
    let mut parents: Vec<String> = text.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let last = parents.pop().ok_or(Problem::Pointer)?;
    Ok(Pointer { parents, last })
}

impl Pointer {
    fn parent_mut<'a>(&self, document: &'a mut Value) -> Result<&'a mut Value, Problem> {
        self.parents
            .iter()
            .try_fold(document, |value, part| match value {
                Value::Object(map) => map.get_mut(part),
                Value::Array(items) => index(part, items.len()).ok().and_then(|index| items.get_mut(index)),
                _ => None,
            })
            .ok_or(Problem::MissingParent)
    }

    /// What is there; `None` for a member that an object lacks.
    fn read<'a>(&self, document: &'a Value) -> Result<Option<&'a Value>, Problem> {
        let parent = self.parents.iter().try_fold(document, |value, part| match value {
            Value::Object(map) => map.get(part),
            Value::Array(items) => index(part, items.len()).ok().and_then(|index| items.get(index)),
            _ => None,
        });
        match parent.ok_or(Problem::MissingParent)? {
            Value::Object(map) => Ok(map.get(&self.last)),
            Value::Array(items) => Ok(items.get(index(&self.last, items.len())?)),
            _ => Err(Problem::MissingParent),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::parse;
    use crate::patch::testing::object;

    fn apply(document: &str, patch: &str) -> Result<String, Problem> {
        let read = |text: &str| parse(text.as_bytes()).expect(text);
        let patch = JsonPatch::decode(read(patch)).expect(patch);
        patch.apply(read(document)).map(|value| value.to_string()).map_err(|error| error.problem)
    }

    #[track_caller]
    fn check(document: &str, patch: &str, expect: Result<&str, Problem>) {
        assert_eq!(apply(document, patch).as_deref(), expect.as_deref(), "{document} + {patch}");
    }

    #[test]
    fn operations_change_objects() {
        let document = r#"{"data":{"x":"1","y":"2"}}"#;
        check(
            document,
            r#"[{"op":"test","path":"/data/x","value":"1"},{"op":"add","path":"/data/n","value":"n"},
                {"op":"replace","path":"/data/y","value":"9"},{"op":"copy","from":"/data/x","path":"/data/c"},
                {"op":"move","from":"/data/c","path":"/data/m"},{"op":"remove","path":"/data/x"}]"#,
            Ok(r#"{"data":{"m":"1","n":"n","y":"9"}}"#),
        );
        check(document, r#"[{"op":"replace","path":"/data/z","value":1}]"#, Ok(r#"{"data":{"x":"1","y":"2","z":1}}"#));
        check(
            document,
            r#"[{"op":"copy","from":"/data/z","path":"/d"}]"#,
            Ok(r#"{"d":null,"data":{"x":"1","y":"2"}}"#),
        );
        check(document, r#"[{"op":"test","path":"/data/z","value":null}]"#, Ok(document));
        check(document, r#"[{"op":"test","path":"/data/z","value":"2"}]"#, Err(Problem::TestFailed));
        check(document, r#"[{"op":"test","path":"/data/x","value":"2"}]"#, Err(Problem::TestFailed));
        check(document, r#"[{"op":"test","path":"/a/b","value":null}]"#, Err(Problem::MissingParent));
        check(document, r#"[{"op":"remove","path":"/data/z"}]"#, Err(Problem::Missing));
        check(document, r#"[{"op":"move","from":"/data/z","path":"/z"}]"#, Err(Problem::Missing));
        check(document, r#"[{"op":"move","from":"/data","path":"/data/z"}]"#, Err(Problem::MissingParent));
        check(document, r#"[{"op":"add","path":"/a/b","value":1}]"#, Err(Problem::MissingParent));
        check(document, r#"[{"op":"add","path":"/data/x/y","value":1}]"#, Err(Problem::MissingParent));
        check(document, r#"[{"op":"frob","path":"/data/x"}]"#, Err(Problem::UnknownOperation));
        check(document, r#"[{"op":"add","value":1}]"#, Err(Problem::Pointer));
        check(document, r#"[{"op":"replace","path":"","value":1}]"#, Err(Problem::Pointer));
        check(document, r#"[{"op":"replace","path":"","value":{"a":1}}]"#, Ok(r#"{"a":1}"#));
        check(document, r#"[{"op":"test","path":"","value":{}}]"#, Err(Problem::TestFailed));
        check(document, r#"[{"op":"remove","path":""}]"#, Err(Problem::Pointer));
        check(document, r#"[{"op":"frob","path":""}]"#, Err(Problem::UnknownOperation));
        check(document, r#"[{"op":"add","path":"x","value":1}]"#, Err(Problem::Pointer));
        check(r#"{}"#, r#"[{"op":"add","path":"passed-over/x","value":1}]"#, Ok(r#"{"x":1}"#));
        check(document, r#"[{"op":"copy","path":"/a"}]"#, Err(Problem::Pointer));
    }

    #[test]
    fn operations_change_lists() {
        let document = r#"["a","b"]"#;
        for (patch, expect) in [
            (r#"{"op":"add","path":"/1","value":"m"}"#, Ok(r#"["a","m","b"]"#)),
            (r#"{"op":"add","path":"/2","value":"m"}"#, Ok(r#"["a","b","m"]"#)),
            (r#"{"op":"add","path":"/-","value":"m"}"#, Ok(r#"["a","b","m"]"#)),
            (r#"{"op":"add","path":"/-1","value":"m"}"#, Ok(r#"["a","b","m"]"#)),
            (r#"{"op":"add","path":"/3","value":"m"}"#, Err(Problem::Index)),
            (r#"{"op":"add","path":"/-4","value":"m"}"#, Err(Problem::Index)),
            (r#"{"op":"add","path":"/x","value":"m"}"#, Err(Problem::Index)),
            (r#"{"op":"remove","path":"/0"}"#, Ok(r#"["b"]"#)),
            (r#"{"op":"remove","path":"/2"}"#, Err(Problem::Index)),
            (r#"{"op":"remove","path":"/-"}"#, Err(Problem::Index)),
            (r#"{"op":"replace","path":"/-1","value":"n"}"#, Ok(r#"["a","n"]"#)),
            (r#"{"op":"replace","path":"/2","value":"n"}"#, Err(Problem::Index)),
            (r#"{"op":"move","from":"/0","path":"/1"}"#, Ok(r#"["b","a"]"#)),
            (r#"{"op":"copy","from":"/1","path":"/0"}"#, Ok(r#"["b","a","b"]"#)),
            (r#"{"op":"test","path":"/1","value":"b"}"#, Ok(document)),
            (r#"{"op":"test","path":"/9","value":null}"#, Err(Problem::Index)),
            (r#"{"op":"add","path":"/99999999999999999999","value":1}"#, Err(Problem::Index)),
        ] {
            check(document, &format!("[{patch}]"), expect);
        }
    }

    #[test]
    fn pointers_escape_slashes_and_tildes() {
        check(
            r#"{"e.com/x":"1"}"#,
            r#"[{"op":"replace","path":"/e.com~1x","value":"2"},{"op":"add","path":"/t~0~01","value":1},{"op":"add","path":"/","value":0}]"#,
            Ok(r#"{"":0,"e.com/x":"2","t~~1":1}"#),
        );
    }

    #[test]
    fn a_body_that_is_no_list_of_operations_is_refused() {
        let decode = |text: &str| JsonPatch::decode(parse(text.as_bytes()).expect(text)).map(drop);
        assert_eq!(decode("{}"), Err(JsonPatchDecodeError::NotAList("object")));
        assert_eq!(decode("[1]"), Err(JsonPatchDecodeError::NotAList("integer")));
        let many = Value::Array(vec![Value::Object(Map::new()); MAX_OPERATIONS + 1]);
        assert_eq!(
            JsonPatch::decode(many).expect_err("too many").to_string(),
            "The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
    }

    #[test]
    fn copies_neither_grow_nor_deepen_an_object_without_bound() {
        let copies = |from: &str, to: &str, count: usize| {
            let operation = format!(r#"{{"op":"copy","from":"{from}","path":"{to}"}}"#);
            format!("[{}]", vec![operation; count].join(","))
        };
        let large = format!(r#"{{"a":["{}"]}}"#, "x".repeat(100_000));
        assert_eq!(apply(&large, &copies("/a", "/a/-", 10)), Err(Problem::CopiesTooLarge));
        assert_eq!(apply(r#"{"a":{"a":{}}}"#, &copies("/a", "/a/a/a", 300)), Err(Problem::TooDeep));
        let swap = r#"{"op":"move","from":"/b","path":"/a/c"},{"op":"move","from":"/a","path":"/b"},{"op":"add","path":"/a","value":{}}"#;
        let moves = format!("[{}]", vec![swap; 300].join(","));
        assert_eq!(apply(r#"{"a":{},"b":{}}"#, &moves), Err(Problem::TooDeep));
    }

    #[test]
    fn insertions_into_long_lists_have_a_budget() {
        let insert = |count: usize| {
            let operation = crate::json!({"op": "add", "path": "/0", "value": true});
            JsonPatch::decode(Value::Array(vec![operation; count])).expect("a list of operations")
        };
        let list = Value::Array(vec![Value::Null; 200_000]);
        assert!(insert(100).apply(list.clone()).is_ok());
        let error = insert(2_000).apply(list).expect_err("too much work");
        assert_eq!((error.problem, error.index > 900), (Problem::TooMuchWork, true), "{error}");
    }

    /// Operations that make `to` of what is at `path`.
    fn diff(path: &str, from: &Map, to: &Map, out: &mut Vec<Value>) {
        let place = |key: &str| Value::from(format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")));
        for (key, old) in from.iter() {
            match (old, to.get(key)) {
                (_, None) => out.push(crate::json!({"op": "remove", "path": (place(key))})),
                (old, Some(new)) if old == new => {}
                (Value::Object(old), Some(Value::Object(new))) => {
                    diff(place(key).as_str().unwrap_or_default(), old, new, out);
                }
                (_, Some(new)) => {
                    let operation = crate::json!({"op": "replace", "path": (place(key)), "value": (new.clone())});
                    out.push(operation);
                }
            }
        }
        for (key, new) in to.iter().filter(|(key, _)| !from.contains_key(key)) {
            out.push(crate::json!({"op": "add", "path": (place(key)), "value": (new.clone())}));
        }
    }

    proptest! {
        #[test]
        fn the_operations_between_two_objects_make_one_of_the_other(from in object(), to in object()) {
            let mut operations = Vec::new();
            diff("", &from, &to, &mut operations);
            let patch = JsonPatch::decode(operations.into()).expect("a list of operations");
            prop_assert_eq!(patch.apply(from.into()), Ok(to.into()));
        }

        #[test]
        fn no_operation_panics(
            document in object(),
            op in "add|remove|replace|move|copy|test",
            path in "(/[ab0-](/[ab01-]{0,2})?)?",
            from in "(/[ab0-](/[ab01-]{0,2})?)?",
        ) {
            let patch = crate::json!([{"op": op, "path": path, "from": from, "value": {"x": 1}}]);
            let _ = JsonPatch::decode(patch).expect("a list of operations").apply(document.into());
        }
    }
}
