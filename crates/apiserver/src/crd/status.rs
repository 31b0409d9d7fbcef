//! What the status of a definition says.

use std::collections::BTreeSet;

use allotment_machinery::json::Map;

/// The finalizer that keeps a definition until its instances are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Names that other kinds of the same group have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamesInUse {
    /// Plurals, singulars and short names.
    pub resources: BTreeSet<String>,
    /// Kinds and list kinds.
    pub kinds: BTreeSet<String>,
}

/// Sets accepted names, conditions and stored versions of a definition before it is written. `now` is an
/// RFC 3339 time in seconds. Returns whether the kind is served after the write.
pub fn establish(_definition: &mut Map, _others: &NamesInUse, _now: &str) -> bool {
    true
}

/// Sets the condition Terminating of a definition that is being deleted. `message` says how far it is.
pub fn terminate(_definition: &mut Map, _reason: &str, _message: &str, _now: &str) {}
