//! The shape of a version's objects, as the generic handlers need it. Built-in kinds have one from the
//! generated type table, custom ones from their definition's structural schema.

use std::fmt::Debug;

use allotment_machinery::apply::TypeRef;
use allotment_machinery::field::FieldError;
use allotment_machinery::json::{Map, Value};

/// What decoding found besides the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Paths of fields that the schema does not know, as strict decoding names them: `spec.nope`,
    /// `spec.list[0].nope`. They have been dropped from the object.
    pub unknown: Vec<String>,
}

/// Why a value cannot be an object of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    /// What a person reads, in the words of Kubernetes' decoder:
    /// `json: cannot unmarshal number into Go struct field ConfigMap.data of type string`.
    pub message: String,
    /// Whether Kubernetes' decoder ends there. It goes on after a value of the wrong type, and tells of the first of
    /// them if nothing else is wrong; a value that a type reads by itself it cannot go on after.
    pub at_once: bool,
}

/// Why a strategic merge patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatchError {
    /// What a person reads.
    pub message: String,
}

/// The shape of one version of a kind. All pure.
pub trait Schema: Debug + Send + Sync + 'static {
    /// Brings what a client sent into shape, in place: drops what is unknown and says so, drops nulls
    /// where they mean absence, refuses (400) what a decoder of the kind's types refuses. `metadata` is
    /// decoded by the caller already. `apiVersion` and `kind` may be present and are left alone.
    fn decode(&self, object: &mut Map) -> Result<Decoded, DecodeError>;

    /// Makes nulls of empty lists and maps where the store keeps none, in place: after it was noted who
    /// wrote them.
    fn drop_empty(&self, _object: &mut Map) {}

    /// Gives numbers the type that they are stored with, in place; whether one that is not of metadata or
    /// status had another. Kubernetes takes that for a change of what is desired.
    fn settle_numbers(&self, _object: &mut Map) -> bool {
        false
    }

    /// Fills in the schema's defaults, in place, after decoding.
    fn default(&self, _object: &mut Map) {}

    /// Fills in the schema's defaults, in place, drops what is unknown, and leaves all else as it is, nulls too.
    fn default_applied(&self, object: &mut Map) {
        self.default(object);
    }

    /// Whether stored objects are not simply this version's: reads have to default and prune them since
    /// the schema may have changed after they were written, or two versions have different fields.
    /// Where false, stored bytes are answered as they are.
    fn reads_need_work(&self) -> bool {
        false
    }

    /// Makes of a stored object one of this version, in place, where [`Schema::reads_need_work`]: fills in
    /// defaults that came after it was written, drops what is unknown by now.
    fn read_stored(&self, object: &mut Map) {
        self.default(object);
    }

    /// What is wrong with the object as the schema sees it (422). `old` is the object before, for
    /// ratcheting and transition rules.
    fn validate(&self, _old: Option<&Map>, _object: &Map) -> Vec<FieldError> {
        Vec::new()
    }

    /// What is wrong with an object whose status alone is written (422).
    fn validate_status(&self, old: &Map, object: &Map) -> Vec<FieldError> {
        self.validate(Some(old), object)
    }

    /// What is wrong with the resources within an object and with lists whose elements have to differ (422), a
    /// part of [`Schema::validate`]: all that is said of an object of another kind.
    fn validate_parts(&self, _old: Option<&Map>, _object: &Map) -> Vec<FieldError> {
        Vec::new()
    }

    /// Which parts of objects are owned one by one, for server-side apply; `None` where there is no type.
    fn type_ref(&self) -> Option<TypeRef<'_>> {
        None
    }

    /// Applies a strategic merge patch; `None` where the kind has none (custom kinds answer 415).
    fn strategic_merge(&self, _object: &Map, _patch: &Map) -> Option<Result<Map, PatchError>> {
        None
    }

    /// What the documents of OpenAPI say of the kind's objects.
    fn published(&self) -> Published {
        Published::Nothing
    }

    /// Names what [`Schema::published`] gives: another text whenever that is something else.
    fn published_name(&self) -> String {
        String::new()
    }
}

/// What a kind publishes of its shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Published {
    /// Nothing: any object.
    Nothing,
    /// The message of this name in the table of built-in types.
    Message(&'static str),
    /// `openAPIV3Schema` of a definition, as it was given.
    Structural(Value),
}
