//! What is particular about a kind: hooks that the generic handlers call in a fixed order, prepare →
//! default → validate → warn → canonicalise. All pure.

use std::fmt::Debug;

use allotment_machinery::field::FieldError;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names::NameRule;
use jiff::Timestamp;

use super::Warnings;

/// Which write the hooks are called for.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// A new object.
    Create,
    /// A change of `old`; `subresource` is empty for the object itself.
    Update {
        /// The object before.
        old: &'a Map,
        /// `status`, `finalize`, …
        subresource: &'a str,
    },
}

/// How often a kind's own rules judge metadata besides the rules for all kinds. Each time its faults are
/// told again, which Kubernetes' clients see as so many causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataChecks {
    /// How often a change is judged as one, old beside new.
    pub change: usize,
    /// How often new metadata is judged by itself when an object changes.
    pub whole: usize,
    /// Whether finalizers without a domain have to be standard ones.
    pub core: bool,
}

/// The hooks of a kind. Schema, pruning and defaulting by schema, metadata rules and generation are
/// generic and not repeated here.
pub trait Strategy: Debug + Send + Sync + 'static {
    /// How names have to look.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Whether a new object without a name is called by a UID.
    fn names_itself(&self) -> bool {
        false
    }

    /// Whether the kind's own validation of a new object includes its metadata. If not, they are looked at
    /// when nothing else is wrong.
    fn validates_metadata(&self) -> bool {
        true
    }

    /// Whether `metadata.generation` counts changes of what is not metadata or status.
    fn counts_generation(&self) -> bool {
        false
    }

    /// Whether a PUT of a name that is absent creates.
    fn creates_on_update(&self) -> bool {
        false
    }

    /// A member of metadata whose change counts as one of what is desired.
    fn counts_metadata(&self) -> Option<&'static str> {
        None
    }

    /// What is said to whoever deletes an object without saying what becomes of its dependents, if they are
    /// orphaned then; may be empty. `None` where they are deleted.
    fn orphans_unasked(&self) -> Option<&'static str> {
        None
    }

    /// Whether the answer to a delete shows the object as one whose deletion had begun.
    fn ends_gracefully(&self) -> bool {
        false
    }

    /// Whether a PUT without resource version is taken.
    fn updates_unconditionally(&self) -> bool {
        true
    }

    /// Whether a write of `/status` leaves metadata alone, as it does of custom kinds anyway. Otherwise
    /// labels, annotations, owners and finalizers can be written there too.
    fn status_keeps_metadata(&self) -> bool {
        false
    }

    /// How often metadata is judged: once as a change, as most kinds have it.
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks { change: 1, whole: 0, core: false }
    }

    /// Whether new objects are taken: not of a kind whose definition is being deleted.
    fn takes_new(&self) -> bool {
        true
    }

    /// Fills in what decoding does beyond the schema: defaults that depend on other members, members that
    /// are another way to write others (`stringData`). Runs on whatever a client sent, created, updated,
    /// patched or applied, before it is said who owns which field; what is filled in here, the client owns.
    fn default(&self, _object: &mut Map) {}

    /// Clears what clients may not set, keeps what they may not change, fills in what the server allocates.
    /// Nobody owns what is filled in here.
    fn prepare(&self, _operation: Operation<'_>, _object: &mut Map) {}

    /// Members, as dotted paths, that writes to `subresource` (empty for the object itself) reset whatever is
    /// sent, so that nobody comes to own them there; `None` for the usual ones: the status on the object
    /// where it has an endpoint of its own, the spec on the status.
    fn reset_fields(&self, _subresource: &str) -> Option<&'static [&'static str]> {
        None
    }

    /// What is wrong with the object beyond schema and metadata.
    fn validate(&self, _operation: Operation<'_>, _object: &Map) -> Vec<FieldError> {
        Vec::new()
    }

    /// What the client is warned of.
    fn warnings(&self, _operation: Operation<'_>, _object: &Map) -> Warnings {
        Warnings::default()
    }

    /// Brings an accepted object into its one form.
    fn canonicalise(&self, _object: &mut Map) {}

    /// The cells of the object's row in a table, one for each column; `None` to read them off the
    /// columns' JSONPaths.
    fn cells(&self, _object: &Map, _now: Timestamp) -> Option<Vec<Value>> {
        None
    }

    /// The value that field selectors compare for `field`, where it is not simply the text under that
    /// path; `None` for that.
    fn selected_field(&self, _object: &Map, _field: &str) -> Option<String> {
        None
    }

    /// What is said of a field that selectors cannot ask for, where the kind has fields of its own.
    fn unselectable(&self, field: &str) -> String {
        format!("field label not supported: {field}")
    }

    /// Puts in what the object of a bookmark shows besides what its type always has: members that are numbers in
    /// Kubernetes' internal form, where nothing is 0.
    fn fill_bookmark(&self, _object: &mut Map) {}

    /// What a successful delete answers with: the object (`true`) or a Status.
    fn delete_answers_object(&self) -> bool {
        false
    }

    /// Whether objects are stored in another form than this kind's own; then [`Strategy::to_stored`] and
    /// [`Strategy::to_shown`] turn one into the other. All other hooks see the kind's own form.
    fn stores_other_form(&self) -> bool {
        false
    }

    /// From this kind's form to the stored one.
    fn to_stored(&self, _object: &mut Map) {}

    /// From the stored form to this kind's.
    fn to_shown(&self, _object: &mut Map) {}

    /// Why the object must not be deleted by anyone: 403 with this text.
    fn refuses_deletion(&self, _object: &Map) -> Option<String> {
        None
    }

    /// Changes an object whose deletion begins, after its deletion timestamp and grace period were set:
    /// a namespace becomes Terminating and has no grace period.
    fn begin_deletion(&self, _object: &mut Map) {}

    /// Whether something besides `metadata.finalizers` holds a deletion up: `spec.finalizers` of a
    /// namespace.
    fn holds_deletion(&self, _object: &Map) -> bool {
        false
    }
}
