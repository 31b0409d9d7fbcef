//! A pod's spec, in the order in which Kubernetes goes through it
//! (`k8s.io/kubernetes/pkg/apis/core/validation`, ValidatePodSpec). Its parts have files of their own.

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use crate::builtin::core::resources;
use crate::builtin::rules::Errors;
use crate::builtin::rules::addresses::address;
use crate::builtin::rules::checks::{faults, in_range, labels, one_of_required, optional_name, required_name};
use crate::builtin::rules::look::{flag, int, is_given, items, list, object, text, texts};

use super::containers::{self, Around, visit};
use super::{Sort, mounts, scheduling, security, volumes, windows};

type NameCheck = fn(&str) -> names::Faults;

/// Members that are names.
const NAMES: &[(&str, NameCheck)] = &[
    ("serviceAccountName", names::dns1123_subdomain),
    ("nodeName", names::dns1123_subdomain),
    ("hostname", names::dns1123_label),
    ("subdomain", names::dns1123_label),
    ("priorityClassName", names::dns1123_subdomain),
];

/// The spec of a pod, or of a template of pods.
pub(crate) fn validate(spec: &Map, sort: Sort<'_>, path: &Path, errors: &mut Errors) {
    if !is_given(spec, "terminationGracePeriodSeconds") {
        errors.push(FieldError::required(&path.child("terminationGracePeriodSeconds"), ""));
    }
    let volumes = volumes::validate(spec, sort, path, errors);
    let claims = items(spec, "resourceClaims").map(|(_, claim)| text(claim, "name")).filter(|name| !name.is_empty());
    let around = Around {
        volumes: &volumes,
        claims: claims.collect(),
        grace: int(spec, "terminationGracePeriodSeconds").unwrap_or_default(),
        host_users: spec.get("hostUsers").and_then(Value::as_bool).unwrap_or(true),
        restarts: text(spec, "restartPolicy"),
    };
    resource_claims(spec, &path.child("resourceClaims"), errors);
    containers::validate(spec, &around, path, errors);
    containers::validate_init(spec, &around, path, errors);
    containers::validate_ephemeral(spec, &around, path, errors);
    if let Some(wanted) = object(spec, "resources") {
        of_all_containers(spec, wanted, &path.child("resources"), errors);
    }
    if flag(spec, "hostNetwork") {
        host_network(spec, sort, path, errors);
    }
    one_of_required(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, errors);
    one_of_required(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], path, errors);
    labels(spec, "nodeSelector", path, errors);
    security::of_pod(spec, &path.child("securityContext"), errors);
    scheduling::affinity(spec, &path.child("affinity"), errors);
    dns(spec, &path.child("dnsConfig"), errors);
    gates(spec, path, errors);
    scheduling::spread(spec, &path.child("topologySpreadConstraints"), errors);
    windows::host_processes(spec, path, errors);
    host_users(spec, path, errors);
    host_name(spec, &path.child("hostnameOverride"), errors);
    for (name, rule) in NAMES {
        optional_name(spec, name, *rule, path, errors);
    }
    if let Some(seconds) = int(spec, "activeDeadlineSeconds") {
        in_range(seconds, 1, i64::from(i32::MAX), &path.child("activeDeadlineSeconds"), errors);
    }
    scheduling::tolerations(spec, &path.child("tolerations"), errors);
    host_aliases(spec, &path.child("hostAliases"), errors);
    if is_given(spec, "runtimeClassName") {
        let name = text(spec, "runtimeClassName");
        faults(&path.child("runtimeClassName"), name, names::dns1123_subdomain(name), errors);
    }
    if is_given(spec, "preemptionPolicy") {
        one_of_required(spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"], path, errors);
    }
    if let Some(overhead) = object(spec, "overhead") {
        let as_limits = Map::from_iter([("limits".to_owned(), Value::Object(overhead.clone()))]);
        resources::validate_requirements(&as_limits, &path.child("overhead"), errors);
    }
    windows::system(spec, path, errors);
    mounts::validate_file_keys(spec, path, errors);
}

/// Claims of resources, by reference or by a template.
fn resource_claims(spec: &Map, path: &Path, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, claim) in items(spec, "resourceClaims") {
        let path = path.index(index);
        let name = text(claim, "name");
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        } else {
            required_name(claim, "name", names::dns1123_label, &path, errors);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match sources.iter().filter(|name| is_given(claim, name)).count() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
        };
        if let Some(detail) = detail {
            let member = |name: &str| claim.get(name).unwrap_or(&Value::Null).to_string();
            let shown = format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                Value::from(name),
                member("resourceClaimName"),
                member("resourceClaimTemplateName")
            );
            errors.push(FieldError::invalid(&path, allotment_machinery::field::ShownValue::raw(shown), detail));
        }
        for source in sources.into_iter().filter(|name| is_given(claim, name)) {
            let name = text(claim, source);
            faults(&path.child(source), name, names::dns1123_subdomain(name), errors);
        }
    }
}

/// What a pod may use as a whole: cpu, memory and huge pages, and no less than its containers.
fn of_all_containers(spec: &Map, wanted: &Map, path: &Path, errors: &mut Errors) {
    if object(spec, "os").is_some_and(|os| text(os, "name") == "windows") {
        return errors.push(FieldError::forbidden(path, "may not be set for a windows pod"));
    }
    if is_given(wanted, "claims") {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(&path.child("claims"), detail));
    }
    resources::validate_of_pod(wanted, path, errors);
    for (name, requested) in resources::entries(wanted, "requests") {
        let (Some(sum), Some(given)) =
            (resources::sum_of_containers(spec, "requests", name), resources::read(requested))
        else {
            continue;
        };
        if sum > given {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.push(FieldError::invalid(&path.child("requests").key(name), requested, detail));
        }
    }
    for (index, container) in items(spec, "containers") {
        let Some(own) = object(container, "resources") else { continue };
        for (name, limit) in resources::entries(own, "limits") {
            let of_pod = object(wanted, "limits").and_then(|limits| limits.get(name));
            if let (Some(of_pod), Some(limit_read)) = (of_pod, resources::read(limit))
                && resources::read(of_pod).is_some_and(|of_pod| limit_read > of_pod)
            {
                // Kubernetes has the place the other way round.
                let at = path.child("containers").index(index).key(name).child("limits");
                let detail =
                    format!("must be less than or equal to pod limits of {}", of_pod.as_str().unwrap_or_default());
                errors.push(FieldError::invalid(&at, limit, detail));
            }
        }
    }
}

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
    for (index, search) in texts(config, "searches").enumerate().filter(|(_, search)| *search != ".") {
        let name = search.strip_suffix('.').unwrap_or(search);
        faults(&searches.index(index), name, search_path(name), errors);
    }
    for (index, option) in items(config, "options") {
        if text(option, "name").is_empty() {
            errors.push(FieldError::required(&path.child("options").index(index), "must not be empty"));
        }
    }
}

/// A domain to look in: its labels may hold underscores too.
fn search_path(name: &str) -> names::Faults {
    const LONGEST: usize = 253;
    let mut found = Vec::new();
    if name.len() > LONGEST {
        found.push("must be no more than 253 characters");
    }
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        let ends = label.bytes().next().is_some_and(plain) && label.bytes().next_back().is_some_and(plain);
        ends && label.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'_'))
    };
    if !name.split('.').all(label) {
        found.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
        );
    }
    found
}

/// What a pod waits for before it is ready, and before it is given a node.
fn gates(spec: &Map, path: &Path, errors: &mut Errors) {
    for (index, gate) in items(spec, "readinessGates") {
        let kind = text(gate, "conditionType");
        let at = path.child("readinessGates").index(index).child("conditionType");
        faults(&at, kind, names::qualified_name(kind), errors);
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in items(spec, "schedulingGates") {
        let (name, at) = (text(gate, "name"), path.child("schedulingGates").index(index));
        faults(&at, name, names::qualified_name(name), errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
    }
}

/// A pod with users of its own shares nothing else with its node.
fn host_users(spec: &Map, path: &Path, errors: &mut Errors) {
    if spec.get("hostUsers").and_then(Value::as_bool) != Some(false) {
        return;
    }
    let detail = "when `hostUsers` is false";
    for (name, called) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if flag(spec, name) {
            errors.push(FieldError::forbidden(&path.child(called), detail));
        }
    }
    for (at, _) in visit(spec, path).filter(|(_, container)| !list(container, "volumeDevices").is_empty()) {
        errors.push(FieldError::forbidden(&at.child("volumeDevices"), detail));
    }
}

fn host_name(spec: &Map, path: &Path, errors: &mut Errors) {
    const LONGEST: usize = 64;
    if !is_given(spec, "hostnameOverride") {
        return;
    }
    for name in ["setHostnameAsFQDN", "hostNetwork"].into_iter().filter(|name| flag(spec, name)) {
        errors.push(FieldError::forbidden(path, format!("may not be specified when {name} is true")));
    }
    let name = text(spec, "hostnameOverride");
    if name.len() > LONGEST {
        errors.push(FieldError::too_long(path, LONGEST));
    }
    faults(path, name, names::dns1123_subdomain(name), errors);
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

/// Ports of the host are those of the container. Templates may leave that to the pods.
fn host_network(spec: &Map, sort: Sort<'_>, path: &Path, errors: &mut Errors) {
    for (index, container) in items(spec, "containers") {
        for (place, port) in items(container, "ports") {
            let (host, own) =
                (int(port, "hostPort").unwrap_or_default(), int(port, "containerPort").unwrap_or_default());
            if (sort.is_pod() || host != 0) && host != own {
                let path = path.child("containers").index(index).child("ports").index(place).child("hostPort");
                errors.push(FieldError::invalid(&path, host, "must match `containerPort` when `hostNetwork` is true"));
            }
        }
    }
}
