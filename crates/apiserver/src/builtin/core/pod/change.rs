//! What of a pod may change: images, how long it may run, more tolerations, fewer gates; and its status
//! (`k8s.io/kubernetes/pkg/apis/core/validation`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use crate::builtin::rules::Errors;
use crate::builtin::rules::addresses::address;
use crate::builtin::rules::checks::{faults, immutable, in_range, required};
use crate::builtin::rules::look::{int, items, items_mut, list, object, text};

use super::containers::only_for_pods;
use super::{annotations, restarts, scheduling};

const DETAIL: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
    additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
    previously negative)";

/// A pod is what it was made to be, but for a few members.
pub(crate) fn validate(old: &Map, new: &Map, errors: &mut Errors) {
    validate_annotations(old, new, errors);
    let path = Path::new("spec");
    let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
    for name in ["containers", "initContainers"] {
        if list(was, name).len() != list(is, name).len() {
            let detail = "pod updates may not add or remove containers";
            return errors.push(FieldError::forbidden(&path.child(name), detail));
        }
        for (index, container) in items(is, name) {
            let path = path.child(name).index(index);
            required(container, "image", &path, errors);
            only_for_pods(container, &path, errors);
        }
    }
    if !deadline(was, is, &path.child("activeDeadlineSeconds"), errors) {
        return;
    }
    tolerations(was, is, &path.child("tolerations"), errors);
    gates(was, is, &path.child("schedulingGates"), errors);
    let gated = !list(was, "schedulingGates").is_empty();
    if gated {
        node_selector(was, is, &path.child("nodeSelector"), errors);
        node_affinity(was, is, &path.child("affinity").child("nodeAffinity"), errors);
    }
    if fixed(was, gated, was) != fixed(is, gated, was) {
        errors.push(FieldError::forbidden(&path, DETAIL));
    }
}

/// What the annotations of a changed pod have to be.
pub(crate) fn validate_annotations(old: &Map, new: &Map, errors: &mut Errors) {
    let path = Path::new("metadata").child("annotations");
    annotations::validate_change(annotations::of(old), annotations::of(new), &path, errors);
    if let (Some(own), Some(spec)) = (annotations::of(new), object(new, "spec")) {
        annotations::validate(own, spec, &path, errors);
    }
}

/// A deadline comes nearer; whether what else changes is to be looked at.
fn deadline(was: &Map, is: &Map, path: &Path, errors: &mut Errors) -> bool {
    let before = errors.len();
    match (int(was, "activeDeadlineSeconds"), int(is, "activeDeadlineSeconds")) {
        (_, Some(now)) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            in_range(now, 0, i64::from(i32::MAX), path, errors);
        }
        (Some(before), Some(now)) if before < now => {
            errors.push(FieldError::invalid(path, now, "must be less than or equal to previous value"));
        }
        (Some(_), None) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(path, &Value::Null, detail));
            return true;
        }
        _ => {}
    }
    errors.len() == before
}

fn tolerations(was: &Map, is: &Map, path: &Path, errors: &mut Errors) {
    // Members of objects have an order of their own, so that equal ones have equal texts.
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration.to_string()
    };
    let now: BTreeSet<String> = list(is, "tolerations").iter().map(timeless).collect();
    if list(was, "tolerations").iter().any(|toleration| !now.contains(&timeless(toleration))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return errors.push(FieldError::forbidden(path, detail));
    }
    scheduling::tolerations(is, path, errors);
}

fn gates(was: &Map, is: &Map, path: &Path, errors: &mut Errors) {
    let before: BTreeSet<&str> = items(was, "schedulingGates").map(|(_, gate)| text(gate, "name")).collect();
    for (index, gate) in items(is, "schedulingGates").filter(|(_, gate)| !before.contains(text(gate, "name"))) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "name"));
        errors.push(FieldError::forbidden(&path.index(index).child("name"), detail));
    }
}

/// A pod that waits at a gate may be bound to fewer nodes.
fn node_selector(was: &Map, is: &Map, path: &Path, errors: &mut Errors) {
    let empty = Map::new();
    let (was, is) = (object(was, "nodeSelector").unwrap_or(&empty), object(is, "nodeSelector").unwrap_or(&empty));
    if was.iter().any(|(key, value)| is.get(key) != Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        let shown = Value::Object(is.clone());
        errors.push(FieldError::invalid(path, &shown, detail));
    }
}

fn node_affinity(was: &Map, is: &Map, path: &Path, errors: &mut Errors) {
    let terms = |spec: &Map| -> Option<Vec<Value>> {
        let nodes = object(object(spec, "affinity")?, "nodeAffinity")?;
        let required = object(nodes, scheduling::REQUIRED)?;
        Some(list(required, "nodeSelectorTerms").to_vec())
    };
    let (Some(before), now) = (terms(was), terms(is).unwrap_or_default()) else { return };
    let path = path.child(scheduling::REQUIRED).child("nodeSelectorTerms");
    if before.len() != now.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.push(FieldError::invalid(&path, &Value::Array(now), detail));
    }
    for (index, (before, now)) in before.iter().zip(&now).enumerate() {
        let grown = ["matchExpressions", "matchFields"].iter().all(|name| {
            let list = |term: &Value| term.get(name).and_then(Value::as_array).unwrap_or_default().to_vec();
            list(now).starts_with(&list(before))
        });
        let nothing = before
            .as_object()
            .is_none_or(|term| term.iter().all(|(_, list)| list.as_array().is_none_or(<[_]>::is_empty)));
        if !grown || nothing && before != now {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(&path.index(index), now, detail));
        }
    }
}

/// A spec without what may change.
fn fixed(spec: &Map, gated: bool, was: &Map) -> Map {
    let mut fixed = spec.clone();
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        fixed.remove(name);
    }
    for name in ["containers", "initContainers"] {
        items_mut(&mut fixed, name).for_each(|container| {
            container.remove("image");
        });
    }
    let (before, now) = (int(was, "terminationGracePeriodSeconds"), int(spec, "terminationGracePeriodSeconds"));
    if before.is_some_and(|seconds| seconds < 0) && (now == Some(1) || now == before) {
        fixed.remove("terminationGracePeriodSeconds");
    }
    if gated {
        fixed.remove("nodeSelector");
        if let Some(Value::Object(affinity)) = fixed.get_mut("affinity") {
            affinity.remove("nodeAffinity");
            if affinity.is_empty() {
                fixed.remove("affinity");
            }
        }
    }
    fixed
}

/// What a pod's status has to be, beside what it was.
pub(crate) fn validate_status(old: &Map, new: &Map, errors: &mut Errors) {
    validate_annotations(old, new, errors);
    let empty = Map::new();
    let (was, is) = (object(old, "status").unwrap_or(&empty), object(new, "status").unwrap_or(&empty));
    let path = Path::new("status");
    conditions(is, &path.child("conditions"), errors);
    let (nominated, at) = (text(is, "nominatedNodeName"), path.child("nominatedNodeName"));
    if nominated != text(was, "nominatedNodeName") && !nominated.is_empty() {
        faults(&at, nominated, names::dns1123_subdomain(nominated), errors);
        if object(old, "spec").is_some_and(|spec| !text(spec, "nodeName").is_empty()) {
            let detail = "may not be set on pods that are already bound to a node";
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    not_before_the_first(is, &path, errors);
    immutable(was, is, &["qosClass"], &path, errors);
    if let Some(spec) = object(old, "spec") {
        for (statuses, of) in [
            ("containerStatuses", "containers"),
            ("initContainerStatuses", "initContainers"),
            ("ephemeralContainerStatuses", ""),
        ] {
            restarts::validate_states(spec, of, list(was, statuses), list(is, statuses), &path.child(statuses), errors);
        }
    }
    addresses(was, is, "podIPs", &path, errors);
    if let Some((_, first)) = items(is, "hostIPs").next().filter(|(_, first)| text(first, "ip") != text(is, "hostIP")) {
        let at = path.child("hostIPs").index(0).child("ip");
        errors.push(FieldError::invalid(&at, text(first, "ip"), "must be equal to `hostIP`"));
    }
    addresses(was, is, "hostIPs", &path, errors);
}

fn not_before_the_first(owner: &Map, path: &Path, errors: &mut Errors) {
    if let Some(generation) = int(owner, "observedGeneration").filter(|generation| *generation < 0) {
        let detail = "must be a non-negative integer";
        errors.push(FieldError::invalid(&path.child("observedGeneration"), generation, detail));
    }
}

fn conditions(status: &Map, path: &Path, errors: &mut Errors) {
    for (index, condition) in items(status, "conditions") {
        let (path, kind) = (path.index(index), text(condition, "type"));
        not_before_the_first(condition, &path, errors);
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            faults(&path.child("Type"), kind, names::qualified_name(kind), errors);
        }
    }
}

/// One address of each family; those that were there may stay, whatever they are.
fn addresses(was: &Map, is: &Map, name: &str, path: &Path, errors: &mut Errors) {
    let path = path.child(name);
    let before: BTreeSet<&str> = items(was, name).map(|(_, address)| text(address, "ip")).collect();
    let now: Vec<&str> = items(is, name).map(|(_, address)| text(address, "ip")).collect();
    for (index, ip) in now.iter().enumerate().filter(|(_, ip)| !before.contains(*ip)) {
        address(ip, &path.index(index), errors);
    }
    if now.len() < 2 {
        return;
    }
    let parsed: Vec<Option<IpAddr>> = now.iter().map(|ip| ip.parse().ok()).collect();
    if let Some(index) = parsed.iter().position(Option::is_none) {
        let detail = format!("failed to check for dual stack with error:failed to parse IP {index}: {}", now[index]);
        errors.push(FieldError::internal(&path, detail));
    }
    let families: BTreeSet<bool> = parsed.iter().flatten().map(IpAddr::is_ipv4).collect();
    let dual = families.len() == 2 && parsed.iter().all(Option::is_some);
    if !dual || now.len() > 2 {
        let shown: Vec<Value> = now.iter().map(|ip| allotment_machinery::json!({"IP": (*ip)})).collect();
        let detail = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(&path, &Value::Array(shown), detail));
    }
}

/// What a write of a pod's status leaves as it was: who owns the pod, and what the writer does not know.
pub(crate) fn keep_of_status(old: &Map, new: &mut Map) {
    let owners = object(old, "metadata").and_then(|metadata| metadata.get("ownerReferences")).cloned();
    if let Some(metadata) = new.object_mut("metadata") {
        match owners {
            Some(owners) => metadata.insert("ownerReferences", owners),
            None => metadata.remove("ownerReferences"),
        };
    }
    let Some(was) = object(old, "status") else { return };
    let Some(status) = new.object_mut("status") else { return };
    if text(status, "qosClass").is_empty()
        && let Some(class) = was.get("qosClass")
    {
        status.insert("qosClass", class.clone());
    }
    let fill = |owner: &mut Map, known: Option<i64>| {
        let known = known.filter(|known| *known != 0);
        if let Some(known) = known.filter(|_| int(owner, "observedGeneration").unwrap_or_default() == 0) {
            owner.insert("observedGeneration", known);
        }
    };
    fill(status, int(was, "observedGeneration"));
    // Several conditions of one type are told apart by their order.
    let mut known: BTreeMap<&str, VecDeque<Option<i64>>> = BTreeMap::new();
    for (_, condition) in items(was, "conditions") {
        known.entry(text(condition, "type")).or_default().push_back(int(condition, "observedGeneration"));
    }
    for condition in items_mut(status, "conditions") {
        if let Some(generation) = known.get_mut(text(condition, "type")).and_then(VecDeque::pop_front) {
            fill(condition, generation);
        }
    }
}
