//! One write, read: of which kind it is, what it changes, and what is to be done about it.

use allotment_api::catalog::{
    CloudProfileSpec, FINALIZER, GROUP, PrivateCloudProfileSpec, PrivateCloudProfileStatus, REMOVED_VERSIONS,
    RemovedVersion, ShootSpec,
};
use allotment_core::catalog::{reference, written};
use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::Value;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::changes::Changes;
use super::facts::{Facts, Lookup};
use super::{cloud, private, shoot};
use crate::review::{Caller, Config, Denial, Operation};

const PRIVATE: &str = "PrivateCloudProfile";
/// Why a final object is refused that nobody put right before.
const UNMADE: &str = "it lacks what the platform puts into every object of its kind (finalizer allotment.dev/catalog, one way of \
     naming the profile); the MutatingWebhookConfiguration of the platform is missing or overruled";

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
    subject: Subject,
}

/// What is written. Where the object cannot be read, why.
#[derive(Debug)]
enum Subject {
    Cloud(Result<Box<Pair<CloudProfileSpec>>, FieldError>),
    Private(Result<Box<private::Private>, FieldError>),
    Shoot(Result<Box<Pair<ShootSpec>>, FieldError>),
    /// Its spec stays as it is.
    Unchanged,
    /// It is to go.
    Deletion,
}

/// A spec, and what was stored.
#[derive(Debug)]
pub(super) struct Pair<S> {
    pub(super) new: S,
    /// `None` for a create, and where what was stored cannot be read.
    pub(super) old: Option<S>,
}

impl<S: DeserializeOwned> Pair<S> {
    fn read(write: &Write<'_>) -> Result<Self, FieldError> {
        Ok(Pair { new: read(write.object)?, old: (!write.old.is_null()).then(|| read(write.old).ok()).flatten() })
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
    /// Reads a write; nothing where there is nothing to be done about it.
    ///
    /// # Errors
    /// The caller may not write that at all.
    pub fn read(config: &Config, write: &'a Write<'a>) -> Result<Option<Self>, Denial> {
        if !is_judged(GROUP, write.kind) || config.is_own(write.caller) {
            return Ok(None);
        }
        let platform = config.is_platform(write.caller);
        if !write.subresource.is_empty() {
            let why = format!("{} of {} is written by the platform only", write.subresource, write.kind);
            return if platform || write.operation == Operation::Delete {
                Ok(None)
            } else {
                Err(Denial::Forbidden(why))
            };
        }
        let is_going = write.old.at(&["metadata", "deletionTimestamp"]).is_some();
        let subject = match write.operation {
            Operation::Delete => Subject::Deletion,
            Operation::Update if is_going => return Ok(None),
            Operation::Update if write.object.get("spec") == write.old.get("spec") => Subject::Unchanged,
            Operation::Create | Operation::Update => Subject::read(write),
        };
        Ok(Some(Case { write, platform, subject }))
    }

    /// The same of a write that was judged, whoever writes; nothing where nothing follows from it.
    pub fn read_to_complete(write: &'a Write<'a>) -> Option<Self> {
        let changes = match write.operation {
            Operation::Create => true,
            Operation::Update => write.object.get("spec") != write.old.get("spec"),
            Operation::Delete => false,
        };
        let is_stored = write.kind == PRIVATE && write.subresource.is_empty();
        (changes && is_stored).then(|| Case { write, platform: true, subject: Subject::read(write) })
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
        match &self.subject {
            Subject::Private(Ok(private)) => private.wants(self, stage, facts),
            Subject::Cloud(Ok(pair)) if stage == Stage::Validate => cloud::wants(self, pair, facts),
            Subject::Shoot(Ok(pair)) if stage == Stage::Validate => shoot::wants(pair, facts),
            Subject::Deletion if stage == Stage::Validate => facts.lacking(match self.write.kind {
                "CloudProfile" => Some(Lookup::Family(self.name().to_owned())),
                PRIVATE => Some(Lookup::Users(self.name().to_owned())),
                _ => None,
            }),
            _ => Vec::new(),
        }
    }

    /// How the object has to be changed.
    ///
    /// # Errors
    /// It says what the platform alone may say.
    pub fn changes(&self, facts: &Facts) -> Result<Changes, Denial> {
        let mut changes = Changes::default();
        if matches!(self.subject, Subject::Deletion) {
            return Ok(changes);
        }
        if self.write.kind != "Shoot" {
            changes.finalizer = !has_finalizer(self.write.object);
        }
        if self.write.kind == PRIVATE {
            changes.removed = self.removed_to_put_back()?;
        }
        match &self.subject {
            Subject::Private(Ok(private)) => changes.take_out(&private.over(self, facts)),
            Subject::Shoot(Ok(pair)) => {
                // What is wrong with a reference is told of the final object.
                let meant = reference(&pair.new, pair.old.as_ref()).ok().map(|meant| written(&meant));
                changes.reference = meant.filter(|(reference, legacy)| {
                    pair.new.cloud_profile.as_ref() != Some(reference) || pair.new.cloud_profile_name != *legacy
                });
            }
            _ => {}
        }
        Ok(changes)
    }

    /// Whether the write may go on, with warnings for the caller.
    ///
    /// # Errors
    /// It may not.
    pub fn judge(&self, facts: &Facts) -> Result<Vec<String>, Denial> {
        match &self.subject {
            Subject::Cloud(Err(error)) | Subject::Private(Err(error)) | Subject::Shoot(Err(error)) => {
                return Err(Denial::Invalid(vec![error.clone()]));
            }
            Subject::Deletion if self.write.kind == "CloudProfile" => return Ok(cloud::warn_of_users(self, facts)),
            Subject::Deletion => return Ok(private::warn_of_users(self, facts)),
            Subject::Cloud(Ok(_)) | Subject::Private(Ok(_)) | Subject::Shoot(Ok(_)) | Subject::Unchanged => {}
        }
        if !self.changes(facts)?.are_made() {
            return Err(Denial::Forbidden(UNMADE.to_owned()));
        }
        match &self.subject {
            Subject::Cloud(Ok(pair)) => cloud::judge(self, pair, facts),
            Subject::Private(Ok(private)) => private.judge(self, facts),
            Subject::Shoot(Ok(pair)) => shoot::judge(self, pair, facts),
            _ => Ok(Vec::new()),
        }
    }

    /// Name of the object; that of a collection's deletion stands in the object alone.
    pub(super) fn name(&self) -> &str {
        let stored = self.write.old.at(&["metadata", "name"]).and_then(Value::as_str);
        if self.write.name.is_empty() { stored.unwrap_or_default() } else { self.write.name }
    }

    /// What the annotation of removed versions was, where the write changes it.
    fn removed_to_put_back(&self) -> Result<Option<String>, Denial> {
        let (have, had) = (removed_text(self.write.object), removed_text(self.write.old));
        match (have, had) {
            (Some(_), None) => Err(Denial::Forbidden(format!(
                "metadata.annotations[{REMOVED_VERSIONS}] is written by the platform only: leave it out"
            ))),
            (have, Some(had)) if have != Some(had) => Ok(Some(had.to_owned())),
            _ => Ok(None),
        }
    }
}

impl Subject {
    fn read(write: &Write<'_>) -> Self {
        match write.kind {
            "CloudProfile" => Subject::Cloud(Pair::read(write).map(Box::new)),
            PRIVATE => Subject::Private(Pair::read(write).map(|pair| {
                let removed =
                    removed_text(write.old).and_then(|text| serde_json::from_str::<Vec<RemovedVersion>>(text).ok());
                Box::new(private::Private { pair, removed: removed.unwrap_or_default() })
            })),
            _ => Subject::Shoot(Pair::read(write).map(Box::new)),
        }
    }
}

/// What a private profile and what was stored of it say, for those who make its status.
pub(super) type PrivatePair = Pair<PrivateCloudProfileSpec>;

fn removed_text(object: &Value) -> Option<&str> {
    object.at(&["metadata", "annotations", REMOVED_VERSIONS]).and_then(Value::as_str)
}

fn has_finalizer(object: &Value) -> bool {
    let finalizers = object.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or_default();
    finalizers.iter().any(|one| one.as_str() == Some(FINALIZER))
}
