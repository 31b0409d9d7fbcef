//! The versions of a profile, Kubernetes' and those of images, as one list: by key, each with its date.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use allotment_api::catalog::{CloudProfileSpec, Date, Kubernetes, KubernetesVersion, MachineImage, Shared};

/// Which version of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionKey<'a> {
    /// A Kubernetes version.
    Kubernetes(&'a str),
    /// A version of the image of that name.
    Image(&'a str, &'a str),
}

impl<'a> VersionKey<'a> {
    /// The version alone.
    pub fn version(&self) -> &'a str {
        match self {
            VersionKey::Kubernetes(version) | VersionKey::Image(_, version) => version,
        }
    }
}

impl fmt::Display for VersionKey<'_> {
    /// The path of the entry: `spec.machineImages[suse-chost].versions[16.4]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionKey::Kubernetes(version) => write!(f, "spec.kubernetes.versions[{version}]"),
            VersionKey::Image(image, version) => write!(f, "spec.machineImages[{image}].versions[{version}]"),
        }
    }
}

/// The Kubernetes versions of a profile, or none.
pub(super) fn kubernetes_versions(kubernetes: Option<&Shared<Kubernetes>>) -> &[Shared<KubernetesVersion>] {
    kubernetes.map_or(&[], |kubernetes| &kubernetes.versions)
}

/// All versions in the order of the profile.
pub(super) fn dated<'a>(
    kubernetes: Option<&'a Shared<Kubernetes>>,
    images: &'a [Shared<MachineImage>],
) -> impl Iterator<Item = (VersionKey<'a>, Option<&'a Date>)> {
    let versions = kubernetes_versions(kubernetes).iter();
    let kubernetes = versions.map(|entry| (VersionKey::Kubernetes(&entry.version), entry.expiration_date.as_ref()));
    let images = images.iter().flat_map(|image| {
        image
            .versions
            .iter()
            .map(|entry| (VersionKey::Image(&image.name, &entry.version), entry.expiration_date.as_ref()))
    });
    kubernetes.chain(images)
}

/// Of two entries of one version, which only who writes past admission can bring about, the date that lets it stay longer: none,
/// and what is no time, never pass.
fn longer<'a>(one: Option<&'a Date>, other: Option<&'a Date>) -> Option<&'a Date> {
    let passes = |date: Option<&'a Date>| date.and_then(|date| Some((date.at()?, date)));
    match (passes(one), passes(other)) {
        (None, _) => one,
        (_, None) => other,
        (Some((one, date)), Some((other, _))) if one >= other => Some(date),
        (Some(_), Some((_, date))) => Some(date),
    }
}

/// Each version once, with the date that lets it stay longest.
pub(super) fn once_each<'a>(
    dated: impl Iterator<Item = (VersionKey<'a>, Option<&'a Date>)>,
) -> BTreeMap<VersionKey<'a>, Option<&'a Date>> {
    let mut once = BTreeMap::new();
    for (key, date) in dated {
        once.entry(key).and_modify(|so_far| *so_far = longer(*so_far, date)).or_insert(date);
    }
    once
}

/// The versions that a change of a profile takes out of it. That Shoots still find one of an image, since their private
/// profile adds it too, shows in what that renders to.
pub fn dropped_versions<'a>(old: &'a CloudProfileSpec, new: &CloudProfileSpec) -> Vec<VersionKey<'a>> {
    let left: BTreeSet<VersionKey<'_>> =
        dated(new.kubernetes.as_ref(), &new.machine_images).map(|(key, _)| key).collect();
    let before = dated(old.kubernetes.as_ref(), &old.machine_images).map(|(key, _)| key);
    before.filter(|key| !left.contains(key)).collect()
}

/// What is left of a profile's `kubernetes` and `machineImages` without some versions: an image that is left without
/// any, and a `kubernetes` that is left with nothing, go whole.
pub(super) fn without(
    kubernetes: Option<&Shared<Kubernetes>>,
    images: &[Shared<MachineImage>],
    gone: &BTreeSet<VersionKey<'_>>,
) -> (Option<Shared<Kubernetes>>, Vec<Shared<MachineImage>>) {
    let left_kubernetes = kubernetes.and_then(|kubernetes| {
        let stays = |version: &str| !gone.contains(&VersionKey::Kubernetes(version));
        if kubernetes.versions.iter().all(|entry| stays(&entry.version)) {
            return Some(kubernetes.clone());
        }
        let versions = kubernetes.versions.iter().filter(|entry| stays(&entry.version)).cloned().collect();
        let left = Kubernetes { versions, other: kubernetes.other.clone() };
        (!left.versions.is_empty() || !left.other.is_empty()).then(|| Shared::new(left))
    });
    let left_images = images.iter().filter_map(|image| {
        let stays = |version: &str| !gone.contains(&VersionKey::Image(&image.name, version));
        if image.versions.iter().all(|entry| stays(&entry.version)) {
            return Some(image.clone());
        }
        let versions: Vec<_> = image.versions.iter().filter(|entry| stays(&entry.version)).cloned().collect();
        (!versions.is_empty()).then(|| Shared::new(MachineImage { versions, ..(**image).clone() }))
    });
    (left_kubernetes, left_images.collect())
}
