//! What tables show of a pod (`k8s.io/kubernetes/pkg/printers/internalversion`, printPod).

use std::collections::BTreeSet;

use allotment_machinery::json::{Map, Value};
use allotment_machinery::time;
use jiff::Timestamp;

use crate::builtin::print::cells::{self, human_duration};
use crate::builtin::print::or_none;
use crate::builtin::rules::look::{flag, int, is_given, items, list, object, object_at, text};

/// The cells of a pod.
pub(crate) fn cells(pod: &Map, now: Timestamp) -> Vec<Value> {
    let (empty_spec, empty_status) = (Map::new(), Map::new());
    let spec = object(pod, "spec").unwrap_or(&empty_spec);
    let status = object(pod, "status").unwrap_or(&empty_status);
    let sidecars =
        || items(spec, "initContainers").filter(|(_, container)| text(container, "restartPolicy") == "Always");
    let mut seen = Seen { total: list(spec, "containers").len() + sidecars().count(), ..Seen::of(status) };
    let initializing = seen.init(spec, status);
    if !initializing || condition(status, "Initialized") == Some("True") {
        seen.running(status);
    }
    let deleting = object(pod, "metadata").is_some_and(|metadata| is_given(metadata, "deletionTimestamp"));
    if deleting && text(status, "reason") == "NodeLost" {
        seen.reason = "Unknown".to_owned();
    } else if deleting && !matches!(text(status, "phase"), "Failed" | "Succeeded") {
        seen.reason = "Terminating".to_owned();
    }
    let restarts = match seen.last_restart {
        Some(last) if seen.restarts != 0 => format!("{} ({} ago)", seen.restarts, human_duration(last, now)),
        _ => seen.restarts.to_string(),
    };
    let address = items(status, "podIPs").next().map_or("", |(_, ip)| text(ip, "ip"));
    vec![
        cells::name(pod),
        Value::from(format!("{}/{}", seen.ready, seen.total)),
        Value::from(seen.reason),
        Value::from(restarts),
        cells::age(pod, now),
        or_none(address),
        or_none(text(spec, "nodeName")),
        or_none(text(status, "nominatedNodeName")),
        gates(spec, status),
    ]
}

fn condition<'a>(status: &'a Map, kind: &str) -> Option<&'a str> {
    items(status, "conditions")
        .find(|(_, condition)| text(condition, "type") == kind)
        .map(|(_, have)| text(have, "status"))
}

fn gates(spec: &Map, status: &Map) -> Value {
    let gates = items(spec, "readinessGates");
    let all = gates.clone().count();
    let open = gates.filter(|(_, gate)| condition(status, text(gate, "conditionType")) == Some("True")).count();
    if all == 0 { or_none("") } else { Value::from(format!("{open}/{all}")) }
}

/// What has been counted of a pod's containers.
#[derive(Default)]
struct Seen {
    total: usize,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    reason: String,
}

impl Seen {
    fn of(status: &Map) -> Self {
        let gated = items(status, "conditions").any(|(_, condition)| {
            text(condition, "type") == "PodScheduled" && text(condition, "reason") == "SchedulingGated"
        });
        let reason = match text(status, "reason") {
            _ if gated => "SchedulingGated",
            "" => text(status, "phase"),
            reason => reason,
        };
        Seen { reason: reason.to_owned(), ..Seen::default() }
    }

    fn restarted(&mut self, container: &Map) {
        self.restarts += int(container, "restartCount").unwrap_or_default();
        let ended = object_at(container, &["lastState", "terminated"]).map(|ended| text(ended, "finishedAt"));
        self.last_restart = self.last_restart.max(ended.and_then(|ended| time::parse(ended).ok()));
    }

    /// Goes through the containers that run first; whether one of them has not ended well.
    fn init(&mut self, spec: &Map, status: &Map) -> bool {
        let all = list(spec, "initContainers").len();
        let always: BTreeSet<&str> = items(spec, "initContainers")
            .filter(|(_, container)| text(container, "restartPolicy") == "Always")
            .map(|(_, container)| text(container, "name"))
            .collect();
        let mut sidecars = Seen::default();
        for (index, container) in items(status, "initContainerStatuses") {
            let sidecar = always.contains(text(container, "name"));
            self.restarted(container);
            if sidecar {
                sidecars.restarted(container);
            }
            let ended = object_at(container, &["state", "terminated"]);
            let waiting = object_at(container, &["state", "waiting"]).map(|waiting| text(waiting, "reason"));
            if ended.is_some_and(|ended| int(ended, "exitCode").unwrap_or_default() == 0) {
                continue;
            }
            if sidecar && flag(container, "started") {
                self.ready += usize::from(flag(container, "ready"));
                continue;
            }
            self.reason = match (ended, waiting) {
                (Some(ended), _) => format!("Init:{}", end_reason(ended)),
                (None, Some(reason)) if !matches!(reason, "" | "PodInitializing") => format!("Init:{reason}"),
                _ => format!("Init:{index}/{all}"),
            };
            return true;
        }
        // Only those that run on count among those that run now.
        (self.restarts, self.last_restart) = (sidecars.restarts, sidecars.last_restart);
        false
    }

    fn running(&mut self, status: &Map) {
        let (mut runs, mut error) = (false, String::new());
        for (_, container) in items(status, "containerStatuses").collect::<Vec<_>>().into_iter().rev() {
            self.restarted(container);
            let state = |name: &str| object_at(container, &["state", name]);
            let waiting = state("waiting").map(|waiting| text(waiting, "reason")).unwrap_or_default();
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(ended) = state("terminated") {
                self.reason = end_reason(ended);
                if int(ended, "exitCode").unwrap_or_default() != 0 {
                    error.clone_from(&self.reason);
                }
            } else if flag(container, "ready") && state("running").is_some() {
                runs = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if runs && condition(status, "Ready") == Some("True") {
                "Running".clone_into(&mut self.reason);
            } else if !error.is_empty() {
                self.reason = error;
            } else if runs {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

fn end_reason(ended: &Map) -> String {
    match (text(ended, "reason"), int(ended, "signal").unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", int(ended, "exitCode").unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json::parse;

    use super::*;

    #[test]
    fn a_pod_shows_the_state_of_its_containers() {
        let check = |status: &str, expect: [&str; 3]| {
            let pod = format!(
                r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"a"}},{{"name":"b"}}]}},"status":{status}}}"#
            );
            let pod = parse(pod.as_bytes()).expect(status);
            let cells = cells(pod.as_object().expect("an object"), Timestamp::UNIX_EPOCH);
            assert_eq!(cells[1..4], expect.map(Value::from), "{status}");
        };
        check(r#"{"phase":"Pending"}"#, ["0/2", "Pending", "0"]);
        check(
            r#"{"phase":"Running","containerStatuses":[{"ready":true,"state":{"running":{}}},{"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}"#,
            ["1/2", "CrashLoopBackOff", "3"],
        );
        check(
            r#"{"initContainerStatuses":[{"state":{"terminated":{"exitCode":2}}}]}"#,
            ["0/2", "Init:ExitCode:2", "0"],
        );
        check(
            r#"{"containerStatuses":[{"state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]}"#,
            ["0/2", "Completed", "0"],
        );
    }
}
