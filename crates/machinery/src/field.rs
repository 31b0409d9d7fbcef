//! Paths to fields and what can be wrong with one, with the texts that Kubernetes' API machinery uses
//! (`k8s.io/apimachinery/pkg/util/validation/field`).

use std::fmt;

use crate::gotext::go_quote;
use crate::json::Value;

/// The most faults of one request that are told: who has that many mends the first ones first. A body
/// made of faults alone must not grow into a far larger answer.
pub const MAX_ERRORS: usize = 100;

/// The longest value or text that a message shows, in bytes; of longer ones the beginning.
const MAX_SHOWN_BYTES: usize = 64 * 1024;

/// The longest path, in bytes: those of real objects have some hundred.
const MAX_PATH_BYTES: usize = 4 * 1024;

/// At most about `most` bytes of a text.
fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
        text.shrink_to_fit();
    }
    text
}

/// Adds the path of a fault that is only told, not refused, as long as there is room for it.
pub fn note(paths: &mut Vec<String>, path: impl FnOnce() -> String) {
    if paths.len() < MAX_ERRORS {
        paths.push(shortened(path(), MAX_PATH_BYTES));
    }
}

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
        Path::of(name.to_owned())
    }

    fn of(text: String) -> Self {
        Path { text: shortened(text, MAX_PATH_BYTES) }
    }

    /// The member `name` of this field.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.is_full() {
            return self.clone();
        }
        let mut text = self.text.clone();
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(name);
        Path::of(text)
    }

    /// The element at `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        if self.is_full() { self.clone() } else { Path::of(format!("{}[{index}]", self.text)) }
    }

    /// The value under `key` of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        if self.is_full() { self.clone() } else { Path::of(format!("{}[{key}]", self.text)) }
    }

    /// Whether nothing more fits in. Names come from clients, and a path is copied at every step.
    fn is_full(&self) -> bool {
        self.text.len() > MAX_PATH_BYTES
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
    /// The value is wrong, and the message does not show it.
    InvalidOmitted,
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
        ShownValue::raw(go_quote(text))
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
            other => ShownValue::raw(other.to_string()),
        }
    }
}

impl ShownValue {
    /// Text shown as it is, but for what is too long to be shown.
    pub fn raw(text: impl Into<String>) -> Self {
        ShownValue(shortened(text.into(), MAX_SHOWN_BYTES))
    }
}

impl FieldError {
    fn new(path: &Path, kind: FieldErrorKind, detail: impl Into<String>) -> Self {
        FieldError { path: path.clone(), kind, detail: shortened(detail.into(), MAX_SHOWN_BYTES) }
    }

    /// "Required value".
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        FieldError::new(path, FieldErrorKind::Required, detail)
    }

    /// "Invalid value".
    pub fn invalid(path: &Path, value: impl Into<ShownValue>, detail: impl Into<String>) -> Self {
        FieldError::new(path, FieldErrorKind::Invalid(value.into()), detail)
    }

    /// "Invalid value" that the message does not show.
    pub fn invalid_omitted(path: &Path, detail: impl Into<String>) -> Self {
        FieldError::new(path, FieldErrorKind::InvalidOmitted, detail)
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

    /// The same with words of its own.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        FieldError { detail: shortened(detail.into(), MAX_SHOWN_BYTES), ..self }
    }

    /// "Internal error".
    pub fn internal(path: &Path, detail: impl Into<String>) -> Self {
        FieldError::new(path, FieldErrorKind::Internal, detail)
    }

    /// The machine-readable reason of a `StatusCause`.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::Invalid(_) | FieldErrorKind::InvalidOmitted => "FieldValueInvalid",
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
            FieldErrorKind::InvalidOmitted => ("Invalid value", None),
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

    #[test]
    fn what_clients_make_long_is_shown_in_part() {
        let long = "é".repeat(1 << 20);
        let path = Path::new("data").key(&long).child(&long).index(1);
        assert!(path.to_string().len() < 5_000, "a path is {} bytes long", path.to_string().len());
        let error = FieldError::invalid(&path, long.as_str(), long.as_str()).to_string();
        assert!(error.len() < 150_000 && error.ends_with("é…"), "{} bytes", error.len());
        let mut paths = Vec::new();
        (0..1000).for_each(|_| note(&mut paths, || long.clone()));
        assert_eq!(paths.len(), MAX_ERRORS);
        assert!(paths.concat().len() < 500_000);
    }
}
