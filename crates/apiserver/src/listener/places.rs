//! Who has a place at a listener: a bounded number of connections, and which of them goes when a new one comes.
//!
//! Whoever fills all places without being known gives up the oldest of them to each client that comes, so a
//! client has as long for its handshake and first request as it takes others to fill all places anew. Then
//! idle connections go, their clients come back. Those that are being answered stay, and a client waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::FAREWELL_TIMEOUT;
use super::limits::Limits;
use super::visit::{Standing, Visit};

/// How often to look for somebody to go while nobody can.
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
            // Whoever goes may take its time for it. Nobody else has to go meanwhile for the same newcomer.
            let patience = match self.first_to_go() {
                Some(visit) => {
                    visit.evicted.cancel();
                    FAREWELL_TIMEOUT
                }
                None => LOOK_PERIOD,
            };
            let freed = tokio::time::timeout(patience, Arc::clone(&self.room).acquire_owned());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_costs_one_other_its_place_however_long_the_farewell_takes() {
        let limits = Limits { connections: 3, ..Limits::default() };
        let places = Places::new(&limits);
        let mut seats = Vec::new();
        for _ in 0..3 {
            let seat = places.take(&limits).await;
            seat.visit.known();
            drop(seat.visit.begin());
            seats.push(seat);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let evicted = |seats: &[Seat]| seats.iter().filter(|seat| seat.visit.evicted.is_cancelled()).count();
        let newcomer = places.take(&limits);
        let mut newcomer = std::pin::pin!(newcomer);
        let early = tokio::time::timeout(FAREWELL_TIMEOUT - Duration::from_millis(1), newcomer.as_mut()).await;
        assert!(early.is_err() && seats[0].visit.evicted.is_cancelled(), "the one that was idle for longest goes");
        assert_eq!(evicted(&seats), 1);
        drop(seats.remove(0));
        seats.push(newcomer.await);
        assert_eq!(evicted(&seats), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn another_one_goes_where_the_first_does_not() {
        let limits = Limits { connections: 2, ..Limits::default() };
        let places = Places::new(&limits);
        let seats = [places.take(&limits).await, places.take(&limits).await];
        let newcomer = tokio::time::timeout(FAREWELL_TIMEOUT + LOOK_PERIOD, places.take(&limits)).await;
        assert!(newcomer.is_err() && seats.iter().all(|seat| seat.visit.evicted.is_cancelled()));
    }
}
