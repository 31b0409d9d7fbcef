//! What a PersistentVolume is made of (`k8s.io/kubernetes/pkg/apis/core/validation`).

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{IMMUTABLE, faults, required};
use crate::builtin::rules::look::{is_given, items, items_mut, object, object_at, text};
use crate::registry::Warnings;

/// All sources, in the order in which they are looked for.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];
const HOST_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
/// The longest name of a driver, in bytes.
const DRIVER_LENGTH: usize = 63;
/// Sources that nothing serves any more, and what is said of them.
const GONE: [(&str, &str, &str); 6] = [
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
/// Labels of nodes that have other names since they are stable.
const RENAMED: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
];
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
/// Annotations that have become members.
const OLD_ANNOTATIONS: [(&str, &str); 2] = [
    ("volume.beta.kubernetes.io/storage-class", "deprecated since v1.8; use \"storageClassName\" attribute instead"),
    (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
];

/// A volume has one source, and of that what it needs.
pub(super) fn source(spec: &Map, path: &Path, errors: &mut Errors) {
    let affinity = object(spec, "nodeAffinity");
    if affinity.is_some_and(|affinity| !is_given(affinity, "required")) {
        let at = path.child("nodeAffinity").child("required");
        errors.push(FieldError::required(&at, "must specify required node constraints"));
    }
    let mut given = SOURCES.into_iter().filter(|name| is_given(spec, name));
    let Some(first) = given.next() else {
        return errors.push(FieldError::required(path, "must specify a volume type"));
    };
    if let Some(source) = object(spec, first) {
        validate_source(first, source, &path.child(first), errors);
    }
    if first == "local" && affinity.is_none() {
        let at = path.child("nodeAffinity");
        errors.push(FieldError::required(&at, "Local volume requires node affinity"));
    }
    for name in given {
        errors.push(FieldError::forbidden(&path.child(name), "may not specify more than 1 volume type"));
    }
    let root = object(spec, "hostPath").is_some_and(|host| is_root(text(host, "path")));
    if root && text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden(&path.child("persistentVolumeReclaimPolicy"), detail));
    }
}

/// An annotation with options of a mount, where the source takes none.
pub(super) fn mount_options(volume: &Map, errors: &mut Errors) {
    const TAKING: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let annotated =
        object_at(volume, &["metadata", "annotations"]).is_some_and(|have| have.contains_key(MOUNT_OPTIONS));
    let takes = object(volume, "spec").is_some_and(|spec| TAKING.iter().any(|name| is_given(spec, name)));
    if annotated && !takes {
        let path = Path::new("metadata").child("annotations").child(MOUNT_OPTIONS);
        errors.push(FieldError::forbidden(&path, "may not specify mount options for this volume type"));
    }
}

/// Those that charts carry; of others anything is taken.
fn validate_source(name: &str, source: &Map, path: &Path, errors: &mut Errors) {
    let place = text(source, "path");
    match name {
        "hostPath" | "local" => {
            let at = path.child("path");
            if place.is_empty() {
                return errors.push(FieldError::required(&at, ""));
            }
            if place.split('/').any(|part| part == "..") {
                errors.push(FieldError::invalid(&at, place, "must not contain '..'"));
            }
            if name == "hostPath" && !HOST_TYPES.contains(&text(source, "type")) {
                errors.push(FieldError::not_supported(&path.child("type"), text(source, "type"), &HOST_TYPES));
            }
        }
        "nfs" => {
            required(source, "server", path, errors);
            required(source, "path", path, errors);
            if !place.starts_with('/') {
                errors.push(FieldError::invalid(&path.child("path"), place, "must be an absolute path"));
            }
        }
        "csi" => {
            let (at, driver) = (path.child("driver"), text(source, "driver"));
            required(source, "driver", path, errors);
            if !driver.is_empty() {
                if driver.len() > DRIVER_LENGTH {
                    errors.push(FieldError::too_long(&at, DRIVER_LENGTH));
                }
                faults(&at, driver, names::dns1123_subdomain(&driver.to_lowercase()), errors);
            }
            required(source, "volumeHandle", path, errors);
        }
        _ => {}
    }
}

/// Whether a path is but slashes and dots.
fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| matches!(part, "" | "." | ".."))
}

/// A volume stays what it is made of.
pub(super) fn change(old: &Map, new: &Map, errors: &mut Errors) {
    let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
    if SOURCES.iter().any(|name| source_of(was, is, name) != is.get(name)) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden(&Path::new("spec").child("persistentvolumesource"), detail));
    }
    if was.get("volumeMode") != is.get("volumeMode") {
        let shown = is.get("volumeMode").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(&Path::new("volumeMode"), shown, IMMUTABLE));
    }
    affinity_change(was, is, errors);
    if is_given(was, "volumeAttributesClassName") && !is_given(is, "volumeAttributesClassName") {
        let path = Path::new("spec").child("volumeAttributesClassName");
        errors.push(FieldError::forbidden(&path, "update from non-nil value to nil is forbidden"));
    }
}

/// Where a volume can be reached stays, once it is said, but for labels that get their names of today.
fn affinity_change(was: &Map, is: &Map, errors: &mut Errors) {
    let Some(before) = object(was, "nodeAffinity") else { return };
    let now = object(is, "nodeAffinity");
    if now.is_some_and(|now| with_new_labels(before, now) == *now) {
        return;
    }
    let shown = now.map_or_else(|| ShownValue::raw("null"), affinity_shown);
    let detail = format!("{IMMUTABLE}, except for updating from beta label to GA");
    errors.push(FieldError::invalid(&Path::new("nodeAffinity"), shown, detail));
}

/// `before` with those labels renamed that stand in `now`, in the same place, under their new names.
fn with_new_labels(before: &Map, now: &Map) -> Map {
    let keys: Vec<&str> = expressions(now).map(|expression| text(expression, "key")).collect();
    let mut renamed = before.clone();
    let terms =
        renamed.object_mut("required").into_iter().flat_map(|required| items_mut(required, "nodeSelectorTerms"));
    let expressions = terms.flat_map(|term| items_mut(term, "matchExpressions"));
    for (expression, key) in expressions.zip(keys) {
        let new = RENAMED.iter().find(|(old, _)| *old == text(expression, "key")).map(|(_, new)| *new);
        if new == Some(key) {
            expression.insert("key", key);
        }
    }
    renamed
}

/// All expressions of an affinity, in order.
fn expressions(affinity: &Map) -> impl Iterator<Item = &Map> {
    let terms = object(affinity, "required").into_iter().flat_map(|required| items(required, "nodeSelectorTerms"));
    terms.flat_map(|(_, term)| items(term, "matchExpressions")).map(|(_, expression)| expression)
}

/// An affinity as messages of Kubernetes show it: the members of its internal type.
fn affinity_shown(affinity: &Map) -> ShownValue {
    let listed = |map: &Map, name: &str, show: &dyn Fn(&Map) -> String| {
        if !is_given(map, name) {
            return "null".to_owned();
        }
        let shown: Vec<String> = items(map, name).map(|(_, item)| show(item)).collect();
        format!("[{}]", shown.join(","))
    };
    let requirement = |requirement: &Map| {
        let [key, operator] = ["key", "operator"].map(|name| Value::from(text(requirement, name)));
        let values = requirement.get("values").unwrap_or(&Value::Null);
        format!("{{\"Key\":{key},\"Operator\":{operator},\"Values\":{values}}}")
    };
    let term = |term: &Map| {
        let [expressions, fields] = ["matchExpressions", "matchFields"].map(|name| listed(term, name, &requirement));
        format!("{{\"MatchExpressions\":{expressions},\"MatchFields\":{fields}}}")
    };
    let required = object(affinity, "required").map_or_else(
        || "null".to_owned(),
        |required| format!("{{\"NodeSelectorTerms\":{}}}", listed(required, "nodeSelectorTerms", &term)),
    );
    ShownValue::raw(format!("{{\"Required\":{required}}}"))
}

/// The source before; a secret to grow it with may be named later, and the new one is taken for the old one's.
fn source_of<'a>(was: &'a Map, is: &'a Map, name: &str) -> Option<&'a Value> {
    const SECRET: &str = "controllerExpandSecretRef";
    let (old, new) = (was.get(name), is.get(name));
    let (Some(Value::Object(before)), Some(Value::Object(after)), "csi") = (old, new, name) else { return old };
    let gains = !is_given(before, SECRET) && is_given(after, SECRET);
    let rest = |map: &Map| {
        let mut map = map.clone();
        map.remove(SECRET);
        map
    };
    if gains && rest(before) == rest(after) { new } else { old }
}

/// What is said of a volume.
pub(super) fn warnings(volume: &Map) -> Warnings {
    let annotations = object_at(volume, &["metadata", "annotations"]);
    let old = OLD_ANNOTATIONS.iter().filter(|(key, _)| annotations.is_some_and(|have| have.contains_key(key)));
    let mut warnings: Warnings = old.map(|(key, why)| format!("metadata.annotations[{key}]: {why}")).collect();
    let Some(spec) = object(volume, "spec") else { return warnings };
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
             approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let gone = GONE.iter().filter(|(name, ..)| is_given(spec, name));
    warnings.extend(gone.map(|(_, shown, why)| format!("spec.{shown}: {why}")));
    warnings
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::super::{PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM};
    use super::*;
    use crate::builtin::rules::judged::check;
    use crate::registry::{Operation, Strategy as _};

    fn volume(more: Value) -> Value {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
        for (name, value) in more.as_object().expect("an object").iter() {
            spec.as_object_mut().expect("an object").insert(name, value.clone());
        }
        json!({"spec": spec})
    }

    #[test]
    fn a_volume_has_one_source_and_keeps_it() {
        let check = |old, new, expect: &[&str]| check(&PERSISTENT_VOLUME, old, volume(new), expect);
        check(None, json!({"hostPath": {"path": "/a"}}), &[]);
        check(None, json!({}), &["spec: Required value: must specify a volume type"]);
        check(
            None,
            json!({"nfs": {"path": "a"}, "csi": {}}),
            &[
                "spec.nfs.server: Required value",
                r#"spec.nfs.path: Invalid value: "a": must be an absolute path"#,
                "spec.csi: Forbidden: may not specify more than 1 volume type",
            ],
        );
        check(
            None,
            json!({"local": {"path": "/a/../b"}}),
            &[
                r#"spec.local.path: Invalid value: "/a/../b": must not contain '..'"#,
                "spec.nodeAffinity: Required value: Local volume requires node affinity",
            ],
        );
        check(
            Some(volume(json!({"hostPath": {"path": "/a"}}))),
            json!({"hostPath": {"path": "/b"}}),
            &["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"],
        );
        let csi = json!({"csi": {"driver": "example.com", "volumeHandle": "h"}});
        let more = json!({"csi": {"driver": "example.com", "volumeHandle": "h",
            "controllerExpandSecretRef": {"name": "n", "namespace": "n"}}});
        check(Some(volume(csi)), more, &[]);
    }

    #[test]
    fn where_a_volume_can_be_reached_stays_but_for_labels_that_are_renamed() {
        let local = |affinity: Value| {
            let mut more = json!({"local": {"path": "/a"}});
            more.as_object_mut().expect("an object").insert("nodeAffinity", affinity);
            more
        };
        let on = |key: &str| {
            local(
                json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}}),
            )
        };
        let check =
            |old: Value, new, expect: &[&str]| check(&PERSISTENT_VOLUME, Some(volume(old)), volume(new), expect);
        check(on("a"), on("a"), &[]);
        check(
            json!({"hostPath": {"path": "/a"}}),
            {
                let mut more = on("a");
                let map = more.as_object_mut().expect("an object");
                map.remove("local");
                map.insert("hostPath", json!({"path": "/a"}));
                more
            },
            &[],
        );
        check(on("beta.kubernetes.io/os"), on("kubernetes.io/os"), &[]);
        check(
            on("beta.kubernetes.io/os"),
            on("kubernetes.io/arch"),
            &[
                r#"nodeAffinity: Invalid value: {"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"kubernetes.io/arch","Operator":"Exists","Values":null}],"MatchFields":null}]}}: field is immutable, except for updating from beta label to GA"#,
            ],
        );
    }

    #[test]
    fn options_of_a_mount_that_takes_none_are_told_of_once_in_a_change_too() {
        let annotated = || {
            let mut volume = volume(json!({"hostPath": {"path": "/a"}}));
            let metadata = json!({"annotations": {"volume.beta.kubernetes.io/mount-options": "ro"}});
            volume.as_object_mut().expect("an object").insert("metadata", metadata);
            volume
        };
        let fault = "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options \
                     for this volume type";
        check(&PERSISTENT_VOLUME, Some(annotated()), annotated(), &[fault]);
        check(&PERSISTENT_VOLUME, None, annotated(), &[fault]);
    }

    #[test]
    fn a_status_of_a_volume_without_the_time_of_its_phase_leaves_it() {
        let since = json!("2020-01-02T03:04:05Z");
        let with = |status: Value| {
            let mut volume = volume(json!({"hostPath": {"path": "/a"}}));
            volume.as_object_mut().expect("an object").insert("status", status);
            crate::builtin::rules::judged::object(volume)
        };
        let old = with(json!({"phase": "Pending", "lastPhaseTransitionTime": (since.clone())}));
        let prepared = |status: Value| {
            let mut new = with(status);
            PERSISTENT_VOLUME.prepare(Operation::Update { old: &old, subresource: "status" }, &mut new);
            Value::Object(new).at(&["status", "lastPhaseTransitionTime"]).cloned()
        };
        assert_eq!(prepared(json!({"phase": "Pending"})), Some(since));
        let other = json!("2021-01-02T03:04:05Z");
        assert_eq!(prepared(json!({"lastPhaseTransitionTime": (other.clone())})), Some(other));
    }

    #[test]
    fn what_fills_a_claim_is_told_once_or_twice_the_same() {
        let claim = |more: Value| {
            let mut claim = volume(more);
            let spec = claim.get_mut("spec").and_then(Value::as_object_mut).expect("a spec");
            spec.remove("capacity");
            spec.insert("resources", json!({"requests": {"storage": "1Gi"}}));
            claim
        };
        let check = |more: Value, expect: &[&str]| check(&PERSISTENT_VOLUME_CLAIM, None, claim(more), expect);
        let source = json!({"kind": "PersistentVolumeClaim", "name": "a"});
        check(json!({"dataSource": (source.clone()), "dataSourceRef": (source.clone())}), &[]);
        check(
            json!({"dataSource": (source), "dataSourceRef": {"kind": "Odd", "name": "a"}}),
            &[
                r#"spec.dataSourceRef: Invalid value: "Odd": must be 'PersistentVolumeClaim' when referencing the default apiGroup"#,
                "spec: Invalid value: {}: must match dataSourceRef",
            ],
        );
    }
}
