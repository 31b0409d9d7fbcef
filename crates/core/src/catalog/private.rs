//! What is wrong with a private profile, and which of its entries are over and done with.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::catalog::{Date, ParentRef, PrivateCloudProfileSpec, RemovedVersion};
use allotment_machinery::field::{FieldError, Path};
use k8s_openapi::jiff::Timestamp;

use super::dates::{has_passed, later};
use super::entries::{self, Found};
use super::parent::Parent;
use super::profile;
use super::render::render;
use super::versions::{VersionKey, dated, without};

/// What a write of a private profile is judged by.
#[derive(Clone, Copy)]
pub struct PrivateWrite<'a> {
    /// The CloudProfile that it names.
    pub parent: &'a Parent,
    /// What was stored; `None` for a create.
    pub old: Option<&'a PrivateCloudProfileSpec>,
    /// What was taken out of it before, as its annotation says.
    pub removed: &'a [RemovedVersion],
    /// Whether a live Shoot of the namespace uses that version of that image through this profile.
    pub in_use: &'a dyn Fn(&str, &str) -> bool,
    /// When it is written.
    pub now: Timestamp,
}

/// Whether two references name the same parent, in whichever form.
pub fn is_same_parent(left: &ParentRef, right: &ParentRef) -> bool {
    let kind = |parent: &ParentRef| parent.kind.as_deref().unwrap_or("CloudProfile").to_owned();
    left.name == right.name && kind(left) == kind(right)
}

type Dates<'a> = BTreeMap<VersionKey<'a>, Option<&'a Date>>;

impl<'a> PrivateWrite<'a> {
    fn stored(&self) -> Dates<'a> {
        self.old.map(|old| dated(old.kubernetes.as_ref(), &old.machine_images).collect()).unwrap_or_default()
    }

    /// Whether an entry was there, or was taken out, with that date.
    fn is_known(&self, key: &VersionKey<'_>, date: Option<&Date>, stored: &Dates<'_>) -> bool {
        if stored.get(key).is_some_and(|stored| *stored == date) {
            return true;
        }
        let path = key.to_string();
        // It may have gone by its parent's date, if that was later or the only one.
        let went_by =
            |gone: &Date| date.is_none_or(|date| *date == *gone || later(Some(date), Some(gone)) == Some(gone));
        self.removed.iter().any(|gone| gone.path == path && went_by(&gone.expired_at))
    }
}

/// The entries of `spec` that have expired and are not new in this write. The private profile's own image versions stay
/// while Shoots use them.
pub fn over<'s>(spec: &'s PrivateCloudProfileSpec, write: &PrivateWrite<'_>) -> BTreeSet<VersionKey<'s>> {
    let stored = write.stored();
    let is_over = |(key, date): &(VersionKey<'_>, Option<&Date>)| {
        let inherited = write.parent.date(key);
        let holds = date.or(inherited.flatten());
        if !has_passed(holds, write.now) || !write.is_known(key, *date, &stored) {
            return false;
        }
        !matches!(key, VersionKey::Image(image, version) if inherited.is_none() && (write.in_use)(image, version))
    };
    dated(spec.kubernetes.as_ref(), &spec.machine_images).filter(is_over).map(|(key, _)| key).collect()
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

/// Checks a private profile, after [`settled`]. That its parent is there, is not going, and is no private profile,
/// is for those to say who look it up.
pub fn validate_private_profile(spec: &PrivateCloudProfileSpec, write: &PrivateWrite<'_>) -> Found {
    let mut found = Found::default();
    parent(spec, write, &mut found);
    inherited(spec, &mut found);
    entries::kubernetes(spec.kubernetes.as_ref(), &mut found);
    only_dates(spec, &mut found);
    entries::images(&spec.machine_images, &mut found);
    for image in spec.machine_images.iter().filter(|image| image.versions.is_empty()) {
        let path = Path::new("spec").child("machineImages").key(&image.name).child("versions");
        found
            .error(FieldError::required(&path, "name the versions that are added or extended, or leave the image out"));
    }
    entries::machine_types(&spec.machine_types, &mut found);
    entries::volume_types(&spec.volume_types, &mut found);
    entries::regions(&spec.regions, &mut found);
    entries::limits(spec.limits.as_ref(), &mut found);
    dates(spec, write, &mut found);

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
    profile::warn_of_newest(&rendered.spec, |version| own.contains(version), &mut found);
    found
}

fn parent(spec: &PrivateCloudProfileSpec, write: &PrivateWrite<'_>, found: &mut Found) {
    let path = Path::new("spec").child("parent");
    if spec.parent.name.is_empty() {
        found.error(FieldError::required(&path, "name the CloudProfile that this adds to"));
    }
    if let Some(kind) = spec.parent.kind.as_deref().filter(|kind| *kind != "CloudProfile") {
        let detail = "multi-level inheritance is not supported: name a CloudProfile";
        found.error(FieldError::invalid(&path.child("kind"), kind, detail));
    }
    if let Some(old) = write.old.filter(|old| !is_same_parent(&old.parent, &spec.parent)) {
        let detail = format!("is immutable, and was {:?}: make another PrivateCloudProfile", old.parent.name);
        found.error(FieldError::invalid(&path, &spec.parent.name, detail));
    }
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
