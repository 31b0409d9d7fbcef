//! The versions of a definition, and the parts that they have in common.

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names::dns1035_label;
use allotment_machinery::schema::{Schema, read_structural};

use super::{columns, selectable, shown};
use crate::crd::spec::{self, VersionSpec};

/// Checks `spec.versions` of a definition whose `spec` is at `path`.
pub(super) fn check(definition: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    let versions: Vec<VersionSpec<'_>> = spec::versions(definition).collect();
    let versions_path = path.child("versions");
    // Kubernetes keeps the first name a second time, under the field that there was before there were several.
    if let Some(first) = versions.first().filter(|first| !first.name().is_empty()) {
        check_label(first.name(), &path.child("version"), errors);
    }
    for (index, version) in versions.iter().enumerate() {
        let path = versions_path.index(index);
        check_label(version.name(), &path.child("name"), errors);
        check_deprecation(*version, &path, errors);
        if version.schema().is_none() {
            errors.push(FieldError::required(&path.child("schema").child("openAPIV3Schema"), ""));
        }
    }
    let shown = || shown::versions(&versions, |part| is_shared(&versions, part));
    let unique = (1..versions.len()).all(|at| versions[..at].iter().all(|other| other.name() != versions[at].name()));
    if !unique {
        errors.push(FieldError::invalid(&versions_path, shown(), "must contain unique version names"));
    }
    let given = definition.get("spec").and_then(|spec| spec.get("versions")).is_some_and(|given| !given.is_null());
    if versions.iter().filter(|version| version.is_storage()).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        let shown = if given { shown() } else { ShownValue::raw("null".to_owned()) };
        errors.push(FieldError::invalid(&versions_path, shown, detail));
    }
    let schemas = check_schemas(&versions, path, errors);
    for (version, path) in places(&versions, "additionalPrinterColumns", path) {
        let path = path.child("additionalPrinterColumns");
        for (index, column) in spec::list(version.0, "additionalPrinterColumns").iter().enumerate() {
            if let Some(column) = column.as_object() {
                columns::check(column, &path.index(index), errors);
            }
        }
    }
    for (version, path) in places(&versions, "subresources", path) {
        if let Some(subresources) = version.0.get("subresources") {
            columns::check_subresources(subresources, &path.child("subresources"), errors);
        }
    }
    for (version, path) in places(&versions, "selectableFields", path) {
        let at = versions.iter().position(|other| std::ptr::eq(other.0, version.0));
        let schema = at.and_then(|at| schemas.get(at)).and_then(Option::as_ref);
        let fields = spec::list(version.0, "selectableFields");
        selectable::check(fields, schema, &path.child("selectableFields"), errors);
    }
}

/// Versions that a part has to be checked for, each with the path that it is told of under: the first
/// one, under `spec`, where all have the same.
fn places<'a>(versions: &[VersionSpec<'a>], part: &str, path: &Path) -> Vec<(VersionSpec<'a>, Path)> {
    let Some(first) = versions.first() else { return Vec::new() };
    if is_shared(versions, part) {
        return vec![(*first, path.clone())];
    }
    let versions_path = path.child("versions");
    versions.iter().enumerate().map(|(index, version)| (*version, versions_path.index(index))).collect()
}

/// Whether all versions say the same of a part.
fn is_shared(versions: &[VersionSpec<'_>], part: &str) -> bool {
    versions.windows(2).all(|pair| matches!(pair, [left, right] if left.part(part) == right.part(part)))
}

/// Checks the schema of each version; returns those that can be read, in the order of the versions.
fn check_schemas(versions: &[VersionSpec<'_>], path: &Path, errors: &mut Vec<FieldError>) -> Vec<Option<Schema>> {
    let shared = places(versions, "schema", path).len() == 1;
    let mut schemas = Vec::with_capacity(versions.len());
    for (index, version) in versions.iter().enumerate() {
        let Some(schema) = version.schema() else {
            schemas.push(None);
            continue;
        };
        let at = if shared { path.child("validation") } else { path.child("versions").index(index).child("schema") };
        let at = at.child("openAPIV3Schema");
        let first = index == 0 || !shared;
        if version.has_status() && first {
            errors.extend(check_root(schema, &at));
        }
        let (schema, found) = read_structural(schema, &at);
        schemas.push(schema);
        if first {
            errors.extend(found);
        }
    }
    schemas
}

/// Keywords of the root that are kept when the schema of the status is looked at by itself.
const AT_ROOT: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

/// What the root of a schema may not say of which the schema of the status is a part. Complaints come field by
/// field, and the first is the last: the type behind what names the schema, before all else.
fn check_root(schema: &Value, path: &Path) -> Option<FieldError> {
    let map = schema.as_object()?;
    let kind = spec::text(map, "type");
    let named = ["id", "$schema", "$ref"].iter().any(|name| !spec::text(map, name).is_empty());
    if !matches!(kind, "" | "object") && !named {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                      enabled";
        return Some(FieldError::invalid(&path.child("type"), kind, detail));
    }
    let says = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    let other = map.iter().any(|(name, value)| says(value) && !AT_ROOT.iter().any(|(allowed, _)| *allowed == name));
    other.then(|| {
        let names: Vec<&str> = AT_ROOT.iter().map(|(_, name)| *name).collect();
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            names.join(" ")
        );
        FieldError::invalid(path, shown::schema(schema), detail)
    })
}

fn check_label(name: &str, path: &Path, errors: &mut Vec<FieldError>) {
    let faults = dns1035_label(name);
    if !faults.is_empty() {
        errors.push(FieldError::invalid(path, name, faults.join(",")));
    }
}

fn check_deprecation(version: VersionSpec<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.0.get("deprecationWarning").and_then(Value::as_str) else { return };
    let path = path.child("deprecationWarning");
    let mut complain = |detail: String| errors.push(FieldError::invalid(&path, warning, detail));
    if !version.flag("deprecated") {
        return complain("can only be set for deprecated versions".to_owned());
    }
    if warning.len() > 256 {
        complain("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        complain("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, character)| character.is_control()) {
        complain(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}
