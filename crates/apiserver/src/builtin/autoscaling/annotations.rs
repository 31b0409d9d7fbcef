//! What lies in annotations of autoscalers of version v1: metrics, conditions and behaviour as JSON, in the order of Go's
//! types, which is what Kubernetes writes there.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

use crate::builtin::rules::look::{items, object, text};

/// The parts of a source: what v1 calls each, and where it stands in v2.
type Parts = [(&'static str, &'static [&'static str])];

/// What a kind of metric is called in v2, and where its parts stand in v1 and in v2, in the order in which v1 has
/// them.
const SOURCES: [(&str, &str, &Parts); 5] = [
    (
        "Object",
        "object",
        &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("targetValue", &["target", "value"]),
            ("selector", &["metric", "selector"]),
            ("averageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "Pods",
        "pods",
        &[
            ("metricName", &["metric", "name"]),
            ("targetAverageValue", &["target", "averageValue"]),
            ("selector", &["metric", "selector"]),
        ],
    ),
    (
        "Resource",
        "resource",
        &[
            ("name", &["name"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "ContainerResource",
        "containerResource",
        &[
            ("name", &["name"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
            ("container", &["container"]),
        ],
    ),
    (
        "External",
        "external",
        &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("targetValue", &["target", "value"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
];

/// Metrics of an annotation, each turned by `turn` from the parts of its source in v1 into those in v2.
pub(super) fn metrics_read(all: &Value, turn: fn(&Map, &Parts) -> Map) -> Vec<Value> {
    let read = |metric: &Value| {
        let metric = metric.as_object()?;
        let kind = text(metric, "type");
        let (_, own, parts) = SOURCES.iter().find(|(name, _, _)| *name == kind)?;
        let source = turn(object(metric, own)?, parts);
        let own: &str = own;
        Some(json!({"type": kind, own: (Value::Object(source))}))
    };
    all.as_array().unwrap_or_default().iter().filter_map(read).collect()
}

pub(super) fn source_to_new(old: &Map, parts: &Parts) -> Map {
    let mut new = moved(old, parts.iter().map(|(name, path)| (*name, *path)));
    let has = |name: &str| object(&new, "target").is_some_and(|target| target.get(name).is_some());
    // An average beside a value is what counts: v1 has to name the value.
    let kind = match (has("averageUtilization"), has("averageValue")) {
        (true, _) => "Utilization",
        (false, true) => "AverageValue",
        (false, false) => "Value",
    };
    if let Value::Object(target) = new.get_or_insert_with("target", || Value::Object(Map::new())) {
        target.insert("type", kind);
        if kind == "AverageValue" {
            target.remove("value");
        }
    }
    new
}

/// What v1 calls what is found, and where it stands in v2.
fn of_current(name: &str) -> String {
    match name.strip_prefix("target") {
        Some("") | None => name.to_owned(),
        Some(rest) => format!("current{rest}"),
    }
}

pub(super) fn current_to_new(old: &Map, parts: &Parts) -> Map {
    let mut new = Map::new();
    for (name, path) in parts {
        if let Some(value) = old.get(&of_current(name)).filter(|value| !value.is_null()) {
            set(&mut new, &current_path(path), value.clone());
        }
    }
    new
}

fn current_path<'a>(path: &[&'a str]) -> Vec<&'a str> {
    path.iter().map(|part| if *part == "target" { "current" } else { *part }).collect()
}

fn moved<'a>(old: &Map, parts: impl Iterator<Item = (&'a str, &'a [&'a str])>) -> Map {
    let mut new = Map::new();
    for (name, path) in parts {
        if let Some(value) = old.get(name).filter(|value| !value.is_null()) {
            set(&mut new, path, value.clone());
        }
    }
    new
}

fn set(map: &mut Map, path: &[&str], value: Value) {
    match path {
        [] => {}
        [last] => drop(map.insert(*last, value)),
        [first, rest @ ..] => {
            if let Value::Object(inner) = map.get_or_insert_with(first, || Value::Object(Map::new())) {
                set(inner, rest, value);
            }
        }
    }
}

fn at<'a>(map: &'a Map, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = rest.iter().try_fold(map.get(first)?, |value, name| value.get(name))?;
    Some(value).filter(|value| !value.is_null())
}

/// A metric as v1 writes it: members in the order of Go's types.
pub(super) fn metric_written(metric: &Map, write: fn(&Map, &str, &Parts) -> String) -> Option<String> {
    let kind = text(metric, "type");
    let (_, own, parts) = SOURCES.iter().find(|(name, _, _)| *name == kind)?;
    Some(format!("{{\"type\":\"{kind}\",\"{own}\":{}}}", write(object(metric, own)?, kind, parts)))
}

fn written(members: impl Iterator<Item = (String, String)>) -> String {
    let members: Vec<String> = members.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

pub(super) fn source_written(source: &Map, kind: &str, parts: &Parts) -> String {
    written(parts.iter().filter_map(|(name, path)| {
        let value = match at(source, path) {
            Some(value) if *name == "target" => reference_written(value),
            Some(value) => value.to_string(),
            // Of an object the value is always there.
            None if kind == "Object" && *name == "targetValue" => "\"0\"".to_owned(),
            None => return None,
        };
        Some(((*name).to_owned(), value))
    }))
}

pub(super) fn current_written(source: &Map, kind: &str, parts: &Parts) -> String {
    written(parts.iter().filter_map(|(name, path)| {
        let value = match at(source, &current_path(path)) {
            Some(value) if *name == "target" => reference_written(value),
            Some(value) => value.to_string(),
            None if kind != "External" && name.ends_with("AverageValue") => "\"0\"".to_owned(),
            None if matches!(kind, "Object" | "External") && *name == "targetValue" => "\"0\"".to_owned(),
            None => return None,
        };
        Some((of_current(name), value))
    }))
}

fn reference_written(reference: &Value) -> String {
    let member = |name: &'static str| Some((name.to_owned(), reference.get(name)?.to_string()));
    written(["kind", "name", "apiVersion"].into_iter().filter_map(member))
}

pub(super) fn condition_written(condition: &Map) -> String {
    let always = |name: &str| matches!(name, "type" | "status" | "lastTransitionTime");
    let member = |name: &'static str| match condition.get(name) {
        Some(value) => Some((name.to_owned(), value.to_string())),
        None => always(name).then(|| (name.to_owned(), "null".to_owned())),
    };
    written(["type", "status", "lastTransitionTime", "reason", "message"].into_iter().filter_map(member))
}

/// A behaviour as Go writes the type of it that has no names for JSON.
pub(super) fn behavior_written(behavior: &Map) -> String {
    let number = |map: &Map, name: &str| map.get(name).unwrap_or(&Value::Null).to_string();
    let policy = |policy: &Map| {
        let member = |name: &str| (upper(name), number(policy, name));
        written(["type", "value", "periodSeconds"].map(member).into_iter())
    };
    let rules = |rules: &Map| {
        let policies: Vec<String> = items(rules, "policies").map(|(_, of)| policy(of)).collect();
        let policies = if policies.is_empty() { "null".to_owned() } else { format!("[{}]", policies.join(",")) };
        let member = |name: &str| (upper(name), number(rules, name));
        let [window, select, tolerance] = ["stabilizationWindowSeconds", "selectPolicy", "tolerance"].map(member);
        written([window, select, (upper("policies"), policies), tolerance].into_iter())
    };
    let member = |name: &str| (upper(name), object(behavior, name).map_or_else(|| "null".to_owned(), rules));
    written(["scaleUp", "scaleDown"].map(member).into_iter())
}

fn upper(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

pub(super) fn lower(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_lowercase().to_string() + letters.as_str()).unwrap_or_default()
}

/// The same value with other names of members; members without a value go.
pub(super) fn renamed(value: &Value, name: fn(&str) -> String) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (name(key), renamed(value, name))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| renamed(item, name)).collect()),
        other => other.clone(),
    }
}
