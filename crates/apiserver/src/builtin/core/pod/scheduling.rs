//! Where pods may run: node affinity, affinity to other pods, spread, tolerations
//! (`k8s.io/kubernetes/pkg/apis/core/validation`).

use std::collections::{BTreeMap, BTreeSet};

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{faults, label_selector, one_of, optional_name};
use crate::builtin::rules::look::{int, is_given, items, items_mut, list, object, text, texts};

pub(crate) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(crate) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const BOTH: &str = "exists in both matchLabelKeys and labelSelector";

/// The nodes and pods that a pod wants near, or far.
pub(crate) fn affinity(spec: &Map, path: &Path, errors: &mut Errors) {
    let Some(affinity) = object(spec, "affinity") else { return };
    if let Some(nodes) = object(affinity, "nodeAffinity") {
        node_affinity(nodes, &path.child("nodeAffinity"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = object(affinity, kind) else { continue };
        let path = path.child(kind);
        for (index, term) in items(terms, REQUIRED) {
            pod_term(term, &path.child(REQUIRED).index(index), errors);
        }
        for (index, weighted) in items(terms, PREFERRED) {
            let path = path.child(PREFERRED).index(index);
            weight(weighted, &path, errors);
            let empty = Map::new();
            let term = object(weighted, "podAffinityTerm").unwrap_or(&empty);
            pod_term(term, &path.child("podAffinityTerm"), errors);
        }
    }
}

fn weight(weighted: &Map, path: &Path, errors: &mut Errors) {
    let weight = int(weighted, "weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(&path.child("weight"), weight, "must be in the range 1-100"));
    }
}

fn node_affinity(nodes: &Map, path: &Path, errors: &mut Errors) {
    if let Some(selector) = object(nodes, REQUIRED) {
        let path = path.child(REQUIRED).child("nodeSelectorTerms");
        if list(selector, "nodeSelectorTerms").is_empty() {
            errors.push(FieldError::required(&path, "must have at least one node selector term"));
        }
        for (index, term) in items(selector, "nodeSelectorTerms") {
            node_term(term, true, &path.index(index), errors);
        }
    }
    for (index, preferred) in items(nodes, PREFERRED) {
        let path = path.child(PREFERRED).index(index);
        weight(preferred, &path, errors);
        if let Some(term) = object(preferred, "preference") {
            node_term(term, false, &path.child("preference"), errors);
        }
    }
}

/// A term over labels and fields of nodes. What is preferred may ask for values that no label has.
fn node_term(term: &Map, strictly: bool, path: &Path, errors: &mut Errors) {
    for (index, expression) in items(term, "matchExpressions") {
        let path = path.child("matchExpressions").index(index);
        let (values, at) = (list(expression, "values"), path.child("values"));
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(FieldError::required(&at, "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&at, detail));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(FieldError::required(&at, detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.push(FieldError::invalid(&path.child("operator"), other, "not a valid selector operator")),
        }
        let key = text(expression, "key");
        faults(&path.child("key"), key, names::qualified_name(key), errors);
        for (place, value) in texts(expression, "values").enumerate().filter(|_| strictly) {
            faults(&at.index(place), value, names::label_value(value), errors);
        }
    }
    for (index, field) in items(term, "matchFields") {
        node_field(field, &path.child("matchFields").index(index), errors);
    }
}

fn node_field(field: &Map, path: &Path, errors: &mut Errors) {
    match text(field, "operator") {
        "In" | "NotIn" if list(field, "values").len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(&path.child("values"), detail));
        }
        "In" | "NotIn" => {}
        other => errors.push(FieldError::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    if text(field, "key") != "metadata.name" {
        let detail = "not a valid field selector key";
        return errors.push(FieldError::invalid(&path.child("key"), text(field, "key"), detail));
    }
    for (place, name) in texts(field, "values").enumerate() {
        faults(&path.child("values").index(place), name, names::dns1123_subdomain(name), errors);
    }
}

fn pod_term(term: &Map, path: &Path, errors: &mut Errors) {
    label_selector(term, "labelSelector", path, errors);
    label_selector(term, "namespaceSelector", path, errors);
    for name in texts(term, "namespaces") {
        // Kubernetes has another name for the list here.
        faults(&path.child("namespace"), name, names::dns1123_label(name), errors);
    }
    label_keys(term, &["matchLabelKeys", "mismatchLabelKeys"], path, errors);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty"));
    }
    faults(&path.child("topologyKey"), key, names::qualified_name(key), errors);
}

/// Keys of labels whose values in the pod itself are asked for.
fn label_keys(term: &Map, lists: &[&str], path: &Path, errors: &mut Errors) {
    let selector = object(term, "labelSelector");
    for list in lists.iter().filter(|name| !self::list(term, name).is_empty()) {
        let at = path.child(list);
        if selector.is_none() {
            errors.push(FieldError::forbidden(&at, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (place, key) in texts(term, list).enumerate() {
            faults(&at.index(place), key, names::qualified_name(key), errors);
        }
    }
    let wanted: Vec<&str> = texts(term, "matchLabelKeys").collect();
    let last: BTreeMap<&str, usize> = wanted.iter().enumerate().map(|(place, key)| (*key, place)).collect();
    if let Some(selector) = selector {
        let mut seen: BTreeSet<&str> =
            object(selector, "matchLabels").into_iter().flat_map(Map::iter).map(|(key, _)| key).collect();
        for (_, expression) in items(selector, "matchExpressions") {
            let key = text(expression, "key");
            // What the keys add stands in the selector by now, so that only what stands there twice is told of.
            if let Some(place) = last.get(key).filter(|_| seen.contains(key)) {
                errors.push(FieldError::invalid(&path.index(*place), key, BOTH));
            }
            seen.insert(key);
        }
    }
    let unwanted: BTreeSet<&str> = texts(term, "mismatchLabelKeys").collect();
    for (place, key) in wanted.iter().enumerate().filter(|(_, key)| unwanted.contains(*key)) {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.push(FieldError::invalid(&path.child("matchLabelKeys").index(place), *key, detail));
    }
}

/// What a new pod's own labels add to the selectors of terms and constraints that name their keys.
pub(crate) fn select_own_labels(pod: &mut Map) {
    let labels = pod.get("metadata").and_then(|metadata| metadata.at(&["labels"])).and_then(Value::as_object).cloned();
    let (Some(labels), Some(Value::Object(spec))) = (labels, pod.get_mut("spec")) else { return };
    let add = |term: &mut Map| {
        let keys: Vec<(String, &str)> = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")]
            .into_iter()
            .flat_map(|(list, operator)| texts(term, list).map(move |key| (key.to_owned(), operator)))
            .collect();
        let Some(Value::Object(selector)) = term.get_mut("labelSelector") else { return };
        for (key, operator) in keys {
            let Some(value) = labels.get(&key) else { continue };
            let expressions = selector.get_or_insert_with("matchExpressions", || Value::Array(Vec::new()));
            if let Some(expressions) = expressions.as_array_mut() {
                let values = Value::Array(vec![value.clone()]);
                expressions.push(allotment_machinery::json!({"key": key, "operator": operator, "values": values}));
            }
        }
    };
    if let Some(Value::Object(affinity)) = spec.get_mut("affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(Value::Object(terms)) = affinity.get_mut(kind) else { continue };
            items_mut(terms, REQUIRED).for_each(&add);
            items_mut(terms, PREFERRED)
                .filter_map(|weighted| weighted.get_mut("podAffinityTerm").and_then(Value::as_object_mut))
                .for_each(&add);
        }
    }
    items_mut(spec, "topologySpreadConstraints").for_each(add);
}

/// How evenly pods are spread.
pub(crate) fn spread(spec: &Map, path: &Path, errors: &mut Errors) {
    const WHEN: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    // Kubernetes tells of the first of two that are alike.
    let mut last: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (index, constraint) in items(spec, "topologySpreadConstraints") {
        last.insert((text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable")), index);
    }
    for (index, constraint) in items(spec, "topologySpreadConstraints") {
        let path = path.index(index);
        let skew = int(constraint, "maxSkew").unwrap_or_default();
        if skew <= 0 {
            errors.push(FieldError::invalid(&path.child("maxSkew"), skew, "must be greater than zero"));
        }
        let (key, when) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if key.is_empty() {
            errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty"));
        }
        if !WHEN.contains(&when) {
            errors.push(FieldError::not_supported(&path.child("whenUnsatisfiable"), when, &WHEN));
        }
        if last.get(&(key, when)).is_some_and(|last| *last > index) {
            let at = path.child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(&at, format!("{{{key}, {when}}}").as_str()));
        }
        if let Some(domains) = int(constraint, "minDomains") {
            let at = path.child("minDomains");
            if domains <= 0 {
                errors.push(FieldError::invalid(&at, domains, "must be greater than zero"));
            }
            if when != "DoNotSchedule" {
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
                errors.push(FieldError::invalid(&at, domains, detail));
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            one_of(constraint, name, &["Honor", "Ignore"], &path, errors);
        }
        label_keys(constraint, &["matchLabelKeys"], &path, errors);
        label_selector(constraint, "labelSelector", &path, errors);
    }
}

/// Which taints of nodes pods bear.
pub(crate) fn tolerations(spec: &Map, path: &Path, errors: &mut Errors) {
    for (index, toleration) in items(spec, "tolerations") {
        let path = path.index(index);
        let (key, operator, value) = (text(toleration, "key"), text(toleration, "operator"), text(toleration, "value"));
        let effect = text(toleration, "effect");
        optional_name(toleration, "key", names::qualified_name, &path, errors);
        if key.is_empty() && operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(&path.child("operator"), operator, detail));
        }
        if is_given(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(&path.child("effect"), effect, detail));
        }
        match operator {
            "Equal" | "" => {
                let found = names::label_value(value);
                if !found.is_empty() {
                    errors.push(FieldError::invalid(&path.child("operator"), value, found.join(";")));
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(&path.child("operator"), value, detail));
            }
            // Comparisons are a gate that Kubernetes leaves closed.
            "Lt" | "Gt" => {
                let supported = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(FieldError::not_supported(&path.child("operator"), operator, &supported));
            }
            _ => errors.push(FieldError::not_supported(&path.child("operator"), operator, &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            one_of(toleration, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], &path, errors);
        }
    }
}
