//! Deployments and their kin: what a workload's spec has to be, what may change, what tables show
//! (`k8s.io/kubernetes/pkg/apis/apps/validation`). Nothing acts on them here.

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use allotment_machinery::object::metadata_mut;
use allotment_machinery::selector::LabelSelector;
use jiff::Timestamp;

use crate::builtin::core::pod::{template_warnings, validate_template};
use crate::builtin::print::cells;
use crate::builtin::print::{self, number, ratio};
use crate::builtin::rules::checks::{
    at_most_all, immutable, is_empty_selector, is_nothing, label_selector, not_negative, number_or_percent, one_of,
    optional_name,
};
use crate::builtin::rules::look::{int, is_given, items, object, object_at, text};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::builtin::storage;
use crate::registry::Operation;

const TEMPLATE: &[&str] = &["spec", "template", "spec"];
/// The generation of a DaemonSet's template, in an annotation since `apps/v1`.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// What all workloads have in common.
const WORKLOAD: Rules =
    Rules { counts: true, warn: |_, object| template_warnings(object, TEMPLATE), ..Rules::of("apps/v1.Deployment") };

/// Deployments.
pub(crate) const DEPLOYMENT: Rules = Rules {
    counts_metadata: Some("annotations"),
    validate: |object, errors| with_spec(object, errors, deployment),
    validate_change: selector_stays,
    validate_status: |_, new, errors| status(new, DEPLOYMENT_STATUS, "readyReplicas", errors),
    cells: Some(deployment_cells),
    ..WORKLOAD
};

/// ReplicaSets.
pub(crate) const REPLICA_SET: Rules = Rules {
    validate: |object, errors| with_spec(object, errors, replica_set),
    validate_change: selector_stays,
    validate_status: |_, new, errors| status(new, REPLICA_SET_STATUS, "readyReplicas", errors),
    cells: Some(|object, now| replica_cells(object, print::selector(spec(object), "selector"), now)),
    ..WORKLOAD.as_message("apps/v1.ReplicaSet")
};

/// ReplicationControllers.
pub(crate) const REPLICATION_CONTROLLER: Rules = Rules {
    validate: |object, errors| with_spec(object, errors, replication_controller),
    validate_status: |_, new, errors| status(new, REPLICA_SET_STATUS, "readyReplicas", errors),
    cells: Some(|object, now| replica_cells(object, print::labels(object_at(object, &["spec", "selector"])), now)),
    ..WORKLOAD.as_message("core/v1.ReplicationController")
};

/// StatefulSets.
pub(crate) const STATEFUL_SET: Rules = Rules {
    prepare: |operation, object| {
        // A set without availability in its status has none.
        if matches!(operation, Operation::Create)
            && let Some(status) = object.object_mut("status")
        {
            status.insert("availableReplicas", 0);
        }
    },
    validate: |object, errors| with_spec(object, errors, stateful_set),
    validate_change: stateful_change,
    validate_status: |_, new, errors| status(new, STATEFUL_STATUS, "status.readyReplicas", errors),
    cells: Some(|object, now| {
        let [names, images] = print::containers(object_at(object, TEMPLATE));
        let ready = number(object, &["status", "readyReplicas"]);
        let wanted = number(object, &["spec", "replicas"]);
        vec![cells::name(object), ratio(ready, wanted), cells::age(object, now), names, images]
    }),
    ..WORKLOAD.as_message("apps/v1.StatefulSet")
};

/// DaemonSets.
pub(crate) const DAEMON_SET: Rules = Rules {
    prepare: count_template,
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
    validate: |object, errors| {
        match object.get("data") {
            Some(Value::Object(_)) => {}
            None | Some(Value::Null) => errors.push(FieldError::required(&Path::new("data"), "data is mandatory")),
            Some(_) => errors.push(FieldError::required(&Path::new("data"), "data must be a valid JSON object")),
        }
        not_negative(object, &["revision"], &Path::root(), errors);
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
const STATEFUL_STATUS: &[&str] = &[
    "observedGeneration",
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "collisionCount",
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
    immutable(spec(old), spec(new), &["selector"], &Path::new("spec"), errors);
}

fn deployment(spec: &Map, path: &Path, errors: &mut Errors) {
    not_negative(
        spec,
        &["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
        path,
        errors,
    );
    selected_template(spec, "deployment", "ReplicaSet", path, errors);
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
    let update = strategy.get("rollingUpdate").unwrap_or(&Value::Null);
    ShownValue::raw(format!("{{\"Type\":{kind},\"RollingUpdate\":{update}}}"))
}

fn replica_set(spec: &Map, path: &Path, errors: &mut Errors) {
    not_negative(spec, &["replicas", "minReadySeconds"], path, errors);
    selected_template(spec, "deployment", "ReplicaSet", path, errors);
}

fn replication_controller(spec: &Map, path: &Path, errors: &mut Errors) {
    not_negative(spec, &["replicas", "minReadySeconds"], path, errors);
    let selector = object(spec, "selector").filter(|selector| !selector.is_empty());
    let Some(selector) = selector else {
        errors.push(FieldError::required(&path.child("selector"), ""));
        return;
    };
    let path = path.child("template");
    let Some(template) = object(spec, "template") else {
        return errors.push(FieldError::required(&path, ""));
    };
    let labels = object_at(template, &["metadata", "labels"]);
    if selector.iter().any(|(key, value)| labels.and_then(|labels| labels.get(key)) != Some(value)) {
        labels_differ(template, &path, errors);
    }
    validate_template(template, &path, errors);
    keeps_running(template, "ReplicationController", &path, errors);
}

fn stateful_set(spec: &Map, path: &Path, errors: &mut Errors) {
    let both = "must be 'OrderedReady' or 'Parallel'";
    match text(spec, "podManagementPolicy") {
        "OrderedReady" | "Parallel" => {}
        other => errors.push(FieldError::invalid(&path.child("podManagementPolicy"), other, both)),
    }
    if let Some(strategy) = object(spec, "updateStrategy") {
        stateful_strategy(strategy, &path.child("updateStrategy"), errors);
    }
    if let Some(policy) = object(spec, "persistentVolumeClaimRetentionPolicy") {
        for name in ["whenDeleted", "whenScaled"] {
            one_of(policy, name, &["Retain", "Delete"], &path.child("persistentVolumeClaimRetentionPolicy"), errors);
        }
    }
    not_negative(spec, &["replicas", "minReadySeconds", "revisionHistoryLimit"], path, errors);
    if let Some(ordinals) = object(spec, "ordinals") {
        not_negative(ordinals, &["start"], &path.child("ordinals"), errors);
    }
    optional_name(spec, "serviceName", names::dns1123_label, path, errors);
    for (index, claim) in items(spec, "volumeClaimTemplates") {
        if let Some(claim) = object(claim, "spec") {
            storage::claim_spec(claim, &path.child("volumeClaimTemplates").index(index).child("spec"), errors);
        }
    }
    let spec = with_claims(spec);
    selected_template(&spec, "statefulset", "StatefulSet", path, errors);
}

/// The spec as its pods see it: claims are volumes, and names of pods are the controller's to give.
fn with_claims(spec: &Map) -> Map {
    let claims: Vec<Value> = items(spec, "volumeClaimTemplates")
        .filter_map(|(_, claim)| object(claim, "metadata"))
        .map(|metadata| {
            let name = text(metadata, "name");
            allotment_machinery::json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
        })
        .collect();
    let mut spec = spec.clone();
    if let Some(Value::Object(template)) = spec.get_mut("template")
        && let Some(Value::Object(pod)) = template.get_mut("spec")
    {
        pod.remove("subdomain");
        pod.remove("hostname");
        if !claims.is_empty()
            && let Some(volumes) = pod.get_or_insert_with("volumes", || Value::Array(Vec::new())).as_array_mut()
        {
            volumes.retain(|volume| claims.iter().all(|claim| claim.get("name") != volume.get("name")));
            volumes.splice(0..0, claims);
        }
    }
    spec
}

fn stateful_strategy(strategy: &Map, path: &Path, errors: &mut Errors) {
    match text(strategy, "type") {
        "OnDelete" => {
            if let Some(update) = strategy.get("rollingUpdate").filter(|update| !update.is_null()) {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                let member = |name: &str| update.get(name).unwrap_or(&Value::Null).to_string();
                let (partition, unavailable) = (member("partition"), member("maxUnavailable"));
                let shown = ShownValue::raw(format!("{{\"Partition\":{partition},\"MaxUnavailable\":{unavailable}}}"));
                errors.push(FieldError::invalid(&path.child("rollingUpdate"), shown, detail));
            }
        }
        "RollingUpdate" => {
            if let Some(update) = object(strategy, "rollingUpdate") {
                not_negative(update, &["partition"], &path.child("rollingUpdate"), errors);
            }
        }
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::invalid(path, strategy_shown(strategy), detail));
        }
    }
}

fn stateful_change(old: &Map, new: &Map, errors: &mut Errors) {
    const MAY_CHANGE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Map| {
        let mut spec = spec(object).clone();
        spec.retain(|name, _| !MAY_CHANGE.contains(&name));
        spec
    };
    if fixed(old) != fixed(new) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
            'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are \
            forbidden";
        errors.push(FieldError::forbidden(&Path::new("spec"), detail));
    }
}

fn daemon_set(spec: &Map, path: &Path, errors: &mut Errors) {
    not_negative(spec, &["minReadySeconds", "revisionHistoryLimit"], path, errors);
    label_selector(spec, "selector", path, errors);
    template_of(spec, "daemonset", "DaemonSet", path, errors);
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

/// Counts the changes of a DaemonSet's template, in an annotation that nobody else sets.
fn count_template(operation: Operation<'_>, object: &mut Map) {
    let count = match operation {
        Operation::Create => 1,
        Operation::Update { old, subresource: "" } => {
            let annotations = object_at(old, &["metadata", "annotations"]);
            let before = annotations.map_or("", |annotations| text(annotations, TEMPLATE_GENERATION));
            let changed = spec(old).get("template") != spec(object).get("template");
            before.parse::<i64>().unwrap_or_default() + i64::from(changed)
        }
        Operation::Update { .. } => return,
    };
    if let Some(annotations) = metadata_mut(object).and_then(|metadata| metadata.object_mut("annotations")) {
        annotations.insert(TEMPLATE_GENERATION, count.to_string());
    }
}

/// A selector, and a template that it selects.
fn selected_template(spec: &Map, kind: &str, of: &str, path: &Path, errors: &mut Errors) {
    if let Some(selector) = object(spec, "selector") {
        label_selector(spec, "selector", path, errors);
        if LabelSelector::from_object(spec.get("selector")).is_err() {
            let detail = if kind == "statefulset" { "" } else { "invalid label selector" };
            errors.push(FieldError::invalid(&path.child("selector"), &Value::Object(selector.clone()), detail));
        }
    } else {
        errors.push(FieldError::required(&path.child("selector"), ""));
    }
    template_of(spec, kind, of, path, errors);
}

fn template_of(spec: &Map, kind: &str, of: &str, path: &Path, errors: &mut Errors) {
    if let Some(selector) = object(spec, "selector").filter(|selector| is_empty_selector(selector)) {
        let detail = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid(&path.child("selector"), &Value::Object(selector.clone()), detail));
    }
    let (Ok(selector), Some(template)) = (LabelSelector::from_object(spec.get("selector")), object(spec, "template"))
    else {
        return;
    };
    let path = path.child("template");
    if !selector.is_everything() && !selector.matches(object_at(template, &["metadata", "labels"])) {
        labels_differ(template, &path, errors);
    }
    validate_template(template, &path, errors);
    keeps_running(template, of, &path, errors);
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
