//! Services: what an update keeps and drops, and what tables show. What they have to be stands in
//! [`rules`], which addresses and ports they get in [`addresses`].

pub(in crate::builtin) mod addresses;
mod rules;

use allotment_machinery::field::Path;
use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names::NameRule;
use jiff::Timestamp;

use crate::builtin::print::cells;
use crate::builtin::print::{self, or_none};
use crate::builtin::rules::Rules;
use crate::builtin::rules::addresses::{address_warning, block_warning};
use crate::builtin::rules::balancer::{status_warnings, validate_service_status};
use crate::builtin::rules::look::{int, is_given, items, items_mut, list, object, object_at, text, texts};
use crate::registry::{Operation, Warnings};

/// The address of a Service that wants none.
pub(crate) const HEADLESS: &str = "None";

/// An annotation that has another name by now.
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// Services.
pub(crate) const SERVICE: Rules = Rules {
    // Names that begin with a digit are taken since 1.36 (KEP-5311).
    names: NameRule::Label,
    creates_on_update: true,
    answers_object: true,
    prepare,
    validate: rules::validate,
    validate_change: rules::validate_change,
    change_first: true,
    validate_status: |_, service, errors| validate_service_status(service, errors),
    warn: |operation, service| match operation {
        Operation::Update { subresource: "status", .. } => status_warnings(service),
        _ => warnings(service),
    },
    cells: Some(service_cells),
    ..Rules::of("core/v1.Service")
};

/// What is said of members that have no effect, or will have none (`k8s.io/kubernetes/pkg/api/service`).
fn warnings(service: &Map) -> Warnings {
    let mut warnings = Warnings::default();
    if object_at(service, &["metadata", "annotations"]).is_some_and(|have| have.contains_key(TOPOLOGY_HINTS)) {
        warnings.push(format!(
            "annotation {TOPOLOGY_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let Some(spec) = object_at(service, &["spec"]) else { return warnings };
    let (external, own) = (text(spec, "type") == "ExternalName", list(spec, "externalIPs"));
    let headless = text(spec, "type") == "ClusterIP" && text(spec, "clusterIP") == HEADLESS;
    let path = Path::new("spec");
    let balancer = text(spec, "loadBalancerIP");
    let mut warn = |applies: bool, text: &str| warnings.extend(applies.then(|| text.to_owned()));
    warn(headless && !balancer.is_empty(), "spec.loadBalancerIP is ignored for headless services");
    warn(headless && !own.is_empty(), "spec.externalIPs is ignored for headless services");
    let affine = text(spec, "sessionAffinity") != "None";
    warn(headless && affine, "spec.SessionAffinity is ignored for headless services");
    let at = path.child("externalIPs");
    let odd = texts(spec, "externalIPs").enumerate().filter_map(|(index, ip)| address_warning(ip, &at.index(index)));
    odd.for_each(|text| warn(true, &text));
    warn(
        !own.is_empty() && !headless && !external,
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    );
    address_warning(balancer, &path.child("loadBalancerIP")).into_iter().for_each(|text| warn(true, &text));
    let at = path.child("loadBalancerSourceRanges");
    let ranges = texts(spec, "loadBalancerSourceRanges").enumerate();
    ranges.filter_map(|(index, range)| block_warning(range, &at.index(index))).for_each(|text| warn(true, &text));
    warn(external && !own.is_empty(), "spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    let named = !text(spec, "externalName").is_empty();
    warn(!external && named, "spec.externalName is ignored when spec.type is not \"ExternalName\"");
    warn(
        text(spec, "trafficDistribution") == "PreferClose",
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
    );
    warnings
}

/// Whether a Service has an address, be it that it wants none.
pub(crate) fn needs_address(spec: &Map) -> bool {
    matches!(text(spec, "type"), "ClusterIP" | "NodePort" | "LoadBalancer")
}

/// Whether its ports are reached at nodes.
pub(crate) fn needs_node_port(spec: &Map) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

/// Whether it has a port for checks of its health.
pub(crate) fn needs_health_port(spec: &Map) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

/// Whether it is reached from outside.
pub(crate) fn is_external(spec: &Map) -> bool {
    needs_node_port(spec) || text(spec, "type") == "ClusterIP" && !list(spec, "externalIPs").is_empty()
}

/// Whether it wants no address.
pub(crate) fn is_headless(spec: &Map) -> bool {
    texts(spec, "clusterIPs").eq([HEADLESS])
}

/// What a change of the type leaves without a meaning goes, unless its writer changed it too.
fn prepare(operation: Operation<'_>, service: &mut Map) {
    if let Some(spec) = service.object_mut("spec").filter(|spec| text(spec, "type") == "ExternalName") {
        spec.remove("internalTrafficPolicy");
    }
    let Operation::Update { old, subresource: "" } = operation else { return };
    let (Some(was), Some(Value::Object(is))) = (object(old, "spec"), service.get_mut("spec")) else { return };
    let same = |is: &Map, name: &str| was.get(name) == is.get(name);
    if needs_address(was) && !needs_address(is) {
        if same(is, "clusterIPs") {
            is.remove("clusterIP");
            is.remove("clusterIPs");
        }
        for name in ["ipFamilies", "ipFamilyPolicy"] {
            if same(is, name) {
                is.remove(name);
            }
        }
    }
    let ports = |spec: &Map| items(spec, "ports").map(|(_, port)| int(port, "nodePort")).collect::<Vec<_>>();
    if needs_node_port(was) && !needs_node_port(is) && ports(was) == ports(is) {
        items_mut(is, "ports").for_each(|port| {
            port.remove("nodePort");
        });
    }
    let gone = [
        ("healthCheckNodePort", needs_health_port as fn(&Map) -> bool),
        ("allocateLoadBalancerNodePorts", is_balanced),
        ("loadBalancerClass", is_balanced),
        ("externalTrafficPolicy", is_external),
    ];
    // What decides is the type before anything is dropped.
    let decided = gone.map(|(name, applies)| (name, applies(was) && !applies(is) && same(is, name)));
    for (name, _) in decided.into_iter().filter(|(_, drop)| *drop) {
        is.remove(name);
    }
    if !is_balanced(is) {
        service.insert("status", json!({"loadBalancer": {}}));
    }
}

fn is_balanced(spec: &Map) -> bool {
    text(spec, "type") == "LoadBalancer"
}

fn service_cells(service: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let spec = object(service, "spec").unwrap_or(&empty);
    let ports = items(spec, "ports").map(|(_, port)| {
        let (number, protocol) = (int(port, "port").unwrap_or_default(), text(port, "protocol"));
        match int(port, "nodePort") {
            Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    vec![
        cells::name(service),
        Value::from(text(spec, "type")),
        or_none(texts(spec, "clusterIPs").next().unwrap_or_default()),
        external_address(service, spec),
        or_none(&ports.collect::<Vec<_>>().join(",")),
        cells::age(service, now),
        print::labels(object(spec, "selector")),
    ]
}

fn external_address(service: &Map, spec: &Map) -> Value {
    let own = texts(spec, "externalIPs").collect::<Vec<_>>().join(",");
    match text(spec, "type") {
        "ClusterIP" | "NodePort" => or_none(&own),
        "LoadBalancer" => {
            let balancer = print::balancer(service);
            let all: Vec<&str> =
                [balancer.as_str(), own.as_str()].into_iter().filter(|text| !text.is_empty()).collect();
            Value::from(if all.is_empty() { "<pending>".to_owned() } else { all.join(",") })
        }
        "ExternalName" => Value::from(text(spec, "externalName")),
        _ => Value::from(if is_given(spec, "type") { "<unknown>" } else { "" }),
    }
}
