//! Deployments and their kin: what a workload's spec has to be, what may change, what tables show
//! (`k8s.io/kubernetes/pkg/apis/apps/validation`). Nothing acts on them here.

mod stateful;

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_mut;
use allotment_machinery::selector::LabelSelector;
use jiff::Timestamp;

use crate::builtin::core::pod::{drop_closed, name_warning, template_warnings, validate_template};
use crate::builtin::print::cells;
use crate::builtin::print::{self, number, ratio};
use crate::builtin::rules::checks::{
    IMMUTABLE, at_most_all, immutable, is_empty_selector, is_nothing, label_selector, not_negative, number_or_percent,
    selector_shown,
};
use crate::builtin::rules::look::{int, is_given, items, object, object_at, text};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::registry::{Operation, Warnings};

pub(crate) use stateful::STATEFUL_SET;

const TEMPLATE: &[&str] = &["spec", "template", "spec"];
const TEMPLATE_ITSELF: &[&str] = &["spec", "template"];
/// The generation of a DaemonSet's template, in an annotation since `apps/v1`.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The number of replicas of nothing.
fn count_nothing(object: &mut Map) {
    if let Some(spec) = object.object_mut("spec") {
        spec.insert("replicas", 0);
    }
}

/// What all workloads have in common.
const WORKLOAD: Rules = Rules {
    counts: true,
    prepare: |_, object| drop_of_template(object),
    warn: |operation, object| {
        let mut warnings: Warnings = name_warning(operation, object).into_iter().collect();
        warnings.extend(template_warnings(operation, object, TEMPLATE_ITSELF));
        warnings
    },
    ..Rules::of("apps/v1.Deployment")
};

/// Deployments.
pub(crate) const DEPLOYMENT: Rules = Rules {
    bookmark: count_nothing,
    counts_metadata: Some("annotations"),
    validate: |object, errors| with_spec(object, errors, deployment),
    validate_change: selector_stays,
    validate_status: |_, new, errors| status(new, DEPLOYMENT_STATUS, "readyReplicas", errors),
    cells: Some(deployment_cells),
    ..WORKLOAD
};

/// ReplicaSets.
pub(crate) const REPLICA_SET: Rules = Rules {
    bookmark: count_nothing,
    validate: |object, errors| with_spec(object, errors, replica_set),
    validate_change: selector_stays,
    validate_status: |_, new, errors| status(new, REPLICA_SET_STATUS, "readyReplicas", errors),
    cells: Some(|object, now| replica_cells(object, print::selector(spec(object), "selector"), now)),
    ..WORKLOAD.as_message("apps/v1.ReplicaSet")
};

/// ReplicationControllers.
pub(crate) const REPLICATION_CONTROLLER: Rules = Rules {
    // Dependents are left where nothing else is asked for, without a word.
    orphans_unasked: Some(""),
    warn: |operation, object| match operation {
        Operation::Create => (WORKLOAD.warn)(operation, object),
        // Kubernetes takes the template before for the one after.
        Operation::Update { old, .. } => {
            template_warnings(Operation::Update { old: object, subresource: "" }, old, TEMPLATE_ITSELF)
        }
    },
    validate: |object, errors| with_spec(object, errors, replication_controller),
    validate_status: |_, new, errors| status(new, REPLICA_SET_STATUS, "readyReplicas", errors),
    cells: Some(|object, now| replica_cells(object, print::labels(object_at(object, &["spec", "selector"])), now)),
    ..WORKLOAD.as_message("core/v1.ReplicationController")
};

/// DaemonSets.
pub(crate) const DAEMON_SET: Rules = Rules {
    bookmark: convert_count,
    default: convert_count,
    prepare: |operation, object| {
        drop_of_template(object);
        count_template(operation, object);
    },
    warn: |operation, object| match operation {
        Operation::Update { old, .. } if spec(old).get("template") == spec(object).get("template") => {
            Warnings::default()
        }
        _ => template_warnings(operation, object, TEMPLATE_ITSELF),
    },
    validate: |object, errors| with_spec(object, errors, daemon_set),
    validate_change: selector_stays,
    validate_status: |_, new, errors| {
        if let Some(status) = object(new, "status") {
            not_negative(status, DAEMON_STATUS, &Path::new("status"), errors);
        }
    },
    cells: Some(daemon_cells),
    ..WORKLOAD.as_message("apps/v1.DaemonSet")
};

/// ControllerRevisions.
pub(crate) const CONTROLLER_REVISION: Rules = Rules {
    metadata: WHOLE_TOO,
    validate: |object, errors| not_negative(object, &["revision"], &Path::root(), errors),
    validate_new: |object, errors| match object.get("data") {
        Some(Value::Object(_)) => {}
        None | Some(Value::Null) => errors.push(FieldError::required(&Path::new("data"), "data is mandatory")),
        Some(_) => errors.push(FieldError::required(&Path::new("data"), "data must be a valid JSON object")),
    },
    validate_change: |old, new, errors| immutable(old, new, &["data"], &Path::root(), errors),
    cells: Some(revision_cells),
    ..Rules::of("apps/v1.ControllerRevision")
};

const DEPLOYMENT_STATUS: &[&str] = &[
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
];
const REPLICA_SET_STATUS: &[&str] = &[
    "observedGeneration",
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "terminatingReplicas",
];
const DAEMON_STATUS: &[&str] = &[
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

/// The spec of an object; empty where there is none.
fn spec(object: &Map) -> &Map {
    static EMPTY: std::sync::LazyLock<Map> = std::sync::LazyLock::new(Map::new);
    crate::builtin::rules::look::object(object, "spec").unwrap_or(&EMPTY)
}

fn with_spec(object: &Map, errors: &mut Errors, check: fn(&Map, &Path, &mut Errors)) {
    check(spec(object), &Path::new("spec"), errors);
}

fn selector_stays(old: &Map, new: &Map, errors: &mut Errors) {
    let (was, is) = (spec(old).get("selector"), spec(new).get("selector"));
    if was != is {
        let shown = is.and_then(Value::as_object).map_or_else(|| ShownValue::raw("null"), selector_shown);
        errors.push(FieldError::invalid(&Path::new("spec").child("selector"), shown, IMMUTABLE));
    }
}

fn deployment(spec: &Map, path: &Path, errors: &mut Errors) {
    not_negative(
        spec,
        &["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
        path,
        errors,
    );
    selected_template(spec, "deployment", Some("ReplicaSet"), path, errors);
    if let Some(strategy) = object(spec, "strategy") {
        deployment_strategy(strategy, &path.child("strategy"), errors);
    }
    let ready = int(spec, "minReadySeconds").unwrap_or_default();
    if let Some(deadline) = int(spec, "progressDeadlineSeconds").filter(|deadline| *deadline <= ready) {
        let path = path.child("progressDeadlineSeconds");
        errors.push(FieldError::invalid(&path, deadline, "must be greater than minReadySeconds"));
    }
}

fn deployment_strategy(strategy: &Map, path: &Path, errors: &mut Errors) {
    match text(strategy, "type") {
        "Recreate" if is_given(strategy, "rollingUpdate") => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(FieldError::forbidden(&path.child("rollingUpdate"), detail));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let Some(Rolling { path, away, more }) = rolling_update(strategy, path, errors) else { return };
            if let Some(away) = away {
                if is_nothing(Some(away)) && is_nothing(more) {
                    let detail = "may not be 0 when `maxSurge` is 0";
                    errors.push(FieldError::invalid(&path.child("maxUnavailable"), away, detail));
                }
                at_most_all(away, &path.child("maxUnavailable"), errors);
            }
        }
        _ => errors.push(FieldError::not_supported(path, strategy_shown(strategy), &["Recreate", "RollingUpdate"])),
    }
}

/// How many pods may be away and too many while a template's pods are replaced.
struct Rolling<'a> {
    path: Path,
    away: Option<&'a Value>,
    more: Option<&'a Value>,
}

/// What a strategy says of that, each a number or a share; how the two go together is each kind's own.
fn rolling_update<'a>(strategy: &'a Map, path: &Path, errors: &mut Errors) -> Option<Rolling<'a>> {
    let update = object(strategy, "rollingUpdate")?;
    let path = path.child("rollingUpdate");
    let (away, more) = (update.get("maxUnavailable"), update.get("maxSurge"));
    for (name, value) in [("maxUnavailable", away), ("maxSurge", more)] {
        number_or_percent(value.unwrap_or(&Value::Null), &path.child(name), errors);
    }
    Some(Rolling { path, away, more })
}

/// A strategy as messages of Kubernetes show it: the members of its internal type.
fn strategy_shown(strategy: &Map) -> ShownValue {
    let kind = Value::from(text(strategy, "type"));
    let update = object(strategy, "rollingUpdate").map_or_else(
        || "null".to_owned(),
        |update| {
            let [away, more] =
                ["maxUnavailable", "maxSurge"].map(|name| update.get(name).cloned().unwrap_or_else(|| Value::from(0)));
            format!("{{\"MaxUnavailable\":{away},\"MaxSurge\":{more}}}")
        },
    );
    ShownValue::raw(format!("{{\"Type\":{kind},\"RollingUpdate\":{update}}}"))
}

fn replica_set(spec: &Map, path: &Path, errors: &mut Errors) {
    not_negative(spec, &["replicas", "minReadySeconds"], path, errors);
    selected_template(spec, "deployment", Some("ReplicaSet"), path, errors);
}

fn replication_controller(spec: &Map, path: &Path, errors: &mut Errors) {
    not_negative(spec, &["replicas", "minReadySeconds"], path, errors);
    let selector = object(spec, "selector").filter(|selector| !selector.is_empty());
    if selector.is_none() {
        errors.push(FieldError::required(&path.child("selector"), ""));
    }
    let path = path.child("template");
    let Some(template) = object(spec, "template") else {
        return errors.push(FieldError::required(&path, ""));
    };
    let labels = object_at(template, &["metadata", "labels"]);
    let mut selected = selector.into_iter().flat_map(Map::iter);
    if selected.any(|(key, value)| labels.and_then(|labels| labels.get(key)) != Some(value)) {
        labels_differ(template, &path, errors);
    }
    validate_template(template, &path, errors);
    keeps_running(template, "ReplicationController", &path, errors);
}

/// Drops members of the template whose gates Kubernetes leaves closed.
fn drop_of_template(object: &mut Map) {
    if let Some(Value::Object(spec)) = object.get_mut("spec")
        && let Some(Value::Object(template)) = spec.get_mut("template")
    {
        drop_closed(template);
    }
}

fn daemon_set(spec: &Map, path: &Path, errors: &mut Errors) {
    not_negative(spec, &["minReadySeconds", "revisionHistoryLimit"], path, errors);
    label_selector(spec, "selector", path, errors);
    empty_selector(spec, "daemonset", path, errors);
    let empty = Map::new();
    let template = object(spec, "template").unwrap_or(&empty);
    let path_of_template = path.child("template");
    if LabelSelector::from_object(spec.get("selector"))
        .is_ok_and(|selector| !selector.matches(object_at(template, &["metadata", "labels"])))
    {
        labels_differ(template, &path_of_template, errors);
    }
    validate_template(template, &path_of_template, errors);
    keeps_running(template, "DaemonSet", &path_of_template, errors);
    let Some(strategy) = object(spec, "updateStrategy") else { return };
    let path = path.child("updateStrategy");
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let Some(Rolling { path, away, more }) = rolling_update(strategy, &path, errors) else { return };
            for (name, value) in [("maxUnavailable", away), ("maxSurge", more)] {
                at_most_all(value.unwrap_or(&Value::Null), &path.child(name), errors);
            }
            match (is_nothing(away), is_nothing(more)) {
                (false, false) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.push(FieldError::invalid(&path.child("maxSurge"), more.unwrap_or(&Value::Null), detail));
                }
                (true, true) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(&path.child("maxUnavailable"), detail));
                }
                _ => {}
            }
        }
        _ => {
            let supported = ["RollingUpdate", "OnDelete"];
            errors.push(FieldError::not_supported(&path, strategy_shown(strategy), &supported));
        }
    }
}

/// Kubernetes has a number for the annotation, which is 0 where it is absent: whoever sends the object sends it.
fn convert_count(object: &mut Map) {
    let annotations = object_at(object, &["metadata", "annotations"]);
    let given = annotations.and_then(|annotations| text(annotations, TEMPLATE_GENERATION).parse::<i64>().ok());
    if let Some(annotations) = metadata_mut(object).and_then(|metadata| metadata.object_mut("annotations")) {
        annotations.insert(TEMPLATE_GENERATION, given.unwrap_or_default().to_string());
    }
}

/// Counts the changes of a DaemonSet's template, in an annotation that nobody else sets.
fn count_template(operation: Operation<'_>, object: &mut Map) {
    let count = match operation {
        Operation::Create => {
            let given = object_at(object, &["metadata", "annotations"]);
            given
                .and_then(|annotations| text(annotations, TEMPLATE_GENERATION).parse::<i64>().ok())
                .unwrap_or_default()
                .max(1)
        }
        Operation::Update { old, subresource: "" } => {
            let annotations = object_at(old, &["metadata", "annotations"]);
            let before = annotations.map_or("", |annotations| text(annotations, TEMPLATE_GENERATION));
            let changed = spec(old).get("template") != spec(object).get("template");
            before.parse::<i64>().unwrap_or_default() + i64::from(changed)
        }
        Operation::Update { old, .. } => {
            let annotations = object_at(old, &["metadata", "annotations"]);
            let before = annotations.map_or("", |annotations| text(annotations, TEMPLATE_GENERATION));
            before.parse::<i64>().unwrap_or_default()
        }
    };
    if let Some(annotations) = metadata_mut(object).and_then(|metadata| metadata.object_mut("annotations")) {
        annotations.insert(TEMPLATE_GENERATION, count.to_string());
    }
}

/// A selector, and a template that it selects, of pods that keep running for a workload called `of`.
fn selected_template(spec: &Map, kind: &str, of: Option<&str>, path: &Path, errors: &mut Errors) {
    if let Some(selector) = object(spec, "selector") {
        label_selector(spec, "selector", path, errors);
        if LabelSelector::from_object(spec.get("selector")).is_err() {
            let detail = if kind == "statefulset" { "" } else { "invalid label selector" };
            errors.push(FieldError::invalid(&path.child("selector"), selector_shown(selector), detail));
        }
    } else {
        errors.push(FieldError::required(&path.child("selector"), ""));
    }
    empty_selector(spec, kind, path, errors);
    template_of(spec, of, path, errors);
}

fn empty_selector(spec: &Map, kind: &str, path: &Path, errors: &mut Errors) {
    if let Some(selector) = object(spec, "selector").filter(|selector| is_empty_selector(selector)) {
        let detail = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid(&path.child("selector"), selector_shown(selector), detail));
    }
}

fn template_of(spec: &Map, of: Option<&str>, path: &Path, errors: &mut Errors) {
    let (Ok(selector), Some(template)) = (LabelSelector::from_object(spec.get("selector")), object(spec, "template"))
    else {
        return;
    };
    let path = path.child("template");
    if !selector.is_everything() && !selector.matches(object_at(template, &["metadata", "labels"])) {
        labels_differ(template, &path, errors);
    }
    validate_template(template, &path, errors);
    if let Some(of) = of {
        keeps_running(template, of, &path, errors);
    }
}

fn labels_differ(template: &Map, path: &Path, errors: &mut Errors) {
    let labels = object_at(template, &["metadata"]).and_then(|metadata| metadata.get("labels"));
    let path = path.child("metadata").child("labels");
    let detail = "`selector` does not match template `labels`";
    errors.push(FieldError::invalid(&path, labels.unwrap_or(&Value::Null), detail));
}

/// Pods of these workloads run until they are deleted.
fn keeps_running(template: &Map, of: &str, path: &Path, errors: &mut Errors) {
    let Some(pod) = object(template, "spec") else { return };
    let path = path.child("spec");
    if text(pod, "restartPolicy") != "Always" {
        errors.push(FieldError::not_supported(&path.child("restartPolicy"), text(pod, "restartPolicy"), &["Always"]));
    }
    if is_given(pod, "activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {of} is not Supported");
        errors.push(FieldError::forbidden(&path.child("activeDeadlineSeconds"), detail));
    }
}

/// Numbers of a status: none below zero, parts not above the whole. `ready` is what messages call the
/// number of those that are ready.
fn status(object: &Map, numbers: &[&str], ready: &str, errors: &mut Errors) {
    const PARTS: [&str; 5] =
        ["fullyLabeledReplicas", "updatedReplicas", "readyReplicas", "currentReplicas", "availableReplicas"];
    let Some(status) = crate::builtin::rules::look::object(object, "status") else { return };
    let path = Path::new("status");
    not_negative(status, numbers, &path, errors);
    let count = |name: &str| int(status, name).unwrap_or_default();
    for part in PARTS.into_iter().filter(|part| numbers.contains(part)) {
        if count(part) > count("replicas") {
            let detail = "cannot be greater than status.replicas";
            errors.push(FieldError::invalid(&path.child(part), count(part), detail));
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let path = path.child("availableReplicas");
        errors.push(FieldError::invalid(&path, count("availableReplicas"), format!("cannot be greater than {ready}")));
    }
}

fn deployment_cells(object: &Map, now: Timestamp) -> Vec<Value> {
    let [names, images] = print::containers(object_at(object, TEMPLATE));
    let count = |name: &str| number(object, &["status", name]);
    let selector = LabelSelector::from_object(spec(object).get("selector"));
    vec![
        cells::name(object),
        ratio(count("readyReplicas"), number(object, &["spec", "replicas"])),
        Value::from(count("updatedReplicas")),
        Value::from(count("availableReplicas")),
        cells::age(object, now),
        names,
        images,
        Value::from(selector.map_or_else(|_| "<invalid>".to_owned(), |selector| selector.to_string())),
    ]
}

fn replica_cells(object: &Map, selector: Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = print::containers(object_at(object, TEMPLATE));
    vec![
        cells::name(object),
        Value::from(number(object, &["spec", "replicas"])),
        Value::from(number(object, &["status", "replicas"])),
        Value::from(number(object, &["status", "readyReplicas"])),
        cells::age(object, now),
        names,
        images,
        selector,
    ]
}

fn daemon_cells(object: &Map, now: Timestamp) -> Vec<Value> {
    let [names, images] = print::containers(object_at(object, TEMPLATE));
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    let nodes = object_at(object, TEMPLATE).and_then(|pod| crate::builtin::rules::look::object(pod, "nodeSelector"));
    let mut row = vec![cells::name(object)];
    row.extend(counts.map(|name| Value::from(number(object, &["status", name]))));
    row.extend([
        print::labels(nodes),
        cells::age(object, now),
        names,
        images,
        print::selector(spec(object), "selector"),
    ]);
    row
}

fn revision_cells(object: &Map, now: Timestamp) -> Vec<Value> {
    let owners = object_at(object, &["metadata"]).map(|metadata| items(metadata, "ownerReferences"));
    let controller =
        owners.into_iter().flatten().find(|(_, owner)| crate::builtin::rules::look::flag(owner, "controller"));
    let shown = controller.map_or(String::new(), |(_, owner)| {
        let group = text(owner, "apiVersion").split_once('/').map(|(group, _)| format!(".{group}"));
        format!("{}{}/{}", text(owner, "kind").to_lowercase(), group.unwrap_or_default(), text(owner, "name"))
    });
    let revision = object.get("revision").cloned().unwrap_or_else(|| Value::from(0));
    vec![cells::name(object), print::or_none(&shown), revision, cells::age(object, now)]
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;
    use crate::builtin::rules::judged::check;

    #[test]
    fn the_template_of_a_controller_that_selects_nothing_is_judged_too() {
        let controller = json!({"spec": {"selector": {}, "template": {"metadata": {}, "spec": {
            "activeDeadlineSeconds": 5, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "terminationGracePeriodSeconds": 30, "securityContext": {},
            "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always", "resources": {},
                "terminationMessagePolicy": "File"}]
        }}}});
        check(
            &REPLICATION_CONTROLLER,
            None,
            controller,
            &[
                "spec.selector: Required value",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not \
                 Supported",
            ],
        );
    }
}
