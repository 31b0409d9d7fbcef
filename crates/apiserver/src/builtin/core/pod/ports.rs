//! What is said of ports of containers that stand twice or may get into each other's way
//! (`k8s.io/kubernetes/pkg/api/pod`, warnings).

use std::collections::BTreeMap;

use allotment_machinery::field::Path;
use allotment_machinery::json::Map;

use crate::builtin::rules::look::{int, items, text};
use crate::registry::Warnings;

use super::containers::visit;

/// Ports of one number and protocol, by their places in the list of all: those that are at one port of the node,
/// and of them those of one of its addresses.
#[derive(Default)]
struct Alike<'a> {
    at_node: BTreeMap<i64, Vec<usize>>,
    at_address: BTreeMap<(i64, &'a str), Vec<usize>>,
}

impl<'a> Alike<'a> {
    fn add(&mut self, place: usize, host: i64, ip: &'a str) {
        self.at_node.entry(host).or_default().push(place);
        self.at_address.entry((host, ip)).or_default().push(place);
    }

    /// Those that a further one gets into the way of, the first ones first. One is worth a warning for each, so
    /// that looking ends with the room for them.
    fn meets(&self, host: i64, ip: &'a str) -> Vec<usize> {
        let at_node = |host: i64| self.at_node.get(&host).into_iter().flatten();
        let at_address = |ip: &'a str| self.at_address.get(&(host, ip)).into_iter().flatten();
        let mut met: Vec<usize> = match (host, ip) {
            (0, _) => self.at_node.values().flatten().copied().collect(),
            (_, "") => at_node(0).chain(at_node(host)).copied().collect(),
            (_, ip) => at_node(0).chain(at_address("")).chain(at_address(ip)).copied().collect(),
        };
        met.sort_unstable();
        met
    }
}

/// Goes through the ports of all containers.
pub(crate) fn warnings(spec: &Map, path: &Path, warnings: &mut Warnings) {
    let all: Vec<(Path, &Map)> = visit(spec, path)
        .flat_map(|(at, container)| {
            items(container, "ports").map(move |(index, port)| (at.child("ports").index(index), port))
        })
        .collect();
    in_the_way(&all, warnings);
    let mut names: BTreeMap<&str, &Path> = BTreeMap::new();
    for (at, port) in all.iter().filter(|(_, port)| !text(port, "name").is_empty()) {
        let name = text(port, "name");
        match names.get(name) {
            Some(other) => warnings.push(format!(
                "{at}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use \
                 {other}"
            )),
            None => {
                names.insert(name, at);
            }
        }
    }
}

fn in_the_way(all: &[(Path, &Map)], warnings: &mut Warnings) {
    let number = |port: &Map, name: &str| int(port, name).unwrap_or_default();
    let mut seen: BTreeMap<(i64, &str), Alike<'_>> = BTreeMap::new();
    for (place, (at, port)) in all.iter().enumerate() {
        if warnings.is_full() {
            return;
        }
        let (ip, host) = (text(port, "hostIP"), number(port, "hostPort"));
        if !ip.is_empty() && host == 0 {
            let (name, own) = (text(port, "name"), number(port, "containerPort"));
            let protocol = text(port, "protocol");
            warnings.push(format!(
                "{at}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{own} Protocol:{protocol} \
                 HostIP:{ip}}}"
            ));
        }
        let alike = seen.entry((number(port, "containerPort"), text(port, "protocol"))).or_default();
        warnings.extend(alike.meets(host, ip).into_iter().map(|other| {
            let (other_at, other) = &all[other];
            let (other_ip, other_host) = (text(other, "hostIP"), number(other, "hostPort"));
            let how = if ip == other_ip && host == other_host {
                "duplicate"
            } else if host == 0 || other_host == 0 {
                "overlapping"
            } else {
                "dangerously ambiguous"
            };
            format!("{at}: {how} port definition with {other_at}")
        }));
        alike.add(place, host, ip);
    }
}
