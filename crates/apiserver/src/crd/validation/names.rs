//! The group and the names of a definition.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::Map;
use allotment_machinery::names::{Faults, dns1035_label, dns1123_subdomain};

use crate::crd::spec;

/// Groups are domains with a dot: those without belong to Kubernetes.
pub(super) fn group(group: &str, path: &Path, errors: &mut Vec<FieldError>) {
    let path = path.child("group");
    let faults = dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(&path, ""));
    } else if !faults.is_empty() {
        errors.push(FieldError::invalid(&path, group, faults.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(&path, group, "should be a domain with at least one dot"));
    }
}

/// Names that a definition has to ask for.
pub(super) fn required(names: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    for name in ["plural", "singular", "kind", "listKind"] {
        if spec::text(names, name).is_empty() {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
}

/// How names have to look, those asked for and those accepted.
pub(super) fn check(names: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    for name in ["plural", "singular"] {
        label(spec::text(names, name), &path.child(name), errors);
    }
    for name in ["kind", "listKind"] {
        let value = spec::text(names, name);
        let faults = dns1035_label(&value.to_lowercase());
        if !value.is_empty() && !faults.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
            errors.push(FieldError::invalid(&path.child(name), value, detail));
        }
    }
    for name in ["shortNames", "categories"] {
        let path = path.child(name);
        for (index, value) in spec::texts(names, name).enumerate() {
            push(dns1035_label(value), value, &path.index(index), errors);
        }
    }
    let list_kind = spec::text(names, "listKind");
    if !list_kind.is_empty() && list_kind == spec::text(names, "kind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), list_kind, detail));
    }
}

/// Complains of `value` unless it is a DNS-1035 label or empty.
fn label(value: &str, path: &Path, errors: &mut Vec<FieldError>) {
    if !value.is_empty() {
        push(dns1035_label(value), value, path, errors);
    }
}

fn push(faults: Faults, value: &str, path: &Path, errors: &mut Vec<FieldError>) {
    if !faults.is_empty() {
        errors.push(FieldError::invalid(path, value, faults.join(",")));
    }
}
