//! What is said of ports of containers that stand twice or may get into each other's way
//! (`k8s.io/kubernetes/pkg/api/pod`, warnings).

use std::collections::BTreeMap;

use allotment_machinery::field::Path;
use allotment_machinery::json::Map;

use crate::builtin::rules::look::{int, items, text};

use super::containers::visit;

/// Goes through the ports of all containers.
pub(crate) fn warnings(spec: &Map, path: &Path, warnings: &mut Vec<String>) {
    let all: Vec<(Path, &Map)> = visit(spec, path)
        .flat_map(|(at, container)| {
            items(container, "ports").map(move |(index, port)| (at.child("ports").index(index), port))
        })
        .collect();
    let number = |port: &Map, name: &str| int(port, name).unwrap_or_default();
    let mut seen: BTreeMap<(i64, &str), Vec<(&Path, &Map)>> = BTreeMap::new();
    for (at, port) in &all {
        let (ip, host) = (text(port, "hostIP"), number(port, "hostPort"));
        if !ip.is_empty() && host == 0 {
            let (name, own) = (text(port, "name"), number(port, "containerPort"));
            let protocol = text(port, "protocol");
            warnings.push(format!(
                "{at}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{own} Protocol:{protocol} \
                 HostIP:{ip}}}"
            ));
        }
        let others = seen.entry((number(port, "containerPort"), text(port, "protocol"))).or_default();
        for (other_at, other) in others.iter() {
            let (other_ip, other_host) = (text(other, "hostIP"), number(other, "hostPort"));
            let how = if ip == other_ip && host == other_host {
                "duplicate"
            } else if host == 0 || other_host == 0 {
                "overlapping"
            } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{at}: {how} port definition with {other_at}"));
        }
        others.push((at, port));
    }
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
