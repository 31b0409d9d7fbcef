//! Who waits to be chosen for. Whoever has its turn does the writes of all in the line.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::frame::ObjectKey;

/// The requests that wait to be chosen for; of each, whether it is left to its own turn since a write of it failed.
#[derive(Debug, Default)]
pub(super) struct Line(Mutex<BTreeMap<ObjectKey, bool>>);

/// A request's place in the line; out of it when dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    line: &'a Line,
    key: &'a ObjectKey,
}

impl Line {
    /// Has a request wait, until its place is dropped.
    pub(super) fn enter<'a>(&'a self, key: &'a ObjectKey) -> Place<'a> {
        self.lock().insert(key.clone(), false);
        Place { line: self, key }
    }

    /// Whom the turn of this request serves: itself, and all that wait but those whose write failed.
    pub(super) fn served_with(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        let line = self.lock();
        line.iter().filter(|(other, failed)| *other == key || !**failed).map(|(other, _)| other.clone()).collect()
    }

    /// Leaves a request that waits to its own turn.
    pub(super) fn leave_out(&self, key: &ObjectKey) {
        if let Some(failed) = self.lock().get_mut(key) {
            *failed = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.lock().remove(self.key);
    }
}
