//! Whether a definition is right (`k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`).
//!
//! Kubernetes keeps parts that all versions have in common apart from the versions, and names them so in
//! its messages: `spec.validation.openAPIV3Schema` is the schema that all versions share.

mod columns;
mod names;
mod selectable;
mod shown;
mod versions;

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;

use super::{spec, status};

/// What is wrong with a definition to be created.
pub(super) fn validate_create(definition: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    own_name(definition, &mut errors);
    common(definition, &mut errors);
    errors.extend(approval(definition, None));
    errors
}

/// What is wrong with a definition that is to take the place of `old`.
pub(super) fn validate_update(definition: &Map, old: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    common(definition, &mut errors);
    immutable(definition, old, &mut errors);
    errors.extend(approval(definition, Some(old)));
    errors
}

/// What is wrong with the status of a definition.
pub(super) fn validate_status(definition: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("status").child("acceptedNames");
    names::check(spec::map(spec::map(definition, "status"), "acceptedNames"), &path, &mut errors);
    errors
}

fn own_name(definition: &Map, errors: &mut Vec<FieldError>) {
    let name = metadata_str(definition, "name").unwrap_or("");
    let expected = format!("{}.{}", spec::text(spec::names(definition), "plural"), spec::group(definition));
    for (field, name) in [("generateName", metadata_str(definition, "generateName").unwrap_or("")), ("name", name)] {
        if !name.is_empty() && name != expected {
            let path = Path::new("metadata").child(field);
            errors.push(FieldError::invalid(&path, name, "must be spec.names.plural+\".\"+spec.group"));
        }
    }
}

fn common(definition: &Map, errors: &mut Vec<FieldError>) {
    let of = spec::of(definition);
    let path = Path::new("spec");
    names::group(spec::text(of, "group"), &path, errors);
    one_of(&path.child("scope"), spec::text(of, "scope"), &["Cluster", "Namespaced"], errors);
    names::required(spec::names(definition), &path.child("names"), errors);
    names::check(spec::names(definition), &path.child("names"), errors);
    versions::check(definition, &path, errors);
    conversion(of, &path.child("conversion"), errors);
    errors.extend(validate_status(definition));
    stored_versions(definition, errors);
    if of.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                      instead";
        let path = path.child("preserveUnknownFields");
        errors.push(FieldError::invalid(&path, &Value::Bool(true), detail));
        let mut schemas =
            spec::list(of, "versions").iter().filter_map(|version| version.at(&["schema", "openAPIV3Schema"]));
        if schemas.any(has_default) {
            let detail = "must be false in order to use defaults in the schema";
            errors.push(FieldError::invalid(&path, &Value::Bool(true), detail));
        }
    }
}

/// Whether a schema, or one anywhere in it, has a default.
fn has_default(schema: &Value) -> bool {
    const ONE: [&str; 4] = ["not", "items", "additionalProperties", "additionalItems"];
    const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "items"];
    const NAMED: [&str; 4] = ["properties", "patternProperties", "definitions", "dependencies"];
    let Some(schema) = schema.as_object() else { return false };
    let one = ONE.iter().filter_map(|name| schema.get(name));
    let lists = LISTS.iter().flat_map(|name| spec::list(schema, name));
    let maps = NAMED.iter().filter_map(|name| schema.get(name)?.as_object());
    schema.get("default").is_some_and(|default| !default.is_null())
        || one.chain(lists).chain(maps.flat_map(|map| map.iter().map(|(_, schema)| schema))).any(has_default)
}

fn one_of(path: &Path, value: &str, supported: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, value, supported));
    }
}

fn conversion(of: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(conversion) = of.get("conversion").and_then(Value::as_object) else { return };
    let strategy = spec::text(conversion, "strategy");
    one_of(&path.child("strategy"), strategy, &["None", "Webhook"], errors);
    let webhook = conversion.get("webhook").and_then(Value::as_object);
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        for (member, shown) in
            [("clientConfig", "webhookClientConfig"), ("conversionReviewVersions", "conversionReviewVersions")]
        {
            let is_set = |value: &Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
            if webhook.and_then(|webhook| webhook.get(member)).is_some_and(is_set) {
                errors.push(FieldError::forbidden(&path.child(shown), detail));
            }
        }
        return;
    }
    let before = errors.len();
    if webhook.is_none_or(|webhook| webhook.get("clientConfig").is_none_or(Value::is_null)) {
        let path = path.child("webhookClientConfig");
        errors.push(FieldError::required(&path, "required when strategy is set to Webhook"));
    }
    if webhook.is_none_or(|webhook| spec::list(webhook, "conversionReviewVersions").is_empty()) {
        errors.push(FieldError::required(&path.child("conversionReviewVersions"), ""));
    }
    if errors.len() == before {
        let detail = "this server converts between versions of one schema only: use the strategy None";
        errors.push(FieldError::forbidden(&path.child("strategy"), detail));
    }
}

fn stored_versions(definition: &Map, errors: &mut Vec<FieldError>) {
    let path = Path::new("status").child("storedVersions");
    let status = spec::map(definition, "status");
    let stored: Vec<&str> = spec::texts(status, "storedVersions").collect();
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        return errors.push(FieldError::invalid(&path, ShownValue::raw("null"), detail));
    }
    for version in spec::versions(definition).filter(|version| version.is_storage()) {
        let name = version.name();
        if !stored.contains(&name) {
            let shown = status.get("storedVersions").unwrap_or(&Value::Null);
            errors.push(FieldError::invalid(&path, shown, format!("must have the storage version {name}")));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !spec::versions(definition).any(|version| version.name() == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(&path.index(index), *name, detail));
        }
    }
}

fn immutable(definition: &Map, old: &Map, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let (new_names, old_names) = (spec::names(definition), spec::names(old));
    let mut fields = vec![
        (path.child("group"), spec::group(definition), spec::group(old)),
        (path.child("names").child("plural"), spec::text(new_names, "plural"), spec::text(old_names, "plural")),
    ];
    if status::is_established(old) {
        let scopes = (spec::text(spec::of(definition), "scope"), spec::text(spec::of(old), "scope"));
        fields.push((path.child("scope"), scopes.0, scopes.1));
        let kinds = (spec::text(new_names, "kind"), spec::text(old_names, "kind"));
        fields.push((path.child("names").child("kind"), kinds.0, kinds.1));
    }
    for (path, new, old) in fields {
        if new != old {
            errors.push(FieldError::invalid(&path, new, "field is immutable"));
        }
    }
}

/// Groups of the Kubernetes community need an approval, unless nothing about it has changed.
fn approval(definition: &Map, old: Option<&Map>) -> Option<FieldError> {
    let state = status::Approval::of(definition);
    if old.is_some_and(|old| status::Approval::of(old).same_state(&state)) {
        return None;
    }
    let path = Path::new("metadata").child("annotations").key(status::APPROVAL_ANNOTATION);
    match state {
        status::Approval::Missing(reason) => Some(FieldError::required(&path, reason)),
        status::Approval::Malformed(annotation, reason) => Some(FieldError::invalid(&path, annotation, reason)),
        status::Approval::NotNeeded | status::Approval::Given(_) | status::Approval::Waived(_) => None,
    }
}
