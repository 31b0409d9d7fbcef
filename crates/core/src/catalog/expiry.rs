//! What expires: which versions go out of a profile now, which stay since Shoots use them, and when to look again.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::catalog::{CloudProfileSpec, Date, ExpiredInUse, PrivateCloudProfileSpec, RemovedVersion};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::dates::{has_passed, later};
use super::parent::Parent;
use super::versions::{VersionKey, dated, once_each, without};

/// Most removed versions that a profile remembers.
const MAX_REMOVED: usize = 1_000;
/// Most bytes that these may take as JSON: they stand in an annotation and in the status.
const MAX_REMOVED_BYTES: usize = 192 * 1024;

/// How long after its date a version is kept that goes only where nobody uses it: a Shoot that was admitted in the last instant
/// has been stored by then. On our own server it always has (turns of writes); beside another one it takes what lies between the
/// webhook's answer and the store, milliseconds as a rule.
const SETTLE: SignedDuration = SignedDuration::from_secs(2);

/// Most Shoots that are named for one version that they keep.
const MOST_SHOOTS: usize = 20;

/// What of a profile's versions has expired.
#[derive(Clone, Debug, PartialEq)]
pub struct Expiry<S> {
    /// What is left of the profile; `None` where nothing goes.
    pub spec: Option<S>,
    /// What goes, by path.
    pub removed: Vec<RemovedVersion>,
    /// What has expired and stays, by path.
    pub in_use: Vec<ExpiredInUse>,
    /// When the next of its versions expires, if one does.
    pub next: Option<Timestamp>,
}

/// What goes out of a private profile at `now`. `shoots` names the live Shoots of its namespace that use a version of an
/// image through it, with an empty version those that leave it open: such a version stays if the private profile alone has it, and in
/// any case for the moment that it takes to know them.
pub fn expire_private_profile(
    spec: &PrivateCloudProfileSpec,
    parent: &Parent,
    shoots: impl Fn(&str, &str) -> Vec<String>,
    now: Timestamp,
) -> Expiry<PrivateCloudProfileSpec> {
    let (mut gone, mut removed, mut in_use, mut next) = (BTreeSet::new(), Vec::new(), Vec::new(), None);
    let entries = dated(spec.kubernetes.as_ref(), &spec.machine_images);
    let holding = entries.map(|(key, date)| (key, parent.effective(&key, date)));
    let own_dates = once_each(dated(spec.kubernetes.as_ref(), &spec.machine_images));
    let holding = once_each(holding);
    let has_users = |image: &str, version: &str| !shoots(image, version).is_empty();
    for (key, holds) in &holding {
        let (key, holds) = (*key, *holds);
        let inherited = parent.date(&key);
        let own = own_dates.get(&key).copied().flatten();
        let Some((date, at)) = holds.and_then(|date| Some((date, date.at()?))) else { continue };
        if at > now {
            next = earlier(next, at);
            continue;
        }
        let own_image = match key {
            VersionKey::Image(image, version) if inherited.is_none() => Some((image, version)),
            VersionKey::Image(..) | VersionKey::Kubernetes(_) => None,
        };
        let users = match own_image.map(|(image, version)| (image, shoots(image, version))) {
            Some((image, named)) if named.is_empty() && is_last_to_mean(image, parent, &holding, has_users, now) => {
                shoots(image, "")
            }
            Some((_, named)) => named,
            None => Vec::new(),
        };
        if own_image.is_some() && users.is_empty() && !has_settled(at, now) {
            next = earlier(next, settled_at(at));
            continue;
        }
        if users.is_empty() {
            removed.push(removal(&key, date, own, now));
            gone.insert(key);
        } else {
            in_use.push(ExpiredInUse {
                path: key.to_string(),
                version: key.version().to_owned(),
                expired_at: date.clone(),
                more_shoots: users
                    .len()
                    .checked_sub(MOST_SHOOTS)
                    .filter(|more| *more > 0)
                    .and_then(|more| more.try_into().ok()),
                shoots: users.into_iter().take(MOST_SHOOTS).collect(),
            });
        }
    }
    let spec = (!gone.is_empty()).then(|| {
        let (kubernetes, machine_images) = without(spec.kubernetes.as_ref(), &spec.machine_images, &gone);
        PrivateCloudProfileSpec { kubernetes, machine_images, ..spec.clone() }
    });
    Expiry { spec, removed: sorted(removed), in_use, next }
}

/// Whether of the image no version is left to Shoots that leave it open, once those go that have expired: its parent has none, and
/// none stays for Shoots that name it. `holding` has the date that holds for each of the private profile's own.
pub(super) fn is_last_to_mean(
    image: &str,
    parent: &Parent,
    holding: &BTreeMap<VersionKey<'_>, Option<&Date>>,
    has_users: impl Fn(&str, &str) -> bool,
    now: Timestamp,
) -> bool {
    let goes = |(key, holds): (&VersionKey<'_>, &Option<&Date>)| match key {
        VersionKey::Image(name, version) if *name == image => has_passed(*holds, now) && !has_users(image, version),
        VersionKey::Image(..) | VersionKey::Kubernetes(_) => true,
    };
    parent.image(image).is_none() && holding.iter().all(goes)
}

/// What goes out of a CloudProfile at `now`, if its operator lets the platform do that: versions whose latest date, over
/// the profile and all `private` ones on it, has passed, and that no live Shoot on any of them uses.
pub fn expire_cloud_profile<'a>(
    parent: &Parent,
    private: impl IntoIterator<Item = &'a PrivateCloudProfileSpec>,
    is_used: impl Fn(&VersionKey<'_>) -> bool,
    now: Timestamp,
) -> Expiry<CloudProfileSpec> {
    let spec = parent.spec();
    let mut extended: BTreeMap<VersionKey<'_>, &Date> = BTreeMap::new();
    for (key, date) in private.into_iter().flat_map(|one| dated(one.kubernetes.as_ref(), &one.machine_images)) {
        if let Some(date) = date.filter(|date| date.at().is_some()) {
            let latest = extended.entry(key).or_insert(date);
            *latest = later(Some(*latest), Some(date)).unwrap_or(date);
        }
    }
    let (mut gone, mut removed, mut next) = (BTreeSet::new(), Vec::new(), None);
    for (key, date) in once_each(dated(spec.kubernetes.as_ref(), &spec.machine_images)) {
        let latest = later(date, extended.get(&key).copied());
        let Some((date, at)) = latest.and_then(|date| Some((date, date.at()?))) else { continue };
        if at > now {
            next = earlier(next, at);
        } else if is_used(&key) {
            // Who uses it now may stop at any time; that is looked at then.
        } else if !has_settled(at, now) {
            next = earlier(next, settled_at(at));
        } else {
            removed.push(removal(&key, date, None, now));
            gone.insert(key);
        }
    }
    let left = (!gone.is_empty()).then(|| {
        let (kubernetes, machine_images) = without(spec.kubernetes.as_ref(), &spec.machine_images, &gone);
        CloudProfileSpec { kubernetes, machine_images, ..spec.clone() }
    });
    Expiry { spec: left, removed: sorted(removed), in_use: Vec::new(), next }
}

/// Whether whoever was admitted before that date is known by `now`.
pub(super) fn has_settled(date: Timestamp, now: Timestamp) -> bool {
    settled_at(date) <= now
}

fn settled_at(date: Timestamp) -> Timestamp {
    date.checked_add(SETTLE).unwrap_or(Timestamp::MAX)
}

/// What is noted of an entry that goes by `date`, and had `own` itself.
pub(super) fn removal(key: &VersionKey<'_>, date: &Date, own: Option<&Date>, now: Timestamp) -> RemovedVersion {
    RemovedVersion {
        path: key.to_string(),
        version: key.version().to_owned(),
        expired_at: date.clone(),
        own_date: own.filter(|own| *own != date).cloned(),
        removed_at: Date::of(now),
    }
}

fn earlier(one: Option<Timestamp>, other: Timestamp) -> Option<Timestamp> {
    Some(one.map_or(other, |one| one.min(other)))
}

fn sorted(mut removed: Vec<RemovedVersion>) -> Vec<RemovedVersion> {
    removed.sort_by(|left, right| left.path.cmp(&right.path));
    removed.dedup_by(|left, right| left.path == right.path);
    removed
}

/// What a profile remembers of its removed versions after more have gone: of each entry the last removal, and of more
/// than a thousand, or than fit, those that went last.
pub fn removed_versions(before: &[RemovedVersion], gone: &[RemovedVersion]) -> Vec<RemovedVersion> {
    removed_within(MAX_REMOVED_BYTES, before, gone)
}

/// The same where there is room for so many bytes of JSON.
pub(super) fn removed_within(room: usize, before: &[RemovedVersion], gone: &[RemovedVersion]) -> Vec<RemovedVersion> {
    let mut latest: BTreeMap<&str, &RemovedVersion> = BTreeMap::new();
    latest.extend(before.iter().chain(gone).map(|one| (one.path.as_str(), one)));
    let mut kept: Vec<&RemovedVersion> = latest.into_values().collect();
    kept.sort_by_key(|one| std::cmp::Reverse(one.removed_at.at()));
    kept.truncate(MAX_REMOVED);
    let (room, mut taken) = (room.min(MAX_REMOVED_BYTES), "[]".len());
    let fits = |one: &&&RemovedVersion| {
        taken += serde_json::to_string(one).map_or(0, |text| text.len() + 1);
        taken <= room
    };
    let fitting = kept.iter().take_while(fits).copied().cloned().collect();
    sorted(fitting)
}
