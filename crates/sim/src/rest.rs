//! What holds once everything has come to rest.

use std::collections::BTreeSet;

use allotment_api::names;
use allotment_api::reasons::Verdict;
use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest, DeletionPolicy, Permission};
use allotment_core::write::ObjectKey;
use kube::api::ObjectMeta;

use crate::known::Known;

/// Every invariant that is broken at rest. `key_spaces` are those that the store holds beside the
/// platform's; `idle_ended` says that more time than any grace has passed.
pub(crate) fn judge(known: &Known, key_spaces: &[String], idle_ended: bool) -> Vec<String> {
    let mut broken = Vec::new();
    for (key, request) in &known.requests {
        judge_request(known, key, request, &mut broken);
    }
    for (key, access) in &known.access {
        judge_access(known, key, access, &mut broken);
    }
    judge_clusters(known, idle_ended, &mut broken);
    judge_spares(known, idle_ended, &mut broken);
    judge_inside(known, &mut broken);
    judge_planes(known, key_spaces, &mut broken);
    for (key, _) in known.grants.iter().filter(|(_, grant)| grant.metadata.deletion_timestamp.is_some()) {
        broken.push(format!("ClusterRequestGrant {key} is being deleted for ever"));
    }
    for (key, namespace) in &known.namespaces {
        // What a finalizer of somebody's Cluster holds is held for as long as the Cluster is used.
        let used = known.clusters.keys().any(|cluster| cluster.namespace == key.name);
        if namespace.metadata.deletion_timestamp.is_some() && !used {
            broken.push(format!("namespace {} is being deleted for ever", key.name));
        }
    }
    broken
}

fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

fn judge_request(known: &Known, key: &ObjectKey, request: &ClusterRequest, broken: &mut Vec<String>) {
    if request.metadata.deletion_timestamp.is_some() {
        broken.push(format!("ClusterRequest {key} is being deleted for ever"));
        return;
    }
    let request_uid = uid(&request.metadata);
    let status = request.status.clone().unwrap_or_default();
    if status.status.is_none() || status.reason.is_empty() {
        broken.push(format!("ClusterRequest {key} is not decided"));
    }
    let grant = known.grants.get(key);
    // One that is forged bars the way until somebody removes it, and gives nothing.
    let barred = grant.is_some_and(|grant| known.forged.contains(uid(&grant.metadata)));
    let homes: Vec<&ObjectKey> = known.homes(request_uid).map(|(key, _)| key).collect();
    if status.status != Some(Verdict::Granted) {
        if !barred && !homes.is_empty() {
            broken.push(format!("ClusterRequest {key} is {:?} and has room on {homes:?}", status.reason));
        }
        return;
    }
    let Some(grant) = grant.filter(|grant| grant.spec.request_uid == request_uid) else {
        broken.push(format!("ClusterRequest {key} is Granted and has no Grant"));
        return;
    };
    let there = known.cluster(&grant.spec.cluster_ref.uid).map(|(key, _)| key);
    if there.is_some() && (homes.len() != 1 || there != homes.first().copied()) {
        broken.push(format!("ClusterRequest {key} has room on {homes:?}, its Grant names {there:?}"));
    }
}

fn judge_access(known: &Known, key: &ObjectKey, access: &AccessRequest, broken: &mut Vec<String>) {
    if access.metadata.deletion_timestamp.is_some() {
        broken.push(format!("AccessRequest {key} is being deleted for ever"));
        return;
    }
    let access_uid = uid(&access.metadata);
    let status = access.status.clone().unwrap_or_default();
    if status.status.is_none() || status.reason.is_empty() {
        broken.push(format!("AccessRequest {key} is not decided"));
    }
    let owned = |metadata: &ObjectMeta| metadata.owner_references.iter().flatten().any(|owner| owner.uid == access_uid);
    let secrets = known.secrets.iter().filter(|(_, secret)| owned(&secret.metadata));
    let secrets: BTreeSet<&ObjectKey> = secrets.map(|(key, _)| key).collect();
    let name = format!("access-{access_uid}");
    let inside: Vec<_> = known.inside.keys().filter(|place| place.key.name == name).collect();
    let Some(info) = status.access.as_ref().filter(|_| status.status == Some(Verdict::Granted)) else {
        if !secrets.is_empty() || !inside.is_empty() {
            broken.push(format!("AccessRequest {key} is {:?} and has {secrets:?} and {inside:?}", status.reason));
        }
        return;
    };
    let plane = known.plane(&info.cluster_uid);
    let account = inside.iter().any(|place| place.resource == "serviceaccounts");
    let elsewhere = inside.iter().any(|place| Some(&place.tenant) != plane.as_ref());
    let bound = |permission: &Permission| {
        let namespace = permission.namespace.clone().unwrap_or_default();
        inside.iter().any(|place| place.key.namespace == namespace && place.resource.contains("bindings."))
    };
    let unbound = !access.spec.permissions.iter().all(bound);
    if secrets.len() != 1 || !account || elsewhere || unbound {
        broken.push(format!("AccessRequest {key} is Granted in {plane:?} and has {secrets:?} and {inside:?}"));
    }
}

fn judge_clusters(known: &Known, idle_ended: bool, broken: &mut Vec<String>) {
    for (key, cluster) in &known.clusters {
        let live: Vec<_> = cluster.spec.tenants.iter().filter(|tenant| !tenant.released).collect();
        for tenant in &live {
            let request = known.requests.get(&ObjectKey::new(&tenant.namespace, &tenant.name));
            if request.is_none_or(|request| uid(&request.metadata) != tenant.request_uid) {
                let (namespace, name) = (&tenant.namespace, &tenant.name);
                broken.push(format!("Cluster {key} keeps room for {namespace}/{name}, which is gone"));
            }
        }
        let cluster_uid = uid(&cluster.metadata);
        let used = !live.is_empty() || known.granted_since.values().any(|(home, _)| home == cluster_uid);
        if used {
            continue;
        }
        if cluster.metadata.deletion_timestamp.is_some() {
            broken.push(format!("Cluster {key} is unused and being deleted for ever"));
        } else if idle_ended
            && cluster.spec.deletion_policy == Some(DeletionPolicy::WhenIdle)
            && !(is_spare(cluster)
                && cluster
                    .spec
                    .purposes
                    .iter()
                    .all(|name| known.purposes.contains_key(&ObjectKey::cluster_wide(name.as_str()))))
        {
            broken.push(format!("Cluster {key} is idle and stays"));
        }
    }
}

fn is_spare(cluster: &Cluster) -> bool {
    cluster.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(names::SPARE))
}

/// A Purpose has as many spares as its `warm` says, or as its `maxClusters` leaves room for.
fn judge_spares(known: &Known, idle_ended: bool, broken: &mut Vec<String>) {
    for (key, purpose) in &known.purposes {
        let warm = usize::try_from(purpose.spec.warm.unwrap_or(0)).unwrap_or(0);
        let of_it = || known.clusters.values().filter(|cluster| cluster.spec.purposes.contains(&key.name));
        let spares = of_it().filter(|cluster| is_spare(cluster)).count();
        let most = purpose.spec.max_clusters.and_then(|most| usize::try_from(most).ok());
        if spares < warm && most.is_none_or(|most| of_it().count() < most) {
            broken.push(format!("Purpose {} has {spares} spare Clusters of {warm}", key.name));
        }
        if spares > warm && idle_ended {
            broken.push(format!("Purpose {} has {spares} spare Clusters, and asks for {warm}", key.name));
        }
    }
}

/// What lies inside Clusters belongs to an AccessRequest that is there.
fn judge_inside(known: &Known, broken: &mut Vec<String>) {
    let live: BTreeSet<String> =
        known.access.values().map(|access| format!("access-{}", uid(&access.metadata))).collect();
    for place in known.inside.keys().filter(|place| !live.contains(&place.key.name)) {
        broken.push(format!("{place:?} is left of an AccessRequest that is gone"));
    }
    for (key, secret) in &known.secrets {
        let owner = secret.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "AccessRequest");
        if owner.is_some_and(|owner| !live.contains(&format!("access-{}", owner.uid))) {
            broken.push(format!("Secret {key} is left of an AccessRequest that is gone"));
        }
    }
}

/// Control planes, their records and their Clusters are one to one.
fn judge_planes(known: &Known, key_spaces: &[String], broken: &mut Vec<String>) {
    let recorded: BTreeSet<String> = known.planes().map(|(_, tenant)| tenant).collect();
    for space in key_spaces.iter().filter(|space| !recorded.contains(*space)) {
        broken.push(format!("the store keeps {space}, which no control plane is recorded for"));
    }
    for (cluster, _) in known.planes().filter(|(uid, _)| known.cluster(uid).is_none()) {
        broken.push(format!("a control plane is recorded for Cluster {cluster}, which is gone"));
    }
}
