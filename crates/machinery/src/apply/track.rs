//! What a write does to an object's managers, from the request to `managedFields`.
//!
//! Follows `k8s.io/apimachinery/pkg/util/managedfields`: fields that nobody owns, the managers' times, the
//! objects that were written before anybody was tracked, `kubectl`'s move from its own kind of apply.

use std::sync::LazyLock;

use super::compare::Comparison;
use super::found::fields_of;
use super::managers::{Managed, ManagerId, Managers};
use super::scalar;
use super::set::FieldSet;
use super::types::TypeRef;
use super::update::{Conflict, Conflicts, UpdateError, Updater, Versions};
use super::validate::{Duplicates, validate};
use crate::json::{self, Map, Value};
use crate::object::{metadata_mut, metadata_str};

/// The manager to which the fields of an object belong that nobody was tracked for when it is first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager whose client-side apply is known by an annotation.
const KUBECTL: &str = "kubectl";
/// The annotation in which kubectl keeps what it applied by itself.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The most that annotations may hold together, in bytes (`TotalAnnotationSizeLimitB`).
const MAX_ANNOTATIONS: usize = 256 * 1024;
/// Who has no name.
const UNKNOWN: &str = "unknown";

/// Fields that nobody owns: they say which object it is, or are the server's.
static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_members([
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ])
});

/// A write and where it goes.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The kind, as the endpoint sees it.
    pub versions: &'a dyn Versions,
    /// The version written: `apps/v1`.
    pub api_version: &'a str,
    /// The subresource written to, or empty.
    pub subresource: &'a str,
    /// Who writes; empty for somebody without a name.
    pub manager: &'a str,
    /// The time, as RFC 3339 in seconds of UTC.
    pub now: &'a str,
}

/// What an apply makes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The object, without `managedFields`.
    pub object: Map,
    /// Whether it is another one than before.
    pub changed: bool,
    /// Who owns what from now on.
    pub managers: Managers,
}

/// Puts `managedFields` into an object, or takes them out where nobody owns anything.
pub fn set_managers(object: &mut Map, managers: &Managers) {
    let Some(metadata) = metadata_mut(object) else { return };
    match managers.encode() {
        Some(entries) => metadata.insert("managedFields", entries),
        None => metadata.remove("managedFields"),
    };
}

impl<'a> Writer<'a> {
    fn updater(&self) -> Updater<'a> {
        Updater { versions: self.versions, version: self.api_version }
    }

    fn name(&self) -> &'a str {
        if self.manager.is_empty() { UNKNOWN } else { self.manager }
    }

    /// Who owns what after a create, an update or a patch has made `new` of `live`. `managers` are those
    /// before; where there are none and `live` is a stored object, none are begun with. Neither object
    /// contains `managedFields`.
    ///
    /// # Errors
    /// Why the objects cannot be compared. Managers are then best forgotten.
    pub fn update(&self, live: &Map, new: &Map, managers: Managers) -> Result<Managers, UpdateError> {
        let stored = metadata_str(live, "uid").is_some_and(|uid| !uid.is_empty());
        if managers.is_empty() && stored {
            return Ok(managers);
        }
        self.track(live, new, managers, self.name())
    }

    fn track(&self, live: &Map, new: &Map, mut managers: Managers, name: &str) -> Result<Managers, UpdateError> {
        let updater = self.updater();
        let ty = updater.own_type()?;
        for (what, object) in [("new", new), ("live", live)] {
            validate(object, ty, Duplicates::Allowed).map_err(|error| {
                let shown = self.shown(object);
                UpdateError::Failed(format!("failed to convert {what} object ({shown}) to smd typed: {error}"))
            })?;
        }
        let fields = updater.update(live, new, &mut managers)?.into_difference(&UNOWNED);
        if !fields.is_empty() {
            let id = ManagerId::updater(name, self.api_version, self.subresource);
            let fields = match managers.get(&id) {
                Some(before) => fields.union(&before.fields),
                None => fields,
            };
            let time = Some(self.now.to_owned());
            managers.insert(id, Managed { fields, api_version: self.api_version.to_owned(), time });
        }
        managers.merge_old_updates();
        Ok(managers)
    }

    /// What applying `config` makes of `live`, whose managers are `managers`; `empty` is an object of the
    /// kind of which nothing is said. None of them contains `managedFields`. With `force`, fields are taken
    /// from whoever owns them.
    ///
    /// # Errors
    /// Conflicts with other managers, or a configuration that is not of the type.
    pub fn apply(
        &self,
        live: &Map,
        empty: &Map,
        config: &Map,
        managers: Managers,
        force: bool,
    ) -> Result<Applied, UpdateError> {
        let managers = if managers.is_empty() {
            let managers = self.track(empty, live, managers, BEFORE_FIRST_APPLY);
            managers.map_err(|error| {
                UpdateError::Failed(format!("failed to create manager for existing fields: {error}"))
            })?
        } else {
            managers
        };
        let mut applied = match self.apply_once(live, config, managers.clone(), force) {
            Err(UpdateError::Conflicts(conflicts)) if self.manager == KUBECTL => {
                let left = self.without_last_applied(live, conflicts);
                if !left.0.is_empty() {
                    return Err(UpdateError::Conflicts(left));
                }
                self.apply_once(live, config, managers, true)?
            }
            done => done?,
        };
        if self.manager == KUBECTL {
            renew_last_applied(&mut applied.object, config);
        }
        Ok(applied)
    }

    fn apply_once(
        &self,
        live: &Map,
        config: &Map,
        mut managers: Managers,
        force: bool,
    ) -> Result<Applied, UpdateError> {
        let updater = self.updater();
        let ty = updater.own_type()?;
        let failed = |what: &str, object: &Map, error: &dyn std::fmt::Display| {
            UpdateError::Failed(format!("failed to create typed {what} object ({}): {error}", self.shown(object)))
        };
        validate(config, ty, Duplicates::Refused).map_err(|error| failed("patch", config, &error))?;
        validate(live, ty, Duplicates::Allowed).map_err(|error| failed("live", live, &error))?;
        let id = ManagerId::applier(self.name(), self.subresource);
        let new = updater.apply(live, config, &mut managers, &id, force)?;
        if let Some(mut managed) = managers.remove(&id) {
            managed.fields = managed.fields.into_difference(&UNOWNED);
            if new.is_some() {
                managed.time = Some(self.now.to_owned());
            }
            if !managed.fields.is_empty() {
                managers.insert(id, managed);
            }
        }
        let changed = new.is_some();
        Ok(Applied { object: new.unwrap_or_else(|| live.clone()), changed, managers })
    }

    /// An object as errors name it: `default/a; apps/v1, Kind=Deployment`.
    fn shown(&self, object: &Map) -> String {
        let metadata = |field: &str| metadata_str(object, field).unwrap_or_default();
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let kind = show_kind(text("apiVersion"), text("kind"));
        format!("{}/{}; {kind}", metadata("namespace"), metadata("name"))
    }

    /// Conflicts that are not with what kubectl itself applied on its own side.
    fn without_last_applied(&self, live: &Map, conflicts: Conflicts) -> Conflicts {
        let Some(own) = self.last_applied_fields(live) else { return conflicts };
        let left: Vec<Conflict> = conflicts.0.into_iter().filter(|conflict| !own.has(&conflict.path)).collect();
        Conflicts(left)
    }

    /// The fields that kubectl applied on its own side and that still are as it applied them.
    fn last_applied_fields(&self, live: &Map) -> Option<FieldSet> {
        let ty: TypeRef<'_> = self.versions.type_of(self.api_version)?;
        let text = last_applied(live)?;
        let Ok(Value::Object(config)) = json::parse(text.as_bytes()) else { return None };
        if config.get("apiVersion").and_then(Value::as_str) != Some(self.api_version) {
            return None;
        }
        validate(live, ty, Duplicates::Refused).ok()?;
        validate(&config, ty, Duplicates::Refused).ok()?;
        let comparison = Comparison::of(&config, live, ty);
        let fields = fields_of(&config, ty);
        Some(fields.difference(&comparison.modified).difference(&comparison.added).difference(&comparison.removed))
    }
}

/// A type as the reference's errors name it: `apps/v1, Kind=Deployment`; the core group is nothing before
/// the slash.
pub fn show_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

fn last_applied(object: &Map) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(LAST_APPLIED)?.as_str().filter(|text| !text.is_empty())
}

/// Keeps kubectl's annotation, where there is one, in step with what was applied here.
fn renew_last_applied(object: &mut Map, config: &Map) {
    if last_applied(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(metadata) = config.get_mut("metadata")
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(LAST_APPLIED);
    }
    let mut text = String::new();
    scalar::write_json(&Value::Object(config), &mut text);
    text.push('\n');
    let Some(annotations) = metadata_mut(object).and_then(|metadata| metadata.object_mut("annotations")) else {
        return;
    };
    annotations.insert(LAST_APPLIED, text);
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    }
}
