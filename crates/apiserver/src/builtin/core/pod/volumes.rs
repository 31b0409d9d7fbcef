//! Volumes of pods and templates: one source each, and what the sources need that keep to Kubernetes
//! (`k8s.io/kubernetes/pkg/apis/core/validation`). Those that lead to storage elsewhere are in [`super::drivers`].

use std::collections::{BTreeMap, BTreeSet};

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::Map;
use allotment_machinery::metadata;
use allotment_machinery::names;

use crate::builtin::core::resources;
use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{faults, labels, one_of_required, required, required_name};
use crate::builtin::rules::look::{int, is_given, items, object, text};
use crate::builtin::storage;

use super::Sort;
use super::drivers;
use super::environment::{IN_FILES, field_of_pod, resource_of_container};
use super::mounts::{no_way_up, unreserved};

/// Members that are no source.
const NAME: &str = "name";
const TWICE: &str = "conflicting duplicate paths";

/// Volumes that are valid, by name.
pub(crate) type Volumes<'a> = BTreeMap<&'a str, &'a Map>;

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

/// Checks the volumes of a pod; answers those that are valid.
pub(crate) fn validate<'a>(spec: &'a Map, sort: Sort<'_>, path: &Path, errors: &mut Errors) -> Volumes<'a> {
    let mut seen = Volumes::new();
    // The claims that will be made for the pod, whose name has to be known for that.
    let claim_of = |name: &str| sort.name().map(|pod| format!("{pod}-{name}"));
    let made: BTreeSet<String> = items(spec, "volumes")
        .filter(|(_, volume)| is_given(volume, "ephemeral"))
        .filter_map(|(_, volume)| claim_of(text(volume, NAME)))
        .collect();
    for (index, volume) in items(spec, "volumes") {
        let path = path.child("volumes").index(index);
        let before = errors.len();
        source(volume, sort, &path, errors);
        let name = text(volume, NAME);
        if let Some(claim) = claim_of(name).filter(|_| is_given(volume, "ephemeral") && !name.is_empty()) {
            let found = names::dns1123_subdomain(&claim).into_iter();
            let detail = |fault: &str| format!("PVC name {claim:?}: {fault}");
            errors.extend(found.map(|fault| FieldError::invalid(&path.child(NAME), name, detail(fault))));
        }
        required_name(volume, NAME, names::dns1123_label, &path, errors);
        if seen.contains_key(name) {
            errors.push(FieldError::duplicate(&path.child(NAME), name));
        }
        if errors.len() == before {
            seen.insert(name, volume);
        }
        let claimed = object(volume, "persistentVolumeClaim").map_or("", |claim| text(claim, "claimName"));
        if made.contains(claimed) {
            let at = path.child("persistentVolumeClaim").child("claimName");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(FieldError::invalid(&at, claimed, detail));
        }
    }
    seen
}

fn source(volume: &Map, sort: Sort<'_>, path: &Path, errors: &mut Errors) {
    let mut given = SOURCES.into_iter().filter(|name| is_given(volume, name));
    let Some(first) = given.next() else {
        return errors.push(FieldError::required(path, "must specify a volume type"));
    };
    if let Some(source) = object(volume, first) {
        source_rules(first, source, sort, &path.child(first), errors);
        drivers::validate(first, source, volume, path, errors);
    }
    for more in given {
        // Kubernetes misspells some of them here.
        let called = match more {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            other => other,
        };
        errors.push(FieldError::forbidden(&path.child(called), "may not specify more than 1 volume type"));
    }
}

fn source_rules(kind: &str, source: &Map, sort: Sort<'_>, path: &Path, errors: &mut Errors) {
    match kind {
        "emptyDir" if source.get("sizeLimit").and_then(resources::read).is_some_and(|size| size.is_negative()) => {
            let detail = "SizeLimit field must be a valid resource quantity";
            errors.push(FieldError::forbidden(&path.child("sizeLimit"), detail));
        }
        "hostPath" => host_path(source, path, errors),
        "secret" => {
            required(source, "secretName", path, errors);
            files(source, path, errors);
        }
        "configMap" => {
            required(source, "name", path, errors);
            files(source, path, errors);
        }
        "downwardAPI" => {
            mode(source, "defaultMode", path, errors);
            for (_, file) in items(source, "items") {
                // Kubernetes names the source here, not the element.
                file_of_pod(file, path, errors);
            }
        }
        "persistentVolumeClaim" => required(source, "claimName", path, errors),
        "projected" => projected(source, path, errors),
        "image" => {
            if sort.is_pod() {
                required(source, "reference", path, errors);
            }
            one_of_required(source, "pullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
        }
        "ephemeral" => claim(source, path, errors),
        _ => {}
    }
}

fn host_path(source: &Map, path: &Path, errors: &mut Errors) {
    const KINDS: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if text(source, "path").is_empty() {
        return errors.push(FieldError::required(&path.child("path"), ""));
    }
    no_way_up(text(source, "path"), &path.child("path"), errors);
    let kind = text(source, "type");
    if !KINDS.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &KINDS));
    }
}

/// A claim that is made for the pod: of metadata it has labels and annotations.
fn claim(source: &Map, path: &Path, errors: &mut Errors) {
    let path = path.child("volumeClaimTemplate");
    let Some(template) = object(source, "volumeClaimTemplate") else {
        return errors.push(FieldError::required(&path, ""));
    };
    if let Some(given) = object(template, "metadata") {
        let path = path.child("metadata");
        if let Some(annotations) = object(given, "annotations") {
            errors.extend(metadata::validate_annotations(annotations, &path.child("annotations")));
        }
        labels(given, "labels", &path, errors);
        let nothing = |value: &allotment_machinery::json::Value| {
            value.is_null() || value.as_str() == Some("") || value.as_array().is_some_and(<[_]>::is_empty)
        };
        for (name, _) in
            given.iter().filter(|(name, value)| !matches!(*name, "labels" | "annotations") && !nothing(value))
        {
            // The names of the internal type, which begin with a small letter here.
            let called = if name == "uid" { "uID" } else { name };
            errors.push(FieldError::forbidden(&path.child(called), "cannot be set"));
        }
    }
    let empty = Map::new();
    storage::claim_spec(object(template, "spec").unwrap_or(&empty), &path.child("spec"), errors);
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
        key_to_path(item, &path.child("items").index(index), errors);
    }
}

fn key_to_path(item: &Map, path: &Path, errors: &mut Errors) {
    required(item, "key", path, errors);
    required(item, "path", path, errors);
    unreserved(text(item, "path"), &path.child("path"), errors);
    mode(item, "mode", path, errors);
}

/// A file that is made of a field of the pod or of a resource of a container.
fn file_of_pod(file: &Map, path: &Path, errors: &mut Errors) {
    required(file, "path", path, errors);
    unreserved(text(file, "path"), &path.child("path"), errors);
    match (object(file, "fieldRef"), object(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            field_of_pod(field, IN_FILES, &path.child("fieldRef"), errors);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(path, "resource", detail));
            }
        }
        (None, Some(resource)) => resource_of_container(resource, true, &path.child("resourceFieldRef"), errors),
        (None, None) => errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required")),
    }
    mode(file, "mode", path, errors);
}

/// What several sources put into one volume: each file once.
fn projected(source: &Map, path: &Path, errors: &mut Errors) {
    const SOURCES: [&str; 5] = ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"];
    mode(source, "defaultMode", path, errors);
    let mut taken = BTreeSet::new();
    for (index, part) in items(source, "sources") {
        let at = path.child("sources").index(index);
        for name in ["secret", "configMap"] {
            let Some(own) = object(part, name) else { continue };
            required(own, "name", &at.child(name), errors);
            for (place, item) in items(own, "items") {
                key_to_path(item, &at.child(name).child("items").index(place), errors);
                let file = text(item, "path");
                if !file.is_empty() && !taken.insert(file) {
                    errors.push(FieldError::invalid(path, text(own, "name"), TWICE));
                }
            }
        }
        for (_, file) in object(part, "downwardAPI").into_iter().flat_map(|own| items(own, "items")) {
            file_of_pod(file, &at.child("downwardAPI"), errors);
            let file = text(file, "path");
            if !file.is_empty() && !taken.insert(file) {
                errors.push(FieldError::invalid(path, file, TWICE));
            }
        }
        if let Some(token) = object(part, "serviceAccountToken") {
            token_file(token, &at.child("serviceAccountToken"), path, errors);
        }
        if SOURCES.into_iter().filter(|name| is_given(part, name)).count() > 1 {
            errors.push(FieldError::forbidden(&at, "may not specify more than 1 volume type per source"));
        }
    }
}

/// A token. Kubernetes names the volume for its path, not the source.
fn token_file(token: &Map, path: &Path, volume: &Path, errors: &mut Errors) {
    const SHORTEST: i64 = 600;
    const LONGEST: i64 = 1 << 32;
    let (seconds, at) = (int(token, "expirationSeconds").unwrap_or_default(), path.child("expirationSeconds"));
    if seconds < SHORTEST {
        errors.push(FieldError::invalid(&at, seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > LONGEST {
        errors.push(FieldError::invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds"));
    }
    required(token, "path", volume, errors);
    unreserved(text(token, "path"), &volume.child("path"), errors);
}

/// The name of a secret or the like, where it is given.
pub(crate) fn reference(owner: &Map, name: &str, path: &Path, errors: &mut Errors) {
    if let Some(reference) = object(owner, name) {
        required(reference, "name", &path.child(name), errors);
    }
}

/// A driver's name: that of a domain, short, whatever its letters' case.
pub(crate) fn driver_name(name: &str, path: &Path, errors: &mut Errors) {
    const LONGEST: usize = 63;
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    if name.len() > LONGEST {
        errors.push(FieldError::too_long(path, LONGEST));
    }
    faults(path, name, names::dns1123_subdomain(&name.to_lowercase()), errors);
}
