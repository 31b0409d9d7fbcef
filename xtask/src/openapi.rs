//! Our OpenAPI documents beside those that Kubernetes publishes with its sources: whatever kinds are
//! served, their schemas and operations have to be the same.
//!
//! What may differ is listed in [`same_text`] and below; everything else is a difference that fails.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::assets;
use crate::generate;
use crate::run::{output, say};
use crate::server::{Server, build};

/// Media types that we do not speak.
const FOREIGN_MEDIA: &[&str] = &[
    "application/apply-patch+cbor",
    "application/cbor",
    "application/cbor-seq",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// Parameters of what we do not have: lists by shard, deletion of what cannot be read.
const FOREIGN_PARAMETERS: &[&str] = &["ignoreStoreReadErrorWithClusterBreakingPotential", "shardSelector"];
/// Schemas that name every group of the server.
const OF_EVERY_GROUP: &[&str] = &["DeleteOptions", "WatchEvent"];
/// The most differences that are shown.
const SHOWN: usize = 40;

/// Compares every document of the groups that Kubernetes has too.
pub(crate) fn check() -> Result<()> {
    let assets = assets::install()?;
    let (_, kubectl) = assets.kubectl.last().context("no kubectl is installed")?;
    let published = generate::kubernetes_sources()?.join("api/openapi-spec");
    let server = Server::start(&build()?, "openapi")?;
    let get = |path: &str| -> Result<Value> {
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(&server.kubeconfig).args(["get", "--raw", path]);
        serde_json::from_str(&output(&mut command)?).with_context(|| format!("{path} is no JSON"))
    };
    let mut differences = Vec::new();
    let index = get("/openapi/v3")?;
    let mut compared = 0;
    for (path, entry) in index["paths"].as_object().context("the index has no paths")? {
        let Some(file) = published_file(&published.join("v3"), path) else { continue };
        let ours = get(entry["serverRelativeURL"].as_str().context("an entry has no URL")?)?;
        compare(path, ours, read(&file)?, &mut differences);
        compared += 1;
    }
    compare("v2", get("/openapi/v2")?, inlined(read(&published.join("swagger.json"))?), &mut differences);
    if compared == 0 {
        bail!("no document of the index is published by Kubernetes: {index}");
    }
    say(&format!("{} documents compared with Kubernetes' own", compared + 1));
    if differences.is_empty() {
        return Ok(());
    }
    differences.iter().take(SHOWN).for_each(|difference| say(difference));
    bail!("{} differences from Kubernetes' documents", differences.len())
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))
}

/// The file of the document at `path`; none where Kubernetes has no such group.
fn published_file(folder: &Path, path: &str) -> Option<PathBuf> {
    let names = [path.replace('/', "__"), path.replacen('/', "__", 1), path.replace('/', "_")];
    let files = names.iter().map(|name| folder.join(format!("{name}_openapi.json")));
    files.into_iter().find(|file| file.is_file())
}

/// The old form with its shared parameters where they are referred to.
fn inlined(mut document: Value) -> Value {
    let shared = document.as_object_mut().and_then(|map| map.remove("parameters")).unwrap_or_default();
    fn walk(value: Value, shared: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let target = map.get("$ref").and_then(Value::as_str);
                match target.and_then(|target| target.strip_prefix("#/parameters/")) {
                    Some(name) => shared[name].clone(),
                    None => Value::Object(map.into_iter().map(|(name, value)| (name, walk(value, shared))).collect()),
                }
            }
            Value::Array(items) => Value::Array(items.into_iter().map(|item| walk(item, shared)).collect()),
            other => other,
        }
    }
    walk(document, &shared)
}

/// Texts and names in which the documents may differ.
fn same_text(name: &str) -> bool {
    // Descriptions are our own; the published documents are made without lists of values.
    matches!(name, "description" | "enum")
}

/// A document without what may differ.
fn plain(name: &str, value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let is_properties = name == "properties";
            let map: Map<String, Value> = map
                .into_iter()
                .filter(|(name, value)| is_properties && value.is_object() || !same_text(name))
                .filter(|(name, _)| !FOREIGN_MEDIA.contains(&name.as_str()))
                .map(|(name, value)| {
                    let value = plain(&name, value);
                    (name, value)
                })
                .collect();
            // A reference stands within `allOf` only where something stands beside it.
            match map.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
                Some([only]) if map.len() == 1 => only.clone(),
                _ => Value::Object(map),
            }
        }
        Value::Array(items) => {
            let foreign = |item: &Value| {
                item.as_str().is_some_and(|media| FOREIGN_MEDIA.contains(&media))
                    || name == "parameters"
                        && item["name"].as_str().is_some_and(|name| FOREIGN_PARAMETERS.contains(&name))
            };
            let mut items: Vec<Value> =
                items.into_iter().filter(|item| !foreign(item)).map(|item| plain("", item)).collect();
            if matches!(name, "parameters" | "consumes" | "produces") {
                items.sort_by_key(Value::to_string);
            }
            Value::Array(items)
        }
        other => other,
    }
}

fn compare(path: &str, ours: Value, theirs: Value, differences: &mut Vec<String>) {
    let (mut ours, mut theirs) = (plain("", ours), plain("", theirs));
    for document in [&mut ours, &mut theirs] {
        if let Some(map) = document.as_object_mut() {
            map.remove("info");
        }
        for schemas in ["/components/schemas", "/definitions"] {
            for name in OF_EVERY_GROUP {
                let name = format!("{schemas}/io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
                if let Some(schema) = document.pointer_mut(&name).and_then(Value::as_object_mut) {
                    schema.remove("x-kubernetes-group-version-kind");
                }
            }
        }
    }
    // Kinds that one side does not have.
    for members in ["/paths", "/components/schemas", "/definitions"] {
        keep_common(members, &mut ours, &mut theirs);
    }
    differ(path, &ours, &theirs, differences);
}

/// Takes out of both what the other does not have: kinds not served here, and kinds of ours.
fn keep_common(members: &str, ours: &mut Value, theirs: &mut Value) {
    let names = |document: &Value| -> Vec<String> {
        document.pointer(members).and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect()
    };
    let (left, right) = (names(ours), names(theirs));
    for (document, other) in [(ours, right), (theirs, left)] {
        if let Some(map) = document.pointer_mut(members).and_then(Value::as_object_mut) {
            map.retain(|name, _| other.contains(name));
        }
    }
}

fn differ(path: &str, ours: &Value, theirs: &Value, differences: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            for (name, value) in left {
                match right.get(name) {
                    Some(other) => differ(&format!("{path} {name}"), value, other, differences),
                    None => differences.push(format!("{path} {name}: only here: {value}")),
                }
            }
            for (name, value) in right.iter().filter(|(name, _)| !left.contains_key(*name)) {
                differences.push(format!("{path} {name}: not here: {value}"));
            }
        }
        _ if ours == theirs || is_namespace_deletion(path) => {}
        _ => differences.push(format!("{path}: {ours} here, {theirs} in Kubernetes")),
    }
}

/// Kubernetes says that the deletion of a namespace answers a Status; it answers the namespace, as here.
fn is_namespace_deletion(path: &str) -> bool {
    path.contains(" /api/v1/namespaces/{name} delete responses ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(ours: Value, theirs: Value) -> Vec<String> {
        let mut differences = Vec::new();
        let schema = |schema: Value| json!({"components": {"schemas": {"A": schema}}});
        compare("d", schema(ours), schema(theirs), &mut differences);
        differences
    }

    #[test]
    fn descriptions_and_how_references_are_wrapped_may_differ_and_nothing_else() {
        let wrapped = json!({"properties": {"a": {"allOf": [{"$ref": "#/b"}], "description": "Theirs."}}});
        assert_eq!(found(json!({"properties": {"a": {"$ref": "#/b"}}}), wrapped), Vec::<String>::new());
        let described = json!({"properties": {"description": {"type": "string"}}});
        assert_eq!(found(json!({"properties": {}}), described).len(), 1, "a property may have that name");
        assert_eq!(found(json!({"type": "object"}), json!({"type": "string"})).len(), 1);
        assert_eq!(found(json!({"required": ["a"]}), json!({})).len(), 1);
    }
}
