//! Who has a place at a listener: a bounded number of connections, and which of them goes when a new one comes.
//!
//! Whoever fills all places without being known gives up the oldest of them to each client that comes, so a
//! client has as long for its handshake and first request as it takes others to fill all places anew. Then
//! idle connections go, their clients come back. Those that are being answered stay, and a client waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::Limits;
use super::visit::{Standing, Visit};

/// How often to look for somebody to go while nobody could.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// The connections of one listener.
#[derive(Clone)]
pub(super) struct Places {
    room: Arc<Semaphore>,
    visits: Arc<Mutex<Visits>>,
}

#[derive(Default)]
struct Visits {
    next: u64,
    open: BTreeMap<u64, Weak<Visit>>,
}

/// A connection that is open; dropped when it ends.
pub(super) struct Seat {
    pub(super) visit: Arc<Visit>,
    id: u64,
    visits: Arc<Mutex<Visits>>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.visits).open.remove(&self.id);
    }
}

fn lock(visits: &Mutex<Visits>) -> MutexGuard<'_, Visits> {
    visits.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        Places { room: Arc::new(Semaphore::new(limits.connections)), visits: Arc::default() }
    }

    /// A place, once there is one. Whoever asks is waiting with a connection in hand.
    pub(super) async fn take(&self, limits: &Limits) -> Seat {
        let place = self.room_for_one().await;
        let visit = Arc::new(Visit::new(limits, place));
        let mut visits = lock(&self.visits);
        let id = visits.next;
        visits.next += 1;
        visits.open.insert(id, Arc::downgrade(&visit));
        Seat { visit, id, visits: Arc::clone(&self.visits) }
    }

    async fn room_for_one(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(place) = Arc::clone(&self.room).try_acquire_owned() {
                return place;
            }
            if let Some(visit) = self.first_to_go() {
                visit.evicted.cancel();
            }
            let freed = tokio::time::timeout(LOOK_PERIOD, Arc::clone(&self.room).acquire_owned());
            if let Ok(Ok(place)) = freed.await {
                return place;
            }
        }
    }

    /// Who goes first; `None` where everybody is known and being answered, or on the way out already.
    fn first_to_go(&self) -> Option<Arc<Visit>> {
        let open: Vec<Arc<Visit>> = lock(&self.visits).open.values().filter_map(Weak::upgrade).collect();
        let staying = open.into_iter().filter(|visit| !visit.evicted.is_cancelled());
        let ranked = staying.filter_map(|visit| visit.standing().map(|standing| (standing, visit)));
        ranked.min_by_key(|(standing, _): &(Standing, _)| *standing).map(|(_, visit)| visit)
    }
}
