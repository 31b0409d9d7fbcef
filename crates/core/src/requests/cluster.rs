//! One Cluster: what it follows its Purposes in, when it goes, and what its status says.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names;
use allotment_api::reasons::{ClusterConditionReason, ConditionType, ProviderReason};
use allotment_api::requests::{Cluster, ClusterSpec, ClusterStatus, DeletionPolicy, PurposeSpec};
use allotment_machinery::duration::Duration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::aggregate::{DEFAULT_IDLE_GRACE, retention};
use super::conditions::{Said, find, is_true, put, whole_seconds};
use super::making::ceilings;
use super::plan::{ClusterPlan, ConfirmAbsent};
use super::request::{
    add_finalizer, annotate, has_finalizer, is_forced, note_lost, release_write, remove_finalizer, remove_finalizers,
    room, tenant_of, to_value,
};
use super::snapshot::{Snapshot, annotation, is_provisioned, tenant_key};
use super::spares;
use crate::access::{standing_by_provider, strike_leftovers};
use crate::write::{
    Body, Kind, ObjectKey, Write, merge_diff, preconditions, without_nulls, write_status as write_status_of,
};

/// How many users a message names before it counts the rest.
const MOST_NAMED: usize = 10;
/// How often it is told of a Cluster that a newer generation of it was seen, where that is all there is to tell.
const SEEN_EVERY_SECS: i64 = 1;

/// The next write for a Cluster.
pub fn decide_cluster(snapshot: &Snapshot, key: &ObjectKey, now: Timestamp) -> ClusterPlan {
    let Some(cluster) = snapshot.clusters.get(key) else { return ClusterPlan::Done { again: None } };
    if let Some(plan) = release_orphan(snapshot, key, cluster) {
        return plan;
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        return decide_deletion(snapshot, cluster, &users(snapshot, cluster), now);
    }
    if let Some(write) = add_finalizer(Kind::Cluster, &cluster.metadata, names::CLUSTER_FINALIZER) {
        return ClusterPlan::AddFinalizer(write);
    }
    if let Some(write) = follow_purposes(snapshot, cluster) {
        return ClusterPlan::FollowPurposes(write);
    }
    match decide_idle(snapshot, cluster, !is_used(snapshot, cluster), now) {
        // Who uses it is told only while it is being deleted.
        ClusterPlan::Done { again } => tell(snapshot, cluster, &BTreeSet::new(), now, again),
        plan => plan,
    }
}

/// What the status says: of what is left over first, as far as that is the provider's to remove.
fn tell(
    snapshot: &Snapshot,
    cluster: &Cluster,
    users: &BTreeSet<String>,
    now: Timestamp,
    again: Option<Timestamp>,
) -> ClusterPlan {
    let Some((standing, ends)) = standing_by_provider(snapshot, cluster, now) else {
        return write_status(snapshot, cluster, users, now, again);
    };
    match strike_leftovers(cluster, &standing) {
        Some(write) => ClusterPlan::WriteStatus(write),
        None => write_status(snapshot, cluster, users, now, again.into_iter().chain(ends).min()),
    }
}

/// Drops the entries of released tenants whose prefixes no name begins with any more. `free` holds the
/// prefixes of which this was observed inside the Cluster. A dedicated Cluster keeps its entry for ever.
pub fn end_quarantine(cluster: &Cluster, free: &BTreeSet<String>) -> Option<Write> {
    let kept: Vec<_> = cluster
        .spec
        .tenants
        .iter()
        .filter(|tenant| !tenant.released || cluster.spec.dedicated != Some(false) || !free.contains(&tenant.prefix))
        .collect();
    (kept.len() < cluster.spec.tenants.len()).then(|| room(&cluster.metadata, &kept, None))
}

/// Notes that no name of the Cluster's own begins with the prefix of that request, as was observed inside: accounts are kept to
/// it from now on. Nothing where that is noted.
pub(crate) fn note_seen(cluster: &Cluster, request_uid: &str) -> Option<Write> {
    let mut tenants = cluster.spec.tenants.clone();
    let tenant = tenants.iter_mut().find(|tenant| tenant.request_uid == request_uid && tenant.unseen)?;
    tenant.unseen = false;
    Some(room(&cluster.metadata, &tenants.iter().collect::<Vec<_>>(), None))
}

/// The prefixes of released tenants, to be looked for inside the Cluster.
pub fn quarantined(cluster: &Cluster) -> BTreeSet<String> {
    let released = cluster.spec.tenants.iter().filter(|tenant| tenant.released);
    released.filter(|_| cluster.spec.dedicated == Some(false)).map(|tenant| tenant.prefix.clone()).collect()
}

/// A tenant whose request and Grant are both gone gives its room back.
fn release_orphan(snapshot: &Snapshot, key: &ObjectKey, cluster: &Cluster) -> Option<ClusterPlan> {
    let uid = snapshot.orphans.get(key)?.first()?;
    let orphan = tenant_of(cluster, uid)?;
    Some(ClusterPlan::ReleaseOrphan {
        confirm: ConfirmAbsent { request: tenant_key(orphan), uid: orphan.request_uid.clone() },
        write: release_write(cluster, &orphan.request_uid)?,
    })
}

/// Whether anybody uses a Cluster: has room on it, or lives in it.
fn is_used(snapshot: &Snapshot, cluster: &Cluster) -> bool {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    snapshot.live_access.contains_key(uid) || cluster.spec.tenants.iter().any(|tenant| !tenant.released)
}

/// Who uses a Cluster: `namespace/name` of each tenant and of each live access.
fn users(snapshot: &Snapshot, cluster: &Cluster) -> BTreeSet<String> {
    let tenants = cluster.spec.tenants.iter().filter(|tenant| !tenant.released);
    let tenants = tenants.map(|tenant| format!("ClusterRequest {}", tenant_key(tenant)));
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let access = snapshot.live_access.get(uid).into_iter().flatten();
    tenants.chain(access.map(|key| format!("AccessRequest {key}"))).collect()
}

fn decide_deletion(snapshot: &Snapshot, cluster: &Cluster, users: &BTreeSet<String>, now: Timestamp) -> ClusterPlan {
    if is_forced(&cluster.metadata)
        && let Some(write) = note_losers(snapshot, cluster)
    {
        return ClusterPlan::NoteLost(write);
    }
    let metadata = &cluster.metadata;
    if is_forced(metadata) {
        let silent = silent_holders(snapshot, cluster);
        let finalizers: Vec<&str> =
            [names::CLUSTER_FINALIZER].into_iter().chain(silent.iter().map(|held| held.0)).collect();
        if let Some(write) = remove_finalizers(Kind::Cluster, metadata, &finalizers) {
            let held = has_finalizer(metadata, names::CLUSTER_FINALIZER);
            return ClusterPlan::RemoveFinalizer { write, told: lost_by_force(cluster, users, held, &silent) };
        }
    } else if users.is_empty()
        && let Some(write) = remove_finalizer(Kind::Cluster, metadata, names::CLUSTER_FINALIZER)
    {
        return ClusterPlan::RemoveFinalizer { write, told: None };
    }
    tell(snapshot, cluster, users, now, None)
}

/// The finalizers of providers of other processes that are not there to act, each with the provider and why it is not.
/// One that lives takes away what it made, by force too, and lets go itself.
fn silent_holders<'a>(snapshot: &Snapshot, cluster: &'a Cluster) -> Vec<(&'a str, &'a str, String)> {
    let held = cluster.metadata.finalizers.iter().flatten();
    let held = held.filter_map(|held| Some((held.as_str(), held.strip_prefix(names::OUTSIDE_FINALIZER_PREFIX)?)));
    held.filter_map(|(held, name)| Some((held, name, why_silent(snapshot, name)?))).collect()
}

/// Why a provider is not there to act; `None` where it is, be it to its end.
fn why_silent(snapshot: &Snapshot, provider: &str) -> Option<String> {
    let Some(provider) = snapshot.providers.get(provider) else { return Some("is gone".to_owned()) };
    let status = provider.status.as_ref()?;
    let acts = status.ready || status.reason == ProviderReason::Deleting.as_str();
    (!acts).then(|| format!("is not ready ({})", status.reason))
}

/// What an Event says of a Cluster that goes by force: who loses it, as long as the platform `held` it, and what may be left.
fn lost_by_force(
    cluster: &Cluster,
    users: &BTreeSet<String>,
    held: bool,
    silent: &[(&str, &str, String)],
) -> Option<String> {
    let lost = (held && !users.is_empty())
        .then(|| format!("{} lost it; credentials may work until it is gone", named(users.iter().cloned())));
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let left = silent.iter().map(|(_, name, why)| {
        format!(
            "what ClusterProvider {name:?} made for it, profile {:?}, UID {uid}, may be left, as that {why}: look there \
             and remove it by hand",
            cluster.spec.cluster_provider_ref.profile
        )
    });
    let told: Vec<String> = lost.into_iter().chain(left).collect();
    (!told.is_empty()).then(|| format!("deleted by force: {}", told.join("; ")))
}

/// The next tenant that has to know that it loses the Cluster: what else tells of it, the Grant, may go before the
/// request does.
fn note_losers(snapshot: &Snapshot, cluster: &Cluster) -> Option<Write> {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let live = cluster.spec.tenants.iter().filter(|tenant| !tenant.released);
    let requests = live.filter_map(|tenant| {
        let request = snapshot.requests.get(&tenant_key(tenant))?;
        (request.metadata.uid.as_deref() == Some(tenant.request_uid.as_str())).then_some(request)
    });
    requests.filter_map(|request| note_lost(request, uid)).next()
}

/// `deletionPolicy`, `idleGrace` and `ceilings` follow the Purposes. Of a Cluster written by hand only
/// the ceilings do: it has no policy and never goes by itself. While a Purpose is missing, the policy
/// stays as it was, since nobody knows what that Purpose said.
fn follow_purposes(snapshot: &Snapshot, cluster: &Cluster) -> Option<Write> {
    let spec = &cluster.spec;
    let purposes: Option<Vec<&PurposeSpec>> = spec.purposes.iter().map(|name| snapshot.purpose(name)).collect();
    // What follows, without the tenants, who are many.
    let old = ClusterSpec {
        deletion_policy: spec.deletion_policy,
        idle_grace: spec.idle_grace.clone(),
        ceilings: spec.ceilings.clone(),
        ..ClusterSpec::default()
    };
    let mut new = ClusterSpec { ceilings: ceilings(snapshot, &spec.purposes, &spec.ceilings), ..old.clone() };
    if let Some(purposes) = purposes.filter(|purposes| spec.deletion_policy.is_some() && !purposes.is_empty()) {
        let (policy, grace) = retention(purposes.into_iter());
        (new.deletion_policy, new.idle_grace) = (Some(policy), Some(grace));
    }
    let change = (new != old).then(|| merge_diff(&to_value(&old), &to_value(&new))).flatten()?;
    Some(Write::Patch {
        kind: Kind::Cluster,
        key: ObjectKey::of(&cluster.metadata),
        patch: Body::of(&json!({ "metadata": preconditions(&cluster.metadata), "spec": change })),
    })
}

/// Idle, then draining, then deleted; a spare that `warm` does not keep goes whatever the policy. Each step
/// is a compare-and-swap of the Cluster, as taking room is, so that nobody gets room on one that goes.
fn decide_idle(snapshot: &Snapshot, cluster: &Cluster, unused: bool, now: Timestamp) -> ClusterPlan {
    let metadata = &cluster.metadata;
    let marks = [names::IDLE_SINCE, names::DRAINING];
    let kept = match spares::is_spare(cluster) {
        true => spares::is_kept(snapshot, cluster, now),
        false => cluster.spec.deletion_policy != Some(DeletionPolicy::WhenIdle),
    };
    if !unused || kept {
        let removed: BTreeMap<&str, Option<String>> =
            marks.into_iter().filter(|mark| annotation(metadata, mark).is_some()).map(|mark| (mark, None)).collect();
        return match removed.is_empty() {
            // A spare that is never healthy is no use any more then.
            true => {
                ClusterPlan::Done { again: snapshot.becomes_overdue(cluster).filter(|_| spares::is_spare(cluster)) }
            }
            false => ClusterPlan::MarkUsed(annotate(Kind::Cluster, metadata, &removed)),
        };
    }
    let mark =
        |name| annotate(Kind::Cluster, metadata, &BTreeMap::from([(name, Some(whole_seconds(now).to_string()))]));
    let since = annotation(metadata, names::IDLE_SINCE).and_then(|text| text.parse::<Timestamp>().ok());
    let Some(since) = since else { return ClusterPlan::MarkIdle(mark(names::IDLE_SINCE)) };
    let grace = cluster.spec.idle_grace.as_deref().unwrap_or(DEFAULT_IDLE_GRACE).parse::<Duration>();
    let grace = grace.unwrap_or(Duration::from_secs(300)).as_nanos().max(0);
    let ends = since.saturating_add(SignedDuration::from_nanos(grace)).unwrap_or(Timestamp::MAX);
    if now < ends {
        return ClusterPlan::Done { again: Some(ends) };
    }
    if annotation(metadata, names::DRAINING).is_none() {
        return ClusterPlan::MarkDraining(mark(names::DRAINING));
    }
    ClusterPlan::Delete(Write::Delete {
        kind: Kind::Cluster,
        key: ObjectKey::of(metadata),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone(),
    })
}

fn write_status(
    snapshot: &Snapshot,
    cluster: &Cluster,
    users: &BTreeSet<String>,
    now: Timestamp,
    again: Option<Timestamp>,
) -> ClusterPlan {
    let old = cluster.status.clone().unwrap_or_default();
    let mut new = desired_status(snapshot, cluster, &old, users, now);
    if new == old {
        return ClusterPlan::Done { again };
    }
    if let Some(due) = seen_lately(&old, &new).filter(|due| now < *due) {
        return ClusterPlan::Done { again: Some(again.map_or(due, |again| again.min(due))) };
    }
    new.last_reconcile_time = Some(Time(whole_seconds(now)));
    let ours: Vec<_> = OURS.iter().filter_map(|kind| find(&new.conditions, *kind)).collect();
    let own = json!({
        "observedGeneration": new.observed_generation, "lastReconcileTime": new.last_reconcile_time,
        "conditions": ours,
    });
    match write_status_of(Kind::Cluster, &cluster.metadata, &to_value(&old), &to_value(&new), without_nulls(own)) {
        Some(write) => ClusterPlan::WriteStatus(write),
        None => ClusterPlan::Done { again },
    }
}

/// When it is told that a newer generation was seen, where nothing else is to be told: tenants come by the hundred, and
/// a write for each would cost more than they do.
fn seen_lately(old: &ClusterStatus, new: &ClusterStatus) -> Option<Timestamp> {
    let mut same = new.clone();
    same.observed_generation = old.observed_generation;
    for (condition, was) in same.conditions.iter_mut().zip(&old.conditions) {
        condition.observed_generation = was.observed_generation;
    }
    let told = old.last_reconcile_time.as_ref().filter(|_| same == *old)?;
    told.0.checked_add(SignedDuration::from_secs(SEEN_EVERY_SECS)).ok()
}

/// The conditions that the platform sets; others are the provider's.
const OURS: [ConditionType; 4] =
    [ConditionType::Provisioned, ConditionType::Withdrawn, ConditionType::DeletionBlocked, ConditionType::Ready];

/// The platform's part of the status; the provider's is kept as it is.
fn desired_status(
    snapshot: &Snapshot,
    cluster: &Cluster,
    old: &ClusterStatus,
    users: &BTreeSet<String>,
    now: Timestamp,
) -> ClusterStatus {
    let said = [
        provisioned(cluster),
        withdrawn(snapshot, cluster),
        deletion_blocked(snapshot, cluster, users),
        ready(cluster, old),
    ];
    let generation = cluster.metadata.generation;
    // Each in its place: where that is, the server decides, which merges what two controllers apply.
    let mut conditions = old.conditions.clone();
    for said in &said {
        put(&mut conditions, said.written(&old.conditions, generation, now));
    }
    ClusterStatus { observed_generation: generation, conditions, ..old.clone() }
}

fn provisioned(cluster: &Cluster) -> Said {
    match is_provisioned(cluster) {
        true => {
            let reason = ClusterConditionReason::WasHealthy.as_str();
            Said::new(ConditionType::Provisioned, true, reason, "the Cluster was healthy at least once")
        }
        false => {
            let reason = ClusterConditionReason::NotReported.as_str();
            Said::new(ConditionType::Provisioned, false, reason, "the Cluster was never healthy yet")
        }
    }
}

fn withdrawn(snapshot: &Snapshot, cluster: &Cluster) -> Said {
    let reference = &cluster.spec.cluster_provider_ref;
    let (name, profile) = (&reference.name, &reference.profile);
    let (status, reason, message) = if snapshot.profile_of(cluster).is_some() {
        (false, ClusterConditionReason::Published, format!("ClusterProvider {name:?} publishes profile {profile:?}"))
    } else if snapshot.providers.contains_key(name) {
        let message =
            format!("ClusterProvider {name:?} does not publish profile {profile:?}; nothing new is placed here");
        (true, ClusterConditionReason::ProfileNotPublished, message)
    } else {
        let message = format!("there is no ClusterProvider {name:?}; nothing new is placed here");
        (true, ClusterConditionReason::ProviderNotFound, message)
    };
    Said::new(ConditionType::Withdrawn, status, reason.as_str(), message)
}

fn deletion_blocked(snapshot: &Snapshot, cluster: &Cluster, users: &BTreeSet<String>) -> Said {
    let said = |status, reason: ClusterConditionReason, message: String| {
        Said::new(ConditionType::DeletionBlocked, status, reason.as_str(), message)
    };
    if cluster.metadata.deletion_timestamp.is_none() {
        return said(false, ClusterConditionReason::NotDeleting, "the Cluster is not being deleted".to_owned());
    }
    if users.is_empty() {
        let message = match silent_holders(snapshot, cluster).first() {
            None => "nothing keeps the Cluster from being deleted".to_owned(),
            Some((_, name, why)) => format!(
                "nobody uses the Cluster; it waits for ClusterProvider {name:?}, which {why}. Annotation {}: \"true\" lets \
                 it go without",
                names::FORCE_DELETE
            ),
        };
        return said(false, ClusterConditionReason::NotInUse, message);
    }
    said(true, ClusterConditionReason::InUse, format!("in use by {}", named(users.iter().cloned())))
}

/// Ten of them by name, then a count.
pub(crate) fn named(all: impl Iterator<Item = String>) -> String {
    let mut all = all;
    let mut text = all.by_ref().take(MOST_NAMED).collect::<Vec<_>>().join(", ");
    let more = all.count();
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn ready(cluster: &Cluster, old: &ClusterStatus) -> Said {
    let healthy = find(&old.conditions, ConditionType::ClusterHealthy);
    let (status, reason, message) = match healthy {
        _ if cluster.metadata.deletion_timestamp.is_some() => {
            (Some(false), ClusterConditionReason::Deleting, "the Cluster is being deleted".to_owned())
        }
        Some(_) if is_true(cluster, ConditionType::ClusterHealthy) => {
            (Some(true), ClusterConditionReason::AllGood, "the Cluster is usable".to_owned())
        }
        Some(condition) => (Some(false), ClusterConditionReason::NotHealthy, condition.message.clone()),
        None => (None, ClusterConditionReason::NotReported, "the provider has not reported yet".to_owned()),
    };
    Said { kind: ConditionType::Ready, status, reason: reason.as_str(), message }
}
