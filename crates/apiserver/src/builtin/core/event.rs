//! Events of the core group and of `events.k8s.io`: one store, two forms (KEP-383).
//!
//! Objects are kept in the core group's form. Hooks see the form of their own group.

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use allotment_machinery::object::metadata_str;
use jiff::Timestamp;

use crate::builtin::print::cells;
use crate::builtin::rules::Errors;
use crate::registry::{MetadataChecks, NameRule, Operation, Strategy};

/// Longest reporting instance, action and reason, in bytes.
const SHORT_LIMIT: usize = 128;
/// Longest note, in bytes.
const NOTE_LIMIT: usize = 1024;

/// What a field is called in `events.k8s.io/v1` and in the core group.
const NAMES: [(&str, &str); 8] = [
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("reportingInstance", "reportingInstance"),
];

/// Fields that only one of the groups always shows.
const SHOWN_IN_CORE: [&str; 2] = ["reportingComponent", "reportingInstance"];

/// Events of the core group.
#[derive(Debug)]
pub(crate) struct CoreEvent;

/// Events of `events.k8s.io`.
#[derive(Debug)]
pub(crate) struct NewEvent;

impl Strategy for CoreEvent {
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks { change: 0, whole: 0, core: false }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn validates_metadata(&self) -> bool {
        false
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn validate(&self, _operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        common(object, "reportingComponent").into_vec()
    }

    fn cells(&self, object: &Map, now: Timestamp) -> Option<Vec<Value>> {
        Some(event_cells(object, now))
    }

    fn selected_field(&self, object: &Map, field: &str) -> Option<String> {
        let component = || cells::text(object, &["reportingComponent"]);
        match (field, cells::text(object, &["source", "component"])) {
            ("source", "") => Some(component().to_owned()),
            ("source", source) => Some(source.to_owned()),
            _ => None,
        }
    }
}

impl Strategy for NewEvent {
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks { change: 1, whole: 0, core: true }
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn validate(&self, operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        let core = to_core(object);
        let mut errors = common(&core, "reportingController");
        match operation {
            Operation::Create => {
                strict(&core, &mut errors);
            }
            Operation::Update { old, .. } => {
                unchanged(&to_core(old), &core, &mut errors);
            }
        }
        errors.into_vec()
    }

    fn cells(&self, object: &Map, now: Timestamp) -> Option<Vec<Value>> {
        Some(event_cells(&to_core(object), now))
    }

    fn stores_other_form(&self) -> bool {
        true
    }

    fn to_stored(&self, object: &mut Map) {
        *object = to_core(object);
    }

    fn to_shown(&self, object: &mut Map) {
        *object = from_core(object);
    }
}

fn to_core(event: &Map) -> Map {
    let mut core = renamed(event, |name| NAMES.iter().find(|(new, _)| *new == name).map(|(_, core)| *core));
    for field in SHOWN_IN_CORE {
        core.get_or_insert_with(field, || Value::from(""));
    }
    core
}

fn from_core(core: &Map) -> Map {
    let mut event = renamed(core, |name| NAMES.iter().find(|(_, core)| *core == name).map(|(new, _)| *new));
    for field in ["reportingController", "reportingInstance"] {
        if event.get(field).and_then(Value::as_str) == Some("") {
            event.remove(field);
        }
    }
    // The core group leaves out what this one always shows.
    if let Some(Value::Object(series)) = event.get_mut("series") {
        series.get_or_insert_with("count", || Value::from(0_i64));
    }
    event
}

fn renamed<'a>(object: &'a Map, name: impl Fn(&'a str) -> Option<&'static str>) -> Map {
    object.iter().map(|(key, value)| (name(key).unwrap_or(key).to_owned(), value.clone())).collect()
}

/// Whether a field holds a time.
fn has_time(object: &Map, path: &[&str]) -> bool {
    !cells::text(object, path).is_empty()
}

/// What holds for events of both groups; `event` in core form, `controller` as the group calls it.
fn common(event: &Map, controller: &str) -> Errors {
    let mut errors = Errors::default();
    let namespace = metadata_str(event, "namespace").unwrap_or_default();
    let involved = cells::text(event, &["involvedObject", "namespace"]);
    let new_style = has_time(event, &["eventTime"]);
    let agrees = match (new_style, involved) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, involved) => involved == namespace,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !agrees {
        let path = Path::new("involvedObject").child("namespace");
        errors.push(FieldError::invalid(&path, involved, "does not match event.namespace"));
    }
    if new_style {
        new_style_fields(event, controller, &mut errors);
    }
    let path = Path::new("namespace");
    errors.extend(
        names::dns1123_subdomain(namespace).into_iter().map(|fault| FieldError::invalid(&path, namespace, fault)),
    );
    errors
}

fn new_style_fields(event: &Map, controller: &str, errors: &mut Errors) {
    let text = |field: &str| cells::text(event, &[field]);
    let reporting = text("reportingComponent");
    let path = Path::new(controller);
    if reporting.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    errors
        .extend(names::qualified_name(reporting).into_iter().map(|fault| FieldError::invalid(&path, reporting, fault)));
    for field in ["reportingInstance", "action", "reason"] {
        let path = Path::new(field);
        match text(field).len() {
            0 => errors.push(FieldError::required(&path, "")),
            length if length > SHORT_LIMIT => errors.push(too_long(&path, SHORT_LIMIT)),
            _ => {}
        }
    }
    if text("message").len() > NOTE_LIMIT {
        errors.push(too_long(&Path::new("message"), NOTE_LIMIT));
    }
}

fn too_long(path: &Path, most: usize) -> FieldError {
    FieldError::invalid(path, "", format!("can have at most {most} characters"))
}

/// What creation through `events.k8s.io` asks for besides.
fn strict(event: &Map, errors: &mut Errors) {
    check_series(event, errors);
    if !has_time(event, &["eventTime"]) {
        errors.push(FieldError::required(&Path::new("eventTime"), ""));
    }
    let kind = cells::text(event, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid(&Path::new("type"), "", format!("has invalid value: {kind}")));
    }
    let mut unset = |field: &str, is_set: bool| {
        if is_set {
            errors.push(FieldError::invalid(&Path::new(field), "", "needs to be unset"));
        }
    };
    unset("firstTimestamp", has_time(event, &["firstTimestamp"]));
    unset("lastTimestamp", has_time(event, &["lastTimestamp"]));
    unset("count", event.get("count").and_then(Value::as_i64).unwrap_or(0) != 0);
    let source = event.get("source").and_then(Value::as_object);
    unset("source", source.is_some_and(|source| !source.is_empty()));
}

fn check_series(event: &Map, errors: &mut Errors) {
    let Some(Value::Object(series)) = event.get("series") else { return };
    if series.get("count").and_then(Value::as_i64).unwrap_or(0) < 2 {
        errors.push(FieldError::invalid(&Path::new("series.count"), "", "should be at least 2"));
    }
    if !has_time(series, &["lastObservedTime"]) {
        errors.push(FieldError::required(&Path::new("series.lastObservedTime"), ""));
    }
}

/// What may not change through `events.k8s.io`: all but metadata and the series.
fn unchanged(old: &Map, new: &Map, errors: &mut Errors) {
    if old.get("series") != new.get("series") {
        check_series(new, errors);
    }
    let fields = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        // Kubernetes looks at it twice, and so names it twice.
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    for (field, shown) in fields {
        if old.get(field) != new.get(field) {
            errors.push(FieldError::invalid(&Path::new(shown), shown_value(field, new), "field is immutable"));
        }
    }
}

/// A value as Go prints the internal type's field.
fn shown_value(field: &str, event: &Map) -> ShownValue {
    let text = |of: &str| cells::text(event, &[field, of]).to_owned();
    // Go prints members in the order of the struct, which is not that of their names.
    let object = |members: &[(&str, &str)]| {
        let shown = members.iter().map(|(label, of)| format!("{}:{}", Value::from(*label), Value::from(text(of))));
        ShownValue::raw(format!("{{{}}}", shown.collect::<Vec<_>>().join(",")))
    };
    match (field, event.get(field)) {
        ("related", None) => ShownValue::raw("null"),
        ("involvedObject" | "related", _) => object(&[
            ("Kind", "kind"),
            ("Namespace", "namespace"),
            ("Name", "name"),
            ("UID", "uid"),
            ("APIVersion", "apiVersion"),
            ("ResourceVersion", "resourceVersion"),
            ("FieldPath", "fieldPath"),
        ]),
        ("source", _) => object(&[("Component", "component"), ("Host", "host")]),
        ("count", None) => ShownValue::from(0),
        (_, Some(value)) => ShownValue::from(value),
        (_, None) => ShownValue::from(""),
    }
}

fn event_cells(event: &Map, now: Timestamp) -> Vec<Value> {
    let since = |path: &[&str]| {
        let (first, rest) = path.split_first()?;
        cells::since(event.get(first).and_then(|value| value.at(rest)), now)
    };
    let unknown = || "<unknown>".to_owned();
    let first = since(&["firstTimestamp"]).or_else(|| since(&["eventTime"])).unwrap_or_else(unknown);
    let last = match event.get("series") {
        Some(Value::Object(_)) => since(&["series", "lastObservedTime"]).unwrap_or_else(unknown),
        _ => since(&["lastTimestamp"]).unwrap_or_else(|| first.clone()),
    };
    let number = |value: Option<&Value>| value.and_then(Value::as_i64).unwrap_or(0);
    let count = match event.get("series") {
        Some(series @ Value::Object(_)) => number(series.get("count")),
        _ => match number(event.get("count")) {
            0 => 1,
            count => count,
        },
    };
    let text = |path: &[&str]| Value::from(cells::text(event, path));
    let kind = cells::text(event, &["involvedObject", "kind"]).to_lowercase();
    let target = match cells::text(event, &["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        Value::from(last),
        text(&["type"]),
        text(&["reason"]),
        Value::from(target),
        text(&["involvedObject", "fieldPath"]),
        Value::from(source(event)),
        Value::from(cells::text(event, &["message"]).trim()),
        Value::from(first),
        Value::from(count),
        cells::name(event),
    ]
}

/// `component, host`, or `controller, instance` for new-style events.
fn source(event: &Map) -> String {
    let pick = |source: &str, reporting: &str| match cells::text(event, &["source", source]) {
        "" => cells::text(event, &[reporting]).to_owned(),
        text => text.to_owned(),
    };
    let parts = [pick("component", "reportingComponent"), pick("host", "reportingInstance")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    fn object(value: Value) -> Map {
        value.as_object().expect("an object").clone()
    }

    fn new_event() -> Map {
        object(json!({
            "metadata": {"name": "e", "namespace": "n"}, "eventTime": "2020-01-01T00:00:00.123456Z", "reason": "R",
            "reportingController": "example.com/c", "reportingInstance": "i", "action": "A", "note": "text",
            "regarding": {"kind": "ConfigMap", "namespace": "n", "name": "a"}, "type": "Normal",
            "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null
        }))
    }

    #[test]
    fn both_forms_turn_into_each_other_without_loss() {
        let event = new_event();
        let core = to_core(&event);
        assert_eq!(core.get("message"), Some(&Value::from("text")));
        assert_eq!(core.get("involvedObject"), event.get("regarding"));
        assert_eq!(core.get("source"), Some(&json!({})));
        assert_eq!(from_core(&core), event);
    }

    #[track_caller]
    fn check(change: impl Fn(&mut Map), expect: &[&str]) {
        let mut event = new_event();
        change(&mut event);
        let errors: Vec<String> =
            NewEvent.validate(Operation::Create, &event).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expect);
    }

    #[test]
    fn new_events_are_strict() {
        check(|_| (), &[]);
        check(|event| drop(event.insert("eventTime", Value::Null)), &["eventTime: Required value"]);
        check(|event| drop(event.insert("type", "Foo")), &["type: Invalid value: \"\": has invalid value: Foo"]);
        check(
            |event| drop(event.insert("note", "x".repeat(1025))),
            &["message: Invalid value: \"\": can have at most 1024 characters"],
        );
        check(
            |event| drop(event.insert("series", json!({"count": 1, "lastObservedTime": null}))),
            &["series.count: Invalid value: \"\": should be at least 2", "series.lastObservedTime: Required value"],
        );
        check(|event| drop(event.insert("deprecatedCount", 1)), &["count: Invalid value: \"\": needs to be unset"]);
    }

    #[test]
    fn new_events_keep_what_they_say() {
        let (old, mut new) = (new_event(), new_event());
        new.insert("note", "other");
        new.insert("regarding", json!({"kind": "ConfigMap", "namespace": "n", "name": "b"}));
        let errors = NewEvent.validate(Operation::Update { old: &old, subresource: "" }, &new);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "involvedObject: Invalid value: {\"Kind\":\"ConfigMap\",\"Namespace\":\"n\",\"Name\":\"b\",\"UID\":\"\",\"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable",
                "message: Invalid value: \"other\": field is immutable",
            ]
        );
    }

    #[test]
    fn old_events_lie_in_the_namespace_of_their_object() {
        let event = object(json!({"metadata": {"namespace": "n"}, "involvedObject": {"namespace": "m"}}));
        let errors = CoreEvent.validate(Operation::Create, &event);
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["involvedObject.namespace: Invalid value: \"m\": does not match event.namespace"]
        );
    }
}
