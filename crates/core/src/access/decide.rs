//! The next thing to do for an AccessRequest.
//!
//! Before anything is made inside a Cluster, the AccessRequest notes where (`live-in`); the note goes
//! after the last of it. So whatever crashes, what lies inside is found again, and a Cluster or a
//! ClusterRequest knows whom to wait for.

use std::collections::BTreeMap;

use allotment_api::names;
use allotment_api::reasons::{AccessReason, Verdict};
use allotment_api::requests::{AccessInfo, AccessRequest, AccessType, OidcIssuer, SecretRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::inside::{Changes, Subject};
use super::judge::{Allowed, Refused, Unseen, annotation, judge, ttl_end};
use super::means::{Means, OidcUser, provider_asked};
use super::plan::{
    AccessObserved, AccessPlan, Inside, InsideState, Left, LeftBehind, PrefixSeen, SecretFacts, TargetCluster,
};
use super::status::{self, Told};
use super::{delegated, inside};
use crate::providers::one_line;
use crate::requests::{
    Snapshot, annotate, configured_metadata, has_finalizer, is_forced, remove_finalizer, whole_seconds,
};
use crate::write::{Kind, ObjectKey, Write};

/// A token is renewed after this part, in percent, of the lifetime that it came with.
const RENEW_AT_PERCENT: i64 = 80;
/// How much of why there is no admin access is told, in bytes.
const MOST_WHY: usize = 300;
/// When to look again for a namespace that somebody has to make: no event tells of it.
const NAMESPACE_AGAIN_SECS: i64 = 10;
/// When to look again whether names with a tenant's prefix are gone: no event tells of it, and a look lists all that is
/// not in a namespace.
const PREFIX_AGAIN_SECS: i64 = 60;
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
        return revoke(snapshot, observed, None).unwrap_or_else(|| let_go(request));
    }
    let allowed = match judge(snapshot, request, observed.now) {
        Ok(allowed) => allowed,
        Err(refused) => return refuse(snapshot, observed, &refused),
    };
    if let Some(plan) = move_away(snapshot, observed, &allowed) {
        return plan;
    }
    match &allowed.means {
        Means::Token => by_platform(observed, &allowed, uid, Some(Subject::Own)),
        Means::Oidc(user) => by_platform(observed, &allowed, uid, Some(Subject::User(user))),
        Means::OidcAsItIs => by_platform(observed, &allowed, uid, None),
        Means::Provider(provider) => delegated::fulfil(snapshot, observed, &allowed, provider),
    }
}

/// Takes away what lives in another Cluster, or was made by other means, before anything else is made.
fn move_away(snapshot: &Snapshot, observed: &AccessObserved<'_>, allowed: &Allowed) -> Option<AccessPlan> {
    let request = observed.request;
    let lives_in = annotation(request, names::LIVE_IN);
    let asked = provider_asked(request);
    let elsewhere = lives_in.is_some_and(|lives_in| lives_in != allowed.target.uid);
    let otherwise = match &allowed.means {
        Means::Provider(provider) => asked.map_or(lives_in.is_some(), |asked| asked != provider),
        Means::Token | Means::Oidc(_) | Means::OidcAsItIs => asked.is_some(),
    };
    if !elsewhere && !otherwise {
        return None;
    }
    let message = format!("what was made before is taken away before access to Cluster {} begins", allowed.target.key);
    let moving = Refused::new(AccessReason::NotProvided, message);
    let plan = revoke(snapshot, observed, Some(&moving));
    // A provider that still holds what it made, and was waited for long enough: nobody else's is made beside it.
    plan.or_else(|| otherwise.then(|| tell(observed, &Told::Refused(&moving), None)))
}

/// The platform makes what is asked for. Without a subject it is the issuer's user who has it already: nobody tells any
/// more who the issuer is.
fn by_platform(
    observed: &AccessObserved<'_>,
    allowed: &Allowed,
    uid: &str,
    subject: Option<Subject<'_>>,
) -> AccessPlan {
    let request = observed.request;
    if let Some(again) = nothing_new(observed, allowed, subject) {
        return AccessPlan::Done { again };
    }
    match observed.inside {
        Inside::NotRead | Inside::Gone => {
            AccessPlan::Observe { cluster: allowed.target.clone(), namespaces: inside::namespaces(request) }
        }
        Inside::Unreachable(_) | Inside::Unguarded(..) if is_granted(request) => AccessPlan::Done { again: None },
        Inside::Unreachable(why) => {
            let message = no_admin_access(request, allowed, why);
            tell(observed, &Told::Refused(&Refused::new(AccessReason::NoAdminAccess, message)), None)
        }
        Inside::Unguarded(reason, why) => {
            let message = format!("Cluster {} is shared, and {}", allowed.target.key, one_line(why, MOST_WHY));
            tell(observed, &Told::Refused(&Refused::new(reason, message)), None)
        }
        Inside::Read(state) => match subject {
            Some(subject) => grant(observed, allowed, uid, subject, state),
            None => match standing_user(observed, allowed, state) {
                Some(user) => grant(observed, allowed, uid, Subject::User(&user), state),
                None => unknown_user(observed, allowed),
            },
        },
    }
}

/// What is said while nobody gets in. Where nothing new is known, such as while a server is still waited for, what was said
/// before goes on to be said: it would change with each look.
fn no_admin_access(request: &AccessRequest, allowed: &Allowed, why: Option<&str>) -> String {
    let message = format!("there is no admin access to Cluster {} at the moment", allowed.target.key);
    let said = request.status.as_ref().filter(|status| status.reason == AccessReason::NoAdminAccess.as_str());
    match (why, said) {
        (Some(why), _) => format!("{message}: {}", one_line(why, MOST_WHY)),
        (None, Some(said)) if said.message.starts_with(&message) => said.message.clone(),
        (None, _) => message,
    }
}

/// The issuer's user who has the access already, by what lies in the Cluster and in the Secret.
fn standing_user(observed: &AccessObserved<'_>, allowed: &Allowed, state: &InsideState) -> Option<OidcUser> {
    let secret = observed.secret.filter(|secret| secret.owned && secret.cluster_uid == allowed.target.uid)?;
    let (issuer, client_id) = secret.issuer.clone().filter(|_| secret.holds == Some(AccessType::Oidc))?;
    // Without permissions nobody is named, and nobody has to be.
    let nobody = || observed.request.spec.permissions.is_empty().then(String::new);
    let name = inside::sole_user(state).or_else(nobody)?;
    Some(OidcUser {
        name,
        issuer: OidcIssuer { issuer, client_id, extra_scopes: secret.extra_scopes.clone(), ..OidcIssuer::default() },
    })
}

/// Nobody tells who the user is that is to have it: what there is, of the other type or of before, goes.
fn unknown_user(observed: &AccessObserved<'_>, allowed: &Allowed) -> AccessPlan {
    let message = format!(
        "the profile of Cluster {} is not published at the moment, so its issuer is not known",
        allowed.target.key
    );
    let refused = Refused::new(AccessReason::NoAdminAccess, message);
    revoke_own(observed, Some(refused.reason)).unwrap_or_else(|| tell(observed, &Told::Refused(&refused), None))
}

/// The Cluster is reachable: bring it to what is asked for, then the Secret, then the status.
fn grant(
    observed: &AccessObserved<'_>,
    allowed: &Allowed,
    uid: &str,
    subject: Subject<'_>,
    state: &InsideState,
) -> AccessPlan {
    let request = observed.request;
    if let Some(plan) = see_prefix(observed, allowed, state) {
        return plan;
    }
    if let Some(namespace) = inside::missing_namespace(request, allowed, state) {
        let message = format!("namespace {namespace:?} does not exist in Cluster {}", allowed.target.key);
        let refused = Refused::new(AccessReason::NamespaceNotFound, message);
        let again = observed.now.saturating_add(SignedDuration::from_secs(NAMESPACE_AGAIN_SECS)).ok();
        return revoke_own(observed, Some(refused.reason))
            .unwrap_or_else(|| tell(observed, &Told::Refused(&refused), again));
    }
    if let Some(write) = record(request, allowed, observed.now) {
        return AccessPlan::Record(write);
    }
    let Changes { takes, gives } = inside::changes(request, uid, subject, state);
    if !takes.is_empty() || !gives.is_empty() {
        return AccessPlan::Change { cluster: allowed.target.clone(), takes, gives };
    }
    let own = observed.secret.filter(|secret| secret.owned);
    if let Some(secret) = own.filter(|secret| secret.holds.is_some_and(|type_| type_ != wanted(Some(subject)))) {
        // Renewed, it would keep what the other type consists of.
        let namespace = request.metadata.namespace.clone().unwrap_or_default();
        return AccessPlan::DeleteSecret { key: ObjectKey::new(namespace, &secret.name), uid: secret.uid.clone() };
    }
    let current =
        own.filter(|secret| is_current(secret, &allowed.target, Some(subject), observed.now, ttl_end(request)));
    // The address and the certificate authority of a Cluster may change at any time, and nobody tells.
    let good = current.filter(|secret| secret.endpoint == state.endpoint).filter(|secret| match subject {
        Subject::Own => inside::identity(uid, state) == Some(secret.service_account_uid.as_str()),
        Subject::User(_) => true,
    });
    let name = || own.map_or_else(|| secret_name(request, uid), |secret| secret.name.clone());
    match (good, subject) {
        (Some(secret), _) => {
            let again = next_look(secret, ttl_end(request))
                .map_or(look_inside(observed.now), |at| at.min(look_inside(observed.now)));
            tell(observed, &Told::Granted(access_info(request, secret, &allowed.target)), Some(again))
        }
        (None, Subject::Own) => AccessPlan::Mint {
            cluster: allowed.target.clone(),
            service_account: inside::service_account(uid),
            lifetime_secs: lifetime(observed),
            secret: name(),
        },
        (None, Subject::User(user)) => {
            AccessPlan::Describe { cluster: allowed.target.clone(), issuer: user.issuer.clone(), secret: name() }
        }
    }
}

/// Before the first access by a prefix: that nothing in the Cluster bears it that is not the tenant's, which would come under
/// the tenant's rights, and whose own accounts would be kept to the prefix.
fn see_prefix(observed: &AccessObserved<'_>, allowed: &Allowed, state: &InsideState) -> Option<AccessPlan> {
    let Unseen { prefix, tenant, note } = allowed.unseen.as_ref()?;
    if is_granted(observed.request) && annotation(observed.request, names::LIVE_IN) == Some(&allowed.target.uid) {
        // What bears it by now is the tenant's, whoever lost the note of it; such as a platform that was restored.
        return Some(AccessPlan::Record(note.clone()));
    }
    let kind = match &state.prefix {
        PrefixSeen::NotLooked => {
            let (cluster, prefix, tenant) = (allowed.target.clone(), prefix.clone(), tenant.clone());
            return Some(AccessPlan::LookForNames { cluster, prefix, tenant });
        }
        PrefixSeen::Free => return Some(AccessPlan::Record(note.clone())),
        PrefixSeen::Borne(kind) => kind,
    };
    // No name: whoever asks for a prefix would be told what others have there.
    let message = format!(
        "in Cluster {} there is an object of kind {kind} that is not the tenant's and begins with its prefix {prefix:?}: \
         delete the ClusterRequest and ask with another prefix, or have who operates the Cluster remove that object or, if it \
         is the tenant's, label it {}={tenant}; an Event of the Cluster names it",
        allowed.target.key,
        names::TENANT,
    );
    let refused = Refused::new(AccessReason::PrefixTaken, message);
    let again = observed.now.saturating_add(SignedDuration::from_secs(PREFIX_AGAIN_SECS)).ok();
    let gone = revoke_own(observed, Some(refused.reason));
    Some(gone.unwrap_or_else(|| tell(observed, &Told::Refused(&refused), again)))
}

/// The type that those are given.
fn wanted(subject: Option<Subject<'_>>) -> AccessType {
    match subject {
        Some(Subject::Own) => AccessType::Token,
        Some(Subject::User(_)) | None => AccessType::Oidc,
    }
}

/// Whether everything is as it was granted, and if so, when to look again. The status says Granted for
/// a generation only once the Cluster acknowledged every change; that nobody changed the inside since is
/// known from a look of this process.
fn nothing_new(
    observed: &AccessObserved<'_>,
    allowed: &Allowed,
    subject: Option<Subject<'_>>,
) -> Option<Option<Timestamp>> {
    let request = observed.request;
    let status = request.status.as_ref()?;
    let secret = observed.secret?;
    let granted = is_granted(request) && observes_current(request);
    let here = annotation(request, names::LIVE_IN) == Some(allowed.target.uid.as_str());
    let end = ttl_end(request);
    let same_access = status.access.as_ref() == Some(&access_info(request, secret, &allowed.target));
    let looked = observed.looked.filter(|looked| looked.generation == request.metadata.generation)?;
    let look = look_inside(looked.at);
    let current = is_current(secret, &allowed.target, subject, observed.now, end);
    (granted && here && same_access && current && observed.now < look)
        .then(|| Some(next_look(secret, end).map_or(look, |at| at.min(look))))
}

fn observes_current(request: &AccessRequest) -> bool {
    request.status.as_ref().is_some_and(|status| status.observed_generation == request.metadata.generation)
}

fn look_inside(last: Timestamp) -> Timestamp {
    last.saturating_add(SignedDuration::from_secs(LOOK_INSIDE_SECS)).unwrap_or(Timestamp::MAX)
}

pub(super) fn is_granted(request: &AccessRequest) -> bool {
    request.status.as_ref().is_some_and(|status| status.status == Some(Verdict::Granted))
}

/// When the token is renewed: at 80 % of the lifetime that it came with.
fn renew_after(secret: &SecretFacts) -> Timestamp {
    let lifetime = secret.expires_at.as_second().saturating_sub(secret.issued_at.as_second());
    let part = SignedDuration::from_secs(lifetime.saturating_mul(RENEW_AT_PERCENT) / 100);
    secret.issued_at.saturating_add(part).unwrap_or(secret.expires_at)
}

fn is_current(
    secret: &SecretFacts,
    target: &TargetCluster,
    subject: Option<Subject<'_>>,
    now: Timestamp,
    end: Option<Timestamp>,
) -> bool {
    if !secret.owned || secret.cluster_uid != target.uid || secret.holds != Some(wanted(subject)) {
        return false;
    }
    match subject {
        // A token that lasts until the access ends for good is not renewed.
        Some(Subject::Own) => end.is_some_and(|end| end <= secret.expires_at) || now < renew_after(secret),
        None => true,
        Some(Subject::User(user)) => {
            let (issuer, client) = (&user.issuer.issuer, &user.issuer.client_id);
            let same = secret.issuer.as_ref().is_some_and(|named| (&named.0, &named.1) == (issuer, client));
            same && secret.extra_scopes == user.issuer.extra_scopes
        }
    }
}

/// When the Secret has to be looked at again.
fn next_look(secret: &SecretFacts, end: Option<Timestamp>) -> Option<Timestamp> {
    match end {
        _ if secret.holds == Some(AccessType::Oidc) => end,
        Some(end) if end <= secret.expires_at => Some(end),
        _ => Some(renew_after(secret)),
    }
}

fn lifetime(observed: &AccessObserved<'_>) -> i64 {
    let left = ttl_end(observed.request).map(|end| end.as_second() - observed.now.as_second());
    left.map_or(observed.token_lifetime_secs, |left| left.min(observed.token_lifetime_secs)).max(1)
}

/// Name of the Secret that answers an AccessRequest, unless somebody else's has it.
pub(super) fn secret_name(request: &AccessRequest, uid: &str) -> String {
    match request.metadata.name.as_deref() {
        Some(name) if name.len() <= MOST_NAME_BYTES => format!("{name}-kubeconfig"),
        _ => other_secret_name(uid),
    }
}

/// Its name where the first one is taken: nobody else knows the UID before the request is there.
pub fn other_secret_name(uid: &str) -> String {
    format!("access-{uid}")
}

/// Where the access lives, or may live.
pub(super) fn live_in(request: &AccessRequest) -> Option<TargetCluster> {
    annotation(request, names::LIVE_IN).map(|uid| TargetCluster {
        key: annotation(request, names::LIVE_IN_NAME).and_then(ObjectKey::parse).unwrap_or_default(),
        uid: uid.to_owned(),
    })
}

/// Notes where the access is about to live, who is to make it and, at first, since when; `None` where that is noted.
pub(super) fn record(request: &AccessRequest, allowed: &Allowed, now: Timestamp) -> Option<Write> {
    let target = &allowed.target;
    let name = target.key.to_string();
    let asked = match &allowed.means {
        Means::Provider(provider) => Some(provider.as_str()),
        Means::Token | Means::Oidc(_) | Means::OidcAsItIs => None,
    };
    let noted = annotation(request, names::LIVE_IN) == Some(target.uid.as_str())
        && annotation(request, names::LIVE_IN_NAME) == Some(name.as_str())
        && annotation(request, names::GRANTED_AT).is_some()
        && provider_asked(request) == asked;
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
    let labels: Vec<_> = asked.map(|provider| (names::ACCESS_BY, provider.to_owned())).into_iter().collect();
    let finalizer = Some(names::ACCESS_FINALIZER);
    Some(configured_metadata(Kind::AccessRequest, &request.metadata, &labels, &notes, finalizer))
}

/// Not granted, or not any more: what there is goes first, then the status says so. A provider has to be told before.
fn refuse(snapshot: &Snapshot, observed: &AccessObserved<'_>, refused: &Refused) -> AccessPlan {
    revoke(snapshot, observed, Some(refused)).unwrap_or_else(|| tell(observed, &Told::Refused(refused), None))
}

/// The next step of taking access away, by whoever made it. `None` once nothing is left.
fn revoke(snapshot: &Snapshot, observed: &AccessObserved<'_>, refused: Option<&Refused>) -> Option<AccessPlan> {
    match provider_asked(observed.request) {
        Some(provider) => delegated::revoke(snapshot, observed, provider, refused),
        None => revoke_own(observed, refused.map(|refused| refused.reason)),
    }
}

/// The next step of taking away what the platform made: identity, Secret, the note of where it lived.
fn revoke_own(observed: &AccessObserved<'_>, reason: Option<AccessReason>) -> Option<AccessPlan> {
    let request = observed.request;
    let lives_in = live_in(request);
    let forgotten = || annotate(Kind::AccessRequest, &request.metadata, &noted(&request.metadata, reason));
    let unreachable = match (&lives_in, observed.inside) {
        (Some(_), _) if is_forced(&request.metadata) => true,
        (Some(cluster), Inside::NotRead) => {
            return Some(AccessPlan::Observe { cluster: cluster.clone(), namespaces: inside::namespaces(request) });
        }
        (Some(cluster), Inside::Read(state)) if !state.objects.is_empty() => {
            let takes = inside::removal(state);
            return Some(AccessPlan::Change { cluster: cluster.clone(), takes, gives: Vec::new() });
        }
        (Some(_), Inside::Unreachable(_)) => true,
        // Nothing was given there yet that would have to be taken; it is read anew first.
        (Some(cluster), Inside::Unguarded(..)) => {
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
        let access = request.status.as_ref().and_then(|status| status.access.as_ref());
        let not_after = access.and_then(|access| access.not_after.clone());
        let uid = request.metadata.uid.as_deref().unwrap_or_default();
        let what = match access.map(|access| access.type_) {
            Some(AccessType::Oidc) => Left::Bindings(inside::object_name(uid)),
            Some(AccessType::Token) | None => Left::ServiceAccount(inside::service_account(uid)),
        };
        let left = LeftBehind { cluster, what, not_after: not_after.map(|time| time.0) };
        return Some(AccessPlan::LeaveBehind { left, write: forgotten() });
    }
    Some(AccessPlan::Forget(forgotten()))
}

/// The notes once nothing lives anywhere any more. That the access ran out is noted, for this generation.
pub(super) fn noted(metadata: &ObjectMeta, reason: Option<AccessReason>) -> BTreeMap<&'static str, Option<String>> {
    let ended = [names::LIVE_IN, names::LIVE_IN_NAME, names::GRANTED_AT, names::ACCESS_SECRET];
    let mut notes: BTreeMap<&str, Option<String>> = ended.into_iter().map(|name| (name, None)).collect();
    if reason == Some(AccessReason::Expired) {
        notes.insert(names::EXPIRED, metadata.generation.map(|generation| generation.to_string()));
    }
    notes
}

fn let_go(request: &AccessRequest) -> AccessPlan {
    match remove_finalizer(Kind::AccessRequest, &request.metadata, names::ACCESS_FINALIZER) {
        Some(write) => AccessPlan::RemoveFinalizer(write),
        None => AccessPlan::Done { again: None },
    }
}

fn access_info(request: &AccessRequest, secret: &SecretFacts, target: &TargetCluster) -> AccessInfo {
    let end = ttl_end(request);
    let (type_, not_after, renew_after) = match secret.holds {
        Some(AccessType::Oidc) => (AccessType::Oidc, end, None),
        Some(AccessType::Token) | None => {
            let not_after = end.map_or(secret.expires_at, |end| end.min(secret.expires_at));
            (AccessType::Token, Some(not_after), Some(renew_after(secret)))
        }
    };
    let stored = |time| Time(whole_seconds(time));
    AccessInfo {
        type_,
        secret_ref: SecretRef { name: secret.name.clone() },
        cluster_uid: target.uid.clone(),
        not_after: not_after.map(stored),
        renew_after: renew_after.map(stored),
    }
}

/// Says it in the status, or, where that says so already, when to decide again.
fn tell(observed: &AccessObserved<'_>, told: &Told<'_>, again: Option<Timestamp>) -> AccessPlan {
    match status::write(observed.request, told, observed.now) {
        Some(write) => AccessPlan::WriteStatus(write),
        None => AccessPlan::Done { again },
    }
}
