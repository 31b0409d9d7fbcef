//! Volumes of pods and templates: one source each, and what the common sources need
//! (`k8s.io/kubernetes/pkg/apis/core/validation`).

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use crate::builtin::core::resources;
use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{in_range, required, required_name};
use crate::builtin::rules::look::{int, is_given, items, list, object, text};

/// Members that are no source.
const NAME: &str = "name";

/// Sources in the order in which they are looked at; of several, all but the first are refused.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Checks the volumes of a pod; answers the names of those that are valid.
pub(crate) fn validate<'a>(spec: &'a Map, path: &Path, errors: &mut Errors) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (index, volume) in items(spec, "volumes") {
        let path = path.child("volumes").index(index);
        let before = errors.len();
        source(volume, &path, errors);
        required_name(volume, NAME, names::dns1123_label, &path, errors);
        let name = text(volume, NAME);
        if seen.contains(name) {
            errors.push(FieldError::duplicate(&path.child(NAME), name));
        }
        if errors.len() == before {
            seen.insert(name);
        }
    }
    seen
}

fn source(volume: &Map, path: &Path, errors: &mut Errors) {
    let mut given = SOURCES.into_iter().filter(|name| is_given(volume, name));
    let Some(first) = given.next() else {
        return errors.push(FieldError::required(path, "must specify a volume type"));
    };
    if let Some(source) = object(volume, first) {
        source_rules(first, source, &path.child(first), errors);
    }
    for more in given {
        errors.push(FieldError::forbidden(&path.child(more), "may not specify more than 1 volume type"));
    }
}

fn source_rules(kind: &str, source: &Map, path: &Path, errors: &mut Errors) {
    match kind {
        "emptyDir" if source.get("sizeLimit").and_then(resources::read).is_some_and(|size| size.is_negative()) => {
            let detail = "SizeLimit field must be a valid resource quantity";
            errors.push(FieldError::forbidden(&path.child("sizeLimit"), detail));
        }
        "hostPath" => {
            required(source, "path", path, errors);
            let place = text(source, "path");
            if place.split('/').any(|part| part == "..") {
                errors.push(FieldError::invalid(&path.child("path"), place, "must not contain '..'"));
            }
            let kinds =
                ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
            let kind = text(source, "type");
            if !kinds.contains(&kind) {
                errors.push(FieldError::not_supported(&path.child("type"), kind, &kinds));
            }
        }
        "secret" => {
            required(source, "secretName", path, errors);
            files(source, path, errors);
        }
        "configMap" => {
            required(source, "name", path, errors);
            files(source, path, errors);
        }
        "downwardAPI" => mode(source, "defaultMode", path, errors),
        "persistentVolumeClaim" => required(source, "claimName", path, errors),
        "projected" => projected(source, path, errors),
        "nfs" => {
            required(source, "server", path, errors);
            required(source, "path", path, errors);
            if !text(source, "path").is_empty() && !text(source, "path").starts_with('/') {
                errors.push(FieldError::invalid(&path.child("path"), text(source, "path"), "must be an absolute path"));
            }
        }
        "csi" => required(source, "driver", path, errors),
        "image" => required(source, "reference", path, errors),
        "ephemeral" if !is_given(source, "volumeClaimTemplate") => {
            errors.push(FieldError::required(&path.child("volumeClaimTemplate"), ""));
        }
        _ => {}
    }
}

/// Nine bits.
fn mode(source: &Map, name: &str, path: &Path, errors: &mut Errors) {
    if let Some(mode) = int(source, name).filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(&path.child(name), mode, detail));
    }
}

/// Which keys become which files.
fn files(source: &Map, path: &Path, errors: &mut Errors) {
    mode(source, "defaultMode", path, errors);
    for (index, item) in items(source, "items") {
        let path = path.child("items").index(index);
        required(item, "key", &path, errors);
        required(item, "path", &path, errors);
        let place = text(item, "path");
        if place.starts_with('/') {
            errors.push(FieldError::invalid(&path.child("path"), place, "must be a relative path"));
        }
        if place.split('/').any(|part| part == "..") {
            errors.push(FieldError::invalid(&path.child("path"), place, "must not contain '..'"));
        }
        if place.starts_with("..") && !place.split('/').any(|part| part == "..") {
            errors.push(FieldError::invalid(&path.child("path"), place, "must not start with '..'"));
        }
        mode(item, "mode", &path, errors);
    }
}

fn projected(source: &Map, path: &Path, errors: &mut Errors) {
    mode(source, "defaultMode", path, errors);
    for (index, part) in items(source, "sources") {
        let path = path.child("sources").index(index);
        let given = part.iter().filter(|(_, value)| !value.is_null());
        for (position, (kind, value)) in given.enumerate() {
            let path = path.child(kind);
            if position > 0 {
                errors.push(FieldError::forbidden(&path, "may not specify more than 1 volume type"));
                continue;
            }
            let Value::Object(inner) = value else { continue };
            match kind {
                "secret" | "configMap" => {
                    required(inner, "name", &path, errors);
                    files(inner, &path, errors);
                }
                "serviceAccountToken" => {
                    let seconds = int(inner, "expirationSeconds").unwrap_or_default();
                    let at = path.child("expirationSeconds");
                    if seconds < 600 {
                        let detail = "may not specify a duration less than 10 minutes";
                        errors.push(FieldError::invalid(&at, seconds, detail));
                    } else {
                        in_range(seconds, 600, 1 << 32, &at, errors);
                    }
                    required(inner, "path", &path, errors);
                }
                _ => {}
            }
        }
    }
    if list(source, "sources").iter().any(|part| part.as_object().is_some_and(Map::is_empty)) {
        errors.push(FieldError::required(&path.child("sources"), "must specify a volume type"));
    }
}
