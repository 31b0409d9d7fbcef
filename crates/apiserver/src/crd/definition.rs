//! The hooks of `customresourcedefinitions.apiextensions.k8s.io`.

use std::collections::BTreeSet;

use allotment_machinery::field::FieldError;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_mut;
use allotment_machinery::schema::{normalise_numbers, unrecognized_formats};

use super::{spec, validation};
use crate::registry::{Operation, Strategy, Warnings};

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

    fn status_keeps_metadata(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Map) {
        default_spec(object);
        // Numbers in schemas are floats in Kubernetes, and defaults and the like what JSON makes of them.
        if let Some(spec) = object.object_mut("spec") {
            normalise_numbers(spec);
        }
    }

    fn prepare(&self, operation: Operation<'_>, object: &mut Map) {
        match operation {
            Operation::Create => {
                object.insert("status", Map::new());
                note_storage_version(object);
            }
            Operation::Update { old, subresource: "status" } => {
                keep(object, old, "spec");
                let stored = object.get("status").and_then(|status| status.get("storedVersions"));
                if stored.and_then(Value::as_array).is_none_or(<[Value]>::is_empty) {
                    note_storage_version(object);
                }
            }
            Operation::Update { old, .. } => {
                keep(object, old, "status");
                note_storage_version(object);
            }
        }
    }

    fn validate(&self, operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        match operation {
            Operation::Create => validation::validate_create(object),
            Operation::Update { subresource: "status", .. } => validation::validate_status(object),
            Operation::Update { old, .. } => validation::validate_update(object, old),
        }
    }

    /// Definitions wait for their instances, not for a grace period, and their deletion is no change of
    /// what they ask for.
    fn begin_deletion(&self, object: &mut Map) {
        let Some(metadata) = metadata_mut(object) else { return };
        metadata.remove("deletionGracePeriodSeconds");
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
            metadata.insert("generation", (generation - 1).max(1));
        }
    }

    fn warnings(&self, operation: Operation<'_>, object: &Map) -> Warnings {
        let before = match operation {
            Operation::Create => BTreeSet::new(),
            Operation::Update { subresource: "status", .. } => return Warnings::default(),
            Operation::Update { old, .. } => formats(old).into_iter().collect(),
        };
        let new = formats(object).into_iter().filter(|name| !before.contains(name));
        new.map(|name| format!("unrecognized format \"{name}\"")).collect()
    }
}

fn formats(definition: &Map) -> Vec<String> {
    spec::versions(definition).filter_map(|version| version.schema()).flat_map(unrecognized_formats).collect()
}

fn keep(object: &mut Map, old: &Map, member: &str) {
    match old.get(member) {
        Some(value) => object.insert(member, value.clone()),
        None => object.remove(member),
    };
}

/// What the types of a definition fill in (`k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1`).
fn default_spec(object: &mut Map) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
        spec.remove("preserveUnknownFields");
    }
    if let Some(names) = spec.object_mut("names") {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or("").to_owned();
        let absent = |names: &Map, name: &str| names.get(name).and_then(Value::as_str).is_none_or(str::is_empty);
        if !kind.is_empty() && absent(names, "singular") {
            names.insert("singular", kind.to_lowercase());
        }
        if !kind.is_empty() && absent(names, "listKind") {
            names.insert("listKind", format!("{kind}List"));
        }
    }
    if let Some(conversion) = spec.object_mut("conversion")
        && conversion.is_empty()
    {
        conversion.insert("strategy", "None");
    }
}

/// Adds the version that objects are written in from now on to those that they may be stored in.
fn note_storage_version(object: &mut Map) {
    let storage = spec::versions(object).find(|version| version.is_storage()).map(|version| version.name().to_owned());
    let (Some(storage), Some(status)) = (storage, object.object_mut("status")) else { return };
    let stored = status.get_or_insert_with("storedVersions", || Value::Array(Vec::new()));
    if let Value::Array(stored) = stored
        && !stored.iter().any(|name| name.as_str() == Some(&storage))
    {
        stored.push(storage.into());
    }
}
