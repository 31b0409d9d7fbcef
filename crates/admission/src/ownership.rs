//! What only the platform writes: Grants, every status, and its own fields, labels and annotations; and what a provider
//! may write of the AccessRequests that it fulfils.

use std::collections::BTreeSet;

use allotment_api::names;
use allotment_api::reasons::ConditionType;
use serde_json::Value;

use crate::review::{Denial, Operation, Request};

/// Fields of a Cluster's spec that the platform writes.
const CLUSTER_FIELDS: [&str; 4] = ["tenants", "deletionPolicy", "idleGrace", "ceilings"];
/// What decides who shares a Cluster, under which ceilings, and what it runs. Who may edit Clusters of a
/// namespace could otherwise open one to others, or shed a ceiling, once the platform relies on it.
const PLACEMENT_FIELDS: [&str; 5] = ["clusterProviderRef", "clusterConfigRef", "kubernetes", "purposes", "dedicated"];

/// Refuses what a caller who is not the platform may not write.
pub(crate) fn check(request: &Request<'_>) -> Result<(), Denial> {
    let forbidden = |what: String| Err(Denial::Forbidden(format!("{what} is written by the platform only")));
    if !request.subresource.is_empty() {
        return forbidden(format!("{} of {}", request.subresource, request.kind));
    }
    if request.kind == "ClusterRequestGrant" && !is_let_go(request) {
        return forbidden("ClusterRequestGrant".to_owned());
    }
    let (new, old) = (request.object, request.old_object);
    if request.kind == "Cluster" {
        let changed = |field: &&&str| absent(&new["spec"][**field]) != absent(&old["spec"][**field]);
        if let Some(field) = CLUSTER_FIELDS.iter().find(changed) {
            return forbidden(format!("spec.{field}"));
        }
        if let Some(field) = PLACEMENT_FIELDS.iter().filter(|_| is_relied_on(old)).find(changed) {
            return forbidden(format!("spec.{field} of a Cluster that the platform made or has placed requests on"));
        }
    }
    for place in ["annotations", "labels"] {
        let (have, had) = (&new["metadata"][place], &old["metadata"][place]);
        let keys = [have, had].into_iter().filter_map(Value::as_object).flat_map(|map| map.keys());
        let ours = |key: &&String| key.starts_with(names::PLATFORM_PREFIX) && *key != names::FORCE_DELETE;
        if let Some(key) = keys.filter(ours).find(|key| have[key.as_str()] != had[key.as_str()]) {
            return forbidden(format!("metadata.{place}[{key}]"));
        }
    }
    // Providers hold what they serve by finalizers too, and are known by them: one that comes or goes by other hands
    // leaves a control plane behind, or gives a Cluster to another.
    let ours = |object: &'_ Value| -> BTreeSet<String> {
        finalizers(object).filter(|name| names::is_platform_finalizer(name)).map(str::to_owned).collect()
    };
    let (have, had) = (ours(new), ours(old));
    if let Some(finalizer) = have.symmetric_difference(&had).next() {
        return Err(Denial::Forbidden(format!(
            "metadata.finalizers: {finalizer} is put on and taken off by the platform and its providers only; to have \
             an object go in spite of it, delete it with annotation {}: \"true\"",
            names::FORCE_DELETE
        )));
    }
    Ok(())
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// What a provider may change of an AccessRequest that the platform asked it to fulfil: its own finalizer, and in the
/// status its own condition and `access`. The platform said in a label, which nobody else writes, whom it asked.
pub(crate) fn check_provider(request: &Request<'_>, provider: &str) -> Result<(), Denial> {
    let forbidden = |what: &str| {
        let why = format!("ClusterProvider {provider:?} may not change {what} of AccessRequest {}", request.name);
        Err(Denial::Forbidden(why))
    };
    let (new, old) = (request.object, request.old_object);
    if old["metadata"]["labels"][names::ACCESS_BY] != provider {
        return forbidden("anything, since the platform did not ask it to fulfil it: that is not among its Clusters'");
    }
    let own = names::provider_access_finalizer(provider);
    let others =
        |object: &'_ Value| finalizers(object).filter(|name| *name != own).map(str::to_owned).collect::<Vec<_>>();
    let metadata = |object: &Value| {
        let mut members = object["metadata"].as_object().cloned().unwrap_or_default();
        // Who wrote what and when the server notes itself.
        ["finalizers", "managedFields", "resourceVersion", "generation"]
            .iter()
            .for_each(|name| _ = members.remove(*name));
        members
    };
    if metadata(new) != metadata(old) || others(new) != others(old) {
        return forbidden("metadata beside its finalizer");
    }
    match request.subresource {
        "" if new["spec"] != old["spec"] => forbidden("spec"),
        "" => Ok(()),
        "status" if finalizers(new).eq(finalizers(old)) => {
            let foreign = |object: &Value| {
                let mut status = object["status"].as_object().cloned().unwrap_or_default();
                status.remove("access");
                if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
                    conditions.retain(|condition| condition["type"] != ConditionType::Provided.as_str());
                    conditions.sort_by_key(|condition| condition["type"].as_str().unwrap_or_default().to_owned());
                }
                status.retain(|_, value| absent(value).is_some());
                status
            };
            if foreign(new) != foreign(old) {
                return forbidden("status beside access and condition Provided");
            }
            Ok(())
        }
        other => forbidden(if other == "status" { "finalizers by its status" } else { other }),
    }
}

/// Whoever takes away what belongs to something that is gone, where the platform stands beside
/// kube-controller-manager; the embedded server's own are of group `system:masters`.
const CLEANERS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    // Where its loops have no identities of their own (`--use-service-account-credentials=false`).
    "system:kube-controller-manager",
];

/// Whether a garbage collector changes who owns an object, as it does for `propagationPolicy: Orphan`; the owner could
/// not go otherwise.
fn is_let_go(request: &Request<'_>) -> bool {
    request.operation == Operation::Update
        && CLEANERS.contains(&request.caller.username.as_str())
        && request.object["spec"] == request.old_object["spec"]
}

/// Refuses to delete what only the platform takes away: a Grant goes with its request.
pub(crate) fn check_deletion(request: &Request<'_>) -> Result<(), Denial> {
    let cleaner = CLEANERS.contains(&request.caller.username.as_str());
    if request.kind != "ClusterRequestGrant" || cleaner {
        return Ok(());
    }
    let why = "a ClusterRequestGrant goes with its request; delete the ClusterRequest of the same name";
    Err(Denial::Forbidden(why.to_owned()))
}

/// Whether the platform made a Cluster, or placed a request on one that was written by hand.
fn is_relied_on(cluster: &Value) -> bool {
    ["deletionPolicy", "tenants"].iter().any(|field| absent(&cluster["spec"][*field]).is_some())
}

/// An empty list is the same as none.
fn absent(value: &Value) -> Option<&Value> {
    (!value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())).then_some(value)
}
