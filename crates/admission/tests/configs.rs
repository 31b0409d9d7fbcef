//! ProviderConfigs of the providers in the platform's process, and what of Clusters those cannot do.

use std::sync::Arc;

use allotment_admission::{Caller, Config, Denial, Operation, Request, Reviewed, review};
use allotment_core::requests::{Object, Snapshot};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

fn write(group: &str, kind: &str, spec: Value, snapshot: Option<&Snapshot>) -> Result<Reviewed, Denial> {
    let object = json!({"metadata": {"name": "x"}, "spec": spec});
    let caller = Caller { username: "alice".to_owned(), uid: "u".to_owned(), groups: Vec::new() };
    let request = Request {
        operation: Operation::Create,
        group,
        kind,
        resource: "providerconfigs",
        subresource: "",
        namespace: "",
        name: "x",
        object: &object,
        old_object: &Value::Null,
        caller: &caller,
        dry_run: false,
        now: Timestamp::UNIX_EPOCH,
    };
    review(&Config::default(), snapshot, &request)
}

/// The fields that are refused, in order.
fn refused(group: &str, spec: &Value) -> Vec<String> {
    match write(&format!("{group}.cluster.openmcp.cloud"), "ProviderConfig", spec.clone(), None) {
        Ok(_) => Vec::new(),
        Err(Denial::Invalid(errors)) => {
            let text = |error: &dyn std::fmt::Display| error.to_string();
            errors.iter().map(|error| text(error).split(": ").next().unwrap_or_default().to_owned()).collect()
        }
        Err(other) => panic!("{spec}: {other}"),
    }
}

#[test]
fn configs_of_every_provider_in_the_process_are_judged_field_by_field() {
    let existing = |more: Value| {
        let mut spec = json!({"providerRef": "p", "kubeconfigRef": {"name": "k"}});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        ("existing", spec)
    };
    let oidc = |member: &str, value: Value| {
        let mut oidc = json!({"issuer": "https://login.example.com/a", "clientID": "c", "usernamePrefix": "oidc:"});
        oidc[member] = value;
        existing(json!({"oidc": oidc}))
    };
    let versions = |list: Value| ("kind", json!({"providerRef": "p", "versions": list}));
    let check = |(group, spec): (&str, Value), expect: &[&str]| assert_eq!(refused(group, &spec), expect, "{spec}");

    check(("local", json!({"providerRef": "p"})), &[]);
    check(("local", json!({"providerRef": "A"})), &["spec.providerRef"]);
    check(existing(json!({})), &[]);
    check(existing(json!({"providerRef": "A b"})), &["spec.providerRef"]);
    let reference = |value: Value| existing(json!({ "kubeconfigRef": value }));
    check(reference(json!({"name": "K/"})), &["spec.kubeconfigRef.name"]);
    check(reference(json!({"name": "k", "namespace": "allot-planes", "key": "admin.conf"})), &[]);
    check(reference(json!({"name": "k", "namespace": "team"})), &["spec.kubeconfigRef.namespace"]);
    check(reference(json!({"name": "k", "key": "a b"})), &["spec.kubeconfigRef.key"]);
    check(
        existing(json!({"traits": ["a", "", "a", " b", "c\u{1b}"]})),
        &["spec.traits[1]", "spec.traits[2]", "spec.traits[3]", "spec.traits[4]"],
    );
    check(oidc("issuer", json!("https://login.example.com:8443")), &[]);
    for bad in
        ["http://login.example.com", "https://", "https:///a", "https://h/a?b", "https://u@h", "https://h /", "h"]
    {
        check(oidc("issuer", json!(bad)), &["spec.oidc.issuer"]);
    }
    check(oidc("clientID", json!("a b")), &["spec.oidc.clientID"]);
    check(oidc("usernamePrefix", json!("system:")), &["spec.oidc.usernamePrefix"]);
    check(oidc("requesterPrefix", json!("system:serviceaccount:")), &["spec.oidc.requesterPrefix"]);
    check(oidc("requesterPrefix", json!("a\n")), &["spec.oidc.requesterPrefix"]);
    check(oidc("extraScopes", json!(["email", "a b"])), &["spec.oidc.extraScopes[1]"]);
    check(versions(json!([{"version": "1.34.0", "image": "kindest/node:v1.34.0"}, {"version": "v1.33.4"}])), &[]);
    check(
        versions(json!([{"version": "1.34"}, {"version": "x"}])),
        &["spec.versions[0].version", "spec.versions[1].version"],
    );
    check(versions(json!([{"version": "1.34.0"}, {"version": "v1.34.0"}])), &["spec.versions[1].version"]);
    check(versions(json!([{"version": "1.34.0", "image": "--retain"}])), &["spec.versions[0].image"]);
    check(versions(json!([{"version": "1.34.0", "image": "a b"}])), &["spec.versions[0].image"]);
    check(("kind", json!({"providerRef": "p", "traits": ["a", "a"]})), &["spec.traits[1]"]);
}

#[test]
fn a_config_of_a_group_that_is_not_the_platforms_is_its_providers_to_judge() {
    assert_eq!(refused("gardener", &json!({"providerRef": "A"})), Vec::<String>::new());
}

#[test]
fn who_names_a_cluster_config_that_a_provider_does_not_have_is_warned() {
    let mut snapshot = Snapshot::new();
    for (name, package) in [("local", "builtin:local"), ("far", "registry.example.com/far:v1")] {
        let provider = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterProvider",
            "metadata": {"name": name}, "spec": {"package": package}});
        snapshot.apply(Object::Provider(Arc::new(serde_json::from_value(provider).expect("a ClusterProvider"))));
    }
    let warned = |provider: &str, config: Value| {
        let mut spec =
            json!({"clusterProviderRef": {"name": provider, "profile": "q"}, "kubernetes": {}, "purposes": []});
        if !config.is_null() {
            spec["clusterConfigRef"] = config;
        }
        write("cluster.openmcp.cloud", "Cluster", spec, Some(&snapshot)).expect("it may be stored").warnings
    };
    let config = json!({"apiGroup": "local.cluster.openmcp.cloud", "kind": "ClusterConfig", "name": "c"});
    let [said] = warned("local", config.clone()).try_into().expect("one warning");
    assert!(said.starts_with("spec.clusterConfigRef: builtin:local has no ClusterConfigs"), "{said}");
    assert_eq!(warned("local", Value::Null), Vec::<String>::new());
    assert_eq!(warned("far", config), Vec::<String>::new());
}
