//! The work queue of a controller: keys that wait to be looked at, each at most once, with deadlines and
//! back-off. Nothing here knows what a key means.
//!
//! # Guarantees
//! - A key is never worked on by two workers at once; one that is added meanwhile is handed out again
//!   afterwards.
//! - Keys are handed out in the order of their rank, the least first, then in the order in which they were added.
//! - A deadline never delays a key that is added without one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The first wait after a failure. Most failures are lost races, gone by the next look.
const FIRST_RETRY: Duration = Duration::from_millis(1);
/// The longest wait between two tries: what is broken for hours is looked at once in half a minute.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// The first and the longest wait after a panic: each says much on standard error, and the same work most often panics again.
const FIRST_RETRY_OF_PANIC: Duration = Duration::from_secs(1);
const LONGEST_RETRY_OF_PANIC: Duration = Duration::from_secs(300);
/// Failures beyond this do not lengthen the wait any more.
const MOST_DOUBLINGS: u32 = 15;

/// A queue of keys, in the order of their ranks. A key that was never given one has the default rank.
#[derive(Debug)]
pub struct Queue<K, R = ()> {
    state: Mutex<State<K, R>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K, R> {
    /// Ready to be handed out, by rank and arrival.
    ready: BTreeMap<(R, u64), K>,
    /// What is in `ready`, and where.
    waiting: BTreeMap<K, (R, u64)>,
    /// The ranks of all that wait, for their turn or a deadline, or are worked on.
    ranks: BTreeMap<K, R>,
    /// Handed out and not yet done; true if it was added again meanwhile.
    working: BTreeMap<K, bool>,
    /// Wake-ups, soonest first, and the same by key.
    deadlines: BTreeSet<(Instant, K)>,
    deadline_of: BTreeMap<K, Instant>,
    failures: BTreeMap<K, u32>,
    arrivals: u64,
    panics: u64,
}

impl<K, R> Default for Queue<K, R> {
    fn default() -> Self {
        Queue {
            state: Mutex::new(State {
                ready: BTreeMap::new(),
                waiting: BTreeMap::new(),
                ranks: BTreeMap::new(),
                working: BTreeMap::new(),
                deadlines: BTreeSet::new(),
                deadline_of: BTreeMap::new(),
                failures: BTreeMap::new(),
                arrivals: 0,
                panics: 0,
            }),
            changed: Notify::new(),
        }
    }
}

impl<K: Clone + Debug + Ord, R: Clone + Debug + Default + Ord> Queue<K, R> {
    /// Hands `key` out as soon as a worker is free and nothing of lesser rank waits; it has this rank from now on, also
    /// where it waits already.
    pub fn add_ranked(&self, key: K, rank: R) {
        let mut state = self.lock();
        state.set_rank(&key, rank);
        state.add(key);
        drop(state);
        self.changed.notify_one();
    }

    /// The first keys that wait for a worker with a rank in that range, at most so many.
    pub fn ready_within(&self, ranks: Range<R>, most: usize) -> Vec<K> {
        let state = self.lock();
        let ready = state.ready.range((ranks.start, 0)..(ranks.end, 0));
        ready.take(most).map(|(_, key)| key.clone()).collect()
    }

    /// Hands `key` out as soon as a worker is free.
    pub fn add(&self, key: K) {
        self.lock().add(key);
        self.changed.notify_one();
    }

    /// Hands `key` out after `delay`, or earlier if something earlier asks for it.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            self.add(key);
            return;
        }
        self.lock().add_at(key, Instant::now() + delay);
        self.changed.notify_one();
    }

    /// Hands `key` out again after a failure: the wait doubles with every failure in a row.
    pub fn retry(&self, key: K) -> Duration {
        self.retry_within(key, FIRST_RETRY, LONGEST_RETRY)
    }

    /// The same after work on it panicked: the waits are longer.
    pub fn retry_panic(&self, key: K) -> Duration {
        self.lock().panics += 1;
        self.retry_within(key, FIRST_RETRY_OF_PANIC, LONGEST_RETRY_OF_PANIC)
    }

    /// How often work on a key panicked.
    pub fn panics(&self) -> u64 {
        self.lock().panics
    }

    fn retry_within(&self, key: K, first: Duration, longest: Duration) -> Duration {
        let mut state = self.lock();
        let failures = state.failures.entry(key.clone()).or_insert(0);
        let delay = first.saturating_mul(1 << (*failures).min(MOST_DOUBLINGS)).min(longest);
        *failures = failures.saturating_add(1);
        state.add_at(key, Instant::now() + delay);
        drop(state);
        self.changed.notify_one();
        delay
    }

    /// Forgets failures of `key`: the next one waits shortly again.
    pub fn succeeded(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// Takes the next key; waits for one. Cancel-safe. Every key taken must be given back with
    /// [`Queue::done`].
    pub async fn take(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let wake = {
                let mut state = self.lock();
                state.promote(Instant::now());
                if let Some(key) = state.take() {
                    let more = !state.ready.is_empty();
                    drop(state);
                    if more {
                        // A wake-up reaches one worker only; it is passed on while there is work.
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.deadlines.first().map(|(at, _)| *at)
            };
            match wake {
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// Says that the work on a key that was taken has ended.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        if state.working.remove(key) == Some(true) {
            state.add(key.clone());
            drop(state);
            self.changed.notify_one();
        } else if !state.deadline_of.contains_key(key) {
            state.ranks.remove(key);
        }
    }

    /// How many keys are ready or worked on.
    pub fn len(&self) -> usize {
        let state = self.lock();
        state.ready.len() + state.working.len()
    }

    /// Whether nothing is ready or worked on. Deadlines may still lie ahead.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<K, R>> {
        // No code that can panic runs under the lock but allocation; the state is whole either way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Ord, R: Clone + Default + Ord> State<K, R> {
    fn add(&mut self, key: K) {
        if let Some(again) = self.working.get_mut(&key) {
            *again = true;
            return;
        }
        if self.waiting.contains_key(&key) {
            return;
        }
        self.arrivals += 1;
        let place = (self.ranks.get(&key).cloned().unwrap_or_default(), self.arrivals);
        self.waiting.insert(key.clone(), place.clone());
        self.ready.insert(place, key);
    }

    /// Whoever waits moves to its new rank, and is not younger for it.
    fn set_rank(&mut self, key: &K, rank: R) {
        if let Some(place) = self.waiting.get_mut(key)
            && place.0 != rank
            && let Some(key) = self.ready.remove(place)
        {
            place.0 = rank.clone();
            self.ready.insert(place.clone(), key);
        }
        self.ranks.insert(key.clone(), rank);
    }

    fn add_at(&mut self, key: K, at: Instant) {
        match self.deadline_of.get(&key) {
            Some(earlier) if *earlier <= at => return,
            Some(later) => {
                let later = *later;
                self.deadlines.remove(&(later, key.clone()));
            }
            None => {}
        }
        self.deadline_of.insert(key.clone(), at);
        self.deadlines.insert((at, key));
    }

    fn promote(&mut self, now: Instant) {
        while self.deadlines.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.deadlines.pop_first() {
                self.deadline_of.remove(&key);
                self.add(key);
            }
        }
    }

    fn take(&mut self) -> Option<K> {
        let (_, key) = self.ready.pop_first()?;
        self.waiting.remove(&key);
        // What is looked at now need not be woken up for an older reason.
        if let Some(at) = self.deadline_of.remove(&key) {
            self.deadlines.remove(&(at, key.clone()));
        }
        self.working.insert(key.clone(), false);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_added_twice_is_handed_out_once() {
        let queue = Queue::<_>::default();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.take().await, "a");
        assert_eq!(queue.take().await, "b");
        assert_eq!(queue.len(), 2);
        queue.done(&"a");
        queue.done(&"b");
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_while_it_is_worked_on_is_handed_out_after_it_is_done() {
        let queue = Queue::<_>::default();
        queue.add("a");
        assert_eq!(queue.take().await, "a");
        queue.add("a");
        let early = tokio::time::timeout(Duration::from_secs(1), queue.take()).await;
        assert!(early.is_err(), "handed out twice at once");
        queue.done(&"a");
        assert_eq!(queue.take().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_double_the_wait_up_to_a_bound_and_success_forgets_them() {
        let queue = Queue::<_>::default();
        let waits: Vec<_> = (0..16).map(|_| queue.retry("a")).collect();
        assert_eq!(waits[0], FIRST_RETRY);
        assert_eq!(waits[3], FIRST_RETRY * 8);
        assert_eq!(waits[15], LONGEST_RETRY);
        queue.succeeded(&"a");
        assert_eq!(queue.retry("a"), FIRST_RETRY);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_deadline_counts_and_none_delays_what_is_added_at_once() {
        let queue = Queue::<_>::default();
        let begin = Instant::now();
        queue.add_after("late", Duration::from_secs(60));
        queue.add_after("late", Duration::from_secs(10));
        queue.add_after("late", Duration::from_secs(30));
        queue.add_after("now", Duration::from_secs(60));
        queue.add("now");
        assert_eq!(queue.take().await, "now");
        assert_eq!(begin.elapsed(), Duration::ZERO);
        assert_eq!(queue.take().await, "late");
        assert_eq!(begin.elapsed(), Duration::from_secs(10));
        queue.done(&"now");
        queue.done(&"late");
        let more = tokio::time::timeout(Duration::from_secs(120), queue.take()).await;
        assert!(more.is_err(), "a deadline that was overtaken still woke: {more:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_least_rank_goes_first_however_late_it_comes() {
        let queue = Queue::<&str, u32>::default();
        queue.add_ranked("b", 2);
        queue.add_ranked("c", 2);
        queue.add_ranked("d", 3);
        queue.add_ranked("a", 1);
        assert_eq!(queue.take().await, "a");
        assert_eq!(queue.take().await, "b");
        queue.add_ranked("d", 1);
        assert_eq!(queue.take().await, "d", "whoever waits moves with its rank");
        assert_eq!(queue.take().await, "c");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_keeps_its_rank_while_it_waits_for_its_next_try_and_no_longer() {
        let queue = Queue::<&str, u32>::default();
        queue.add_ranked("again", 1);
        assert_eq!(queue.take().await, "again");
        queue.retry("again");
        queue.done(&"again");
        tokio::time::advance(FIRST_RETRY * 2).await;
        queue.add_ranked("other", 2);
        assert_eq!(queue.take().await, "again");
        queue.done(&"again");
        queue.add("again");
        assert_eq!(queue.take().await, "again", "the default rank is the least");
        queue.add_ranked("again", 3);
        queue.done(&"again");
        assert_eq!(queue.take().await, "other", "a rank given while it was worked on counts as well");
        assert_eq!(queue.take().await, "again");
        for key in ["again", "other"] {
            queue.done(&key);
        }
        assert!(queue.lock().ranks.is_empty(), "none is remembered of what is done");
    }

    #[tokio::test(start_paused = true)]
    async fn several_workers_share_one_wake_up() {
        let queue = std::sync::Arc::new(Queue::<_>::default());
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let queue = queue.clone();
            workers.spawn(async move { queue.take().await });
        }
        tokio::task::yield_now().await;
        for key in ["a", "b", "c"] {
            queue.add(key);
        }
        let mut taken = Vec::new();
        while let Ok(Some(Ok(key))) = tokio::time::timeout(Duration::from_secs(1), workers.join_next()).await {
            taken.push(key);
        }
        taken.sort_unstable();
        assert_eq!(taken, ["a", "b", "c"]);
    }
}
