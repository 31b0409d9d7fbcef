//! Annotations that mean something to pods: profiles of old, what a pod's deletion costs, pods that mirror a node's
//! own (`k8s.io/kubernetes/pkg/apis/core/validation`).

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};

use crate::builtin::rules::Errors;
use crate::builtin::rules::look::{object, text};

use super::containers::visit;
use super::mounts::descending;

/// Set on pods that a node has of its own.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
pub(crate) const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(crate) const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const LOCAL: &str = "localhost/";

/// The annotations of `owner`, a pod or a template.
pub(crate) fn of(owner: &Map) -> Option<&Map> {
    object(owner, "metadata").and_then(|metadata| object(metadata, "annotations"))
}

/// What the annotations of a pod or template with `spec` have to be.
pub(crate) fn validate(annotations: &Map, spec: &Map, path: &Path, errors: &mut Errors) {
    let value = |key: &str| annotations.get(key).map(|value| value.as_str().unwrap_or_default());
    if let Some(mirror) = value(MIRROR).filter(|_| text(spec, "nodeName").is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(&path.key(MIRROR), mirror, detail));
    }
    if let Some(cost) = value(DELETION_COST).filter(|cost| !is_number(cost)) {
        errors.push(FieldError::invalid(&path.key(DELETION_COST), cost, "must be a 32bit integer"));
    }
    for (key, profile) in annotations.iter().filter_map(|(key, value)| Some((key, value.as_str()?))) {
        if key == SECCOMP_OF_POD || key.starts_with(SECCOMP_OF_CONTAINER) {
            seccomp(profile, &path.child(key), errors);
        }
        if let Some(name) = key.strip_prefix(APP_ARMOR) {
            if visit(spec, path).all(|(_, container)| text(container, "name") != name) {
                errors.push(FieldError::invalid(&path.key(key), name, "container not found"));
            }
            if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with(LOCAL) {
                let detail = format!("invalid AppArmor profile name: {profile:?}");
                errors.push(FieldError::invalid(&path.key(key), profile, detail));
            }
        }
    }
}

/// A number of 32 bits, written plainly.
fn is_number(text: &str) -> bool {
    let plainly = match text.as_bytes() {
        [b'0'] => true,
        [first, ..] => matches!(first, b'-' | b'1'..=b'9'),
        [] => false,
    };
    plainly && text.parse::<i32>().is_ok()
}

fn seccomp(profile: &str, path: &Path, errors: &mut Errors) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        profile => match profile.strip_prefix(LOCAL) {
            Some(file) => descending(file, path, errors),
            None => errors.push(FieldError::invalid(path, profile, "must be a valid seccomp profile")),
        },
    }
}

/// Some annotations of a pod are there from its beginning or not at all.
pub(crate) fn validate_change(old: Option<&Map>, new: Option<&Map>, path: &Path, errors: &mut Errors) {
    let empty = Map::new();
    let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
    let kind = |key: &str| match key {
        key if key.starts_with(APP_ARMOR) => Some("AppArmor annotations"),
        MIRROR => Some("mirror pod annotation"),
        _ => None,
    };
    for (key, _) in old.iter().filter(|(key, was)| new.get(key) != Some(was)) {
        if let Some(what) = kind(key) {
            errors.push(FieldError::forbidden(&path.key(key), format!("may not remove or update {what}")));
        }
    }
    for (key, _) in new.iter().filter(|(key, _)| !old.contains_key(key)) {
        if let Some(what) = kind(key) {
            errors.push(FieldError::forbidden(&path.key(key), format!("may not add {what}")));
        }
    }
}

/// Where a profile is given as annotation and as member, both say the same.
pub(crate) fn validate_profiles(owner: &Map, spec: &Map, path: &Path, errors: &mut Errors) {
    let Some(annotations) = of(owner) else { return };
    let context = |owner: &Map, name: &str| object(owner, "securityContext").and_then(|own| object(own, name)).cloned();
    if let (Some(field), Some(annotation)) = (context(spec, "seccompProfile"), annotations.get(SECCOMP_OF_POD)) {
        let path = path.child("securityContext").child("seccompProfile");
        same("seccomp", annotation.as_str().unwrap_or_default(), &field, &path, errors);
    }
    for (at, container) in visit(spec, path) {
        let at = at.child("securityContext");
        let annotation = |prefix: &str| annotations.get(&format!("{prefix}{}", text(container, "name")));
        let seccomp_field = context(container, "seccompProfile");
        if let (Some(field), Some(annotation)) = (seccomp_field, annotation(SECCOMP_OF_CONTAINER)) {
            same("seccomp", annotation.as_str().unwrap_or_default(), &field, &at.child("seccompProfile"), errors);
        }
        let armor = context(container, "appArmorProfile").or_else(|| context(spec, "appArmorProfile"));
        if let (Some(field), Some(annotation)) = (armor, annotation(APP_ARMOR)) {
            same("apparmor", annotation.as_str().unwrap_or_default(), &field, &at.child("appArmorProfile"), errors);
        }
    }
}

fn same(kind: &str, annotation: &str, field: &Map, path: &Path, errors: &mut Errors) {
    let fits = match text(field, "type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => annotation == "runtime/default" || kind == "seccomp" && annotation == "docker/default",
        "Localhost" => annotation.starts_with(LOCAL),
        _ => true,
    };
    if !fits {
        let detail = format!("{kind} type in annotation and field must match");
        errors.push(FieldError::forbidden(&path.child("type"), detail));
    } else if text(field, "type") == "Localhost"
        && annotation.strip_prefix(LOCAL) != field.get("localhostProfile").and_then(Value::as_str)
    {
        let detail = format!("{kind} profile in annotation and field must match");
        errors.push(FieldError::forbidden(&path.child("localhostProfile"), detail));
    }
}
