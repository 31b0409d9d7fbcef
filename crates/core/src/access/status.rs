//! What the status of an AccessRequest says. Where a provider makes everything, its own part (`Provided`, `access`) is
//! kept as it is, but for what it said of an approval before this one.

use allotment_api::names;
use allotment_api::reasons::{AccessReason, ConditionType, Verdict};
use allotment_api::requests::{AccessInfo, AccessRequest, AccessRequestStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::judge::{Refused, annotation};
use super::means::provider_asked;
use crate::requests::{Said, find_condition, to_value, whole_seconds};
use crate::write::{Kind, Write, without_nulls, write_status};

/// Reason of condition `Approved` where it is true.
const ALLOWED: &str = "Allowed";

/// What is to be said.
pub(crate) enum Told<'a> {
    /// Granted, by what the platform made.
    Granted(AccessInfo),
    /// Allowed; the provider gave what was asked for, or this is still in the way.
    Approved(Result<(), Refused>),
    /// Not granted.
    Refused(&'a Refused),
}

/// The write of the status, if it says anything new.
pub(crate) fn write(request: &AccessRequest, told: &Told<'_>, now: Timestamp) -> Option<Write> {
    let old = request.status.clone().unwrap_or_default();
    let new = desired(request, &old, told, now);
    if new == old {
        return None;
    }
    let new = AccessRequestStatus { last_reconcile_time: Some(Time(whole_seconds(now))), ..new };
    let own = match provider_asked(request) {
        Some(_) => json!({
            "observedGeneration": new.observed_generation, "lastReconcileTime": new.last_reconcile_time,
            "status": new.status, "reason": new.reason, "message": new.message,
            "conditions": new.conditions.iter().filter(|condition| !is_providers(condition)).collect::<Vec<_>>(),
        }),
        None => to_value(&new),
    };
    let (old, new) = (to_value(&old), to_value(&new));
    write_status(Kind::AccessRequest, &request.metadata, &old, &new, without_nulls(own))
}

/// Whether it says that the platform approved this generation.
pub(crate) fn is_approved(request: &AccessRequest) -> bool {
    condition(request, ConditionType::Approved).is_some_and(|approved| {
        approved.status == "True" && approved.observed_generation == request.metadata.generation
    })
}

/// The condition of that type.
pub(crate) fn condition(request: &AccessRequest, kind: ConditionType) -> Option<&Condition> {
    find_condition(&request.status.as_ref()?.conditions, kind)
}

fn is_providers(condition: &Condition) -> bool {
    condition.type_ == ConditionType::Provided.as_str()
}

fn desired(request: &AccessRequest, old: &AccessRequestStatus, told: &Told<'_>, now: Timestamp) -> AccessRequestStatus {
    let generation = request.metadata.generation;
    let (reason, message) = match told {
        Told::Granted(_) | Told::Approved(Ok(())) => (AccessReason::Success, "Cluster is ready"),
        Told::Approved(Err(refused)) => (refused.reason, refused.message.as_str()),
        Told::Refused(refused) => (refused.reason, refused.message.as_str()),
    };
    let granted = reason.verdict() == Verdict::Granted;
    let mut said = vec![Said::new(ConditionType::Ready, granted, reason.as_str(), message)];
    let was_approved = ConditionType::Approved.is_true(&old.conditions);
    let (provided, access) = match told {
        Told::Granted(access) => (false, Some(access.clone())),
        Told::Approved(_) => {
            let provider = provider_asked(request).unwrap_or_default();
            let message = format!("ClusterProvider {provider:?} is to make the identity, its roles and the Secret");
            said.push(Said::new(ConditionType::Approved, true, ALLOWED, message));
            // What it said of an earlier approval is none of this one.
            (was_approved, old.access.clone().filter(|_| was_approved))
        }
        Told::Refused(refused) => {
            let asked = provider_asked(request).is_some();
            if asked || find_condition(&old.conditions, ConditionType::Approved).is_some() {
                said.push(Said::new(ConditionType::Approved, false, reason.as_str(), refused.message.as_str()));
            }
            // It says where the credentials are that the provider still has to take away.
            (asked, old.access.clone().filter(|_| asked && annotation(request, names::LIVE_IN).is_some()))
        }
    };
    let mut conditions: Vec<Condition> =
        said.iter().map(|said| said.written(&old.conditions, generation, now)).collect();
    conditions.extend(old.conditions.iter().filter(|condition| provided && is_providers(condition)).cloned());
    in_place(&mut conditions, &old.conditions);
    AccessRequestStatus {
        observed_generation: generation,
        last_reconcile_time: old.last_reconcile_time.clone(),
        status: Some(reason.verdict()),
        reason: reason.as_str().to_owned(),
        message: message.to_owned(),
        conditions,
        access,
    }
}

/// Those that were there stay where they were: where that is, the server decides, which merges what two apply.
fn in_place(conditions: &mut [Condition], old: &[Condition]) {
    conditions.sort_by_key(|condition| old.iter().position(|have| have.type_ == condition.type_).unwrap_or(usize::MAX));
}
