//! One ClusterRequest: from asked for to bound, and back.
//!
//! Assumptions: the snapshot may lag behind, differently for each kind. So nothing is undone because
//! something else is not there yet; where two schedulers took room for one request, the Grant, of which
//! there can be only one, settles it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use allotment_api::names;
use allotment_api::requests::{
    BoundClusterRef, Cluster, ClusterProviderRef, ClusterRequest, ClusterRequestGrant, ClusterRequestGrantSpec,
    GrantPhase, MirroredMetadata, MirroredRequest, Tenant,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::aggregate::Aggregated;
use super::binding::Binding;
use super::forecast::{Destination, destination};
use super::making::{free_name, new_cluster};
use super::plan::Plan;
use super::prefixes;
use super::snapshot::{Snapshot, annotation};
use super::status::{Outcome, status_plan};
use crate::write::{Body, Kind, ObjectKey, Write, apply_status, configuration, preconditions, write_json};

/// The next write for a ClusterRequest. `proposals` gives random texts, a letter and nine of a
/// vowel-free alphabet ([`super::proposals`]), for prefixes and names of Clusters.
pub fn decide_request(
    snapshot: &Snapshot,
    key: &ObjectKey,
    now: Timestamp,
    proposals: &mut dyn Iterator<Item = String>,
) -> Plan {
    let Some(request) = snapshot.requests.get(key) else { return Plan::Done { again: None } };
    let Some(uid) = request.metadata.uid.as_deref() else { return Plan::Done { again: None } };
    if request.metadata.deletion_timestamp.is_some() {
        return decide_deletion(snapshot, key, request, uid);
    }
    match Binding::of(snapshot, request, now) {
        Binding::None => decide_placed(snapshot, key, destination(snapshot, request, now), now, proposals),
        Binding::Room { cluster } => decide_grant(snapshot, request, uid, cluster),
        Binding::Granted { grant, bound, cluster } => {
            decide_granted(snapshot, request, uid, Granted { grant, bound, cluster }, now)
        }
        Binding::Unseen { until, .. } => Plan::Done { again: Timestamp::from_second(until).ok() },
        Binding::Lost { grant, bound } => note_lost(request, &grant.spec.cluster_ref.uid)
            .map(Plan::RecordBinding)
            .or_else(|| grant_status(request, grant, GrantPhase::Lost))
            .unwrap_or_else(|| status_plan(request, &Outcome::Lost { grant, bound }, now)),
        Binding::Blocked { message } => status_plan(request, &Outcome::Waiting { message }, now),
    }
}

/// The request has room on a Cluster and no Grant.
fn decide_grant(snapshot: &Snapshot, request: &ClusterRequest, uid: &str, key: &ObjectKey) -> Plan {
    let Some(cluster) = snapshot.clusters.get(key) else { return Plan::Done { again: None } };
    let Some(tenant) = tenant_of(cluster, uid) else { return Plan::Done { again: None } };
    // Noted before the Grant is there, so that a Grant without the note is known to be none of ours.
    if let Some(plan) = record_binding(request, key) {
        return plan;
    }
    let resolved = match snapshot.resolve(request) {
        Ok(asked) => asked.resolved(&request.spec.purposes),
        // A Purpose went in between: what the Cluster tells is what was granted.
        Err(_) => allotment_api::requests::ResolvedRequest {
            purposes: request.spec.purposes.clone(),
            dedicated: cluster.spec.dedicated.unwrap_or(false),
            deletion_policy: cluster.spec.deletion_policy.unwrap_or_default(),
            idle_grace: cluster.spec.idle_grace.clone().unwrap_or_default(),
            ..Default::default()
        },
    };
    let name = request.metadata.name.clone().unwrap_or_default();
    let mut grant = ClusterRequestGrant::new(
        &name,
        ClusterRequestGrantSpec {
            cluster_ref: BoundClusterRef {
                name: key.name.clone(),
                namespace: key.namespace.clone(),
                uid: cluster.metadata.uid.clone().unwrap_or_default(),
            },
            prefix: tenant.prefix.clone(),
            request_uid: uid.to_owned(),
            resolved,
        },
    );
    grant.metadata.namespace = request.metadata.namespace.clone();
    grant.metadata.owner_references = Some(vec![OwnerReference {
        api_version: names::API_VERSION.to_owned(),
        kind: Kind::ClusterRequest.as_str().to_owned(),
        name,
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    let write = create(Kind::ClusterRequestGrant, ObjectKey::of(&grant.metadata), &grant);
    Plan::CreateGrant { write, grant: Box::new(grant) }
}

/// A Grant, and the Cluster that has the request among its tenants.
struct Granted<'a> {
    grant: &'a ClusterRequestGrant,
    bound: ObjectKey,
    cluster: &'a Cluster,
}

/// The request has a Grant: it is kept, whatever else changed.
fn decide_granted(
    snapshot: &Snapshot,
    request: &ClusterRequest,
    uid: &str,
    granted: Granted<'_>,
    now: Timestamp,
) -> Plan {
    let Granted { grant, bound, cluster } = granted;
    // The Grant settled where the request is: room taken elsewhere at the same time goes back.
    let elsewhere = snapshot.tenancies.get(uid).into_iter().flatten().find(|key| **key != bound);
    if let Some(plan) = elsewhere.and_then(|key| release(snapshot, key, uid)) {
        return plan;
    }
    if let Some(plan) = record_binding(request, &bound) {
        return plan;
    }
    let asked = snapshot.resolve(request).ok().map(Box::new);
    let outcome = Outcome::Bound { snapshot, grant, bound, cluster, asked };
    grant_status(request, grant, GrantPhase::Bound).unwrap_or_else(|| status_plan(request, &outcome, now))
}

/// The next write for a request that is there and bound to nothing, and goes there.
pub(super) fn decide_placed(
    snapshot: &Snapshot,
    key: &ObjectKey,
    destination: Destination,
    now: Timestamp,
    proposals: &mut dyn Iterator<Item = String>,
) -> Plan {
    let Some(request) = snapshot.requests.get(key) else { return Plan::Done { again: None } };
    let Some(uid) = request.metadata.uid.as_deref() else { return Plan::Done { again: None } };
    match destination {
        Destination::Refused(refusal) => {
            let findings_last_secs = snapshot.findings_last_secs();
            status_plan(request, &Outcome::Refused { refusal, findings_last_secs }, now)
        }
        Destination::NoNamespace { message } => status_plan(request, &Outcome::Waiting { message }, now),
        Destination::Existing { cluster, asked } => {
            if !has_finalizer(&request.metadata, names::REQUEST_FINALIZER) {
                // With the finalizer goes where the request is likely to be bound, to spare a write later.
                return Plan::AddFinalizer(take_over(request, &cluster));
            }
            let Some(chosen) = snapshot.clusters.get(&cluster) else { return Plan::Done { again: None } };
            match prefix_for(&asked, request, &chosen.spec.tenants, proposals) {
                Some(prefix) => take_room(cluster, chosen, tenant(key, uid, prefix)),
                None => Plan::Done { again: None },
            }
        }
        Destination::New { provider, profile, version, namespace, asked } => {
            // A recorded name counts while no Cluster has it; one that has it is somebody else's, or
            // the request would be among its tenants. The name of one that was only to be joined never counts: whoever
            // referred to that one did not mean its successor.
            let recorded = made_up(request)
                .filter(|name| name.namespace == namespace && !snapshot.clusters.contains_key(name))
                .filter(|_| has_finalizer(&request.metadata, names::REQUEST_FINALIZER));
            let Some(name) = recorded else {
                let purpose = request.spec.purposes.first().map_or("cluster", String::as_str);
                return record_name(snapshot, request, &namespace, purpose, proposals);
            };
            let Some(prefix) = prefix_for(&asked, request, &[], proposals) else { return Plan::Done { again: None } };
            let profile = ClusterProviderRef { name: provider, profile };
            let purposes = &request.spec.purposes;
            let cluster =
                new_cluster(snapshot, purposes, &asked, &name, profile, version, vec![tenant(key, uid, prefix)]);
            Plan::CreateCluster { write: create(Kind::Cluster, name, &cluster), cluster: Box::new(cluster) }
        }
    }
}

/// The entry of a request among the tenants of a Cluster.
pub(super) fn tenant(key: &ObjectKey, uid: &str, prefix: String) -> Tenant {
    Tenant {
        request_uid: uid.to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        unseen: !prefix.is_empty(),
        prefix,
        released: false,
    }
}

pub(super) fn prefix_for(
    asked: &Aggregated,
    request: &ClusterRequest,
    tenants: &[Tenant],
    proposals: &mut dyn Iterator<Item = String>,
) -> Option<String> {
    if asked.dedicated {
        return Some(String::new());
    }
    prefixes::choose(request.spec.prefix.as_deref().filter(|prefix| !prefix.is_empty()), tenants, proposals)
}

fn take_room(key: ObjectKey, cluster: &Cluster, tenant: Tenant) -> Plan {
    let tenants: Vec<&Tenant> = cluster.spec.tenants.iter().chain([&tenant]).collect();
    let marks = [names::IDLE_SINCE, names::SPARE].into_iter();
    let ended: BTreeMap<&str, Option<String>> =
        marks.filter(|mark| annotation(&cluster.metadata, mark).is_some()).map(|mark| (mark, None)).collect();
    let ended = (!ended.is_empty()).then(|| json!(ended));
    Plan::TakeRoom { write: room(&cluster.metadata, &tenants, ended), cluster: key }
}

/// The compare-and-swap that makes these the tenants of a Cluster, and sets these annotations.
pub(super) fn room(cluster: &ObjectMeta, tenants: &[&Tenant], annotations: Option<Value>) -> Write {
    let metadata = RoomMetadata { uid: &cluster.uid, resource_version: &cluster.resource_version, annotations };
    let patch = Body::of(&Room { metadata, spec: RoomSpec { tenants } });
    Write::Patch { kind: Kind::Cluster, key: ObjectKey::of(cluster), patch }
}

/// The patch that enters tenants, who may be many.
#[derive(Serialize)]
struct Room<'a> {
    metadata: RoomMetadata<'a>,
    spec: RoomSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RoomMetadata<'a> {
    uid: &'a Option<String>,
    resource_version: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Value>,
}

#[derive(Serialize)]
struct RoomSpec<'a> {
    tenants: &'a [&'a Tenant],
}

fn record_name(
    snapshot: &Snapshot,
    request: &ClusterRequest,
    namespace: &str,
    purpose: &str,
    proposals: &mut dyn Iterator<Item = String>,
) -> Plan {
    match free_name(snapshot, namespace, purpose, proposals) {
        Some(name) => {
            let text = name.to_string();
            let notes = [(names::CLUSTER_NAME, text.clone()), (names::NEW_CLUSTER_NAME, text)];
            let finalizer = Some(names::REQUEST_FINALIZER);
            Plan::RecordClusterName(apply_metadata(Kind::ClusterRequest, &request.metadata, &notes, finalizer))
        }
        None => Plan::Done { again: None },
    }
}

/// Where the platform noted that the request is, or is about to be: admission lets nobody else write it.
pub(super) fn bound_to(request: &ClusterRequest) -> Option<ObjectKey> {
    annotation(&request.metadata, names::CLUSTER_NAME).and_then(ObjectKey::parse)
}

/// The name that was made up for a Cluster of the request's.
fn made_up(request: &ClusterRequest) -> Option<ObjectKey> {
    annotation(&request.metadata, names::NEW_CLUSTER_NAME).and_then(ObjectKey::parse)
}

/// Notes where the request is; `None` where that is noted.
fn record_binding(request: &ClusterRequest, cluster: &ObjectKey) -> Option<Plan> {
    let noted = annotation(&request.metadata, names::CLUSTER_NAME).is_some_and(|noted| cluster.is_written(noted));
    (!noted).then(|| {
        let finalizer = Some(names::REQUEST_FINALIZER).filter(|own| has_finalizer(&request.metadata, own));
        let note = [(names::CLUSTER_NAME, cluster.to_string())];
        Plan::RecordBinding(apply_metadata(Kind::ClusterRequest, &request.metadata, &note, finalizer))
    })
}

/// Notes that the Cluster of a request is gone for good; `None` where that is noted. It outlives the Grant.
pub(crate) fn note_lost(request: &ClusterRequest, cluster_uid: &str) -> Option<Write> {
    let noted = annotation(&request.metadata, names::LOST_CLUSTER).is_some();
    let note = BTreeMap::from([(names::LOST_CLUSTER, Some(cluster_uid.to_owned()))]);
    (!noted).then(|| annotate(Kind::ClusterRequest, &request.metadata, &note))
}

/// The request under the platform's finalizer, with a note of the Cluster that it is likely to join.
pub(super) fn take_over(request: &ClusterRequest, cluster: &ObjectKey) -> Write {
    let note = [(names::CLUSTER_NAME, cluster.to_string())];
    apply_metadata(Kind::ClusterRequest, &request.metadata, &note, Some(names::REQUEST_FINALIZER))
}

/// The request is being deleted: access first, then the Grant, then room.
fn decide_deletion(snapshot: &Snapshot, key: &ObjectKey, request: &ClusterRequest, uid: &str) -> Plan {
    if !has_finalizer(&request.metadata, names::REQUEST_FINALIZER) {
        return Plan::Done { again: None };
    }
    let forced = is_forced(&request.metadata);
    let lives = |access: &ObjectKey| {
        let metadata = snapshot.access.get(access).map(|access| &access.metadata);
        metadata.is_some_and(|metadata| annotation(metadata, names::LIVE_IN).is_some())
    };
    if !forced && snapshot.access_to_request.get(key).into_iter().flatten().any(lives) {
        return Plan::Done { again: None };
    }
    if let Some(grant) = snapshot.grants.get(key).filter(|grant| grant.spec.request_uid == uid) {
        if grant.metadata.deletion_timestamp.is_some() && !forced {
            return Plan::Done { again: None };
        }
        if grant.metadata.deletion_timestamp.is_none() {
            return Plan::DeleteGrant(Write::Delete {
                kind: Kind::ClusterRequestGrant,
                key: key.clone(),
                uid: grant.metadata.uid.clone().unwrap_or_default(),
                resource_version: None,
            });
        }
    }
    let held = snapshot.tenancies.get(uid).into_iter().flatten();
    if let Some(plan) = held.filter_map(|cluster| release(snapshot, cluster, uid)).next() {
        return plan;
    }
    match remove_finalizer(Kind::ClusterRequest, &request.metadata, names::REQUEST_FINALIZER) {
        Some(write) => Plan::RemoveFinalizer(write),
        None => Plan::Done { again: None },
    }
}

/// Gives back the room of a request; `None` where it holds none there.
fn release(snapshot: &Snapshot, key: &ObjectKey, uid: &str) -> Option<Plan> {
    let write = release_write(snapshot.clusters.get(key)?, uid)?;
    Some(Plan::ReleaseRoom { cluster: key.clone(), write })
}

/// Marks the tenant as released. The entry stays: its prefix is in quarantine, and a dedicated Cluster
/// is never anybody else's.
pub(crate) fn release_write(cluster: &Cluster, uid: &str) -> Option<Write> {
    let mut tenants = cluster.spec.tenants.clone();
    let tenant = tenants.iter_mut().find(|tenant| tenant.request_uid == uid && !tenant.released)?;
    tenant.released = true;
    Some(room(&cluster.metadata, &tenants.iter().collect::<Vec<_>>(), None))
}

fn grant_status(request: &ClusterRequest, grant: &ClusterRequestGrant, phase: GrantPhase) -> Option<Plan> {
    let old = grant.status.as_ref();
    // The request as it was granted: kept once written, though the request be edited.
    let kept = old.and_then(|old| old.request.as_ref());
    if kept.is_some() && old.and_then(|old| old.phase) == Some(phase) {
        return None;
    }
    let (name, namespace) = (&request.metadata.name, &request.metadata.namespace);
    let mirrored = || MirroredRequest {
        metadata: MirroredMetadata {
            name: name.clone().unwrap_or_default(),
            namespace: namespace.clone().unwrap_or_default(),
        },
        spec: request.spec.clone(),
    };
    // Neither of the two ever goes again.
    let told = GrantTold { phase, request: kept.map_or_else(|| Cow::Owned(mirrored()), Cow::Borrowed) };
    let write = apply_status(Kind::ClusterRequestGrant, &grant.metadata, |text| write_json(&told, text));
    Some(Plan::WriteGrantStatus(write))
}

/// The status of a Grant, as it is written.
#[derive(Serialize)]
struct GrantTold<'a> {
    phase: GrantPhase,
    request: Cow<'a, MirroredRequest>,
}

/// The live tenant of a Cluster that a request is.
pub fn tenant_of<'a>(cluster: &'a Cluster, request_uid: &str) -> Option<&'a Tenant> {
    cluster.spec.tenants.iter().find(|tenant| tenant.request_uid == request_uid && !tenant.released)
}

/// Whether deletion is to go on whatever is in the way.
pub fn is_forced(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && annotation(metadata, names::FORCE_DELETE) == Some("true")
}

pub(crate) fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|have| have == finalizer)
}

/// The write that adds a finalizer; `None` where it is there.
pub(crate) fn add_finalizer(kind: Kind, metadata: &ObjectMeta, finalizer: &str) -> Option<Write> {
    (!has_finalizer(metadata, finalizer)).then(|| apply_metadata(kind, metadata, &[], Some(finalizer)))
}

/// The write that owns these annotations and that finalizer of an object, and nothing else of it from then on:
/// a controller has to name all that it wants to own.
pub(crate) fn apply_metadata(
    kind: Kind,
    metadata: &ObjectMeta,
    annotations: &[(&str, String)],
    finalizer: Option<&str>,
) -> Write {
    configured_metadata(kind, metadata, &[], annotations, finalizer)
}

/// The same with labels.
pub(crate) fn configured_metadata(
    kind: Kind,
    metadata: &ObjectMeta,
    labels: &[(&str, String)],
    annotations: &[(&str, String)],
    finalizer: Option<&str>,
) -> Write {
    let mut members = Map::new();
    for (member, entries) in [("labels", labels), ("annotations", annotations)] {
        if !entries.is_empty() {
            let entries = entries.iter().map(|(name, text)| ((*name).to_owned(), json!(text)));
            members.insert(member.to_owned(), entries.collect());
        }
    }
    if let Some(finalizer) = finalizer {
        members.insert("finalizers".to_owned(), json!([finalizer]));
    }
    Write::Apply { kind, key: ObjectKey::of(metadata), object: Body::of(&configuration(kind, metadata, members)) }
}

/// The write that removes a finalizer; `None` where it is not there.
pub(crate) fn remove_finalizer(kind: Kind, metadata: &ObjectMeta, finalizer: &str) -> Option<Write> {
    remove_finalizers(kind, metadata, &[finalizer])
}

/// The write that removes these finalizers at once; `None` where none of them is there.
pub(crate) fn remove_finalizers(kind: Kind, metadata: &ObjectMeta, finalizers: &[&str]) -> Option<Write> {
    finalizers.iter().any(|finalizer| has_finalizer(metadata, finalizer)).then(|| {
        let all = metadata.finalizers.iter().flatten().map(String::as_str);
        let mut patched = preconditions(metadata);
        patched.insert("finalizers".to_owned(), Value::from_iter(all.filter(|have| !finalizers.contains(have))));
        Write::Patch { kind, key: ObjectKey::of(metadata), patch: Body::of(&json!({ "metadata": patched })) }
    })
}

/// The write that creates an object of ours.
pub(crate) fn create<T: serde::Serialize>(kind: Kind, key: ObjectKey, object: &T) -> Write {
    Write::Create { kind, key, object: Body::of(object) }
}

/// An object of ours as JSON. None of their types can fail to serialise: all keys are strings.
pub(crate) fn to_value<T: serde::Serialize>(object: &T) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// Annotations to set and, for `None`, to remove, as a patch of the object.
pub(crate) fn annotate(kind: Kind, metadata: &ObjectMeta, changes: &BTreeMap<&str, Option<String>>) -> Write {
    let mut patched = preconditions(metadata);
    patched.insert("annotations".to_owned(), json!(changes));
    Write::Patch { kind, key: ObjectKey::of(metadata), patch: Body::of(&json!({ "metadata": patched })) }
}
