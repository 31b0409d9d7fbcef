//! Generated files equal what the code says, and the definitions are what an API server accepts.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const REGENERATE: &str = "run `cargo run -p allotment-api --example generate` and commit the result";

#[test]
fn committed_definitions_equal_the_types() {
    let folder = root().join("deploy/crds");
    let mut expected: Vec<String> = Vec::new();
    for (file, text) in allotment_api::crds_yaml() {
        let committed = std::fs::read_to_string(folder.join(&file)).unwrap_or_default();
        assert!(committed == text, "deploy/crds/{file} is out of date: {REGENERATE}");
        expected.push(file);
    }
    expected.sort();
    let mut present: Vec<String> = std::fs::read_dir(folder)
        .expect("deploy/crds exists")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    present.sort();
    assert_eq!(present, expected, "files without a kind or kinds without a file: {REGENERATE}");
}

#[test]
fn committed_traits_table_equals_the_code() {
    let committed = std::fs::read_to_string(root().join("docs/traits.md")).unwrap_or_default();
    assert!(committed == allotment_api::traits::known_traits_markdown(), "docs/traits.md is out of date: {REGENERATE}");
}

/// Walks every schema node; `at` is its path.
fn each_node(schema: &Value, at: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(at, schema);
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            each_node(property, &format!("{at}.{name}"), visit);
        }
    }
    if let Some(items) = schema.get("items") {
        each_node(items, &format!("{at}[]"), visit);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        each_node(values, &format!("{at}{{}}"), visit);
    }
}

#[test]
fn schemas_are_structural_and_every_field_is_described() {
    let allowed = [
        "type",
        "description",
        "properties",
        "items",
        "required",
        "enum",
        "format",
        "nullable",
        "default",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "maxProperties",
        "pattern",
        "additionalProperties",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-int-or-string",
        "x-kubernetes-map-type",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    ];
    for crd in allotment_api::crds() {
        let crd = serde_json::to_value(crd).expect("serialises");
        for version in crd["spec"]["versions"].as_array().expect("versions") {
            let kind = crd["spec"]["names"]["kind"].as_str().expect("a kind");
            each_node(&version["schema"]["openAPIV3Schema"], kind, &mut |at, node| {
                let node = node.as_object().unwrap_or_else(|| panic!("{at} is no schema"));
                // Kubernetes takes no type for what may be anything, or a number or a text.
                let is_open = |key: &str| node.get(key) == Some(&json!(true)) && !node.contains_key("properties");
                let untyped = is_open("x-kubernetes-int-or-string") || is_open("x-kubernetes-preserve-unknown-fields");
                let typed = node.get("type").is_some_and(Value::is_string);
                assert!(typed || untyped, "{at} has no type: {node:?}");
                for key in node.keys() {
                    assert!(allowed.contains(&key.as_str()), "{at} has {key}, which structural schemas lack");
                }
                let is_item = at.ends_with("[]") || at.ends_with("{}");
                let described = node.get("description").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
                assert!(is_item || described, "{at} has no description");
            });
        }
    }
}

#[test]
fn grants_and_access_requests_are_served_in_both_versions_and_stored_in_one() {
    for crd in allotment_api::crds() {
        let crd = serde_json::to_value(crd).expect("serialises");
        let versions: Vec<(&str, bool, bool)> = crd["spec"]["versions"]
            .as_array()
            .expect("versions")
            .iter()
            .map(|version| {
                let name = version["name"].as_str().expect("a name");
                (name, version["served"] == json!(true), version["storage"] == json!(true))
            })
            .collect();
        let both = matches!(crd["spec"]["names"]["kind"].as_str(), Some("ClusterRequestGrant" | "AccessRequest"));
        let expect: &[_] = match crd["spec"]["group"].as_str() {
            _ if both => &[("v1alpha1", true, true), ("v1", true, false)],
            Some(allotment_api::catalog::GROUP) => &[("v1beta1", true, true)],
            _ => &[("v1alpha1", true, true)],
        };
        assert_eq!(versions, expect, "{}", crd["metadata"]["name"]);
    }
}

#[test]
fn status_of_a_provider_keeps_fields_that_nobody_knows() {
    let text = r#"{"apiVersion":"cluster.openmcp.cloud/v1alpha1","kind":"Cluster","metadata":{"name":"c"},
        "spec":{"clusterProviderRef":{"name":"p","profile":"q"},"purposes":["x"]},
        "status":{"providerStatus":{"anything":{"deep":[1,2]}}}}"#;
    let cluster: allotment_api::requests::Cluster = serde_json::from_str(text).expect("parses");
    let again = serde_json::to_value(&cluster).expect("serialises");
    assert_eq!(again["status"]["providerStatus"], json!({"anything": {"deep": [1, 2]}}));
}
