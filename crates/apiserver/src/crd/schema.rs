//! The shape of a custom resource, as the generic handlers ask for it.

use std::sync::Arc;

use allotment_machinery::field::FieldError;
use allotment_machinery::json::Map;
use allotment_machinery::schema::{self, check_embedded_metadata, normalise_numbers, prune};

use crate::registry::{DecodeError, Decoded, Schema};

/// The shape of one version of a kind that a definition makes.
#[derive(Debug)]
pub(super) struct CustomSchema {
    /// Of this version.
    pub(super) own: Arc<schema::Schema>,
    /// Of the version that objects are written in.
    pub(super) storage: Arc<schema::Schema>,
    /// Whether objects may have been written under another schema.
    pub(super) changed: bool,
}

impl Schema for CustomSchema {
    fn decode(&self, object: &mut Map) -> Result<Decoded, DecodeError> {
        check_embedded_metadata(&self.own, object).map_err(|error| DecodeError { message: error.to_string() })?;
        normalise_numbers(object);
        Ok(Decoded { unknown: prune(&self.own, object) })
    }

    fn default(&self, object: &mut Map) {
        schema::apply_defaults(&self.own, object);
    }

    fn reads_need_work(&self) -> bool {
        self.changed || !Arc::ptr_eq(&self.own, &self.storage)
    }

    fn validate(&self, old: Option<&Map>, object: &Map) -> Vec<FieldError> {
        match old {
            Some(old) => schema::validate_update(&self.own, object, old),
            None => schema::validate(&self.own, object),
        }
    }
}
