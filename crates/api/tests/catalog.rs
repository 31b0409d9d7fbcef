//! The kinds of the catalog keep what was written, and their definitions let them.

use allotment_api::catalog::{
    Amount, CloudProfile, CloudProfileSpec, Date, ParentRef, PrivateCloudProfile, PrivateCloudProfileSpec, Shared,
    Shoot,
};
use allotment_api::reasons::CatalogReason;
use kube::CustomResourceExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[track_caller]
fn keeps<T: DeserializeOwned + Serialize>(value: Value) {
    let read: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"));
    assert_eq!(serde_json::to_value(&read).expect("serialises"), value);
}

#[test]
fn fields_that_nobody_knows_are_kept_at_every_level() {
    keeps::<CloudProfileSpec>(json!({
        "type": "t", "machineCapabilities": [{"name": "architecture", "values": ["amd64"]}],
        "kubernetes": {"more": 1, "versions": [{"version": "1.30.2", "lifecycle": [{"classification": "preview"}]}]},
        "machineImages": [{"name": "i", "more": {}, "versions": [{"version": "1", "capabilityFlavors": [{"a": ["b"]}],
            "cri": [{"name": "containerd", "containerRuntimes": [{"type": "gvisor"}]}]}]}],
        "machineTypes": [{"name": "m", "cpu": "4", "memory": "8Gi", "capabilities": {"a": ["b"]},
            "storage": {"class": "c", "type": "d", "size": "1Gi", "more": true}}],
        "volumeTypes": [{"name": "v", "class": "c", "more": null}],
        "regions": [{"name": "r", "more": 1, "labels": {}, "accessRestrictions": [{"name": "eu", "more": 1}],
            "zones": [{"name": "z", "more": 1}]}],
        "seedSelector": {"matchLabels": {"a": "b"}, "providerTypes": ["t"], "more": 1},
        "bastion": {"machineImage": {"name": "i"}, "machineType": {"name": "m"}, "more": 1},
        "limits": {"maxNodesTotal": 3, "more": 1}, "providerConfig": {"any": ["thing", 1.5]}
    }));
    keeps::<CloudProfileSpec>(json!({"type": "t", "providerConfig": "a text, as templates have it"}));
    keeps::<Shoot>(json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": {"name": "s"},
        "spec": {"cloudProfileName": "c", "dns": {"domain": "d"}, "provider": {"type": "t", "infrastructureConfig": {},
            "workers": [{"name": "w", "minimum": 1, "machine": {"type": "m", "image": {"name": "i", "providerConfig": {}}}}]}}}));
}

#[test]
fn a_parent_is_kept_in_the_form_in_which_it_was_written() {
    for parent in [json!("c"), json!({"name": "c"}), json!({"kind": "CloudProfile", "name": "c"})] {
        keeps::<PrivateCloudProfileSpec>(json!({"parent": parent}));
    }
    assert!(serde_json::from_value::<ParentRef>(json!({"name": "c", "namespace": "n"})).is_err());
    assert!(serde_json::from_value::<ParentRef>(json!(["c"])).is_err());
}

#[test]
fn amounts_and_dates_are_kept_as_text_and_compared_by_what_they_say() {
    let amount = |value: Value| serde_json::from_value::<Amount>(value).expect("an amount");
    assert_eq!(amount(json!("8Gi")), amount(json!("8192Mi")));
    assert_eq!(amount(json!(4)), amount(json!("4000m")));
    assert_eq!(amount(json!(4)).text(), "4");
    assert!(amount(json!("4")) != amount(json!("x")) && amount(json!("x")) == amount(json!("x")));
    assert_eq!(Date::new("2024-06-06T02:00:00+02:00"), Date::new("2024-06-06T00:00:00Z"));
    assert!(Date::new("2023-08-8T23:59:59Z").at().is_none());
    for never in ["9999-12-31T23:59:59Z", "9999-12-31T00:00:00+02:00", "9999-12-30T23:59:59.999Z"] {
        assert!(Date::new(never).at() > Date::new("9999-12-30T00:00:00Z").at(), "{never}");
        assert_eq!(Date::new(never).text(), never);
    }
    for none in ["9999-12-32T00:00:00Z", "9999-12-31", "9999-12-31T24:00:00Z"] {
        assert!(Date::new(none).at().is_none(), "{none}");
    }
    assert_eq!(serde_json::to_value(Date::new("2023-08-8")).expect("JSON"), json!("2023-08-8"));
}

#[test]
fn copies_of_a_profile_share_its_entries() {
    let spec: CloudProfileSpec =
        serde_json::from_value(json!({"machineTypes": [{"name": "m", "cpu": "4", "memory": "8Gi"}]})).expect("a spec");
    let copy = spec.clone();
    assert!(Shared::is_same(&spec.machine_types[0], &copy.machine_types[0]));
}

#[test]
fn empty_lists_may_be_written_as_null() {
    let spec: CloudProfileSpec = serde_json::from_value(json!({"type": "t", "volumeTypes": null, "kubernetes": null,
        "regions": [{"name": "r", "zones": null}]}))
    .expect("a spec");
    assert!(spec.volume_types.is_empty() && spec.kubernetes.is_none() && spec.regions[0].zones.is_empty());
}

/// Visits a schema and all below it, each with its path.
fn each(at: &str, node: &Value, visit: &mut impl FnMut(&str, &Value)) {
    visit(at, node);
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        each(&format!("{at}.{name}"), property, visit);
    }
    for below in ["items", "additionalProperties"] {
        if node[below].is_object() {
            each(&format!("{at}[]"), &node[below], visit);
        }
    }
}

#[test]
fn definitions_are_structural_and_keep_unknown_fields_below_spec() {
    let names = |crd: &Value| crd["spec"]["names"]["kind"].as_str().expect("a kind").to_owned();
    for crd in [CloudProfile::crd(), PrivateCloudProfile::crd(), Shoot::crd()] {
        let crd = serde_json::to_value(crd).expect("JSON");
        let mut kept = Vec::new();
        each(&names(&crd), &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut |at, node| {
            let free = node["x-kubernetes-preserve-unknown-fields"] == true;
            let either = node["x-kubernetes-int-or-string"] == true;
            assert!(node["type"].is_string() || free || either, "{at} has no type: {node}");
            assert!(node.get("$ref").is_none() && node.get("oneOf").is_none(), "{at}: {node}");
            if free {
                kept.push(at.to_owned());
            }
        });
        let spec = format!("{}.spec", names(&crd));
        assert!(kept.contains(&spec), "{spec} drops what it does not know: {kept:?}");
    }
}

#[test]
fn whatever_may_be_written_below_spec_has_a_bound() {
    for crd in [CloudProfile::crd(), PrivateCloudProfile::crd(), Shoot::crd()] {
        let crd = serde_json::to_value(crd).expect("JSON");
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut looked_at = 0;
        each("spec", schema, &mut |at, node| {
            let bound = match node["type"].as_str() {
                Some("string") => "maxLength",
                Some("array") => "maxItems",
                _ if node["additionalProperties"].is_object() => "maxProperties",
                _ if node["x-kubernetes-int-or-string"] == true => "maxLength",
                _ => return,
            };
            looked_at += 1;
            assert!(node[bound].as_u64().is_some_and(|most| most > 0), "{at} has no {bound}: {node}");
        });
        assert!(looked_at >= 15, "{looked_at}");
    }
}

#[test]
fn what_a_condition_may_say_is_written_down() {
    let page = include_str!("../../../docs/catalog.md");
    let table = page.split("\n## ").find(|section| section.starts_with("What conditions say")).expect("the table");
    let missing = |reason: &&CatalogReason| !table.contains(&format!("`{}`", reason.as_str()));
    assert_eq!(CatalogReason::ALL.iter().filter(missing).collect::<Vec<_>>(), Vec::<&CatalogReason>::new());
}
