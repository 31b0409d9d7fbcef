//! LimitRanges and ResourceQuotas (`k8s.io/kubernetes/pkg/apis/core/validation`). They are stored, and not yet
//! enforced.

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use allotment_machinery::quantity::Quantity;
use jiff::Timestamp;

use crate::builtin::core::resources::{entries, is_of_quotas, read, validate_quota_list, validate_range_list};
use crate::builtin::print::cells;
use crate::builtin::rules::checks::faults;
use crate::builtin::rules::look::{is_given, items, list, object, object_at, text, texts};
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
    names_itself: true,
    creates_on_update: true,
    validate: validate_range,
    ..Rules::of("core/v1.LimitRange")
};

/// ResourceQuotas.
pub(crate) const RESOURCE_QUOTA: Rules = Rules {
    answers_object: true,
    validate: validate_quota,
    validate_change: |old, new, errors| {
        let scopes = |object: &Map| {
            object_at(object, &["spec"]).map(|spec| texts(spec, "scopes").map(str::to_owned).collect::<BTreeSet<_>>())
        };
        if scopes(old).unwrap_or_default() != scopes(new).unwrap_or_default() {
            let shown = object_at(new, &["spec"]).and_then(|spec| spec.get("scopes").cloned()).unwrap_or_default();
            let path = Path::new("spec").child("scopes");
            errors.push(FieldError::invalid(&path, &shown, crate::builtin::rules::checks::IMMUTABLE));
        }
    },
    validate_status: |_, new, errors| {
        if let Some(status) = object(new, "status") {
            validate_quota_list(status, "hard", &Path::new("status"), errors);
            validate_quota_list(status, "used", &Path::new("status"), errors);
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
        range_type(kind, &path.child("type"), errors);
        let of_containers = matches!(kind, "Pod" | "Container");
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
            validate_range_list(of_containers, item, name, &path, errors);
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

fn range_type(kind: &str, path: &Path, errors: &mut Errors) {
    let found = names::qualified_name(kind);
    let fits = found.is_empty();
    faults(path, kind, found, errors);
    if fits && !kind.contains('/') && !["Pod", "Container", "PersistentVolumeClaim"].contains(&kind) {
        errors.push(FieldError::invalid(path, kind, "must be a standard limit type or fully qualified"));
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
    validate_quota_list(spec, "hard", &path, errors);
    let scopes: Vec<&str> = texts(spec, "scopes").collect();
    let shown = ShownValue::raw(Value::Array(list(spec, "scopes").to_vec()).to_string());
    if !scopes.is_empty() {
        let path = path.child("scopes");
        let mut fit = BTreeSet::new();
        for scope in &scopes {
            if !SCOPES.contains(scope) {
                errors.push(FieldError::invalid(&path, shown.clone(), "unsupported scope"));
            }
            out_of_scope(spec, scope, &mut fit, &path, &shown, errors);
        }
        conflicting(&scopes, &path, &shown, errors);
    }
    if let Some(selector) = object(spec, "scopeSelector") {
        scope_selector(spec, selector, &shown, &path.child("scopeSelector").child("matchExpressions"), errors);
    }
}

/// Tells of each resource that the scope has nothing to do with. A scope that stands in `fit` has to do with all.
fn out_of_scope<'a>(
    spec: &Map,
    scope: &'a str,
    fit: &mut BTreeSet<&'a str>,
    path: &Path,
    shown: &ShownValue,
    errors: &mut Errors,
) {
    if !SCOPES.contains(&scope) || fit.contains(scope) || errors.is_full() {
        return;
    }
    let before = errors.len();
    const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    for (resource, _) in entries(spec, "hard").filter(|(resource, _)| is_of_quotas(resource)) {
        let fits = match scope {
            "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
                resource == "pods" || COMPUTE.contains(&resource)
            }
            "BestEffort" => resource == "pods",
            "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
            _ => true,
        };
        if !fits {
            errors.push(FieldError::invalid(path, shown.clone(), "unsupported scope applied to resource"));
        }
    }
    if errors.len() == before {
        fit.insert(scope);
    }
}

fn conflicting(scopes: &[&str], path: &Path, shown: &ShownValue, errors: &mut Errors) {
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.push(FieldError::invalid(path, shown.clone(), "conflicting scopes"));
        }
    }
}

fn scope_selector(spec: &Map, selector: &Map, scopes: &ShownValue, path: &Path, errors: &mut Errors) {
    const EXISTS: [&str; 5] =
        ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
    let selector_text = selector_shown(selector);
    let (mut seen, mut fit) = (Vec::new(), BTreeSet::new());
    for (_, requirement) in items(selector, "matchExpressions") {
        let (scope, operator) = (text(requirement, "scopeName"), text(requirement, "operator"));
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(&path.child("scopeName"), scope, "unsupported scope"));
        }
        out_of_scope(spec, scope, &mut fit, path, &selector_text, errors);
        if EXISTS.contains(&scope) && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                          ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(&path.child("operator"), operator, detail));
        }
        let values = list(requirement, "values");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(FieldError::required(&path.child("values"), detail));
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if values.is_empty() => {}
            "Exists" | "DoesNotExist" => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(FieldError::invalid(&path.child("values"), &Value::Array(values.to_vec()), detail));
            }
            other => errors.push(FieldError::invalid(&path.child("operator"), other, "not a valid selector operator")),
        }
        seen.push(scope);
    }
    conflicting(&seen, path, scopes, errors);
}

/// A selector as messages of Kubernetes show it: the members of its internal type.
fn selector_shown(selector: &Map) -> ShownValue {
    let requirement = |(_, requirement): (usize, &Map)| {
        let member = |name: &str| Value::from(text(requirement, name)).to_string();
        let values = requirement.get("values").unwrap_or(&Value::Null);
        format!("{{\"ScopeName\":{},\"Operator\":{},\"Values\":{values}}}", member("scopeName"), member("operator"))
    };
    let requirements: Vec<String> = items(selector, "matchExpressions").map(requirement).collect();
    ShownValue::raw(format!("{{\"MatchExpressions\":[{}]}}", requirements.join(",")))
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
