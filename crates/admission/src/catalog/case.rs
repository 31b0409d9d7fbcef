//! One write, read: of which kind it is, what it changes, and what is to be done about it.

use allotment_api::catalog::{
    CloudProfileSpec, FINALIZER, GROUP, PrivateCloudProfileSpec, PrivateCloudProfileStatus, REMOVED_VERSIONS,
    RemovedVersion, ShootSpec,
};
use allotment_core::catalog::{reference, removed_versions, written};
use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::Value;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::changes::Changes;
use super::facts::{Facts, Lookup};
use super::private::{self, Private};
use super::{cloud, shoot};
use crate::review::{Caller, Config, Denial, Operation};

const PRIVATE: &str = "PrivateCloudProfile";
/// Why a final object is refused that nobody put right before.
const UNMADE: &str = "it is not as the platform makes every object of its kind (finalizer allotment.dev/catalog, annotation \
     allotment.dev/removed-versions as it was, one way of naming the profile): the MutatingWebhookConfiguration of the \
     platform is missing or overruled; ask its operator";

/// A write of one of the catalog's kinds.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// What is done.
    pub operation: Operation,
    /// Kind of the object.
    pub kind: &'a str,
    /// The subresource written; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty for CloudProfiles.
    pub namespace: &'a str,
    /// Name; empty on a create with `generateName`.
    pub name: &'a str,
    /// The object as it would be stored; null on delete.
    pub object: &'a Value,
    /// The object as it is stored; null on create.
    pub old: &'a Value,
    /// Who writes.
    pub caller: &'a Caller,
    /// When.
    pub now: Timestamp,
}

/// When it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the schema: the object may be changed.
    Mutate,
    /// Once the object is final.
    Validate,
    /// Once it is known to be stored as it is, but for what follows from it.
    Complete,
}

/// Whether writes of that kind are judged here.
pub fn is_judged(group: &str, kind: &str) -> bool {
    group == GROUP && matches!(kind, "CloudProfile" | PRIVATE | "Shoot")
}

/// A write, read.
#[derive(Debug)]
pub struct Case<'a> {
    pub(super) write: &'a Write<'a>,
    /// Whether the caller is held to nothing that roles give.
    pub(super) platform: bool,
    /// Whether the deletion of what is stored has begun.
    is_going: bool,
    subject: Subject,
}

/// What is written. Where the object cannot be read, why.
#[derive(Debug)]
enum Subject {
    Cloud(Result<Box<Pair<CloudProfileSpec>>, FieldError>),
    Private(Result<Box<Private>, FieldError>),
    Shoot(Result<Box<Pair<ShootSpec>>, FieldError>),
    /// Its spec stays as it is.
    Unchanged,
    /// Its spec has no part in how it has to be changed, and was not read.
    Unread,
    /// It is to go.
    Deletion,
}

/// A spec, and what was stored.
#[derive(Debug)]
pub(super) struct Pair<S> {
    pub(super) new: S,
    /// `None` for a create, and where what was stored cannot be read.
    pub(super) old: Option<S>,
    /// Why what was stored cannot be read.
    unread: Option<FieldError>,
}

impl<S: DeserializeOwned> Pair<S> {
    fn read(write: &Write<'_>) -> Result<Self, FieldError> {
        let new = read(write.object)?;
        let (old, unread) = match (!write.old.is_null()).then(|| read(write.old)).transpose() {
            Ok(old) => (old, None),
            Err(error) => (None, Some(error)),
        };
        Ok(Pair { new, old, unread })
    }

    /// The spec alone, as it is judged to be right.
    fn read_new(write: &Write<'_>) -> Result<Self, FieldError> {
        Ok(Pair { new: read(write.object)?, old: None, unread: None })
    }
}

fn read<S: DeserializeOwned>(object: &Value) -> Result<S, FieldError> {
    let text = object.get("spec").filter(|spec| !spec.is_null()).map_or_else(|| b"{}".to_vec(), Value::to_vec);
    serde_json::from_slice(&text).map_err(|error| {
        let detail = error.to_string();
        // Places in a text that nobody has seen say nothing.
        let detail = detail.split(" at line ").next().unwrap_or_default().to_owned();
        FieldError::invalid(&Path::new("spec"), ShownValue::raw("object"), detail)
    })
}

impl<'a> Case<'a> {
    /// Reads a write that is to be judged; nothing where there is nothing to be done about it.
    ///
    /// # Errors
    /// The caller may not write that at all.
    pub fn read(config: &Config, write: &'a Write<'a>) -> Result<Option<Self>, Denial> {
        Case::read_by(config, write, Subject::read)
    }

    /// Reads of a write what its changes hang on ([`Stage::Mutate`]). It is not judged by that.
    ///
    /// # Errors
    /// As [`Case::read`].
    pub fn read_to_change(config: &Config, write: &'a Write<'a>) -> Result<Option<Self>, Denial> {
        Case::read_by(config, write, |write| match (write.kind, write.operation) {
            // Of what is new nothing has expired before, and of a CloudProfile the platform takes that out alone.
            ("CloudProfile", _) | (PRIVATE, Operation::Create) => Subject::Unread,
            _ => Subject::read(write),
        })
    }

    fn read_by(
        config: &Config,
        write: &'a Write<'a>,
        read: impl FnOnce(&Write<'_>) -> Subject,
    ) -> Result<Option<Self>, Denial> {
        if !is_judged(GROUP, write.kind) || config.is_own(write.caller) {
            return Ok(None);
        }
        let platform = config.is_platform(write.caller);
        if !write.subresource.is_empty() {
            let (what, kind) = (write.subresource, write.kind);
            let why = format!("{what} of {kind} is written by the platform only: leave it out, and change the spec");
            return if platform || write.operation == Operation::Delete {
                Ok(None)
            } else {
                Err(Denial::Forbidden(why))
            };
        }
        let is_going = write.old.at(&["metadata", "deletionTimestamp"]).is_some();
        let subject = match write.operation {
            Operation::Delete => Subject::Deletion,
            Operation::Update if write.object.get("spec") == write.old.get("spec") => Subject::Unchanged,
            Operation::Create | Operation::Update => read(write),
        };
        Ok(Some(Case { write, platform, is_going, subject }))
    }

    /// The same of a write that was judged, whoever writes; nothing where nothing follows from it.
    pub fn read_to_complete(write: &'a Write<'a>) -> Option<Self> {
        let changes = match write.operation {
            Operation::Create => true,
            Operation::Update => write.object.get("spec") != write.old.get("spec"),
            Operation::Delete => false,
        };
        let is_stored = write.kind == PRIVATE && write.subresource.is_empty();
        let subject = || Subject::Private(Pair::read_new(write).map(|pair| Box::new(Private::new(pair, Vec::new()))));
        (changes && is_stored).then(|| Case { write, platform: true, is_going: false, subject: subject() })
    }

    /// The status that a private profile gets by the write itself.
    pub fn status(&self, facts: &Facts) -> Option<PrivateCloudProfileStatus> {
        match &self.subject {
            Subject::Private(Ok(private)) => private.status(self, facts),
            _ => None,
        }
    }

    /// What has to be looked up before [`Case::changes`], [`Case::judge`] or [`Case::status`] may be asked, as far as is known by now.
    pub fn wants(&self, stage: Stage, facts: &Facts) -> Vec<Lookup> {
        let mut wanted = match &self.subject {
            Subject::Private(Ok(private)) => private.wants(self, stage, facts),
            Subject::Cloud(Ok(pair)) if stage == Stage::Validate => cloud::wants(self, pair, facts),
            Subject::Shoot(Ok(pair)) if stage == Stage::Validate => shoot::wants(pair, facts),
            _ => Vec::new(),
        };
        if stage == Stage::Validate && (self.is_deletion() || self.is_let_go()) {
            wanted.extend(facts.lacking(match self.write.kind {
                "CloudProfile" => Some(Lookup::Family(self.name().to_owned())),
                PRIVATE => Some(Lookup::Users(self.name().to_owned())),
                _ => None,
            }));
        }
        wanted
    }

    /// Whether it is to go. What is looked up for that is told, and decides nothing.
    pub fn is_deletion(&self) -> bool {
        matches!(self.subject, Subject::Deletion)
    }

    /// Whether what waits for its users is to wait no longer.
    fn is_let_go(&self) -> bool {
        self.is_going
            && self.write.kind != "Shoot"
            && has_finalizer(self.write.old)
            && !has_finalizer(self.write.object)
    }

    /// How the object has to be changed.
    pub fn changes(&self, facts: &Facts) -> Changes {
        let mut changes = self.required();
        if self.is_deletion() {
            return changes;
        }
        if self.write.kind == PRIVATE {
            self.put_removed(facts, &mut changes);
        }
        if let Subject::Private(Ok(private)) = &self.subject {
            changes.take_out(&private.over(self, facts));
        }
        changes
    }

    /// Those of the changes without which nothing is stored, since others rely on them.
    fn required(&self) -> Changes {
        let mut changes = Changes::default();
        if self.is_deletion() {
            return changes;
        }
        if self.write.kind != "Shoot" {
            // What goes gets nothing more that holds it up.
            changes.finalizer = !self.is_going && !has_finalizer(self.write.object);
        }
        if let Subject::Shoot(Ok(pair)) = &self.subject {
            // What is wrong with a reference is told of the final object.
            let meant = reference(&pair.new, pair.old.as_ref()).ok().map(|meant| written(&meant));
            changes.reference = meant.filter(|(reference, legacy)| {
                pair.new.cloud_profile.as_ref() != Some(reference) || pair.new.cloud_profile_name != *legacy
            });
        }
        changes
    }

    /// Whether the write may go on, with warnings for the caller.
    ///
    /// # Errors
    /// It may not.
    pub fn judge(&self, facts: &Facts) -> Result<Vec<String>, Denial> {
        if self.is_deletion() {
            let waits = |used: String| format!("{used}: it goes when the last of them is gone");
            return Ok(self.users(facts).map(waits).into_iter().collect());
        }
        let mut warnings: Vec<String> = self.check_stored()?.into_iter().collect();
        if !self.required().is_empty() || !self.is_removed_right(facts) {
            return Err(Denial::Forbidden(UNMADE.to_owned()));
        }
        warnings.extend(self.check_let_go(facts)?);
        warnings.extend(match &self.subject {
            Subject::Cloud(Ok(pair)) => cloud::judge(self, pair, facts)?,
            Subject::Private(Ok(private)) => private.judge(self, facts)?,
            Subject::Shoot(Ok(pair)) => shoot::judge(self, pair, facts)?,
            _ => Vec::new(),
        });
        Ok(warnings)
    }

    /// That what is written can be read, and what it changes.
    fn check_stored(&self) -> Result<Option<String>, Denial> {
        let unread = match &self.subject {
            Subject::Cloud(Err(error)) | Subject::Private(Err(error)) | Subject::Shoot(Err(error)) => {
                return Err(Denial::Invalid(vec![error.clone()]));
            }
            Subject::Cloud(Ok(pair)) => &pair.unread,
            Subject::Private(Ok(private)) => &private.pair.unread,
            Subject::Shoot(Ok(pair)) => &pair.unread,
            Subject::Unchanged | Subject::Deletion => &None,
            // Nobody judges what was not read.
            Subject::Unread => return Err(Denial::Forbidden(UNMADE.to_owned())),
        };
        let Some(error) = unread else { return Ok(None) };
        let what = format!("what is stored cannot be read ({}), so it is not known what this changes", error.detail);
        if self.platform {
            return Ok(Some(format!("spec: {what}: it was judged as if it were new")));
        }
        let detail = format!("{what}: ask an operator of the platform to put it right");
        Err(Denial::Invalid(vec![FieldError::forbidden(&Path::new("spec"), detail)]))
    }

    /// That nobody takes the finalizer off what is in use; an administrator is told what it means.
    fn check_let_go(&self, facts: &Facts) -> Result<Option<String>, Denial> {
        let Some(used) = self.is_let_go().then(|| self.users(facts)).flatten() else { return Ok(None) };
        if self.platform {
            return Ok(Some(format!("{used}, and without finalizer {FINALIZER} it goes in spite of that")));
        }
        Err(Denial::Forbidden(format!(
            "metadata.finalizers: {used}: its deletion waits, and the platform takes {FINALIZER} off when the last of them \
             is gone; leave it on"
        )))
    }

    /// Who uses what is written.
    fn users(&self, facts: &Facts) -> Option<String> {
        match self.write.kind {
            "CloudProfile" => cloud::users(self, facts),
            PRIVATE => private::users(self, facts),
            _ => None,
        }
    }

    /// Name of the object. That of a collection's deletion, and one that is made up, stand in the object alone.
    pub fn name(&self) -> &str {
        let named = |object: &'a Value| object.at(&["metadata", "name"]).and_then(Value::as_str);
        match self.write.name {
            "" => named(self.write.old).or_else(|| named(self.write.object)).unwrap_or_default(),
            name => name,
        }
    }

    /// Has the annotation of removed versions say what it said, and what this write takes out since it expired.
    fn put_removed(&self, facts: &Facts, changes: &mut Changes) {
        let (have, had) = (removed_text(self.write.object), removed_text(self.write.old));
        let gone = self.gone(facts, true);
        let meant = match gone.is_empty() {
            true => had.map(str::to_owned),
            false => serde_json::to_string(&removed_versions(&removed_list(had), &gone)).ok(),
        };
        if have == meant.as_deref() {
            return;
        }
        if meant.is_none() {
            changes.warnings.push(format!(
                "metadata.annotations[{REMOVED_VERSIONS}] is written by the platform only, and was left out: nothing was \
                 taken out of this PrivateCloudProfile"
            ));
        }
        changes.removed = Some(meant);
    }

    /// Whether the annotation says what it said, and no more than what this write takes out. At what time that was seen first
    /// is left open, and who came to use it since.
    fn is_removed_right(&self, facts: &Facts) -> bool {
        let (have, had) = (removed_text(self.write.object), removed_text(self.write.old));
        if have == had || self.write.kind != PRIVATE {
            return true;
        }
        let gone = self.gone(facts, false);
        let same = |left: &RemovedVersion, right: &RemovedVersion| {
            let dates = (&left.expired_at, &left.own_date) == (&right.expired_at, &right.own_date);
            dates && (&left.path, &left.version) == (&right.path, &right.version)
        };
        let (have, had) = (removed_list(have), removed_list(had));
        let added: Vec<RemovedVersion> =
            have.iter().filter(|one| gone.iter().any(|gone| same(gone, one))).cloned().collect();
        !have.is_empty() && (have == removed_versions(&had, &added) || have == overfull(&had, added, gone))
    }

    /// What this write takes out of what was stored, since it expired.
    fn gone(&self, facts: &Facts, heeds_users: bool) -> Vec<RemovedVersion> {
        match &self.subject {
            Subject::Private(Ok(private)) => private.gone(self, facts, heeds_users),
            _ => Vec::new(),
        }
    }
}

impl Subject {
    fn read(write: &Write<'_>) -> Self {
        match write.kind {
            "CloudProfile" => Subject::Cloud(Pair::read(write).map(Box::new)),
            PRIVATE => Subject::Private(
                Pair::read(write).map(|pair| Box::new(Private::new(pair, removed_list(removed_text(write.old))))),
            ),
            _ => Subject::Shoot(Pair::read(write).map(Box::new)),
        }
    }
}

/// What a private profile and what was stored of it say, for those who make its status.
pub(super) type PrivatePair = Pair<PrivateCloudProfileSpec>;

fn removed_text(object: &Value) -> Option<&str> {
    object.at(&["metadata", "annotations", REMOVED_VERSIONS]).and_then(Value::as_str)
}

/// What is noted where a write takes out more than there is room for: the first of it by path, and nothing of what went before,
/// though that might fit beside them. By `added` it is known how many these are; of the rest it is enough that one does not fit.
fn overfull(had: &[RemovedVersion], mut added: Vec<RemovedVersion>, gone: Vec<RemovedVersion>) -> Vec<RemovedVersion> {
    let Some(last) = added.iter().max_by(|left, right| left.path.cmp(&right.path)).cloned() else { return Vec::new() };
    let rest = gone.into_iter().filter(|one| one.path > last.path);
    let longest = rest.max_by_key(|one| one.path.len() + one.version.len() + one.expired_at.text().len());
    let Some(longest) = longest else { return Vec::new() };
    added.push(RemovedVersion { removed_at: last.removed_at, ..longest });
    removed_versions(had, &added)
}

/// What the annotation says; nothing where it cannot be read.
fn removed_list(text: Option<&str>) -> Vec<RemovedVersion> {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn has_finalizer(object: &Value) -> bool {
    let finalizers = object.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or_default();
    finalizers.iter().any(|one| one.as_str() == Some(FINALIZER))
}
