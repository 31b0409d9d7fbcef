//! From a definition to a row of the registry.

use std::sync::Arc;

use allotment_machinery::field::FieldError;
use allotment_machinery::json::Map;
use allotment_machinery::schema::Interner;

use crate::registry::{Kind, Strategy};

/// The hooks of kinds that definitions make.
#[derive(Debug)]
pub struct CustomStrategy;

impl Strategy for CustomStrategy {
    fn counts_generation(&self) -> bool {
        true
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }
}

/// The row that a definition makes, by its accepted names. Schemas are shared through `interner`.
///
/// # Errors
/// What is wrong with the definition; none if it was validated before.
pub fn kind_from_definition(_definition: &Map, _interner: &Interner) -> Result<Kind, Vec<FieldError>> {
    Ok(Kind {
        group: String::new(),
        kind: String::new(),
        list_kind: String::new(),
        plural: String::new(),
        singular: String::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        custom: true,
        versions: Vec::new(),
        strategy: Arc::new(CustomStrategy),
        stored_as: None,
        connect: None,
    })
}
