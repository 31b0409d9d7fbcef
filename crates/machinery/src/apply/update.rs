//! Who owns what after a write: the heart of server-side apply (KEP-555), as structured-merge-diff's
//! `merge` package has it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::compare::Comparison;
use super::element::{PathElement, show_path};
use super::found::fields_of;
use super::managers::{Managed, ManagerId, Managers};
use super::merge::merge;
use super::reconcile::reconcile;
use super::remove::remove;
use super::scalar;
use super::set::FieldSet;
use super::types::TypeRef;
use super::validate::{Duplicates, validate};
use crate::json::Map;

/// The versions of a kind.
pub trait Versions {
    /// The type of objects of a version; `None` where there is no such version any more.
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'_>>;

    /// An object of one version as one of another.
    ///
    /// # Errors
    /// Why it cannot be one.
    fn convert(&self, object: &Map, from: &str, to: &str) -> Result<Map, String>;

    /// Fields that this endpoint resets whatever is sent, so that nobody comes to own them here.
    fn reset_fields(&self, api_version: &str) -> Option<&FieldSet>;
}

/// Why a write did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// Others own what would change.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// Something else, in the words of the reference.
    #[error("{0}")]
    Failed(String),
}

/// A field that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who.
    pub manager: ManagerId,
    /// Which.
    pub path: Vec<PathElement>,
}

/// All conflicts of an apply, by manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflict {
    /// `conflict with "a" using v1`
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager.shown())
    }

    /// `.spec.replicas`
    pub fn field(&self) -> String {
        show_path(&self.path.iter().collect::<Vec<_>>())
    }
}

/// The message of the answer.
impl std::fmt::Display for Conflicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", only.message(), only.field());
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut lines = Vec::new();
        for of_one in self.0.chunk_by(|left, right| left.manager == right.manager) {
            lines.extend(of_one.first().map(|first| format!("conflicts with {}:", first.manager.shown())));
            lines.extend(of_one.iter().map(|conflict| format!("- {}", conflict.field())));
        }
        f.write_str(&lines.join("\n"))
    }
}

/// One endpoint: a version of a kind, or one of its subresources in that version.
#[derive(Clone, Copy)]
pub(super) struct Updater<'a> {
    pub(super) versions: &'a dyn Versions,
    /// The version written.
    pub(super) version: &'a str,
}

/// An object and the version that it is of.
#[derive(Clone)]
struct Versioned<'a> {
    object: Cow<'a, Map>,
    version: Cow<'a, str>,
}

/// Why an object is not to be had in another version.
enum Unconverted {
    /// There is no such version any more.
    Missing,
    Failed(String),
}

impl<'a> Updater<'a> {
    /// The type of the version written.
    pub(super) fn own_type(&self) -> Result<TypeRef<'a>, UpdateError> {
        let ty = self.versions.type_of(self.version);
        ty.ok_or_else(|| UpdateError::Failed(format!("no corresponding type for {}", self.version)))
    }

    fn reset(&self, version: &str) -> FieldSet {
        self.versions.reset_fields(version).cloned().unwrap_or_default()
    }

    fn convert<'o>(&self, from: &Versioned<'o>, to: &str) -> Result<Versioned<'o>, Unconverted> {
        if from.version == to {
            return Ok(from.clone());
        }
        let ty = self.versions.type_of(to).ok_or(Unconverted::Missing)?;
        let object = self.versions.convert(&from.object, &from.version, to).map_err(Unconverted::Failed)?;
        validate(&object, ty, Duplicates::Refused).map_err(|error| Unconverted::Failed(error.to_string()))?;
        Ok(Versioned { object: Cow::Owned(object), version: Cow::Owned(to.to_owned()) })
    }

    fn versioned<'o>(&'o self, object: &'o Map) -> Versioned<'o> {
        Versioned { object: Cow::Borrowed(object), version: Cow::Borrowed(self.version) }
    }

    /// Takes from all managers what the change from `live` to `new` changes, and returns the fields that it
    /// sets: those are owned by whoever makes it.
    pub(super) fn update(&self, live: &Map, new: &Map, managers: &mut Managers) -> Result<FieldSet, UpdateError> {
        self.reconcile_all(live, managers)?;
        let comparison = self.take_over(live, new, managers, None, true)?;
        if comparison.modified.is_empty() {
            return Ok(comparison.added);
        }
        Ok(comparison.modified.union(&comparison.added))
    }

    /// What becomes of `live` when `id` applies `config`; `None` where it stays as it is.
    pub(super) fn apply(
        &self,
        live: &Map,
        config: &Map,
        managers: &mut Managers,
        id: &ManagerId,
        force: bool,
    ) -> Result<Option<Map>, UpdateError> {
        let ty = self.own_type()?;
        self.reconcile_all(live, managers)?;
        let merged = merge(live, config, ty);
        let last = managers.get(id).cloned();
        let fields = fields_of(config, ty).recursive_difference(&self.reset(self.version));
        let time = last.as_ref().and_then(|last| last.time.clone());
        managers.insert(id.clone(), Managed { fields, api_version: self.version.to_owned(), time });
        let new = match last.filter(|last| !last.fields.is_empty()) {
            Some(last) => {
                let pruned = self.prune(&merged, managers, &last);
                pruned.map_err(|why| UpdateError::Failed(format!("failed to prune fields: {why}")))?
            }
            None => merged,
        };
        self.take_over(live, &new, managers, Some(id), force)?;
        Ok((!scalar::equal_maps(live, &new)).then_some(new))
    }

    /// Brings what managers own in line with today's types; drops those of versions that are gone.
    fn reconcile_all(&self, live: &Map, managers: &mut Managers) -> Result<(), UpdateError> {
        let mut failure = None;
        let live = self.versioned(live);
        let mut converted: BTreeMap<String, bool> = BTreeMap::new();
        managers.retain(|_, managed| {
            let Some(ty) = self.versions.type_of(&managed.api_version) else { return false };
            // The object itself plays no part, but that it can be had in the version does.
            let known = converted.entry(managed.api_version.clone()).or_insert_with(|| {
                match self.convert(&live, &managed.api_version) {
                    Ok(_) => true,
                    Err(Unconverted::Missing) => false,
                    Err(Unconverted::Failed(why)) => {
                        failure = Some(why);
                        true
                    }
                }
            });
            if let Some(fields) = reconcile(&managed.fields, ty) {
                managed.fields = fields;
            }
            *known
        });
        failure.map_or(Ok(()), |why| Err(UpdateError::Failed(why)))
    }

    /// Takes changed and removed fields from all managers but `workflow`; if it is not by force, none of
    /// them may own what changes.
    fn take_over(
        &self,
        live: &Map,
        new: &Map,
        managers: &mut Managers,
        workflow: Option<&ManagerId>,
        force: bool,
    ) -> Result<Comparison, UpdateError> {
        let own = Comparison::of(live, new, self.own_type()?).excluding(&self.reset(self.version));
        if managers.is_empty() {
            return Ok(own);
        }
        let mut changes = Changes { updater: self, live, new, by_version: BTreeMap::new() };
        changes.by_version.insert(self.version.to_owned(), Some(Change::of(&own)));
        let mut conflicts = Vec::new();
        let mut failure = None;
        managers.retain(|id, managed| {
            if Some(id) == workflow {
                return !managed.fields.is_empty();
            }
            let change = match changes.in_version(&managed.api_version) {
                Ok(Some(change)) => change,
                Ok(None) => return false,
                Err(why) => {
                    failure.get_or_insert(why);
                    return true;
                }
            };
            if !force {
                let taken = managed.fields.intersection(&change.set);
                conflicts.extend(
                    taken
                        .paths()
                        .into_iter()
                        .map(|path| Conflict { manager: id.clone(), path: path.into_iter().cloned().collect() }),
                );
            }
            let fields = std::mem::take(&mut managed.fields);
            managed.fields = fields.into_difference(&change.set).into_difference(&change.removed);
            !managed.fields.is_empty()
        });
        if let Some(why) = failure {
            return Err(UpdateError::Failed(why));
        }
        if !conflicts.is_empty() {
            conflicts.sort_by_cached_key(|conflict| conflict.manager.sort_key());
            return Err(UpdateError::Conflicts(Conflicts(conflicts)));
        }
        Ok(own)
    }

    /// Removes from the merged object what its applier owned, no longer applies, and nobody else owns.
    fn prune(&self, merged: &Map, managers: &Managers, last: &Managed) -> Result<Map, String> {
        let version = last.api_version.as_str();
        let merged = match self.convert(&self.versioned(merged), version) {
            Ok(converted) => converted,
            Err(Unconverted::Missing) => return Ok(merged.clone()),
            Err(Unconverted::Failed(why)) => {
                return Err(format!("failed to convert merged object to last applied version: {why}"));
            }
        };
        let Some(ty) = self.versions.type_of(version) else { return Ok(merged.object.into_owned()) };
        let last_fields = last.fields.with_declared_members(ty);
        let pruned = remove(&merged.object, &last_fields, ty);
        let pruned = Versioned { object: Cow::Owned(pruned), version: merged.version.clone() };
        let pruned = self.with_owned(&merged, pruned, managers)?;
        let pruned = match self.convert(&pruned, version) {
            Ok(converted) => converted,
            Err(Unconverted::Missing) => merged.clone(),
            Err(Unconverted::Failed(why)) => {
                return Err(format!("failed to convert pruned object to last applied version: {why}"));
            }
        };
        // What went only along with what contained it stays: nobody asked for it to go.
        let lost = fields_of(&merged.object, ty)
            .with_declared_members(ty)
            .difference(&fields_of(&pruned.object, ty).with_declared_members(ty));
        let result = remove(&merged.object, &lost.intersection(&last_fields), ty);
        let result = Versioned { object: Cow::Owned(result), version: merged.version.clone() };
        match self.convert(&result, self.version) {
            Ok(converted) => Ok(converted.object.into_owned()),
            Err(Unconverted::Missing) => Err(format!("no corresponding type for {}", self.version)),
            Err(Unconverted::Failed(why)) => Err(why),
        }
    }

    /// The pruned object with what managers own put back, in one version after the other.
    fn with_owned<'o>(
        &self,
        merged: &Versioned<'o>,
        pruned: Versioned<'o>,
        managers: &Managers,
    ) -> Result<Versioned<'o>, String> {
        let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for (_, managed) in managers.iter() {
            let set = owned.entry(&managed.api_version).or_default();
            *set = set.union(&managed.fields);
        }
        let (mut merged, mut pruned) = (merged.clone(), pruned);
        let first = merged.version.to_string();
        let own = owned.remove(first.as_str()).map(|set| (first.as_str(), set));
        for (version, owned) in own.into_iter().chain(owned) {
            let failed = |what: &str, why: String| {
                format!("failed add back owned items: failed to convert {what} object at version {version}: {why}")
            };
            merged = match self.convert(&merged, version) {
                Ok(converted) => converted,
                Err(Unconverted::Missing) => continue,
                Err(Unconverted::Failed(why)) => return Err(failed("merged", why)),
            };
            pruned = match self.convert(&pruned, version) {
                Ok(converted) => converted,
                Err(Unconverted::Missing) => continue,
                Err(Unconverted::Failed(why)) => return Err(failed("pruned", why)),
            };
            let Some(ty) = self.versions.type_of(version) else { continue };
            let there = fields_of(&merged.object, ty).with_declared_members(ty);
            let kept = fields_of(&pruned.object, ty).with_declared_members(ty).union(&owned.with_declared_members(ty));
            let object = remove(&merged.object, &there.difference(&kept), ty);
            pruned = Versioned { object: Cow::Owned(object), version: merged.version.clone() };
        }
        Ok(pruned)
    }
}

/// What changes in one version.
struct Change {
    /// What is set: modified or added.
    set: FieldSet,
    removed: FieldSet,
}

impl Change {
    fn of(comparison: &Comparison) -> Self {
        Change { set: comparison.modified.union(&comparison.added), removed: comparison.removed.clone() }
    }
}

/// A change in all versions that it was asked for in.
struct Changes<'a> {
    updater: &'a Updater<'a>,
    live: &'a Map,
    new: &'a Map,
    by_version: BTreeMap<String, Option<Change>>,
}

impl Changes<'_> {
    /// What changes in a version; `None` where there is no such version any more.
    fn in_version(&mut self, version: &str) -> Result<Option<&Change>, String> {
        if !self.by_version.contains_key(version) {
            let change = self.compare(version)?;
            self.by_version.insert(version.to_owned(), change);
        }
        Ok(self.by_version.get(version).and_then(Option::as_ref))
    }

    fn compare(&self, version: &str) -> Result<Option<Change>, String> {
        let updater = self.updater;
        let Some(ty) = updater.versions.type_of(version) else { return Ok(None) };
        let mut converted = Vec::with_capacity(2);
        for (what, object) in [("old", self.live), ("new", self.new)] {
            match updater.convert(&updater.versioned(object), version) {
                Ok(object) => converted.push(object),
                Err(Unconverted::Missing) => return Ok(None),
                Err(Unconverted::Failed(why)) => return Err(format!("failed to convert {what} object: {why}")),
            }
        }
        let [live, new] = converted.as_slice() else { return Ok(None) };
        let comparison = Comparison::of(&live.object, &new.object, ty);
        Ok(Some(Change::of(&comparison.excluding(&updater.reset(version)))))
    }
}
