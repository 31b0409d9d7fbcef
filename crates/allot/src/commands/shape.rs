//! What a request asks for, from flags or from a file.

use std::path::Path;

use allotment_api::names;
use allotment_api::requests::{ClusterRequestSpec, KubernetesVersion};
use allotment_api::traits::TraitEntry;
use allotment_machinery::yaml;
use anyhow::{anyhow, bail};
use serde_json::{Value, json};

use super::files::{self, shown};
use crate::cli::Shape;
use crate::output;

/// What the flags ask for.
pub(super) fn spec(shape: &Shape) -> ClusterRequestSpec {
    ClusterRequestSpec {
        kubernetes: shape.version.clone().map(|version| KubernetesVersion { version: Some(version) }),
        dedicated: shape.dedicated,
        purposes: shape.purposes.clone(),
        traits: shape.traits.iter().map(|text| wish(text)).collect(),
        prefix: shape.prefix.clone(),
        priority: shape.priority,
    }
}

/// A ClusterRequest that asks for what the file says, or else the flags.
pub(super) fn manifest(file: Option<&Path>, shape: &Shape) -> anyhow::Result<Value> {
    let Some(path) = file else {
        let spec = serde_json::to_value(spec(shape))?;
        return Ok(json!({"apiVersion": names::API_VERSION, "kind": "ClusterRequest", "metadata": {}, "spec": spec}));
    };
    let mut documents = documents(path, "ClusterRequest")?;
    match (documents.pop(), documents.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => bail!("{} holds no ClusterRequest", shown(path)),
        (Some(_), more) => bail!("{} holds {} ClusterRequests; one is asked about at a time", shown(path), more + 1),
    }
}

/// The documents of a file that are of a kind of ours; others may stand beside them. `-` is stdin.
pub(super) fn documents(path: &Path, kind: &str) -> anyhow::Result<Vec<Value>> {
    let group = names::API_VERSION.split('/').next();
    let text = files::text(path)?;
    let read =
        yaml::parse_stream(&text).map_err(|error| anyhow!("{} is neither YAML nor JSON: {error}", shown(path)))?;
    let mut objects = Vec::new();
    let mut other = None;
    for document in read {
        for key in &document.duplicates {
            let text = format!("warning: {}: {}: {key}; the last one counts", shown(path), key.path);
            output::note(&output::on_a_line(&text));
        }
        for mut value in items(serde_json::from_slice(&document.value.to_vec())?, kind) {
            let (found, version) = (member(&value, "kind"), member(&value, "apiVersion"));
            if found != kind || version.split('/').next() != group {
                other = Some(match found {
                    "" => "something without a kind".to_owned(),
                    found => format!("a {found} ({version})"),
                });
                continue;
            }
            if !value["metadata"].is_object() {
                value["metadata"] = json!({});
            }
            objects.push(value);
        }
    }
    match other.filter(|_| objects.is_empty()) {
        Some(other) => bail!("{} holds {other}, and a {kind} of {} is wanted", shown(path), names::API_VERSION),
        None => Ok(objects),
    }
}

fn member<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// What a list holds, as kubectl prints it; of anything else itself. A list of one kind may leave to itself what its items are.
fn items(mut value: Value, kind: &str) -> Vec<Value> {
    let is_of_kind = member(&value, "kind").strip_suffix("List") == Some(kind);
    let is_list = is_of_kind || (member(&value, "kind"), member(&value, "apiVersion")) == ("List", "v1");
    let version = value["apiVersion"].clone();
    match value.get_mut("items").filter(|_| is_list).map(Value::take) {
        Some(Value::Array(items)) if is_of_kind => {
            let of_list = |mut item: Value| {
                if let Some(members) = item.as_object_mut() {
                    members.entry("apiVersion").or_insert_with(|| version.clone());
                    members.entry("kind").or_insert_with(|| json!(kind));
                }
                item
            };
            items.into_iter().map(of_list).collect()
        }
        Some(Value::Array(items)) => items,
        _ => vec![value],
    }
}

/// `TRAIT`, `not:TRAIT`, `?TRAIT`, `?not:TRAIT`.
fn wish(text: &str) -> TraitEntry {
    let (optional, text) = text.strip_prefix('?').map_or((false, text), |rest| (true, rest));
    let (negated, name) = text.strip_prefix("not:").map_or((false, text), |rest| (true, rest));
    TraitEntry {
        trait_: Some(name.to_owned()),
        optional: optional.then_some(true),
        negated: negated.then_some(true),
        ..TraitEntry::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_with_their_marks() {
        let check = |text: &str, name: &str, optional: Option<bool>, negated: Option<bool>| {
            let read = wish(text);
            assert_eq!(
                (read.trait_.as_deref(), read.optional, read.negated),
                (Some(name), optional, negated),
                "{text}"
            );
        };
        check("a/b", "a/b", None, None);
        check("?a/b", "a/b", Some(true), None);
        check("not:a/b", "a/b", None, Some(true));
        check("?not:a/b", "a/b", Some(true), Some(true));
    }

    #[test]
    fn large_files_are_read_to_their_end_and_larger_ones_refused_by_name() {
        let path = std::env::temp_dir().join(format!("allot-shape-{}", std::process::id()));
        let documents = |padding: usize| {
            let one = format!("{{apiVersion: {}, kind: Purpose}}\n", names::API_VERSION);
            std::fs::write(&path, format!("{one}---\n{}---\n{one}", "# padding\n".repeat(padding / 10))).unwrap();
            documents(&path, "Purpose").map(|found| found.len()).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(documents(5 * 1024 * 1024), Ok(2));
        let most = yaml::MAX_LENGTH;
        let refused = format!("cannot read {}: it has more than {most} bytes", path.display());
        assert_eq!(documents(most), Err(refused));
        std::fs::remove_file(&path).unwrap();
    }
}
