//! Ingresses, their classes and NetworkPolicies (`k8s.io/kubernetes/pkg/apis/networking/validation`). Nothing
//! routes or filters here.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use jiff::Timestamp;

use crate::builtin::print::cells;
use crate::builtin::print::{self, or_none};
use crate::builtin::rules::addresses::{self, block_warning};
use crate::builtin::rules::balancer::{status_warnings, validate_ingress_status};
use crate::builtin::rules::checks::{
    domain_prefixed, faults, given_name, immutable, label_selector, one_of, optional_name, port_name, port_number,
    required_name,
};
use crate::builtin::rules::look::{int, is_given, items, list, object, object_at, text, texts};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::registry::{Operation, Warnings};

/// The longest controller of a class, in bytes.
const CONTROLLER_LENGTH: usize = 250;
/// Where an Ingress told its class before there was a member for it.
const CLASS: &str = "kubernetes.io/ingress.class";
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";
/// How many hosts are shown.
const SHOWN_HOSTS: usize = 3;

/// Ingresses.
pub(crate) const INGRESS: Rules = Rules {
    metadata: WHOLE_TOO,
    counts: true,
    validate: validate_ingress,
    validate_new: same_class,
    validate_status: |_, ingress, errors| validate_ingress_status(ingress, errors),
    warn: |operation, ingress| match operation {
        Operation::Create => class_warnings(ingress),
        Operation::Update { subresource: "status", .. } => status_warnings(ingress),
        Operation::Update { .. } => Warnings::default(),
    },
    cells: Some(ingress_cells),
    ..Rules::of("networking/v1.Ingress")
};

/// IngressClasses.
pub(crate) const INGRESS_CLASS: Rules = Rules {
    metadata: WHOLE_TOO,
    counts: true,
    validate: validate_class,
    change_first: true,
    validate_change: |old, new, errors| {
        let empty = Map::new();
        let spec = |object_: &'_ Map| object(object_, "spec").unwrap_or(&empty).clone();
        immutable(&spec(old), &spec(new), &["controller"], &Path::new("spec"), errors);
    },
    cells: Some(class_cells),
    ..Rules::of("networking/v1.IngressClass")
};

/// NetworkPolicies.
pub(crate) const NETWORK_POLICY: Rules = Rules {
    counts: true,
    validate: validate_policy,
    warn: |_, policy| policy_warnings(policy),
    cells: Some(|policy, now| {
        let selector = object(policy, "spec").map_or_else(|| or_none(""), |spec| print::selector(spec, "podSelector"));
        vec![cells::name(policy), selector, cells::age(policy, now)]
    }),
    ..Rules::of("networking/v1.NetworkPolicy")
};

fn validate_ingress(ingress: &Map, errors: &mut Errors) {
    let Some(spec) = object(ingress, "spec") else { return };
    let path = Path::new("spec");
    if list(spec, "rules").is_empty() && !is_given(spec, "defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(&path, spec.get("rules").unwrap_or(&Value::Null), detail));
    }
    if let Some(default) = object(spec, "defaultBackend") {
        backend(default, &path.child("defaultBackend"), errors);
    }
    for (index, rule) in items(spec, "rules") {
        let path = path.child("rules").index(index);
        host(text(rule, "host"), &path.child("host"), errors);
        let Some(http) = object(rule, "http") else { continue };
        let path = path.child("http").child("paths");
        if list(http, "paths").is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
        for (index, place) in items(http, "paths") {
            http_path(place, &path.index(index), errors);
        }
    }
    for (index, tls) in items(spec, "tls") {
        let path = path.child("tls").index(index);
        for (index, name) in texts(tls, "hosts").enumerate() {
            dns_name(name, &path.child("hosts").index(index), errors);
        }
        optional_name(tls, "secretName", names::dns1123_subdomain, &path, errors);
    }
    if let Some(class) = spec.get("ingressClassName").and_then(Value::as_str) {
        faults(&path.child("ingressClassName"), class, names::dns1123_subdomain(class), errors);
    }
}

/// Whose an Ingress is, is told in one place or the same in two; asked of new ones only.
fn same_class(ingress: &Map, errors: &mut Errors) {
    let class = object_at(ingress, &["spec"]).and_then(|spec| spec.get("ingressClassName")?.as_str());
    let annotation = object_at(ingress, &["metadata", "annotations"]).and_then(|have| have.get(CLASS)?.as_str());
    if let (Some(class), Some(annotation)) = (class, annotation)
        && class != annotation
    {
        let path = Path::new("annotations").child(CLASS);
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(&path, annotation, detail));
    }
}

fn class_warnings(ingress: &Map) -> Warnings {
    let annotated = object_at(ingress, &["metadata", "annotations"]).is_some_and(|have| have.contains_key(CLASS));
    let classless = object(ingress, "spec").is_none_or(|spec| !is_given(spec, "ingressClassName"));
    let text = || format!("annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead");
    (annotated && classless).then(text).into_iter().collect()
}

fn policy_warnings(policy: &Map) -> Warnings {
    let mut warnings = Warnings::default();
    let Some(spec) = object(policy, "spec") else { return warnings };
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (rule_index, rule) in items(spec, direction) {
            for (index, peer) in items(rule, peers) {
                let Some(block) = object(peer, "ipBlock") else { continue };
                let path = Path::new("spec").child(direction).index(rule_index).child(peers).index(index);
                let path = path.child("ipBlock");
                warnings.extend(block_warning(text(block, "cidr"), &path.child("cidr")));
                let excepts = texts(block, "except").enumerate();
                warnings
                    .extend(excepts.filter_map(|(at, except)| block_warning(except, &path.child("except").index(at))));
            }
        }
    }
    warnings
}

fn host(name: &str, path: &Path, errors: &mut Errors) {
    if name.is_empty() {
        return;
    }
    if addresses::is_address(name) {
        errors.push(FieldError::invalid(path, name, "must be a DNS name, not an IP address"));
    }
    dns_name(name, path, errors);
}

/// A domain, or all of one's children.
fn dns_name(name: &str, path: &Path, errors: &mut Errors) {
    if !name.contains('*') {
        return faults(path, name, names::dns1123_subdomain(name), errors);
    }
    let fits = name.strip_prefix("*.").is_some_and(|rest| names::dns1123_subdomain(rest).is_empty());
    if !fits {
        let detail = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
            consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
            '*.example.com', regex used for validation is \
            '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

fn http_path(place: &Map, path: &Path, errors: &mut Errors) {
    const NOT_WITHIN: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
    let value = text(place, "path");
    let absolute = |errors: &mut Errors| {
        if !value.starts_with('/') {
            errors.push(FieldError::invalid(&path.child("path"), value, "must be an absolute path"));
        }
    };
    match text(place, "pathType") {
        "" => {
            let detail = "pathType must be specified";
            return errors.push(FieldError::required(&path.child("pathType"), detail));
        }
        "Exact" | "Prefix" => {
            absolute(errors);
            for part in NOT_WITHIN.iter().filter(|part| value.contains(**part)) {
                errors.push(FieldError::invalid(&path.child("path"), value, format!("must not contain '{part}'")));
            }
            for end in ["/..", "/."].iter().filter(|end| value.ends_with(**end)) {
                errors.push(FieldError::invalid(&path.child("path"), value, format!("cannot end with '{end}'")));
            }
        }
        "ImplementationSpecific" => {
            if !value.is_empty() {
                absolute(errors);
            }
        }
        other => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(&path.child("pathType"), other, &supported));
        }
    }
    if let Some(behind) = object(place, "backend") {
        backend(behind, &path.child("backend"), errors);
    }
}

fn backend(backend: &Map, path: &Path, errors: &mut Errors) {
    let (resource, service) = (object(backend, "resource"), object(backend, "service"));
    match (resource, service) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (None, None) => errors.push(FieldError::invalid(path, "", "resource or service backend is required")),
        (Some(resource), None) => {
            let path = path.child("resource");
            given_name(resource, "apiGroup", names::dns1123_subdomain, &path, errors);
            for name in ["kind", "name"] {
                required_name(resource, name, names::path_segment, &path, errors);
            }
        }
        (None, Some(service)) => {
            let inner = path.child("service");
            required_name(service, "name", names::dns1123_label, &inner, errors);
            let port = object(service, "port");
            let name = port.map_or("", |port| text(port, "name"));
            let number = port.and_then(|port| int(port, "number")).unwrap_or_default();
            match (name.is_empty(), number) {
                (true, 0) => errors.push(FieldError::required(path, "port name or number is required")),
                (true, number) => port_number(number, &inner.child("port").child("number"), errors),
                (false, 0) => faults(&inner.child("port").child("name"), name, port_name(name), errors),
                (false, _) => {
                    errors.push(FieldError::invalid(path, "", "cannot set both port name & port number"));
                }
            }
        }
    }
}

fn validate_class(class: &Map, errors: &mut Errors) {
    let Some(spec) = object(class, "spec") else { return };
    let path = Path::new("spec");
    let controller = text(spec, "controller");
    if controller.len() > CONTROLLER_LENGTH {
        errors.push(FieldError::too_long(&path.child("controller"), CONTROLLER_LENGTH));
    }
    domain_prefixed(controller, &path.child("controller"), errors);
    let Some(parameters) = object(spec, "parameters") else { return };
    let path = path.child("parameters");
    given_name(parameters, "apiGroup", names::dns1123_subdomain, &path, errors);
    for name in ["kind", "name"] {
        required_name(parameters, name, names::path_segment, &path, errors);
    }
    match (text(parameters, "scope"), is_given(parameters, "namespace")) {
        ("Namespace", false) => {
            let detail = "`parameters.scope` is set to 'Namespace'";
            errors.push(FieldError::required(&path.child("namespace"), detail));
        }
        ("Namespace", true) => given_name(parameters, "namespace", names::dns1123_label, &path, errors),
        ("Cluster", true) => {
            let detail = "`parameters.scope` is set to 'Cluster'";
            errors.push(FieldError::forbidden(&path.child("namespace"), detail));
        }
        _ => one_of(parameters, "scope", &["Cluster", "Namespace"], &path, errors),
    }
}

fn validate_policy(policy: &Map, errors: &mut Errors) {
    let Some(spec) = object(policy, "spec") else { return };
    let path = Path::new("spec");
    label_selector(spec, "podSelector", &path, errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(spec, direction) {
            let path = path.child(direction).index(index);
            for (index, port) in items(rule, "ports") {
                policy_port(port, &path.child("ports").index(index), errors);
            }
            for (index, peer) in items(rule, peers) {
                policy_peer(peer, &path.child(peers).index(index), errors);
            }
        }
    }
    let path = path.child("policyTypes");
    if list(spec, "policyTypes").len() > 2 {
        let shown = spec.get("policyTypes").unwrap_or(&Value::Null);
        return errors.push(FieldError::invalid(&path, shown, "may not specify more than two policyTypes"));
    }
    for (index, kind) in texts(spec, "policyTypes").enumerate() {
        if !["Ingress", "Egress"].contains(&kind) {
            errors.push(FieldError::not_supported(&path.index(index), kind, &["Ingress", "Egress"]));
        }
    }
}

fn policy_port(port: &Map, path: &Path, errors: &mut Errors) {
    one_of(port, "protocol", &["TCP", "UDP", "SCTP"], path, errors);
    let end = int(port, "endPort");
    let end_path = path.child("endPort");
    let fault = match port.get("port") {
        Some(Value::String(name)) => {
            let detail = "may not be specified when `port` is non-numeric";
            errors.extend(end.map(|end| FieldError::invalid(&end_path, end, detail)));
            faults(&path.child("port"), name, port_name(name), errors);
            None
        }
        Some(Value::Number(number)) => {
            let number = number.as_i64().unwrap_or_default();
            port_number(number, &path.child("port"), errors);
            if let Some(end) = end {
                if end < number {
                    let detail = "must be greater than or equal to `port`";
                    errors.push(FieldError::invalid(&end_path, number, detail));
                }
                port_number(end, &end_path, errors);
            }
            None
        }
        _ => Some("may not be specified when `port` is not specified"),
    };
    if let (Some(end), Some(detail)) = (end, fault) {
        errors.push(FieldError::invalid(&end_path, end, detail));
    }
}

fn policy_peer(peer: &Map, path: &Path, errors: &mut Errors) {
    let given = ["podSelector", "namespaceSelector", "ipBlock"].into_iter().filter(|name| is_given(peer, name)).count();
    label_selector(peer, "podSelector", path, errors);
    label_selector(peer, "namespaceSelector", path, errors);
    if let Some(block) = object(peer, "ipBlock") {
        policy_block(block, &path.child("ipBlock"), errors);
        if given > 1 {
            errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
        }
    }
    if given == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    }
}

fn policy_block(block: &Map, path: &Path, errors: &mut Errors) {
    if text(block, "cidr").is_empty() {
        return errors.push(FieldError::required(&path.child("cidr"), ""));
    }
    let Some(outer) = addresses::block(text(block, "cidr"), &path.child("cidr"), errors) else { return };
    for (index, except) in texts(block, "except").enumerate() {
        let path = path.child("except").index(index);
        if addresses::block(except, &path, errors).is_some_and(|inner| !outer.strictly_contains(&inner)) {
            errors.push(FieldError::invalid(&path, except, "must be a strict subset of `cidr`"));
        }
    }
}

fn ingress_cells(ingress: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let spec = object(ingress, "spec").unwrap_or(&empty);
    let (mut hosts, mut more) = (Vec::new(), false);
    for (_, rule) in items(spec, "rules") {
        // A rule behind the last host that is shown counts, with a host or without.
        more |= hosts.len() == SHOWN_HOSTS;
        hosts.extend(Some(text(rule, "host")).filter(|host| !more && !host.is_empty()));
    }
    let shown = match hosts.join(",") {
        none if none.is_empty() => "*".to_owned(),
        shown if more => format!("{shown} + {} more...", list(spec, "rules").len() - SHOWN_HOSTS),
        shown => shown,
    };
    vec![
        cells::name(ingress),
        or_none(text(spec, "ingressClassName")),
        Value::from(shown),
        Value::from(print::balancer(ingress)),
        Value::from(if list(spec, "tls").is_empty() { "80" } else { "80, 443" }),
        cells::age(ingress, now),
    ]
}

fn class_cells(class: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let spec = object(class, "spec").unwrap_or(&empty);
    let parameters = object(spec, "parameters").map(|parameters| {
        let group = text(parameters, "apiGroup");
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        format!("{}{group}/{}", text(parameters, "kind"), text(parameters, "name"))
    });
    vec![
        print::name_or_default(class, DEFAULT_CLASS),
        Value::from(text(spec, "controller")),
        or_none(&parameters.unwrap_or_default()),
        cells::age(class, now),
    ]
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json::parse;

    use super::*;
    use crate::builtin::rules::judged;

    fn ingress(metadata: &str, spec: &str) -> Value {
        parse(format!(r#"{{"metadata":{{"name":"i"{metadata}}},"spec":{{{spec}}}}}"#).as_bytes()).expect("is JSON")
    }

    #[test]
    fn an_ingress_tells_its_class_in_one_place_or_the_same_in_two() {
        const BACKEND: &str = r#""defaultBackend":{"service":{"name":"s","port":{"number":80}}}"#;
        let check = |annotation: &str, class: &str, expect: &[&str], warned: usize| {
            let new = ingress(annotation, &format!("{BACKEND}{class}"));
            assert_eq!(class_warnings(&judged::object(new.clone())).len(), warned, "{new}");
            judged::check(&INGRESS, None, new.clone(), expect);
            // Whoever made it before the rule was there can still change it.
            judged::check(&INGRESS, Some(new.clone()), new, &[]);
        };
        let annotated = r#","annotations":{"kubernetes.io/ingress.class":"a"}"#;
        check("", "", &[], 0);
        check("", r#","ingressClassName":"a""#, &[], 0);
        check(annotated, "", &[], 1);
        check(annotated, r#","ingressClassName":"a""#, &[], 0);
        check(
            annotated,
            r#","ingressClassName":"b""#,
            &[
                "annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are \
               specified",
            ],
            0,
        );
    }

    #[test]
    fn tables_show_three_hosts_and_how_many_rules_come_behind_them() {
        let check = |hosts: &[&str], more: &str, expect: [&str; 4]| {
            let rules: Vec<String> = hosts.iter().map(|host| format!(r#"{{"host":"{host}"}}"#)).collect();
            let object = judged::object(ingress("", &format!(r#""rules":[{}]{more}"#, rules.join(","))));
            assert_eq!(ingress_cells(&object, Timestamp::UNIX_EPOCH)[1..5], expect.map(Value::from), "{hosts:?}");
        };
        check(&[], "", ["<none>", "*", "", "80"]);
        check(&["", ""], r#","ingressClassName":"c""#, ["c", "*", "", "80"]);
        check(&["a", "b", "c"], r#","tls":[{}]"#, ["<none>", "a,b,c", "", "80, 443"]);
        check(&["a", "", "b", "c"], "", ["<none>", "a,b,c", "", "80"]);
        check(&["a", "b", "c", ""], "", ["<none>", "a,b,c + 1 more...", "", "80"]);
        check(&["a", "b", "c", "d", "e"], "", ["<none>", "a,b,c + 2 more...", "", "80"]);
    }
}
