//! The engine of simulations and tests: nothing is durable, everything is asynchronous, and whatever a
//! network can do to a caller it does, at the whim of a seed.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::cursor::Cursor;
use crate::history::{Change, HistoryLimits};
use crate::shared::{Order, Pending, Shared};
use crate::state::State;
use crate::{
    Entry, Event, Key, ListQuery, Outcome, Page, Resource, Revision, Store, StoreError, Tenant, Watch, WatchScope,
    Write,
};

/// What goes wrong, and how often. The default is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Every request and every reply takes up to so long.
    pub delay: Duration,
    /// Of 1,000 requests, how many are refused with [`StoreError::Unavailable`].
    pub unavailable: u32,
    /// Of 1,000 writes, how many are lost on their way: [`StoreError::Unknown`], and not done.
    pub lost_requests: u32,
    /// Of 1,000 writes, how many replies are lost: [`StoreError::Unknown`], and done.
    pub lost_replies: u32,
    /// Watches deliver up to so much late.
    pub stale: Duration,
    /// Of 1,000 writes, how many are followed by a compaction of all history.
    pub compactions: u32,
}

/// What a write did.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// One object changed.
    Object(&'a Event),
    /// The objects of a template appeared.
    Instantiated {
        /// Whose key space.
        tenant: &'a Tenant,
        /// The write.
        revision: Revision,
    },
    /// Everything of a tenant went.
    Dropped {
        /// Whose key space.
        tenant: &'a Tenant,
        /// The write.
        revision: Revision,
    },
}

/// Is told of every write as it happens, in order, none left out, whatever watches miss.
pub trait Observer: Debug + Send + Sync + 'static {
    /// A write happened. Called while the store is held: it must not call back.
    fn seen(&self, seen: Seen<'_>);
}

/// A store in memory. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
    observer: Arc<OnceLock<Arc<dyn Observer>>>,
    /// Held while a write is prepared and published, so that writes are in order.
    order: Arc<Mutex<()>>,
    chance: Arc<Mutex<Chance>>,
}

/// The dice, and what they are thrown for.
#[derive(Debug)]
struct Chance {
    state: u64,
    faults: Faults,
}

impl Chance {
    /// The next number of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut out = self.state;
        out = (out ^ (out >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        out = (out ^ (out >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        out ^ (out >> 31)
    }

    fn strikes(&mut self, of_thousand: u32) -> bool {
        of_thousand > 0 && self.next() % 1000 < u64::from(of_thousand)
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        let micros = most.as_micros() as u64;
        if micros == 0 { Duration::ZERO } else { Duration::from_micros(self.next() % (micros + 1)) }
    }
}

impl Memory {
    /// An empty store without faults. The seed decides about those set later.
    pub fn new(seed: u64, limits: HistoryLimits) -> Self {
        Memory {
            shared: Arc::new(Shared::new(State::new(0, limits))),
            observer: Arc::default(),
            order: Arc::default(),
            chance: Arc::new(Mutex::new(Chance { state: seed, faults: Faults::default() })),
        }
    }

    /// Tells `observer` of every write from now on; the first one set stays.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        let _ = self.observer.set(observer);
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.chance().faults = faults;
    }

    /// Forgets all history up to `revision`, or up to the newest.
    pub fn compact(&self, revision: Revision) {
        self.shared.write().compact(revision.0);
    }

    fn chance(&self) -> std::sync::MutexGuard<'_, Chance> {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strikes(&self, which: impl FnOnce(&Faults) -> u32) -> bool {
        let mut chance = self.chance();
        let of_thousand = which(&chance.faults);
        chance.strikes(of_thousand)
    }

    /// The way of a request or a reply.
    async fn travel(&self) {
        let delay = {
            let mut chance = self.chance();
            let most = chance.faults.delay;
            chance.up_to(most)
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    async fn ask<T>(&self, answer: impl FnOnce(&Shared) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.travel().await;
        if self.strikes(|faults| faults.unavailable) {
            return Err(StoreError::Unavailable { reason: "the simulation says so".into() });
        }
        let answer = answer(&self.shared);
        self.travel().await;
        answer
    }

    fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        let write = Order::from(write);
        let order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let revision = self.shared.revision().0 + 1;
        let prepared = self.shared.prepare(&Pending::new(), write, revision)?;
        if let Some(change) = prepared.change {
            if let Some(observer) = self.observer.get() {
                observer.seen(seen(&change, Revision(revision)));
            }
            self.shared.publish(vec![change]);
        }
        drop(order);
        Ok(prepared.outcome)
    }
}

fn seen(change: &Change, revision: Revision) -> Seen<'_> {
    match change {
        Change::Object(event) => Seen::Object(event),
        Change::Instantiated(tenant, _) => Seen::Instantiated { tenant, revision },
        Change::Dropped(tenant) => Seen::Dropped { tenant, revision },
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new(0, HistoryLimits::default())
    }
}

#[async_trait]
impl Store for Memory {
    async fn commit(&self, write: Write) -> Result<Outcome, StoreError> {
        self.travel().await;
        if self.strikes(|faults| faults.unavailable) {
            return Err(StoreError::Unavailable { reason: "the simulation says so".into() });
        }
        if self.strikes(|faults| faults.lost_requests) {
            self.travel().await;
            return Err(StoreError::Unknown { reason: "the simulation lost the request".into() });
        }
        let outcome = self.write(write);
        if self.strikes(|faults| faults.compactions) {
            self.compact(self.shared.revision());
        }
        self.travel().await;
        if self.strikes(|faults| faults.lost_replies) {
            return Err(StoreError::Unknown { reason: "the simulation lost the reply".into() });
        }
        outcome
    }

    async fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, StoreError> {
        self.ask(|shared| Ok(shared.get(key))).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page, StoreError> {
        self.ask(|shared| shared.list(&query)).await
    }

    async fn watch(&self, scope: WatchScope, from: Revision) -> Result<Box<dyn Watch>, StoreError> {
        let cursor = self.ask(|_| Cursor::new(self.shared.clone(), scope, from)).await?;
        Ok(Box::new(Late { cursor, chance: self.chance.clone(), held: None }))
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.ask(|shared| Ok(shared.revision())).await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        self.ask(|shared| Ok(shared.read().tenants())).await
    }

    async fn resources(&self, tenant: &Tenant) -> Result<Vec<(Resource, usize)>, StoreError> {
        self.ask(|shared| Ok(shared.read().resources(tenant))).await
    }
}

/// A watch that delivers late.
#[derive(Debug)]
struct Late {
    cursor: Cursor,
    chance: Arc<Mutex<Chance>>,
    /// What comes next, and when.
    held: Option<(tokio::time::Instant, Arc<Event>)>,
}

#[async_trait]
impl Watch for Late {
    async fn next(&mut self) -> Result<Arc<Event>, StoreError> {
        if self.held.is_none() {
            let event = self.cursor.next().await?;
            let late = {
                let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
                let most = chance.faults.stale;
                chance.up_to(most)
            };
            if late.is_zero() {
                return Ok(event);
            }
            self.held = Some((tokio::time::Instant::now() + late, event));
        }
        if let Some((when, _)) = &self.held {
            tokio::time::sleep_until(*when).await;
        }
        match self.held.take() {
            Some((_, event)) => Ok(event),
            None => self.cursor.next().await,
        }
    }

    fn ready(&mut self) -> Result<Option<Arc<Event>>, StoreError> {
        let chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        let late = !chance.faults.stale.is_zero();
        drop(chance);
        if late || self.held.is_some() { Ok(None) } else { self.cursor.ready() }
    }

    fn progress(&self) -> Revision {
        let progress = self.cursor.progress();
        self.held.as_ref().map_or(progress, |(_, event)| progress.min(Revision(event.revision.0 - 1)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    use super::*;
    use crate::conformance::{begin, body, key, template};
    use crate::{Expect, Scope};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn scope(tenant: &str, namespace: Option<&str>) -> WatchScope {
        let key = key(tenant, "", "");
        WatchScope::Scope(Scope { tenant: key.tenant, resource: key.resource, namespace: namespace.map(Arc::from) })
    }

    async fn create(store: &Memory, key: Key) -> Arc<Entry> {
        begin(store, key.tenant.as_str()).await;
        let write = Write::Put { key, expect: Expect::Absent, body: body("x") };
        store.commit(write).await.expect("creates").entry.expect("a put gives its entry")
    }

    #[tokio::test]
    async fn watches_sleep_through_what_is_not_theirs_and_leave_nothing_behind() {
        let store = Memory::default();
        begin(&store, "t").await;
        let mut watches = Vec::new();
        for scope in [
            scope("t", Some("other")),
            scope("u", None),
            WatchScope::Tenant(Tenant::logical("u")),
            scope("t", Some("n")),
            scope("t", None),
            WatchScope::Tenant(Tenant::logical("t")),
            WatchScope::All,
        ] {
            watches.push(store.watch(scope, Revision(0)).await.expect("watches"));
        }
        let wakes: Vec<Arc<Wakes>> = watches.iter().map(|_| Arc::default()).collect();
        let mut waiting: Vec<_> = watches.iter_mut().map(|watch| watch.next()).collect();
        for (next, wakes) in waiting.iter_mut().zip(&wakes) {
            let waker = Waker::from(wakes.clone());
            assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let write = Write::Put { key: key("t", "n", "one"), expect: Expect::Absent, body: body("x") };
        store.commit(write).await.expect("creates");
        let woken: Vec<_> = wakes.iter().map(|wakes| wakes.0.load(Ordering::Relaxed)).collect();
        assert_eq!(woken, [0, 0, 0, 1, 1, 1, 1]);
        drop(waiting);
        assert!(store.shared.read().is_watched());
        drop(watches);
        assert!(!store.shared.read().is_watched());
    }

    #[tokio::test]
    async fn a_dropped_tenant_is_freed_with_its_history() {
        let store = Memory::default();
        let tenant = Tenant::logical("t");
        store.commit(Write::Instantiate { tenant: tenant.clone(), template: template() }).await.expect("instantiates");
        let first = Arc::downgrade(&create(&store, key("t", "a", "x")).await);
        let entry = store.get(&key("t", "a", "x")).await.expect("answers").expect("is there");
        let write = Write::Put { key: key("t", "a", "x"), expect: Expect::Revision(entry.revision), body: body("y") };
        drop(entry);
        let second = Arc::downgrade(&store.commit(write).await.expect("updates").entry.expect("is there"));
        assert!(first.upgrade().is_some(), "the history has it");
        store.commit(Write::DropTenant { tenant }).await.expect("drops");
        assert!(first.upgrade().is_none() && second.upgrade().is_none());
        assert!(store.shared.read().spaces.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn faults_come_as_ordered_and_the_same_for_the_same_seed() {
        let run = async |seed| {
            let store = Memory::new(seed, HistoryLimits::default());
            begin(&store, "t").await;
            store.set_faults(Faults {
                delay: Duration::from_millis(5),
                unavailable: 200,
                lost_requests: 200,
                lost_replies: 200,
                stale: Duration::from_millis(50),
                compactions: 0,
            });
            let mut answers = Vec::new();
            for index in 0..100 {
                let write =
                    Write::Put { key: key("t", "n", &index.to_string()), expect: Expect::Absent, body: body("x") };
                let begin = store.shared.revision();
                let answer = store.commit(write).await;
                let done = store.shared.revision() > begin;
                answers.push(match answer {
                    Ok(_) if done => "done",
                    Err(StoreError::Unknown { .. }) if done => "done, unknown",
                    Err(StoreError::Unknown { .. }) => "not done, unknown",
                    Err(StoreError::Unavailable { .. }) if !done => "unavailable",
                    other => panic!("{other:?}, done: {done}"),
                });
            }
            let begun = tokio::time::Instant::now();
            store.set_faults(Faults { stale: Duration::from_millis(50), ..Faults::default() });
            let mut watch = store.watch(WatchScope::All, Revision(0)).await.expect("watches");
            while watch.progress() < store.shared.revision() {
                watch.next().await.expect("goes on");
            }
            (answers, begun.elapsed())
        };
        let (answers, late) = run(7).await;
        for answer in ["done", "done, unknown", "not done, unknown", "unavailable"] {
            assert!(answers.contains(&answer), "never: {answer}");
        }
        assert!(late > Duration::ZERO);
        assert_eq!(run(7).await, (answers.clone(), late));
        assert_ne!(run(8).await.0, answers);
    }
}
