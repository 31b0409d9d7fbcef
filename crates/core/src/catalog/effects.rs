//! What a change of a CloudProfile means to its private profiles, beside what makes them invalid: what whoever changes it
//! would not see in it.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::catalog::{CloudProfileSpec, Date, PrivateCloudProfileSpec};
use k8s_openapi::jiff::Timestamp;

use super::dates::has_passed;
use super::parent::Parent;
use super::render::{render, stands_alone};
use super::versions::{VersionKey, dated, dropped_versions, once_each};
use crate::write::ObjectKey;

/// What becomes of an entry of a private profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It says otherwise than the parent does now, and does not count.
    Overruled,
    /// It is one of its own now, as it says itself: what the parent said otherwise, or beside, is gone.
    StandsAlone,
    /// It gives a version for longer, of which the parent's date has passed.
    GivesLonger,
    /// It has a version until then, of which the parent's date has passed, and is about to lose it.
    Goes,
}

/// The effects that a change has, by path: on which private profiles. Those that a change does not concern cost a look at the
/// names that they have.
pub fn effects<'a>(
    before: &Parent,
    after: &Parent,
    children: impl IntoIterator<Item = (&'a ObjectKey, &'a PrivateCloudProfileSpec)>,
    now: Timestamp,
) -> BTreeMap<(String, Effect), Vec<&'a ObjectKey>> {
    let said = said_anew(before.spec(), after.spec());
    let gone = gone(before.spec(), after.spec());
    let gone_types: BTreeSet<String> = gone.iter().filter_map(Name::path_of_type).collect();
    let dropped: BTreeSet<VersionKey<'_>> = dropped_versions(before.spec(), after.spec()).into_iter().collect();
    let passed = passed_anew(before.spec(), after.spec(), now);
    let mut effects: BTreeMap<(String, Effect), Vec<&'a ObjectKey>> = BTreeMap::new();
    if said.is_empty() && gone.is_empty() && dropped.is_empty() && passed.is_empty() {
        return effects;
    }
    for (key, child) in children {
        let mut tell = |path: String, effect| effects.entry((path, effect)).or_default().push(key);
        if names(child).any(|name| said.contains(&name) || gone.contains(&name)) {
            let (was, is) = (conflicts(before, child), conflicts(after, child));
            is.difference(&was).for_each(|path| tell(path.clone(), Effect::Overruled));
            let stands_alone = was.difference(&is).filter(|path| gone_types.contains(*path));
            stands_alone.for_each(|path| tell(path.clone(), Effect::StandsAlone));
        }
        for region in child.regions.iter().filter(|region| gone.contains(&Name::Region(&region.name))) {
            if before.spec().regions.iter().any(|own| own.name == region.name && own != region) {
                tell(format!("spec.regions[{}]", region.name), Effect::StandsAlone);
            }
        }
        for (version, date) in once_each(dated(child.kubernetes.as_ref(), &child.machine_images)) {
            match version {
                VersionKey::Image(image, text) if dropped.contains(&version) => {
                    let goes = has_passed(before.effective(&version, date), now);
                    if !goes && !stands_alone(before, child, image, text, now) {
                        tell(version.to_string(), Effect::StandsAlone);
                    }
                }
                _ if !passed.contains(&version) || has_passed(before.effective(&version, date), now) => {}
                _ if has_passed(after.effective(&version, date), now) => tell(version.to_string(), Effect::Goes),
                _ => tell(version.to_string(), Effect::GivesLonger),
            }
        }
    }
    effects
}

/// Where a private profile says otherwise than its parent.
fn conflicts(parent: &Parent, child: &PrivateCloudProfileSpec) -> BTreeSet<String> {
    render(parent, child).conflicts.into_iter().map(|conflict| conflict.path).collect()
}

/// What private profiles may say too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name<'a> {
    MachineType(&'a str),
    VolumeType(&'a str),
    Region(&'a str),
    Image(&'a str),
}

impl Name<'_> {
    fn path_of_type(&self) -> Option<String> {
        match self {
            Name::MachineType(name) => Some(format!("spec.machineTypes[{name}]")),
            Name::VolumeType(name) => Some(format!("spec.volumeTypes[{name}]")),
            Name::Region(_) | Name::Image(_) => None,
        }
    }
}

fn names(child: &PrivateCloudProfileSpec) -> impl Iterator<Item = Name<'_>> {
    let types = child.machine_types.iter().map(|entry| Name::MachineType(&entry.name));
    let volumes = child.volume_types.iter().map(|entry| Name::VolumeType(&entry.name));
    let regions = child.regions.iter().map(|entry| Name::Region(&entry.name));
    let images = child.machine_images.iter().map(|entry| Name::Image(&entry.name));
    types.chain(volumes).chain(regions).chain(images)
}

/// What of a CloudProfile is new, or other than it was.
fn said_anew<'a>(before: &CloudProfileSpec, after: &'a CloudProfileSpec) -> BTreeSet<Name<'a>> {
    let types = anew(&before.machine_types, &after.machine_types, |entry| &entry.name).map(Name::MachineType);
    let volumes = anew(&before.volume_types, &after.volume_types, |entry| &entry.name).map(Name::VolumeType);
    let regions = anew(&before.regions, &after.regions, |entry| &entry.name).map(Name::Region);
    let images = anew(&before.machine_images, &after.machine_images, |entry| &entry.name).map(Name::Image);
    types.chain(volumes).chain(regions).chain(images).collect()
}

/// What of a CloudProfile is not there any more, but for images, whose versions are looked at one by one.
fn gone<'a>(before: &'a CloudProfileSpec, after: &'a CloudProfileSpec) -> BTreeSet<Name<'a>> {
    fn lacks<'a, T>(before: &'a [T], after: &[T], name: fn(&T) -> &str) -> impl Iterator<Item = &'a str> {
        let left: BTreeSet<&str> = after.iter().map(name).collect();
        before.iter().map(name).filter(|name| !left.contains(name)).collect::<Vec<_>>().into_iter()
    }
    let types = lacks(&before.machine_types, &after.machine_types, |entry| &entry.name).map(Name::MachineType);
    let volumes = lacks(&before.volume_types, &after.volume_types, |entry| &entry.name).map(Name::VolumeType);
    let regions = lacks(&before.regions, &after.regions, |entry| &entry.name).map(Name::Region);
    types.chain(volumes).chain(regions).collect()
}

fn anew<'a, T: PartialEq>(before: &[T], after: &'a [T], name: fn(&T) -> &str) -> impl Iterator<Item = &'a str> {
    let known: BTreeMap<&str, &T> = before.iter().map(|entry| (name(entry), entry)).collect();
    let is_new = |entry: &&T| known.get(name(entry)) != Some(entry);
    after.iter().filter(is_new).map(name).collect::<Vec<_>>().into_iter()
}

/// The versions of which the date is another one, and has passed.
fn passed_anew<'a>(
    before: &'a CloudProfileSpec,
    after: &'a CloudProfileSpec,
    now: Timestamp,
) -> BTreeSet<VersionKey<'a>> {
    let dates = |spec| once_each(dated_of(spec));
    let known = dates(before);
    let passed = dates(after).into_iter().filter(|(key, date)| has_passed(*date, now) && known.get(key) != Some(date));
    passed.map(|(key, _)| key).collect()
}

fn dated_of(spec: &CloudProfileSpec) -> impl Iterator<Item = (VersionKey<'_>, Option<&Date>)> {
    dated(spec.kubernetes.as_ref(), &spec.machine_images)
}
