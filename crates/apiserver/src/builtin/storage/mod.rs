//! PersistentVolumes, claims on them, StorageClasses and CSIDrivers
//! (`k8s.io/kubernetes/pkg/apis/core/validation`, `pkg/apis/storage/validation`). Nothing provisions here.

mod claims;
mod classes;
mod volumes;

pub(crate) use claims::claim_spec;
pub(crate) use classes::{CSI_DRIVER, STORAGE_CLASS};

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use allotment_machinery::object::metadata_str;
use jiff::Timestamp;

use crate::builtin::core::resources::read;
use crate::builtin::print::cells;
use crate::builtin::rules::checks::{one_of, optional_name};
use crate::builtin::rules::look::{is_given, list, object, text, texts};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::registry::{MetadataChecks, Operation, Warnings};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
/// Since when a volume is in its phase; who writes a status without it leaves it as it was.
const PHASE_SINCE: &str = "lastPhaseTransitionTime";
const RECLAIM: [&str; 3] = ["Delete", "Recycle", "Retain"];

/// PersistentVolumes.
pub(crate) const PERSISTENT_VOLUME: Rules = Rules {
    metadata: MetadataChecks { change: 0, whole: 2, core: true },
    answers_object: true,
    prepare: |operation, volume| {
        pending(operation, volume);
        let since = match operation {
            Operation::Create => metadata_str(volume, "creationTimestamp").map(Value::from),
            Operation::Update { old, .. } => object(old, "status").and_then(|status| status.get(PHASE_SINCE)).cloned(),
        };
        if let (Some(since), Some(status)) = (since, volume.object_mut("status"))
            && !is_given(status, PHASE_SINCE)
        {
            status.insert(PHASE_SINCE, since);
        }
    },
    validate: |volume, errors| {
        validate_volume(volume, errors);
        volumes::mount_options(volume, errors);
    },
    validate_change: |old, new, errors| {
        // Kubernetes judges a changed volume twice, and tells twice what it finds, but for options of a mount.
        validate_volume(new, errors);
        volumes::change(old, new, errors);
    },
    warn: |operation, volume| match operation {
        Operation::Update { subresource: "status", .. } => Warnings::default(),
        _ => volumes::warnings(volume),
    },
    cells: Some(volume_cells),
    ..Rules::of("core/v1.PersistentVolume")
};

/// PersistentVolumeClaims.
pub(crate) const PERSISTENT_VOLUME_CLAIM: Rules = Rules {
    metadata: WHOLE_TOO,
    answers_object: true,
    prepare: |operation, claim| {
        pending(operation, claim);
        match operation {
            Operation::Create => claims::settle_sources(None, claim),
            Operation::Update { old, subresource: "" } => claims::settle_sources(Some(old), claim),
            Operation::Update { .. } => {}
        }
    },
    validate: |claim, errors| {
        if let Some(spec) = object(claim, "spec") {
            claim_spec(spec, &Path::new("spec"), errors);
        }
    },
    validate_change: claims::claim_change,
    validate_status: |_, claim, errors| claims::validate_claim_status(claim, errors),
    warn: |operation, claim| match operation {
        Operation::Update { subresource: "status", .. } => Warnings::default(),
        _ => claims::claim_warnings(claim),
    },
    cells: Some(claim_cells),
    ..Rules::of("core/v1.PersistentVolumeClaim")
};

/// New volumes and claims wait.
fn pending(operation: Operation<'_>, object: &mut Map) {
    if matches!(operation, Operation::Create) {
        object.insert("status", json!({"phase": "Pending"}));
    }
}

/// The modes that are given are known, and go together.
fn access_modes(spec: &Map, path: &Path, errors: &mut Errors) {
    let path = path.child("accessModes");
    for mode in texts(spec, "accessModes").filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(&path, mode, &ACCESS_MODES));
    }
    let known = texts(spec, "accessModes").filter(|mode| ACCESS_MODES.contains(mode));
    let alone = |mode: &&str| *mode == "ReadWriteOncePod";
    if known.clone().any(|mode| alone(&mode)) && known.clone().any(|mode| !alone(&mode)) {
        errors.push(FieldError::forbidden(&path, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// An amount above zero.
fn positive(value: &Value, path: &Path, errors: &mut Errors) {
    if read(value).is_some_and(|quantity| quantity.nanos() <= 0) {
        errors.push(FieldError::invalid(path, value, "must be greater than zero"));
    }
}

fn validate_volume(volume: &Map, errors: &mut Errors) {
    let Some(spec) = object(volume, "spec") else { return };
    let path = Path::new("spec");
    required_list(spec, "accessModes", &path, errors);
    access_modes(spec, &path, errors);
    let capacity = object(spec, "capacity");
    let at = path.child("capacity");
    if capacity.is_none_or(Map::is_empty) {
        errors.push(FieldError::required(&at, ""));
    }
    if !capacity.is_some_and(|capacity| capacity.len() == 1 && is_given(capacity, "storage")) {
        let shown = spec.get("capacity").unwrap_or(&Value::Null);
        errors.push(FieldError::not_supported(&at, shown, &["storage"]));
    }
    for (name, value) in capacity.into_iter().flat_map(Map::iter) {
        claims::not_negative(value, &at.key(name), errors);
        positive(value, &at.key(name), errors);
    }
    one_of(spec, "persistentVolumeReclaimPolicy", &RECLAIM, &path, errors);
    volumes::source(spec, &path, errors);
    optional_name(spec, "storageClassName", names::dns1123_subdomain, &path, errors);
    one_of(spec, "volumeMode", &VOLUME_MODES, &path, errors);
    if let Some(class) = spec.get("volumeAttributesClassName").and_then(Value::as_str) {
        let at = path.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.push(FieldError::required(&at, "an empty string is disallowed"));
        }
        optional_name(spec, "volumeAttributesClassName", names::dns1123_subdomain, &path, errors);
        if !is_given(spec, "csi") {
            let detail = "has to be specified when using volumeAttributesClassName";
            errors.push(FieldError::required(&path.child("csi"), detail));
        }
    }
}

fn required_list(map: &Map, name: &str, path: &Path, errors: &mut Errors) {
    if list(map, name).is_empty() {
        errors.push(FieldError::required(&path.child(name), ""));
    }
}

fn short_modes(modes: &Map) -> String {
    let short = texts(modes, "accessModes").filter_map(|mode| match mode {
        "ReadWriteOnce" => Some((0, "RWO")),
        "ReadOnlyMany" => Some((1, "ROX")),
        "ReadWriteMany" => Some((2, "RWX")),
        "ReadWriteOncePod" => Some((3, "RWOP")),
        _ => None,
    });
    let sorted: std::collections::BTreeSet<(i32, &str)> = short.collect();
    sorted.into_iter().map(|(_, mode)| mode).collect::<Vec<_>>().join(",")
}

fn or_unset(map: &Map, name: &str) -> Value {
    Value::from(if is_given(map, name) { text(map, name) } else { "<unset>" })
}

/// The phase, unless the object is going.
fn phase(map: &Map, status: &Map) -> Value {
    let deleting = metadata_str(map, "deletionTimestamp").is_some();
    Value::from(if deleting { "Terminating" } else { text(status, "phase") })
}

fn volume_cells(volume: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let (spec, status) = (object(volume, "spec").unwrap_or(&empty), object(volume, "status").unwrap_or(&empty));
    let claim = object(spec, "claimRef").map(|claim| format!("{}/{}", text(claim, "namespace"), text(claim, "name")));
    let size = object(spec, "capacity").map_or("0", |capacity| text(capacity, "storage"));
    vec![
        cells::name(volume),
        Value::from(size),
        Value::from(short_modes(spec)),
        Value::from(text(spec, "persistentVolumeReclaimPolicy")),
        phase(volume, status),
        Value::from(claim.unwrap_or_default()),
        Value::from(claims::class_of(volume)),
        or_unset(spec, "volumeAttributesClassName"),
        Value::from(text(status, "reason")),
        cells::age(volume, now),
        or_unset(spec, "volumeMode"),
    ]
}

fn claim_cells(claim: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let (spec, status) = (object(claim, "spec").unwrap_or(&empty), object(claim, "status").unwrap_or(&empty));
    let named = !text(spec, "volumeName").is_empty();
    let size = object(status, "capacity").map_or("0", |capacity| text(capacity, "storage"));
    vec![
        cells::name(claim),
        phase(claim, status),
        Value::from(text(spec, "volumeName")),
        Value::from(if named { size } else { "" }),
        Value::from(if named { short_modes(status) } else { String::new() }),
        Value::from(claims::class_of(claim)),
        or_unset(spec, "volumeAttributesClassName"),
        cells::age(claim, now),
        or_unset(spec, "volumeMode"),
    ]
}
