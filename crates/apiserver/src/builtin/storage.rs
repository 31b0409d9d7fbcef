//! PersistentVolumes, claims on them, StorageClasses and CSIDrivers
//! (`k8s.io/kubernetes/pkg/apis/core/validation`, `pkg/apis/storage/validation`). Nothing provisions here.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use allotment_machinery::object::metadata_str;
use jiff::Timestamp;

use crate::builtin::core::resources::{amount, read};
use crate::builtin::print::cells;
use crate::builtin::print::name_or_default;
use crate::builtin::rules::checks::{immutable, label_selector, one_of, optional_name};
use crate::builtin::rules::look::{flag, is_given, items, list, object, object_at, text, texts};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::registry::{MetadataChecks, Operation};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const RECLAIM: [&str; 3] = ["Delete", "Recycle", "Retain"];
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// PersistentVolumes.
pub(crate) const PERSISTENT_VOLUME: Rules = Rules {
    metadata: MetadataChecks { change: 0, whole: 2, core: true },
    answers_object: true,
    prepare: |operation, volume| {
        pending(operation, volume);
        let created = metadata_str(volume, "creationTimestamp").map(str::to_owned);
        if let (Operation::Create, Some(created), Some(status)) = (operation, created, volume.object_mut("status")) {
            status.insert("lastPhaseTransitionTime", created);
        }
    },
    validate: validate_volume,
    select: |object, field| (field == "name").then(|| metadata_str(object, "name").unwrap_or_default().to_owned()),
    cells: Some(volume_cells),
    ..Rules::of("core/v1.PersistentVolume")
};

/// PersistentVolumeClaims.
pub(crate) const PERSISTENT_VOLUME_CLAIM: Rules = Rules {
    metadata: WHOLE_TOO,
    answers_object: true,
    prepare: |operation, claim| pending(operation, claim),
    validate: |claim, errors| {
        if let Some(spec) = object(claim, "spec") {
            claim_spec(spec, &Path::new("spec"), errors);
        }
    },
    validate_change: claim_change,
    select: |object, field| (field == "name").then(|| metadata_str(object, "name").unwrap_or_default().to_owned()),
    cells: Some(claim_cells),
    ..Rules::of("core/v1.PersistentVolumeClaim")
};

/// StorageClasses.
pub(crate) const STORAGE_CLASS: Rules = Rules {
    metadata: WHOLE_TOO,
    answers_object: true,
    validate: |class, errors| {
        let path = Path::root();
        match text(class, "provisioner") {
            "" => errors.push(FieldError::required(&path.child("provisioner"), "")),
            name => {
                let lower = name.to_lowercase();
                crate::builtin::rules::checks::faults(
                    &path.child("provisioner"),
                    name,
                    names::qualified_name(&lower),
                    errors,
                );
            }
        }
        one_of(class, "reclaimPolicy", &["Delete", "Retain"], &path, errors);
        one_of(class, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], &path, errors);
    },
    validate_change: |old, new, errors| {
        let fields = ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"];
        immutable(old, new, &fields, &Path::root(), errors);
    },
    cells: Some(class_cells),
    ..Rules::of("storage/v1.StorageClass")
};

/// CSIDrivers.
pub(crate) const CSI_DRIVER: Rules = Rules {
    answers_object: true,
    unconditional: false,
    validate: |driver, errors| {
        if let Some(spec) = object(driver, "spec") {
            let path = Path::new("spec");
            one_of(spec, "fsGroupPolicy", &["ReadWriteOnceWithFSType", "File", "None"], &path, errors);
        }
    },
    validate_change: |old, new, errors| {
        let empty = Map::new();
        let fields = ["attachRequired", "volumeLifecycleModes"];
        let spec = |driver: &Map| object(driver, "spec").unwrap_or(&empty).clone();
        immutable(&spec(old), &spec(new), &fields, &Path::new("spec"), errors);
    },
    cells: Some(driver_cells),
    ..Rules::of("storage/v1.CSIDriver")
};

/// New volumes and claims wait.
fn pending(operation: Operation<'_>, object: &mut Map) {
    if matches!(operation, Operation::Create) {
        object.insert("status", json!({"phase": "Pending"}));
    }
}

fn access_modes(spec: &Map, detail: &str, path: &Path, errors: &mut Errors) {
    let path = path.child("accessModes");
    if list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(&path, detail));
    }
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
    access_modes(spec, "", &path, errors);
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
        positive(value, &at.key(name), errors);
    }
    one_of(spec, "persistentVolumeReclaimPolicy", &RECLAIM, &path, errors);
    one_of(spec, "volumeMode", &VOLUME_MODES, &path, errors);
    optional_name(spec, "storageClassName", names::dns1123_subdomain, &path, errors);
    const NO_SOURCE: [&str; 10] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
        "metadata",
    ];
    let mut sources = spec.iter().filter(|(name, value)| !NO_SOURCE.contains(name) && !value.is_null());
    if sources.next().is_none() {
        errors.push(FieldError::required(&path, "must specify a volume type"));
    }
    for (name, _) in sources {
        errors.push(FieldError::forbidden(&path.child(name), "may not specify more than 1 volume type"));
    }
}

/// What a claim, or a template of one, has to be.
pub(crate) fn claim_spec(spec: &Map, path: &Path, errors: &mut Errors) {
    access_modes(spec, "at least 1 access mode is required", path, errors);
    label_selector(spec, "selector", path, errors);
    let size = object_at(spec, &["resources", "requests"]).and_then(|requests| requests.get("storage"));
    let at = path.child("resources").key("storage");
    match size {
        None => errors.push(FieldError::required(&at, "")),
        Some(size) => {
            let before = errors.len();
            positive(size, &at, errors);
            if errors.len() == before {
                amount("storage", size, &at, errors);
            }
        }
    }
    optional_name(spec, "storageClassName", names::dns1123_subdomain, path, errors);
    one_of(spec, "volumeMode", &VOLUME_MODES, path, errors);
}

/// A claim keeps what it asks for; one that is bound may grow.
fn claim_change(old: &Map, new: &Map, errors: &mut Errors) {
    let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
    let bound = object(new, "status").is_some_and(|status| text(status, "phase") == "Bound");
    let unnamed = text(was, "volumeName").is_empty();
    let fixed = |spec: &Map| {
        let mut spec = spec.clone();
        if unnamed {
            spec.remove("volumeName");
        }
        if bound {
            spec.remove("volumeAttributesClassName");
            if let Some(Value::Object(resources)) = spec.get_mut("resources")
                && let Some(Value::Object(requests)) = resources.get_mut("requests")
            {
                requests.remove("storage");
            }
        }
        spec
    };
    let path = Path::new("spec");
    if fixed(was) != fixed(is) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
            claims";
        errors.push(FieldError::forbidden(&path, detail));
    }
    let size = |spec: &Map| object_at(spec, &["resources", "requests"])?.get("storage").and_then(read);
    if size(is) < size(was) {
        let path = path.child("resources").child("requests").child("storage");
        errors.push(FieldError::forbidden(&path, "field can not be less than status.capacity"));
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
        Value::from(text(spec, "storageClassName")),
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
        Value::from(text(spec, "storageClassName")),
        or_unset(spec, "volumeAttributesClassName"),
        cells::age(claim, now),
        or_unset(spec, "volumeMode"),
    ]
}

fn class_cells(class: &Map, now: Timestamp) -> Vec<Value> {
    vec![
        name_or_default(class, DEFAULT_CLASS),
        Value::from(text(class, "provisioner")),
        Value::from(text(class, "reclaimPolicy")),
        Value::from(text(class, "volumeBindingMode")),
        Value::from(flag(class, "allowVolumeExpansion")),
        cells::age(class, now),
    ]
}

fn driver_cells(driver: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let spec = object(driver, "spec").unwrap_or(&empty);
    let tokens =
        items(spec, "tokenRequests").map(|(_, request)| text(request, "audience")).collect::<Vec<_>>().join(",");
    let modes = texts(spec, "volumeLifecycleModes").collect::<Vec<_>>().join(",");
    vec![
        cells::name(driver),
        Value::from(flag(spec, "attachRequired")),
        Value::from(flag(spec, "podInfoOnMount")),
        Value::from(flag(spec, "storageCapacity")),
        Value::from(if is_given(spec, "tokenRequests") { tokens } else { "<unset>".to_owned() }),
        Value::from(flag(spec, "requiresRepublish")),
        crate::builtin::print::or_none(&modes),
        cells::age(driver, now),
    ]
}
