//! Renders a private profile over its parent: the parent's entries in their order, what is added behind them, the later
//! of two dates. Entries are shared with both. It never fails: what cannot be meant is told as a fault, and left out.

use std::collections::BTreeSet;

use allotment_api::catalog::{
    CloudProfileSpec, Conflict, ImageVersion, Kubernetes, KubernetesVersion, Limits, MachineImage,
    PrivateCloudProfileSpec, Region, Shared,
};
use allotment_machinery::field::{FieldError, MAX_ERRORS, Path};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::compare::{self, Differences};
use super::dates::{has_passed, later};
use super::keyed::Keyed;
use super::parent::Parent;
use super::versions::{VersionKey, kubernetes_versions};
use super::{certificates, profile};

/// What comes of a private profile and its parent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// What is offered.
    pub spec: CloudProfileSpec,
    /// What both have and mean differently, by path; the parent's stands in `spec`.
    pub conflicts: Vec<Conflict>,
    /// What makes the private profile invalid under this parent; left out of `spec`.
    pub faults: Vec<FieldError>,
}

/// Renders `private` over `parent`. The result depends on these two alone.
pub fn render(parent: &Parent, private: &PrivateCloudProfileSpec) -> Rendered {
    let mut rendered = Rendered { spec: parent.spec().clone(), ..Rendered::default() };
    rendered.kubernetes(parent, private);
    rendered.images(parent, private);
    rendered.machine_types(parent, private);
    rendered.volume_types(parent, private);
    rendered.regions(parent, private);
    rendered.ca_bundle(parent, private);
    rendered.limits(private);
    for (name, value) in private.other.iter().filter(|(name, _)| !profile::is_inherited(name)) {
        rendered.unknown(format!("spec.{name}"), parent.spec().other.get(name), value);
    }
    rendered.conflicts.sort();
    rendered
}

impl Rendered {
    fn compare(&mut self, differences: Differences, path: impl FnOnce() -> String) {
        self.conflicts.extend(differences.conflict(path));
    }

    /// A field that nobody knows how to add to: the parent's holds, or none.
    fn unknown(&mut self, path: String, parent: Option<&Value>, private: &Value) {
        if parent != Some(private) {
            let reason = "the field is not one that is added to: what the parent says holds".to_owned();
            let parent_value = compare::shown(parent.unwrap_or(&Value::Null));
            self.conflicts.push(Conflict { path, parent_value, child_value: compare::shown(private), reason });
        }
    }

    fn kubernetes(&mut self, parent: &Parent, private: &PrivateCloudProfileSpec) {
        let Some(kubernetes) = &private.kubernetes else { return };
        for (name, value) in &kubernetes.other {
            let own = parent.spec().kubernetes.as_ref().and_then(|kubernetes| kubernetes.other.get(name));
            self.unknown(format!("spec.kubernetes.{name}"), own, value);
        }
        let mut versions: Option<Vec<Shared<KubernetesVersion>>> = None;
        for entry in &kubernetes.versions {
            let key = VersionKey::Kubernetes(&entry.version);
            let Some(place) = parent.kubernetes_version(&entry.version) else {
                // Each that is told in full reads through all of the parent's.
                self.faults.push(match self.faults.len() < MAX_ERRORS {
                    true => profile::lacks_kubernetes(parent, &entry.version),
                    false => profile::lacks_kubernetes_too(parent, &entry.version),
                });
                continue;
            };
            let versions = versions.get_or_insert_with(|| parent.kubernetes_versions().to_vec());
            self.compare(compare::kubernetes_versions(&versions[place], entry), || key.to_string());
            let date = later(versions[place].expiration_date.as_ref(), entry.expiration_date.as_ref());
            if date != versions[place].expiration_date.as_ref() {
                let extended = KubernetesVersion { expiration_date: date.cloned(), ..(*versions[place]).clone() };
                versions[place] = Shared::new(extended);
            }
        }
        if let (Some(versions), Some(own)) = (versions, &self.spec.kubernetes) {
            self.spec.kubernetes = Some(Shared::new(Kubernetes { versions, other: own.other.clone() }));
        }
    }

    fn images(&mut self, parent: &Parent, private: &PrivateCloudProfileSpec) {
        let mut added = BTreeSet::new();
        for image in &private.machine_images {
            match parent.image(&image.name) {
                Some(place) => {
                    let own = self.spec.machine_images[place].clone();
                    self.compare(compare::images(&own, image), || format!("spec.machineImages[{}]", image.name));
                    if let Some(versions) = self.image_versions(parent, place, image) {
                        self.spec.machine_images[place] = Shared::new(MachineImage { versions, ..(*own).clone() });
                    }
                }
                None if added.insert(image.name.as_str()) => self.spec.machine_images.push(image.clone()),
                None => {}
            }
        }
    }

    /// The versions of the parent's image at that place with those of the private one; `None` where they are the parent's.
    fn image_versions(
        &mut self,
        parent: &Parent,
        place: usize,
        image: &MachineImage,
    ) -> Option<Vec<Shared<ImageVersion>>> {
        let own = self.spec.machine_images[place].clone();
        let mut versions: Option<Vec<Shared<ImageVersion>>> = None;
        let mut added = BTreeSet::new();
        for entry in &image.versions {
            let Some((at, inherited)) = parent.image_version(place, &entry.version) else {
                if added.insert(entry.version.as_str()) {
                    versions.get_or_insert_with(|| own.versions.clone()).push(entry.clone());
                }
                continue;
            };
            let path = || VersionKey::Image(&image.name, &entry.version).to_string();
            self.compare(compare::image_versions(inherited, entry), path);
            let so_far = versions.as_ref().and_then(|versions| versions.get(at)).unwrap_or(inherited);
            let date = later(so_far.expiration_date.as_ref(), entry.expiration_date.as_ref());
            if date != so_far.expiration_date.as_ref() {
                let extended = ImageVersion { expiration_date: date.cloned(), ..(**inherited).clone() };
                versions.get_or_insert_with(|| own.versions.clone())[at] = Shared::new(extended);
            }
        }
        versions
    }

    fn machine_types(&mut self, parent: &Parent, private: &PrivateCloudProfileSpec) {
        let own = &parent.spec().machine_types;
        let mut added = BTreeSet::new();
        for entry in &private.machine_types {
            match parent.machine_types.find(own, |entry| &entry.name, &entry.name) {
                Some(place) => self.compare(compare::machine_types(&own[place], entry), || {
                    format!("spec.machineTypes[{}]", entry.name)
                }),
                None if added.insert(entry.name.as_str()) => self.spec.machine_types.push(entry.clone()),
                None => {}
            }
        }
    }

    fn volume_types(&mut self, parent: &Parent, private: &PrivateCloudProfileSpec) {
        let own = &parent.spec().volume_types;
        let mut added = BTreeSet::new();
        for entry in &private.volume_types {
            match parent.volume_types.find(own, |entry| &entry.name, &entry.name) {
                Some(place) => {
                    self.compare(compare::volume_types(&own[place], entry), || {
                        format!("spec.volumeTypes[{}]", entry.name)
                    });
                }
                None if added.insert(entry.name.as_str()) => self.spec.volume_types.push(entry.clone()),
                None => {}
            }
        }
    }

    fn regions(&mut self, parent: &Parent, private: &PrivateCloudProfileSpec) {
        let own = &parent.spec().regions;
        let mut added = BTreeSet::new();
        for entry in &private.regions {
            match parent.regions.find(own, |entry| &entry.name, &entry.name) {
                Some(place) => {
                    self.compare(compare::regions(&own[place], entry), || format!("spec.regions[{}]", entry.name));
                    self.zones(place, entry);
                }
                None if added.insert(entry.name.as_str()) => self.spec.regions.push(entry.clone()),
                None => {}
            }
        }
    }

    fn zones(&mut self, place: usize, private: &Region) {
        let own = self.spec.regions[place].clone();
        let keyed = Keyed::new(&own.zones, |zone| &zone.name);
        let mut zones = Vec::new();
        let mut added = BTreeSet::new();
        for zone in &private.zones {
            match keyed.find(&own.zones, |zone| &zone.name, &zone.name) {
                Some(at) => self.compare(compare::zones(&own.zones[at], zone), || {
                    format!("spec.regions[{}].zones[{}]", own.name, zone.name)
                }),
                None if added.insert(zone.name.as_str()) => zones.push(zone.clone()),
                None => {}
            }
        }
        if !zones.is_empty() {
            let zones = [own.zones.as_slice(), zones.as_slice()].concat();
            self.spec.regions[place] = Shared::new(Region { zones, ..(*own).clone() });
        }
    }

    fn ca_bundle(&mut self, parent: &Parent, private: &PrivateCloudProfileSpec) {
        let Some(bundle) = &private.ca_bundle else { return };
        let own = parent.spec().ca_bundle.as_ref().map(|text| (text.as_str(), parent.certificates.as_slice()));
        match certificates::read(bundle) {
            Ok(added) => {
                if let Some(joined) = certificates::joined(own, &added) {
                    self.spec.ca_bundle = Some(Shared::new(joined));
                }
            }
            Err(error) => {
                let path = Path::new("spec").child("caBundle");
                self.faults.push(FieldError::invalid_omitted(&path, error.to_string()));
            }
        }
    }

    fn limits(&mut self, private: &PrivateCloudProfileSpec) {
        let Some(limits) = &private.limits else { return };
        let inherited = self.spec.limits.clone().unwrap_or_default();
        let max_nodes_total = match (inherited.max_nodes_total, limits.max_nodes_total) {
            (Some(parent), Some(private)) => Some(parent.min(private)),
            (parent, private) => parent.or(private),
        };
        if max_nodes_total != inherited.max_nodes_total {
            self.spec.limits = Some(Limits { max_nodes_total, other: inherited.other.clone() });
        }
        for (name, value) in &limits.other {
            self.unknown(format!("spec.limits.{name}"), inherited.other.get(name), value);
        }
    }
}

/// What a change of a parent from `before` to `after` makes wrong with a private profile that was right: dates of versions
/// that go, the first hundred. Entries of it that have expired are not counted: they go by themselves. It costs what the private profile
/// names of Kubernetes.
pub fn faults_of_change(
    before: &Parent,
    after: &Parent,
    private: &PrivateCloudProfileSpec,
    now: Timestamp,
) -> Vec<FieldError> {
    let is_lost = |entry: &&Shared<KubernetesVersion>| {
        let key = VersionKey::Kubernetes(&entry.version);
        if before.date(&key).is_none() {
            return false;
        }
        after.date(&key).is_none() && !has_passed(before.effective(&key, entry.expiration_date.as_ref()), now)
    };
    let versions = kubernetes_versions(private.kubernetes.as_ref());
    let lost = versions.iter().filter(is_lost).take(MAX_ERRORS);
    lost.map(|entry| profile::lacks_kubernetes(after, &entry.version)).collect()
}

/// Whether a private profile has a version of an image, or where that is empty any, that means the same once its parent has it
/// no more: what it only extends by a date is nothing then. Nor is what has expired at `now`: the controller, to whom the parent
/// still has it, may be about to take it out.
pub fn stands_alone(
    parent: &Parent,
    private: &PrivateCloudProfileSpec,
    image: &str,
    version: &str,
    now: Timestamp,
) -> bool {
    let images = private.machine_images.iter().filter(|own| own.name == image);
    let mut versions = images.flat_map(|own| &own.versions).filter(|own| version.is_empty() || own.version == version);
    versions.any(|own| {
        let key = VersionKey::Image(image, &own.version);
        if has_passed(parent.effective(&key, own.expiration_date.as_ref()), now) {
            return false;
        }
        let inherited = parent.image(image).and_then(|place| parent.image_version(place, &own.version));
        inherited.is_none_or(|(_, inherited)| compare::is_whole_image_version(inherited, own))
    })
}

/// The versions of a rendered or plain profile, for those who look one up.
pub(super) fn kubernetes_of(spec: &CloudProfileSpec) -> &[Shared<KubernetesVersion>] {
    kubernetes_versions(spec.kubernetes.as_ref())
}

#[cfg(test)]
mod tests {
    use super::super::certificates::tests::certificate;
    use super::*;

    #[track_caller]
    fn check(own: Option<&str>, added: &str, expect: Option<&str>) {
        let bundle = |text: &str| Shared::new(text.to_owned());
        let spec = CloudProfileSpec { ca_bundle: own.map(bundle), ..CloudProfileSpec::default() };
        let private = PrivateCloudProfileSpec { ca_bundle: Some(bundle(added)), ..PrivateCloudProfileSpec::default() };
        let rendered = render(&Parent::new("central", spec.clone()), &private);
        match expect {
            Some(expect) => {
                let found = rendered.spec.ca_bundle.as_ref().map(|text| text.as_str());
                assert_eq!((found, rendered.faults), (Some(expect), Vec::new()));
                let again = Parent::new("central", rendered.spec.clone());
                assert_eq!(render(&again, &private).spec, rendered.spec, "once is enough");
            }
            None => {
                let faults: Vec<String> = rendered.faults.iter().map(ToString::to_string).collect();
                assert!(matches!(faults.as_slice(), [only] if only.starts_with("spec.caBundle: ")), "{faults:?}");
                assert_eq!(rendered.spec, spec);
            }
        }
    }

    #[test]
    fn bundles_are_joined_in_their_order_without_what_is_there_already() {
        let (one, two) = (certificate(1), certificate(2));
        check(None, &one, Some(&one));
        check(Some(&one), &two, Some(&format!("{one}{two}")));
        check(Some(&format!("# ours\n{one}\n\n")), &format!("{one}{two}{two}"), Some(&format!("# ours\n{one}{two}")));
        check(Some(&one), &one, Some(&one));
        check(Some(&one), "no certificate", None);
        check(None, "", None);
    }
}
