//! JSON values whose numbers keep their text, a parser with a depth limit, and a compact writer.
//!
//! Kubernetes tells `1` from `1.0`, must not lose digits of large integers, and reports duplicate keys
//! in strict decoding; general-purpose value types lose all three. What an object *means* is left to
//! the modules above.

mod map;
mod number;
mod parse;
mod write;

pub use map::Map;
pub use number::Number;
pub use parse::{JsonError, JsonErrorKind, MAX_DEPTH, Parsed, parse, parse_first, parse_with_duplicates};
pub use write::{write_compact, write_string};

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as it was written.
    Number(Number),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object; keys are kept sorted.
    Object(Map),
}

impl Value {
    /// The object behind this value, if it is one.
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The object behind this value, if it is one, to change.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The elements of this value, if it is an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The elements of this value, if it is an array, to change.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The text of this value, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth value, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as an integer, if it is a number written without fraction or exponent that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The member `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    /// The member `key` to change, if this is an object that has it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.as_object_mut()?.get_mut(key)
    }

    /// Follows member names down from here: `value.at(&["metadata", "name"])`.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// What kind of value this is, as Kubernetes' messages call it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_integer() => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// What kind of value this is, as the errors of Go's JSON decoder call it.
    pub fn go_kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// The value as compact JSON.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        write_compact(self, &mut out);
        out
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_vec()))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::String(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Number(Number::from(value))
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Value::Object(map)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Value::Array(items)
    }
}

/// Builds a [`Value`] from literal syntax: `json!({"a": 1, "b": [x, null]})`. Keys are string literals
/// or expressions in parentheses; leaves are anything that converts into a [`Value`].
#[macro_export]
macro_rules! json {
    (null) => { $crate::json::Value::Null };
    ([ $($item:tt),* $(,)? ]) => { $crate::json::Value::Array(vec![ $( $crate::json!($item) ),* ]) };
    ({ $($key:tt : $value:tt),* $(,)? }) => {
        $crate::json::Value::Object($crate::json::Map::from_iter([
            $( (::std::string::String::from($key), $crate::json!($value)) ),*
        ]))
    };
    ($leaf:expr) => { $crate::json::Value::from($leaf) };
}

/// How many bytes of a text come before the first that stands escaped in a JSON string, or ends one. Looked at in
/// blocks, which the compiler makes one comparison of.
fn plain_length(text: &[u8]) -> usize {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    let (blocks, _) = text.as_chunks::<16>();
    let plain = blocks.iter().take_while(|block| !block.iter().fold(false, |any, byte| any | is_special(byte)));
    let at = plain.count() * 16;
    at + text[at..].iter().position(is_special).unwrap_or(text.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn round(input: &str, expect: &str) {
        let value = parse(input.as_bytes()).expect(input);
        assert_eq!(value.to_string(), expect);
        assert_eq!(parse(expect.as_bytes()).expect(expect), value);
    }

    #[test]
    fn numbers_keep_their_text() {
        round(
            r#"{"a":1,"b":1.0,"c":1e3,"d":-0,"e":123456789012345678901234567890}"#,
            r#"{"a":1,"b":1.0,"c":1e3,"d":-0,"e":123456789012345678901234567890}"#,
        );
    }

    #[test]
    fn keys_are_sorted_and_the_last_duplicate_wins() {
        round(r#"{ "b" : 1, "a" : 2, "b" : 3 }"#, r#"{"a":2,"b":3}"#);
        let parsed = parse_with_duplicates(br#"{"x":{"b":1,"b":2},"y":[{"c":1,"c":1}]}"#).expect("parses");
        assert_eq!(parsed.duplicates, ["x.b", "y[0].c"]);
        let members: Vec<String> = (0..50_000).map(|n| format!("\"a{n}\":1,\"a{n}\":1")).collect();
        let bomb = format!("{{\"{}\":{{{}}}}}", "k".repeat(1 << 20), members.join(","));
        let parsed = parse_with_duplicates(bomb.as_bytes()).expect("parses");
        let size: usize = parsed.duplicates.iter().map(String::len).sum();
        assert!(size < 1 << 20, "duplicates take {size} bytes");
    }

    #[test]
    fn strings_are_unescaped_and_escaped_again() {
        round(r#"["\u0041\n\t\"\\\/","\ud83d\ude00","\u0001","é"]"#, "[\"A\\n\\t\\\"\\\\/\",\"😀\",\"\\u0001\",\"é\"]");
        assert_eq!(parse(br#""\ud800""#).expect("a lone surrogate is replaced"), Value::from("\u{fffd}"));
    }

    #[test]
    fn what_is_plain_ends_before_the_first_special_byte_wherever_it_is() {
        for special in [b'"', b'\\', 0, b'\n', 0x1f] {
            for (before, after) in (0..40).flat_map(|before| [0, 1, 15, 16, 40].map(|after| (before, after))) {
                let text = [vec![b' '; before], vec![special], vec![0xff; after]].concat();
                assert_eq!(plain_length(&text), before);
                assert_eq!(plain_length(&text[before + 1..]), after);
            }
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = [b"[".repeat(MAX_DEPTH), b"]".repeat(MAX_DEPTH)].concat();
        assert!(parse(&deep).is_ok());
        let deeper = b"[".repeat(10_000);
        assert_eq!(parse(&deeper).expect_err("too deep").kind, JsonErrorKind::TooDeep);
    }

    #[test]
    fn malformed_input_is_refused_with_its_place() {
        for (input, offset) in [
            ("", 0),
            ("{", 1),
            ("[1,]", 3),
            ("{\"a\" 1}", 5),
            ("01", 1),
            ("1 2", 2),
            ("nul", 0),
            ("\"a", 2),
            ("\"\u{1}\"", 1),
            ("[1", 2),
            ("-", 1),
            ("1.", 2),
            ("{\"a\":1,}", 7),
            ("\"\\x\"", 2),
        ] {
            let error = parse(input.as_bytes()).expect_err(input);
            assert_eq!(error.offset, offset, "{input}: {error}");
        }
        assert_eq!(parse(b"\"\xff\"").expect_err("not UTF-8").kind, JsonErrorKind::NotUtf8);
    }
}
