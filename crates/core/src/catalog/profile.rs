//! What is wrong with a CloudProfile, and what private ones inherit whole.

use std::collections::BTreeMap;

use allotment_api::catalog::{CloudProfileSpec, Date};
use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::version::Version;
use k8s_openapi::jiff::Timestamp;

use super::dates::has_passed;
use super::entries::{self, Found};
use super::listed::listed;
use super::parent::Parent;
use super::render::kubernetes_of;
use super::versions::{VersionKey, dated};
use super::within;

/// The fields of a CloudProfile that a private one inherits and may not set.
pub(super) const INHERITED: [&str; 4] = ["bastion", "providerConfig", "seedSelector", "type"];

/// Whether a private profile inherits that field whole.
pub(super) fn is_inherited(field: &str) -> bool {
    INHERITED.contains(&field)
}

/// Checks a CloudProfile. `old` is what was stored: dates that stood there are not told again, and what was wrong with it
/// before is warned of.
pub fn validate_cloud_profile(spec: &CloudProfileSpec, old: Option<&CloudProfileSpec>, now: Timestamp) -> Found {
    Found::of_change(spec, old, |spec, found| check(spec, old, now, found))
}

fn check(spec: &CloudProfileSpec, old: Option<&CloudProfileSpec>, now: Timestamp, found: &mut Found) {
    if spec.type_.is_empty() {
        let detail = "name the provider that the profile is for, such as aws, azure or gcp";
        found.error(FieldError::required(&Path::new("spec").child("type"), detail));
    }
    entries::kubernetes(spec.kubernetes.as_ref(), found);
    entries::images(&spec.machine_images, found);
    entries::machine_types(&spec.machine_types, found);
    entries::volume_types(&spec.volume_types, found);
    entries::regions(&spec.regions, found);
    entries::ca_bundle(spec.ca_bundle.as_ref(), found);
    entries::seed_selector(spec.seed_selector.as_ref(), found);
    entries::limits(spec.limits.as_ref(), found);
    let path = |field: &str| Path::new("spec").child(field);
    if let Some(selector) = &spec.seed_selector {
        found.other(&selector.other, || path("seedSelector"));
    }
    if let Some(bastion) = &spec.bastion {
        found.other(&bastion.other, || path("bastion"));
    }
    found.other(&spec.other, || Path::new("spec"));
    within::bastion(spec, found);
    within::unavailable(&spec.regions, spec, found);

    let stored: BTreeMap<VersionKey<'_>, Option<&Date>> =
        old.map(|old| dated(old.kubernetes.as_ref(), &old.machine_images).collect()).unwrap_or_default();
    for (key, date) in dated(spec.kubernetes.as_ref(), &spec.machine_images) {
        let is_new = stored.get(&key) != Some(&date);
        if let Some(date) = date.filter(|_| is_new && has_passed(date, now)) {
            found.warn(|| {
                format!("{key}.expirationDate: {date} is in the past: no new Shoot on it can use {}", key.version())
            });
        }
    }
    warn_of_newest(spec, |_| true, found);
}

/// Warns where the newest Kubernetes version has a date, if whoever writes has a say in that version.
pub(super) fn warn_of_newest(profile: &CloudProfileSpec, mentioned: impl Fn(&str) -> bool, found: &mut Found) {
    let versions = kubernetes_of(profile);
    let read = |text: &str| text.parse::<Version>().ok();
    let newest = versions.iter().filter_map(|entry| Some((read(&entry.version)?, entry))).max_by(|a, b| a.0.cmp(&b.0));
    let Some((_, newest)) = newest.filter(|(_, entry)| mentioned(&entry.version)) else { return };
    if let Some(date) = &newest.expiration_date {
        let key = VersionKey::Kubernetes(&newest.version);
        found.warn(|| {
            format!(
                "{key}.expirationDate: the newest Kubernetes version expires at {date}: from then on nothing newer is \
                 offered; add a newer version before"
            )
        });
    }
}

/// Most versions of a minor that one fault lists: clusters have some ten at a time.
const MOST_OF_MINOR: usize = 20;

/// The same as [`lacks_kubernetes`] where so many were told in full that nobody reads on.
pub(super) fn lacks_kubernetes_too(parent: &Parent, version: &str) -> FieldError {
    let path = Path::new("spec").child("kubernetes").child("versions").key(version).child("version");
    FieldError::invalid(&path, version, format!("CloudProfile {:?} has no such version", parent.name()))
}

/// That a private profile names a Kubernetes version that its parent lacks, with those that it has of that minor.
pub(super) fn lacks_kubernetes(parent: &Parent, version: &str) -> FieldError {
    let path = Path::new("spec").child("kubernetes").child("versions").key(version).child("version");
    let minor = |text: &str| text.parse::<Version>().ok().map(|version| (version.major, version.minor));
    let wanted = minor(version);
    let own = parent.kubernetes_versions().iter().map(|entry| entry.version.as_str());
    let of_minor: Vec<&str> = own.filter(|text| wanted.is_some() && minor(text) == wanted).collect();
    let name = parent.name();
    let family = wanted.map_or_else(|| "this minor".to_owned(), |(major, minor)| format!("{major}.{minor}"));
    let detail = match of_minor.is_empty() {
        true => {
            format!("CloudProfile {name:?} has no version of {family}; only dates of versions it has can be extended")
        }
        false => format!(
            "CloudProfile {name:?} has no such version; of {family} it has {}; only dates of versions it has can be \
             extended",
            listed(of_minor, MOST_OF_MINOR)
        ),
    };
    FieldError::invalid(&path, version, detail)
}
