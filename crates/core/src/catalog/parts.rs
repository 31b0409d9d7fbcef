//! What Shoots use of a profile beside versions: machine types, volume types, regions. A profile may drop them while they are
//! used, since Shoots keep what they have; whoever drops them is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use allotment_api::catalog::{CloudProfileSpec, ShootSpec, Worker};

use super::index::KeptShoot;
use super::usage::offers;
use super::versions::VersionKey;

/// A list of a profile that Shoots choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// `spec.machineTypes`.
    MachineType,
    /// `spec.volumeTypes`.
    VolumeType,
    /// `spec.regions`.
    Region,
}

impl Part {
    /// The names that a profile has in that list.
    fn names(self, profile: &CloudProfileSpec) -> BTreeSet<&str> {
        match self {
            Part::MachineType => profile.machine_types.iter().map(|entry| entry.name.as_str()).collect(),
            Part::VolumeType => profile.volume_types.iter().map(|entry| entry.name.as_str()).collect(),
            Part::Region => profile.regions.iter().map(|entry| entry.name.as_str()).collect(),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::MachineType => "spec.machineTypes",
            Part::VolumeType => "spec.volumeTypes",
            Part::Region => "spec.regions",
        })
    }
}

/// What a Shoot uses beside versions.
pub(super) fn used_parts(shoot: &ShootSpec) -> impl Iterator<Item = (Part, &str)> {
    fn of_worker(worker: &Worker) -> impl Iterator<Item = (Part, &str)> {
        let volumes = worker.volume.iter().chain(&worker.data_volumes).filter_map(|volume| volume.type_.as_deref());
        let volumes = volumes.map(|name| (Part::VolumeType, name));
        std::iter::once((Part::MachineType, worker.machine.type_.as_str())).chain(volumes)
    }
    let workers = shoot.provider.iter().flat_map(|provider| &provider.workers).flat_map(of_worker);
    let region = shoot.region.as_deref().map(|name| (Part::Region, name));
    region.into_iter().chain(workers).filter(|(_, name)| !name.is_empty())
}

/// Of the machine types, volume types, regions and image versions that live Shoots use those that a change from `old` to `new`
/// takes out of what they are offered, by path, each with its users. A Shoot that finds it elsewhere is left out.
pub fn dropped_in_use<'s, T>(
    old: &CloudProfileSpec,
    new: &CloudProfileSpec,
    shoots: impl IntoIterator<Item = (T, &'s KeptShoot)>,
    finds_elsewhere: impl Fn(&KeptShoot, Part, &str) -> bool,
    heeds_images: bool,
) -> BTreeMap<String, Vec<T>>
where
    T: Copy,
{
    let all = [Part::MachineType, Part::VolumeType, Part::Region];
    let lost: BTreeMap<Part, BTreeSet<&str>> = all
        .map(|part| {
            let left = part.names(new);
            (part, part.names(old).into_iter().filter(|name| !left.contains(name)).collect())
        })
        .into();
    let mut users: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for (user, shoot) in shoots.into_iter().filter(|(_, shoot)| shoot.is_live()) {
        for (part, name) in shoot.parts() {
            if lost.get(&part).is_some_and(|lost| lost.contains(name)) && !finds_elsewhere(shoot, part, name) {
                users.entry(format!("{part}[{name}]")).or_default().push(user);
            }
        }
        let images = shoot.versions().filter(|key| heeds_images && matches!(key, VersionKey::Image(..)));
        for key in images.filter(|key| offers(old, key) && !offers(new, key)) {
            let path = match key {
                VersionKey::Image(image, "") => format!("spec.machineImages[{image}]"),
                key => key.to_string(),
            };
            users.entry(path).or_default().push(user);
        }
    }
    users
}
