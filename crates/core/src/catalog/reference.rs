//! Which profile a Shoot uses, in either form that Shoots say it, and which other one it may change to.

use std::fmt;

use allotment_api::catalog::{CloudProfileReference, ShootSpec};
use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::index::Offer;

/// The two kinds of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProfileKind {
    /// One for everybody.
    CloudProfile,
    /// One for the Shoots of its namespace.
    PrivateCloudProfile,
}

impl ProfileKind {
    /// As `kind` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            ProfileKind::CloudProfile => "CloudProfile",
            ProfileKind::PrivateCloudProfile => "PrivateCloudProfile",
        }
    }
}

/// A profile; a private one is of the Shoot's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Its kind.
    pub kind: ProfileKind,
    /// Its name.
    pub name: String,
}

impl Reference {
    /// A CloudProfile.
    pub fn cloud_profile(name: impl Into<String>) -> Self {
        Reference { kind: ProfileKind::CloudProfile, name: name.into() }
    }

    /// A PrivateCloudProfile.
    pub fn private(name: impl Into<String>) -> Self {
        Reference { kind: ProfileKind::PrivateCloudProfile, name: name.into() }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind.as_str(), self.name)
    }
}

fn declared(spec: &ShootSpec) -> Result<Option<Reference>, FieldError> {
    let Some(reference) = &spec.cloud_profile else { return Ok(None) };
    let path = Path::new("spec").child("cloudProfile");
    let kind = match reference.kind.as_deref() {
        None | Some("" | "CloudProfile") => ProfileKind::CloudProfile,
        Some("PrivateCloudProfile") => ProfileKind::PrivateCloudProfile,
        Some(other) => {
            let supported = [ProfileKind::CloudProfile.as_str(), ProfileKind::PrivateCloudProfile.as_str()];
            return Err(FieldError::not_supported(&path.child("kind"), other, &supported));
        }
    };
    if reference.name.is_empty() {
        return Err(FieldError::required(&path.child("name"), "name the profile that the Shoot uses"));
    }
    Ok(Some(Reference { kind, name: reference.name.clone() }))
}

fn legacy(spec: &ShootSpec) -> Option<Reference> {
    spec.cloud_profile_name.as_deref().filter(|name| !name.is_empty()).map(Reference::cloud_profile)
}

/// The profile that a stored Shoot uses, be its name one that no profile can have; nothing where it names none.
pub fn used_profile(stored: &ShootSpec) -> Option<Reference> {
    declared(stored).ok().flatten().or_else(|| legacy(stored))
}

/// What is wrong with the name of a profile that is referred to at `path`: one that no profile can have is found nowhere,
/// and as part of an API server's paths it would mean another one.
pub(super) fn check_name(path: &Path, name: &str) -> Result<(), FieldError> {
    let fault = names::dns1123_subdomain(name).into_iter().next();
    fault.map_or(Ok(()), |fault| Err(FieldError::invalid(path, name, fault)))
}

/// Which profile a write of a Shoot means; `old` is what was stored. What a write does not touch, or leaves out as clients
/// do that know one of the two fields only, is no change.
///
/// # Errors
/// It names none, two, or one that cannot be and was not stored.
pub fn reference(new: &ShootSpec, old: Option<&ShootSpec>) -> Result<Reference, FieldError> {
    let (named, legacy_name) = (declared(new)?, legacy(new));
    let before = old.and_then(used_profile);
    let before_legacy = before.as_ref().filter(|before| before.kind == ProfileKind::CloudProfile);
    let changed = named.as_ref().filter(|named| before.as_ref() != Some(named));
    let changed_legacy = legacy_name.as_ref().filter(|name| before_legacy != Some(name));
    match (changed, changed_legacy) {
        (Some(named), Some(legacy)) if named != legacy => {
            let detail = format!("names {named}, and spec.cloudProfileName {:?}: set one of the two", legacy.name);
            Err(FieldError::invalid(&Path::new("spec").child("cloudProfile").child("name"), &named.name, detail))
        }
        (Some(changed), _) => {
            check_name(&Path::new("spec").child("cloudProfile").child("name"), &changed.name)?;
            Ok(changed.clone())
        }
        (None, Some(changed)) => {
            check_name(&Path::new("spec").child("cloudProfileName"), &changed.name)?;
            Ok(changed.clone())
        }
        (None, None) if named.is_none() && legacy_name.is_none() => {
            let detail = "name the CloudProfile or PrivateCloudProfile that the Shoot uses";
            Err(FieldError::required(&Path::new("spec").child("cloudProfile"), detail))
        }
        (None, None) => before.or(named).or(legacy_name).ok_or_else(|| {
            FieldError::required(&Path::new("spec").child("cloudProfile"), "name the profile that the Shoot uses")
        }),
    }
}

/// How a reference stands in a Shoot: as `cloudProfile`, and as `cloudProfileName` where that can say it.
pub fn written(reference: &Reference) -> (CloudProfileReference, Option<String>) {
    let kind = Some(reference.kind.as_str().to_owned());
    let legacy = (reference.kind == ProfileKind::CloudProfile).then(|| reference.name.clone());
    (CloudProfileReference { kind, name: reference.name.clone() }, legacy)
}

/// That a profile, or the CloudProfile that it is made from, is being deleted: who came to it would hold up its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Going {
    /// The profile itself.
    #[error("{0} is being deleted")]
    Itself(Reference),
    /// The CloudProfile that it is made from.
    #[error("{}, which {profile} is made from, is being deleted", Reference::cloud_profile(.parent))]
    Parent {
        /// The private profile.
        profile: Reference,
        /// Name of the CloudProfile.
        parent: String,
    },
}

impl Going {
    /// Whether `profile` goes: by its own metadata if it is a private one, and by the CloudProfile at its root.
    pub fn of(profile: &Reference, private: Option<&ObjectMeta>, root: &Offer) -> Option<Self> {
        let is_private = profile.kind == ProfileKind::PrivateCloudProfile;
        let itself = match is_private {
            true => private.is_some_and(|private| private.deletion_timestamp.is_some()),
            false => root.is_going(),
        };
        if itself {
            return Some(Going::Itself(profile.clone()));
        }
        let parent = || Going::Parent { profile: profile.clone(), parent: root.parent.name().to_owned() };
        (is_private && root.is_going()).then(parent)
    }
}

/// Why a Shoot cannot change to a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a Shoot on {from} ({}) cannot change to {to} ({}): only to the CloudProfile that its profile is made from, or to a \
     PrivateCloudProfile of the same one; make a new Shoot", root(.old_root.as_deref()), root(.new_root.as_deref())
)]
pub struct SwitchError {
    /// The profile that it uses.
    pub from: Reference,
    /// The profile that it is to use.
    pub to: Reference,
    /// The CloudProfile that the former is made from, if that is there.
    pub old_root: Option<String>,
    /// The CloudProfile that the latter is made from, if that is there.
    pub new_root: Option<String>,
}

fn root(name: Option<&str>) -> String {
    name.map_or_else(|| "which is not there".to_owned(), |name| format!("of CloudProfile {name:?}"))
}

/// Whether a Shoot may change from one profile to another: from parent to child, back, and between children of one parent.
/// `parent_of` gives the parent of a private profile of the Shoot's namespace by name.
pub fn check_switch(
    from: &Reference,
    to: &Reference,
    parent_of: impl Fn(&str) -> Option<String>,
) -> Result<(), SwitchError> {
    if from == to {
        return Ok(());
    }
    let root = |reference: &Reference| match reference.kind {
        ProfileKind::CloudProfile => Some(reference.name.clone()),
        ProfileKind::PrivateCloudProfile => parent_of(&reference.name),
    };
    let (old_root, new_root) = (root(from), root(to));
    if old_root.is_some() && old_root == new_root {
        return Ok(());
    }
    Err(SwitchError { from: from.clone(), to: to.clone(), old_root, new_root })
}
