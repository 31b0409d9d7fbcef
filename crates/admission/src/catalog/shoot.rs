//! What is refused of a Shoot: which profile it may name, and what it may use of it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use allotment_api::catalog::{CloudProfileSpec, ShootSpec};
use allotment_core::catalog::{
    Going, ProfileKind, Reference, check_switch, check_switch_usage, check_usage, reference, render, used_profile,
};
use allotment_machinery::field::{FieldError, MAX_ERRORS, Path};

use super::case::{Case, Pair};
use super::facts::{Facts, Lookup};
use crate::review::Denial;

pub(super) fn wants(pair: &Pair<ShootSpec>, facts: &Facts) -> Vec<Lookup> {
    let meant = reference(&pair.new, pair.old.as_ref()).ok();
    let before = before(pair).filter(|before| meant.as_ref() != Some(before));
    let mut wanted = Vec::new();
    if let Some(meant) = meant {
        let private = (meant.kind == ProfileKind::PrivateCloudProfile).then(|| facts.private(&meant.name)).flatten();
        wanted.extend(private.map(|private| Lookup::Profile(private.spec.parent.name.clone())));
        wanted.push(lookup(meant));
    }
    // Of the profile of before only which one it is made from.
    wanted.extend(before.filter(|before| before.kind == ProfileKind::PrivateCloudProfile).map(lookup));
    facts.lacking(wanted)
}

fn lookup(reference: Reference) -> Lookup {
    match reference.kind {
        ProfileKind::CloudProfile => Lookup::Profile(reference.name),
        ProfileKind::PrivateCloudProfile => Lookup::Private(reference.name),
    }
}

/// The profile that was stored.
fn before(pair: &Pair<ShootSpec>) -> Option<Reference> {
    pair.old.as_ref().and_then(used_profile)
}

/// What a profile offers.
struct Target<'a> {
    spec: Cow<'a, CloudProfileSpec>,
    /// Whether that ends.
    going: Option<Going>,
}

/// What `reference` offers, or why it offers nothing.
fn target<'a>(case: &Case<'_>, reference: &Reference, facts: &'a Facts) -> Result<Target<'a>, String> {
    if let Some(why) = facts.why_unread(&lookup(reference.clone())) {
        return Err(format!("{reference} is there and cannot be read ({why})"));
    }
    match reference.kind {
        ProfileKind::CloudProfile => {
            let offer = facts.profile(&reference.name).ok_or("there is no CloudProfile of that name")?;
            let going = Going::of(reference, None, offer);
            Ok(Target { spec: Cow::Borrowed(offer.parent.spec()), going })
        }
        ProfileKind::PrivateCloudProfile => {
            let namespace = case.write.namespace;
            let private = facts.private(&reference.name);
            let private = private
                .ok_or_else(|| format!("there is no PrivateCloudProfile of that name in namespace {namespace:?}"))?;
            let parent = &private.spec.parent.name;
            if let Some(why) = facts.why_unread(&Lookup::Profile(parent.clone())) {
                return Err(format!("CloudProfile {parent:?}, which it is made from, cannot be read ({why})"));
            }
            let offer = facts
                .profile(parent)
                .ok_or_else(|| format!("CloudProfile {parent:?}, which it is made from, is not there"))?;
            let going = Going::of(reference, Some(&private.metadata), offer);
            Ok(Target { spec: Cow::Owned(render(&offer.parent, &private.spec).spec), going })
        }
    }
}

pub(super) fn judge(case: &Case<'_>, pair: &Pair<ShootSpec>, facts: &Facts) -> Result<Vec<String>, Denial> {
    let meant = reference(&pair.new, pair.old.as_ref()).map_err(|error| Denial::Invalid(vec![error]))?;
    let before = before(pair);
    let errors = if before.as_ref() == Some(&meant) {
        check_kept(case, pair, &meant, facts)
    } else {
        check_new(case, pair, before.as_ref(), &meant, facts)
    };
    if errors.is_empty() { Ok(Vec::new()) } else { Err(Denial::Invalid(errors)) }
}

fn path() -> Path {
    Path::new("spec").child("cloudProfile").child("name")
}

/// What a Shoot newly uses of the profile that it had.
fn check_kept(case: &Case<'_>, pair: &Pair<ShootSpec>, meant: &Reference, facts: &Facts) -> Vec<FieldError> {
    let old = pair.old.as_ref();
    match target(case, meant, facts) {
        Ok(target) => check_usage(&pair.new, old, &target.spec, meant, case.write.now),
        // What stays as it was needs no profile.
        Err(why) => {
            let asked = check_usage(&pair.new, old, &CloudProfileSpec::default(), meant, case.write.now);
            let Some(first) = asked.first() else { return Vec::new() };
            let detail = format!("{why}, so {} can only stay as it was", first.path);
            vec![FieldError::invalid(&path(), &meant.name, detail)]
        }
    }
}

/// What a Shoot uses of a profile that it comes to, be it the first or another one.
fn check_new(
    case: &Case<'_>,
    pair: &Pair<ShootSpec>,
    before: Option<&Reference>,
    meant: &Reference,
    facts: &Facts,
) -> Vec<FieldError> {
    let refuse = |detail: String| vec![FieldError::invalid(&path(), &meant.name, detail)];
    let target = match target(case, meant, facts) {
        Ok(target) => target,
        Err(why) => return refuse(format!("{why}: have it made or put right before, or name another profile")),
    };
    if let Some(going) = &target.going {
        return refuse(format!("{going}: name another profile"));
    }
    let Some(before) = before else { return check_usage(&pair.new, None, &target.spec, meant, case.write.now) };
    let parent_of = |name: &str| facts.private(name).map(|private| private.spec.parent.name.clone());
    if let Err(error) = check_switch(before, meant, parent_of) {
        return refuse(error.to_string());
    }
    let mut errors = check_switch_usage(&pair.new, &target.spec, meant);
    let changed = check_usage(&pair.new, pair.old.as_ref(), &target.spec, meant, case.write.now);
    let told: BTreeSet<String> = errors.iter().map(|error| error.path.to_string()).collect();
    errors.extend(changed.into_iter().filter(|error| !told.contains(&error.path.to_string())));
    errors.truncate(MAX_ERRORS);
    errors
}
