//! Access that the provider of the Cluster makes (`accessBy: Provider`): what the platform says, and what it makes of
//! the provider's answer.
//!
//! # Flow
//! The platform notes where the access lives, labels the AccessRequest with the ClusterProvider, and makes
//! an empty Secret, lets the provider at that one alone, and says `Approved=True` for a generation. The provider puts its
//! finalizer on the AccessRequest, makes identity and roles, fills the Secret, and says `Provided=True` for that
//! generation and what there is in `status.access`. On `Approved=False`, and when the AccessRequest is deleted, it takes
//! identity and roles away and then its finalizer; the Secret is the platform's to delete.
//!
//! # Guarantees
//! The provider's word is believed only for the generation that is approved now, of the type that was asked for, on the
//! Cluster that was decided, and with a Secret that is the AccessRequest's own. Whatever it says, nothing is granted that
//! is not approved. A provider that does not answer holds nobody up: after its time what may be left is listed.

use std::collections::BTreeMap;

use allotment_api::names::{self, access_secret};
use allotment_api::reasons::{AccessReason, ConditionType};
use allotment_api::requests::{AccessRequest, AccessType};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decide::{live_in, noted, record, secret_name};
use super::judge::{Allowed, Refused, annotation, ttl_end};
use super::plan::{AccessObserved, AccessPlan, Left, LeftBehind, SecretFacts};
use super::status::{self, Told};
use crate::requests::{Snapshot, annotate, has_finalizer, is_forced};
use crate::write::{Body, Kind, ObjectKey, Write, preconditions};

/// How long a provider that is ready may take to take something away.
const PATIENCE_SECS: i64 = 60;
/// How long one may that is not, which still may come back.
const SHORT_PATIENCE_SECS: i64 = 10;
/// What is said of an AccessRequest while its provider takes away what it made.
const BEING_DELETED: &str = "the AccessRequest is being deleted; the provider takes away what it made for it";
/// Longest message of a provider that is passed on.
const MOST_MESSAGE_CHARS: usize = 1024;
/// Why a provider may say that it gave nothing, in the words that the platform has for it. Others are `NotProvided`.
const PROVIDERS_REASONS: [AccessReason; 3] =
    [AccessReason::NamespaceNotFound, AccessReason::AccessTypeNotSupported, AccessReason::NoAdminAccess];

/// Allowed: the provider is to fulfil it.
pub(crate) fn fulfil(
    snapshot: &Snapshot,
    observed: &AccessObserved<'_>,
    allowed: &Allowed,
    provider: &str,
) -> AccessPlan {
    let request = observed.request;
    if let Some(write) = record(request, allowed, observed.now) {
        return AccessPlan::Record(write);
    }
    let made = observed.secret.filter(|secret| secret.owned && secret.opaque);
    let Some(secret) = made else {
        let uid = request.metadata.uid.as_deref().unwrap_or_default();
        return AccessPlan::MakeSecret { cluster: allowed.target.clone(), secret: secret_name(request, uid) };
    };
    let rights = || secret_rights(request, provider, &secret.name);
    if annotation(request, names::ACCESS_SECRET) != Some(secret.name.as_str()) {
        let note = BTreeMap::from([(names::ACCESS_SECRET, Some(secret.name.clone()))]);
        return AccessPlan::Approve {
            rights: rights(),
            write: annotate(Kind::AccessRequest, &request.metadata, &note),
        };
    }
    let outcome = answer(snapshot, observed, allowed, provider, secret);
    if let Some(unseen) = allowed.unseen.as_ref().filter(|_| outcome.is_ok()) {
        // Nobody looks for names where the provider lets tenants in. From now on what bears the prefix is the tenant's, also for
        // whoever makes its access one day.
        return AccessPlan::Record(unseen.note.clone());
    }
    let ends = request.status.as_ref().and_then(|status| status.access.as_ref()?.not_after.as_ref()).map(|end| end.0);
    let ends = ends.filter(|end| outcome.is_ok() && observed.now < *end);
    let approved = status::condition(request, ConditionType::Approved).is_some_and(|said| said.status == "True");
    match status::write(request, &Told::Approved(outcome), observed.now) {
        Some(write) if approved => AccessPlan::WriteStatus(write),
        Some(write) => AccessPlan::Approve { rights: rights(), write },
        None => AccessPlan::Done { again: ttl_end(request).into_iter().chain(ends).min() },
    }
}

/// What lets a provider fill the Secret of that name beside an AccessRequest, and touch no other: a Role and its
/// RoleBinding. Nothing in it is without that name, so no Secret is created by it: one of another type would be filled
/// with the token of whatever ServiceAccount it names.
pub fn secret_rights(request: &AccessRequest, provider: &str, secret: &str) -> Vec<Value> {
    let metadata = &request.metadata;
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let name = format!("access-{uid}");
    let owned = json!({
        "name": name, "namespace": metadata.namespace,
        "ownerReferences": [{ "apiVersion": names::API_VERSION, "kind": Kind::AccessRequest.as_str(),
            "name": metadata.name, "uid": uid, "controller": true }],
    });
    let rbac = "rbac.authorization.k8s.io";
    vec![
        json!({ "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": owned, "rules": [
            { "apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret],
                "verbs": ["get", "update", "patch"] },
        ] }),
        json!({ "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": owned,
            "roleRef": { "apiGroup": rbac, "kind": "Role", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": names::provider_object(provider),
                "namespace": names::SYSTEM_NAMESPACE }] }),
    ]
}

/// What the provider gave, checked against what was approved.
fn answer(
    snapshot: &Snapshot,
    observed: &AccessObserved<'_>,
    allowed: &Allowed,
    provider: &str,
    secret: &SecretFacts,
) -> Result<(), Refused> {
    let request = observed.request;
    let refused = |message: String| Err(Refused::new(AccessReason::NotProvided, message));
    let provided = status::condition(request, ConditionType::Provided).filter(|_| status::is_approved(request));
    let Some(provided) = provided else { return refused(waiting(snapshot, provider)) };
    if provided.observed_generation != request.metadata.generation {
        let generation = provided.observed_generation.unwrap_or_default();
        return refused(format!("{}; its last answer is to generation {generation}", waiting(snapshot, provider)));
    }
    if provided.status != "True" {
        let said: String = provided.message.chars().take(MOST_MESSAGE_CHARS).collect();
        let reason = AccessReason::from_text(&provided.reason).filter(|reason| PROVIDERS_REASONS.contains(reason));
        let message = format!("ClusterProvider {provider:?}: {}: {said}", provided.reason);
        return Err(Refused::new(reason.unwrap_or(AccessReason::NotProvided), message));
    }
    match flaw(observed, allowed, secret) {
        Some(flaw) => refused(format!("ClusterProvider {provider:?} says that it provided the access, but {flaw}")),
        None => Ok(()),
    }
}

/// What is wrong with what the provider says that it gave.
fn flaw(observed: &AccessObserved<'_>, allowed: &Allowed, secret: &SecretFacts) -> Option<String> {
    let request = observed.request;
    let Some(access) = request.status.as_ref().and_then(|status| status.access.as_ref()) else {
        return Some("status.access is absent".to_owned());
    };
    let wanted = request.spec.type_.unwrap_or_default();
    if access.type_ != wanted {
        let (is, asked) = (access.type_.as_str(), wanted.as_str());
        return Some(format!("status.access.type is {is}, and {asked} was asked for"));
    }
    if access.cluster_uid != allowed.target.uid {
        return Some(format!("status.access.clusterUID is not that of Cluster {}", allowed.target.key));
    }
    let end = access.not_after.as_ref().map(|end| end.0);
    match (end, ttl_end(request)) {
        (None, _) if wanted == AccessType::Token => return Some("status.access.notAfter is absent".to_owned()),
        (Some(end), _) if end <= observed.now => return Some(format!("status.access.notAfter, {end}, is over")),
        (Some(end), Some(ttl)) if ttl < end => {
            return Some(format!("status.access.notAfter, {end}, is after the end of spec.ttl, {ttl}"));
        }
        _ => {}
    }
    let (told, made) = (&access.secret_ref.name, &secret.name);
    if told != made {
        return Some(format!("status.access.secretRef names {told:?}, and Secret {made:?} was made for it"));
    }
    if secret.holds != Some(wanted) {
        return Some(format!("Secret {made:?} is not what access of type {} consists of", wanted.as_str()));
    }
    // Who uses it runs what it says, with files and rights that the provider does not have.
    secret
        .fault
        .as_ref()
        .map(|fault| format!("key {} of Secret {made:?} cannot be trusted: {fault}", access_secret::KUBECONFIG))
}

/// What the answer waits for.
fn waiting(snapshot: &Snapshot, provider: &str) -> String {
    let status = snapshot.providers.get(provider).map(|found| found.status.clone().unwrap_or_default());
    match status {
        None => format!("there is no ClusterProvider {provider:?}, which would make the identity"),
        Some(status) if !status.ready => {
            let (reason, message) = (&status.reason, &status.message);
            format!("ClusterProvider {provider:?}, which makes the identity, is not ready: {reason}: {message}")
        }
        Some(_) => format!("waits for ClusterProvider {provider:?}, which makes the identity"),
    }
}

/// The next step of having the provider take access away. `None` once there is nothing left to wait for. `refused` is
/// absent while the AccessRequest is being deleted, which the provider sees by itself.
pub(crate) fn revoke(
    snapshot: &Snapshot,
    observed: &AccessObserved<'_>,
    provider: &str,
    refused: Option<&Refused>,
) -> Option<AccessPlan> {
    let (request, now) = (observed.request, observed.now);
    let said = |refused| status::write(request, &Told::Refused(refused), now).map(AccessPlan::WriteStatus);
    if let Some(plan) = refused.and_then(said) {
        return Some(plan);
    }
    let deleting = request.metadata.deletion_timestamp.is_some();
    let held = has_finalizer(&request.metadata, &names::provider_access_finalizer(provider));
    let lives_in = live_in(request);
    let gone = lives_in.as_ref().is_some_and(|home| {
        let there = snapshot.cluster(&home.key);
        there.is_none_or(|cluster| cluster.metadata.uid.as_deref() != Some(home.uid.as_str()))
    });
    let says_provided = status::condition(request, ConditionType::Provided).is_some_and(|said| said.status == "True");
    // It holds its finalizer from before it makes anything until nothing is left.
    let done = gone || (!held && (deleting || !says_provided));
    if lives_in.is_some() && !done && !is_forced(&request.metadata) {
        let going = Refused::new(AccessReason::NotProvided, BEING_DELETED);
        if let Some(plan) = Some(&going).filter(|_| deleting).and_then(said) {
            return Some(plan);
        }
        let until = time_until(snapshot, observed, provider);
        if now < until {
            return Some(AccessPlan::Done { again: Some(until) });
        }
    }
    if let Some(secret) = observed.secret.filter(|secret| secret.owned) {
        let namespace = request.metadata.namespace.clone().unwrap_or_default();
        return Some(AccessPlan::DeleteSecret {
            key: ObjectKey::new(namespace, secret.name.clone()),
            uid: secret.uid.clone(),
        });
    }
    let write = || forget(observed, provider, refused.map(|refused| refused.reason));
    match lives_in {
        Some(cluster) if !done => {
            let not_after = request.status.as_ref().and_then(|status| status.access.as_ref()?.not_after.clone());
            let what = Left::OfProvider(provider.to_owned());
            let left = LeftBehind { cluster, what, not_after: not_after.map(|time| time.0) };
            Some(AccessPlan::LeaveBehind { left, write: write() })
        }
        Some(_) => Some(AccessPlan::Forget(write())),
        // Listed before as left behind; the label stays for as long as the provider has to find it.
        None => (!held || deleting).then(|| AccessPlan::Forget(write())),
    }
}

/// Until when the provider has time to take away what it made.
fn time_until(snapshot: &Snapshot, observed: &AccessObserved<'_>, provider: &str) -> Timestamp {
    let request = observed.request;
    let deleted = request.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let refused = || status::condition(request, ConditionType::Approved).map(|said| said.last_transition_time.0);
    let since = deleted.or_else(refused).unwrap_or(observed.now);
    let status = snapshot.providers.get(provider).and_then(|provider| provider.status.as_ref());
    let patience = if status.is_some_and(|status| status.ready) { PATIENCE_SECS } else { SHORT_PATIENCE_SECS };
    since.saturating_add(SignedDuration::from_secs(patience)).unwrap_or(Timestamp::MAX)
}

/// Removes the notes of where the access lived; the label too, unless the provider still holds the AccessRequest
/// and comes back to it, and the provider's finalizer where the AccessRequest is to go.
fn forget(observed: &AccessObserved<'_>, provider: &str, reason: Option<AccessReason>) -> Write {
    let metadata = &observed.request.metadata;
    let finalizer = names::provider_access_finalizer(provider);
    let held = has_finalizer(metadata, &finalizer);
    let deleting = metadata.deletion_timestamp.is_some();
    let mut patched = preconditions(metadata);
    let notes: BTreeMap<&str, Value> =
        noted(metadata, reason).into_iter().map(|(name, text)| (name, json!(text))).collect();
    patched.insert("annotations".to_owned(), json!(notes));
    if !held || deleting {
        patched.insert("labels".to_owned(), json!({ names::ACCESS_BY: null }));
    }
    if held && deleting {
        let rest = metadata.finalizers.iter().flatten().filter(|have| **have != finalizer).map(String::as_str);
        patched.insert("finalizers".to_owned(), Value::from_iter(rest));
    }
    Write::Patch {
        kind: Kind::AccessRequest,
        key: ObjectKey::of(metadata),
        patch: Body::of(&json!({ "metadata": patched })),
    }
}
