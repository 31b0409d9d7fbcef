//! A CloudProfile that is looked at from many private ones: its entries are found by key, its certificates are read once.

use allotment_api::catalog::{CloudProfileSpec, Date, ImageVersion, KubernetesVersion, MachineImage, Shared};

use super::certificates::{self, Certificate};
use super::dates::later;
use super::keyed::Keyed;
use super::room::bytes_of;
use super::versions::{VersionKey, kubernetes_versions};

/// A CloudProfile, prepared once for any number of private profiles.
#[derive(Clone, Debug)]
pub struct Parent {
    name: String,
    spec: CloudProfileSpec,
    kubernetes: Keyed,
    images: Keyed,
    /// Of the image at the same place.
    image_versions: Vec<Keyed>,
    pub(super) machine_types: Keyed,
    pub(super) volume_types: Keyed,
    pub(super) regions: Keyed,
    pub(super) certificates: Vec<Certificate>,
    bytes: usize,
}

impl Parent {
    /// Prepares a profile; costs about as much as reading through it.
    pub fn new(name: impl Into<String>, spec: CloudProfileSpec) -> Self {
        let versions = |image: &Shared<MachineImage>| Keyed::new(&image.versions, |entry| &entry.version);
        let bundle = spec.ca_bundle.as_ref();
        Parent {
            name: name.into(),
            kubernetes: Keyed::new(kubernetes_versions(spec.kubernetes.as_ref()), |entry| &entry.version),
            images: Keyed::new(&spec.machine_images, |entry| &entry.name),
            image_versions: spec.machine_images.iter().map(versions).collect(),
            machine_types: Keyed::new(&spec.machine_types, |entry| &entry.name),
            volume_types: Keyed::new(&spec.volume_types, |entry| &entry.name),
            regions: Keyed::new(&spec.regions, |entry| &entry.name),
            // What does not read is refused where it is written, and kept as it is here.
            bytes: bytes_of(&spec),
            certificates: bundle.and_then(|text| certificates::read(text).ok()).unwrap_or_default(),
            spec,
        }
    }

    /// Name of the profile.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it offers itself.
    pub fn spec(&self) -> &CloudProfileSpec {
        &self.spec
    }

    /// How long its spec is as JSON.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its Kubernetes versions.
    pub(super) fn kubernetes_versions(&self) -> &[Shared<KubernetesVersion>] {
        kubernetes_versions(self.spec.kubernetes.as_ref())
    }

    /// Where a Kubernetes version stands in it.
    pub(super) fn kubernetes_version(&self, version: &str) -> Option<usize> {
        self.kubernetes.find(self.kubernetes_versions(), |entry| &entry.version, version)
    }

    /// Where an image stands in it.
    pub(super) fn image(&self, name: &str) -> Option<usize> {
        self.images.find(&self.spec.machine_images, |entry| &entry.name, name)
    }

    /// Where a version of the image at that place stands in it.
    pub(super) fn image_version(&self, image: usize, version: &str) -> Option<(usize, &Shared<ImageVersion>)> {
        let versions = &self.spec.machine_images.get(image)?.versions;
        let place = self.image_versions.get(image)?.find(versions, |entry| &entry.version, version)?;
        Some((place, versions.get(place)?))
    }

    /// The date of a version; `None` where it has no such version.
    pub fn date(&self, key: &VersionKey<'_>) -> Option<Option<&Date>> {
        match key {
            VersionKey::Kubernetes(version) => {
                let place = self.kubernetes_version(version)?;
                Some(self.kubernetes_versions().get(place)?.expiration_date.as_ref())
            }
            VersionKey::Image(image, version) => {
                let (_, entry) = self.image_version(self.image(image)?, version)?;
                Some(entry.expiration_date.as_ref())
            }
        }
    }

    /// The date until which a private profile on it gives a version that it names with that one: the later of both, or its own
    /// where this has no such version. Nothing where it never expires.
    pub fn effective<'a>(&'a self, key: &VersionKey<'_>, own: Option<&'a Date>) -> Option<&'a Date> {
        self.date(key).map_or(own, |inherited| later(inherited, own))
    }
}
