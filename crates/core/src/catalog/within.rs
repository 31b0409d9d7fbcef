//! What a profile names of its own entries: the machine that bastions run on, what its zones lack.

use std::collections::BTreeSet;

use allotment_api::catalog::{Bastion, BastionImage, CloudProfileSpec, ImageVersion, MachineType, Region, Shared};
use allotment_machinery::field::{FieldError, Path};

use super::compare::DEFAULT_ARCHITECTURE;
use super::entries::Found;
use super::listed::listed;
use super::usage::has_architecture;
use super::versions::VersionKey;

/// Most names that one warning lists.
const MOST_NAMED: usize = 8;

/// That the machine type and the image of bastions are of the profile, and go together.
pub(super) fn bastion(profile: &CloudProfileSpec, found: &mut Found) {
    let Some(bastion) = &profile.bastion else { return };
    let path = Path::new("spec").child("bastion");
    if bastion.machine_type.is_none() && bastion.machine_image.is_none() {
        found.error(FieldError::required(&path, "name a machineType, a machineImage or both, or leave bastion out"));
    }
    let machine = machine_type(profile, bastion, &path, found);
    if let Some(image) = &bastion.machine_image {
        machine_image(profile, image, machine, &path.child("machineImage"), found);
    }
}

/// The version of an image that bastions run on; the last one where the profile leaves that open.
pub(super) fn bastion_version(profile: &CloudProfileSpec) -> Option<VersionKey<'_>> {
    let image = profile.bastion.as_ref()?.machine_image.as_ref()?;
    Some(VersionKey::Image(&image.name, image.version.as_deref().unwrap_or_default()))
}

fn machine_type<'p>(
    profile: &'p CloudProfileSpec,
    bastion: &Bastion,
    path: &Path,
    found: &mut Found,
) -> Option<&'p MachineType> {
    let wanted = &bastion.machine_type.as_ref()?.name;
    let known = profile.machine_types.iter().find(|known| known.name == *wanted);
    if known.is_none() {
        let detail = "is not in spec.machineTypes: add it there, or name one that is";
        found.error(FieldError::invalid(&path.child("machineType").child("name"), wanted, detail));
    }
    known.map(|known| &**known)
}

fn machine_image(
    profile: &CloudProfileSpec,
    wanted: &BastionImage,
    machine: Option<&MachineType>,
    path: &Path,
    found: &mut Found,
) {
    let Some(image) = profile.machine_images.iter().find(|image| image.name == wanted.name) else {
        let detail = "is not in spec.machineImages: add it there, or name one that is";
        return found.error(FieldError::invalid(&path.child("name"), &wanted.name, detail));
    };
    let is_meant = |version: &&Shared<ImageVersion>| wanted.version.as_ref().is_none_or(|own| version.version == *own);
    let mut versions = image.versions.iter().filter(is_meant).peekable();
    let (path, shown) = match &wanted.version {
        Some(version) => (path.child("version"), version),
        None => (path.child("name"), &wanted.name),
    };
    if versions.peek().is_none() {
        let detail = "has no entry in spec.machineImages: add it there, name one that has, or leave it open";
        return found.error(FieldError::invalid(&path, shown, detail));
    }
    let Some(machine) = machine else { return };
    let architecture = machine.architecture.as_deref().unwrap_or(DEFAULT_ARCHITECTURE);
    if !versions.any(|version| has_architecture(version, architecture)) {
        let detail = format!("is not for {architecture}, which machine type {:?} has: name another one", machine.name);
        found.error(FieldError::invalid(&path, shown, detail));
    }
}

/// Warns of types that zones of `regions` are said to lack, and that `profile` has not at all.
pub(super) fn unavailable(regions: &[Shared<Region>], profile: &CloudProfileSpec, found: &mut Found) {
    let zones = || regions.iter().flat_map(|region| region.zones.iter().map(move |zone| (region, zone)));
    if zones().all(|(_, zone)| zone.unavailable_machine_types.is_empty() && zone.unavailable_volume_types.is_empty()) {
        return;
    }
    let machines: BTreeSet<&str> = profile.machine_types.iter().map(|entry| entry.name.as_str()).collect();
    let volumes: BTreeSet<&str> = profile.volume_types.iter().map(|entry| entry.name.as_str()).collect();
    for (region, zone) in zones() {
        let mut check = |field: &str, names: &[String], known: &BTreeSet<&str>, what: &str| {
            let unknown: Vec<&str> = names.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
            if !unknown.is_empty() {
                let path = Path::new("spec").child("regions").key(&region.name).child("zones").key(&zone.name);
                let names = listed(unknown, MOST_NAMED);
                found.warn(|| format!("{}: the profile has no {what} {names}", path.child(field)));
            }
        };
        check("unavailableMachineTypes", &zone.unavailable_machine_types, &machines, "machine type");
        check("unavailableVolumeTypes", &zone.unavailable_volume_types, &volumes, "volume type");
    }
}
