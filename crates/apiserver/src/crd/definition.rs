//! The hooks of `customresourcedefinitions.apiextensions.k8s.io`.

use allotment_machinery::field::FieldError;
use allotment_machinery::json::Map;

use crate::registry::{Operation, Strategy};

/// The hooks of the kind of definitions.
#[derive(Debug, Default)]
pub struct DefinitionStrategy;

impl Strategy for DefinitionStrategy {
    fn counts_generation(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn validate(&self, _operation: Operation<'_>, _object: &Map) -> Vec<FieldError> {
        Vec::new()
    }
}
