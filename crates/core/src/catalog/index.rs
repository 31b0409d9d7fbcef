//! All profiles and Shoots that are known, by what uses what: the children of a CloudProfile, the Shoots of either kind of
//! profile. A change costs what it changes; nothing is searched, nor counted anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use allotment_api::catalog::{CloudProfile, CloudProfileStatus, KeptProfile, KeptStatus, Shoot, ShootSpec};
use allotment_api::reasons::{CatalogReason, ConditionType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::parent::Parent;
use super::reference::{ProfileKind, Reference, used_profile};
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    kubernetes: BTreeSet<String>,
    images: BTreeSet<(String, String)>,
}

impl KeptShoot {
    /// What there is to know of a Shoot.
    pub fn read(shoot: &Shoot) -> Self {
        let whole = &shoot.metadata;
        // What owners note on their Shoots is many times what a profile has to know of them.
        let metadata = ObjectMeta {
            name: whole.name.clone(),
            namespace: whole.namespace.clone(),
            uid: whole.uid.clone(),
            resource_version: whole.resource_version.clone(),
            deletion_timestamp: whole.deletion_timestamp.clone(),
            // One that goes is there until its last finalizer is off.
            finalizers: whole.finalizers.clone(),
            ..ObjectMeta::default()
        };
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let profile = used_profile(&shoot.spec).map(|named| ProfileKey::of(&named, namespace));
        let (kubernetes, images) = versions_of(&shoot.spec);
        KeptShoot { metadata, profile, kubernetes, images }
    }

    /// Whether it uses that version.
    pub fn uses(&self, key: &VersionKey<'_>) -> bool {
        match key {
            VersionKey::Kubernetes(version) => self.kubernetes.contains(*version),
            VersionKey::Image(image, version) => {
                self.images.iter().any(|(name, used)| name == image && used == version)
            }
        }
    }

    /// Whether another state of it is the same to profiles.
    pub fn uses_the_same(&self, other: &Self) -> bool {
        (&self.profile, &self.kubernetes, &self.images, self.is_live(), &self.metadata.uid)
            == (&other.profile, &other.kubernetes, &other.images, other.is_live(), &other.metadata.uid)
    }

    /// The versions that it uses.
    pub fn versions(&self) -> impl Iterator<Item = VersionKey<'_>> {
        let kubernetes = self.kubernetes.iter().map(|version| VersionKey::Kubernetes(version));
        kubernetes.chain(self.images.iter().map(|(image, version)| VersionKey::Image(image, version)))
    }

    /// Whether its deletion has not begun. Of those that go nothing keeps a version.
    pub fn is_live(&self) -> bool {
        self.metadata.deletion_timestamp.is_none()
    }
}

fn versions_of(spec: &ShootSpec) -> (BTreeSet<String>, BTreeSet<(String, String)>) {
    let kubernetes = used_kubernetes(spec).map(str::to_owned).collect();
    let images = used_images(spec).map(|(image, version)| (image.to_owned(), version.to_owned())).collect();
    (kubernetes, images)
}

/// All that is known.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    profiles: BTreeMap<String, Arc<Offer>>,
    private: BTreeMap<ObjectKey, Arc<KeptProfile>>,
    shoots: BTreeMap<ObjectKey, Arc<KeptShoot>>,
    /// By the name of a CloudProfile, be it there or not.
    children: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// By the profile that they use, be it there or not.
    users: BTreeMap<ProfileKey, BTreeSet<ObjectKey>>,
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

/// Who depends on a CloudProfile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Its children.
    pub children: usize,
    /// Those of them of which it is written that they cannot be rendered whole, or not be shown.
    pub invalid: usize,
    /// The Shoots that use it or one of its children.
    pub shoots: usize,
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
            Some(profile) => _ = self.profiles.insert(name.to_owned(), profile),
            None => _ = self.profiles.remove(name),
        }
    }

    /// That PrivateCloudProfile is so from now on, or gone.
    pub fn set_private(&mut self, key: &ObjectKey, profile: Option<Arc<KeptProfile>>) {
        let shoots = self.users.get(&ProfileKey::Private(key.clone())).map_or(0, BTreeSet::len);
        let counted = |profile: &KeptProfile| Family { invalid: usize::from(is_invalid(&profile.status)), shoots };
        let parent = profile.as_ref().map(|profile| profile.spec.parent.name.clone());
        if let Some(profile) = &profile {
            let (own, family) = (counted(profile), self.families.entry(profile.spec.parent.name.clone()).or_default());
            *family = Family { invalid: family.invalid + own.invalid, shoots: family.shoots + own.shoots };
        }
        let before = match profile {
            Some(profile) => self.private.insert(key.clone(), profile),
            None => self.private.remove(key),
        };
        regroup(&mut self.children, before.as_ref().map(|before| &before.spec.parent.name), parent, key);
        let Some(before) = before else { return };
        let (own, name) = (counted(&before), &before.spec.parent.name);
        if !self.children.contains_key(name) {
            self.families.remove(name);
        } else if let Some(family) = self.families.get_mut(name) {
            *family = Family { invalid: family.invalid - own.invalid, shoots: family.shoots - own.shoots };
        }
    }

    /// That Shoot is so from now on, or gone.
    pub fn set_shoot(&mut self, key: &ObjectKey, shoot: Option<Arc<KeptShoot>>) {
        let uses = shoot.as_ref().and_then(|shoot| shoot.profile.clone());
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

    /// The family that a profile is a child of.
    fn family_of(&mut self, profile: &ProfileKey) -> Option<&mut Family> {
        let ProfileKey::Private(key) = profile else { return None };
        self.families.get_mut(&self.private.get(key)?.spec.parent.name)
    }

    /// The CloudProfile of that name.
    pub fn profile(&self, name: &str) -> Option<&Arc<Offer>> {
        self.profiles.get(name)
    }

    /// The PrivateCloudProfile of that key.
    pub fn private(&self, key: &ObjectKey) -> Option<&Arc<KeptProfile>> {
        self.private.get(key)
    }

    /// The Shoot of that key.
    pub fn shoot(&self, key: &ObjectKey) -> Option<&Arc<KeptShoot>> {
        self.shoots.get(key)
    }

    /// The PrivateCloudProfiles on the CloudProfile of that name, in the order of their keys.
    pub fn children(&self, parent: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<KeptProfile>)> {
        let keys = self.children.get(parent).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.private.get(key)?)))
    }

    /// The Shoots that use exactly that profile, in the order of their keys.
    pub fn shoots_on(&self, profile: &ProfileKey) -> impl Iterator<Item = (&ObjectKey, &Arc<KeptShoot>)> {
        let keys = self.users.get(profile).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.shoots.get(key)?)))
    }

    /// The Shoots that use a CloudProfile or one of its children.
    pub fn shoots_of_family(&self, parent: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<KeptShoot>)> {
        let of_child = |(key, _): (&ObjectKey, &Arc<KeptProfile>)| ProfileKey::Private(key.clone());
        let family = std::iter::once(ProfileKey::Cloud(parent.to_owned())).chain(self.children(parent).map(of_child));
        family.flat_map(|profile| self.users.get(&profile).into_iter().flatten()).filter_map(|key| {
            let shoot = self.shoots.get(key)?;
            Some((key, shoot))
        })
    }

    /// How many depend on a CloudProfile; at no cost for each of them.
    pub fn uses_of(&self, parent: &str) -> Uses {
        let children = self.children.get(parent).map_or(0, BTreeSet::len);
        let own = self.users.get(&ProfileKey::Cloud(parent.to_owned())).map_or(0, BTreeSet::len);
        let Family { invalid, shoots } = self.families.get(parent).copied().unwrap_or_default();
        Uses { children, invalid, shoots: own + shoots }
    }

    /// The live Shoots of a private profile's namespace that use that version of that image through it.
    pub fn image_users(&self, private: &ObjectKey, image: &str, version: &str) -> Vec<String> {
        let key = VersionKey::Image(image, version);
        let profile = ProfileKey::Private(private.clone());
        self.shoots_on(&profile)
            .filter(|(_, shoot)| shoot.is_live() && shoot.uses(&key))
            .map(|(key, _)| key.name.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use allotment_api::catalog::{CloudProfileReference, ParentRef, PrivateCloudProfileSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use k8s_openapi::jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn private(parent: &str, reason: Option<CatalogReason>) -> Arc<KeptProfile> {
        let spec = PrivateCloudProfileSpec { parent: ParentRef::named(parent), ..PrivateCloudProfileSpec::default() };
        let rendered = reason.map(|reason| Condition {
            type_: ConditionType::Rendered.as_str().to_owned(),
            status: "False".to_owned(),
            reason: reason.as_str().to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        });
        let status = KeptStatus { conditions: rendered.into_iter().collect(), ..KeptStatus::default() };
        Arc::new(KeptProfile { spec, status, ..KeptProfile::default() })
    }

    fn shoot(key: &ObjectKey, kind: &str, name: &str) -> Arc<KeptShoot> {
        let cloud_profile = Some(CloudProfileReference { kind: Some(kind.to_owned()), name: name.to_owned() });
        let mut shoot = Shoot::new(&key.name, ShootSpec { cloud_profile, ..ShootSpec::default() });
        shoot.metadata.namespace = Some(key.namespace.clone());
        Arc::new(KeptShoot::read(&shoot))
    }

    /// What becomes of one of few objects.
    #[derive(Clone, Debug)]
    enum Change {
        Private(u8, Option<(u8, Option<CatalogReason>)>),
        Shoot(u8, Option<(bool, u8)>),
    }

    fn reason() -> impl Strategy<Value = CatalogReason> {
        use CatalogReason::{Invalid, ParentNotFound, TooLarge};
        prop::sample::select(vec![Invalid, TooLarge, ParentNotFound])
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (0..4_u8, prop::option::of((0..3_u8, prop::option::of(reason()))))
                .prop_map(|(key, parent)| Change::Private(key, parent)),
            (0..6_u8, prop::option::of((any::<bool>(), 0..4_u8))).prop_map(|(key, uses)| Change::Shoot(key, uses)),
        ]
    }

    /// Two namespaces, with the same names in both.
    fn key(number: u8) -> ObjectKey {
        ObjectKey::new(format!("n{}", number % 2), format!("o{}", number / 2))
    }

    proptest! {
        #[test]
        fn the_index_says_what_a_search_would_find(changes in prop::collection::vec(change(), 0..40)) {
            let mut catalog = Catalog::default();
            let (mut parents, mut uses) = (BTreeMap::new(), BTreeMap::new());
            for change in changes {
                match change {
                    Change::Private(number, parent) => {
                        let parent = parent.map(|(parent, reason)| (format!("p{parent}"), reason));
                        catalog.set_private(&key(number), parent.as_ref().map(|(name, reason)| private(name, *reason)));
                        match parent {
                            Some(parent) => _ = parents.insert(key(number), parent),
                            None => _ = parents.remove(&key(number)),
                        }
                    }
                    Change::Shoot(number, profile) => {
                        let at = key(number);
                        let named = profile.map(|(own, of)| match own {
                            true => ("PrivateCloudProfile", format!("o{}", of / 2), ProfileKey::Private(ObjectKey::new(at.namespace.clone(), format!("o{}", of / 2)))),
                            false => ("CloudProfile", format!("p{of}"), ProfileKey::Cloud(format!("p{of}"))),
                        });
                        catalog.set_shoot(&at, named.as_ref().map(|(kind, name, _)| shoot(&at, kind, name)));
                        match named {
                            Some((_, _, profile)) => _ = uses.insert(at, profile),
                            None => _ = uses.remove(&at),
                        }
                    }
                }
            }
            for parent in ["p0", "p1", "p2", "p3"] {
                let children: Vec<&ObjectKey> = parents.iter().filter(|(_, (of, _))| of == parent).map(|(key, _)| key).collect();
                prop_assert_eq!(catalog.children(parent).map(|(key, _)| key).collect::<Vec<_>>(), children.clone());
                let in_family = |profile: &ProfileKey| match profile {
                    ProfileKey::Cloud(name) => name == parent,
                    ProfileKey::Private(key) => children.contains(&key),
                };
                let mut expect: Vec<&ObjectKey> = uses.iter().filter(|(_, of)| in_family(of)).map(|(key, _)| key).collect();
                let mut found: Vec<&ObjectKey> = catalog.shoots_of_family(parent).map(|(key, _)| key).collect();
                expect.sort();
                found.sort();
                let is_invalid = |reason: &Option<CatalogReason>| matches!(reason, Some(CatalogReason::Invalid | CatalogReason::TooLarge));
                let invalid = parents.values().filter(|(of, reason)| of == parent && is_invalid(reason)).count();
                prop_assert_eq!(catalog.uses_of(parent), Uses { children: children.len(), invalid, shoots: expect.len() });
                prop_assert_eq!(found, expect);
            }
        }
    }
}
