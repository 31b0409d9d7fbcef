//! A kind's strategy as data: what is particular about it in a few flags and functions, so that a kind more
//! is a row more. What all kinds with a status have in common, status set by `/status` alone, stands here.

pub(super) mod addresses;
pub(super) mod balancer;
pub(super) mod checks;
mod errors;
#[cfg(test)]
pub(super) mod judged;
pub(super) mod look;

use std::fmt;

use allotment_machinery::field::FieldError;
use allotment_machinery::json::{Map, Value};
use jiff::Timestamp;

use crate::builtin::types;
use crate::builtin::types::shape;
use crate::registry::{MetadataChecks, NameRule, Operation, Strategy, Warnings};

pub(crate) use errors::Errors;

/// Of a kind that judges new metadata by itself too when an object changes.
pub(crate) const WHOLE_TOO: MetadataChecks = MetadataChecks { change: 1, whole: 1, core: true };

/// Judges the change from the first to the second.
pub(crate) type ChangeCheck = fn(&Map, &Map, &mut Errors);

/// The particulars of a kind. [`Rules::of`] has those of a plain one.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Its message in the type table.
    pub(crate) message: &'static str,
    /// How names have to look.
    pub(crate) names: NameRule,
    /// Whether a new object without a name is called by a UID.
    pub(crate) names_itself: bool,
    /// Whether `metadata.generation` counts changes.
    pub(crate) counts: bool,
    /// A member of metadata whose changes are counted as well.
    pub(crate) counts_metadata: Option<&'static str>,
    /// What is said where dependents are orphaned unasked.
    pub(crate) orphans_unasked: Option<&'static str>,
    /// Whether deletes answer an object whose deletion had begun.
    pub(crate) ends_gracefully: bool,
    /// Whether a PUT of an absent name creates.
    pub(crate) creates_on_update: bool,
    /// Whether a PUT needs no resource version.
    pub(crate) unconditional: bool,
    /// Whether the kind's own validation of a new object includes its metadata.
    pub(crate) judges_metadata: bool,
    /// How often metadata is judged.
    pub(crate) metadata: MetadataChecks,
    /// Whether a delete answers the object.
    pub(crate) answers_object: bool,
    /// Whether faults of the change itself are told before those of the object.
    pub(crate) change_first: bool,
    /// Whether a new object keeps the status that it comes with.
    pub(crate) born_with_status: bool,
    /// What is set beyond types and table when a body is decoded.
    pub(crate) default: fn(&mut Map),
    /// What the server sets and keeps, after the status has been.
    pub(crate) prepare: fn(Operation<'_>, &mut Map),
    /// What is wrong with a new object, or with a changed one as such.
    pub(crate) validate: fn(&Map, &mut Errors),
    /// What is wrong with a new object, besides that.
    pub(crate) validate_new: fn(&Map, &mut Errors),
    /// What is wrong with the change from the first to the second, besides what [`Rules::validate`] finds.
    pub(crate) validate_change: fn(&Map, &Map, &mut Errors),
    /// What is wrong with a change that a subresource of its own makes, instead of what [`Rules::validate_change`] finds.
    pub(crate) parts: &'static [(&'static str, ChangeCheck)],
    /// What is wrong with a status, with the object before.
    pub(crate) validate_status: fn(&Map, &Map, &mut Errors),
    /// What the client is warned of.
    pub(crate) warn: fn(Operation<'_>, &Map) -> Warnings,
    /// The cells of tables.
    pub(crate) cells: Option<fn(&Map, Timestamp) -> Vec<Value>>,
    /// Values of field selectors that are not simply found.
    pub(crate) select: fn(&Map, &str) -> Option<String>,
    /// What is said of a field that selectors cannot ask for.
    pub(crate) unselectable: fn(&str) -> String,
    /// What a bookmark of the kind shows besides what its type always has.
    pub(crate) bookmark: fn(&mut Map),
}

impl Rules {
    /// A kind without particulars whose objects are `message`s: subdomains as names, every PUT taken,
    /// nothing checked.
    pub(crate) const fn of(message: &'static str) -> Self {
        Rules {
            message,
            names: NameRule::Subdomain,
            names_itself: false,
            counts: false,
            counts_metadata: None,
            orphans_unasked: None,
            ends_gracefully: false,
            creates_on_update: false,
            unconditional: true,
            judges_metadata: true,
            metadata: MetadataChecks { change: 1, whole: 0, core: true },
            answers_object: false,
            change_first: false,
            born_with_status: false,
            default: |_| {},
            prepare: |_, _| {},
            validate: |_, _| {},
            validate_new: |_, _| {},
            validate_change: |_, _, _| {},
            parts: &[],
            validate_status: |_, _, _| {},
            warn: |_, _| Warnings::default(),
            cells: None,
            select: |_, _| None,
            unselectable: |field| format!("field label not supported: {field}"),
            bookmark: |_| {},
        }
    }

    /// The same particulars for another message.
    pub(crate) const fn as_message(self, message: &'static str) -> Self {
        Rules { message, ..self }
    }

    /// New objects have no status yet; only `/status` changes it.
    fn keep_status(&self, operation: Operation<'_>, object: &mut Map) {
        let kept = match operation {
            Operation::Create if self.born_with_status && object.get("status").is_some() => return,
            Operation::Create => types::message(self.message).and_then(|message| shape::empty(message, "status")),
            Operation::Update { old, subresource: "" | "scale" } => old.get("status").cloned(),
            Operation::Update { .. } => return,
        };
        match kept {
            Some(status) => object.insert("status", status),
            None => object.remove("status"),
        };
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("message", &self.message).finish_non_exhaustive()
    }
}

impl Strategy for Rules {
    fn name_rule(&self) -> NameRule {
        self.names
    }

    fn names_itself(&self) -> bool {
        self.names_itself
    }

    fn counts_generation(&self) -> bool {
        self.counts
    }

    fn counts_metadata(&self) -> Option<&'static str> {
        self.counts_metadata
    }

    fn orphans_unasked(&self) -> Option<&'static str> {
        self.orphans_unasked
    }

    fn ends_gracefully(&self) -> bool {
        self.ends_gracefully
    }

    fn creates_on_update(&self) -> bool {
        self.creates_on_update
    }

    fn updates_unconditionally(&self) -> bool {
        self.unconditional
    }

    fn validates_metadata(&self) -> bool {
        self.judges_metadata
    }

    fn metadata_checks(&self) -> MetadataChecks {
        self.metadata
    }

    fn default(&self, object: &mut Map) {
        (self.default)(object);
    }

    fn prepare(&self, operation: Operation<'_>, object: &mut Map) {
        self.keep_status(operation, object);
        (self.prepare)(operation, object);
    }

    fn validate(&self, operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        let mut errors = Errors::default();
        match operation {
            Operation::Create => {
                (self.validate)(object, &mut errors);
                (self.validate_new)(object, &mut errors);
            }
            Operation::Update { old, subresource: "status" } => (self.validate_status)(old, object, &mut errors),
            Operation::Update { old, .. } if self.change_first => {
                (self.validate_change)(old, object, &mut errors);
                (self.validate)(object, &mut errors);
            }
            Operation::Update { old, subresource } => {
                (self.validate)(object, &mut errors);
                let part = self.parts.iter().find(|(name, _)| *name == subresource).map(|(_, validate)| *validate);
                part.unwrap_or(self.validate_change)(old, object, &mut errors);
            }
        }
        errors.into_vec()
    }

    fn warnings(&self, operation: Operation<'_>, object: &Map) -> Warnings {
        (self.warn)(operation, object)
    }

    fn cells(&self, object: &Map, now: Timestamp) -> Option<Vec<Value>> {
        self.cells.map(|cells| cells(object, now))
    }

    fn selected_field(&self, object: &Map, field: &str) -> Option<String> {
        (self.select)(object, field)
    }

    fn unselectable(&self, field: &str) -> String {
        (self.unselectable)(field)
    }

    fn fill_bookmark(&self, object: &mut Map) {
        (self.bookmark)(object);
    }

    fn delete_answers_object(&self) -> bool {
        self.answers_object
    }
}
