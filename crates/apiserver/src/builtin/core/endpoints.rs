//! Endpoints and EndpointSlices (`k8s.io/kubernetes/pkg/apis/core/validation`, `pkg/apis/discovery/validation`).

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names::{self, Faults};
use jiff::Timestamp;

use crate::builtin::print::cells;
use crate::builtin::print::{first_of, or_none};
use crate::builtin::rules::addresses::{address, address_warning, canonical_address, reachable};
use crate::builtin::rules::checks::{
    faults, given_name, immutable, one_of_required, optional_name, port_number, required,
};
use crate::builtin::rules::look::{int, is_given, items, list, object, object_at, text, texts};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::registry::{MetadataChecks, Operation, Warnings};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
/// What clients of Endpoints are told.
pub(crate) const DEPRECATED: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
/// Bounds of a slice, as in Kubernetes.
const MOST_ENDPOINTS: usize = 1000;
const MOST_PORTS: usize = 20_000;
const MOST_ADDRESSES: usize = 100;
const MOST_HINTS: usize = 8;
/// Who keeps slices in Kubernetes.
const CONTROLLERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

/// Endpoints.
pub(crate) const ENDPOINTS: Rules = Rules {
    metadata: WHOLE_TOO,
    creates_on_update: true,
    validate: |object, errors| {
        for (index, subset) in items(object, "subsets") {
            validate_subset(subset, &Path::new("subsets").index(index), errors);
        }
    },
    warn: |_, object| subset_warnings(object),
    cells: Some(|object, now| vec![cells::name(object), addresses_of(object), cells::age(object, now)]),
    ..Rules::of("core/v1.Endpoints")
};

/// EndpointSlices.
pub(crate) const ENDPOINT_SLICE: Rules = Rules {
    metadata: MetadataChecks { change: 0, whole: 1, core: true },
    counts: true,
    counts_metadata: Some("labels"),
    prepare: |_, slice| {
        // Only older versions of the group had it.
        for endpoint in crate::builtin::rules::look::items_mut(slice, "endpoints") {
            endpoint.remove("deprecatedTopology");
        }
    },
    validate: validate_slice,
    warn: |operation, slice| {
        let fqdn = text(slice, "addressType") == "FQDN" && matches!(operation, Operation::Create);
        let deprecated = fqdn.then(|| "spec.addressType: FQDN endpoints are deprecated".to_owned());
        deprecated.into_iter().chain(slice_warnings(slice)).collect()
    },
    validate_change: |old, new, errors| immutable(old, new, &["addressType"], &Path::root(), errors),
    cells: Some(slice_cells),
    ..Rules::of("discovery/v1.EndpointSlice")
};

fn subset_warnings(object: &Map) -> Warnings {
    let mut warnings = Warnings::default();
    for (index, subset) in items(object, "subsets") {
        for name in ["addresses", "notReadyAddresses"] {
            let path = Path::new("subsets").index(index).child(name);
            let told = items(subset, name)
                .filter_map(|(at, endpoint)| address_warning(text(endpoint, "ip"), &path.index(at).child("ip")));
            warnings.extend(told);
        }
    }
    warnings
}

/// Kubernetes' own controllers are not told.
fn slice_warnings(slice: &Map) -> Warnings {
    const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    let labels = object_at(slice, &["metadata", "labels"]);
    if labels.is_some_and(|labels| CONTROLLERS.contains(&text(labels, MANAGED_BY))) {
        return Warnings::default();
    }
    let addresses = items(slice, "endpoints").flat_map(|(index, endpoint)| {
        let path = Path::new("endpoints").index(index).child("addresses");
        texts(endpoint, "addresses").enumerate().filter_map(move |(at, text)| address_warning(text, &path.index(at)))
    });
    addresses.collect()
}

fn validate_subset(subset: &Map, path: &Path, errors: &mut Errors) {
    if list(subset, "addresses").is_empty() && list(subset, "notReadyAddresses").is_empty() {
        errors.push(FieldError::required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for name in ["addresses", "notReadyAddresses"] {
        for (index, endpoint) in items(subset, name) {
            let path = path.child(name).index(index);
            address(text(endpoint, "ip"), &path.child("ip"), errors);
            optional_name(endpoint, "hostname", names::dns1123_label, &path, errors);
            given_name(endpoint, "nodeName", names::dns1123_subdomain, &path, errors);
            reachable(text(endpoint, "ip"), &path.child("ip"), errors);
        }
    }
    let several = list(subset, "ports").len() > 1;
    for (index, port) in items(subset, "ports") {
        let path = path.child("ports").index(index);
        if several {
            required(port, "name", &path, errors);
        }
        optional_name(port, "name", names::dns1123_label, &path, errors);
        port_number(int(port, "port").unwrap_or_default(), &path.child("port"), errors);
        one_of_required(port, "protocol", PROTOCOLS, &path, errors);
        given_name(port, "appProtocol", names::qualified_name, &path, errors);
    }
}

fn validate_slice(slice: &Map, errors: &mut Errors) {
    one_of_required(slice, "addressType", &["FQDN", "IPv4", "IPv6"], &Path::root(), errors);
    slice_ports(slice, errors);
    let path = Path::new("endpoints");
    let count = list(slice, "endpoints").len();
    if count > MOST_ENDPOINTS {
        return errors.push(FieldError::too_many(&path, count, MOST_ENDPOINTS));
    }
    for (index, endpoint) in items(slice, "endpoints") {
        let path = path.index(index);
        slice_addresses(text(slice, "addressType"), endpoint, &path.child("addresses"), errors);
        given_name(endpoint, "nodeName", names::dns1123_subdomain, &path, errors);
        given_name(endpoint, "hostname", names::dns1123_label, &path, errors);
        if let Some(hints) = object(endpoint, "hints") {
            validate_hints(hints, &path.child("hints"), errors);
        }
    }
}

/// For whom an endpoint is best.
fn validate_hints(hints: &Map, path: &Path, errors: &mut Errors) {
    for (kind, rule) in [("forZones", names::label_value as fn(&str) -> Faults), ("forNodes", names::dns1123_subdomain)]
    {
        let path = path.child(kind);
        let count = list(hints, kind).len();
        if count > MOST_HINTS {
            return errors.push(FieldError::too_many(&path, count, MOST_HINTS));
        }
        let mut seen = BTreeSet::new();
        for (index, hint) in items(hints, kind) {
            let (path, name) = (path.index(index).child("name"), text(hint, "name"));
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(&path, name));
            }
            faults(&path, name, rule(name), errors);
        }
    }
}

fn slice_ports(slice: &Map, errors: &mut Errors) {
    let path = Path::new("ports");
    let count = list(slice, "ports").len();
    if count > MOST_PORTS {
        return errors.push(FieldError::too_many(&path, count, MOST_PORTS));
    }
    let mut seen = BTreeSet::new();
    for (index, port) in items(slice, "ports") {
        let path = path.index(index);
        optional_name(port, "name", names::dns1123_label, &path, errors);
        if !seen.insert(text(port, "name")) {
            errors.push(FieldError::duplicate(&path.child("name"), text(port, "name")));
        }
        one_of_required(port, "protocol", PROTOCOLS, &path, errors);
        given_name(port, "appProtocol", names::qualified_name, &path, errors);
    }
}

fn slice_addresses(kind: &str, endpoint: &Map, path: &Path, errors: &mut Errors) {
    match list(endpoint, "addresses").len() {
        0 => errors.push(FieldError::required(path, "must contain at least 1 address")),
        count if count > MOST_ADDRESSES => errors.push(FieldError::too_many(path, count, MOST_ADDRESSES)),
        _ => {}
    }
    for (index, text) in texts(endpoint, "addresses").enumerate() {
        let at = path.index(index);
        match kind {
            "IPv4" | "IPv6" => {
                let before = errors.len();
                let read = if kind == "IPv4" { address } else { canonical_address };
                let Some(ip) = read(text, &at, errors).filter(|_| errors.len() == before) else { continue };
                if ip.is_ipv4() != (kind == "IPv4") {
                    errors.push(FieldError::invalid(path, text, format!("must be an {kind} address")));
                }
                reachable(text, &at, errors);
            }
            "FQDN" => {
                full_domain(text, &at, errors);
            }
            _ => {}
        }
    }
}

/// A domain below another one (`IsFullyQualifiedDomainName`).
fn full_domain(text: &str, path: &Path, errors: &mut Errors) {
    if text.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let wrong = names::dns1123_subdomain(name);
    if !wrong.is_empty() {
        return errors.push(FieldError::invalid(path, name, wrong.join(",")));
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return errors.push(FieldError::invalid(path, name, detail));
    }
    let wrong = name.split('.').map(|label| (label, names::dns1123_label(label))).find(|(_, wrong)| !wrong.is_empty());
    if let Some((label, wrong)) = wrong {
        errors.push(FieldError::invalid(path, label, wrong.join(",")));
    }
}

/// Every address with every port.
fn addresses_of(object: &Map) -> Value {
    let mut all = Vec::new();
    for (_, subset) in items(object, "subsets") {
        let addresses = || items(subset, "addresses").map(|(_, endpoint)| text(endpoint, "ip"));
        if list(subset, "ports").is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for (_, port) in items(subset, "ports") {
            let number = int(port, "port").unwrap_or_default();
            all.extend(
                addresses()
                    .map(|ip| if ip.contains(':') { format!("[{ip}]:{number}") } else { format!("{ip}:{number}") }),
            );
        }
    }
    if list(object, "subsets").is_empty() { or_none("") } else { Value::from(first_of(&all)) }
}

fn slice_cells(slice: &Map, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = items(slice, "ports")
        .map(|(_, port)| match int(port, "port") {
            Some(number) => number.to_string(),
            None if is_given(port, "name") => text(port, "name").to_owned(),
            None => "*".to_owned(),
        })
        .collect();
    let addresses: Vec<String> =
        items(slice, "endpoints").flat_map(|(_, endpoint)| texts(endpoint, "addresses")).map(str::to_owned).collect();
    let shown = |list: &[String]| Some(first_of(list)).filter(|text| !text.is_empty()).unwrap_or("<unset>".to_owned());
    vec![
        cells::name(slice),
        Value::from(text(slice, "addressType")),
        Value::from(shown(&ports)),
        Value::from(shown(&addresses)),
        cells::age(slice, now),
    ]
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json::parse;

    use super::*;
    use crate::builtin::rules::judged;

    /// A slice of one endpoint.
    fn slice(kind: &str, address: &str, more: &str) -> Value {
        let text = format!(
            r#"{{"metadata":{{"name":"s"}},"addressType":"{kind}","endpoints":[{{"addresses":["{address}"]{more}}}]}}"#
        );
        parse(text.as_bytes()).expect("is JSON")
    }

    #[test]
    fn a_domain_of_a_slice_has_two_labels_at_least() {
        let check = |domain: &str, expect: &[&str]| {
            judged::check(&ENDPOINT_SLICE, None, slice("FQDN", domain, ""), expect);
        };
        check("a.example.com", &[]);
        check("a.example.com.", &[]);
        check("", &["endpoints[0].addresses[0]: Required value"]);
        let short = "endpoints[0].addresses[0]: Invalid value: \"a\": should be a domain with at least two segments \
                     separated by dots";
        check("a", &[short]);
        check("a.", &[short]);
        let warned = |slice: Value| (ENDPOINT_SLICE.warn)(Operation::Create, &judged::object(slice));
        assert_eq!(*warned(slice("FQDN", "a.b", "")), ["spec.addressType: FQDN endpoints are deprecated"]);
        assert!(warned(slice("IPv4", "192.0.2.1", "")).is_empty());
    }

    #[test]
    fn hints_are_names_had_once_and_eight_at_most() {
        let check = |hints: &str, expect: &[&str]| {
            let more = format!(r#","hints":{{{hints}}}"#);
            judged::check(&ENDPOINT_SLICE, None, slice("IPv4", "192.0.2.1", &more), expect);
        };
        let zones = |count: usize| {
            let zones: Vec<String> = (0..count).map(|zone| format!(r#"{{"name":"z{zone}"}}"#)).collect();
            format!(r#""forZones":[{}]"#, zones.join(","))
        };
        check(&zones(MOST_HINTS), &[]);
        check(&zones(9), &["endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"]);
        check(
            r#""forZones":[{"name":"a"},{"name":"a"}],"forNodes":[{"name":"n.example"},{"name":"n.example"}]"#,
            &[
                "endpoints[0].hints.forZones[1].name: Duplicate value: \"a\"",
                "endpoints[0].hints.forNodes[1].name: Duplicate value: \"n.example\"",
            ],
        );
    }

    #[test]
    fn tables_show_what_a_slice_leaves_open() {
        let check = |slice: &str, expect: [&str; 3]| {
            let object = judged::object(parse(slice.as_bytes()).expect("is JSON"));
            assert_eq!(slice_cells(&object, Timestamp::UNIX_EPOCH)[1..4], expect.map(Value::from), "{slice}");
        };
        check(r#"{"addressType":"IPv4"}"#, ["IPv4", "<unset>", "<unset>"]);
        check(
            r#"{"addressType":"IPv6","ports":[{"port":80},{"name":"web"},{}],"endpoints":[{"addresses":["::1"]},{"addresses":["::2"]}]}"#,
            ["IPv6", "80,web,*", "::1,::2"],
        );
    }
}
