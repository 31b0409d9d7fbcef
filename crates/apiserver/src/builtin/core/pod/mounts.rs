//! What containers see of the pod's volumes: mounts and devices, and the paths in them
//! (`k8s.io/kubernetes/pkg/apis/core/validation`).

use std::collections::{BTreeMap, BTreeSet};

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::Map;

use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::required;
use crate::builtin::rules::look::{flag, is_given, items, object, text};

use super::containers::Around;

/// The mounts and devices of a container.
pub(crate) fn validate(container: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    let members = |list: &'static str, name: &'static str| -> BTreeSet<&str> {
        items(container, list).map(|(_, element)| text(element, name)).collect()
    };
    let mut places = BTreeSet::new();
    let list_path = path.child("volumeMounts");
    let (devices, device_paths) = (members("volumeDevices", "name"), members("volumeDevices", "devicePath"));
    for (index, mount) in items(container, "volumeMounts") {
        let path = list_path.index(index);
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        required(mount, "name", &path, errors);
        if !around.volumes.contains_key(name) {
            errors.push(FieldError::not_found(&path.child("name"), name));
        }
        required(mount, "mountPath", &path, errors);
        if !places.insert(place) {
            errors.push(FieldError::invalid(&path.child("mountPath"), place, "must be unique"));
        }
        if devices.contains(name) {
            errors.push(FieldError::invalid(&path.child("name"), name, "must not already exist in volumeDevices"));
        }
        if device_paths.contains(place) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(&path.child("mountPath"), place, detail));
        }
        below(mount, &list_path, &path, errors);
        // Kubernetes names the list here, not the element.
        propagation(container, mount, &list_path.child("mountPropagation"), errors);
        recursion(mount, &list_path.child("recursiveReadOnly"), errors);
    }
    validate_devices(container, around, &path.child("volumeDevices"), errors);
}

/// Which part of a volume is mounted.
fn below(mount: &Map, list_path: &Path, path: &Path, errors: &mut Errors) {
    let (part, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    // Kubernetes names the list here, not the element.
    descending(part, &list_path.child("subPath"), errors);
    if !part.is_empty() && !expression.is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        errors.push(FieldError::invalid(&path.child("subPathExpr"), expression, detail));
    }
    descending(expression, &list_path.child("subPathExpr"), errors);
}

fn propagation(container: &Map, mount: &Map, path: &Path, errors: &mut Errors) {
    if !is_given(mount, "mountPropagation") {
        return;
    }
    let (given, supported) = (text(mount, "mountPropagation"), ["Bidirectional", "HostToContainer", "None"]);
    if !supported.contains(&given) {
        errors.push(FieldError::not_supported(path, given, &supported));
    }
    let privileged = object(container, "securityContext").is_some_and(|context| flag(context, "privileged"));
    if given == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(path, detail));
    }
}

fn recursion(mount: &Map, path: &Path, errors: &mut Errors) {
    if !is_given(mount, "recursiveReadOnly") {
        return;
    }
    match text(mount, "recursiveReadOnly") {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !flag(mount, "readOnly") {
                errors.push(FieldError::forbidden(path, "may only be specified when readOnly is true"));
            }
            if is_given(mount, "mountPropagation") && text(mount, "mountPropagation") != "None" {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(path, detail));
            }
        }
        other => errors.push(FieldError::not_supported(path, other, &["Disabled", "Enabled", "IfPossible"])),
    }
}

fn validate_devices(container: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
    let members = |name: &'static str| -> BTreeSet<&str> {
        items(container, "volumeMounts").map(|(_, mount)| text(mount, name)).collect()
    };
    let (mounted, mount_places) = (members("name"), members("mountPath"));
    for (index, device) in items(container, "volumeDevices") {
        let path = path.index(index);
        let (name, place) = (text(device, "name"), text(device, "devicePath"));
        let (name_path, place_path) = (path.child("name"), path.child("devicePath"));
        required(device, "name", &path, errors);
        if names.contains(name) {
            errors.push(FieldError::invalid(&name_path, name, "must be unique"));
        }
        match around.volumes.get(name) {
            None => errors.push(FieldError::not_found(&name_path, name)),
            Some(volume) if is_given(volume, "persistentVolumeClaim") || is_given(volume, "ephemeral") => {}
            Some(_) => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(FieldError::invalid(&name_path, name, detail));
            }
        }
        required(device, "devicePath", &path, errors);
        if places.contains(place) {
            errors.push(FieldError::invalid(&place_path, place, "must be unique"));
        }
        if leads_up(place) {
            errors.push(FieldError::invalid(&place_path, place, "can not contain backsteps ('..')"));
        } else {
            places.insert(place);
        }
        if mounted.contains(name) {
            errors.push(FieldError::invalid(&name_path, name, "must not already exist in volumeMounts"));
        }
        if mount_places.contains(place) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(&place_path, place, detail));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn leads_up(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// A path without `..` in it.
pub(crate) fn no_way_up(value: &str, path: &Path, errors: &mut Errors) {
    if leads_up(value) {
        errors.push(FieldError::invalid(path, value, "must not contain '..'"));
    }
}

/// A path that stays below where it begins.
pub(crate) fn descending(value: &str, path: &Path, errors: &mut Errors) {
    if value.starts_with('/') {
        errors.push(FieldError::invalid(path, value, "must be a relative path"));
    }
    no_way_up(value, path, errors);
}

/// A path that stays below where it begins and does not begin as the files do that a node puts there itself.
pub(crate) fn unreserved(value: &str, path: &Path, errors: &mut Errors) {
    descending(value, path, errors);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.push(FieldError::invalid(path, value, "must not start with '..'"));
    }
}

/// Variables that are read from files need an empty directory that both containers see.
pub(crate) fn validate_file_keys(spec: &Map, path: &Path, errors: &mut Errors) {
    // Of several of one name the last counts.
    let volumes: BTreeMap<&str, &Map> =
        items(spec, "volumes").map(|(_, volume)| (text(volume, "name"), volume)).collect();
    for (at, container) in super::containers::visit(spec, path) {
        for (index, variable) in items(container, "env") {
            let Some(key) = object(variable, "valueFrom").and_then(|source| object(source, "fileKeyRef")) else {
                continue;
            };
            let name = text(key, "volumeName");
            let at = at.child("env").index(index).child("valueFrom").child("fileKeyRef").child("volumeName");
            match volumes.get(name) {
                None => errors.push(FieldError::not_found(&at, name)),
                Some(volume) if object(volume, "emptyDir").is_some() => {}
                Some(_) => {
                    let detail = "referenced volume must be of type emptyDir";
                    errors.push(FieldError::invalid(&at, name, detail));
                }
            }
        }
    }
}
