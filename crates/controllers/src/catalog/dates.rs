//! When profiles have to be looked at next: their dates in one order, by the clock on the wall, and one timer for the earliest of
//! them. What happens at a date is not this module's business.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::world::CatalogWorld;
use crate::frame::{ObjectKey, Seams};

/// The next date of each profile that has one.
#[derive(Debug, Default)]
pub(crate) struct Dates {
    book: Mutex<Book>,
    /// The earliest date became an earlier one.
    earlier: Notify,
}

/// The dates, soonest first, and the same by profile.
#[derive(Debug, Default)]
struct Book {
    ordered: BTreeSet<(Timestamp, ObjectKey)>,
    date_of: BTreeMap<ObjectKey, Timestamp>,
}

impl Dates {
    /// Notes when that profile has to be looked at next, in place of what was noted before.
    pub(super) fn set(&self, profile: &ObjectKey, date: Option<Timestamp>) {
        let mut book = self.lock();
        let before = book.earliest();
        book.remove(profile);
        if let Some(date) = date {
            book.ordered.insert((date, profile.clone()));
            book.date_of.insert(profile.clone(), date);
        }
        if book.earliest().is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.earlier.notify_one();
        }
    }

    /// Takes out whose date has come.
    fn take_due(&self, now: Timestamp) -> Vec<ObjectKey> {
        let mut book = self.lock();
        let due: Vec<_> =
            book.ordered.iter().take_while(|(date, _)| *date <= now).map(|(_, key)| key.clone()).collect();
        due.iter().for_each(|profile| book.remove(profile));
        due
    }

    fn earliest(&self) -> Option<Timestamp> {
        self.lock().earliest()
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        // No code that can panic runs under the lock but allocation; whoever is in one half only is not woken, or once too often.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn earliest(&self) -> Option<Timestamp> {
        self.ordered.first().map(|(date, _)| *date)
    }

    fn remove(&mut self, profile: &ObjectKey) {
        if let Some(date) = self.date_of.remove(profile) {
            self.ordered.remove(&(date, profile.clone()));
        }
    }
}

/// Has each profile looked at when its date comes. Ends when it is dropped.
pub(crate) async fn keep_dates(world: Arc<CatalogWorld>, seams: Seams) {
    let dates = &world.dates;
    loop {
        let earlier = dates.earlier.notified();
        for profile in dates.take_due(seams.now()) {
            world.queue.add(profile);
        }
        match dates.earliest() {
            None => earlier.await,
            Some(date) => {
                tokio::select! {
                    biased;
                    () = earlier => {}
                    () = tokio::time::sleep(seams.until(date)) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
