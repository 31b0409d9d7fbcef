//! What a provider of another process may write of definitions and of what operators write for it.

use std::sync::Arc;

use allotment_admission::{Caller, Config, Denial, Operation, Request, is_watched, review};
use allotment_core::requests::{Object, Snapshot};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

const OWN: &str = "planes.cluster.openmcp.cloud";
const DEFINITIONS: [&str; 3] = ["apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions"];

/// What is there: a provider of each kind of package.
fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::new();
    for (name, package) in [
        ("far", "registry.example.com/planes-cluster-provider:v1"),
        ("near", "./planes.py"),
        ("inside", "builtin:local"),
        ("nameless", "registry.example.com/a..b:v1"),
    ] {
        let provider = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterProvider",
            "metadata": {"name": name}, "spec": {"package": package}});
        snapshot.apply(Object::Provider(Arc::new(serde_json::from_value(provider).expect("a ClusterProvider"))));
    }
    snapshot
}

/// Why a write by that ClusterProvider is refused.
fn refused(by: &str, of: [&str; 3], snapshot: Option<&Snapshot>, new: &Value, old: &Value) -> Option<String> {
    let username = format!("system:serviceaccount:allot-system:provider-{by}");
    let caller = Caller { username, uid: "u".to_owned(), groups: Vec::new() };
    let operation = match (new, old) {
        (Value::Null, _) => Operation::Delete,
        (_, Value::Null) => Operation::Create,
        _ => Operation::Update,
    };
    let [group, kind, resource] = of;
    assert!(is_watched(group, resource), "{group} {resource} is not looked at");
    let request = Request {
        operation,
        group,
        kind,
        resource,
        subresource: "",
        namespace: "",
        name: "x",
        object: new,
        old_object: old,
        caller: &caller,
        dry_run: false,
        now: Timestamp::UNIX_EPOCH,
    };
    match review(&Config::default(), snapshot, &request) {
        Ok(_) => None,
        Err(Denial::Forbidden(why)) => Some(why),
        Err(other) => panic!("{other}"),
    }
}

#[track_caller]
fn check(answer: Option<String>, expect: Option<&str>, what: &str) {
    match (answer, expect) {
        (None, None) => {}
        (Some(why), Some(part)) => assert!(why.contains(part), "{what}: {why}"),
        (answer, _) => panic!("{what}: {answer:?}"),
    }
}

fn definition(group: &str, plural: &str, kind: &str) -> Value {
    json!({"metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "names": {"plural": plural, "kind": kind}, "versions": []}})
}

#[test]
fn a_provider_makes_and_changes_definitions_of_its_own_group_and_deletes_none() {
    let there = snapshot();
    let of = |group: &str| definition(group, "providerconfigs", "ProviderConfig");
    let other = "gardener.cluster.openmcp.cloud";
    for (by, new, old, expect) in [
        ("far", of(OWN), Value::Null, None),
        ("near", of(OWN), Value::Null, None),
        ("far", of(OWN), of(OWN), None),
        ("far", definition(OWN, "landscapes", "Landscape"), Value::Null, None),
        ("far", of(other), Value::Null, Some("is \"planes.cluster.openmcp.cloud\", by the name of its package")),
        ("far", of(other), of(other), Some("its own group only")),
        ("far", of(OWN), of(other), Some("its own group only")),
        ("far", Value::Null, of(other), Some("deletes no definitions")),
        ("far", Value::Null, of(OWN), Some("deletes no definitions")),
        ("inside", of("local.cluster.openmcp.cloud"), Value::Null, Some("not of \"local.cluster.openmcp.cloud\"")),
        ("inside", of(OWN), Value::Null, Some("its own group only")),
        ("nameless", of(OWN), Value::Null, Some("its own group only")),
        ("gone", of(OWN), Value::Null, Some("is not known")),
        ("far", of("cluster.openmcp.cloud"), Value::Null, Some("not of \"cluster.openmcp.cloud\"")),
        ("far", of("kind.cluster.openmcp.cloud"), Value::Null, Some("not of")),
        ("far", of("a.planes.cluster.openmcp.cloud"), Value::Null, Some("its own group only")),
        ("far", of("example.com"), Value::Null, Some("not of \"example.com\"")),
        ("far", json!({"spec": {}}), Value::Null, Some("not of \"\"")),
    ] {
        check(refused(by, DEFINITIONS, Some(&there), &new, &old), expect, &format!("{by} {new} {old}"));
    }
    check(refused("far", DEFINITIONS, None, &of(OWN), &Value::Null), Some("try again"), "nothing is known yet");
}

#[test]
fn what_operators_write_is_read_as_they_wrote_it() {
    let there = snapshot();
    let with = |plural: &str, kind: &str, change: fn(&mut Value)| {
        let mut definition = definition(OWN, plural, kind);
        let reference = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        // A member may be called `default`.
        let spec = json!({"type": "object", "properties": {"providerRef": {"type": "string"}, "aSecretRef": reference,
            "default": {"type": "string"}, "list": {"type": "array", "items": {"type": "object", "properties": {}}}}});
        let status = json!({"type": "object", "properties": {"phase": {"type": "string", "default": "New"}}});
        let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
        definition["spec"]["versions"] =
            json!([{"name": "v1alpha0"}, {"name": "v1alpha1", "schema": {"openAPIV3Schema": schema}}]);
        definition["spec"]["conversion"] = json!({"strategy": "None"});
        change(&mut definition);
        definition
    };
    fn spec(definition: &mut Value) -> &mut Value {
        let schema = &mut definition["spec"]["versions"][1]["schema"]["openAPIV3Schema"];
        &mut schema["properties"]["spec"]
    }
    let default =
        |definition: &mut Value| spec(definition)["properties"]["aSecretRef"]["default"] = json!({"name": "k"});
    let webhook = |definition: &mut Value| definition["spec"]["conversion"] = json!({"strategy": "Webhook"});
    for (plural, kind, change, expect) in [
        ("providerconfigs", "ProviderConfig", (|_| {}) as fn(&mut Value), None),
        ("providerconfigs", "Foo", |_| {}, Some("go together")),
        ("foos", "ProviderConfig", |_| {}, Some("go together")),
        ("providerconfigs", "ProviderConfig", default, Some("versions[1].schema.openAPIV3Schema.properties[spec]")),
        ("providerconfigs", "ProviderConfig", |one| spec(one)["default"] = json!({}), Some(".default")),
        (
            "providerconfigs",
            "ProviderConfig",
            |one| spec(one)["properties"]["list"]["items"]["properties"]["x"] = json!({"default": 1}),
            Some("properties[list].items.properties[x].default"),
        ),
        (
            "providerconfigs",
            "ProviderConfig",
            |one| spec(one)["additionalProperties"] = json!({"default": "k"}),
            Some("additionalProperties.default"),
        ),
        ("providerconfigs", "ProviderConfig", |one| spec(one)["status"] = json!({"default": "not looked at"}), None),
        (
            "providerconfigs",
            "ProviderConfig",
            |one| spec(one)["properties"]["status"] = json!({"default": "k"}),
            Some("properties[status].default"),
        ),
        ("providerconfigs", "ProviderConfig", webhook, Some("spec.conversion")),
        ("foos", "Foo", webhook, Some("spec.conversion")),
        ("foos", "Foo", default, None),
        (
            "foos",
            "Foo",
            |one| one["metadata"]["ownerReferences"] = json!([{"uid": "gone"}]),
            Some("metadata.ownerReferences"),
        ),
    ] {
        let new = with(plural, kind, change);
        check(refused("far", DEFINITIONS, Some(&there), &new, &Value::Null), expect, &new.to_string());
        let before = with("providerconfigs", "ProviderConfig", |_| {});
        check(refused("far", DEFINITIONS, Some(&there), &new, &before), expect, &format!("changed to {new}"));
    }
}

#[test]
fn what_names_secrets_is_left_to_operators_whatever_its_kind_is_called() {
    let config = |spec: Value| json!({"metadata": {"name": "x"}, "spec": spec});
    let (before, after) = (config(json!({"a": 1})), config(json!({"a": 2})));
    let mut noted = before.clone();
    noted["metadata"]["finalizers"] = json!(["example.com/x"]);
    let mut owned = before.clone();
    owned["metadata"]["ownerReferences"] = json!([{"uid": "gone"}]);
    for kind in ["ProviderConfig", "Foo"] {
        for (new, old, expect) in [
            (&noted, &before, None),
            (&after, &before, Some("operators the rest")),
            (&after, &Value::Null, Some("operators the rest")),
            (&Value::Null, &before, Some("operators the rest")),
            (&owned, &before, Some("operators the rest")),
        ] {
            let answer = refused("far", [OWN, kind, "providerconfigs"], None, new, old);
            check(answer, expect, &format!("{kind} {new} {old}"));
        }
    }
}
