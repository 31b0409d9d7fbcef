//! Field selectors: `metadata.name=a,status.phase!=Running`. Values may hold commas, equals signs and
//! backslashes behind a backslash.

use std::fmt;
use std::str::FromStr;

/// A selector of objects by the values of fields: all its terms have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldTerm {
    /// The name of the field: `metadata.name`.
    pub field: String,
    /// Whether the value must not be this one (`!=`).
    pub negated: bool,
    /// The value.
    pub value: String,
}

/// Why a text is no field selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A term without an operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole text.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash before a character that needs none, or before none.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A character that needs a backslash and has none; shown as its number, as Kubernetes does.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

impl FieldSelector {
    /// Selects the object of this name.
    pub fn of_name(name: &str) -> FieldSelector {
        let field = "metadata.name".to_owned();
        FieldSelector { terms: vec![FieldTerm { field, negated: false, value: name.to_owned() }] }
    }

    /// The terms, in order.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Whether it selects every object.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it selects an object whose fields have the values that `value_of` gives; fields that are
    /// absent have the empty value.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> &'a str) -> bool {
        self.terms.iter().all(|term| (value_of(&term.field) == term.value) != term.negated)
    }

    /// The one value that `field` must have, if the selector asks for one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let term = self.terms.iter().find(|term| term.field == field && !term.negated)?;
        Some(&term.value)
    }
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, FieldSelectorError> {
        // In the order of their text, as in Kubernetes, where it decides which error is told.
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, negated, value)) = split_term(part) else {
                return Err(FieldSelectorError::Term { selector: text.to_owned(), term: part.to_owned() });
            };
            terms.push(FieldTerm { field: field.to_owned(), negated, value: unescape_value(value)? });
        }
        Ok(FieldSelector { terms })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if term.negated { "!=" } else { "=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape_value(&term.value))?;
        }
        Ok(())
    }
}

/// Cuts at commas that have no backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Field, whether negated, and value as written, cut at the first operator.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let bytes = term.as_bytes();
    let index = (0..bytes.len()).find(|index| bytes[*index] == b'=' || bytes[*index..].starts_with(b"!="))?;
    let (field, rest) = term.split_at(index);
    match rest.strip_prefix("!=") {
        Some(value) => Some((field, true, value)),
        None => Some((field, false, rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?)),
    }
}

fn unescape_value(value: &str) -> Result<String, FieldSelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(next) => return Err(FieldSelectorError::Escape(format!("\\{next}"))),
                None => return Err(FieldSelectorError::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped(character)),
            plain => out.push(plain),
        }
    }
    Ok(out)
}

/// A value with a backslash before each character that needs one.
pub fn escape_value(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for character in value.chars() {
        if matches!(character, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(character);
    }
    out
}
