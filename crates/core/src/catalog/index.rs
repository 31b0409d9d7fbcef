//! All profiles and Shoots that are known, by what uses what: the children of a CloudProfile, the Shoots of either kind of
//! profile. A change costs what it changes; nothing is searched, nor counted anew. Those that cannot be read count as using all that they may.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use allotment_api::catalog::{
    CloudProfile, CloudProfileStatus, KeptProfile, KeptStatus, Shoot, ShootSpec, Stored, Unread,
};
use allotment_api::reasons::{CatalogReason, ConditionType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::parent::Parent;
use super::parts::{Part, used_parts};
use super::reference::{ProfileKind, Reference, used_profile};
use super::unread::{Unclear, UnreadProfile, profile_of, shown};
use super::usage::{used_images, used_kubernetes};
use super::versions::VersionKey;
use crate::requests::find_condition;
use crate::write::ObjectKey;

/// A CloudProfile, prepared for those who look at it again and again.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it offers.
    pub parent: Parent,
    /// What the platform says of it.
    pub status: CloudProfileStatus,
}

impl Offer {
    /// Prepares a profile; costs about as much as reading through it.
    pub fn new(profile: CloudProfile) -> Self {
        let name = profile.metadata.name.clone().unwrap_or_default();
        let parent = Parent::new(name, profile.spec);
        Offer { metadata: profile.metadata, parent, status: profile.status.unwrap_or_default() }
    }

    /// Whether its deletion has begun: nothing new may use it.
    pub fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether an annotation says `"true"`.
    pub fn says(&self, annotation: &str) -> bool {
        says(&self.metadata, annotation)
    }
}

/// Whether an annotation says `"true"`.
pub fn says(metadata: &ObjectMeta, annotation: &str) -> bool {
    metadata.annotations.as_ref().and_then(|all| all.get(annotation)).is_some_and(|value| value == "true")
}

/// A profile of either kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProfileKey {
    /// The CloudProfile of that name.
    Cloud(String),
    /// The PrivateCloudProfile of that key.
    Private(ObjectKey),
}

impl ProfileKey {
    /// What a Shoot of that namespace means by a reference.
    pub fn of(reference: &Reference, namespace: &str) -> Self {
        match reference.kind {
            ProfileKind::CloudProfile => ProfileKey::Cloud(reference.name.clone()),
            ProfileKind::PrivateCloudProfile => ProfileKey::Private(ObjectKey::new(namespace, reference.name.clone())),
        }
    }
}

impl fmt::Display for ProfileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileKey::Cloud(name) => write!(f, "CloudProfile {name}"),
            ProfileKey::Private(key) => write!(f, "PrivateCloudProfile {key}"),
        }
    }
}

/// A Shoot as profiles see it: which one it uses, and which versions of it.
#[derive(Clone, Debug)]
pub struct KeptShoot {
    /// Of its metadata what it is called, its UID and resource version, whether it goes and what holds it.
    pub metadata: ObjectMeta,
    /// The profile that it uses; nothing where it names none that can be.
    pub profile: Option<ProfileKey>,
    /// What is not known of it, where it cannot be read.
    pub unclear: Option<Unclear>,
    kubernetes: BTreeSet<String>,
    images: BTreeSet<(String, String)>,
    parts: BTreeSet<(Part, String)>,
}

impl KeptShoot {
    /// What there is to know of a Shoot.
    pub fn read(shoot: &Shoot) -> Self {
        let metadata = kept(&shoot.metadata);
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let profile = used_profile(&shoot.spec).map(|named| ProfileKey::of(&named, namespace));
        let (kubernetes, images) = versions_of(&shoot.spec);
        let parts = used_parts(&shoot.spec).map(|(part, name)| (part, name.to_owned())).collect();
        KeptShoot { metadata, profile, unclear: None, kubernetes, images, parts }
    }

    /// What there is to know of a Shoot that cannot be read.
    pub fn unread(shoot: &Unread) -> Self {
        let metadata = kept(&shoot.metadata);
        let profile = profile_of(&shoot.spec, metadata.namespace.as_deref().unwrap_or_default());
        let unclear = Some(Unclear { why: shoot.why.clone(), profile: profile.is_err() });
        let (kubernetes, images) = (BTreeSet::new(), BTreeSet::new());
        let profile = profile.unwrap_or_default();
        KeptShoot { metadata, profile, unclear, kubernetes, images, parts: BTreeSet::new() }
    }

    /// Whether it uses that profile, or may.
    pub fn may_use(&self, profile: &ProfileKey) -> bool {
        let is_of_namespace = || match profile {
            ProfileKey::Cloud(_) => true,
            ProfileKey::Private(key) => Some(&key.namespace) == self.metadata.namespace.as_ref(),
        };
        match &self.unclear {
            Some(Unclear { profile: true, .. }) => is_of_namespace(),
            _ => self.profile.as_ref() == Some(profile),
        }
    }

    /// Whether it keeps that version of that image where its private profile alone has it.
    pub fn keeps_image(&self, image: &str, version: &str) -> bool {
        self.is_live() && self.uses(&VersionKey::Image(image, version))
    }

    /// Its name, as texts tell it.
    pub fn shown(&self) -> String {
        shown(self.metadata.name.as_deref().unwrap_or_default(), self.unclear.is_some())
    }

    /// Whether it uses that version, or may.
    pub fn uses(&self, key: &VersionKey<'_>) -> bool {
        if self.unclear.is_some() {
            return true;
        }
        match key {
            VersionKey::Kubernetes(version) => self.kubernetes.contains(*version),
            VersionKey::Image(image, version) => {
                self.images.iter().any(|(name, used)| name == image && used == version)
            }
        }
    }

    /// Whether another state of it is the same to profiles.
    pub fn uses_the_same(&self, other: &Self) -> bool {
        (&self.profile, &self.unclear, &self.kubernetes, &self.images, self.is_live(), &self.metadata.uid)
            == (&other.profile, &other.unclear, &other.kubernetes, &other.images, other.is_live(), &other.metadata.uid)
    }

    /// The versions that it is known to use.
    pub fn versions(&self) -> impl Iterator<Item = VersionKey<'_>> {
        let kubernetes = self.kubernetes.iter().map(|version| VersionKey::Kubernetes(version));
        kubernetes.chain(self.images.iter().map(|(image, version)| VersionKey::Image(image, version)))
    }

    /// What else of its profile it is known to use.
    pub fn parts(&self) -> impl Iterator<Item = (Part, &str)> {
        self.parts.iter().map(|(part, name)| (*part, name.as_str()))
    }

    /// Whether its deletion has not begun. Of those that go nothing keeps a version.
    pub fn is_live(&self) -> bool {
        self.metadata.deletion_timestamp.is_none()
    }
}

impl From<Stored<Shoot>> for KeptShoot {
    fn from(shoot: Stored<Shoot>) -> Self {
        match shoot {
            Stored::Read(shoot) => KeptShoot::read(&shoot),
            Stored::Unread(shoot) => KeptShoot::unread(&shoot),
        }
    }
}

/// What is kept of a Shoot's metadata: what owners note on it is many times what a profile has to know.
fn kept(whole: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: whole.name.clone(),
        namespace: whole.namespace.clone(),
        uid: whole.uid.clone(),
        resource_version: whole.resource_version.clone(),
        deletion_timestamp: whole.deletion_timestamp.clone(),
        // One that goes is there until its last finalizer is off.
        finalizers: whole.finalizers.clone(),
        ..ObjectMeta::default()
    }
}

fn versions_of(spec: &ShootSpec) -> (BTreeSet<String>, BTreeSet<(String, String)>) {
    let kubernetes = used_kubernetes(spec).map(str::to_owned).collect();
    let images = used_images(spec).map(|(image, version)| (image.to_owned(), version.to_owned())).collect();
    (kubernetes, images)
}

/// A profile, or what is known of it in spite of its spec.
#[derive(Clone, Debug)]
enum Held<T> {
    Read(Arc<T>),
    Unread(Arc<UnreadProfile>),
}

impl<T> Held<T> {
    fn read(&self) -> Option<&Arc<T>> {
        match self {
            Held::Read(profile) => Some(profile),
            Held::Unread(_) => None,
        }
    }

    fn unread(&self) -> Option<&Arc<UnreadProfile>> {
        match self {
            Held::Read(_) => None,
            Held::Unread(profile) => Some(profile),
        }
    }
}

impl Held<KeptProfile> {
    /// The parent, if it is known.
    fn parent(&self) -> Option<&String> {
        match self {
            Held::Read(profile) => Some(&profile.spec.parent.name),
            Held::Unread(profile) => profile.parent.as_ref(),
        }
    }

    /// What it adds to its family; so many Shoots use it.
    fn counted(&self, shoots: usize) -> Family {
        let is_whole = self.read().is_some_and(|profile| !is_invalid(&profile.status));
        Family { invalid: usize::from(!is_whole), shoots }
    }
}

/// All that is known.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    profiles: BTreeMap<String, Held<Offer>>,
    private: BTreeMap<ObjectKey, Held<KeptProfile>>,
    shoots: BTreeMap<ObjectKey, Arc<KeptShoot>>,
    /// By the name of a CloudProfile, be it there or not.
    children: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Private profiles that cannot be read. Of these, and of such Shoots, there are few, and they are searched.
    unread_private: BTreeSet<ObjectKey>,
    /// By the profile that they use, be it there or not.
    users: BTreeMap<ProfileKey, BTreeSet<ObjectKey>>,
    /// Shoots that cannot be read.
    unread_shoots: BTreeSet<ObjectKey>,
    /// By the name of a CloudProfile, be it there or not: of those that have children.
    families: BTreeMap<String, Family>,
}

/// What is counted of the children of a CloudProfile.
#[derive(Clone, Copy, Debug, Default)]
struct Family {
    /// Those that are not rendered whole.
    invalid: usize,
    /// Shoots that use one of them.
    shoots: usize,
}

/// Who depends on a CloudProfile. Those that may, since they cannot be read, are counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    /// Its children.
    pub(super) children: usize,
    /// Those that are known as its children, and of which it is written that they cannot be rendered whole or not be shown, or
    /// that cannot be read.
    pub(super) invalid: usize,
    /// The Shoots that use it or one of its children.
    pub(super) shoots: usize,
    /// How many of both cannot be read.
    pub(super) unread: usize,
}

/// Whether what is written says that a private profile cannot be rendered whole, or not be shown.
fn is_invalid(status: &KeptStatus) -> bool {
    let rendered = find_condition(&status.conditions, ConditionType::Rendered);
    let reasons = [CatalogReason::Invalid, CatalogReason::TooLarge].map(CatalogReason::as_str);
    rendered.is_some_and(|said| reasons.contains(&said.reason.as_str()))
}

/// Moves `member` from one group to another; a group without members goes.
fn regroup<K: Ord>(groups: &mut BTreeMap<K, BTreeSet<ObjectKey>>, from: Option<&K>, to: Option<K>, member: &ObjectKey) {
    if from == to.as_ref() {
        return;
    }
    if let Some((from, members)) = from.and_then(|from| Some((from, groups.get_mut(from)?))) {
        members.remove(member);
        if members.is_empty() {
            groups.remove(from);
        }
    }
    if let Some(to) = to {
        groups.entry(to).or_default().insert(member.clone());
    }
}

impl Catalog {
    /// That CloudProfile is so from now on, or gone.
    pub fn set_profile(&mut self, name: &str, profile: Option<Arc<Offer>>) {
        match profile {
            Some(profile) => _ = self.profiles.insert(name.to_owned(), Held::Read(profile)),
            None => _ = self.profiles.remove(name),
        }
    }

    /// That CloudProfile cannot be read from now on.
    pub fn set_unread_profile(&mut self, name: &str, profile: Arc<UnreadProfile>) {
        self.profiles.insert(name.to_owned(), Held::Unread(profile));
    }

    /// That PrivateCloudProfile is so from now on, or gone.
    pub fn set_private(&mut self, key: &ObjectKey, profile: Option<Arc<KeptProfile>>) {
        self.hold_private(key, profile.map(Held::Read));
    }

    /// That PrivateCloudProfile cannot be read from now on.
    pub fn set_unread_private(&mut self, key: &ObjectKey, profile: Arc<UnreadProfile>) {
        self.hold_private(key, Some(Held::Unread(profile)));
    }

    fn hold_private(&mut self, key: &ObjectKey, profile: Option<Held<KeptProfile>>) {
        let shoots = self.users.get(&ProfileKey::Private(key.clone())).map_or(0, BTreeSet::len);
        let parent = profile.as_ref().and_then(Held::parent).cloned();
        if let (Some(profile), Some(parent)) = (&profile, &parent) {
            let (own, family) = (profile.counted(shoots), self.families.entry(parent.clone()).or_default());
            *family = Family { invalid: family.invalid + own.invalid, shoots: family.shoots + own.shoots };
        }
        if profile.as_ref().is_some_and(|profile| profile.unread().is_some()) {
            self.unread_private.insert(key.clone());
        } else {
            self.unread_private.remove(key);
        }
        let before = match profile {
            Some(profile) => self.private.insert(key.clone(), profile),
            None => self.private.remove(key),
        };
        regroup(&mut self.children, before.as_ref().and_then(Held::parent), parent, key);
        let Some((before, name)) = before.as_ref().and_then(|before| Some((before, before.parent()?))) else { return };
        let own = before.counted(shoots);
        if !self.children.contains_key(name) {
            self.families.remove(name);
        } else if let Some(family) = self.families.get_mut(name) {
            *family = Family { invalid: family.invalid - own.invalid, shoots: family.shoots - own.shoots };
        }
    }

    /// That Shoot is so from now on, or gone.
    pub fn set_shoot(&mut self, key: &ObjectKey, shoot: Option<Arc<KeptShoot>>) {
        let uses = shoot.as_ref().and_then(|shoot| shoot.profile.clone());
        if shoot.as_ref().is_some_and(|shoot| shoot.unclear.is_some()) {
            self.unread_shoots.insert(key.clone());
        } else {
            self.unread_shoots.remove(key);
        }
        let before = match shoot {
            Some(shoot) => self.shoots.insert(key.clone(), shoot),
            None => self.shoots.remove(key),
        };
        let used = before.as_ref().and_then(|before| before.profile.as_ref());
        // First the one that is added, so that no count is ever less than nothing.
        if let Some(family) = uses.as_ref().and_then(|uses| self.family_of(uses)) {
            family.shoots += 1;
        }
        if let Some(family) = used.and_then(|used| self.family_of(used)) {
            family.shoots -= 1;
        }
        regroup(&mut self.users, used, uses, key);
    }

    /// The family that a profile is known as a child of.
    fn family_of(&mut self, profile: &ProfileKey) -> Option<&mut Family> {
        let ProfileKey::Private(key) = profile else { return None };
        self.families.get_mut(self.private.get(key)?.parent()?)
    }

    /// The CloudProfile of that name, if it can be read.
    pub fn profile(&self, name: &str) -> Option<&Arc<Offer>> {
        self.profiles.get(name)?.read()
    }

    /// The PrivateCloudProfile of that key, if it can be read.
    pub fn private(&self, key: &ObjectKey) -> Option<&Arc<KeptProfile>> {
        self.private.get(key)?.read()
    }

    /// A profile that is there and cannot be read.
    pub fn unread(&self, profile: &ProfileKey) -> Option<&Arc<UnreadProfile>> {
        match profile {
            ProfileKey::Cloud(name) => self.profiles.get(name)?.unread(),
            ProfileKey::Private(key) => self.private.get(key)?.unread(),
        }
    }

    /// The Shoot of that key.
    pub fn shoot(&self, key: &ObjectKey) -> Option<&Arc<KeptShoot>> {
        self.shoots.get(key)
    }

    /// The names of all CloudProfiles.
    pub fn profile_names(&self) -> impl Iterator<Item = &String> {
        self.profiles.keys()
    }

    /// All profiles that a Shoot of that namespace could name.
    pub fn open_to(&self, namespace: &str) -> Vec<ProfileKey> {
        let own = self.private.keys().filter(|key| key.namespace == namespace).cloned().map(ProfileKey::Private);
        self.profiles.keys().cloned().map(ProfileKey::Cloud).chain(own).collect()
    }

    /// The private profiles of which not even the parent is known.
    fn lost_children(&self) -> impl Iterator<Item = &ObjectKey> {
        let is_lost = |key: &&ObjectKey| self.private.get(key).is_some_and(|profile| profile.parent().is_none());
        self.unread_private.iter().filter(is_lost)
    }

    /// The Shoots of which not even the profile is known.
    fn lost_shoots(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<KeptShoot>)> {
        let is_lost = |shoot: &KeptShoot| shoot.unclear.as_ref().is_some_and(|unclear| unclear.profile);
        self.unread_shoots().filter(move |(_, shoot)| is_lost(shoot))
    }

    fn unread_shoots(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<KeptShoot>)> {
        self.unread_shoots.iter().filter_map(|key| Some((key, self.shoots.get(key)?)))
    }

    /// The PrivateCloudProfiles on the CloudProfile of that name that can be read, in the order of their keys.
    pub fn children(&self, parent: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<KeptProfile>)> {
        let keys = self.children.get(parent).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.private(key)?)))
    }

    /// The PrivateCloudProfiles that cannot be read and are on the CloudProfile of that name, or may be.
    pub fn unread_children(&self, parent: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<UnreadProfile>)> {
        let all = self.unread_private.iter().filter_map(|key| Some((key, self.private.get(key)?.unread()?)));
        all.filter(move |(_, profile)| profile.parent.as_deref().is_none_or(|own| own == parent))
    }

    /// The Shoots that use exactly that profile, in the order of their keys; behind them those of which it is not known.
    pub fn shoots_on(&self, profile: &ProfileKey) -> impl Iterator<Item = (&ObjectKey, &Arc<KeptShoot>)> {
        let users = self.users.get(profile).into_iter().flatten();
        let known = users.filter_map(|key| Some((key, self.shoots.get(key)?)));
        let lost: Vec<_> = self.lost_shoots().filter(|(_, shoot)| shoot.may_use(profile)).collect();
        known.chain(lost)
    }

    /// The Shoots that use a CloudProfile or one of its children, or may.
    pub fn shoots_of_family(&self, parent: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<KeptShoot>)> {
        let of_child = |key: &ObjectKey| ProfileKey::Private(key.clone());
        let children = self.children.get(parent).into_iter().flatten().chain(self.lost_children()).map(of_child);
        let family = std::iter::once(ProfileKey::Cloud(parent.to_owned())).chain(children);
        let users = family.flat_map(|profile| self.users.get(&profile).into_iter().flatten());
        users.filter_map(|key| Some((key, self.shoots.get(key)?))).chain(self.lost_shoots())
    }

    /// The private profiles that Shoots use and that are not known.
    pub fn used_and_unknown(&self) -> BTreeSet<ObjectKey> {
        let private = self.users.keys().filter_map(|profile| match profile {
            ProfileKey::Private(key) => Some(key),
            ProfileKey::Cloud(_) => None,
        });
        private.filter(|key| !self.private.contains_key(key)).cloned().collect()
    }

    /// How many depend on a CloudProfile; at no cost for each of them but those that cannot be read.
    pub(super) fn uses_of(&self, parent: &str) -> Uses {
        let on = |profile: ProfileKey| self.users.get(&profile).map_or(0, BTreeSet::len);
        let Family { invalid, shoots } = self.families.get(parent).copied().unwrap_or_default();
        let of_lost: usize = self.lost_children().map(|key| on(ProfileKey::Private(key.clone()))).sum();
        let own = on(ProfileKey::Cloud(parent.to_owned()));
        let unread_shoots = self.unread_shoots().filter(|(_, shoot)| self.may_be_of_family(shoot, parent)).count();
        Uses {
            children: self.children.get(parent).map_or(0, BTreeSet::len) + self.lost_children().count(),
            invalid,
            shoots: own + shoots + of_lost + self.lost_shoots().count(),
            unread: self.unread_children(parent).count() + unread_shoots,
        }
    }

    /// Whether a Shoot that cannot be read uses a CloudProfile or one of its children, or may.
    fn may_be_of_family(&self, shoot: &KeptShoot, parent: &str) -> bool {
        if shoot.may_use(&ProfileKey::Cloud(parent.to_owned())) {
            return true;
        }
        let Some(ProfileKey::Private(key)) = &shoot.profile else { return false };
        self.private.get(key).is_some_and(|profile| profile.parent().is_none_or(|own| own == parent))
    }
}

#[cfg(test)]
mod tests;
