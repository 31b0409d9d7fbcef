//! PersistentVolumeClaims, and templates of them (`k8s.io/kubernetes/pkg/apis/core/validation`).

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use allotment_machinery::quantity::Quantity;

use super::{VOLUME_MODES, access_modes, positive};
use crate::builtin::core::resources::{amount, read};
use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{IMMUTABLE, label_selector, one_of, optional_name, required};
use crate::builtin::rules::look::{is_given, list, object, object_at, text};
use crate::registry::Warnings;

/// Where a claim told its class before there was a member for it.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What a claim, or a template of one, has to be.
pub(crate) fn claim_spec(spec: &Map, path: &Path, errors: &mut Errors) {
    if list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(&path.child("accessModes"), "at least 1 access mode is required"));
    }
    label_selector(spec, "selector", path, errors);
    access_modes(spec, path, errors);
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
    sources(spec, path, errors);
    optional_name(spec, "volumeAttributesClassName", names::dns1123_subdomain, path, errors);
}

/// What a claim is filled from stands in two members; whoever writes one of them means both. Sources that were never
/// taken in the older one are dropped there, and those of other namespaces (KEP-1495).
pub(super) fn settle_sources(old: Option<&Map>, claim: &mut Map) {
    let old = old.and_then(|old| object(old, "spec"));
    let had = |name: &str| old.is_some_and(|old| is_given(old, name));
    let Some(spec) = claim.object_mut("spec") else { return };
    let elsewhere =
        |spec: &Map| object(spec, "dataSourceRef").is_some_and(|source| !text(source, "namespace").is_empty());
    if elsewhere(spec) && !had("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    let known = object(spec, "dataSource").is_some_and(|source| {
        [("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io")]
            .contains(&(text(source, "kind"), text(source, "apiGroup")))
    });
    if !had("dataSource") && !had("dataSourceRef") && !is_given(spec, "dataSourceRef") && !known {
        spec.remove("dataSource");
    }
    for (from, to) in [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")] {
        let Some(source) = object(spec, from).filter(|_| !is_given(spec, to) && !elsewhere(spec)) else { continue };
        let mut copy = source.clone();
        copy.remove("namespace");
        spec.insert(to, Value::Object(copy));
    }
}

/// What the volume is filled from is told in one member or the same in two.
fn sources(spec: &Map, path: &Path, errors: &mut Errors) {
    for name in ["dataSource", "dataSourceRef"] {
        let Some(source) = object(spec, name) else { continue };
        let path = path.child(name);
        required(source, "name", &path, errors);
        required(source, "kind", &path, errors);
        let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(FieldError::invalid(&path, kind, detail));
        }
        optional_name(source, "apiGroup", names::dns1123_subdomain, &path, errors);
        if name == "dataSourceRef" {
            optional_name(source, "namespace", names::dns1123_label, &path, errors);
        }
    }
    let (Some(one), Some(other)) = (object(spec, "dataSource"), object(spec, "dataSourceRef")) else { return };
    let elsewhere = !text(other, "namespace").is_empty();
    let same = ["apiGroup", "kind", "name"].iter().all(|name| one.get(name) == other.get(name));
    let detail = match (elsewhere, same) {
        (true, _) => "may not be specified when dataSourceRef.namespace is specified",
        (false, false) => "must match dataSourceRef",
        (false, true) => return,
    };
    // Kubernetes shows a path where the source should be, and a path has nothing to show.
    errors.push(FieldError::invalid(path, ShownValue::raw("{}"), detail));
}

/// A claim keeps what it asks for; one that is bound may grow.
pub(super) fn claim_change(old: &Map, new: &Map, errors: &mut Errors) {
    let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
    let bound = object(new, "status").is_some_and(|status| text(status, "phase") == "Bound");
    let upgrades = gains_class(old, new, errors);
    let unnamed = text(was, "volumeName").is_empty();
    let fixed = |spec: &Map| {
        let mut spec = spec.clone();
        if unnamed {
            spec.remove("volumeName");
        }
        if upgrades {
            spec.remove("storageClassName");
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
    let given = object_at(old, &["status", "capacity"]).and_then(|capacity| capacity.get("storage").and_then(read));
    let nanos = |quantity: Option<Quantity>| quantity.map_or(0, |quantity| quantity.nanos());
    if nanos(size(is)) < nanos(size(was)) && nanos(size(is)) <= nanos(given) {
        let path = path.child("resources").child("requests").child("storage");
        errors.push(FieldError::forbidden(&path, "field can not be less than status.capacity"));
    }
    if was.get("volumeMode") != is.get("volumeMode") {
        let shown = is.get("volumeMode").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(&Path::new("volumeMode"), shown, IMMUTABLE));
    }
}

/// Whether a claim without class gets one that it may have: any, or that of its annotation, which stays as it is.
fn gains_class(old: &Map, new: &Map, errors: &mut Errors) -> bool {
    let annotation = |claim: &Map| {
        let annotations = object_at(claim, &["metadata", "annotations"])?;
        annotations.get(CLASS)?.as_str().map(str::to_owned)
    };
    let class =
        |claim: &Map| object(claim, "spec").and_then(|spec| spec.get("storageClassName")?.as_str().map(str::to_owned));
    let (was, is) = (annotation(old), annotation(new));
    let classless = object(old, "spec").is_none_or(|spec| !is_given(spec, "storageClassName"));
    let given = class(new).filter(|_| classless);
    let moves = was.is_some() && given == was && (is.is_none() || is == was);
    if !moves && was.clone().unwrap_or_default() != is.clone().unwrap_or_default() {
        let path = Path::new("metadata").child("annotations").child(CLASS);
        errors.push(FieldError::invalid(&path, is.unwrap_or_default().as_str(), IMMUTABLE));
    }
    given.is_some_and(|given| was.is_none_or(|was| was == given))
}

/// What is said of a claim.
pub(super) fn claim_warnings(claim: &Map) -> Warnings {
    let mut warnings = Warnings::default();
    if object_at(claim, &["metadata", "annotations"]).is_some_and(|annotations| annotations.contains_key(CLASS)) {
        warnings.push(format!(
            "metadata.annotations[{CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    for list in ["requests", "limits"] {
        let size = object_at(claim, &["spec", "resources", list]).and_then(|amounts| amounts.get("storage"));
        if let Some((size, quantity)) = size.and_then(|size| Some((size.as_str()?, read(size)?)))
            && quantity.nanos() / 1_000_000 % 1000 != 0
        {
            warnings.push(format!(
                "spec.resources.{list}[storage]: fractional byte value {size:?} is invalid, must be an integer"
            ));
        }
    }
    warnings
}

/// What is wrong with the status of a claim.
pub(super) fn validate_claim_status(claim: &Map, errors: &mut Errors) {
    let Some(status) = object(claim, "status") else { return };
    let path = Path::new("status").child("capacity");
    for (name, value) in object(status, "capacity").into_iter().flat_map(Map::iter) {
        not_negative(value, &path.key(name), errors);
    }
}

/// An amount that is not below zero.
pub(super) fn not_negative(value: &Value, path: &Path, errors: &mut Errors) {
    if let Some(quantity) = read(value).filter(|quantity| quantity.units() < 0) {
        errors.push(FieldError::invalid(path, quantity.units(), "must be a valid resource quantity"));
    }
}

/// The class of a claim or a volume, wherever it is told.
pub(super) fn class_of(object: &Map) -> &str {
    let annotation = object_at(object, &["metadata", "annotations"]).and_then(|have| have.get(CLASS)?.as_str());
    annotation.unwrap_or_else(|| object_at(object, &["spec"]).map_or("", |spec| text(spec, "storageClassName")))
}
