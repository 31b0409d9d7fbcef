//! The shape of a built-in kind's objects, from the type table.

use std::sync::OnceLock;

use allotment_machinery::apply::TypeRef;
use allotment_machinery::json::Map;
use allotment_machinery::patch::strategic;
use allotment_machinery::schema::NamedSchema;

use crate::builtin::types::defaults;
use crate::builtin::types::expand;
use crate::builtin::types::shape;
use crate::builtin::types::{self, Message};
use crate::registry::{DecodeError, Decoded, PatchError, Published, Schema};

/// The schema of one built-in kind.
#[derive(Debug)]
pub(crate) struct TypeSchema {
    name: &'static str,
    message: OnceLock<Option<&'static Message>>,
    expanded: OnceLock<NamedSchema>,
}

impl TypeSchema {
    /// The schema of the message `name`, as in `core/v1.ConfigMap`.
    pub(crate) fn new(name: &'static str) -> Self {
        TypeSchema { name, message: OnceLock::new(), expanded: OnceLock::new() }
    }

    fn expanded(&self) -> &NamedSchema {
        self.expanded.get_or_init(|| expand::schema(self.name))
    }

    fn message(&self) -> Result<&'static Message, DecodeError> {
        let found = *self.message.get_or_init(|| types::message(self.name));
        found.ok_or_else(|| DecodeError {
            message: format!("the type {} is not in the table", self.name),
            at_once: true,
        })
    }
}

impl Schema for TypeSchema {
    fn decode(&self, object: &mut Map) -> Result<Decoded, DecodeError> {
        shape::decode(self.message()?, object)
    }

    fn drop_empty(&self, object: &mut Map) {
        if let Ok(message) = self.message() {
            shape::drop_empty(message, object);
        }
    }

    fn default(&self, object: &mut Map) {
        if let Ok(message) = self.message() {
            defaults::apply(message, object);
        }
    }

    fn type_ref(&self) -> Option<TypeRef<'_>> {
        Some(TypeRef::of(self.expanded().get()))
    }

    fn strategic_merge(&self, object: &Map, patch: &Map) -> Option<Result<Map, PatchError>> {
        let merged = strategic::apply(object.clone(), patch.clone(), Some(self.expanded().get()));
        Some(merged.map_err(|error| PatchError { message: error.to_string() }))
    }

    fn published(&self) -> Published {
        Published::Message(self.name)
    }

    fn published_name(&self) -> String {
        self.name.to_owned()
    }
}
