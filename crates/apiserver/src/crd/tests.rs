//! Definitions end to end: what is refused, what their status says, which row they make.

use allotment_machinery::field::FieldError;
use allotment_machinery::json::{Map, Value, parse};
use allotment_machinery::schema::Interner;

use super::*;
use crate::registry::{Operation, Strategy};

const NOW: &str = "2026-01-01T00:00:00Z";

fn object(text: &str) -> Map {
    match parse(text.as_bytes()).expect(text) {
        Value::Object(map) => map,
        other => panic!("no object: {other}"),
    }
}

const VERSION: &str = r#"{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}"#;

/// A definition of `things.example.org` with these names and versions, prepared as for a create.
fn definition(names: &str, versions: &str) -> Map {
    let mut made = object(&format!(
        r#"{{"metadata":{{"name":"things.example.org"}},"spec":{{"group":"example.org","scope":"Namespaced",
            "names":{names},"versions":[{versions}]}}}}"#
    ));
    DefinitionStrategy.default(&mut made);
    DefinitionStrategy.prepare(Operation::Create, &mut made);
    made
}

fn simple() -> Map {
    definition(r#"{"plural":"things","kind":"Thing"}"#, VERSION)
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}

#[track_caller]
fn refused(definition: &Map, expect: &[&str]) {
    assert_eq!(texts(&DefinitionStrategy.validate(Operation::Create, definition)), expect);
}

#[test]
fn names_and_the_stored_version_are_filled_in() {
    let made = simple();
    refused(&made, &[]);
    let names = made.get("spec").and_then(|spec| spec.get("names")).expect("names");
    assert_eq!(names.to_string(), r#"{"kind":"Thing","listKind":"ThingList","plural":"things","singular":"thing"}"#);
    assert_eq!(made.get("status").expect("a status").to_string(), r#"{"storedVersions":["v1"]}"#);
}

#[test]
fn names_that_do_not_fit_are_told_of() {
    let made = definition(r#"{"plural":"widgets","kind":"Same","listKind":"Same"}"#, VERSION);
    refused(
        &made,
        &[
            "metadata.name: Invalid value: \"things.example.org\": must be spec.names.plural+\".\"+spec.group",
            "spec.names.listKind: Invalid value: \"Same\": kind and listKind may not be the same",
        ],
    );
}

#[test]
fn schemas_are_told_of_where_kubernetes_keeps_them() {
    let wrong = VERSION.replace(r#"{"type":"object"}"#, r#"{"type":"object","properties":{"a":{}}}"#);
    let detail = "openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields";
    let names = r#"{"plural":"things","kind":"Thing"}"#;
    refused(&definition(names, &wrong), &[&format!("spec.validation.{detail}")]);
    let other = VERSION.replace("\"v1\"", "\"v2\"").replace("\"storage\":true", "\"storage\":false");
    let both = format!("{other},{wrong}");
    refused(&definition(names, &both), &[&format!("spec.versions[1].schema.{detail}")]);
}

#[test]
fn what_is_not_pruned_has_no_defaults() {
    const KEPT: &str = "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set \
        x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    const DEFAULTS: &str =
        "spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema";
    let check = |properties: &str, expect: &[&str]| {
        let schema = format!(r#"{{"type":"object","properties":{properties}}}"#);
        let version = VERSION.replace(r#"{"type":"object"}"#, &schema);
        let mut made = definition(r#"{"plural":"things","kind":"Thing"}"#, &version);
        made.object_mut("spec").expect("a spec").insert("preserveUnknownFields", true);
        refused(&made, expect);
    };
    check(r#"{"a":{"type":"string"}}"#, &[KEPT]);
    check(r#"{"default":{"type":"string"}}"#, &[KEPT]);
    check(r#"{"a":{"type":"string","default":"b"}}"#, &[KEPT, DEFAULTS]);
    let within =
        r#"{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"string","default":"c"}}}}}"#;
    check(within, &[KEPT, DEFAULTS]);
}

#[test]
fn conversion_by_webhook_is_refused_rather_than_ignored() {
    let mut made = simple();
    let conversion = object(
        r#"{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://x"}}}"#,
    );
    made.object_mut("spec").expect("a spec").insert("conversion", conversion);
    refused(
        &made,
        &["spec.conversion.strategy: Forbidden: this server converts between versions of one schema only: use the \
           strategy None"],
    );
}

#[test]
fn what_stored_objects_hang_on_cannot_change_once_established() {
    let mut old = simple();
    assert!(establish(&mut old, &NamesInUse::default(), NOW));
    let mut new = old.clone();
    new.object_mut("spec").expect("a spec").insert("scope", "Cluster");
    let operation = Operation::Update { old: &old, subresource: "" };
    DefinitionStrategy.default(&mut new);
    DefinitionStrategy.prepare(operation, &mut new);
    let found = texts(&DefinitionStrategy.validate(operation, &new));
    assert_eq!(found, ["spec.scope: Invalid value: \"Cluster\": field is immutable"]);
}

#[test]
fn a_version_stays_among_the_stored_ones_until_it_is_taken_out() {
    let old = simple();
    let second = VERSION.replace("\"v1\"", "\"v2\"");
    let mut new = definition(r#"{"plural":"things","kind":"Thing"}"#, &second);
    let operation = Operation::Update { old: &old, subresource: "" };
    DefinitionStrategy.default(&mut new);
    DefinitionStrategy.prepare(operation, &mut new);
    assert_eq!(new.get("status").expect("a status").to_string(), r#"{"storedVersions":["v1","v2"]}"#);
    let found = texts(&DefinitionStrategy.validate(operation, &new));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions;"));
}

#[test]
fn names_of_other_kinds_are_not_given_again() {
    let mut made = definition(r#"{"plural":"things","kind":"Thing","shortNames":["th"]}"#, VERSION);
    let mut used = NamesInUse::default();
    used.resources.insert("th".to_owned());
    used.kinds.insert("Thing".to_owned());
    assert!(!establish(&mut made, &used, NOW));
    assert!(!is_established(&made));
    let status = made.get("status").expect("a status");
    let accepted = status.get("acceptedNames").expect("accepted names");
    assert_eq!(accepted.to_string(), r#"{"kind":"","listKind":"ThingList","plural":"things","singular":"thing"}"#);
    assert!(establish(&mut made, &NamesInUse::default(), NOW), "once the names are free");
}

#[test]
fn establishing_again_changes_nothing() {
    let mut made = simple();
    assert!(establish(&mut made, &NamesInUse::default(), NOW));
    let once = made.clone();
    assert!(establish(&mut made, &NamesInUse::default(), "2027-01-01T00:00:00Z"));
    assert_eq!(made, once);
}

#[test]
fn a_deleted_definition_waits_for_its_instances() {
    let mut made = simple();
    establish(&mut made, &NamesInUse::default(), NOW);
    begin_deletion(&mut made, NOW);
    begin_deletion(&mut made, NOW);
    let finalizers = made.get("metadata").and_then(|metadata| metadata.get("finalizers")).expect("a finalizer");
    assert_eq!(finalizers.to_string(), format!("[\"{CLEANUP_FINALIZER}\"]"));
    assert!(is_terminating(&made));
    finish_deletion(&mut made, NOW);
    assert!(!is_terminating(&made));
    assert!(made.get("metadata").is_some_and(|metadata| metadata.get("finalizers").is_none()));
}

#[test]
fn groups_of_the_community_need_approval() {
    let mut made = simple();
    made.object_mut("spec").expect("a spec").insert("group", "things.k8s.io");
    made.object_mut("metadata").expect("metadata").insert("name", "things.things.k8s.io");
    refused(
        &made,
        &["metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval \
           annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"],
    );
    let annotations = object(r#"{"api-approved.kubernetes.io":"https://example.org/1"}"#);
    made.object_mut("metadata").expect("metadata").insert("annotations", annotations);
    refused(&made, &[]);
}

#[test]
fn versions_are_listed_by_stability_and_share_equal_schemas() {
    let version = |name: &str, storage: bool| {
        VERSION.replace("\"v1\"", &format!("\"{name}\"")).replace("\"storage\":true", &format!("\"storage\":{storage}"))
    };
    let names = ["v1alpha3", "foo", "v1", "v2", "v1beta1", "v11"];
    let versions: Vec<String> = names.iter().map(|name| version(name, *name == "v1")).collect();
    let made = definition(r#"{"plural":"things","kind":"Thing"}"#, &versions.join(","));
    let interner = Interner::new();
    let kind = kind_from_definition(&made, None, &interner).expect("a row");
    let listed: Vec<&str> = kind.versions.iter().map(|version| version.name.as_str()).collect();
    assert_eq!(listed, ["v11", "v2", "v1", "v1beta1", "v1alpha3", "foo"]);
    assert_eq!(interner.len(), 1);
    assert!(kind.versions.iter().all(|version| !version.schema.reads_need_work()));
}

#[test]
fn no_object_is_made_of_a_kind_that_is_going() {
    let mut made = simple();
    establish(&mut made, &NamesInUse::default(), NOW);
    let takes_new =
        |made: &Map| kind_from_definition(made, None, &Interner::default()).expect("a row").strategy.takes_new();
    assert!(takes_new(&made));
    begin_deletion(&mut made, NOW);
    assert!(!takes_new(&made));
}
