//! The rules of `metadata` that hold for every kind (`k8s.io/apimachinery/pkg/api/validation`).
//!
//! Runs on every write: reads the JSON as it is and allocates only when something is wrong. That members
//! have the right JSON types is the decoder's business; a member of another type counts as absent here,
//! as `null` does. Which writes run the rules, and what a server sets itself, is left to the registry.

use std::collections::BTreeSet;

use crate::field::{FieldError, MAX_ERRORS, Path, ShownValue};
use crate::gotext::{go_quote, is_printable};
use crate::json::{Map, Value, write_string};
use crate::names::{self, NameRule};
use crate::time;

/// The most bytes that the keys and values of all annotations of an object may have together.
pub const TOTAL_ANNOTATION_SIZE_LIMIT: usize = 256 * 1024;
/// The longest name of a field manager, in bytes.
pub const FIELD_MANAGER_MAX_LENGTH: usize = 128;
/// The longest name of a subresource in `managedFields`, in bytes.
pub const SUBRESOURCE_MAX_LENGTH: usize = 256;
/// The finalizer by which deletion leaves dependents without an owner.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// The finalizer by which deletion waits for dependents.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

const IMMUTABLE: &str = "field is immutable";

/// What is wrong with the metadata of an object to be created, names being generated already.
pub fn validate_create(metadata: &Map, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate_name = text(metadata, "generateName");
    if !generate_name.is_empty() {
        invalid(&mut errors, rule.check_generate_name(generate_name), generate_name, || at("generateName"));
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        errors.push(FieldError::required(&at("name"), "name or generateName is required"));
    } else {
        invalid(&mut errors, rule.check(name), name, || at("name"));
    }
    let namespace = text(metadata, "namespace");
    if namespaced && namespace.is_empty() {
        errors.push(FieldError::required(&at("namespace"), ""));
    } else if namespaced {
        invalid(&mut errors, names::dns1123_label(namespace), namespace, || at("namespace"));
    } else if !namespace.is_empty() {
        errors.push(FieldError::forbidden(&at("namespace"), "not allowed on this type"));
    }
    let generation = integer(metadata, "generation");
    if generation < 0 {
        errors.push(FieldError::invalid(&at("generation"), generation, "must be greater than or equal to 0"));
    }
    common(metadata, &mut errors);
    if let Some(finalizers) = list(metadata, "finalizers") {
        check_finalizers(finalizers, &mut errors);
    }
    managed_fields(metadata, &mut errors);
    errors
}

/// What is wrong with the metadata of an object that is to take the place of `old`. Fields that the
/// server keeps of its own accord have to be set from `old` before.
pub fn validate_update(new: &Map, old: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if is_set(old, "deletionTimestamp") {
        no_new_finalizers(new, old, &mut errors);
    }
    if text(new, "resourceVersion").is_empty() {
        errors.push(FieldError::invalid(&at("resourceVersion"), "", "must be specified for an update"));
    }
    let generation = integer(new, "generation");
    if generation < integer(old, "generation") {
        errors.push(FieldError::invalid(&at("generation"), generation, "must not be decremented"));
    }
    for field in ["name", "namespace", "uid"] {
        if text(new, field) != text(old, field) {
            errors.push(FieldError::invalid(&at(field), text(new, field), IMMUTABLE));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if !same_instant(present(new, field), present(old, field)) {
            errors.push(FieldError::invalid(&at(field), shown_or_null(present(new, field)), IMMUTABLE));
        }
    }
    let field = "deletionGracePeriodSeconds";
    if present(new, field) != present(old, field) {
        errors.push(FieldError::invalid(&at(field), shown_or_null(present(new, field)), IMMUTABLE));
    }
    common(new, &mut errors);
    managed_fields(new, &mut errors);
    errors
}

/// What is wrong with metadata whatever it was before: labels, annotations, owners, finalizers, managers.
pub fn validate_always(metadata: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    common(metadata, &mut errors);
    if let Some(finalizers) = list(metadata, "finalizers") {
        check_finalizers(finalizers, &mut errors);
    }
    managed_fields(metadata, &mut errors);
    errors
}

/// What the kinds of the core group ask of finalizers beyond the common rules: a name without a domain
/// has to be a standard one.
pub fn validate_core_finalizers(metadata: &Map) -> Vec<FieldError> {
    const STANDARD: [&str; 3] = ["kubernetes", FINALIZER_ORPHAN, FINALIZER_FOREGROUND];
    let finalizers = list(metadata, "finalizers").unwrap_or_default();
    let bare = |(_, name): &(usize, &str)| !name.contains('/') && !STANDARD.contains(name);
    let names = finalizers.iter().enumerate().map(|(index, value)| (index, value.as_str().unwrap_or_default()));
    names
        .filter(bare)
        .map(|(index, name)| {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            FieldError::invalid(&at("finalizers").index(index), name, detail)
        })
        .collect()
}

/// What is wrong with a map of labels at `path`.
pub fn validate_labels(labels: &Map, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_labels(labels, &mut errors, || path.clone());
    errors
}

/// What is wrong with a map of annotations at `path`.
pub fn validate_annotations(annotations: &Map, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_annotations(annotations, &mut errors, || path.clone());
    errors
}

/// What is wrong with the name of a field manager at `path`, be it in `managedFields` or in a request.
pub fn validate_field_manager(manager: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_field_manager(manager, &mut errors, || path.clone());
    errors
}

/// The rules that creating and updating have in common, but for finalizers and managed fields.
fn common(metadata: &Map, errors: &mut Vec<FieldError>) {
    if let Some(labels) = metadata.get("labels").and_then(Value::as_object) {
        check_labels(labels, errors, || at("labels"));
    }
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_object) {
        check_annotations(annotations, errors, || at("annotations"));
    }
    if let Some(owners) = list(metadata, "ownerReferences") {
        check_owners(owners, errors);
    }
}

fn check_labels(labels: &Map, errors: &mut Vec<FieldError>, path: impl Fn() -> Path) {
    for (key, value) in labels.iter() {
        invalid(errors, names::qualified_name(key), key, &path);
        let value = value.as_str().unwrap_or_default();
        invalid(errors, names::label_value(value), value, &path);
    }
}

fn check_annotations(annotations: &Map, errors: &mut Vec<FieldError>, path: impl Fn() -> Path) {
    let mut size = 0;
    for (key, value) in annotations.iter() {
        invalid(errors, names::annotation_key(key), key, &path);
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > TOTAL_ANNOTATION_SIZE_LIMIT {
        errors.push(FieldError::too_long(&path(), TOTAL_ANNOTATION_SIZE_LIMIT));
    }
}

fn check_owners(owners: &[Value], errors: &mut Vec<FieldError>) {
    let mut controller: Option<&Map> = None;
    let most = errors.len() + MAX_ERRORS;
    for owner in owners.iter().filter_map(Value::as_object) {
        // Each of these errors shows all owners: many of both would be their product.
        if errors.len() >= most {
            return;
        }
        check_owner(owner, errors);
        if owner.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let Some(first) = controller else {
            controller = Some(owner);
            continue;
        };
        let named = |owner: &Map| [text(owner, "kind"), "/", text(owner, "name")].concat();
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            named(first),
            named(owner)
        );
        let all: Vec<String> = owners.iter().filter_map(Value::as_object).map(shown_owner).collect();
        let shown = ShownValue::raw(format!("[{}]", all.join(",")));
        errors.push(FieldError::invalid(&at("ownerReferences"), shown, detail));
    }
}

fn check_owner(owner: &Map, errors: &mut Vec<FieldError>) {
    let api_version = text(owner, "apiVersion");
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(both) => both,
    };
    if version.is_empty() {
        let path = at("ownerReferences").child("apiVersion");
        errors.push(FieldError::invalid(&path, api_version, "version must not be empty"));
    }
    for field in ["kind", "name", "uid"] {
        if text(owner, field).is_empty() {
            errors.push(FieldError::invalid(&at("ownerReferences").child(field), "", "must not be empty"));
        }
    }
    // Events are many and short-lived; nothing may hang on one.
    if (group, version, text(owner, "kind")) == ("", "v1", "Event") {
        let shown = ShownValue::raw(shown_owner(owner));
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid(&at("ownerReferences"), shown, detail));
    }
}

/// An owner reference as JSON with its members in the order in which Kubernetes writes them.
fn shown_owner(owner: &Map) -> String {
    let mut out = b"{".to_vec();
    for (field, always) in [
        ("apiVersion", true),
        ("kind", true),
        ("name", true),
        ("uid", true),
        ("controller", false),
        ("blockOwnerDeletion", false),
    ] {
        if !always && !is_set(owner, field) {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        write_string(field, &mut out);
        out.push(b':');
        match owner.get(field) {
            Some(Value::Bool(value)) => out.extend_from_slice(value.to_string().as_bytes()),
            _ => write_string(text(owner, field), &mut out),
        }
    }
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}

fn check_finalizers(finalizers: &[Value], errors: &mut Vec<FieldError>) {
    let has = |wanted: &str| finalizers.iter().any(|name| name.as_str() == Some(wanted));
    for name in finalizers.iter().map(|name| name.as_str().unwrap_or_default()) {
        invalid(errors, names::qualified_name(name), name, || at("finalizers"));
    }
    if has(FINALIZER_ORPHAN) && has(FINALIZER_FOREGROUND) {
        let shown = ShownValue::from(&Value::Array(finalizers.to_vec()));
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(&at("finalizers"), shown, detail));
    }
}

fn no_new_finalizers(new: &Map, old: &Map, errors: &mut Vec<FieldError>) {
    let names = |metadata: &'_ Map| -> BTreeSet<String> {
        let names = list(metadata, "finalizers").unwrap_or_default().iter().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    let held = names(old);
    let wanted = names(new);
    let added: Vec<&String> = wanted.difference(&held).collect();
    if !added.is_empty() {
        let quoted: Vec<String> = added.into_iter().map(|name| go_quote(name)).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            quoted.join(", ")
        );
        errors.push(FieldError::forbidden(&at("finalizers"), detail));
    }
}

fn managed_fields(metadata: &Map, errors: &mut Vec<FieldError>) {
    let entries = list(metadata, "managedFields").unwrap_or_default();
    for (index, entry) in entries.iter().enumerate() {
        let Some(entry) = entry.as_object() else { continue };
        // Each may show its manager many times over.
        if errors.len() >= MAX_ERRORS {
            return;
        }
        let path = || at("managedFields").index(index);
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            errors.push(FieldError::invalid(&path().child("operation"), operation, "must be `Apply` or `Update`"));
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(FieldError::invalid(&path().child("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        check_field_manager(text(entry, "manager"), errors, || path().child("manager"));
        if text(entry, "subresource").len() > SUBRESOURCE_MAX_LENGTH {
            errors.push(FieldError::too_long(&path().child("subresource"), SUBRESOURCE_MAX_LENGTH));
        }
    }
}

fn check_field_manager(manager: &str, errors: &mut Vec<FieldError>, path: impl Fn() -> Path) {
    if manager.len() > FIELD_MANAGER_MAX_LENGTH {
        errors.push(FieldError::too_long(&path(), FIELD_MANAGER_MAX_LENGTH));
    }
    let unprintable = manager.char_indices().filter(|(_, character)| !is_printable(*character));
    for (index, character) in unprintable.take(MAX_ERRORS) {
        let detail = format!("invalid character U+{:04X} (at position {index})", u32::from(character));
        errors.push(FieldError::invalid(&path(), manager, detail));
    }
}

fn same_instant(left: Option<&Value>, right: Option<&Value>) -> bool {
    if left == right {
        return true;
    }
    match (left.and_then(Value::as_str), right.and_then(Value::as_str)) {
        (Some(left), Some(right)) => match (time::parse(left), time::parse(right)) {
            (Ok(left), Ok(right)) => left.as_second() == right.as_second(),
            _ => false,
        },
        _ => false,
    }
}

fn at(field: &str) -> Path {
    Path::new("metadata").child(field)
}

fn invalid(errors: &mut Vec<FieldError>, faults: names::Faults, value: &str, path: impl Fn() -> Path) {
    errors.extend(faults.into_iter().map(|fault| FieldError::invalid(&path(), value, fault)));
}

fn shown_or_null(value: Option<&Value>) -> ShownValue {
    ShownValue::from(value.unwrap_or(&Value::Null))
}

fn present<'a>(map: &'a Map, field: &str) -> Option<&'a Value> {
    map.get(field).filter(|value| !value.is_null())
}

fn is_set(map: &Map, field: &str) -> bool {
    present(map, field).is_some()
}

fn text<'a>(map: &'a Map, field: &str) -> &'a str {
    map.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn integer(map: &Map, field: &str) -> i64 {
    map.get(field).and_then(Value::as_i64).unwrap_or_default()
}

fn list<'a>(map: &'a Map, field: &str) -> Option<&'a [Value]> {
    map.get(field).and_then(Value::as_array)
}

#[cfg(test)]
mod tests;
