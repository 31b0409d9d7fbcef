//! What a write is judged by beside itself: what has to be looked up, and what was found.

use std::collections::BTreeMap;
use std::sync::Arc;

use allotment_core::catalog::{Catalog, KeptShoot, Offer, ProfileKey, Verb};
use allotment_core::write::ObjectKey;

use allotment_api::catalog::KeptProfile;

/// One thing to look up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lookup {
    /// The CloudProfile of that name, as it is now.
    Profile(String),
    /// The PrivateCloudProfile of that name in the write's namespace, as it is now.
    Private(String),
    /// Who is made from, or uses, the CloudProfile of that name.
    Family(String),
    /// Who uses the PrivateCloudProfile of that name in the write's namespace.
    Users(String),
    /// Whether the caller holds that verb on the private profile that is written.
    Allowed(Verb),
    /// Whether the caller holds that verb on what the proposal of private profiles calls the resource, which is another
    /// one: `privatecloudprofile` without a group.
    AllowedBySource(Verb),
}

/// Shoots by their keys.
pub type Users = Vec<(ObjectKey, Arc<KeptShoot>)>;

/// Who depends on a CloudProfile.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// The PrivateCloudProfiles that are made from it and can be read.
    pub children: Vec<(ObjectKey, Arc<KeptProfile>)>,
    /// Those that cannot be read and are made from it, or may be.
    pub unread: Vec<ObjectKey>,
    /// The Shoots that use it or one of these, or may.
    pub shoots: Users,
}

impl Family {
    /// The family of the CloudProfile of that name.
    pub fn of(catalog: &Catalog, name: &str) -> Self {
        let children = catalog.children(name).map(|(key, child)| (key.clone(), child.clone())).collect();
        let shoots = catalog.shoots_of_family(name).map(|(key, shoot)| (key.clone(), shoot.clone())).collect();
        let unread = catalog.unread_children(name).map(|(key, _)| key.clone()).collect();
        Family { children, unread, shoots }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub enum Found {
    /// A CloudProfile, or none.
    Profile(Option<Arc<Offer>>),
    /// A PrivateCloudProfile, or none.
    Private(Option<Arc<KeptProfile>>),
    /// A profile that is there and cannot be read, and why.
    Unread(String),
    /// Who depends on a CloudProfile.
    Family(Family),
    /// Who uses a PrivateCloudProfile.
    Users(Users),
    /// Whether the caller may.
    Allowed(bool),
}

/// All that was found so far.
#[derive(Clone, Debug, Default)]
pub struct Facts(BTreeMap<Lookup, Found>);

impl Facts {
    /// That was found.
    pub fn put(&mut self, lookup: Lookup, found: Found) {
        self.0.insert(lookup, found);
    }

    /// Those of `wanted` that were not looked up yet.
    pub(super) fn lacking(&self, wanted: impl IntoIterator<Item = Lookup>) -> Vec<Lookup> {
        wanted.into_iter().filter(|lookup| !self.0.contains_key(lookup)).collect()
    }

    /// Whether it was looked up.
    pub(super) fn has(&self, lookup: &Lookup) -> bool {
        self.0.contains_key(lookup)
    }

    /// A CloudProfile that is there.
    pub(super) fn profile(&self, name: &str) -> Option<&Arc<Offer>> {
        match self.0.get(&Lookup::Profile(name.to_owned())) {
            Some(Found::Profile(profile)) => profile.as_ref(),
            _ => None,
        }
    }

    /// A PrivateCloudProfile that is there.
    pub(super) fn private(&self, name: &str) -> Option<&Arc<KeptProfile>> {
        match self.0.get(&Lookup::Private(name.to_owned())) {
            Some(Found::Private(profile)) => profile.as_ref(),
            _ => None,
        }
    }

    /// Why a profile cannot be read that is there, if that is so.
    pub(super) fn why_unread(&self, lookup: &Lookup) -> Option<&str> {
        match self.0.get(lookup) {
            Some(Found::Unread(why)) => Some(why),
            _ => None,
        }
    }

    /// Who depends on a CloudProfile.
    pub(super) fn family(&self, name: &str) -> Option<&Family> {
        match self.0.get(&Lookup::Family(name.to_owned())) {
            Some(Found::Family(family)) => Some(family),
            _ => None,
        }
    }

    /// Who uses a PrivateCloudProfile.
    pub(super) fn users(&self, name: &str) -> &[(ObjectKey, Arc<KeptShoot>)] {
        match self.0.get(&Lookup::Users(name.to_owned())) {
            Some(Found::Users(users)) => users,
            _ => &[],
        }
    }

    /// Whether the caller was found to be allowed that.
    pub(super) fn allows(&self, lookup: &Lookup) -> bool {
        matches!(self.0.get(lookup), Some(Found::Allowed(true)))
    }
}

/// Who uses the PrivateCloudProfile of that key.
pub fn users_of(catalog: &Catalog, key: &ObjectKey) -> Users {
    let profile = ProfileKey::Private(key.clone());
    catalog.shoots_on(&profile).map(|(key, shoot)| (key.clone(), shoot.clone())).collect()
}
