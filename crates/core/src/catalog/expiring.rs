//! Which versions of a catalog expire soon or have expired, in which profiles, and which Shoots use them: for people who
//! plan. What the platform itself takes out, and when, is `expiry`'s.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::catalog::{CloudProfileSpec, Date};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::index::{Catalog, ProfileKey};
use super::parent::Parent;
use super::reference::ProfileKind;
use super::render::render;
use super::usage::longest_meant;
use super::versions::{VersionKey, dated, once_each};
use crate::write::ObjectKey;

/// A profile by its place, as programs read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProfileName {
    /// `CloudProfile` or `PrivateCloudProfile`.
    pub kind: &'static str,
    /// Namespace of a private one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl From<ProfileKey> for ProfileName {
    fn from(key: ProfileKey) -> Self {
        let (kind, namespace, name) = match key {
            ProfileKey::Cloud(name) => (ProfileKind::CloudProfile, String::new(), name),
            ProfileKey::Private(key) => (ProfileKind::PrivateCloudProfile, key.namespace, key.name),
        };
        ProfileName { kind: kind.as_str(), namespace, name }
    }
}

/// A version with its date: a private profile that extends it has it a second time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Expiring {
    /// The CloudProfile that has it, or whose private profile adds it.
    pub cloud_profile: String,
    /// Name of the image; nothing for Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The version.
    pub version: String,
    /// Its entry in a profile.
    pub path: String,
    /// Its date: the later one of a private profile and its parent. Nothing where it never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Date>,
    /// Whether that has passed.
    pub expired: bool,
    /// The profiles that it has that date in: private ones if they name it themselves, or Shoots on them use it.
    pub profiles: Vec<ProfileName>,
    /// The live Shoots on these that use it, by namespace and name.
    pub shoots: Vec<String>,
}

/// The versions of a CloudProfile and of the private ones on it that have expired at `now` or will have at `until`, the
/// earliest first.
pub fn expiring(catalog: &Catalog, parent: &Parent, now: Timestamp, until: Timestamp) -> Vec<Expiring> {
    versions(catalog, parent, now, Some(until))
}

/// The versions of a CloudProfile and of the private ones on it that live Shoots use, the earliest to expire first.
pub fn used_versions(catalog: &Catalog, parent: &Parent, now: Timestamp) -> Vec<Expiring> {
    let mut rows = versions(catalog, parent, now, None);
    rows.retain(|row| !row.shoots.is_empty());
    rows
}

/// The versions that expire until then, or all, by date.
fn versions(catalog: &Catalog, parent: &Parent, now: Timestamp, until: Option<Timestamp>) -> Vec<Expiring> {
    let mut rows = Rows { parent: parent.name(), rows: BTreeMap::new(), now, until };
    let spec = parent.spec();
    let name = ProfileKey::Cloud(parent.name().to_owned());
    let users = serve(live_users(catalog, &name), spec);
    for (key, date) in once_each(dated(spec.kubernetes.as_ref(), &spec.machine_images)) {
        rows.put(&key, date, &name, &users);
    }
    for (place, private) in catalog.children(parent.name()) {
        let name = ProfileKey::Private(place.clone());
        let own = dated(private.spec.kubernetes.as_ref(), &private.spec.machine_images);
        let own = once_each(own.map(|(key, date)| (key, parent.effective(&key, date))));
        let named = live_users(catalog, &name);
        // What it comes to is of interest only to Shoots that leave something open.
        let is_open = |key: &VersionKey<'_>| !own.contains_key(key) && parent.date(key).is_none();
        let rendered = named.keys().any(is_open).then(|| render(parent, &private.spec).spec);
        let users = match &rendered {
            Some(rendered) => serve(named, rendered),
            None => named,
        };
        for (key, date) in &own {
            rows.put(key, *date, &name, &users);
        }
        for key in users.keys().filter(|key| !own.contains_key(key)) {
            // What neither gives any more expires no more.
            if let Some(date) = parent.date(key) {
                rows.put(key, date, &name, &users);
            }
        }
    }
    rows.rows.into_values().collect()
}

/// The live Shoots on a profile, by the versions that they use.
type Users<'a> = BTreeMap<VersionKey<'a>, BTreeSet<&'a ObjectKey>>;

fn live_users<'a>(catalog: &'a Catalog, profile: &ProfileKey) -> Users<'a> {
    let mut users = Users::new();
    for (place, shoot) in catalog.shoots_on(profile).filter(|(_, shoot)| shoot.is_live()) {
        for key in shoot.versions() {
            users.entry(key).or_default().insert(place);
        }
    }
    users
}

/// The same where a Shoot that leaves its version open, by `1.30` or an image alone, counts for the one that lasts longest: the
/// profile may drop the others, and that one last.
fn serve<'a>(named: Users<'a>, profile: &'a CloudProfileSpec) -> Users<'a> {
    let mut users = Users::new();
    for (key, shoots) in named {
        let served = longest_meant(profile, &key).map_or(key, |(served, _)| served);
        users.entry(served).or_default().extend(shoots);
    }
    users
}

/// What was found so far.
struct Rows<'a> {
    parent: &'a str,
    /// By date, those without one last, and path.
    rows: BTreeMap<(Timestamp, String), Expiring>,
    now: Timestamp,
    /// Nothing where all count.
    until: Option<Timestamp>,
}

impl Rows<'_> {
    fn put(&mut self, key: &VersionKey<'_>, date: Option<&Date>, profile: &ProfileKey, users: &Users<'_>) {
        let date = date.filter(|date| date.at().is_some());
        let at = date.and_then(Date::at);
        if self.until.is_some_and(|until| at.is_none_or(|at| at > until)) {
            return;
        }
        let path = key.to_string();
        let row = self.rows.entry((at.unwrap_or(Timestamp::MAX), path.clone())).or_insert_with(|| Expiring {
            cloud_profile: self.parent.to_owned(),
            image: match key {
                VersionKey::Kubernetes(_) => None,
                VersionKey::Image(image, _) => Some((*image).to_owned()),
            },
            version: key.version().to_owned(),
            path,
            expires: date.cloned(),
            expired: at.is_some_and(|at| at <= self.now),
            profiles: Vec::new(),
            shoots: Vec::new(),
        });
        row.profiles.push(ProfileName::from(profile.clone()));
        row.shoots.extend(users.get(key).into_iter().flatten().map(ToString::to_string));
    }
}
