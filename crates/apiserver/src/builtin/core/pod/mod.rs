//! Pods and pod templates: what the server sets, what they have to be
//! (`k8s.io/kubernetes/pkg/registry/core/pod`, `pkg/apis/core/validation`). No node runs them; they stay Pending unless
//! somebody writes their status.

mod annotations;
mod change;
mod containers;
mod drivers;
mod environment;
mod mounts;
mod parts;
mod paths;
mod ports;
mod probes;
mod quality;
mod restarts;
mod scheduling;
mod secrets;
mod security;
mod shown;
mod spec;
mod volumes;
mod warnings;
mod windows;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::metadata as rules;
use allotment_machinery::object::metadata_str;

use crate::builtin::print::{self, cells};
use crate::builtin::rules::checks::labels;
use crate::builtin::rules::look::{flag, int, is_given, items, items_mut, list, object, object_at, text};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::registry::Operation;

pub(crate) use annotations::MIRROR;
pub(crate) use secrets::{check_mountable, of_pod as secrets_of};
pub(crate) use warnings::{
    of_claim as claim_warnings, of_template as template_warnings, of_workload_name as name_warning,
};

/// The seconds for which a pod stays on a node that does not answer.
const TOLERATED_SECONDS: i64 = 300;

/// What selectors may ask of pods.
pub(crate) const FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

/// Pods.
pub(crate) const POD: Rules = Rules {
    metadata: WHOLE_TOO,
    counts: true,
    answers_object: true,
    ends_gracefully: true,
    born_with_status: true,
    default: |pod| {
        // A pod's own grace is never negative; that of a template may be.
        if let Some(spec) = pod.object_mut("spec")
            && int(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        {
            spec.insert("terminationGracePeriodSeconds", 1);
        }
    },
    prepare,
    validate,
    validate_new: validate_create,
    validate_change: change::validate,
    validate_status: change::validate_status,
    parts: &[("ephemeralcontainers", parts::validate_ephemeral), ("resize", parts::validate_sizes)],
    warn: warnings::of_pod,
    cells: Some(shown::cells),
    select,
    ..Rules::of("core/v1.Pod")
};

/// Templates that lie in the store.
pub(crate) const POD_TEMPLATE: Rules = Rules {
    counts: true,
    answers_object: true,
    warn: |operation, object| template_warnings(operation, object, &["template"]),
    prepare: |_, object| {
        if let Some(Value::Object(template)) = object.get_mut("template") {
            drop_closed(template);
        }
    },
    validate: |object, errors| {
        if let Some(template) = object.get("template").and_then(Value::as_object) {
            validate_template(template, &Path::new("template"), errors);
        }
    },
    cells: Some(|object, _| {
        let template = object_at(object, &["template"]);
        let [names, images] = print::containers(object_at(object, &["template", "spec"]));
        let labels = template.and_then(|template| object_at(template, &["metadata", "labels"]));
        vec![cells::name(object), names, images, print::labels(labels)]
    }),
    ..Rules::of("core/v1.PodTemplate")
};

/// Whose spec it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sort<'a> {
    /// A pod's of this name.
    Pod(&'a str),
    /// That of a template, of which pods are yet to be made.
    Template,
}

impl<'a> Sort<'a> {
    fn is_pod(self) -> bool {
        matches!(self, Sort::Pod(_))
    }

    /// The name of the pod, where it is known.
    fn name(self) -> Option<&'a str> {
        match self {
            Sort::Pod(name) => Some(name).filter(|name| !name.is_empty()),
            Sort::Template => None,
        }
    }
}

fn select(pod: &Map, field: &str) -> Option<String> {
    (field == "spec.hostNetwork").then(|| object(pod, "spec").is_some_and(|spec| flag(spec, "hostNetwork")).to_string())
}

/// What the registry sets on every cluster: status, own labels in selectors, tolerations. The account and the priority
/// have been set before, since they depend on other objects.
fn prepare(operation: Operation<'_>, pod: &mut Map) {
    match operation {
        Operation::Create => {}
        Operation::Update { old, subresource: "status" } => return change::keep_of_status(old, pod),
        Operation::Update { old, subresource: "ephemeralcontainers" } => parts::keep_all_but_ephemeral(old, pod),
        Operation::Update { old, subresource: "resize" } => parts::keep_all_but_sizes(old, pod),
        Operation::Update { .. } => {}
    }
    if let Operation::Update { old, subresource } = operation {
        if subresource.is_empty() {
            keep_priority(old, pod);
            if let Some(spec) = pod.object_mut("spec") {
                tolerate(spec);
            }
        }
        return drop_closed(pod);
    }
    let given =
        object(pod, "status").map(|status| text(status, "qosClass").to_owned()).filter(|class| !class.is_empty());
    let class = given.unwrap_or_else(|| quality::class(pod).to_owned());
    let mut status = json!({"phase": "Pending", "qosClass": class});
    let born = metadata_str(pod, "creationTimestamp").unwrap_or_default();
    if object(pod, "spec").is_some_and(|spec| !list(spec, "schedulingGates").is_empty())
        && let Some(status) = status.as_object_mut()
    {
        let gated = json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": (Value::Null),
            "lastTransitionTime": born, "message": "Scheduling is blocked due to non-empty scheduling gates"
        });
        status.insert("conditions", Value::Array(vec![gated]));
    }
    pod.insert("status", status);
    drop_closed(pod);
    scheduling::select_own_labels(pod);
    let Some(spec) = pod.object_mut("spec") else { return };
    tolerate(spec);
}

/// Drops members of the pod or template `owner` whose gates Kubernetes leaves closed.
pub(crate) fn drop_closed(owner: &mut Map) {
    let Some(Value::Object(spec)) = owner.get_mut("spec") else { return };
    spec.remove("schedulingGroup");
    for list in containers::ALL {
        for container in items_mut(spec, list) {
            if let Some(Value::Object(lifecycle)) = container.get_mut("lifecycle") {
                lifecycle.remove("stopSignal");
            }
        }
    }
    for volume in items_mut(spec, "volumes") {
        let Some(Value::Object(projected)) = volume.get_mut("projected") else { continue };
        for source in items_mut(projected, "sources") {
            source.remove("clusterTrustBundle");
            source.remove("podCertificate");
        }
    }
}

/// What admission computed stays where a change does not speak of it.
fn keep_priority(old: &Map, pod: &mut Map) {
    let (Some(was), Some(spec)) = (object(old, "spec"), pod.object_mut("spec")) else { return };
    for name in ["priority", "preemptionPolicy"] {
        if let Some(value) = was.get(name).filter(|_| !is_given(spec, name)) {
            spec.insert(name, value.clone());
        }
    }
}

/// A pod bears nodes that are not ready or not reached for some minutes.
fn tolerate(spec: &mut Map) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let borne = items(spec, "tolerations").any(|(_, toleration)| {
            let of_key = matches!(text(toleration, "key"), "") || text(toleration, "key") == key;
            of_key && matches!(text(toleration, "effect"), "" | "NoExecute")
        });
        if borne {
            continue;
        }
        let tolerations = spec.get_or_insert_with("tolerations", || Value::Array(Vec::new()));
        if let Some(tolerations) = tolerations.as_array_mut() {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS
            }));
        }
    }
}

/// What a pod has to be, new or changed.
fn validate(pod: &Map, errors: &mut Errors) {
    let Some(spec) = object(pod, "spec") else { return };
    let path = Path::new("spec");
    if let Some(own) = annotations::of(pod) {
        annotations::validate(own, spec, &Path::new("metadata").child("annotations"), errors);
    }
    spec::validate(spec, Sort::Pod(metadata_str(pod, "name").unwrap_or_default()), &path, errors);
    for name in ["containers", "initContainers"] {
        for (index, container) in items(spec, name) {
            containers::only_for_pods(container, &path.child(name).index(index), errors);
        }
    }
}

/// What a new pod has to be besides.
fn validate_create(pod: &Map, errors: &mut Errors) {
    let Some(spec) = object(pod, "spec") else { return };
    let path = Path::new("spec");
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(&path.child("nodeName"), detail));
    }
    annotations::validate_profiles(pod, spec, &path, errors);
}

/// A template: labels, annotations and spec.
pub(crate) fn validate_template(template: &Map, path: &Path, errors: &mut Errors) {
    let empty = Map::new();
    let spec = object(template, "spec").unwrap_or(&empty);
    if let Some(metadata) = object(template, "metadata") {
        labels(metadata, "labels", path, errors);
        if let Some(own) = object(metadata, "annotations") {
            errors.extend(rules::validate_annotations(own, &path.child("annotations")));
            annotations::validate(own, spec, &path.child("annotations"), errors);
        }
    }
    let path = path.child("spec");
    spec::validate(spec, Sort::Template, &path, errors);
    annotations::validate_profiles(template, spec, &path, errors);
    if !list(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(&path.child("ephemeralContainers"), detail));
    }
}
