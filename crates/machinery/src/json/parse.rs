//! The parser: RFC 8259, bounded in depth, UTF-8 only.

use super::{Map, Number, Value, plain_length};
use crate::field::note;

/// How deep arrays and objects may nest. Deep enough for every schema seen in the field (a nested
/// property costs two levels), shallow enough for a small thread's stack.
pub const MAX_DEPTH: usize = 256;

/// Digits that every float's range has room for.
const SAFE_DIGITS: usize = 300;

/// Bytes that a text with escapes gets beyond twice what comes before the first of them.
const ESCAPED_ROOM: usize = 64;

/// Why a text is not JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct JsonError {
    /// Bytes from the start of the text.
    pub offset: usize,
    /// What is wrong there.
    pub kind: JsonErrorKind,
}

/// What is wrong with a text that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonErrorKind {
    /// The text ends too early.
    #[error("unexpected end of JSON input")]
    UnexpectedEnd,
    /// A character that cannot stand there.
    #[error("unexpected character {0:?}")]
    Unexpected(char),
    /// Something follows the value.
    #[error("unexpected text after the value")]
    Trailing,
    /// More than [`MAX_DEPTH`] arrays and objects in each other.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A number that no float holds: nobody could read it again.
    #[error("a number is out of range")]
    NumberRange,
    /// Not UTF-8.
    #[error("invalid UTF-8")]
    NotUtf8,
}

/// A value and the paths of keys that stood in one object more than once.
#[derive(Debug)]
pub struct Parsed {
    /// The value; of equal keys the last counts.
    pub value: Value,
    /// Paths as `spec.containers[0].name`, in the order of the text; each at most once.
    pub duplicates: Vec<String>,
}

/// Parses one JSON value that fills `input`. Of equal keys the last wins.
pub fn parse(input: &[u8]) -> Result<Value, JsonError> {
    Ok(parse_with_duplicates(input)?.value)
}

/// As [`parse`], and tells which keys stood more than once, for strict decoding.
pub fn parse_with_duplicates(input: &[u8]) -> Result<Parsed, JsonError> {
    let text = std::str::from_utf8(input)
        .map_err(|error| JsonError { offset: error.valid_up_to(), kind: JsonErrorKind::NotUtf8 })?;
    let mut parser = Parser { text, at: 0, depth: 0, path: Vec::new(), duplicates: Vec::new() };
    parser.skip_space();
    let value = parser.value()?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.error(JsonErrorKind::Trailing));
    }
    Ok(Parsed { value, duplicates: parser.duplicates })
}

/// Parses the JSON value that `text` begins with; tells also how many bytes it fills. For values one
/// after another.
pub fn parse_first(text: &str) -> Result<(Parsed, usize), JsonError> {
    let mut parser = Parser { text, at: 0, depth: 0, path: Vec::new(), duplicates: Vec::new() };
    parser.skip_space();
    let value = parser.value()?;
    Ok((Parsed { value, duplicates: parser.duplicates }, parser.at))
}

enum Step {
    Key(String),
    Index(usize),
}

/// The path of the member `key` of the value that `steps` lead to.
fn path_to(steps: &[Step], key: &str) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Key(name) if path.is_empty() => path.push_str(name),
            Step::Key(name) => path.extend([".", name]),
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    if !path.is_empty() {
        path.push('.');
    }
    path + key
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    path: Vec<Step>,
    duplicates: Vec<String>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, kind: JsonErrorKind) -> JsonError {
        JsonError { offset: self.at, kind }
    }

    /// The error for what stands here, be it a character or the end.
    fn unexpected(&self) -> JsonError {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(character) => self.error(JsonErrorKind::Unexpected(character)),
            None => self.error(JsonErrorKind::UnexpectedEnd),
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.unexpected()),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.unexpected());
        }
        self.at += word.len();
        Ok(value)
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, JsonError>) -> Result<Value, JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(JsonErrorKind::TooDeep));
        }
        self.depth += 1;
        self.at += 1;
        self.skip_space();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.path.push(Step::Index(items.len()));
            items.push(self.value()?);
            self.path.pop();
            self.skip_space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.skip_space();
                }
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn object(&mut self) -> Result<Value, JsonError> {
        let mut members = Vec::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(Map::new()));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected());
            }
            self.at += 1;
            self.skip_space();
            self.path.push(Step::Key(key));
            let value = self.value()?;
            if let Some(Step::Key(key)) = self.path.pop() {
                members.push((key, value));
            }
            self.skip_space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.skip_space();
                }
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(self.finish_object(members)));
                }
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn finish_object(&mut self, members: Vec<(String, Value)>) -> Map {
        let mut found = Vec::new();
        let map = Map::from_unsorted(members, |key| found.push(key.to_owned()));
        found.dedup();
        for key in found {
            let path = &self.path;
            note(&mut self.duplicates, || path_to(path, &key));
        }
        map
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected());
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.unexpected());
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        let mut large = self.at - start > SAFE_DIGITS;
        if matches!(self.peek(), Some(b'e' | b'E')) {
            large = true;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let number = Number::from_grammar(&self.text[start..self.at]);
        if large && number.as_f64().is_infinite() {
            return Err(JsonError { offset: start, kind: JsonErrorKind::NumberRange });
        }
        Ok(Value::Number(number))
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let start = self.at;
        self.skip_plain();
        if self.peek() == Some(b'"') {
            let text = self.text[start..self.at].to_owned();
            self.at += 1;
            return Ok(text);
        }
        // A text with one line end or quote has more of them: it gets room for some, and then doubles.
        let plain = &self.text[start..self.at];
        let mut text = String::with_capacity(2 * plain.len() + ESCAPED_ROOM);
        text.push_str(plain);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                _ => return Err(self.unexpected()),
            }
            let start = self.at;
            self.skip_plain();
            text.push_str(&self.text[start..self.at]);
        }
    }

    /// Goes on to the next quote, backslash or control character.
    fn skip_plain(&mut self) {
        self.at += plain_length(&self.text.as_bytes()[self.at..]);
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let character = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(character)
    }

    /// Four hex digits, and the second half of a surrogate pair where one follows. Halves without the
    /// other become U+FFFD, as in Go.
    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or('\u{fffd}'))
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.unexpected())?;
            self.at += 1;
        }
        Ok(code)
    }
}
