//! Where a load balancer can be reached, as Services and Ingresses tell in their status
//! (`ValidateLoadBalancerStatus`, `ValidateIngressLoadBalancerStatus`).

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use super::Errors;
use super::addresses::{address, address_warning, is_address};
use super::checks::faults;
use super::look::{items, object_at, text};

use crate::registry::Warnings;

/// How an address may be used.
const MODES: [&str; 2] = ["Proxy", "VIP"];

fn path() -> Path {
    Path::new("status").child("loadBalancer").child("ingress")
}

fn balancer(object: &Map) -> Option<&Map> {
    object_at(object, &["status", "loadBalancer"])
}

/// What is wrong with the status of an Ingress.
pub(crate) fn validate_ingress_status(ingress: &Map, errors: &mut Errors) {
    let Some(balancer) = balancer(ingress) else { return };
    for (index, entry) in items(balancer, "ingress") {
        let path = path().index(index);
        if !text(entry, "ip").is_empty() {
            address(text(entry, "ip"), &path.child("ip"), errors);
        }
        host(entry, &path, errors);
    }
}

/// What is wrong with the status of a Service.
pub(crate) fn validate_service_status(service: &Map, errors: &mut Errors) {
    let Some(balancer) = balancer(service) else { return };
    let kind = object_at(service, &["spec"]).map_or("", |spec| text(spec, "type"));
    if kind != "LoadBalancer" && items(balancer, "ingress").next().is_some() {
        return errors.push(FieldError::forbidden(&path(), "may only be used when `spec.type` is 'LoadBalancer'"));
    }
    for (index, entry) in items(balancer, "ingress") {
        let path = path().index(index);
        let ip = text(entry, "ip");
        if !ip.is_empty() {
            address(ip, &path.child("ip"), errors);
        }
        let at = path.child("ipMode");
        match entry.get("ipMode").and_then(Value::as_str) {
            None if !ip.is_empty() => errors.push(FieldError::required(&at, "must be specified when `ip` is set")),
            Some(_) if ip.is_empty() => {
                errors.push(FieldError::forbidden(&at, "may not be specified when `ip` is not set"));
            }
            Some(mode) if !MODES.contains(&mode) => errors.push(FieldError::not_supported(&at, mode, &MODES)),
            _ => {}
        }
        host(entry, &path, errors);
    }
}

fn host(entry: &Map, path: &Path, errors: &mut Errors) {
    let (path, host) = (path.child("hostname"), text(entry, "hostname"));
    if host.is_empty() {
        return;
    }
    faults(&path, host, names::dns1123_subdomain(host), errors);
    if is_address(host) {
        errors.push(FieldError::invalid(&path, host, "must be a DNS name, not an IP address"));
    }
}

/// What is said of addresses in a status.
pub(crate) fn status_warnings(object: &Map) -> Warnings {
    let entries = balancer(object).into_iter().flat_map(|balancer| items(balancer, "ingress"));
    entries.filter_map(|(index, entry)| address_warning(text(entry, "ip"), &path().index(index))).collect()
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    #[track_caller]
    fn check(judge: fn(&Map, &mut Errors), object: Value, expect: &[&str]) {
        let mut errors = Errors::default();
        judge(object.as_object().expect("an object"), &mut errors);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expect);
    }

    #[test]
    fn a_load_balancer_is_where_an_address_or_a_host_is() {
        let status =
            |entry: Value| json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [entry]}}});
        check(validate_service_status, status(json!({"ip": "1.2.3.4", "ipMode": "VIP"})), &[]);
        check(
            validate_service_status,
            status(json!({"ip": "x", "ipMode": "Odd", "hostname": "1.2.3.4"})),
            &[
                r#"status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
                r#"status.loadBalancer.ingress[0].ipMode: Unsupported value: "Odd": supported values: "Proxy", "VIP""#,
                r#"status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#,
            ],
        );
        check(
            validate_service_status,
            status(json!({"ipMode": "VIP"})),
            &["status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set"],
        );
        check(
            validate_service_status,
            json!({"spec": {"type": "ClusterIP"}, "status": {"loadBalancer": {"ingress": [{"hostname": "a.b"}]}}}),
            &["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"],
        );
        check(
            validate_ingress_status,
            status(json!({"ip": "010.2.3.4", "hostname": "Bad_"})),
            &[
                r#"status.loadBalancer.ingress[0].ip: Invalid value: "010.2.3.4": must not have leading 0s"#,
                r#"status.loadBalancer.ingress[0].hostname: Invalid value: "Bad_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
            ],
        );
    }
}
