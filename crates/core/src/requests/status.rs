//! What the status of a ClusterRequest says.

use allotment_api::reasons::{ConditionType, PrefixReason, RequestReadyReason, RequestReason};
use allotment_api::requests::{Cluster, ClusterRequest, ClusterRequestGrant, ClusterRequestStatus, ObjectRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::aggregate::Aggregated;
use super::conditions::{Said, find, is_true, whole_seconds};
use super::findings::Findings;
use super::plan::Plan;
use super::prefixes;
use super::request::to_value;
use super::select::Refusal;
use super::snapshot::{Snapshot, is_provisioned};
use crate::write::{Kind, ObjectKey, apply_status, write_json, write_status};

/// How often the findings of a request that waits are looked at, at most, where nothing tells of a change.
const LOOK_AGAIN_SECS: i64 = 10;

/// What was decided.
pub(crate) enum Outcome<'a> {
    /// Nothing yet, and this is in the way.
    Waiting { message: String },
    /// Denied or Pending. Of the same answer the findings may stay as they are for so many seconds.
    Refused { refusal: Refusal, findings_last_secs: i64 },
    /// Bound to a Cluster that is there.
    Bound {
        snapshot: &'a Snapshot,
        grant: &'a ClusterRequestGrant,
        bound: ObjectKey,
        cluster: &'a Cluster,
        asked: Option<Box<Aggregated>>,
    },
    /// Bound to a Cluster that is gone.
    Lost { grant: &'a ClusterRequestGrant, bound: ObjectKey },
}

/// The write of the status, if it says anything new.
pub(crate) fn status_plan(request: &ClusterRequest, outcome: &Outcome<'_>, now: Timestamp) -> Plan {
    let none = ClusterRequestStatus::default();
    let old = request.status.as_ref().unwrap_or(&none);
    let mut new = desired_status(request, outcome, now);
    let no_findings = Findings::default();
    let findings = match outcome {
        Outcome::Refused { refusal, .. } => &refusal.findings,
        Outcome::Waiting { .. } | Outcome::Bound { .. } | Outcome::Lost { .. } => &no_findings,
    };
    if says_the_same(old, &new) {
        let same = old.findings_omitted == new.findings_omitted && findings.are(&old.findings);
        match findings_due(outcome, old, same, now) {
            Some(due) if same || now < due => return Plan::Done { again: Some(due) },
            None if same => return Plan::Done { again: None },
            Some(_) | None => {}
        }
    }
    new.last_reconcile_time = Some(Time(whole_seconds(now)));
    if keeps_all(old, &new) && (old.findings.is_empty() || !findings.is_empty()) {
        return Plan::WriteStatus(apply_status(Kind::ClusterRequest, &request.metadata, |text| {
            write_json(&new, text);
            // There are many, so they are written as they were found, as the last of the members.
            if !findings.is_empty() && text.pop().is_some() {
                text.extend_from_slice(b",\"findings\":");
                findings.write(text);
                text.push(b'}');
            }
        }));
    }
    new.findings = findings.listed();
    let (old, new) = (to_value(old), to_value(&new));
    match write_status(Kind::ClusterRequest, &request.metadata, &old, &new, new.clone()) {
        Some(write) => Plan::WriteStatus(write),
        None => Plan::Done { again: None },
    }
}

/// When the findings of a refusal that stays are looked at again: if they are the same, with time, for whoever stands behind
/// others that wait alike hears of no change; if not, once they lasted as long as they may.
fn findings_due(outcome: &Outcome<'_>, old: &ClusterRequestStatus, same: bool, now: Timestamp) -> Option<Timestamp> {
    let Outcome::Refused { findings_last_secs, .. } = outcome else { return None };
    let (from, secs) = match (&old.last_reconcile_time, same) {
        (Some(told), false) => (told.0, *findings_last_secs),
        _ => (now, LOOK_AGAIN_SECS.max(*findings_last_secs)),
    };
    from.checked_add(SignedDuration::from_secs(secs)).ok()
}

/// Whether two statuses say the same, but for their findings and when they were written.
fn says_the_same(old: &ClusterRequestStatus, new: &ClusterRequestStatus) -> bool {
    let ClusterRequestStatus {
        observed_generation,
        last_reconcile_time: _,
        status,
        reason,
        message,
        cluster_ref,
        conditions,
        findings: _,
        findings_omitted: _,
    } = old;
    (observed_generation, status) == (&new.observed_generation, &new.status)
        && (reason, message, cluster_ref) == (&new.reason, &new.message, &new.cluster_ref)
        && *conditions == new.conditions
}

/// Whether `new` has all members that `old` has, but for its findings: then nothing has to be taken away.
fn keeps_all(old: &ClusterRequestStatus, new: &ClusterRequestStatus) -> bool {
    fn kept<T>(old: &Option<T>, new: &Option<T>) -> bool {
        old.is_none() || new.is_some()
    }
    let condition = |old: &Condition| {
        let same = new.conditions.iter().find(|new| new.type_ == old.type_);
        same.is_some_and(|new| kept(&old.observed_generation, &new.observed_generation))
    };
    kept(&old.observed_generation, &new.observed_generation)
        && kept(&old.status, &new.status)
        && kept(&old.cluster_ref, &new.cluster_ref)
        && kept(&old.findings_omitted, &new.findings_omitted)
        && (old.reason.is_empty() || !new.reason.is_empty())
        && (old.message.is_empty() || !new.message.is_empty())
        && old.conditions.iter().all(condition)
}

/// What the status says, but for its findings.
fn desired_status(request: &ClusterRequest, outcome: &Outcome<'_>, now: Timestamp) -> ClusterRequestStatus {
    let mut status =
        ClusterRequestStatus { observed_generation: request.metadata.generation, ..ClusterRequestStatus::default() };
    let (reason, said) = match outcome {
        Outcome::Waiting { message } => {
            status.message = message.clone();
            (RequestReason::Scheduling, Vec::new())
        }
        Outcome::Refused { refusal, .. } => {
            status.message = refusal.message.clone();
            let omitted = i64::try_from(refusal.findings.omitted()).unwrap_or(i64::MAX);
            status.findings_omitted = (omitted > 0).then_some(omitted);
            (refusal.reason, Vec::new())
        }
        Outcome::Bound { snapshot, grant, bound, cluster, asked } => {
            let (ready, reason, message) = readiness(cluster, bound);
            status.message = message.clone();
            status.cluster_ref = Some(reference(bound));
            let mut said = vec![Said::new(ConditionType::Ready, ready, reason.as_str(), message)];
            said.extend(prefix_condition(request, grant, Some(cluster)));
            said.extend(asked.as_ref().and_then(|asked| version_condition(snapshot, cluster, asked)));
            said.extend(asked.as_ref().and_then(|asked| overridden_condition(asked)));
            (RequestReason::Success, said)
        }
        Outcome::Lost { grant, bound } => {
            let message = format!("Cluster {bound} is gone; delete and re-create the request to get another");
            status.message = message.clone();
            status.cluster_ref = Some(reference(bound));
            let lost = RequestReadyReason::ClusterLost.as_str();
            let mut said = vec![Said::new(ConditionType::Ready, false, lost, message)];
            said.extend(prefix_condition(request, grant, None));
            (RequestReason::Success, said)
        }
    };
    status.status = Some(reason.verdict());
    status.reason = reason.as_str().to_owned();
    let old = request.status.as_ref().map_or(&[][..], |status| &status.conditions);
    status.conditions = said.iter().map(|said| said.written(old, request.metadata.generation, now)).collect();
    status
}

fn reference(key: &ObjectKey) -> ObjectRef {
    ObjectRef { name: key.name.clone(), namespace: Some(key.namespace.clone()) }
}

/// Whether the Cluster can be used now, and words for it.
fn readiness(cluster: &Cluster, bound: &ObjectKey) -> (bool, RequestReadyReason, String) {
    if cluster.metadata.deletion_timestamp.is_some() {
        let message = format!(
            "Cluster {bound} is being deleted: it goes on until nobody uses it, and gives no new access; delete and \
             re-create the request to get another"
        );
        (false, RequestReadyReason::ClusterDeleting, message)
    } else if is_true(cluster, ConditionType::ClusterHealthy) {
        (true, RequestReadyReason::ClusterReady, "Cluster is ready".to_owned())
    } else if is_provisioned(cluster) {
        (false, RequestReadyReason::ClusterUnhealthy, format!("bound to {bound}, which is not healthy"))
    } else {
        (false, RequestReadyReason::ClusterCreating, format!("bound to {bound}, being created"))
    }
}

/// Whether the proposed prefix was given; nothing where none was proposed.
fn prefix_condition(request: &ClusterRequest, grant: &ClusterRequestGrant, cluster: Option<&Cluster>) -> Option<Said> {
    let proposed = request.spec.prefix.as_deref().filter(|prefix| !prefix.is_empty())?;
    let given = &grant.spec.prefix;
    let others = cluster.into_iter().flat_map(|cluster| &cluster.spec.tenants);
    let others = others.filter(|tenant| tenant.request_uid != grant.spec.request_uid);
    let (honored, reason) = if given == proposed {
        (true, PrefixReason::Honored)
    } else if grant.spec.resolved.dedicated {
        (false, PrefixReason::Dedicated)
    } else {
        // What was told stays true, whoever else comes and goes; and who had it may be gone by now.
        let reason = told_before(request).or_else(|| prefixes::obstacle(proposed, others));
        (false, reason.unwrap_or(PrefixReason::Taken))
    };
    let message = match reason {
        PrefixReason::Honored => format!("the prefix is {given:?}, as proposed"),
        PrefixReason::TooShort => format!("{proposed:?} is too short; the prefix is {given:?}"),
        PrefixReason::Taken if prefixes::is_reserved(proposed) => {
            format!("names of the cluster itself begin with {proposed:?}; the prefix is {given:?}")
        }
        PrefixReason::Taken => {
            format!("{proposed:?} belongs to another tenant of the Cluster; the prefix is {given:?}")
        }
        PrefixReason::Quarantined => {
            format!("objects of a former tenant may begin with {proposed:?}; the prefix is {given:?}")
        }
        PrefixReason::Dedicated => "a dedicated Cluster has no prefixes".to_owned(),
    };
    Some(Said::new(ConditionType::PrefixHonored, honored, reason.as_str(), message))
}

/// Why the prefix was not given, as the status tells already of this generation of the request.
fn told_before(request: &ClusterRequest) -> Option<PrefixReason> {
    let told = find(&request.status.as_ref()?.conditions, ConditionType::PrefixHonored)?;
    let current = told.status == "False" && told.observed_generation == request.metadata.generation;
    current.then(|| PrefixReason::from_text(&told.reason)).flatten()
}

fn version_condition(snapshot: &Snapshot, cluster: &Cluster, asked: &Aggregated) -> Option<Said> {
    let version = asked.version.as_ref().filter(|version| version.is_full())?;
    let deprecated = snapshot.profile_of(cluster)?.offer.is_deprecated(version);
    let message = format!("version {} is deprecated", asked.version_text);
    deprecated.then(|| Said::new(ConditionType::VersionDeprecated, true, "VersionDeprecated", message))
}

fn overridden_condition(asked: &Aggregated) -> Option<Said> {
    let list = asked.overridden.join("; ");
    (!list.is_empty()).then(|| Said::new(ConditionType::TraitsOverridden, true, "TraitsOverridden", list))
}
