//! The environment of containers: variables, where they come from, and the fields and resources of the pod that one
//! may be made of (`k8s.io/kubernetes/pkg/apis/core/validation`).

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::Map;
use allotment_machinery::names;

use crate::builtin::core::resources::read;
use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{faults, required, required_name};
use crate::builtin::rules::look::{is_given, items, object, text};

use super::mounts::no_way_up;

/// What a variable may be made of.
const IN_VARIABLES: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// What a file of a volume may be made of.
pub(crate) const IN_FILES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// All fields that pods have in this respect, taken or not.
const FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];
/// The resources of a container that can be told, beside huge pages.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];

/// The variables of a container.
pub(crate) fn validate(container: &Map, path: &Path, errors: &mut Errors) {
    for (index, variable) in items(container, "env") {
        let path = path.child("env").index(index);
        match text(variable, "name") {
            "" => errors.push(FieldError::required(&path.child("name"), "")),
            name => faults(&path.child("name"), name, variable_name(name), errors),
        }
        if let Some(source) = object(variable, "valueFrom") {
            variable_source(variable, source, &path.child("valueFrom"), errors);
        }
    }
    let list_path = path.child("envFrom");
    for (index, source) in items(container, "envFrom") {
        let path = list_path.index(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            faults(&path.child("prefix"), prefix, variable_name(prefix), errors);
        }
        let given = ["configMapRef", "secretRef"].into_iter().filter(|name| is_given(source, name));
        // Kubernetes names the list here, not the element.
        match given.clone().count() {
            0 => errors.push(FieldError::invalid(&list_path, "", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => {
                let detail = "may not have more than one field specified at a time";
                errors.push(FieldError::invalid(&list_path, "", detail));
            }
        }
        for name in given {
            if let Some(reference) = object(source, name) {
                required_name(reference, "name", names::dns1123_subdomain, &path.child(name), errors);
            }
        }
    }
}

/// Printable ASCII without `=` (`IsRelaxedEnvVarName`).
fn variable_name(name: &str) -> names::Faults {
    if name.is_empty() {
        return vec!["environment variable name must be non-empty"];
    }
    let fits = name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=');
    if fits {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='"]
}

fn variable_source(variable: &Map, source: &Map, path: &Path, errors: &mut Errors) {
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    if let Some(reference) = object(source, "fieldRef") {
        field_of_pod(reference, IN_VARIABLES, &path.child("fieldRef"), errors);
    }
    if let Some(reference) = object(source, "resourceFieldRef") {
        resource_of_container(reference, false, &path.child("resourceFieldRef"), errors);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = object(source, name) {
            let path = path.child(name);
            let of = text(reference, "name");
            faults(&path.child("name"), of, names::dns1123_subdomain(of), errors);
            required_name(reference, "key", names::config_map_key, &path, errors);
        }
    }
    if let Some(reference) = object(source, "fileKeyRef") {
        let path = path.child("fileKeyRef");
        required_name(reference, "key", variable_name, &path, errors);
        required_name(reference, "volumeName", names::dns1123_label, &path, errors);
        required(reference, "path", &path, errors);
        no_way_up(text(reference, "path"), &path.child("path"), errors);
    }
    let detail = match sources.iter().filter(|name| is_given(source, name)).count() {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(path, "", detail));
}

/// A field of the pod, one of `taken`. Those that a pod does not have at all are told of in other words than those
/// that are not taken.
pub(crate) fn field_of_pod(reference: &Map, taken: &[&str], path: &Path, errors: &mut Errors) {
    let (version, given) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    let at = path.child("fieldPath");
    if version.is_empty() {
        return errors.push(FieldError::required(&path.child("apiVersion"), ""));
    }
    if given.is_empty() {
        return errors.push(FieldError::required(&at, ""));
    }
    let unconverted = |why: String| FieldError::invalid(&at, given, format!("error converting fieldPath: {why}"));
    if version != "v1" {
        return errors.push(unconverted(format!("unsupported pod version: {version}")));
    }
    if let Some((of, key)) = given.strip_suffix("']").and_then(|rest| rest.split_once("['")) {
        match of {
            "metadata.annotations" => {
                faults(path, &key.to_lowercase(), names::qualified_name(&key.to_lowercase()), errors)
            }
            "metadata.labels" => faults(path, key, names::qualified_name(key), errors),
            _ => errors.push(unconverted(format!("field label does not support subscript: {given}"))),
        }
        return;
    }
    let field = if given == "spec.host" { "spec.nodeName" } else { given };
    if !FIELDS.contains(&field) {
        errors.push(unconverted(format!("field label not supported: {given}")));
    } else if !taken.contains(&field) {
        errors.push(FieldError::not_supported(&at, field, taken));
    }
}

/// A resource of a container, and what it is divided by. In a file of a volume the container has to be named.
pub(crate) fn resource_of_container(reference: &Map, in_file: bool, path: &Path, errors: &mut Errors) {
    const MEMORY: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let resource = text(reference, "resource");
    let is_huge = HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix));
    if in_file && text(reference, "containerName").is_empty() {
        errors.push(FieldError::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(&path.child("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !is_huge {
        errors.push(FieldError::not_supported(&path.child("resource"), resource, &RESOURCES));
    }
    let Some(divisor) = reference.get("divisor").and_then(read).filter(|divisor| divisor.nanos() != 0) else { return };
    let shown = divisor.to_string();
    let (fits, detail) = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") => (
            ["1m", "1"].contains(&&*shown),
            "only divisor's values 1m and 1 are supported with the cpu resource".to_owned(),
        ),
        Some(name @ ("memory" | "ephemeral-storage")) => {
            let called = if name == "memory" { "memory" } else { "local ephemeral storage" };
            (
                MEMORY.contains(&&*shown),
                format!("only divisor's values {} are supported with the {called} resource", MEMORY.join(", ")),
            )
        }
        _ if is_huge => (
            MEMORY.contains(&&*shown),
            format!("only divisor's values {} are supported with the hugepages resource", MEMORY.join(", ")),
        ),
        _ => return,
    };
    if !fits {
        errors.push(FieldError::invalid(&path.child("divisor"), resource, detail));
    }
}
