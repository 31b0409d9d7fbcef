//! What is to be done next about a profile: its finalizer, the versions that expired, its status, its end. One write at a
//! time, each upon what was observed; deciding again after it comes to the next one, and in the end to none.

use std::collections::BTreeSet;

use allotment_api::catalog::{
    API_VERSION, CloudProfileSpec, CloudProfileStatus, FINALIZER, KeptProfile, KeptStatus, Kubernetes, MachineImage,
    PrivateCloudProfileStatus, REMOVE_EXPIRED_VERSIONS, REMOVED_VERSIONS, RemovedVersion, Shared,
};
use allotment_api::reasons::{CatalogReason, ConditionType, EventReason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::expiry::{Expiry, expire_cloud_profile, expire_private_profile, removed_within};
use super::index::{Catalog, KeptShoot, Offer, ProfileKey, Uses};
use super::listed::listed;
use super::status::{
    CloudView, ParentView, PrivateView, cloud_status, kept, private_status, recorded, unread_private_status,
};
use super::unread::UnreadProfile;
use super::usage::last_meant;
use super::versions::{VersionKey, dated};
use super::within::bastion_version;
use crate::requests::find_condition;
use crate::write::ObjectKey;

/// A merge patch of a profile that fails where somebody wrote since it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileWrite {
    /// Which profile.
    pub profile: ProfileKey,
    /// The patch, JSON.
    pub patch: String,
}

/// A status that takes the place of the one that is there, and fails where somebody wrote since it was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    /// Which profile.
    pub profile: ProfileKey,
    /// What is sent to `/status`.
    pub body: StatusBody,
    /// The status as it is kept once it is written; of CloudProfiles the conditions say it all.
    pub kept: KeptStatus,
}

/// How a status is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusBody {
    /// An object with the whole of it, JSON, to be put.
    Whole(String),
    /// A merge patch, JSON, of all but `cloudProfile`: that is a hundred times the rest, and is what it should be already.
    AllButRendered(String),
}

/// What to tell of a profile, as an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its reason.
    pub reason: EventReason,
    /// Its text.
    pub message: String,
}

/// What to do about a profile.
#[derive(Clone, Debug, PartialEq)]
pub enum ProfilePlan {
    /// Nothing, before that time.
    Done {
        /// When its next version expires, if one does.
        again: Option<Timestamp>,
    },
    /// It is from before finalizers were put on with the creation.
    AddFinalizer(ProfileWrite),
    /// It is to go, and nobody is known who uses it: once the API itself says so, the finalizer goes.
    Release(ProfileWrite),
    /// Versions expired, and nobody is known whom that would harm: once the API itself says so, they go.
    TakeOut {
        /// The write that takes them out, and notes them.
        write: ProfileWrite,
        /// What to tell of it.
        told: String,
    },
    /// Its status is not what it should be.
    WriteStatus {
        /// The write.
        write: Box<StatusWrite>,
        /// What to tell of what begins with it.
        told: Vec<Told>,
        /// When its next version expires, if one does.
        again: Option<Timestamp>,
    },
}

impl ProfilePlan {
    /// Whether it is to do what another plan, which was carried out, was to do already.
    pub fn repeats(&self, carried_out: &Self) -> bool {
        match (self, carried_out) {
            (ProfilePlan::AddFinalizer(_), ProfilePlan::AddFinalizer(_)) => true,
            (ProfilePlan::TakeOut { told: again, .. }, ProfilePlan::TakeOut { told, .. }) => again == told,
            // Whether it is done hangs on what the API says of users; the next look goes by that.
            (ProfilePlan::Release(_), _) => false,
            (ProfilePlan::WriteStatus { write: again, .. }, ProfilePlan::WriteStatus { write, .. }) => {
                again.kept == write.kept
            }
            (
                ProfilePlan::Done { .. }
                | ProfilePlan::AddFinalizer(_)
                | ProfilePlan::TakeOut { .. }
                | ProfilePlan::WriteStatus { .. },
                _,
            ) => false,
        }
    }
}

/// Decides about a profile. One that is not there needs nothing.
pub fn decide_profile(catalog: &Catalog, profile: &ProfileKey, now: Timestamp) -> ProfilePlan {
    let plan = match profile {
        ProfileKey::Cloud(name) => decide_cloud(catalog, name, now),
        ProfileKey::Private(key) => decide_private(catalog, key, now),
    };
    plan.unwrap_or(ProfilePlan::Done { again: None })
}

fn decide_private(catalog: &Catalog, key: &ObjectKey, now: Timestamp) -> Option<ProfilePlan> {
    let id = ProfileKey::Private(key.clone());
    let shoots: Vec<&KeptShoot> = catalog.shoots_on(&id).map(|(_, shoot)| shoot.as_ref()).collect();
    if let Some(profile) = catalog.unread(&id) {
        return Some(decide_unread_private(profile, id, &shoots, now));
    }
    let profile = catalog.private(key)?;
    let named = ProfileKey::Cloud(profile.spec.parent.name.clone());
    let view = PrivateView {
        metadata: &profile.metadata,
        generation: profile.metadata.generation,
        spec: &profile.spec,
        conditions: &profile.status.conditions,
        parent: catalog.profile(&profile.spec.parent.name).map(|offer| ParentView::from(offer.as_ref())),
        is_parent_unread: catalog.unread(&named).is_some(),
        shoots: &shoots,
        now,
    };
    if let Some(plan) = finalizer(&id, &profile.metadata, shoots.is_empty()) {
        return Some(plan);
    }
    // Which date holds hangs on the parent: without it nothing expires.
    let parent = view.parent.filter(|_| view.names_a_cloud_profile());
    let users = |image: &str, version: &str| view.image_users(image, version);
    let expiry = parent.map(|parent| expire_private_profile(view.spec, parent.parent, users, now));
    if let Some((expiry, spec)) = expiry.as_ref().and_then(|expiry| Some((expiry, expiry.spec.as_ref()?))) {
        let removed = removed_within(room(&profile.metadata), &recorded(&profile.metadata), &expiry.removed);
        let versions = left_over(spec.kubernetes.as_ref(), &spec.machine_images);
        let mut patch = json!({"metadata": identity(&profile.metadata), "spec": versions});
        patch["metadata"]["annotations"] = json!({REMOVED_VERSIONS: json!(removed).to_string()});
        let told = format!("expired versions are taken out: {}", paths(&expiry.removed));
        return Some(ProfilePlan::TakeOut { write: ProfileWrite { profile: id, patch: patch.to_string() }, told });
    }
    let again = expiry.and_then(|expiry| expiry.next);
    Some(match private_status_write(&view, id, profile) {
        Some(write) => ProfilePlan::WriteStatus { told: begins(view.conditions, &write), write, again },
        None => ProfilePlan::Done { again },
    })
}

fn private_status_write(view: &PrivateView<'_>, profile: ProfileKey, was: &KeptProfile) -> Option<Box<StatusWrite>> {
    let status = private_status(view);
    let rendered = status.cloud_profile.as_ref().and_then(|rendered| serde_json::to_string(rendered).ok());
    let kept = kept(&status, rendered.as_deref());
    if kept == was.status {
        return None;
    }
    let rest = PrivateCloudProfileStatus { cloud_profile: None, ..status };
    let is_rendered = kept.cloud_profile.is_some() && kept.cloud_profile == was.status.cloud_profile;
    let body = match is_rendered {
        true => StatusBody::AllButRendered(all_but_rendered(&was.metadata, &rest)),
        false => StatusBody::Whole(whole(&was.metadata, &rest, rendered.as_deref())),
    };
    Some(Box::new(StatusWrite { profile, body, kept }))
}

/// Of what cannot be read only that is decided which its metadata say.
fn decide_unread_private(
    profile: &UnreadProfile,
    id: ProfileKey,
    shoots: &[&KeptShoot],
    now: Timestamp,
) -> ProfilePlan {
    if let Some(plan) = finalizer(&id, &profile.metadata, shoots.is_empty()) {
        return plan;
    }
    let status = unread_private_status(profile, shoots, now);
    let kept = kept(&status, None);
    if kept == profile.status {
        return ProfilePlan::Done { again: None };
    }
    let body = StatusBody::Whole(whole(&profile.metadata, &status, None));
    let write = Box::new(StatusWrite { profile: id, body, kept });
    ProfilePlan::WriteStatus { told: begins(&profile.status.conditions, &write), write, again: None }
}

/// The status of a CloudProfile, be it readable or not.
fn decide_cloud_status(
    catalog: &Catalog,
    name: &str,
    metadata: &ObjectMeta,
    was: &CloudProfileStatus,
    why_unread: Option<&str>,
    again: Option<Timestamp>,
    now: Timestamp,
) -> ProfilePlan {
    let Uses { children, invalid, shoots, unread } = catalog.uses_of(name);
    let status = cloud_status(&CloudView {
        metadata,
        generation: metadata.generation,
        conditions: &was.conditions,
        children,
        invalid,
        shoots,
        unread,
        why_unread,
        now,
    });
    if status == *was {
        return ProfilePlan::Done { again };
    }
    let kept = KeptStatus {
        observed_generation: status.observed_generation,
        conditions: status.conditions.clone(),
        ..KeptStatus::default()
    };
    let profile = ProfileKey::Cloud(name.to_owned());
    let write = Box::new(StatusWrite { profile, body: StatusBody::Whole(whole(metadata, &status, None)), kept });
    ProfilePlan::WriteStatus { told: begins(&was.conditions, &write), write, again }
}

fn decide_cloud(catalog: &Catalog, name: &str, now: Timestamp) -> Option<ProfilePlan> {
    let id = ProfileKey::Cloud(name.to_owned());
    let Uses { children, shoots, .. } = catalog.uses_of(name);
    if let Some(profile) = catalog.unread(&id) {
        let free = finalizer(&id, &profile.metadata, children + shoots == 0);
        let was = CloudProfileStatus {
            observed_generation: profile.status.observed_generation,
            conditions: profile.status.conditions.clone(),
        };
        let why = Some(profile.why.as_str());
        return Some(
            free.unwrap_or_else(|| decide_cloud_status(catalog, name, &profile.metadata, &was, why, None, now)),
        );
    }
    let offer = catalog.profile(name)?;
    if let Some(plan) = finalizer(&id, &offer.metadata, children + shoots == 0) {
        return Some(plan);
    }
    let expiry = offer.says(REMOVE_EXPIRED_VERSIONS).then(|| expire_cloud(catalog, offer, now));
    if let Some((expiry, spec)) = expiry.as_ref().and_then(|expiry| Some((expiry, expiry.spec.as_ref()?))) {
        let versions = left_over(spec.kubernetes.as_ref(), &spec.machine_images);
        let patch = json!({"metadata": identity(&offer.metadata), "spec": versions}).to_string();
        let mut told = format!("expired versions are taken out: {}", paths(&expiry.removed));
        if spec.provider_config.is_some() {
            told.push_str("; spec.providerConfig is left as it is: take them out there");
        }
        return Some(ProfilePlan::TakeOut { write: ProfileWrite { profile: id, patch }, told });
    }
    let again = expiry.and_then(|expiry| expiry.next);
    Some(decide_cloud_status(catalog, name, &offer.metadata, &offer.status, None, again, now))
}

/// How many bytes the annotations of an object leave for what was removed: without room for that, nothing could be.
fn room(metadata: &ObjectMeta) -> usize {
    /// Of all annotations of an object (`ValidateAnnotationsSize` of k8s.io/apimachinery), keys and values.
    const MOST_BYTES: usize = 256 * 1024;
    let others = metadata.annotations.iter().flatten().filter(|(key, _)| *key != REMOVED_VERSIONS);
    let taken: usize = others.map(|(key, value)| key.len() + value.len()).sum();
    MOST_BYTES.saturating_sub(taken + REMOVED_VERSIONS.len())
}

/// What of a CloudProfile's versions has expired. One that a private profile still names stays: that takes it out by
/// itself, and would be wrong without it until then.
fn expire_cloud(catalog: &Catalog, offer: &Offer, now: Timestamp) -> Expiry<CloudProfileSpec> {
    let name = offer.parent.name();
    let specs = || catalog.children(name).map(|(_, child)| &child.spec);
    let named = specs().flat_map(|spec| dated(spec.kubernetes.as_ref(), &spec.machine_images)).map(|(key, _)| key);
    let live = catalog.shoots_of_family(name).filter(|(_, shoot)| shoot.is_live());
    // Of one that cannot be read it is not known what it uses.
    let is_unclear = catalog.uses_of(name).unread > 0;
    let mut used: BTreeSet<VersionKey<'_>> = named.chain(live.flat_map(|(_, shoot)| shoot.versions())).collect();
    // Without it the profile would be refused by whoever looks at it next.
    used.extend(bastion_version(offer.parent.spec()));
    used.extend(last_meant(offer.parent.spec(), &used, now));
    expire_cloud_profile(&offer.parent, specs(), |key| is_unclear || used.contains(key), now)
}

fn finalizer(profile: &ProfileKey, metadata: &ObjectMeta, is_free: bool) -> Option<ProfilePlan> {
    let is_going = metadata.deletion_timestamp.is_some();
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    let has_ours = finalizers.iter().any(|one| one == FINALIZER);
    match (is_going, has_ours) {
        (false, false) => finalizers.push(FINALIZER.to_owned()),
        (true, true) if is_free => finalizers.retain(|one| one != FINALIZER),
        // It waits for what somebody else put on.
        (true, false) => return Some(ProfilePlan::Done { again: None }),
        (false, true) | (true, true) => return None,
    }
    let mut patch = json!({"metadata": identity(metadata)});
    patch["metadata"]["finalizers"] = json!(finalizers);
    let write = ProfileWrite { profile: profile.clone(), patch: patch.to_string() };
    Some(if is_going { ProfilePlan::Release(write) } else { ProfilePlan::AddFinalizer(write) })
}

/// Which object in which state a write is upon.
fn identity(metadata: &ObjectMeta) -> Value {
    json!({"name": metadata.name, "uid": metadata.uid, "resourceVersion": metadata.resource_version})
}

/// The versions that are left, as a merge patch says it: what it does not name stays as it is, so lists that are left
/// empty have to be named.
fn left_over(kubernetes: Option<&Shared<Kubernetes>>, images: &[Shared<MachineImage>]) -> Value {
    let mut kubernetes = json!(kubernetes);
    if let Some(members) = kubernetes.as_object_mut() {
        members.entry("versions").or_insert(Value::Null);
    }
    json!({"kubernetes": kubernetes, "machineImages": if images.is_empty() { Value::Null } else { json!(images) }})
}

fn paths(removed: &[RemovedVersion]) -> String {
    /// Most that are told; an event takes a kilobyte.
    const MOST_PATHS: usize = 8;
    listed(removed.iter().map(|one| format!("{} ({})", one.path, one.expired_at)), MOST_PATHS)
}

/// What to tell of what a status says first: that a deletion waits, that the profile cannot be read, that it is wrong under
/// what its parent became, or how many are.
fn begins(before: &[Condition], write: &StatusWrite) -> Vec<Told> {
    let waits = newly(before, write, ConditionType::InUse, CatalogReason::DeletionBlocked);
    let waits = waits.map(|said| Told {
        reason: EventReason::DeletionBlocked,
        message: format!("its deletion waits: {}", said.message),
    });
    let says = match &write.profile {
        ProfileKey::Cloud(_) => ConditionType::ChildrenValid,
        ProfileKey::Private(_) => ConditionType::Rendered,
    };
    let unread = newly(before, write, says, CatalogReason::Unreadable);
    let unread = unread.map(|said| Told { reason: EventReason::Unreadable, message: said.message.clone() });
    let invalid = match &write.profile {
        ProfileKey::Private(_) => newly(before, write, says, CatalogReason::Invalid)
            .map(|said| format!("some of it is wrong under what its CloudProfile is now: {}", said.message)),
        // They become so one after another.
        ProfileKey::Cloud(_) => find_condition(&write.kept.conditions, says)
            .filter(|said| invalid_told(Some(said)) > invalid_told(find_condition(before, says)))
            .map(|said| said.message.clone()),
    };
    let invalid = invalid.map(|message| Told { reason: EventReason::Invalid, message });
    waits.into_iter().chain(unread).chain(invalid).collect()
}

/// How many private profiles a condition says are invalid; its text begins with that.
fn invalid_told(said: Option<&Condition>) -> usize {
    let said = said.filter(|said| said.reason == CatalogReason::Invalid.as_str());
    said.and_then(|said| said.message.split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// A condition that a status gives that reason, where it had another one before.
fn newly<'a>(
    before: &[Condition],
    write: &'a StatusWrite,
    kind: ConditionType,
    reason: CatalogReason,
) -> Option<&'a Condition> {
    fn said(all: &[Condition], kind: ConditionType, reason: CatalogReason) -> Option<&Condition> {
        find_condition(all, kind).filter(|said| said.reason == reason.as_str())
    }
    let now = said(&write.kept.conditions, kind, reason)?;
    said(before, kind, reason).is_none().then_some(now)
}

/// A merge patch that leaves this status, and what is rendered as it is.
fn all_but_rendered(metadata: &ObjectMeta, status: &PrivateCloudProfileStatus) -> String {
    let mut members = json!(status);
    if let Some(members) = members.as_object_mut() {
        // What a patch does not name stays: what is empty now has to be named.
        for member in ["observedGeneration", "conflicts", "removed", "expiredInUse", "conditions"] {
            members.entry(member).or_insert(Value::Null);
        }
    }
    json!({"metadata": identity(metadata), "status": members}).to_string()
}

/// An object of a profile's identity and this status; what it is rendered to is text already, and copied once.
fn whole(metadata: &ObjectMeta, status: &impl Serialize, rendered: Option<&str>) -> String {
    let status = serde_json::to_string(status).unwrap_or_default();
    let kind = if metadata.namespace.is_some() { "PrivateCloudProfile" } else { "CloudProfile" };
    let mut identity = identity(metadata);
    if let Some(namespace) = &metadata.namespace {
        identity["namespace"] = json!(namespace);
    }
    let head =
        format!("{{\"apiVersion\":{},\"kind\":\"{kind}\",\"metadata\":{identity},\"status\":", json!(API_VERSION));
    match rendered {
        None => format!("{head}{status}}}"),
        Some(rendered) => {
            let rest = status.strip_prefix('{').unwrap_or_default();
            let comma = if rest == "}" { "" } else { "," };
            format!("{head}{{\"cloudProfile\":{rendered}{comma}{rest}}}")
        }
    }
}

#[cfg(test)]
mod tests;
