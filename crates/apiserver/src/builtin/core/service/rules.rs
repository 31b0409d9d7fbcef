//! What a Service has to be and what of it may change (`k8s.io/kubernetes/pkg/apis/core/validation`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use super::{HEADLESS, TOPOLOGY_HINTS, is_external, is_headless, needs_address, needs_health_port};
use crate::builtin::rules::Errors;
use crate::builtin::rules::addresses::{address, block, reachable};
use crate::builtin::rules::checks::{
    faults, given_name, labels, one_of, one_of_required, optional_name, port, port_number, required,
};
use crate::builtin::rules::look::{int, is_given, items, list, object, object_at, text, texts};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const BALANCED_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
/// The longest time for which a client keeps its endpoint, in seconds.
const AFFINITY_SECONDS: i64 = 86_400;

/// What is wrong with a Service.
pub(crate) fn validate(service: &Map, errors: &mut Errors) {
    topology(service, errors);
    let Some(spec) = object(service, "spec") else { return };
    let path = Path::new("spec");
    let kind = text(spec, "type");
    if list(spec, "ports").is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.push(FieldError::required(&path.child("ports"), ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid(&path.child("clusterIPs").index(0), HEADLESS, detail));
        }
        "ExternalName" => external_name(spec, &path, errors),
        _ => {}
    }
    ports(spec, &path.child("ports"), errors);
    selector(spec, &path, errors);
    affinity(spec, &path, errors);
    validate_families(spec, errors);
    for (index, ip) in texts(spec, "externalIPs").enumerate() {
        let path = path.child("externalIPs").index(index);
        let before = errors.len();
        address(ip, &path, errors);
        if errors.len() == before {
            reachable(ip, &path, errors);
        }
    }
    one_of_required(spec, "type", TYPES, &path, errors);
    repeated_ports(spec, &path.child("ports"), errors);
    source_ranges(service, spec, &path, errors);
    balancer(spec, &path, errors);
    traffic(spec, &path, errors);
}

/// Two annotations that mean the same have to say the same.
fn topology(service: &Map, errors: &mut Errors) {
    const MODE: &str = "service.kubernetes.io/topology-mode";
    let Some(annotations) = object_at(service, &["metadata", "annotations"]) else { return };
    if is_given(annotations, MODE)
        && is_given(annotations, TOPOLOGY_HINTS)
        && text(annotations, MODE) != text(annotations, TOPOLOGY_HINTS)
    {
        let path = Path::new("metadata").child("annotations").key(MODE);
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.push(FieldError::invalid(&path, text(annotations, MODE), detail));
    }
}

fn external_name(spec: &Map, path: &Path, errors: &mut Errors) {
    for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if is_given(spec, name) {
            errors.push(FieldError::forbidden(&path.child(name), "may not be set for ExternalName services"));
        }
    }
    let name = text(spec, "externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.push(FieldError::required(&path.child("externalName"), "")),
        domain => faults(&path.child("externalName"), domain, names::dns1123_subdomain(domain), errors),
    }
}

fn ports(spec: &Map, path: &Path, errors: &mut Errors) {
    let several = list(spec, "ports").len() > 1;
    let mut seen = BTreeSet::new();
    for (index, entry) in items(spec, "ports") {
        let path = path.index(index);
        let name = text(entry, "name");
        if several {
            required(entry, "name", &path, errors);
        }
        optional_name(entry, "name", names::dns1123_label, &path, errors);
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        port_number(int(entry, "port").unwrap_or_default(), &path.child("port"), errors);
        one_of_required(entry, "protocol", PROTOCOLS, &path, errors);
        port(entry.get("targetPort").unwrap_or(&Value::Null), &path.child("targetPort"), errors);
        given_name(entry, "appProtocol", names::qualified_name, &path, errors);
    }
}

/// Ports of nodes where there are none, and what is there twice.
fn repeated_ports(spec: &Map, path: &Path, errors: &mut Errors) {
    let node_ports = || items(spec, "ports").filter_map(|(index, entry)| Some((index, entry, int(entry, "nodePort")?)));
    let node_ports = || node_ports().filter(|(_, _, node)| *node != 0);
    if text(spec, "type") == "ClusterIP" {
        for (index, ..) in node_ports() {
            let path = path.index(index).child("nodePort");
            errors.push(FieldError::forbidden(&path, "may not be used when `type` is 'ClusterIP'"));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, entry, node) in node_ports() {
        if !seen.insert((text(entry, "protocol"), node)) {
            errors.push(FieldError::duplicate(&path.index(index).child("nodePort"), node));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, entry) in items(spec, "ports") {
        let (protocol, number) = (text(entry, "protocol"), int(entry, "port").unwrap_or_default());
        if !seen.insert((protocol, number)) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":\"{protocol}\",\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\
                 \"NodePort\":0}}"
            );
            errors.push(FieldError::duplicate(&path.index(index), ShownValue::raw(shown)));
        }
    }
}

/// Labels, told of under the selector itself.
fn selector(spec: &Map, path: &Path, errors: &mut Errors) {
    labels(spec, "selector", path, errors);
}

fn affinity(spec: &Map, path: &Path, errors: &mut Errors) {
    one_of_required(spec, "sessionAffinity", &["ClientIP", "None"], path, errors);
    let path = path.child("sessionAffinityConfig");
    match (text(spec, "sessionAffinity"), object(spec, "sessionAffinityConfig")) {
        ("None", Some(_)) => {
            errors.push(FieldError::forbidden(&path, "must not be set when session affinity is None"));
        }
        ("ClientIP", Some(config)) => {
            let seconds =
                object(config, "clientIP").and_then(|client| int(client, "timeoutSeconds")).unwrap_or_default();
            if !(1..=AFFINITY_SECONDS).contains(&seconds) {
                let path = path.child("clientIP").child("timeoutSeconds");
                let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS}");
                errors.push(FieldError::invalid(&path, seconds, detail));
            }
        }
        _ => {}
    }
}

fn ips(spec: &Map) -> Value {
    spec.get("clusterIPs").cloned().unwrap_or_default()
}

/// Addresses, families and their policy, as far as they go together. Asked for before addresses are given
/// and again afterwards.
pub(crate) fn validate_families(spec: &Map, errors: &mut Errors) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let path = Path::new("spec");
    let at = path.child("clusterIPs");
    let addresses: Vec<&str> = texts(spec, "clusterIPs").collect();
    match (text(spec, "clusterIP"), addresses.first()) {
        ("", Some(_)) => {
            errors.push(FieldError::invalid(&at, &ips(spec), "must be empty when `clusterIP` is not specified"));
        }
        ("", None) => {}
        (_, None) => errors.push(FieldError::required(&at, "")),
        (first, Some(have)) if first != *have => {
            errors.push(FieldError::invalid(&at, &ips(spec), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for (index, family) in texts(spec, "ipFamilies").enumerate() {
        let path = path.child("ipFamilies").index(index);
        if !FAMILIES.contains(&family) {
            errors.push(FieldError::not_supported(&path, family, &FAMILIES));
        }
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(&path, family));
        }
    }
    one_of(spec, "ipFamilyPolicy", POLICIES, &path, errors);
    let before = errors.len();
    let mut parsed: Vec<IpAddr> = Vec::new();
    for (index, ip) in addresses.iter().enumerate() {
        if index == 0 && *ip == HEADLESS {
            if addresses.len() > 1 {
                errors.push(FieldError::invalid(&at, &ips(spec), "'None' must be the first and only value"));
            }
            continue;
        }
        parsed.extend(address(ip, &at.index(index), errors));
    }
    if addresses.len() > 2 {
        errors.push(FieldError::invalid(&at, &ips(spec), "may only hold up to 2 values"));
    }
    if errors.len() > before {
        return;
    }
    if let [first, second] = parsed.as_slice()
        && first.is_ipv4() == second.is_ipv4()
    {
        let detail = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(&at, &ips(spec), detail));
    }
    if is_headless(spec) {
        return;
    }
    for (index, (ip, family)) in parsed.iter().zip(texts(spec, "ipFamilies")).enumerate() {
        if FAMILIES.contains(&family) && ip.is_ipv4() != (family == "IPv4") {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(FieldError::invalid(&at.index(index), addresses[index], detail));
        }
    }
}

/// Who may come through the load balancer: a member or, where that is empty, an annotation.
fn source_ranges(service: &Map, spec: &Map, path: &Path, errors: &mut Errors) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let balanced = text(spec, "type") == "LoadBalancer";
    let annotations = object_at(service, &["metadata", "annotations"]);
    if !list(spec, "loadBalancerSourceRanges").is_empty() {
        // Kubernetes writes this one with a capital.
        let path = path.child("LoadBalancerSourceRanges");
        if !balanced {
            errors.push(FieldError::forbidden(&path, BALANCED_ONLY));
        }
        for (index, range) in texts(spec, "loadBalancerSourceRanges").enumerate() {
            block(range.trim(), &path.index(index), errors);
        }
    } else if let Some(ranges) = annotations.and_then(|annotations| annotations.get(ANNOTATION)?.as_str()) {
        let path = Path::new("metadata").child("annotations").key(ANNOTATION);
        if !balanced {
            errors.push(FieldError::forbidden(&path, BALANCED_ONLY));
        }
        for range in ranges.split(',').filter(|_| !ranges.trim().is_empty()) {
            block(range.trim(), &path, errors);
        }
    }
}

fn balancer(spec: &Map, path: &Path, errors: &mut Errors) {
    let balanced = text(spec, "type") == "LoadBalancer";
    for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if is_given(spec, name) && !balanced {
            errors.push(FieldError::forbidden(&path.child(name), BALANCED_ONLY));
        }
    }
    if balanced {
        optional_name(spec, "loadBalancerClass", names::qualified_name, path, errors);
    }
}

fn traffic(spec: &Map, path: &Path, errors: &mut Errors) {
    let policy = text(spec, "externalTrafficPolicy");
    if is_external(spec) {
        one_of_required(spec, "externalTrafficPolicy", &["Cluster", "Local"], path, errors);
    } else if !policy.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid(&path.child("externalTrafficPolicy"), policy, detail));
    }
    let health = int(spec, "healthCheckNodePort").unwrap_or_default();
    let at = path.child("healthCheckNodePort");
    match (needs_health_port(spec), health) {
        (true, 0) => errors.push(FieldError::required(&at, "")),
        (true, health) => port_number(health, &at, errors),
        (false, 0) => {}
        (false, health) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid(&at, health, detail));
        }
    }
    one_of(spec, "internalTrafficPolicy", &["Cluster", "Local"], path, errors);
    one_of(spec, "trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"], path, errors);
}

/// What is wrong with a change: addresses and families are kept once given.
pub(crate) fn validate_change(old: &Map, new: &Map, errors: &mut Errors) {
    let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
    let path = Path::new("spec");
    if needs_address(was) && needs_address(is) && !(is_headless(was) && is_headless(is)) {
        addresses_stay(was, is, &path, errors);
        if is_headless(was) == is_headless(is) {
            families_stay(was, is, &path, errors);
        }
    }
    let balanced = |spec: &Map| text(spec, "type") == "LoadBalancer";
    if balanced(was) && balanced(is) && was.get("loadBalancerClass") != is.get("loadBalancerClass") {
        let shown = is.get("loadBalancerClass").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(&path.child("loadBalancerClass"), shown, "may not change once set"));
    }
    if needs_health_port(was)
        && needs_health_port(is)
        && int(was, "healthCheckNodePort") != int(is, "healthCheckNodePort")
    {
        errors
            .push(FieldError::forbidden(&path.child("healthCheckNodePort"), crate::builtin::rules::checks::IMMUTABLE));
    }
}

fn addresses_stay(was: &Map, is: &Map, path: &Path, errors: &mut Errors) {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (texts(was, "clusterIPs").collect(), texts(is, "clusterIPs").collect());
    let path_of = |index: usize| path.child("clusterIPs").index(index);
    if after.is_empty() && !before.is_empty() {
        errors.push(FieldError::invalid(&path_of(0), &ips(is), "primary clusterIP can not be unset"));
    }
    let compared = if before.len() == after.len() { before.len() } else { 1 };
    for (index, (old, new)) in before.iter().zip(&after).enumerate().take(compared) {
        if old != new {
            errors.push(FieldError::invalid(&path_of(index), &ips(is), "may not change once set"));
        }
    }
    if after.len() == 1 && before.len() > 1 && text(is, "ipFamilyPolicy") != "SingleStack" {
        let shown = is.get("ipFamilyPolicy").unwrap_or(&Value::Null);
        let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        errors.push(FieldError::invalid(&path.child("ipFamilyPolicy"), shown, detail));
    }
}

fn families_stay(was: &Map, is: &Map, path: &Path, errors: &mut Errors) {
    if is_headless(is) {
        return;
    }
    let (before, after): (Vec<&str>, Vec<&str>) =
        (texts(was, "ipFamilies").collect(), texts(is, "ipFamilies").collect());
    let compared = if before.len() == after.len() { before.len() } else { 1 };
    let shown = is.get("ipFamilies").unwrap_or(&Value::Null);
    for (old, new) in before.iter().zip(&after).take(compared) {
        if old != new {
            errors.push(FieldError::invalid(&path.child("ipFamilies").index(0), shown, "may not change once set"));
        }
    }
}
