//! Containers of pods and templates: those that run, those that run first, those that are put in later, and what
//! holds of all of them (`k8s.io/kubernetes/pkg/apis/core/validation`). Their parts have files of their own.

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use super::volumes::Volumes;
use super::{environment, mounts, probes, restarts, security};
use crate::builtin::core::resources;
use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{faults, one_of_required, port_name, port_number, required, required_name};
use crate::builtin::rules::look::{int, is_given, items, list, object, text};

/// What a container may refer to in its pod.
pub(crate) struct Around<'a> {
    /// The volumes that are valid, by name.
    pub(crate) volumes: &'a Volumes<'a>,
    /// The names of the claims of resources.
    pub(crate) claims: BTreeSet<&'a str>,
    /// The seconds that a pod has to end.
    pub(crate) grace: i64,
    /// Whether its users are those of the node.
    pub(crate) host_users: bool,
    /// When the pod's containers are started again.
    pub(crate) restarts: &'a str,
}

/// The lists of containers, in the order in which Kubernetes goes through them.
pub(crate) const ALL: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// All containers of a pod, with their places.
pub(crate) fn visit<'a>(spec: &'a Map, path: &Path) -> impl Iterator<Item = (Path, &'a Map)> + use<'a> {
    let path = path.clone();
    ALL.into_iter().flat_map(move |name| {
        let path = path.child(name);
        items(spec, name).map(move |(index, container)| (path.index(index), container))
    })
}

/// The containers that run.
pub(crate) fn validate(spec: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    let path = path.child("containers");
    if list(spec, "containers").is_empty() {
        return errors.push(FieldError::required(&path, ""));
    }
    let mut seen = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for (index, container) in items(spec, "containers") {
        let path = path.index(index);
        shared(container, around, &path, errors);
        if !seen.insert(text(container, "name")) {
            errors.push(FieldError::duplicate(&path.child("name"), text(container, "name")));
        }
        probes::validate(container, around, &path, errors);
        restarts::validate(container, &path, errors);
        host_ports(container, &mut ports, &path, errors);
    }
}

/// The containers that run first.
pub(crate) fn validate_init(spec: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    const ONLY_FOR_SIDECARS: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
    let path = path.child("initContainers");
    let mut seen: BTreeSet<&str> = items(spec, "containers").map(|(_, container)| text(container, "name")).collect();
    for (index, container) in items(spec, "initContainers") {
        let own = path.index(index);
        shared(container, around, &own, errors);
        restarts::validate(container, &own, errors);
        let name = text(container, "name");
        if !seen.insert(name) && !name.is_empty() {
            errors.push(FieldError::duplicate(&own.child("name"), name));
        }
        // Kubernetes looks at them one at a time, and names the first place whichever it is.
        host_ports(container, &mut BTreeSet::new(), &path.index(0), errors);
        if text(container, "restartPolicy") == "Always" {
            probes::validate(container, around, &own, errors);
            continue;
        }
        for field in ONLY_FOR_SIDECARS.into_iter().filter(|field| is_given(container, field)) {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.push(FieldError::forbidden(&own.child(field), detail));
        }
        for (place, policy) in items(container, "resizePolicy") {
            if text(policy, "restartPolicy") == "RestartContainer" {
                let at = own.child("resizePolicy").index(place).child("restartPolicy");
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.push(FieldError::invalid(&at, "RestartContainer", detail));
            }
        }
    }
}

/// The containers that are put into a pod that runs.
pub(crate) fn validate_ephemeral(spec: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    /// What such a container has none of, in the order of its type.
    const NOT_THERE: [&str; 8] = [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ];
    let path = path.child("ephemeralContainers");
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|name| items(spec, name))
        .map(|(_, container)| text(container, "name"))
        .collect();
    let mut seen = others.clone();
    for (index, container) in items(spec, "ephemeralContainers") {
        let path = path.index(index);
        shared(container, around, &path, errors);
        only_for_pods(container, &path, errors);
        let name = text(container, "name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(&path.child("targetContainerName"), target));
        }
        let detail = "cannot be set for an Ephemeral Container";
        let has = |name: &str| match container.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Object(map)) if name == "resources" => !map.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        for name in NOT_THERE.into_iter().chain(["lifecycle"]).filter(|name| has(name)) {
            errors.push(FieldError::forbidden(&path.child(name), detail));
        }
        for (place, mount) in items(container, "volumeMounts") {
            for name in ["subPath", "subPathExpr"].into_iter().filter(|name| !text(mount, name).is_empty()) {
                let at = path.child("volumeMounts").index(place).child(name);
                errors.push(FieldError::forbidden(&at, detail));
            }
        }
    }
}

/// What holds of containers of every sort.
fn shared(container: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    required_name(container, "name", names::dns1123_label, path, errors);
    required(container, "image", path, errors);
    let policies = ["File", "FallbackToLogsOnError"];
    one_of_required(container, "terminationMessagePolicy", &policies, path, errors);
    ports(container, &path.child("ports"), errors);
    environment::validate(container, path, errors);
    mounts::validate(container, around, path, errors);
    one_of_required(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
    if let Some(wanted) = object(container, "resources") {
        resources::validate_requirements(wanted, &path.child("resources"), errors);
        claims(wanted, around, &path.child("resources").child("claims"), errors);
    }
    resizing(container, around.restarts, &path.child("resizePolicy"), errors);
    if let Some(context) = object(container, "securityContext") {
        security::of_container(context, around, &path.child("securityContext"), errors);
    }
}

/// What holds of the containers of pods, not of those of templates: they are started as they are.
pub(crate) fn only_for_pods(container: &Map, path: &Path, errors: &mut Errors) {
    let image = text(container, "image");
    if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(&path.child("image"), image, detail));
    }
}

fn ports(container: &Map, path: &Path, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, port) in items(container, "ports") {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let found = port_name(name);
            if found.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
            faults(&path.child("name"), name, found, errors);
        }
        match int(port, "containerPort").unwrap_or_default() {
            0 => errors.push(FieldError::required(&path.child("containerPort"), "")),
            number => port_number(number, &path.child("containerPort"), errors),
        }
        if let Some(number) = int(port, "hostPort").filter(|number| *number != 0) {
            port_number(number, &path.child("hostPort"), errors);
        }
        one_of_required(port, "protocol", &["SCTP", "TCP", "UDP"], &path, errors);
    }
}

/// A port of the host is taken once.
fn host_ports(container: &Map, taken: &mut BTreeSet<String>, path: &Path, errors: &mut Errors) {
    for (index, port) in items(container, "ports") {
        let number = int(port, "hostPort").unwrap_or_default();
        let place = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
        if number != 0 && !taken.insert(place.clone()) {
            errors.push(FieldError::duplicate(&path.child("ports").index(index).child("hostPort"), &place));
        }
    }
}

/// The pod's claims that a container uses: each once, whole or by its requests.
fn claims(wanted: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in items(wanted, "claims") {
        let path = path.index(index);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        if seen.contains(name) {
            errors.push(FieldError::duplicate(&path, name));
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                faults(&path.child("request"), request, names::dns1123_label(request), errors);
                key = format!("{name}/{request}");
            }
            let in_parts = seen.iter().filter(|key| key.split_once('/').is_some_and(|(whole, _)| whole == name));
            if seen.contains(&key) {
                errors.push(FieldError::duplicate(&path, &key));
            } else if request.is_empty() {
                errors.extend(in_parts.map(|_| FieldError::duplicate(&path, name)));
            }
            seen.insert(key);
        }
        if !around.claims.contains(name) {
            let known: Vec<&str> = around.claims.iter().copied().collect();
            let known = if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", known.join(", ")) };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{known}");
            errors.push(FieldError::not_found(&path, name).with_detail(detail));
        }
    }
}

/// What is done where a container's resources change while it runs.
fn resizing(container: &Map, restarts: &str, path: &Path, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    // Kubernetes names the list here, not the element.
    for (index, policy) in items(container, "resizePolicy") {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(&path.index(index), resource));
        }
        for (value, supported) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            if value.is_empty() {
                errors.push(FieldError::required(path, ""));
            } else if !supported.contains(&value) {
                errors.push(FieldError::not_supported(path, value, &supported));
            }
        }
        if restarts == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(path, restart, detail));
        }
    }
}
