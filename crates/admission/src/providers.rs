//! What a provider of another process may write. Its RBAC lets it write status and finalizers of Clusters, and definitions;
//! of whose Clusters, which part of them and which definitions, is said here.

use allotment_api::names;
use allotment_api::reasons::ConditionType;
use serde_json::{Map, Value};

use crate::definitions;
use crate::review::{Denial, Operation, Request};
use crate::said;

/// What a provider writes of a Cluster's status, beside its condition.
const CLUSTER_STATUS: [&str; 4] = ["phase", "kubernetes", "providerStatus", "lastReconcileTime"];
/// What a provider writes of its ClusterProvider's status.
const PROVIDER_STATUS: [&str; 1] = ["profiles"];

/// Whether writes of a provider to that resource are looked at, which is not one of the platform's own.
pub fn is_watched(group: &str, resource: &str) -> bool {
    let definition = group == definitions::GROUP && resource == definitions::RESOURCE;
    definition || (resource == definitions::CONFIGS && group.ends_with(names::SUBGROUP))
}

/// Refuses what the process of ClusterProvider `provider` may not write. `Some` where this has the last word: of other kinds
/// it may what everybody may.
pub(crate) fn check(request: &Request<'_>, provider: &str) -> Option<Result<(), Denial>> {
    let forbidden = |what: String| Some(Err(Denial::Forbidden(what)));
    match (request.group, request.kind) {
        (names::GROUP, "Cluster") => Some(check_cluster(request, provider)),
        (names::GROUP, "ClusterProvider") => Some(check_provider(request, provider)),
        _ if definitions::is_one(request) => Some(definitions::check(request)),
        // It names Secrets, which its provider may read then.
        (group, _) if request.resource == definitions::CONFIGS && group.ends_with(names::SUBGROUP) => {
            let (new, old) = (request.object, request.old_object);
            let (owners, had) = (&new["metadata"]["ownerReferences"], &old["metadata"]["ownerReferences"]);
            let kept = request.operation == Operation::Update && new["spec"] == old["spec"] && same(owners, had);
            if kept || !request.subresource.is_empty() {
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
        said::check_cluster(&new["status"], &old["status"])?;
        let listed = |object: &Value| object["status"]["leftovers"].as_array().cloned().unwrap_or_default();
        let (left, were) = (listed(new), listed(old));
        if left.len() < were.len() && left.iter().all(|leftover| were.contains(leftover)) {
            // What its provider makes is the provider's to take away, and to strike off.
            let mut struck = old.clone();
            struck["status"]["leftovers"] = new["status"]["leftovers"].clone();
            return only(&new["status"], &struck["status"], &CLUSTER_STATUS, Some(ConditionType::ClusterHealthy));
        }
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
    only(&request.object["status"], &request.old_object["status"], &PROVIDER_STATUS, None)?;
    said::check_profiles(&request.object["status"]["profiles"], &request.old_object["status"]["profiles"])
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

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::review::{Caller, Config, Reviewed, review};

    /// A write of the process of a ClusterProvider.
    fn by_provider(provider: &str, kind: &str, subresource: &str, new: Value, old: Value) -> Result<Reviewed, Denial> {
        let username = format!("system:serviceaccount:allot-system:provider-{provider}");
        let caller = Caller { username, uid: "u".to_owned(), groups: Vec::new() };
        let operation = if old.is_null() { Operation::Create } else { Operation::Update };
        let request = Request {
            operation,
            group: names::GROUP,
            kind,
            resource: "",
            subresource,
            namespace: "ns",
            name: "x",
            object: &new,
            old_object: &old,
            caller: &caller,
            dry_run: false,
            now: Timestamp::UNIX_EPOCH,
        };
        review(&Config::default(), None, &request)
    }

    #[test]
    fn a_provider_writes_its_part_of_its_own_clusters_and_nothing_else() {
        let cluster = json!({"metadata": {"name": "x", "namespace": "ns", "finalizers": ["cluster.openmcp.cloud/cluster"]},
        "spec": {"clusterProviderRef": {"name": "p", "profile": "a"}, "purposes": ["mcp"]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "ClusterHealthy", "status": "False"}],
            "leftovers": [{"uid": "u"}]}});
        let with = |path: &str, value: Value| {
            let mut changed = cluster.clone();
            *changed.pointer_mut(path).expect("a place") = value;
            changed
        };
        let own = json!(["cluster.openmcp.cloud/cluster", "provider.cluster.openmcp.cloud/p"]);
        let conditions = |healthy: &str, ready: &str| json!([{"type": "ClusterHealthy", "status": healthy}, {"type": "Ready", "status": ready}]);
        for (provider, subresource, new, refused) in [
            ("p", "", with("/metadata/finalizers", own.clone()), None),
            ("q", "", with("/metadata/finalizers", own), Some("not of \"q\"")),
            ("p", "", with("/metadata/finalizers", json!([])), Some("its own only")),
            (
                "p",
                "",
                with("/metadata/finalizers", json!(["cluster.openmcp.cloud/cluster", "x/y"])),
                Some("its own only"),
            ),
            ("p", "", with("/spec/purposes", json!([])), Some("spec")),
            ("p", "", with("/spec/clusterProviderRef/name", json!("q")), Some("spec")),
            ("q", "", with("/spec/clusterProviderRef/name", json!("q")), Some("not of \"q\"")),
            (
                "p",
                "",
                with(
                    "/metadata",
                    json!({"name": "x", "namespace": "ns", "labels": {"a": "b"},
            "finalizers": ["cluster.openmcp.cloud/cluster"]}),
                ),
                Some("metadata.labels"),
            ),
            ("p", "status", with("/status/conditions", conditions("True", "True")), None),
            ("p", "status", with("/status/conditions", conditions("True", "False")), Some("ClusterHealthy only")),
            (
                "p",
                "status",
                with("/status/conditions", json!([{"type": "ClusterHealthy", "status": "True"}])),
                Some("keeps the others"),
            ),
            ("q", "status", with("/status/conditions", conditions("True", "True")), Some("not of \"q\"")),
            // It strikes off what it took away, and lists nothing.
            ("p", "status", with("/status/leftovers", json!([])), None),
            ("p", "status", with("/status/leftovers", json!([{"uid": "other"}])), Some("status.leftovers")),
            ("p", "status", with("/status/leftovers", json!([{"uid": "u"}, {"uid": "v"}])), Some("status.leftovers")),
            (
                "p",
                "status",
                with(
                    "/status",
                    json!({"conditions": cluster["status"]["conditions"],
            "leftovers": [{"uid": "u"}], "phase": "Succeeded", "kubernetes": {"version": "1.36.3"},
            "providerStatus": {"pid": 7}}),
                ),
                None,
            ),
        ] {
            let answer = by_provider(provider, "Cluster", subresource, new.clone(), cluster.clone());
            match (answer, refused) {
                (Ok(_), None) => {}
                (Err(Denial::Forbidden(why)), Some(part)) => assert!(why.contains(part), "{new}: {why}"),
                (answer, _) => panic!("{provider} {subresource} {new}: {answer:?}"),
            }
        }
        let made = by_provider("p", "Cluster", "", cluster.clone(), Value::Null);
        assert!(matches!(made, Err(Denial::Forbidden(_))), "{made:?}");
    }

    #[test]
    fn a_provider_publishes_the_profiles_of_its_own_cluster_provider_only() {
        let before = json!({"metadata": {"name": "x"}, "spec": {"package": "p"}, "status": {"ready": false, "reason": "Starting"}});
        let after = |status: Value| json!({"metadata": {"name": "x"}, "spec": {"package": "p"}, "status": status});
        let profiles = json!([{"name": "a"}]);
        let published = after(json!({"ready": false, "reason": "Starting", "profiles": profiles}));
        assert!(by_provider("x", "ClusterProvider", "status", published.clone(), before.clone()).is_ok());
        let ready = after(json!({"ready": true, "reason": "Starting", "profiles": profiles}));
        for (provider, subresource, new) in
            [("y", "status", &published), ("x", "status", &ready), ("x", "", &published)]
        {
            let answer = by_provider(provider, "ClusterProvider", subresource, new.clone(), before.clone());
            assert!(matches!(answer, Err(Denial::Forbidden(_))), "{provider} {subresource}: {answer:?}");
        }
    }
}
