//! The shape of a built-in kind's objects, from the type table.

use std::sync::OnceLock;

use allotment_machinery::json::Map;

use super::shape;
use super::types::{self, Message};
use crate::registry::{DecodeError, Decoded, Schema};

/// The schema of one built-in kind.
#[derive(Debug)]
pub(super) struct TypeSchema {
    name: &'static str,
    message: OnceLock<Option<&'static Message>>,
}

impl TypeSchema {
    /// The schema of the message `name`, as in `core/v1.ConfigMap`.
    pub(super) fn new(name: &'static str) -> Self {
        TypeSchema { name, message: OnceLock::new() }
    }

    fn message(&self) -> Result<&'static Message, DecodeError> {
        let found = *self.message.get_or_init(|| types::message(self.name));
        found.ok_or_else(|| DecodeError { message: format!("the type {} is not in the table", self.name) })
    }
}

impl Schema for TypeSchema {
    fn decode(&self, object: &mut Map) -> Result<Decoded, DecodeError> {
        shape::decode(self.message()?, object)
    }
}
