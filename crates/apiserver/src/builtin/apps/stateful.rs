//! StatefulSets: sets of pods with names and claims of their own
//! (`k8s.io/kubernetes/pkg/apis/apps/validation`).

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use super::{
    TEMPLATE, TEMPLATE_ITSELF, WORKLOAD, count_nothing, drop_of_template, keeps_running, selected_template, spec,
    status, with_spec,
};
use crate::builtin::core::pod::{claim_warnings, template_warnings};
use crate::builtin::print::{self, cells, number, ratio};
use crate::builtin::rules::checks::{not_negative, one_of, optional_name};
use crate::builtin::rules::look::{int, items, object, object_at, text};
use crate::builtin::rules::{Errors, Rules};
use crate::builtin::storage;
use crate::registry::{NameRule, Operation, Warnings};

/// StatefulSets.
pub(crate) const STATEFUL_SET: Rules = Rules {
    names: NameRule::Label,
    bookmark: count_nothing,
    prepare: |operation, object| {
        drop_of_template(object);
        // A set without availability in its status has none.
        if matches!(operation, Operation::Create)
            && let Some(status) = object.object_mut("status")
        {
            status.insert("availableReplicas", 0);
        }
    },
    warn: stateful_warnings,
    validate: |object, errors| with_spec(object, errors, stateful_set),
    validate_new: |object, errors| with_spec(object, errors, new_stateful_set),
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

const STATEFUL_STATUS: &[&str] = &[
    "observedGeneration",
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "collisionCount",
];
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
    not_negative(spec, &["replicas", "minReadySeconds"], path, errors);
    if let Some(ordinals) = object(spec, "ordinals") {
        not_negative(ordinals, &["start"], &path.child("ordinals"), errors);
    }
    let spec = with_claims(spec);
    selected_template(&spec, "statefulset", None, path, errors);
    if let Some(template) = object(&spec, "template") {
        keeps_running(template, "StatefulSet", &path.child("template"), errors);
    }
}

/// What cannot change later is looked at once.
fn new_stateful_set(spec: &Map, path: &Path, errors: &mut Errors) {
    optional_name(spec, "serviceName", names::dns1123_label, path, errors);
    for (index, claim) in items(spec, "volumeClaimTemplates") {
        if let Some(claim) = object(claim, "spec") {
            storage::claim_spec(claim, &path.child("volumeClaimTemplates").index(index).child("spec"), errors);
        }
    }
}

fn stateful_warnings(operation: Operation<'_>, object: &Map) -> Warnings {
    let mut warnings = template_warnings(operation, object, TEMPLATE_ITSELF);
    let path = Path::new("spec").child("volumeClaimTemplates");
    for (index, claim) in items(spec(object), "volumeClaimTemplates") {
        // Kubernetes writes the member in two ways.
        let at = match operation {
            Operation::Create => path.index(index),
            Operation::Update { .. } => path.index(index).child("Spec"),
        };
        if let Some(claim) = crate::builtin::rules::look::object(claim, "spec") {
            claim_warnings(claim, &at, &mut warnings);
        }
    }
    if int(spec(object), "revisionHistoryLimit").is_some_and(|limit| limit < 0) {
        let advice = "a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push(format!("spec.revisionHistoryLimit: {advice}"));
    }
    warnings
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
            fn name(of: &Value) -> Option<&str> {
                of.get("name").and_then(Value::as_str)
            }
            let claimed: BTreeSet<Option<&str>> = claims.iter().map(name).collect();
            volumes.retain(|volume| !claimed.contains(&name(volume)));
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
                errors.push(FieldError::invalid(
                    &path.child("rollingUpdate"),
                    ShownValue::raw(rolling_shown(update)),
                    detail,
                ));
            }
        }
        "RollingUpdate" => {
            if let Some(update) = object(strategy, "rollingUpdate") {
                not_negative(update, &["partition"], &path.child("rollingUpdate"), errors);
            }
        }
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            let update = strategy.get("rollingUpdate").filter(|update| !update.is_null());
            let update = update.map_or_else(|| "null".to_owned(), rolling_shown);
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{update}}}", Value::from(text(strategy, "type")));
            errors.push(FieldError::invalid(path, ShownValue::raw(shown), detail));
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

/// Numbers of a rolling update as messages of Kubernetes show them: the members of its internal type.
fn rolling_shown(update: &Value) -> String {
    let partition = update.get("partition").cloned().unwrap_or_else(|| Value::from(0));
    let unavailable = update.get("maxUnavailable").unwrap_or(&Value::Null);
    format!("{{\"Partition\":{partition},\"MaxUnavailable\":{unavailable}}}")
}
