//! Paths to fields and what can be wrong with one, with the texts that Kubernetes' API machinery uses
//! (`k8s.io/apimachinery/pkg/util/validation/field`).

use std::fmt;

use crate::json::Value;

/// A path to a field: `spec.containers[0].env[NAME].value`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    text: String,
}

impl Path {
    /// The path of the whole object; shown as `<nil>`, as Kubernetes does.
    pub fn root() -> Self {
        Path::default()
    }

    /// A path that begins with `name`.
    pub fn new(name: &str) -> Self {
        Path { text: name.to_owned() }
    }

    /// The member `name` of this field.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let mut text = self.text.clone();
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(name);
        Path { text }
    }

    /// The element at `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Path { text: format!("{}[{index}]", self.text) }
    }

    /// The value under `key` of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Path { text: format!("{}[{key}]", self.text) }
    }

    /// Whether this is [`Path::root`].
    pub fn is_root(&self) -> bool {
        self.text.is_empty()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_empty() { "<nil>" } else { &self.text })
    }
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Which field.
    pub path: Path,
    /// What is wrong with it.
    pub kind: FieldErrorKind,
    /// More words for a person; may be empty.
    pub detail: String,
}

/// The kinds of field errors. Values are kept as the message shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// The field has to be there.
    Required,
    /// The value breaks a rule.
    Invalid(ShownValue),
    /// The value is none of those supported.
    NotSupported(ShownValue),
    /// The value stands elsewhere already.
    Duplicate(ShownValue),
    /// The field must not be there, or not be changed.
    Forbidden,
    /// The value is too long; the message shows no value.
    TooLong,
    /// There are too many of them.
    TooMany(ShownValue),
    /// The value is of the wrong type.
    TypeInvalid(ShownValue),
    /// What the field refers to is not there.
    NotFound(ShownValue),
    /// The fault is ours.
    Internal,
}

/// A value as Kubernetes' messages show it: strings quoted, objects and lists as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownValue(String);

impl From<&str> for ShownValue {
    fn from(text: &str) -> Self {
        ShownValue(go_quote(text))
    }
}

impl From<&String> for ShownValue {
    fn from(text: &String) -> Self {
        ShownValue::from(text.as_str())
    }
}

impl From<i64> for ShownValue {
    fn from(value: i64) -> Self {
        ShownValue(value.to_string())
    }
}

impl From<&Value> for ShownValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => ShownValue::from(text.as_str()),
            other => ShownValue(other.to_string()),
        }
    }
}

impl ShownValue {
    /// Text shown as it is.
    pub fn raw(text: impl Into<String>) -> Self {
        ShownValue(text.into())
    }
}

/// Quotes as Go's `%q` does.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            plain if is_printable(plain) => out.push(plain),
            other => match u32::from(other) {
                code @ ..0x80 => out.push_str(&format!("\\x{code:02x}")),
                code @ ..0x1_0000 => out.push_str(&format!("\\u{code:04x}")),
                code => out.push_str(&format!("\\U{code:08x}")),
            },
        }
    }
    out.push('"');
    out
}

/// Whether Go's `unicode.IsPrint` holds: everything with a shape of its own, and the space.
pub(crate) fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    // Behind a letter, so that a combining mark is not taken for one that lacks its base.
    ["a", character.encode_utf8(&mut [0; 4])].concat().escape_debug().count() == 2
}

impl FieldError {
    fn new(path: &Path, kind: FieldErrorKind, detail: impl Into<String>) -> Self {
        FieldError { path: path.clone(), kind, detail: detail.into() }
    }

    /// "Required value".
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        FieldError::new(path, FieldErrorKind::Required, detail)
    }

    /// "Invalid value".
    pub fn invalid(path: &Path, value: impl Into<ShownValue>, detail: impl Into<String>) -> Self {
        FieldError::new(path, FieldErrorKind::Invalid(value.into()), detail)
    }

    /// "Unsupported value"; the detail lists what is supported, quoted and in the order given.
    pub fn not_supported(path: &Path, value: impl Into<ShownValue>, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|text| go_quote(text)).collect();
        let detail = if list.is_empty() { String::new() } else { format!("supported values: {}", list.join(", ")) };
        FieldError::new(path, FieldErrorKind::NotSupported(value.into()), detail)
    }

    /// "Duplicate value".
    pub fn duplicate(path: &Path, value: impl Into<ShownValue>) -> Self {
        FieldError::new(path, FieldErrorKind::Duplicate(value.into()), "")
    }

    /// "Forbidden".
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        FieldError::new(path, FieldErrorKind::Forbidden, detail)
    }

    /// "Too long"; `most` in bytes.
    pub fn too_long(path: &Path, most: usize) -> Self {
        let noun = if most == 1 { "byte" } else { "bytes" };
        FieldError::new(path, FieldErrorKind::TooLong, format!("may not be more than {most} {noun}"))
    }

    /// "Too many".
    pub fn too_many(path: &Path, actual: usize, most: usize) -> Self {
        let shown = ShownValue(actual.to_string());
        let noun = if most == 1 { "item" } else { "items" };
        FieldError::new(path, FieldErrorKind::TooMany(shown), format!("must have at most {most} {noun}"))
    }

    /// "Invalid value" of the wrong type.
    pub fn type_invalid(path: &Path, value: impl Into<ShownValue>, detail: impl Into<String>) -> Self {
        FieldError::new(path, FieldErrorKind::TypeInvalid(value.into()), detail)
    }

    /// "Not found".
    pub fn not_found(path: &Path, value: impl Into<ShownValue>) -> Self {
        FieldError::new(path, FieldErrorKind::NotFound(value.into()), "")
    }

    /// "Internal error".
    pub fn internal(path: &Path, detail: impl Into<String>) -> Self {
        FieldError::new(path, FieldErrorKind::Internal, detail)
    }

    /// The machine-readable reason of a `StatusCause`.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::Invalid(_) => "FieldValueInvalid",
            FieldErrorKind::NotSupported(_) => "FieldValueNotSupported",
            FieldErrorKind::Duplicate(_) => "FieldValueDuplicate",
            FieldErrorKind::Forbidden => "FieldValueForbidden",
            FieldErrorKind::TooLong => "FieldValueTooLong",
            FieldErrorKind::TooMany(_) => "FieldValueTooMany",
            FieldErrorKind::TypeInvalid(_) => "FieldValueTypeInvalid",
            FieldErrorKind::NotFound(_) => "FieldValueNotFound",
            FieldErrorKind::Internal => "InternalError",
        }
    }

    /// The message without the path, as a `StatusCause` carries it.
    pub fn body(&self) -> String {
        let (title, value) = match &self.kind {
            FieldErrorKind::Required => ("Required value", None),
            FieldErrorKind::Invalid(value) | FieldErrorKind::TypeInvalid(value) => ("Invalid value", Some(value)),
            FieldErrorKind::NotSupported(value) => ("Unsupported value", Some(value)),
            FieldErrorKind::Duplicate(value) => ("Duplicate value", Some(value)),
            FieldErrorKind::Forbidden => ("Forbidden", None),
            FieldErrorKind::TooLong => ("Too long", None),
            FieldErrorKind::TooMany(value) => ("Too many", Some(value)),
            FieldErrorKind::NotFound(value) => ("Not found", Some(value)),
            FieldErrorKind::Internal => ("Internal error", None),
        };
        let mut text = title.to_owned();
        if let Some(ShownValue(shown)) = value {
            text.extend([": ", shown]);
        }
        if !self.detail.is_empty() {
            text.extend([": ", &self.detail]);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_in_kubernetes() {
        let path = Path::new("spec").child("names").index(2);
        let shown = |error: FieldError| error.to_string();
        assert_eq!(shown(FieldError::required(&path, "")), "spec.names[2]: Required value");
        assert_eq!(
            shown(FieldError::invalid(&path, "a\"b", "must be x")),
            "spec.names[2]: Invalid value: \"a\\\"b\": must be x"
        );
        assert_eq!(
            shown(FieldError::not_supported(&path, "C", &["A", "B"])),
            "spec.names[2]: Unsupported value: \"C\": supported values: \"A\", \"B\""
        );
        assert_eq!(shown(FieldError::too_many(&path, 3, 1)), "spec.names[2]: Too many: 3: must have at most 1 item");
        assert_eq!(Path::root().key("x").to_string(), "[x]");
        assert_eq!(Path::root().to_string(), "<nil>");
    }
}
