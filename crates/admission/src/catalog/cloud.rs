//! What is refused of a CloudProfile: beside its own fields what would make private profiles invalid, and what would take
//! from Shoots what they use.

use allotment_api::catalog::{ACCEPT_CHILD_ERRORS, CloudProfileSpec, KeptProfile};
use allotment_core::catalog::{
    KeptShoot, Parent, ProfileKey, VersionKey, dropped_versions, faults_of_change, validate_cloud_profile,
};
use allotment_core::write::ObjectKey;
use allotment_machinery::field::{FieldError, MAX_ERRORS, Path};
use allotment_machinery::json::Value;

use super::case::{Case, Pair};
use super::facts::{Facts, Family, Lookup};
use super::named::named;
use crate::review::Denial;

pub(super) fn wants(case: &Case<'_>, pair: &Pair<CloudProfileSpec>, facts: &Facts) -> Vec<Lookup> {
    facts.lacking(pair.old.as_ref().map(|_| Lookup::Family(case.name().to_owned())))
}

pub(super) fn judge(case: &Case<'_>, pair: &Pair<CloudProfileSpec>, facts: &Facts) -> Result<Vec<String>, Denial> {
    let mut found = validate_cloud_profile(&pair.new, pair.old.as_ref(), case.write.now);
    if !found.errors.is_empty() {
        return Err(Denial::Invalid(found.errors));
    }
    let (Some(old), Some(family)) = (&pair.old, facts.family(case.name())) else { return Ok(found.warnings) };
    let mut errors = taken_from_shoots(old, &pair.new, family);
    if let Some(broken) = broken_children(case, old, &pair.new, family) {
        let accepted = case.write.object.at(&["metadata", "annotations", ACCEPT_CHILD_ERRORS]);
        if accepted.and_then(Value::as_str) == Some("true") {
            found.warnings.push(format!("spec: makes {broken}"));
        } else {
            let detail = format!(
                "would make {broken}; change these before, or set annotation {ACCEPT_CHILD_ERRORS}: \"true\" to have them \
                 say so in their conditions"
            );
            errors.push(FieldError::forbidden(&Path::new("spec"), detail));
        }
    }
    if errors.is_empty() { Ok(found.warnings) } else { Err(Denial::Invalid(errors)) }
}

/// Versions that go, and that live Shoots use.
fn taken_from_shoots(old: &CloudProfileSpec, new: &CloudProfileSpec, family: &Family) -> Vec<FieldError> {
    let dropped = dropped_versions(old, new);
    let mut errors = Vec::new();
    for key in dropped {
        let users = family.shoots.iter().filter(|(_, shoot)| loses(shoot, &key, family));
        let mut users = users.map(|(key, _)| key).peekable();
        if users.peek().is_none() || errors.len() >= MAX_ERRORS {
            continue;
        }
        let detail = format!(
            "is used by Shoots {}: it can be dropped once they use another version or are gone; until then give it an \
             expirationDate, so that no new Shoot takes it",
            named(users)
        );
        errors.push(FieldError::forbidden(&Path::new(&key.to_string()), detail));
    }
    errors
}

/// Whether a Shoot uses a version that it finds nowhere else.
fn loses(shoot: &KeptShoot, key: &VersionKey<'_>, family: &Family) -> bool {
    shoot.is_live() && shoot.uses(key) && !finds_in_child(shoot, key, family)
}

/// Whether the private profile that a Shoot uses has an image's version itself.
fn finds_in_child(shoot: &KeptShoot, key: &VersionKey<'_>, family: &Family) -> bool {
    let (Some(ProfileKey::Private(profile)), VersionKey::Image(image, version)) = (&shoot.profile, key) else {
        return false;
    };
    let Some(child) = child(family, profile) else { return false };
    let images = child.spec.machine_images.iter().filter(|own| own.name == *image);
    images.flat_map(|own| &own.versions).any(|own| own.version == *version)
}

fn child<'a>(family: &'a Family, key: &ObjectKey) -> Option<&'a KeptProfile> {
    // They are in the order of their keys.
    let place = family.children.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
    family.children.get(place).map(|(_, child)| &**child)
}

/// The private profiles that a change makes invalid, each with its first fault.
fn broken_children(case: &Case<'_>, old: &CloudProfileSpec, new: &CloudProfileSpec, family: &Family) -> Option<String> {
    if family.children.is_empty() {
        return None;
    }
    let (before, after) = (Parent::new(case.name(), old.clone()), Parent::new(case.name(), new.clone()));
    let live = family.children.iter().filter(|(_, child)| child.metadata.deletion_timestamp.is_none());
    let broken: Vec<String> = live
        .filter_map(|(key, child)| {
            let faults = faults_of_change(&before, &after, &child.spec, case.write.now);
            faults.first().map(|fault| format!("{key} ({fault})"))
        })
        .collect();
    let what = if broken.len() == 1 { "PrivateCloudProfile" } else { "PrivateCloudProfiles" };
    (!broken.is_empty()).then(|| format!("{} {what} invalid: {}", broken.len(), named(broken)))
}

/// Who holds up a deletion.
pub(super) fn warn_of_users(case: &Case<'_>, facts: &Facts) -> Vec<String> {
    let Some(family) = facts.family(case.name()) else { return Vec::new() };
    let name = case.name();
    let on_it = |shoot: &KeptShoot| shoot.profile == Some(ProfileKey::Cloud(name.to_owned()));
    let mut users = Vec::new();
    if !family.children.is_empty() {
        users.push(format!("PrivateCloudProfiles {}", named(family.children.iter().map(|(key, _)| key))));
    }
    let mut shoots = family.shoots.iter().filter(|(_, shoot)| on_it(shoot)).map(|(key, _)| key).peekable();
    if shoots.peek().is_some() {
        users.push(format!("Shoots {}", named(shoots)));
    }
    if users.is_empty() {
        return Vec::new();
    }
    vec![format!("CloudProfile {name:?} is used by {}: it goes when the last of them is gone", users.join(" and "))]
}
