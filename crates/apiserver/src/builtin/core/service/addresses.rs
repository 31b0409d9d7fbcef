//! Which cluster addresses and node ports a Service needs, and which it gets: families and policy, addresses
//! and ports that are asked for, and others from a stock (`k8s.io/kubernetes/pkg/registry/core/service`).
//!
//! Pure. What is taken, and that nobody else takes it meanwhile, is left to [`crate::server`]. A cluster has
//! addresses of IPv4 only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};

use super::rules;
use super::{HEADLESS, is_headless, needs_address, needs_health_port, needs_node_port};
use crate::builtin::rules::Errors;
use crate::builtin::rules::look::{flag, int, is_given, items, items_mut, list, object, text, texts};

/// Addresses of Services: 10.0.0.0/16.
const BASE: u32 = u32::from_be_bytes([10, 0, 0, 0]);
const OTHER_NETWORK: &str = "the provided network does not match the current range";
/// The last of the range is its broadcast address and not given.
const LAST: u32 = 0xfffe;
/// The first is that of `kubernetes` in `default`, and never given to another.
const FIRST: u32 = 2;
/// Ports of nodes, as in Kubernetes.
const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// What a Service alone may have in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// An address.
    Address(Ipv4Addr),
    /// A port of every node.
    Port(u16),
}

/// What there is to be given.
pub(crate) struct Stock<'a> {
    /// Whether another Service has it.
    pub(crate) is_taken: &'a dyn Fn(Claim) -> bool,
    /// A random number below the one given.
    pub(crate) below: &'a dyn Fn(u32) -> u32,
}

/// Why a Service cannot have what it needs.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// What it asks for is wrong or taken (422).
    Invalid(Vec<FieldError>),
    /// There is no more of it (500).
    Full(String),
}

/// What a Service has.
pub(crate) fn claims(service: &Map) -> BTreeSet<Claim> {
    let Some(spec) = object(service, "spec") else { return BTreeSet::new() };
    let addresses = texts(spec, "clusterIPs").filter_map(|ip| ip.parse().ok()).map(Claim::Address);
    let ports = items(spec, "ports").filter_map(|(_, port)| int(port, "nodePort"));
    let ports = ports.chain(int(spec, "healthCheckNodePort")).filter_map(|port| u16::try_from(port).ok());
    addresses.chain(ports.filter(|port| *port != 0).map(Claim::Port)).collect()
}

/// Gives a new or changed Service what it needs; what it had it keeps.
pub(crate) fn allocate(old: Option<&Map>, service: &mut Map, stock: &Stock<'_>) -> Result<(), Refusal> {
    let was = old.and_then(|old| object(old, "spec"));
    let Some(Value::Object(spec)) = service.get_mut("spec") else { return Ok(()) };
    if let Some(was) = was {
        keep(was, spec);
    }
    same_addresses(was, spec);
    families(was, spec)?;
    let mut taker = Taker { stock, own: BTreeSet::new() };
    addresses(was, spec, &mut taker)?;
    if needs_node_port(spec) {
        node_ports(was, spec, &mut taker)?;
    }
    if needs_health_port(spec) && int(spec, "healthCheckNodePort").unwrap_or_default() == 0 {
        let port = taker.next_port("health check node port")?;
        spec.insert("healthCheckNodePort", i64::from(port));
    } else if needs_health_port(spec) && !was.is_some_and(needs_health_port) {
        let port = int(spec, "healthCheckNodePort").unwrap_or_default();
        taker.port(port, &Path::new("spec").child("healthCheckNodePort"))?;
    }
    Ok(())
}

/// Writers that leave out what was given do not mean to give it back.
fn keep(was: &Map, is: &mut Map) {
    if needs_address(was) && needs_address(is) {
        for name in ["clusterIP", "clusterIPs"] {
            if let Some(have) = was.get(name).filter(|_| !is_given(is, name)) {
                is.insert(name, have.clone());
            }
        }
    }
    if needs_node_port(was) && needs_node_port(is) {
        let used =
            |spec: &Map| items(spec, "ports").filter_map(|(_, port)| int(port, "nodePort")).collect::<BTreeSet<_>>();
        let both: BTreeSet<i64> = used(was).intersection(&used(is)).copied().collect();
        let mut named: BTreeMap<&str, Option<i64>> = BTreeMap::new();
        for (_, old) in items(was, "ports") {
            named.entry(text(old, "name")).or_insert_with(|| int(old, "nodePort"));
        }
        for port in items_mut(is, "ports").filter(|port| int(port, "nodePort").unwrap_or_default() == 0) {
            let before = named.get(text(port, "name")).copied().flatten();
            if let Some(before) = before.filter(|before| *before != 0 && !both.contains(before)) {
                port.insert("nodePort", before);
            }
        }
    }
    if needs_health_port(was)
        && needs_health_port(is)
        && int(is, "healthCheckNodePort").unwrap_or_default() == 0
        && let Some(before) = was.get("healthCheckNodePort")
    {
        is.insert("healthCheckNodePort", before.clone());
    }
}

/// `clusterIP` and the first of `clusterIPs` are one; whoever writes one of them means both.
fn same_addresses(was: Option<&Map>, is: &mut Map) {
    let first = text(is, "clusterIP").to_owned();
    let Some(was) = was else {
        if !first.is_empty() && list(is, "clusterIPs").is_empty() {
            is.insert("clusterIPs", vec![Value::from(first)]);
        }
        return;
    };
    if text(was, "clusterIP") == first || was.get("clusterIPs") != is.get("clusterIPs") {
        return;
    }
    if first.is_empty() {
        is.remove("clusterIPs");
    } else {
        is.insert("clusterIPs", vec![Value::from(first)]);
    }
}

/// Sets families and their policy where they are not given, and refuses those that this cluster has not.
fn families(was: Option<&Map>, spec: &mut Map) -> Result<(), Refusal> {
    if text(spec, "type") == "ExternalName" {
        return Ok(());
    }
    let alone = text(spec, "clusterIP") == HEADLESS && object(spec, "selector").is_none_or(Map::is_empty);
    if !is_given(spec, "ipFamilyPolicy") {
        let before = was.and_then(|was| was.get("ipFamilyPolicy")).filter(|policy| !policy.is_null());
        let policy = match before {
            Some(before) => before.clone(),
            None => Value::from(if alone { "RequireDualStack" } else { "SingleStack" }),
        };
        spec.insert("ipFamilyPolicy", policy);
    }
    let mut errors = Errors::default();
    rules::validate_families(spec, &mut errors);
    if !errors.is_empty() {
        return Err(Refusal::Invalid(errors.into_vec()));
    }
    let path = Path::new("spec");
    let policy = text(spec, "ipFamilyPolicy").to_owned();
    if policy == "SingleStack" {
        for (name, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if list(spec, name).len() == 2 {
                let detail =
                    format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                errors.push(FieldError::invalid(&path.child("ipFamilyPolicy"), &policy, detail));
            }
        }
    }
    let mut families: Vec<String> = texts(spec, "ipFamilies").map(str::to_owned).collect();
    for (index, ip) in texts(spec, "clusterIPs").enumerate().skip(families.len()) {
        match ip.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => families.push("IPv4".to_owned()),
            Ok(IpAddr::V6(_)) => {
                let shown = spec.get("clusterIPs").unwrap_or(&Value::Null);
                let path = path.child("clusterIPs").index(index);
                errors.push(FieldError::invalid(&path, shown, "IPv6 is not configured on this cluster"));
            }
            Err(_) => {}
        }
    }
    if errors.is_empty() && !alone {
        if policy == "RequireDualStack" {
            let detail = "this cluster is not configured for dual-stack services";
            errors.push(FieldError::invalid(&path.child("ipFamilyPolicy"), &policy, detail));
        }
        for (index, family) in families.iter().enumerate().filter(|(_, family)| *family != "IPv4") {
            let path = path.child("ipFamilies").index(index);
            errors.push(FieldError::invalid(&path, family, "not configured on this cluster"));
        }
    }
    if !errors.is_empty() {
        return Err(Refusal::Invalid(errors.into_vec()));
    }
    if families.is_empty() {
        families.push("IPv4".to_owned());
    }
    if alone && families.len() < 2 && policy != "SingleStack" {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.to_owned());
    }
    spec.insert("ipFamilies", families.into_iter().map(Value::from).collect::<Vec<_>>());
    Ok(())
}

/// Takes from the stock, and remembers what.
struct Taker<'a> {
    stock: &'a Stock<'a>,
    own: BTreeSet<Claim>,
}

impl Taker<'_> {
    fn take(&mut self, claim: Claim) -> bool {
        !(self.stock.is_taken)(claim) && self.own.insert(claim)
    }

    fn next_address(&mut self) -> Result<Ipv4Addr, Refusal> {
        let count = LAST - FIRST + 1;
        let start = (self.stock.below)(count);
        (0..count)
            .map(|step| Ipv4Addr::from(BASE + FIRST + (start + step) % count))
            .find(|address| self.take(Claim::Address(*address)))
            .ok_or_else(|| Refusal::Full("failed to allocate a serviceIP: range is full".to_owned()))
    }

    fn next_port(&mut self, what: &str) -> Result<u16, Refusal> {
        let count = PORTS.end() - PORTS.start() + 1;
        let start = u16::try_from((self.stock.below)(u32::from(count))).unwrap_or_default();
        (0..count)
            .map(|step| PORTS.start() + (start + step) % count)
            .find(|port| self.take(Claim::Port(*port)))
            .ok_or_else(|| Refusal::Full(format!("failed to allocate a {what}: range is full")))
    }

    /// A port that was asked for.
    fn port(&mut self, port: i64, path: &Path) -> Result<(), Refusal> {
        let refuse = |detail: String| Err(Refusal::Invalid(vec![FieldError::invalid(path, port, detail)]));
        match u16::try_from(port).ok().filter(|port| PORTS.contains(port)) {
            None => refuse(format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                PORTS.start(),
                PORTS.end()
            )),
            // A Service may have one number for several protocols.
            Some(port) if self.own.contains(&Claim::Port(port)) || self.take(Claim::Port(port)) => Ok(()),
            Some(_) => refuse("provided port is already allocated".to_owned()),
        }
    }

    /// An address that was asked for.
    fn address(&mut self, text: &str, shown: &Value) -> Result<(), Refusal> {
        let why = match text.parse::<Ipv4Addr>() {
            Ok(address) if !(BASE + 1..=BASE + LAST).contains(&u32::from(address)) => OTHER_NETWORK.to_owned(),
            Ok(address) if u32::from(address) < BASE + FIRST || !self.take(Claim::Address(address)) => {
                "provided IP is already allocated".to_owned()
            }
            Ok(_) => return Ok(()),
            Err(_) => OTHER_NETWORK.to_owned(),
        };
        let detail = format!("failed to allocate IP {text}: {why}");
        let path = Path::new("spec").child("clusterIPs");
        Err(Refusal::Invalid(vec![FieldError::invalid(&path, shown, detail)]))
    }
}

/// Addresses of a Service that had none, or asks for one.
fn addresses(was: Option<&Map>, spec: &mut Map, taker: &mut Taker<'_>) -> Result<(), Refusal> {
    // Kinds of Services that there are not are refused later; until then they are treated as others are.
    if text(spec, "type") == "ExternalName" || is_headless(spec) || was.is_some_and(needs_address) {
        return Ok(());
    }
    if let Some(asked) = texts(spec, "clusterIPs").next().filter(|asked| !asked.is_empty()) {
        return taker.address(asked, spec.get("clusterIPs").unwrap_or(&Value::Null));
    }
    let address = taker.next_address()?.to_string();
    spec.insert("clusterIPs", vec![Value::from(address.as_str())]);
    spec.insert("clusterIP", address);
    Ok(())
}

/// Ports of nodes that the ports of a Service have.
#[derive(Default)]
struct Given {
    /// By number, each once and the first ones first. No more of them than there are to be given.
    of_number: BTreeMap<i64, (Vec<i64>, BTreeSet<i64>)>,
    /// Those that a protocol has.
    of_protocol: BTreeSet<(String, i64)>,
}

impl Given {
    fn add(&mut self, number: i64, protocol: &str, node: i64) {
        let (nodes, seen) = self.of_number.entry(number).or_default();
        if seen.insert(node) {
            nodes.push(node);
        }
        self.of_protocol.insert((protocol.to_owned(), node));
    }

    /// The first that the number has for other protocols only.
    fn shared(&self, number: i64, protocol: &str) -> Option<i64> {
        let mut of = (protocol.to_owned(), 0);
        self.of_number.get(&number)?.0.iter().copied().find(|node| {
            of.1 = *node;
            !self.of_protocol.contains(&of)
        })
    }
}

fn node_ports(was: Option<&Map>, spec: &mut Map, taker: &mut Taker<'_>) -> Result<(), Refusal> {
    let had: BTreeSet<i64> =
        was.into_iter().flat_map(|was| items(was, "ports")).filter_map(|(_, port)| int(port, "nodePort")).collect();
    let allocates = text(spec, "type") == "NodePort" || flag(spec, "allocateLoadBalancerNodePorts");
    for (index, port) in items(spec, "ports") {
        if let Some(asked) = int(port, "nodePort").filter(|asked| *asked != 0 && !had.contains(asked)) {
            taker.port(asked, &Path::new("spec").child("ports").index(index).child("nodePort"))?;
        }
    }
    // One port of several protocols has one number at the nodes.
    let mut given = Given::default();
    for (_, port) in items(spec, "ports") {
        if let (Some(number), Some(node)) = (int(port, "port"), int(port, "nodePort").filter(|node| *node != 0)) {
            given.add(number, text(port, "protocol"), node);
        }
    }
    for port in items_mut(spec, "ports").filter(|_| allocates) {
        if int(port, "nodePort").unwrap_or_default() != 0 {
            continue;
        }
        let (number, protocol) = (int(port, "port").unwrap_or_default(), text(port, "protocol").to_owned());
        let node = match given.shared(number, &protocol).filter(|_| was.is_none()) {
            Some(node) => node,
            None => i64::from(taker.next_port("nodePort")?),
        };
        given.add(number, &protocol, node);
        port.insert("nodePort", node);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json::parse;

    use super::*;

    /// Gives from a stock in which `taken` is taken; the Service's spec, or what is wrong.
    fn give(old: Option<&str>, new: &str, taken: &[Claim]) -> String {
        let service = |spec: &str| -> Map {
            let text = format!(r#"{{"spec":{spec}}}"#);
            parse(text.as_bytes()).expect(spec).as_object().expect("an object").clone()
        };
        let (old, mut new) = (old.map(service), service(new));
        let stock = Stock { is_taken: &|claim| taken.contains(&claim), below: &|_| 0 };
        match allocate(old.as_ref(), &mut new, &stock) {
            Ok(()) => new.get("spec").map(ToString::to_string).unwrap_or_default(),
            Err(Refusal::Invalid(errors)) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            Err(Refusal::Full(why)) => why,
        }
    }

    #[test]
    fn a_service_gets_the_next_address_that_is_free() {
        let taken = [Claim::Address(Ipv4Addr::new(10, 0, 0, 2))];
        assert_eq!(
            give(None, r#"{"type":"ClusterIP"}"#, &taken),
            r#"{"clusterIP":"10.0.0.3","clusterIPs":["10.0.0.3"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","type":"ClusterIP"}"#
        );
        assert!(give(None, r#"{"type":"ClusterIP","clusterIP":"10.0.0.2"}"#, &taken).contains("already allocated"));
        assert!(give(None, r#"{"type":"ClusterIP","clusterIP":"10.0.0.1"}"#, &[]).contains("already allocated"));
        for address in ["10.9.0.1", "10.0.0.0", "10.0.255.255"] {
            let spec = format!(r#"{{"type":"ClusterIP","clusterIP":"{address}"}}"#);
            assert!(give(None, &spec, &[]).contains("does not match the current range"), "{address}");
        }
        assert!(
            give(None, r#"{"type":"ClusterIP","ipFamilies":["IPv6"]}"#, &[]).contains("not configured on this cluster")
        );
    }

    #[test]
    fn a_headless_service_without_selector_has_both_families_and_no_address() {
        assert_eq!(
            give(None, r#"{"type":"ClusterIP","clusterIP":"None"}"#, &[]),
            r#"{"clusterIP":"None","clusterIPs":["None"],"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack","type":"ClusterIP"}"#
        );
        assert_eq!(give(None, r#"{"type":"ExternalName"}"#, &[]), r#"{"type":"ExternalName"}"#);
    }

    #[test]
    fn ports_of_nodes_are_kept_given_and_shared_by_protocols() {
        let spec = r#"{"type":"NodePort","clusterIP":"None","ports":[{"port":1,"protocol":"TCP"},{"port":1,"protocol":"UDP"},{"port":2,"protocol":"TCP"}]}"#;
        let given = give(None, spec, &[Claim::Port(30_000)]);
        assert_eq!(given.matches(r#""nodePort":30001"#).count(), 2, "{given}");
        assert_eq!(given.matches(r#""nodePort":30002"#).count(), 1, "{given}");
        let old = r#"{"type":"NodePort","clusterIP":"None","clusterIPs":["None"],"ports":[{"port":1,"protocol":"TCP","nodePort":30005}]}"#;
        let new = r#"{"type":"NodePort","ports":[{"port":2,"protocol":"TCP"}]}"#;
        assert!(give(Some(old), new, &[]).contains(r#""nodePort":30005"#), "a writer that leaves it out keeps it");
        let asks =
            |port: u16| format!(r#"{{"type":"NodePort","clusterIP":"None","ports":[{{"port":1,"nodePort":{port}}}]}}"#);
        assert!(give(None, &asks(30_000), &[Claim::Port(30_000)]).contains("already allocated"));
        assert!(give(None, &asks(80), &[]).contains("The range of valid ports is 30000-32767"));
    }

    #[test]
    fn an_empty_stock_is_told() {
        let stock = Stock { is_taken: &|_| true, below: &|_| 5 };
        let mut service =
            parse(br#"{"spec":{"type":"ClusterIP"}}"#).expect("is JSON").as_object().expect("an object").clone();
        assert!(matches!(allocate(None, &mut service, &stock), Err(Refusal::Full(_))));
    }
}
