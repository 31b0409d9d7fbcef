//! LimitRanges and ResourceQuotas (`k8s.io/kubernetes/pkg/apis/core/validation`). They are stored, and not yet
//! enforced.

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::quantity::Quantity;
use jiff::Timestamp;

use crate::builtin::core::resources::{entries, read, validate_list};
use crate::builtin::print::cells;
use crate::builtin::rules::look::{is_given, items, list, object, object_at, text};
use crate::builtin::rules::{Errors, Rules};
use crate::registry::MetadataChecks;

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

/// LimitRanges.
pub(crate) const LIMIT_RANGE: Rules = Rules {
    metadata: MetadataChecks { change: 0, whole: 1, core: true },
    creates_on_update: true,
    validate: validate_range,
    ..Rules::of("core/v1.LimitRange")
};

/// ResourceQuotas.
pub(crate) const RESOURCE_QUOTA: Rules = Rules {
    answers_object: true,
    validate: validate_quota,
    validate_change: |old, new, errors| {
        let scopes = |object_: &Map| object_at(object_, &["spec"]).and_then(|spec| spec.get("scopes").cloned());
        if scopes(old) != scopes(new) {
            let shown = scopes(new).unwrap_or_default();
            let path = Path::new("spec").child("scopes");
            errors.push(FieldError::invalid(&path, &shown, crate::builtin::rules::checks::IMMUTABLE));
        }
    },
    validate_status: |_, new, errors| {
        if let Some(status) = object(new, "status") {
            validate_list(status, "hard", &Path::new("status"), errors);
            validate_list(status, "used", &Path::new("status"), errors);
        }
    },
    cells: Some(quota_cells),
    ..Rules::of("core/v1.ResourceQuota")
};

fn validate_range(range: &Map, errors: &mut Errors) {
    let Some(spec) = object(range, "spec") else { return };
    let mut seen = BTreeSet::new();
    for (index, item) in items(spec, "limits") {
        let path = Path::new("spec").child("limits").index(index);
        let kind = text(item, "type");
        if kind.is_empty() {
            errors.push(FieldError::required(&path.child("type"), ""));
        }
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&path.child("type"), kind));
        }
        let pod = kind == "Pod";
        for name in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            if pod && name.starts_with("default") {
                if is_given(item, name) {
                    let detail = "may not be specified when `type` is 'Pod'";
                    errors.push(FieldError::forbidden(&path.child(name), detail));
                }
                continue;
            }
            validate_list(item, name, &path, errors);
        }
        if kind == "PersistentVolumeClaim" {
            let has = |name: &str| object(item, name).is_some_and(|list| is_given(list, "storage"));
            if !has("min") && !has("max") {
                let detail = "either minimum or maximum storage value is required, but neither was provided";
                errors.push(FieldError::required(&path.child("limits"), detail));
            }
        }
        order(item, pod, &path, errors);
    }
}

/// Which of two amounts may not be above the other, where it is told and what is said.
const ORDER: [(&str, &str, &str, &str); 6] = [
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
];

fn order(item: &Map, pod: bool, path: &Path, errors: &mut Errors) {
    let amount = |list: &str, name: &str| -> Option<(Quantity, String)> {
        let value = object(item, list)?.get(name)?;
        Some((read(value)?, value.as_str()?.to_owned()))
    };
    let lists =
        ["max", "min", "default", "defaultRequest"].into_iter().filter(|list| !(pod && list.starts_with("default")));
    let names: BTreeSet<&str> = lists.flat_map(|list| entries(item, list)).map(|(name, _)| name).collect();
    for name in names {
        for (small, large, told, detail) in ORDER {
            if pod && (small.starts_with("default") || large.starts_with("default")) {
                continue;
            }
            let (Some((less, less_text)), Some((more, more_text))) = (amount(small, name), amount(large, name)) else {
                continue;
            };
            if less > more {
                // What is shown is not always what is told of, as in Kubernetes.
                let shown = match (small, told) {
                    ("min", "defaultRequest") | ("default", "default") => &more_text,
                    _ => &less_text,
                };
                let detail = detail.replacen("{}", &less_text, 1).replacen("{}", &more_text, 1);
                errors.push(FieldError::invalid(&path.child(told).key(name), shown, detail));
            }
        }
    }
    for (name, ratio) in entries(item, "maxLimitRequestRatio") {
        if read(ratio).is_some_and(|ratio| ratio < Quantity::from_units(1)) {
            let detail = format!("ratio {} is less than 1", ratio.as_str().unwrap_or_default());
            errors.push(FieldError::invalid(&path.child("maxLimitRequestRatio").key(name), ratio, detail));
        }
    }
}

fn validate_quota(quota: &Map, errors: &mut Errors) {
    let Some(spec) = object(quota, "spec") else { return };
    let path = Path::new("spec");
    validate_list(spec, "hard", &path, errors);
    let scopes: Vec<&str> = crate::builtin::rules::look::texts(spec, "scopes").collect();
    let shown = Value::Array(list(spec, "scopes").to_vec());
    let path = path.child("scopes");
    for _ in scopes.iter().filter(|scope| !SCOPES.contains(scope)) {
        errors.push(FieldError::invalid(&path, &shown, "unsupported scope"));
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.push(FieldError::invalid(&path, &shown, "conflicting scopes"));
        }
    }
}

fn quota_cells(quota: &Map, now: Timestamp) -> Vec<Value> {
    let status = object(quota, "status");
    let used = status.and_then(|status| object(status, "used"));
    let column = |limits: bool| {
        let hard = status.into_iter().flat_map(|status| entries(status, "hard"));
        let shown = hard.filter(|(name, _)| name.starts_with("limits.") == limits).map(|(name, hard)| {
            let used = used.map_or("", |used| text(used, name));
            let used = if used.is_empty() { "0" } else { used };
            format!("{name}: {used}/{}", hard.as_str().unwrap_or_default())
        });
        Value::from(shown.collect::<Vec<_>>().join(", "))
    };
    vec![cells::name(quota), column(false), column(true), cells::age(quota, now)]
}
