//! Pods and pod templates: what the server sets, what a pod's spec has to be
//! (`k8s.io/kubernetes/pkg/apis/core/validation`). No node runs them; they stay Pending unless somebody writes
//! their status.

mod containers;
mod quality;
mod shown;
mod volumes;

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::metadata as rules;
use allotment_machinery::names;

use crate::builtin::core::resources;
use crate::builtin::print::{self, cells};
use crate::builtin::rules::addresses::address;
use crate::builtin::rules::checks::{faults, in_range, label_selector, labels, one_of, one_of_required, optional_name};
use crate::builtin::rules::look::{flag, int, is_given, items, list, object, object_at, text, texts};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::registry::Operation;

use self::containers::Around;

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
    prepare,
    validate,
    validate_change,
    warn: |_, pod| object(pod, "spec").map(|spec| spec_warnings(spec, &Path::new("spec"))).unwrap_or_default(),
    cells: Some(shown::cells),
    select,
    ..Rules::of("core/v1.Pod")
};

/// Templates that lie in the store.
pub(crate) const POD_TEMPLATE: Rules = Rules {
    counts: true,
    answers_object: true,
    warn: |_, object| template_warnings(object, &["template", "spec"]),
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

fn select(pod: &Map, field: &str) -> Option<String> {
    (field == "spec.hostNetwork").then(|| object(pod, "spec").is_some_and(|spec| flag(spec, "hostNetwork")).to_string())
}

/// What admission and the registry set on every cluster: status, service account, priority, tolerations.
fn prepare(operation: Operation<'_>, pod: &mut Map) {
    if !matches!(operation, Operation::Create) {
        return;
    }
    let quality = quality::class(pod);
    pod.insert("status", json!({"phase": "Pending", "qosClass": quality}));
    let Some(spec) = pod.object_mut("spec") else { return };
    if text(spec, "serviceAccountName").is_empty() {
        spec.insert("serviceAccountName", "default");
        spec.insert("serviceAccount", "default");
    }
    let priority = match text(spec, "priorityClassName") {
        "" => Some(0),
        "system-cluster-critical" => Some(2_000_000_000),
        "system-node-critical" => Some(2_000_001_000),
        _ => None,
    };
    if let Some(priority) = priority {
        spec.insert("priority", priority);
        spec.get_or_insert_with("preemptionPolicy", || Value::from("PreemptLowerPriority"));
    }
    tolerate(spec);
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

fn validate(pod: &Map, errors: &mut Errors) {
    if let Some(spec) = object(pod, "spec") {
        validate_spec(spec, &Path::new("spec"), errors);
    }
}

/// A pod is what it was made to be, but for a few members.
fn validate_change(old: &Map, new: &Map, errors: &mut Errors) {
    const DETAIL: &str = "pod updates may not change fields other than \
        `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
        additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
        previously negative)";
    let path = Path::new("spec");
    let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
    for name in ["containers", "initContainers"] {
        if list(was, name).len() != list(is, name).len() {
            let detail = "pod updates may not add or remove containers";
            return errors.push(FieldError::forbidden(&path.child(name), detail));
        }
    }
    if list(was, "tolerations").iter().any(|toleration| !list(is, "tolerations").contains(toleration)) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(&path.child("tolerations"), detail));
    }
    if fixed(was) != fixed(is) {
        errors.push(FieldError::forbidden(&path, DETAIL));
    }
}

/// A spec without what may change.
fn fixed(spec: &Map) -> Map {
    let mut fixed = spec.clone();
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        fixed.remove(name);
    }
    for name in ["containers", "initContainers"] {
        crate::builtin::rules::look::items_mut(&mut fixed, name).for_each(|container| {
            container.remove("image");
        });
    }
    fixed
}

/// A template: labels, annotations and spec.
pub(crate) fn validate_template(template: &Map, path: &Path, errors: &mut Errors) {
    if let Some(metadata) = object(template, "metadata") {
        labels(metadata, "labels", path, errors);
        if let Some(annotations) = object(metadata, "annotations") {
            errors.extend(rules::validate_annotations(annotations, &path.child("annotations")));
        }
    }
    if let Some(spec) = object(template, "spec") {
        validate_spec(spec, &path.child("spec"), errors);
        if !list(spec, "ephemeralContainers").is_empty() {
            let detail = "ephemeral containers not allowed in pod template";
            errors.push(FieldError::forbidden(&path.child("spec").child("ephemeralContainers"), detail));
        }
    }
}

/// What is said of a template that is taken.
pub(crate) fn template_warnings(object: &Map, path: &[&str]) -> Vec<String> {
    let place = path.iter().fold(Path::root(), |place, name| place.child(name));
    object_at(object, path).map(|spec| spec_warnings(spec, &place)).unwrap_or_default()
}

fn spec_warnings(spec: &Map, path: &Path) -> Vec<String> {
    let mut warnings = resources::fractions_of_bytes(spec, path);
    warnings.extend(containers::warnings(spec, path));
    repeated(spec, "hostAliases", "ip", path, &mut warnings);
    repeated(spec, "imagePullSecrets", "name", path, &mut warnings);
    for (index, _) in items(spec, "imagePullSecrets").filter(|(_, secret)| text(secret, "name").is_empty()) {
        let at = path.child("imagePullSecrets").index(index).child("name");
        warnings.push(format!("{at}: invalid empty name \"\""));
    }
    if int(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let at = path.child("terminationGracePeriodSeconds");
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    warnings
}

/// Tells of elements of a list that say the same again.
fn repeated(spec: &Map, name: &str, member: &str, path: &Path, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, element) in items(spec, name) {
        if !seen.insert(text(element, member)) {
            let at = path.child(name).index(index).child(member);
            warnings.push(format!("{at}: duplicate {member} {:?}", text(element, member)));
        }
    }
}

/// A pod's spec.
pub(crate) fn validate_spec(spec: &Map, path: &Path, errors: &mut Errors) {
    let volumes = volumes::validate(spec, path, errors);
    let around = Around {
        volumes: &volumes,
        grace: int(spec, "terminationGracePeriodSeconds").unwrap_or_default(),
        host_users: spec.get("hostUsers").and_then(Value::as_bool).unwrap_or(true),
    };
    containers::validate(spec, &around, path, errors);
    containers::validate_init(spec, &around, path, errors);
    one_of_required(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, errors);
    one_of_required(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], path, errors);
    labels(spec, "nodeSelector", path, errors);
    for (name, rule) in NAMES {
        optional_name(spec, name, *rule, path, errors);
    }
    if let Some(seconds) = int(spec, "activeDeadlineSeconds") {
        in_range(seconds, 1, i64::from(i32::MAX), &path.child("activeDeadlineSeconds"), errors);
    }
    one_of(spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"], path, errors);
    dns(spec, &path.child("dnsConfig"), errors);
    host_aliases(spec, &path.child("hostAliases"), errors);
    security(spec, &path.child("securityContext"), errors);
    tolerations(spec, &path.child("tolerations"), errors);
    spread(spec, &path.child("topologySpreadConstraints"), errors);
    affinity(spec, &path.child("affinity"), errors);
    if flag(spec, "hostNetwork") {
        host_network(spec, path, errors);
    }
}

type NameCheck = fn(&str) -> names::Faults;

/// Members that are names.
const NAMES: &[(&str, NameCheck)] = &[
    ("serviceAccountName", names::dns1123_subdomain),
    ("nodeName", names::dns1123_subdomain),
    ("hostname", names::dns1123_label),
    ("subdomain", names::dns1123_label),
    ("priorityClassName", names::dns1123_subdomain),
    ("runtimeClassName", names::dns1123_subdomain),
];

/// What a pod's resolver is told.
fn dns(spec: &Map, path: &Path, errors: &mut Errors) {
    const MOST_SERVERS: usize = 3;
    const MOST_SEARCHES: usize = 32;
    const MOST_SEARCH_CHARS: usize = 2048;
    let config = object(spec, "dnsConfig");
    if text(spec, "dnsPolicy") == "None" {
        match config {
            None => {
                let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
                return errors.push(FieldError::required(path, detail));
            }
            Some(config) if list(config, "nameservers").is_empty() => {
                let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
                return errors.push(FieldError::required(&path.child("nameservers"), detail));
            }
            Some(_) => {}
        }
    }
    let Some(config) = config else { return };
    let shown = |name: &str| Value::Array(list(config, name).to_vec());
    let servers = path.child("nameservers");
    if list(config, "nameservers").len() > MOST_SERVERS {
        let detail = format!("must not have more than {MOST_SERVERS} nameservers");
        errors.push(FieldError::invalid(&servers, &shown("nameservers"), detail));
    }
    for (index, server) in texts(config, "nameservers").enumerate() {
        address(server, &servers.index(index), errors);
    }
    let searches = path.child("searches");
    if list(config, "searches").len() > MOST_SEARCHES {
        let detail = format!("must not have more than {MOST_SEARCHES} search paths");
        errors.push(FieldError::invalid(&searches, &shown("searches"), detail));
    }
    if texts(config, "searches").collect::<Vec<_>>().join(" ").len() > MOST_SEARCH_CHARS {
        let detail =
            format!("must not have more than {MOST_SEARCH_CHARS} characters (including spaces) in the search list");
        errors.push(FieldError::invalid(&searches, &shown("searches"), detail));
    }
    for (index, option) in items(config, "options") {
        if text(option, "name").is_empty() {
            errors.push(FieldError::required(&path.child("options").index(index), "must not be empty"));
        }
    }
}

fn host_aliases(spec: &Map, path: &Path, errors: &mut Errors) {
    for (index, alias) in items(spec, "hostAliases") {
        let path = path.index(index);
        address(text(alias, "ip"), &path.child("ip"), errors);
        for (place, name) in texts(alias, "hostnames").enumerate() {
            faults(&path.child("hostnames").index(place), name, names::dns1123_subdomain(name), errors);
        }
    }
}

fn security(spec: &Map, path: &Path, errors: &mut Errors) {
    let Some(context) = object(spec, "securityContext") else { return };
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        if let Some(id) = int(context, name) {
            in_range(id, 0, i64::from(i32::MAX), &path.child(name), errors);
        }
    }
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        let path = path.child("supplementalGroups").index(index);
        in_range(group.as_i64().unwrap_or_default(), 0, i64::from(i32::MAX), &path, errors);
    }
    one_of(context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], path, errors);
    if let Some(profile) = object(context, "seccompProfile") {
        let supported = ["Localhost", "RuntimeDefault", "Unconfined"];
        one_of_required(profile, "type", &supported, &path.child("seccompProfile"), errors);
    }
}

fn tolerations(spec: &Map, path: &Path, errors: &mut Errors) {
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
            _ => errors.push(FieldError::not_supported(&path.child("operator"), operator, &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            one_of(toleration, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], &path, errors);
        }
    }
}

fn spread(spec: &Map, path: &Path, errors: &mut Errors) {
    for (index, constraint) in items(spec, "topologySpreadConstraints") {
        let path = path.index(index);
        let skew = int(constraint, "maxSkew").unwrap_or_default();
        if skew <= 0 {
            errors.push(FieldError::invalid(&path.child("maxSkew"), skew, "must be greater than zero"));
        }
        if text(constraint, "topologyKey").is_empty() {
            errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty"));
        }
        let when = ["DoNotSchedule", "ScheduleAnyway"];
        if !when.contains(&text(constraint, "whenUnsatisfiable")) {
            let at = path.child("whenUnsatisfiable");
            errors.push(FieldError::not_supported(&at, text(constraint, "whenUnsatisfiable"), &when));
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            one_of(constraint, name, &["Honor", "Ignore"], &path, errors);
        }
        label_selector(constraint, "labelSelector", &path, errors);
    }
}

fn affinity(spec: &Map, path: &Path, errors: &mut Errors) {
    let Some(affinity) = object(spec, "affinity") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = object(affinity, kind) else { continue };
        let path = path.child(kind);
        let (must, may) =
            ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
        for (index, term) in items(terms, must) {
            pod_term(term, &path.child(must).index(index), errors);
        }
        for (index, weighted) in items(terms, may) {
            let path = path.child(may).index(index);
            let weight = int(weighted, "weight").unwrap_or_default();
            if !(1..=100).contains(&weight) {
                errors.push(FieldError::invalid(&path.child("weight"), weight, "must be in the range 1-100"));
            }
            if let Some(term) = object(weighted, "podAffinityTerm") {
                pod_term(term, &path.child("podAffinityTerm"), errors);
            }
        }
    }
}

fn pod_term(term: &Map, path: &Path, errors: &mut Errors) {
    label_selector(term, "labelSelector", path, errors);
    label_selector(term, "namespaceSelector", path, errors);
    if text(term, "topologyKey").is_empty() {
        let detail = "can not be empty";
        errors.push(FieldError::required(&path.child("topologyKey"), detail));
    } else {
        optional_name(term, "topologyKey", names::qualified_name, path, errors);
    }
}

fn host_network(spec: &Map, path: &Path, errors: &mut Errors) {
    for (index, container) in items(spec, "containers") {
        for (place, port) in items(container, "ports") {
            let (host, own) =
                (int(port, "hostPort").unwrap_or_default(), int(port, "containerPort").unwrap_or_default());
            if host != 0 && host != own {
                let path = path.child("containers").index(index).child("ports").index(place).child("hostPort");
                errors.push(FieldError::invalid(&path, host, "must match `containerPort` when `hostNetwork` is true"));
            }
        }
    }
}
