//! The next thing to do for an AccessRequest.
//!
//! Before anything is made inside a Cluster, the AccessRequest notes where (`live-in`); the note goes
//! after the last of it. So whatever crashes, what lies inside is found again, and a Cluster or a
//! ClusterRequest knows whom to wait for.

use std::collections::BTreeMap;

use allotment_api::names;
use allotment_api::reasons::{AccessReason, ConditionType, Verdict};
use allotment_api::requests::{AccessInfo, AccessRequest, AccessRequestStatus, SecretRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::inside;
use super::judge::{Allowed, Refused, annotation, judge, ttl_end};
use super::plan::{AccessObserved, AccessPlan, Inside, InsideState, LeftBehind, SecretFacts, TargetCluster};
use crate::requests::{
    Said, Snapshot, annotate, apply_metadata, has_finalizer, is_forced, remove_finalizer, to_value, whole_seconds,
};
use crate::write::{Kind, ObjectKey, Write, write_status};

/// A token is renewed after this part, in percent, of the lifetime that it came with.
const RENEW_AT_PERCENT: i64 = 80;
/// When to look again for a namespace that somebody has to make: no event tells of it.
const NAMESPACE_AGAIN_SECS: i64 = 10;
/// How often it is looked whether the inside is still as it should be: whoever changes it there does not
/// tell.
const LOOK_INSIDE_SECS: i64 = 10 * 60;
/// Longest name of an AccessRequest whose Secret is named after it.
const MOST_NAME_BYTES: usize = 240;

/// The next thing to do for an AccessRequest.
pub fn decide_access(snapshot: &Snapshot, observed: &AccessObserved<'_>) -> AccessPlan {
    let request = observed.request;
    let Some(uid) = request.metadata.uid.as_deref() else { return AccessPlan::Done { again: None } };
    if request.metadata.deletion_timestamp.is_some() {
        return revoke(observed, None).unwrap_or_else(|| let_go(request));
    }
    let allowed = match judge(snapshot, request, observed.now) {
        Ok(allowed) => allowed,
        Err(refused) => return refuse(observed, &refused),
    };
    let lives_in = annotation(request, names::LIVE_IN);
    if lives_in.is_some_and(|lives_in| lives_in != allowed.target.uid)
        && let Some(plan) = revoke(observed, None)
    {
        return plan;
    }
    if let Some(again) = nothing_new(observed, &allowed) {
        return AccessPlan::Done { again };
    }
    match observed.inside {
        Inside::NotRead | Inside::Gone => {
            AccessPlan::Observe { cluster: allowed.target.clone(), namespaces: inside::namespaces(request) }
        }
        Inside::Unreachable | Inside::Unguarded(_) if is_granted(request) => AccessPlan::Done { again: None },
        Inside::Unreachable => {
            let message = format!("there is no admin access to Cluster {} at the moment", allowed.target.key);
            status_plan(observed, &Err(Refused::new(AccessReason::NoAdminAccess, message)), None)
        }
        Inside::Unguarded(why) => {
            let reason = AccessReason::PrefixNotEnforced;
            let message = format!("Cluster {} is shared, and {why}", allowed.target.key);
            status_plan(observed, &Err(Refused::new(reason, message)), None)
        }
        Inside::Read(state) => grant(observed, &allowed, uid, state),
    }
}

/// The Cluster is reachable: bring it to what is asked for, then the Secret, then the status.
fn grant(observed: &AccessObserved<'_>, allowed: &Allowed, uid: &str, state: &InsideState) -> AccessPlan {
    let request = observed.request;
    if let Some(namespace) = inside::missing_namespace(request, allowed, state) {
        let message = format!("namespace {namespace:?} does not exist in Cluster {}", allowed.target.key);
        return refuse(observed, &Refused::new(AccessReason::NamespaceNotFound, message));
    }
    if let Some(write) = record(request, allowed, observed.now) {
        return AccessPlan::Record(write);
    }
    let changes = inside::changes(request, uid, state);
    if !changes.is_empty() {
        return AccessPlan::Change { cluster: allowed.target.clone(), changes };
    }
    let good = observed.secret.filter(|secret| {
        is_current(secret, &allowed.target, observed.now, ttl_end(request))
            && inside::identity(uid, state) == Some(secret.service_account_uid.as_str())
    });
    match good {
        Some(secret) => status_plan(observed, &Ok(secret), Some(&allowed.target)),
        None => AccessPlan::Mint {
            cluster: allowed.target.clone(),
            service_account: inside::service_account(uid),
            lifetime_secs: lifetime(observed),
            secret: match observed.secret.filter(|secret| secret.owned) {
                Some(secret) => secret.name.clone(),
                None => secret_name(request, uid),
            },
        },
    }
}

/// Whether everything is as it was granted, and if so, when to look again. The status says Granted for
/// a generation only once the Cluster acknowledged every change; that nobody changed the inside since is
/// known from a look of this process.
fn nothing_new(observed: &AccessObserved<'_>, allowed: &Allowed) -> Option<Option<Timestamp>> {
    let request = observed.request;
    let status = request.status.as_ref()?;
    let secret = observed.secret?;
    let granted = is_granted(request) && status.observed_generation == request.metadata.generation;
    let here = annotation(request, names::LIVE_IN) == Some(allowed.target.uid.as_str());
    let end = ttl_end(request);
    let same_access = status.access.as_ref() == Some(&access_info(request, secret, &allowed.target));
    let looked = observed.looked.filter(|looked| looked.generation == request.metadata.generation)?;
    let look = look_inside(looked.at);
    (granted && here && same_access && is_current(secret, &allowed.target, observed.now, end) && observed.now < look)
        .then(|| next_look(secret, end).map(|at| at.min(look)))
}

fn look_inside(last: Timestamp) -> Timestamp {
    last.saturating_add(SignedDuration::from_secs(LOOK_INSIDE_SECS)).unwrap_or(Timestamp::MAX)
}

fn is_granted(request: &AccessRequest) -> bool {
    request.status.as_ref().is_some_and(|status| status.status == Some(Verdict::Granted))
}

/// When the token is renewed: at 80 % of the lifetime that it came with.
fn renew_after(secret: &SecretFacts) -> Timestamp {
    let lifetime = secret.expires_at.as_second().saturating_sub(secret.issued_at.as_second());
    let part = SignedDuration::from_secs(lifetime.saturating_mul(RENEW_AT_PERCENT) / 100);
    secret.issued_at.saturating_add(part).unwrap_or(secret.expires_at)
}

fn is_current(secret: &SecretFacts, target: &TargetCluster, now: Timestamp, end: Option<Timestamp>) -> bool {
    // A token that lasts until the access ends for good is not renewed.
    let to_the_end = end.is_some_and(|end| end <= secret.expires_at);
    secret.owned && secret.cluster_uid == target.uid && (to_the_end || now < renew_after(secret))
}

fn next_look(secret: &SecretFacts, end: Option<Timestamp>) -> Option<Timestamp> {
    match end {
        Some(end) if end <= secret.expires_at => Some(end),
        _ => Some(renew_after(secret)),
    }
}

fn lifetime(observed: &AccessObserved<'_>) -> i64 {
    let left = ttl_end(observed.request).map(|end| end.as_second() - observed.now.as_second());
    left.map_or(observed.token_lifetime_secs, |left| left.min(observed.token_lifetime_secs)).max(1)
}

/// Name of the Secret that answers an AccessRequest, unless somebody else's has it.
fn secret_name(request: &AccessRequest, uid: &str) -> String {
    match request.metadata.name.as_deref() {
        Some(name) if name.len() <= MOST_NAME_BYTES => format!("{name}-kubeconfig"),
        _ => other_secret_name(uid),
    }
}

/// Its name where the first one is taken: nobody else knows the UID before the request is there.
pub fn other_secret_name(uid: &str) -> String {
    format!("access-{uid}")
}

/// Notes where the access is about to live and, at first, since when; `None` where that is noted.
fn record(request: &AccessRequest, allowed: &Allowed, now: Timestamp) -> Option<Write> {
    let target = &allowed.target;
    let name = target.key.to_string();
    let noted = annotation(request, names::LIVE_IN) == Some(target.uid.as_str())
        && annotation(request, names::LIVE_IN_NAME) == Some(name.as_str())
        && annotation(request, names::GRANTED_AT).is_some();
    if noted && has_finalizer(&request.metadata, names::ACCESS_FINALIZER) {
        return None;
    }
    if annotation(request, names::EXPIRED).is_some() {
        // That an earlier access ran out means nothing any more.
        let note = BTreeMap::from([(names::EXPIRED, None)]);
        return Some(annotate(Kind::AccessRequest, &request.metadata, &note));
    }
    let since = annotation(request, names::GRANTED_AT).map_or_else(|| whole_seconds(now).to_string(), str::to_owned);
    let notes = [(names::LIVE_IN, target.uid.clone()), (names::LIVE_IN_NAME, name), (names::GRANTED_AT, since)];
    Some(apply_metadata(Kind::AccessRequest, &request.metadata, &notes, Some(names::ACCESS_FINALIZER)))
}

/// Not granted, or not any more: what there is goes first, then the status says so.
fn refuse(observed: &AccessObserved<'_>, refused: &Refused) -> AccessPlan {
    revoke(observed, Some(refused.reason)).unwrap_or_else(|| status_plan(observed, &Err(refused.clone()), None))
}

/// The next step of taking access away: identity, Secret, the note of where it lived. `None` once
/// nothing is left.
fn revoke(observed: &AccessObserved<'_>, reason: Option<AccessReason>) -> Option<AccessPlan> {
    let request = observed.request;
    let lives_in = annotation(request, names::LIVE_IN).map(|uid| TargetCluster {
        key: annotation(request, names::LIVE_IN_NAME).and_then(ObjectKey::parse).unwrap_or_default(),
        uid: uid.to_owned(),
    });
    let forgotten = || forget(request, reason);
    let unreachable = match (&lives_in, observed.inside) {
        (Some(_), _) if is_forced(&request.metadata) => true,
        (Some(cluster), Inside::NotRead) => {
            return Some(AccessPlan::Observe { cluster: cluster.clone(), namespaces: inside::namespaces(request) });
        }
        (Some(cluster), Inside::Read(state)) if !state.objects.is_empty() => {
            return Some(AccessPlan::Change { cluster: cluster.clone(), changes: inside::removal(state) });
        }
        (Some(_), Inside::Unreachable) => true,
        // Nothing was given there yet that would have to be taken; it is read anew first.
        (Some(cluster), Inside::Unguarded(_)) => {
            return Some(AccessPlan::Observe { cluster: cluster.clone(), namespaces: inside::namespaces(request) });
        }
        (Some(_), Inside::Read(_) | Inside::Gone) | (None, _) => false,
    };
    if let Some(secret) = observed.secret.filter(|secret| secret.owned) {
        let namespace = request.metadata.namespace.clone().unwrap_or_default();
        return Some(AccessPlan::DeleteSecret {
            key: ObjectKey::new(namespace, secret.name.clone()),
            uid: secret.uid.clone(),
        });
    }
    let cluster = lives_in?;
    if unreachable {
        let not_after = request.status.as_ref().and_then(|status| status.access.as_ref()?.not_after.clone());
        let uid = request.metadata.uid.as_deref().unwrap_or_default();
        let service_account = inside::service_account(uid);
        let left = LeftBehind { cluster, service_account, not_after: not_after.map(|time| time.0) };
        return Some(AccessPlan::LeaveBehind { left, write: forgotten() });
    }
    Some(AccessPlan::Forget(forgotten()))
}

/// Removes the notes of where the access lived. That it ran out is noted, for this generation.
fn forget(request: &AccessRequest, reason: Option<AccessReason>) -> Write {
    let mut notes: BTreeMap<&str, Option<String>> =
        [names::LIVE_IN, names::LIVE_IN_NAME, names::GRANTED_AT].into_iter().map(|name| (name, None)).collect();
    if reason == Some(AccessReason::Expired) {
        notes.insert(names::EXPIRED, request.metadata.generation.map(|generation| generation.to_string()));
    }
    annotate(Kind::AccessRequest, &request.metadata, &notes)
}

fn let_go(request: &AccessRequest) -> AccessPlan {
    match remove_finalizer(Kind::AccessRequest, &request.metadata, names::ACCESS_FINALIZER) {
        Some(write) => AccessPlan::RemoveFinalizer(write),
        None => AccessPlan::Done { again: None },
    }
}

fn access_info(request: &AccessRequest, secret: &SecretFacts, target: &TargetCluster) -> AccessInfo {
    let end = ttl_end(request);
    let not_after = end.map_or(secret.expires_at, |end| end.min(secret.expires_at));
    AccessInfo {
        type_: request.spec.type_.unwrap_or_default(),
        secret_ref: SecretRef { name: secret.name.clone() },
        cluster_uid: target.uid.clone(),
        not_after: Some(Time(whole_seconds(not_after))),
        renew_after: Some(Time(whole_seconds(renew_after(secret)))),
    }
}

/// The write of the status, if it says anything new.
fn status_plan(
    observed: &AccessObserved<'_>,
    outcome: &Result<&SecretFacts, Refused>,
    target: Option<&TargetCluster>,
) -> AccessPlan {
    let (request, now) = (observed.request, observed.now);
    let old = request.status.clone().unwrap_or_default();
    let (reason, message, access) = match outcome {
        Ok(secret) => {
            let info = target.map(|target| access_info(request, secret, target));
            (AccessReason::Success, "Cluster is ready", info)
        }
        Err(refused) => (refused.reason, refused.message.as_str(), None),
    };
    let granted = reason.verdict() == Verdict::Granted;
    let ready = Said::new(ConditionType::Ready, granted, reason.as_str(), message);
    let new = AccessRequestStatus {
        observed_generation: request.metadata.generation,
        last_reconcile_time: old.last_reconcile_time.clone(),
        status: Some(reason.verdict()),
        reason: reason.as_str().to_owned(),
        message: message.to_owned(),
        conditions: vec![ready.written(&old.conditions, request.metadata.generation, now)],
        access,
    };
    if new == old {
        let again = match outcome {
            Ok(secret) => next_look(secret, ttl_end(request)).map(|at| at.min(look_inside(now))),
            Err(refused) if refused.reason == AccessReason::NamespaceNotFound => {
                now.saturating_add(SignedDuration::from_secs(NAMESPACE_AGAIN_SECS)).ok()
            }
            Err(_) => None,
        };
        return AccessPlan::Done { again };
    }
    let new = AccessRequestStatus { last_reconcile_time: Some(Time(whole_seconds(now))), ..new };
    let (old, new) = (to_value(&old), to_value(&new));
    match write_status(Kind::AccessRequest, &request.metadata, &old, &new, new.clone()) {
        Some(write) => AccessPlan::WriteStatus(write),
        None => AccessPlan::Done { again: None },
    }
}
