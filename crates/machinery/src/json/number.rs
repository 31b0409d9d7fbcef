//! A JSON number as its text.

/// A JSON number, kept as it was written. Two numbers are equal when their texts are; [`Number::as_f64`]
/// and [`Number::as_i64`] compare by value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    text: Box<str>,
}

impl Number {
    /// Takes over text that the JSON grammar accepts as a number.
    pub(super) fn from_grammar(text: &str) -> Self {
        Number { text: text.into() }
    }

    /// A number from text, if the JSON grammar accepts it.
    pub fn parse(text: &str) -> Option<Self> {
        match super::parse(text.as_bytes()) {
            Ok(super::Value::Number(number)) if number.as_str() == text => Some(number),
            _ => None,
        }
    }

    /// A number from a float; `None` for NaN and infinities, which JSON does not have.
    pub fn from_f64(value: f64) -> Option<Self> {
        value.is_finite().then(|| Number { text: format!("{value:?}").into() })
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is written without fraction and exponent.
    pub fn is_integer(&self) -> bool {
        !self.text.contains(['.', 'e', 'E'])
    }

    /// The value, if written as an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.text.parse().ok()
    }

    /// The nearest float.
    pub fn as_f64(&self) -> f64 {
        self.text.parse().unwrap_or(f64::NAN)
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Number { text: value.to_string().into() }
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Number { text: value.to_string().into() }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
