//! What a provider of another process may write. Its RBAC lets it write status and finalizers of Clusters, and definitions;
//! of whose Clusters, which part of them and which definitions, is said here.

use allotment_api::names;
use allotment_api::reasons::ConditionType;
use serde_json::{Map, Value};

use crate::review::{Denial, Operation, Request};

/// What a provider writes of a Cluster's status, beside its condition.
const CLUSTER_STATUS: [&str; 4] = ["phase", "kubernetes", "providerStatus", "lastReconcileTime"];
/// What a provider writes of its ClusterProvider's status.
const PROVIDER_STATUS: [&str; 1] = ["profiles"];

/// Whether writes of a provider to that kind are looked at, which is not one of the platform's own.
pub fn is_watched(group: &str, kind: &str) -> bool {
    let definition = group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition";
    definition || (kind == "ProviderConfig" && group.ends_with(SUBGROUP))
}

/// Groups of providers of the platform's own process.
const BUILT_IN_GROUPS: [&str; 3] = [names::LOCAL_GROUP, names::EXISTING_GROUP, names::KIND_GROUP];
/// What groups of providers end with.
const SUBGROUP: &str = ".cluster.openmcp.cloud";

/// Refuses what the process of ClusterProvider `provider` may not write. `Some` where this has the last word: of other kinds
/// it may what everybody may.
pub(crate) fn check(request: &Request<'_>, provider: &str) -> Option<Result<(), Denial>> {
    let forbidden = |what: String| Some(Err(Denial::Forbidden(what)));
    match (request.group, request.kind) {
        (names::GROUP, "Cluster") => Some(check_cluster(request, provider)),
        (names::GROUP, "ClusterProvider") => Some(check_provider(request, provider)),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Some(check_definition(request)),
        // It names Secrets, which its provider may read then.
        (group, "ProviderConfig") if group.ends_with(SUBGROUP) => {
            let same = request.operation == Operation::Update && request.object["spec"] == request.old_object["spec"];
            if same || !request.subresource.is_empty() {
                return Some(Ok(()));
            }
            forbidden("a provider writes status and finalizers of ProviderConfigs, operators the rest".to_owned())
        }
        _ => None,
    }
}

fn check_cluster(request: &Request<'_>, provider: &str) -> Result<(), Denial> {
    let (new, old) = (request.object, request.old_object);
    let owner = old["spec"]["clusterProviderRef"]["name"].as_str();
    let forbidden = |what: String| Err(Denial::Forbidden(what));
    if request.operation != Operation::Update {
        return forbidden("a provider neither makes nor deletes Clusters".to_owned());
    }
    if owner != Some(provider) {
        let owner = owner.unwrap_or_default();
        return forbidden(format!("this Cluster is of ClusterProvider {owner:?}, not of {provider:?}"));
    }
    if request.subresource == "status" {
        return only(&new["status"], &old["status"], &CLUSTER_STATUS, Some(ConditionType::ClusterHealthy));
    }
    if !request.subresource.is_empty() {
        return forbidden(format!("{} of Cluster is not written by providers", request.subresource));
    }
    let finalizers = |object: &Value| -> Vec<String> {
        let list = object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let own = format!("{}{provider}", names::OUTSIDE_FINALIZER_PREFIX);
        list.filter(|finalizer| **finalizer != own).map(str::to_owned).collect()
    };
    if finalizers(new) != finalizers(old) {
        let own = format!("{}{provider}", names::OUTSIDE_FINALIZER_PREFIX);
        return forbidden(format!("metadata.finalizers: a provider adds and removes its own only, {own}"));
    }
    let metadata = ["labels", "annotations", "ownerReferences"];
    let changed = metadata.iter().find(|member| !same(&new["metadata"][**member], &old["metadata"][**member]));
    if let Some(member) = changed {
        return forbidden(format!("metadata.{member} of a Cluster is not written by providers"));
    }
    if new["spec"] != old["spec"] {
        return forbidden("spec of a Cluster is not written by providers".to_owned());
    }
    Ok(())
}

fn check_provider(request: &Request<'_>, provider: &str) -> Result<(), Denial> {
    if request.subresource != "status" || request.operation != Operation::Update || request.name != provider {
        let what =
            format!("a provider writes status.profiles of its own ClusterProvider, {provider}, and nothing else");
        return Err(Denial::Forbidden(what));
    }
    only(&request.object["status"], &request.old_object["status"], &PROVIDER_STATUS, None)
}

fn check_definition(request: &Request<'_>) -> Result<(), Denial> {
    for object in [request.object, request.old_object] {
        let Some(group) = object["spec"]["group"].as_str() else { continue };
        // Which subgroup is its own, RBAC says for all that is in it; nobody gains anything by the definition of another.
        let free = group.ends_with(SUBGROUP) && !BUILT_IN_GROUPS.contains(&group);
        if !free {
            let what = format!("a provider brings definitions of its own group NAME{SUBGROUP}, not of {group}");
            return Err(Denial::Forbidden(what));
        }
    }
    Ok(())
}

/// Refuses a change of anything but these members and that condition.
fn only(new: &Value, old: &Value, members: &[&str], condition: Option<ConditionType>) -> Result<(), Denial> {
    let empty = Map::new();
    let (new, old) = (new.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty));
    let null = Value::Null;
    let get = |map: &'_ Map<String, Value>, key: &str| map.get(key).unwrap_or(&null).clone();
    let others = |key: &&String| !members.contains(&key.as_str()) && *key != "conditions";
    if let Some(key) = new.keys().chain(old.keys()).filter(others).find(|key| !same(&get(new, key), &get(old, key))) {
        return Err(Denial::Forbidden(format!("status.{key} is written by the platform only")));
    }
    let foreign = |map: &Map<String, Value>| -> Vec<Value> {
        let list = map.get("conditions").and_then(Value::as_array).into_iter().flatten();
        let own = condition.map(ConditionType::as_str);
        let mut list: Vec<Value> = list.filter(|one| own.is_none() || one["type"].as_str() != own).cloned().collect();
        list.sort_by_key(|one| one["type"].as_str().unwrap_or_default().to_owned());
        list
    };
    if foreign(new) != foreign(old) {
        let own = condition.map_or("none", ConditionType::as_str);
        return Err(Denial::Forbidden(format!(
            "status.conditions: a provider writes {own} only, and keeps the others"
        )));
    }
    Ok(())
}

/// Whether both say the same; an empty list or map says what none says.
fn same(one: &Value, other: &Value) -> bool {
    let said = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    one == other || (!said(one) && !said(other))
}
