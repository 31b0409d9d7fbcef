//! Nodes (`k8s.io/kubernetes/pkg/apis/core/validation`, `pkg/registry/core/node`). They are stored as whoever
//! registers them says; nothing runs on them, nothing schedules to them and nothing watches whether they live.

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::gotext::go_quote;
use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use jiff::Timestamp;

use crate::builtin::core::resources::{amount, entries};
use crate::builtin::print::{cells, or_none};
use crate::builtin::rules::addresses::block;
use crate::builtin::rules::checks::{faults, one_of, required};
use crate::builtin::rules::look::{flag, is_given, items, items_mut, object, text, texts};
use crate::builtin::rules::{Errors, Rules};
use crate::registry::Operation;

/// What selectors may ask of nodes.
pub(crate) const FIELDS: &[&str] = &["spec.unschedulable"];

/// What every new node is tainted with, until somebody says that it is ready (admission plugin
/// TaintNodesByCondition).
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const OLD_ROLE: &str = "kubernetes.io/role";

/// Labels of nodes that have other names now.
const OLD_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// What to say of a label of nodes that has another name now.
pub(crate) fn old_label(key: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(label, _)| *label == key).map(|(_, message)| *message)
}

/// Nodes.
pub(crate) const NODE: Rules = Rules {
    born_with_status: true,
    default,
    prepare,
    validate,
    validate_change,
    validate_status: validate_change,
    cells: Some(node_cells),
    select: |node, field| {
        (field == FIELDS[0]).then(|| object(node, "spec").is_some_and(|spec| flag(spec, "unschedulable")).to_string())
    },
    ..Rules::of("core/v1.Node")
};

/// One block and several are told in two members; what can be used is what there is, unless that is said.
fn default(node: &mut Map) {
    if let Some(spec) = node.object_mut("spec") {
        let (one, first) = (text(spec, "podCIDR").to_owned(), texts(spec, "podCIDRs").next().map(str::to_owned));
        match first {
            Some(first) if one.is_empty() => drop(spec.insert("podCIDR", first)),
            first if !one.is_empty() && first.as_deref() != Some(one.as_str()) => {
                spec.insert("podCIDRs", json!([one]));
            }
            _ => {}
        }
    }
    if let Some(status) = node.object_mut("status")
        && !is_given(status, "allocatable")
        && let Some(capacity) = status.get("capacity").cloned()
    {
        status.insert("allocatable", capacity);
    }
}

fn prepare(operation: Operation<'_>, node: &mut Map) {
    match operation {
        Operation::Create => {
            let Value::Object(spec) = node.get_or_insert_with("spec", || Value::Object(Map::new())) else { return };
            if items(spec, "taints").any(|(_, taint)| text(taint, "key") == NOT_READY) {
                return;
            }
            let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
            match spec.get_or_insert_with("taints", || Value::Array(Vec::new())) {
                Value::Array(taints) => taints.push(taint),
                other => *other = Value::Array(vec![taint]),
            }
        }
        Operation::Update { old, subresource: "status" } => match old.get("spec") {
            Some(spec) => drop(node.insert("spec", spec.clone())),
            None => drop(node.remove("spec")),
        },
        Operation::Update { .. } => {}
    }
    if let Some(spec) = node.object_mut("spec") {
        items_mut(spec, "taints").for_each(|taint| {
            if text(taint, "value").is_empty() {
                taint.remove("value");
            }
        });
    }
}

fn validate(node: &Map, errors: &mut Errors) {
    let Some(spec) = object(node, "spec") else { return };
    validate_taints(spec, errors);
    validate_resources(node, errors);
    let path = Path::new("spec").child("podCIDRs");
    let blocks: Vec<bool> = texts(spec, "podCIDRs")
        .enumerate()
        .filter_map(|(index, text)| block(text, &path.index(index), errors).map(|_| text.contains(':')))
        .collect();
    let families: BTreeSet<bool> = blocks.iter().copied().collect();
    if blocks.len() > families.len() {
        let shown: Vec<String> = texts(spec, "podCIDRs").map(go_quote).collect();
        let detail = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(&path, ShownValue::raw(format!("[{}]", shown.join(","))), detail));
    }
}

/// Taints stand below `metadata` in messages, for whatever reason.
fn validate_taints(spec: &Map, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, taint) in items(spec, "taints") {
        let path = Path::new("metadata").child("taints").index(index);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        faults(&path.child("key"), key, names::qualified_name(key), errors);
        faults(&path.child("value"), value, names::label_value(value), errors);
        required(taint, "effect", &path, errors);
        one_of(taint, "effect", &EFFECTS, &path, errors);
        if !seen.insert((key, effect)) {
            let added = taint.get("timeAdded").map_or_else(|| "null".to_owned(), ToString::to_string);
            let [key, value, effect] = [key, value, effect].map(go_quote);
            let shown = format!("{{\"Key\":{key},\"Value\":{value},\"Effect\":{effect},\"TimeAdded\":{added}}}");
            let mut error = FieldError::duplicate(&path, ShownValue::raw(shown));
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    }
}

fn validate_resources(node: &Map, errors: &mut Errors) {
    let Some(status) = object(node, "status") else { return };
    let path = Path::new("status");
    for list in ["capacity", "allocatable"] {
        for (name, value) in entries(status, list) {
            amount(name, value, &path.child(list).child(name), errors);
        }
    }
}

/// No address is told twice, once a node is there.
fn validate_addresses(node: &Map, errors: &mut Errors) {
    let Some(status) = object(node, "status") else { return };
    let (path, mut seen) = (Path::new("status"), BTreeSet::new());
    for (index, address) in items(status, "addresses") {
        let (kind, place) = (text(address, "type"), text(address, "address"));
        if !seen.insert((kind, place)) {
            let shown = format!("{{\"Type\":{},\"Address\":{}}}", go_quote(kind), go_quote(place));
            errors.push(FieldError::duplicate(&path.child("addresses").index(index), ShownValue::raw(shown)));
        }
    }
}

/// What holds of a change, of the status alone too. Kubernetes judges the rest of a changed node a second time here.
fn validate_change(old: &Map, new: &Map, errors: &mut Errors) {
    validate_resources(new, errors);
    validate_addresses(new, errors);
    let (empty, path) = (Map::new(), Path::new("spec"));
    let (old, new) = (object(old, "spec").unwrap_or(&empty), object(new, "spec").unwrap_or(&empty));
    let (was, is): (Vec<&str>, Vec<&str>) = (texts(old, "podCIDRs").collect(), texts(new, "podCIDRs").collect());
    let changes = if was.len() == is.len() { was.iter().zip(&is).filter(|(was, is)| was != is).count() } else { 1 };
    for _ in (0..changes).filter(|_| !was.is_empty()) {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden(&path.child("podCIDRs"), detail));
    }
    let changed = |name: &str| !text(old, name).is_empty() && text(old, name) != text(new, name);
    if changed("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(&path.child("providerID"), detail));
    }
    validate_taints(new, errors);
    if text(old, "externalID") != text(new, "externalID") {
        errors.push(FieldError::forbidden(&path.child("externalID"), "may not be updated"));
    }
}

fn node_cells(node: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let status = object(node, "status").unwrap_or(&empty);
    let info = object(status, "nodeInfo").unwrap_or(&empty);
    let or_unknown =
        |name: &str| Value::from(Some(text(info, name)).filter(|text| !text.is_empty()).unwrap_or("<unknown>"));
    let address = |kind: &str| {
        let found = items(status, "addresses").find(|(_, address)| text(address, "type") == kind);
        or_none(found.map_or("", |(_, address)| text(address, "address")))
    };
    vec![
        cells::name(node),
        Value::from(condition(node, status)),
        or_none(&roles(node).into_iter().collect::<Vec<_>>().join(",")),
        cells::age(node, now),
        Value::from(text(info, "kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        or_unknown("osImage"),
        or_unknown("kernelVersion"),
        or_unknown("containerRuntimeVersion"),
    ]
}

fn condition(node: &Map, status: &Map) -> String {
    let ready = items(status, "conditions").find(|(_, condition)| text(condition, "type") == "Ready");
    let told = match ready {
        Some((_, ready)) if text(ready, "status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let held = object(node, "spec").is_some_and(|spec| flag(spec, "unschedulable"));
    if held { format!("{told},SchedulingDisabled") } else { told.to_owned() }
}

fn roles(node: &Map) -> BTreeSet<&str> {
    let labels = object(node, "metadata").and_then(|metadata| object(metadata, "labels"));
    let mut roles = BTreeSet::new();
    for (key, value) in labels.into_iter().flat_map(Map::iter) {
        let old = if key == OLD_ROLE { value.as_str() } else { None };
        roles.extend(key.strip_prefix(ROLE_PREFIX).or(old).filter(|role| !role.is_empty()));
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::rules::judged;
    use crate::registry::Strategy as _;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes()).expect("is JSON")
    }

    fn parsed(text: &str) -> Map {
        judged::object(value(text))
    }

    #[track_caller]
    fn check(old: Option<&str>, new: &str, expect: &[&str]) {
        judged::check(&NODE, old.map(value), value(new), expect);
    }

    #[test]
    fn a_new_node_is_not_ready_and_keeps_the_status_that_it_registers_with() {
        let mut node = parsed(r#"{"metadata":{"name":"n"},"status":{"capacity":{"cpu":"1"}}}"#);
        NODE.default(&mut node);
        NODE.prepare(Operation::Create, &mut node);
        let expect = parsed(
            r#"{"metadata":{"name":"n"},"spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]},
                "status":{"capacity":{"cpu":"1"},"allocatable":{"cpu":"1"}}}"#,
        );
        assert_eq!(node, expect);
    }

    #[test]
    fn what_a_node_says_has_to_be_right() {
        check(
            None,
            r#"{"spec":{"taints":[{"key":"a","effect":"No"},{"key":"a","effect":"No"},{"key":"b"}],"podCIDRs":["x"]}}"#,
            &[
                r#"metadata.taints[0].effect: Unsupported value: "No": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
                r#"metadata.taints[1].effect: Unsupported value: "No": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
                r#"metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"No","TimeAdded":null}: taints must be unique by key and effect pair"#,
                "metadata.taints[2].effect: Required value",
                r#"spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#,
            ],
        );
        check(
            None,
            r#"{"spec":{"podCIDRs":["10.0.0.0/24","10.0.1.0/24"]},"status":{"capacity":{"memory":"-1"}}}"#,
            &[
                r#"status.capacity.memory: Invalid value: "-1": must be greater than or equal to 0"#,
                r#"status.allocatable.memory: Invalid value: "-1": must be greater than or equal to 0"#,
                r#"spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family"#,
            ],
        );
        check(
            Some(
                r#"{"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"],"providerID":"x://y","externalID":"e"}}"#,
            ),
            r#"{"spec":{"podCIDR":"10.0.1.0/24","providerID":"x://z"}}"#,
            &[
                r#"spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid"#,
                r#"spec.providerID: Forbidden: node updates may not change providerID except from "" to valid"#,
                "spec.externalID: Forbidden: may not be updated",
            ],
        );
    }

    #[test]
    fn a_node_s_row_tells_its_roles_and_whether_it_takes_pods() {
        let row = |node: &str| NODE.cells(&parsed(node), Timestamp::UNIX_EPOCH).expect("cells");
        let texts =
            |cells: &[Value]| cells.iter().map(|cell| cell.as_str().unwrap_or("?").to_owned()).collect::<Vec<_>>();
        let bare = texts(&row(r#"{"metadata":{"name":"n"}}"#));
        assert_eq!(bare[..3], ["n", "Unknown", "<none>"]);
        assert_eq!(bare[4..], ["", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]);
        let full = texts(&row(
            r#"{"metadata":{"name":"n","labels":{"node-role.kubernetes.io/worker":"","kubernetes.io/role":"a"}},
                "spec":{"unschedulable":true},
                "status":{"conditions":[{"type":"Ready","status":"True"}],"nodeInfo":{"kubeletVersion":"v1"},
                "addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}"#,
        ));
        assert_eq!(full[1..3], ["Ready,SchedulingDisabled", "a,worker"]);
        assert_eq!(full[4..6], ["v1", "192.0.2.1"]);
    }
}
