//! HorizontalPodAutoscalers (`k8s.io/kubernetes/pkg/apis/autoscaling/validation`). Nothing scales here.
//!
//! Version v2; version v1 is another form of the same objects ([`older`]).

mod annotations;
pub(super) mod older;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use jiff::Timestamp;

use crate::builtin::core::resources::{container_resource, read};
use crate::builtin::print::cells;
use crate::builtin::print::number;
use crate::builtin::rules::checks::{faults, not_negative, one_of, required_name};
use crate::builtin::rules::look::{int, is_given, items, list, object, text};
use crate::builtin::rules::{Errors, Rules};

/// The kinds of metrics, and the member that says more of each.
const METRICS: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
/// How many metrics are shown.
const SHOWN_METRICS: usize = 2;

/// HorizontalPodAutoscalers.
pub(crate) const AUTOSCALER: Rules = Rules {
    validate,
    validate_new: |scaler, errors| {
        let Some(spec) = object(scaler, "spec") else { return };
        not_to_zero(spec, errors);
        target_group(spec, errors);
    },
    validate_change: |old, new, errors| {
        let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
        if int(was, "minReplicas") != Some(0) {
            not_to_zero(is, errors);
        }
        let target = |spec: &'_ Map| {
            let target = object(spec, "scaleTargetRef");
            target.map(|target| (text(target, "apiVersion").to_owned(), text(target, "kind").to_owned()))
        };
        if target(was) != target(is) {
            target_group(is, errors);
        }
    },
    validate_status: |_, scaler, errors| {
        if let Some(status) = object(scaler, "status") {
            not_negative(status, &["currentReplicas", "desiredReplicas"], &Path::new("status"), errors);
        }
    },
    cells: Some(autoscaler_cells),
    ..Rules::of("autoscaling/v2.HorizontalPodAutoscaler")
};

/// Nothing is scaled to zero, a gate that Kubernetes leaves closed; what is there already may stay.
fn not_to_zero(spec: &Map, errors: &mut Errors) {
    if int(spec, "minReplicas") == Some(0) {
        let path = Path::new("spec").child("minReplicas");
        errors.push(FieldError::invalid(&path, 0, "must be greater than or equal to 1"));
    }
}

/// What is scaled is of a group, unless it is of the one kind of the core group that can be.
fn target_group(spec: &Map, errors: &mut Errors) {
    let Some(target) = object(spec, "scaleTargetRef") else { return };
    let may_have_none = text(target, "kind") == "ReplicationController";
    api_version(target, may_have_none, &Path::new("spec").child("scaleTargetRef"), errors);
}

fn api_version(target: &Map, may_have_none: bool, path: &Path, errors: &mut Errors) {
    let given = text(target, "apiVersion");
    let detail = match given.matches('/').count() {
        0 if !may_have_none => "apiVersion must specify API group".to_owned(),
        1 if given.starts_with('/') && !may_have_none && given != "/" => "apiVersion must specify API group".to_owned(),
        0 | 1 => return,
        _ => format!("unexpected GroupVersion string: {given}"),
    };
    errors.push(FieldError::invalid(&path.child("apiVersion"), given, detail));
}

fn validate(scaler: &Map, errors: &mut Errors) {
    let Some(spec) = object(scaler, "spec") else { return };
    let path = Path::new("spec");
    let (least, most) = (int(spec, "minReplicas"), int(spec, "maxReplicas").unwrap_or_default());
    if let Some(least) = least.filter(|least| *least < 0) {
        errors.push(FieldError::invalid(&path.child("minReplicas"), least, "must be greater than or equal to 1"));
    }
    match most {
        0 => errors.push(FieldError::required(&path.child("maxReplicas"), "must be set and greater than 0")),
        most if most < 0 => {
            errors.push(FieldError::invalid(&path.child("maxReplicas"), most, "must be greater than or equal to 1"));
        }
        _ => {}
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(&path.child("maxReplicas"), most, detail));
    }
    if let Some(target) = object(spec, "scaleTargetRef") {
        let path = path.child("scaleTargetRef");
        required_name(target, "kind", names::path_segment, &path, errors);
        required_name(target, "name", names::path_segment, &path, errors);
    }
    for (index, metric) in items(spec, "metrics") {
        validate_metric(metric, &path.child("metrics").index(index), errors);
    }
    let can_see_zero = items(spec, "metrics").any(|(_, metric)| matches!(text(metric, "type"), "Object" | "External"));
    if least == Some(0) && !can_see_zero {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(&path.child("metrics"), detail));
    }
    if let Some(behavior) = object(spec, "behavior") {
        for name in ["scaleUp", "scaleDown"] {
            if let Some(rules) = object(behavior, name) {
                validate_scaling(rules, &path.child("behavior").child(name), errors);
            }
        }
    }
}

/// How fast is scaled in one direction.
fn validate_scaling(rules: &Map, path: &Path, errors: &mut Errors) {
    const LONGEST_WINDOW: i64 = 3600;
    const LONGEST_PERIOD: i64 = 1800;
    let at_most = |value: i64, most: i64, path: &Path, errors: &mut Errors| {
        if value > most {
            errors.push(FieldError::invalid(path, value, format!("must be less than or equal to {most}")));
        }
    };
    if let Some(window) = int(rules, "stabilizationWindowSeconds") {
        let path = path.child("stabilizationWindowSeconds");
        if window < 0 {
            errors.push(FieldError::invalid(&path, window, "must be greater than or equal to zero"));
        }
        at_most(window, LONGEST_WINDOW, &path, errors);
    }
    one_of(rules, "selectPolicy", &["Disabled", "Max", "Min"], path, errors);
    let path = path.child("policies");
    if items(rules, "policies").next().is_none() {
        errors.push(FieldError::required(&path, "must specify at least one Policy"));
    }
    for (index, policy) in items(rules, "policies") {
        let path = path.index(index);
        one_of(policy, "type", &["Percent", "Pods"], &path, errors);
        for name in ["value", "periodSeconds"] {
            let number = int(policy, name).unwrap_or_default();
            if number <= 0 {
                errors.push(FieldError::invalid(&path.child(name), number, "must be greater than zero"));
            }
        }
        at_most(int(policy, "periodSeconds").unwrap_or_default(), LONGEST_PERIOD, &path.child("periodSeconds"), errors);
    }
}

fn validate_metric(metric: &Map, path: &Path, errors: &mut Errors) {
    /// The members in the order in which Kubernetes looks at them: only the first is judged.
    const SOURCES: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];
    let kind = text(metric, "type");
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), "must specify a metric source type"));
    }
    let given: Vec<&str> = SOURCES.into_iter().filter(|name| is_given(metric, name)).collect();
    if let Some((first, source)) = given.first().and_then(|first| Some((*first, object(metric, first)?)))
        && let Some((kind, _)) = METRICS.iter().find(|(_, own)| *own == first)
    {
        validate_source(kind, source, &path.child(first), errors);
    }
    let own = METRICS.iter().find(|(name, _)| *name == kind).map(|(_, own)| *own);
    match own {
        Some(own) if !is_given(metric, own) => {
            let detail = "must populate information for the given metric source";
            errors.push(FieldError::required(&path.child(own), detail));
        }
        Some(_) => {}
        None => {
            // It is told of twice.
            let supported = METRICS.map(|(name, _)| name);
            let error = FieldError::not_supported(&path.child("type"), kind, &supported);
            errors.extend([error.clone(), error]);
        }
    }
    if given.len() != 1 {
        for other in given.into_iter().filter(|other| Some(*other) != own) {
            errors.push(FieldError::forbidden(&path.child(other), "must populate the given metric source only"));
        }
    }
}

fn validate_source(kind: &str, source: &Map, path: &Path, errors: &mut Errors) {
    let required = |owner: &Map, name: &str, path: &Path, detail: &str, errors: &mut Errors| {
        if text(owner, name).is_empty() {
            errors.push(FieldError::required(&path.child(name), detail));
        }
    };
    let empty = Map::new();
    let of_resource = matches!(kind, "Resource" | "ContainerResource");
    if of_resource {
        required(source, "name", path, "must specify a resource name", errors);
    } else {
        let metric = object(source, "metric").unwrap_or(&empty);
        required(metric, "name", &path.child("metric"), "must specify a metric name", errors);
        let name = text(metric, "name");
        faults(&path.child("metric").child("name"), name, names::path_segment(name), errors);
    }
    if kind == "ContainerResource" {
        let (name, container) = (text(source, "name"), text(source, "container"));
        if container.is_empty() {
            errors.push(FieldError::required(&path.child("container"), "must specify a container"));
        } else {
            faults(&path.child("container"), container, names::dns1123_label(container), errors);
        }
        if !name.is_empty() {
            container_resource(name, &path.child("name"), errors);
        }
    }
    if kind == "Object" {
        let (described, path) = (object(source, "describedObject").unwrap_or(&empty), path.child("describedObject"));
        required_name(described, "kind", names::path_segment, &path, errors);
        required_name(described, "name", names::path_segment, &path, errors);
        api_version(described, true, &path, errors);
    }
    let (target, path) = (object(source, "target").unwrap_or(&empty), path.child("target"));
    validate_target(target, &path, errors);
    let has = |name: &str| is_given(target, name);
    let missing = |name: &str, detail: &str| Some(FieldError::required(&path.child(name), detail));
    let surplus = |name: &str, detail: &str| Some(FieldError::forbidden(&path.child(name), detail));
    errors.extend(match (kind, has("averageValue"), has("value"), has("averageUtilization")) {
        ("Resource" | "ContainerResource", false, _, false) => {
            missing("averageUtilization", "must set either a target raw value or a target utilization")
        }
        ("Resource" | "ContainerResource", true, _, true) => {
            surplus("averageValue", "may not set both a target raw value and a target utilization")
        }
        ("External", false, false, _) => {
            missing("averageValue", "must set either a target value for metric or a per-pod target")
        }
        ("External", true, true, _) => {
            surplus("value", "may not set both a target value for metric and a per-pod target")
        }
        ("Object", false, false, _) => missing("averageValue", "must set either a target value or averageValue"),
        ("Pods", false, _, _) => missing("averageValue", "must specify a positive target averageValue"),
        _ => None,
    });
}

fn validate_target(target: &Map, path: &Path, errors: &mut Errors) {
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(&path.child("type"), kind, detail));
    }
    for name in ["value", "averageValue"] {
        if let Some(value) = target.get(name).filter(|value| read(value).is_some_and(|amount| amount.nanos() <= 0)) {
            errors.push(FieldError::invalid(&path.child(name), value, "must be positive"));
        }
    }
    if let Some(share) = int(target, "averageUtilization").filter(|share| *share < 1) {
        errors.push(FieldError::invalid(&path.child("averageUtilization"), share, "must be greater than 0"));
    }
}

fn autoscaler_cells(scaler: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let spec = object(scaler, "spec").unwrap_or(&empty);
    let target = object(spec, "scaleTargetRef").unwrap_or(&empty);
    vec![
        cells::name(scaler),
        Value::from(format!("{}/{}", text(target, "kind"), text(target, "name"))),
        Value::from(metrics_shown(spec, scaler)),
        Value::from(int(spec, "minReplicas").map_or_else(|| "<unset>".to_owned(), |count| count.to_string())),
        Value::from(int(spec, "maxReplicas").unwrap_or_default()),
        Value::from(number(scaler, &["status", "currentReplicas"])),
        cells::age(scaler, now),
    ]
}

/// Each metric as `current/target`, the first of them.
fn metrics_shown(spec: &Map, scaler: &Map) -> String {
    let status = object(scaler, "status");
    let all: Vec<String> = items(spec, "metrics")
        .map(|(index, metric)| {
            let own = METRICS.iter().find(|(name, _)| *name == text(metric, "type")).map_or("", |(_, own)| own);
            let source = object(metric, own);
            let current = status.and_then(|status| list(status, "currentMetrics").get(index)?.as_object());
            let current = current.and_then(|current| object(current, own)).and_then(|own| object(own, "current"));
            let name = source.map_or("", |source| text(source, "name"));
            let target = source.and_then(|source| object(source, "target")).map(target_shown).unwrap_or_default();
            let current = current.map(target_shown).filter(|shown| !shown.is_empty());
            let current = current.unwrap_or_else(|| "<unknown>".to_owned());
            if text(metric, "type") == "Resource" {
                format!("{name}: {current}/{target}")
            } else {
                format!("{current}/{target}")
            }
        })
        .collect();
    match all.len() {
        0 => "<none>".to_owned(),
        count if count > SHOWN_METRICS => {
            format!("{} + {} more...", all[..SHOWN_METRICS].join(", "), count - SHOWN_METRICS)
        }
        _ => all.join(", "),
    }
}

fn target_shown(target: &Map) -> String {
    match (int(target, "averageUtilization"), text(target, "averageValue"), text(target, "value")) {
        (Some(percent), _, _) => format!("{percent}%"),
        (None, "", value) => value.to_owned(),
        (None, average, _) => format!("{average} (avg)"),
    }
}
