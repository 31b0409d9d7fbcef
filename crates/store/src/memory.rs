//! The engine of simulations and tests: nothing is durable, everything is asynchronous, and whatever a
//! network can do to a caller it does, at the whim of a seed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::cursor::Cursor;
use crate::history::HistoryLimits;
use crate::shared::{Pending, Shared};
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

/// A store in memory. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
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
            order: Arc::default(),
            chance: Arc::new(Mutex::new(Chance { state: seed, faults: Faults::default() })),
        }
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
        let order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let revision = self.shared.revision().0 + 1;
        let prepared = self.shared.prepare(&Pending::new(), write, revision)?;
        if let Some(change) = prepared.change {
            self.shared.publish(vec![change]);
        }
        drop(order);
        Ok(prepared.outcome)
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

    fn progress(&self) -> Revision {
        let progress = self.cursor.progress();
        self.held.as_ref().map_or(progress, |(_, event)| progress.min(Revision(event.revision.0 - 1)))
    }
}
