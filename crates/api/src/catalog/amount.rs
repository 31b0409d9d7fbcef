//! Quantities as profiles write them: the text is kept, and compared by value.

use std::borrow::Cow;
use std::fmt;

use allotment_machinery::quantity::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bounds;

/// An amount: `4`, `8Gi`. A number is read as its text. What was written is kept, also where it is no quantity.
#[derive(Clone, Debug)]
pub struct Amount {
    text: Box<str>,
    quantity: Option<Quantity>,
}

impl Amount {
    /// What a text says.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        let quantity = text.parse().ok();
        Amount { text, quantity }
    }

    /// What was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The amount; `None` where the text is none.
    pub fn quantity(&self) -> Option<Quantity> {
        self.quantity
    }

    /// Whether it is an amount of nothing.
    pub fn is_zero(&self) -> bool {
        self.quantity.is_some_and(|quantity| quantity.nanos() == 0)
    }
}

impl PartialEq for Amount {
    /// By value: `8Gi` is `8192Mi`; what is no quantity by its text.
    fn eq(&self, other: &Self) -> bool {
        match (self.quantity, other.quantity) {
            (Some(left), Some(right)) => left == right,
            (None, None) => self.text == other.text,
            _ => false,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text)
    }
}

/// Reads a string or a number.
struct Text;

impl Visitor<'_> for Text {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as 4 or 8Gi")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount::new(text))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount::new(number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount::new(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Amount, E> {
        Ok(Amount::new(number.to_string()))
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true, "maxLength": bounds::SHORT})
    }
}
