//! What is wrong with a private profile, and which of its entries are over and done with.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::catalog::{Date, PrivateCloudProfileSpec, RemovedVersion};
use allotment_machinery::field::{FieldError, Path};
use k8s_openapi::jiff::Timestamp;

use super::dates::{has_passed, later};
use super::entries::{self, Found};
use super::expiry::{has_settled, is_last_to_mean, removal};
use super::lineage::faults_of_reference;
use super::parent::Parent;
use super::profile;
use super::render::render;
use super::versions::{VersionKey, dated, once_each, without};
use super::within;

/// What a write of a private profile is judged by.
#[derive(Clone, Copy)]
pub struct PrivateWrite<'a> {
    /// The CloudProfile that it names.
    pub parent: &'a Parent,
    /// What was stored; `None` for a create.
    pub old: Option<&'a PrivateCloudProfileSpec>,
    /// What was taken out of it before, as its annotation says.
    pub removed: &'a [RemovedVersion],
    /// Whether a live Shoot of the namespace uses that version of that image through this profile; with an empty version, whether one
    /// leaves it open.
    pub in_use: &'a dyn Fn(&str, &str) -> bool,
    /// When it is written.
    pub now: Timestamp,
}

type Dates<'a> = BTreeMap<VersionKey<'a>, Option<&'a Date>>;

impl<'a> PrivateWrite<'a> {
    fn stored(&self) -> Dates<'a> {
        once_each(self.old.into_iter().flat_map(|old| dated(old.kubernetes.as_ref(), &old.machine_images)))
    }

    /// Whether an entry was taken out that had this date, or none, or went by this one, which was its parent's.
    fn was_removed(&self, key: &VersionKey<'_>, date: Option<&Date>) -> bool {
        let path = key.to_string();
        let had = |gone: &RemovedVersion, date: &Date| gone.expired_at == *date || gone.own_date.as_ref() == Some(date);
        self.removed.iter().any(|gone| gone.path == path && date.is_none_or(|date| had(gone, date)))
    }

    /// Whether Shoots keep that version of an image of the private profile's own: they name it, or mean it since there is no other.
    fn keeps(&self, image: &str, version: &str, stored: &Dates<'_>) -> bool {
        // Of what is stored without a date of its own the parent, which lacks it, has none either.
        let is_last = || is_last_to_mean(image, self.parent, stored, self.in_use, self.now);
        (self.in_use)(image, version) || (self.in_use)(image, "") && is_last()
    }

    /// Whether an entry has expired and is not new in this write. What stands there stays as long as it is given, as long as
    /// the parent says; what was taken out does not come back for a parent's later date.
    fn is_over(&self, key: &VersionKey<'_>, date: Option<&Date>, stored: &Dates<'_>) -> bool {
        let inherited = self.parent.date(key);
        match stored.get(key) {
            Some(before) if *before == date => {
                let holds = self.parent.effective(key, date);
                match key {
                    VersionKey::Image(image, version) if inherited.is_none() => {
                        let at = holds.and_then(Date::at);
                        at.is_some_and(|at| has_settled(at, self.now)) && !self.keeps(image, version, stored)
                    }
                    VersionKey::Image(..) | VersionKey::Kubernetes(_) => has_passed(holds, self.now),
                }
            }
            _ => has_passed(date.or(inherited.flatten()), self.now) && self.was_removed(key, date),
        }
    }
}

/// The entries of `spec` that have expired and are not new in this write. The private profile's own image versions stay
/// while Shoots use them.
pub fn over<'s>(spec: &'s PrivateCloudProfileSpec, write: &PrivateWrite<'_>) -> BTreeSet<VersionKey<'s>> {
    let stored = write.stored();
    let (mut over, mut given) = (BTreeSet::new(), BTreeSet::new());
    for (key, date) in dated(spec.kubernetes.as_ref(), &spec.machine_images) {
        if write.is_over(&key, date, &stored) {
            over.insert(key)
        } else {
            given.insert(key)
        };
    }
    // One that stands twice is over if both entries are.
    over.difference(&given).copied().collect()
}

/// What this write takes out of what was stored since it expired, to be noted beside what went before: a manifest that
/// still has it is known by that.
pub fn gone_with(spec: &PrivateCloudProfileSpec, write: &PrivateWrite<'_>) -> Vec<RemovedVersion> {
    let stored = write.stored();
    let going = over(spec, write);
    let all = dated(spec.kubernetes.as_ref(), &spec.machine_images).map(|(key, _)| key);
    let left: BTreeSet<VersionKey<'_>> = all.filter(|key| !going.contains(key)).collect();
    let gone = stored.iter().filter(|(key, date)| !left.contains(key) && write.is_over(key, **date, &stored));
    let note = |(key, date): (&VersionKey<'_>, &Option<&Date>)| {
        Some(removal(key, write.parent.effective(key, *date)?, *date, write.now))
    };
    gone.filter_map(note).collect()
}

/// What is left of `spec` without what is [`over`]: a tool that applies an old manifest again and again neither fails nor
/// brings it back. `None` where all stays.
pub fn settled(spec: &PrivateCloudProfileSpec, write: &PrivateWrite<'_>) -> Option<PrivateCloudProfileSpec> {
    let gone = over(spec, write);
    if gone.is_empty() {
        return None;
    }
    let (kubernetes, machine_images) = without(spec.kubernetes.as_ref(), &spec.machine_images, &gone);
    Some(PrivateCloudProfileSpec { kubernetes, machine_images, ..spec.clone() })
}

/// Checks a private profile, after [`settled`]. What was wrong with what was stored, be it that rules or the parent changed
/// since, is warned of. That its parent is there, is not going, and is no private profile, is for those to say who look it
/// up.
pub fn validate_private_profile(spec: &PrivateCloudProfileSpec, write: &PrivateWrite<'_>) -> Found {
    Found::of_change(spec, write.old, |spec, found| check(spec, write, found))
}

fn check(spec: &PrivateCloudProfileSpec, write: &PrivateWrite<'_>, found: &mut Found) {
    let faults = faults_of_reference(&spec.parent, write.old.map(|old| &old.parent));
    faults.into_iter().for_each(|fault| found.error(fault));
    inherited(spec, found);
    entries::kubernetes(spec.kubernetes.as_ref(), found);
    only_dates(spec, found);
    entries::images(&spec.machine_images, found);
    for image in spec.machine_images.iter().filter(|image| image.versions.is_empty()) {
        let path = Path::new("spec").child("machineImages").key(&image.name).child("versions");
        found
            .error(FieldError::required(&path, "name the versions that are added or extended, or leave the image out"));
    }
    entries::machine_types(&spec.machine_types, found);
    entries::volume_types(&spec.volume_types, found);
    entries::regions(&spec.regions, found);
    entries::limits(spec.limits.as_ref(), found);
    found.other(&spec.other, || Path::new("spec"));
    dates(spec, write, found);

    let rendered = render(write.parent, spec);
    rendered.faults.into_iter().for_each(|fault| found.error(fault));
    for conflict in rendered.conflicts {
        found.warn(|| {
            format!(
                "{}: {} (parent {}, here {})",
                conflict.path, conflict.reason, conflict.parent_value, conflict.child_value
            )
        });
    }
    let own: BTreeSet<&str> = super::versions::kubernetes_versions(spec.kubernetes.as_ref())
        .iter()
        .map(|entry| entry.version.as_str())
        .collect();
    within::unavailable(&spec.regions, &rendered.spec, found);
    profile::warn_of_newest(&rendered.spec, |version| own.contains(version), found);
}

fn inherited(spec: &PrivateCloudProfileSpec, found: &mut Found) {
    for field in profile::INHERITED.iter().filter(|field| spec.other.contains_key(**field)) {
        let detail = format!("{field} is inherited from the parent CloudProfile: leave it out");
        found.error(FieldError::forbidden(&Path::new("spec").child(field), detail));
    }
}

fn only_dates(spec: &PrivateCloudProfileSpec, found: &mut Found) {
    for entry in super::versions::kubernetes_versions(spec.kubernetes.as_ref()) {
        let path = || Path::new("spec").child("kubernetes").child("versions").key(&entry.version);
        let known = entry.classification.as_ref().map(|_| "classification");
        for field in known.into_iter().chain(entry.other.keys().map(String::as_str)) {
            let detail = "only expirationDate may be set for a version of the parent: leave it out";
            found.error(FieldError::forbidden(&path().child(field), detail));
        }
    }
}

/// Dates that are new in this write neither lie in the past nor shorten what the parent gives.
fn dates(spec: &PrivateCloudProfileSpec, write: &PrivateWrite<'_>, found: &mut Found) {
    let stored = write.stored();
    for (key, date) in dated(spec.kubernetes.as_ref(), &spec.machine_images) {
        let Some((date, at)) = date.and_then(|date| Some((date, date.at()?))) else { continue };
        if stored.get(&key) == Some(&Some(date)) {
            continue;
        }
        let path = || Path::new(&key.to_string()).child("expirationDate");
        let inherited = write.parent.date(&key);
        match inherited {
            Some(None) => {
                let detail = format!(
                    "CloudProfile {:?} gives {} without a date, so it never expires: leave the date out",
                    write.parent.name(),
                    key.version()
                );
                found.error(FieldError::invalid(&path(), date.text(), detail));
                continue;
            }
            Some(Some(own)) if later(Some(own), Some(date)) == Some(own) && own != date => {
                let detail = format!(
                    "CloudProfile {:?} gives it until {own}, and a date can only be extended: choose a later one",
                    write.parent.name()
                );
                found.error(FieldError::invalid(&path(), date.text(), detail));
                continue;
            }
            Some(Some(_)) | None => {}
        }
        if at <= write.now {
            let detail = "is in the past: choose a date to come, or leave the version out";
            found.error(FieldError::invalid(&path(), date.text(), detail));
        }
    }
}
