//! What is refused of a CloudProfile: beside its own fields what would make private profiles invalid, and what would take
//! from Shoots what they use.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::catalog::{ACCEPT_CHILD_ERRORS, CloudProfileSpec, KeptProfile};
use allotment_core::catalog::{
    Effect, KeptShoot, Parent, Part, ProfileKey, VersionKey, dropped_in_use, dropped_versions, effects,
    faults_of_change, lacks_room, offers, stands_alone, validate_cloud_profile,
};
use allotment_core::write::ObjectKey;
use allotment_machinery::field::{FieldError, MAX_ERRORS, Path};
use allotment_machinery::json::Value;
use k8s_openapi::jiff::Timestamp;

use super::case::{Case, Pair};
use super::facts::{Facts, Family, Lookup};
use super::named::{dropped, named, unread};
use crate::review::Denial;
use crate::warned::bounded;

pub(super) fn wants(case: &Case<'_>, pair: &Pair<CloudProfileSpec>, facts: &Facts) -> Vec<Lookup> {
    facts.lacking(pair.old.as_ref().map(|_| Lookup::Family(case.name().to_owned())))
}

pub(super) fn judge(case: &Case<'_>, pair: &Pair<CloudProfileSpec>, facts: &Facts) -> Result<Vec<String>, Denial> {
    let mut found = validate_cloud_profile(&pair.new, pair.old.as_ref(), case.write.now);
    if !found.errors.is_empty() {
        return Err(Denial::Invalid(found.errors));
    }
    let (Some(old), Some(family)) = (&pair.old, facts.family(case.name())) else {
        return Ok(bounded(found.warnings, found.unkept, ""));
    };
    let (before, after) = (Parent::new(case.name(), old.clone()), Parent::new(case.name(), pair.new.clone()));
    let mut errors = taken_from_shoots(&before, &after, family, case.write.now);
    if let Some(broken) = broken_children(case, &before, &after, family) {
        let accepted = case.write.object.at(&["metadata", "annotations", ACCEPT_CHILD_ERRORS]);
        if accepted.and_then(Value::as_str) == Some("true") {
            // Before the others: it says most.
            found.warnings.insert(0, format!("spec: makes {broken}"));
        } else {
            let detail = format!(
                "would make {broken}; change these before, or set annotation {ACCEPT_CHILD_ERRORS}: \"true\" to have them \
                 say so in their conditions"
            );
            errors.push(FieldError::forbidden(&Path::new("spec"), detail));
        }
    }
    errors.extend(changed_type(old, &pair.new, family));
    // Before the others: they say most.
    let mut warnings = dropped_parts(old, &pair.new, family);
    warnings.extend(passed_over(&before, &after, family));
    warnings.extend(told_of_children(&before, &after, family, case.write.now));
    warnings.append(&mut found.warnings);
    if errors.is_empty() { Ok(bounded(warnings, found.unkept, "")) } else { Err(Denial::Invalid(errors)) }
}

/// That a profile is for another provider than those who use it.
fn changed_type(old: &CloudProfileSpec, new: &CloudProfileSpec, family: &Family) -> Option<FieldError> {
    if old.type_ == new.type_ || old.type_.is_empty() {
        return None;
    }
    let children = family.children.iter().filter(|(_, child)| child.metadata.deletion_timestamp.is_none());
    let children: Vec<String> = children.map(|(key, _)| key.to_string()).collect();
    let shoots: Vec<&ObjectKey> =
        family.shoots.iter().filter(|(_, shoot)| shoot.is_live()).map(|(key, _)| key).collect();
    let mut users = Vec::new();
    if !children.is_empty() || !family.unread.is_empty() {
        let unread = family.unread.iter().map(|key| format!("{key} (cannot be read)"));
        users.push(format!("PrivateCloudProfiles {}", named(children.into_iter().chain(unread))));
    }
    if !shoots.is_empty() {
        users.push(format!("Shoots {}", named(shoots)));
    }
    if users.is_empty() {
        return None;
    }
    let detail = format!(
        "it is used by {}, for provider {:?}: make another CloudProfile for the new one, or delete these before",
        users.join(" and "),
        old.type_
    );
    Some(FieldError::invalid(&Path::new("spec").child("type"), &new.type_, detail))
}

/// Machine types, volume types and regions that go, and that Shoots use. That versions in use go is refused.
fn dropped_parts(old: &CloudProfileSpec, new: &CloudProfileSpec, family: &Family) -> Vec<String> {
    let has_itself = |shoot: &KeptShoot, part: Part, name: &str| {
        let Some(ProfileKey::Private(profile)) = &shoot.profile else { return false };
        let Some(child) = child(family, profile) else { return false };
        match part {
            Part::MachineType => child.spec.machine_types.iter().any(|entry| entry.name == name),
            Part::VolumeType => child.spec.volume_types.iter().any(|entry| entry.name == name),
            Part::Region => child.spec.regions.iter().any(|entry| entry.name == name),
        }
    };
    let shoots = family.shoots.iter().map(|(key, shoot)| (key, &**shoot));
    let lost = dropped_in_use(old, new, shoots, has_itself, false);
    lost.into_iter().take(MAX_ERRORS).map(|(path, users)| dropped(&path, &named(users))).collect()
}

/// Of whom it is not known whether they use a version that goes.
fn passed_over(old: &Parent, new: &Parent, family: &Family) -> Option<String> {
    let unclear = family.shoots.iter().filter(|(_, shoot)| shoot.is_live() && shoot.unclear.is_some());
    let unclear: Vec<&ObjectKey> = family.unread.iter().chain(unclear.map(|(key, _)| key)).collect();
    if unclear.is_empty() || dropped_versions(old.spec(), new.spec()).is_empty() {
        return None;
    }
    let whom = unread(unclear);
    Some(format!("spec: it is not known whether they use one of the versions that are dropped: {whom}"))
}

/// What the change means to private profiles that stay valid.
fn told_of_children(before: &Parent, after: &Parent, family: &Family, now: Timestamp) -> Vec<String> {
    let live = family.children.iter().filter(|(_, child)| child.metadata.deletion_timestamp.is_none());
    let all = effects(before, after, live.map(|(key, child)| (key, &child.spec)), now);
    let told = all.into_iter().take(MAX_ERRORS).map(|((path, effect), children)| {
        let whose = named(children);
        match effect {
            Effect::Overruled => {
                format!("{path}: PrivateCloudProfiles {whose} say otherwise, which does not count: this holds there too")
            }
            Effect::StandsAlone => format!(
                "{path}: PrivateCloudProfiles {whose} have it of their own from now on, of which nothing holds but what they say"
            ),
            Effect::Goes => format!("{path}: PrivateCloudProfiles {whose} have it too, and it goes out of these now"),
            Effect::GivesLonger => {
                format!("{path}: PrivateCloudProfiles {whose} give it for longer, and new Shoots on these may use it until then")
            }
        }
    });
    told.collect()
}

/// Versions that go, and that live Shoots use.
fn taken_from_shoots(old: &Parent, new: &Parent, family: &Family, now: Timestamp) -> Vec<FieldError> {
    if dropped_versions(old.spec(), new.spec()).is_empty() {
        return Vec::new();
    }
    let live = || family.shoots.iter().filter(|(_, shoot)| shoot.is_live());
    let used: BTreeSet<VersionKey<'_>> = live().flat_map(|(_, shoot)| shoot.versions()).collect();
    let lost: BTreeSet<VersionKey<'_>> =
        used.into_iter().filter(|key| offers(old.spec(), key) && !offers(new.spec(), key)).collect();
    let mut users: BTreeMap<VersionKey<'_>, Vec<&ObjectKey>> = BTreeMap::new();
    for (shoot, uses) in live().flat_map(|(key, shoot)| shoot.versions().map(move |uses| ((key, shoot), uses))) {
        let (key, shoot) = shoot;
        if lost.contains(&uses) && !finds_in_child(shoot, &uses, old, family, now) {
            users.entry(uses).or_default().push(key);
        }
    }
    users.into_iter().take(MAX_ERRORS).map(|(key, users)| in_use(&key, users)).collect()
}

/// That a version, or the last that a Shoot may mean by what it says, is in use.
fn in_use(key: &VersionKey<'_>, users: Vec<&ObjectKey>) -> FieldError {
    let (path, what) = match key {
        VersionKey::Image(image, "") => {
            (Path::new("spec").child("machineImages").key(image), "is used, without a version, by Shoots".to_owned())
        }
        VersionKey::Kubernetes(version) if !is_whole(version) => (
            Path::new("spec").child("kubernetes").child("versions"),
            format!("would have no version of {version} any more, which is used by Shoots"),
        ),
        _ => (Path::new(&key.to_string()), "is used by Shoots".to_owned()),
    };
    let detail = format!(
        "{what} {}: it can be dropped once they use another version or are gone; until then give it an expirationDate, so \
         that no new Shoot takes it (what private profiles extend they still give)",
        named(users)
    );
    FieldError::forbidden(&path, detail)
}

fn is_whole(version: &str) -> bool {
    version.split('.').count() > 2
}

/// Whether the private profile that a Shoot uses has an image's version itself, means the same by it, and keeps it.
fn finds_in_child(shoot: &KeptShoot, key: &VersionKey<'_>, old: &Parent, family: &Family, now: Timestamp) -> bool {
    let (Some(ProfileKey::Private(profile)), VersionKey::Image(image, version)) = (&shoot.profile, key) else {
        return false;
    };
    child(family, profile).is_some_and(|child| stands_alone(old, &child.spec, image, version, now))
}

fn child<'a>(family: &'a Family, key: &ObjectKey) -> Option<&'a KeptProfile> {
    // They are in the order of their keys.
    let place = family.children.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
    family.children.get(place).map(|(_, child)| &**child)
}

/// The private profiles that a change makes invalid, each with its first fault.
fn broken_children(case: &Case<'_>, before: &Parent, after: &Parent, family: &Family) -> Option<String> {
    let is_kubernetes = |key: &VersionKey<'_>| matches!(key, VersionKey::Kubernetes(_));
    let drops = dropped_versions(before.spec(), after.spec()).iter().any(is_kubernetes);
    let grows = after.bytes() > before.bytes();
    if !drops && !grows {
        return None;
    }
    let outgrows = |child: &KeptProfile| {
        let lacks = |parent: &Parent| lacks_room(&child.metadata, &child.spec, parent);
        lacks(after).filter(|_| grows && lacks(before).is_none())
    };
    let live = family.children.iter().filter(|(_, child)| child.metadata.deletion_timestamp.is_none());
    let broken: Vec<String> = live
        .filter_map(|(key, child)| {
            let faults = faults_of_change(before, after, &child.spec, case.write.now);
            faults.into_iter().next().or_else(|| outgrows(child)).map(|fault| format!("{key} ({fault})"))
        })
        .collect();
    let what = if broken.len() == 1 { "PrivateCloudProfile" } else { "PrivateCloudProfiles" };
    (!broken.is_empty()).then(|| format!("{} {what} invalid: {}", broken.len(), named(broken)))
}

/// Who uses it.
pub(super) fn users(case: &Case<'_>, facts: &Facts) -> Option<String> {
    let (name, family) = (case.name(), facts.family(case.name())?);
    let itself = ProfileKey::Cloud(name.to_owned());
    let mut users = Vec::new();
    if !family.children.is_empty() {
        users.push(format!("PrivateCloudProfiles {}", named(family.children.iter().map(|(key, _)| key))));
    }
    if !family.unread.is_empty() {
        users.push(format!("PrivateCloudProfiles {}", unread(&family.unread)));
    }
    let on_it = family.shoots.iter().filter(|(_, shoot)| shoot.may_use(&itself));
    let mut shoots = on_it.map(|(key, shoot)| format!("{}/{}", key.namespace, shoot.shown())).peekable();
    if shoots.peek().is_some() {
        users.push(format!("Shoots {}", named(shoots)));
    }
    (!users.is_empty()).then(|| format!("CloudProfile {name:?} is used by {}", users.join(" and ")))
}
