//! The queue of the loops: what has to be done, once each, and what has to wait after a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use allotment_store::Tenant;
use tokio::time::Instant;

use super::graph::Place;
use crate::rounds::Rounds;

/// The wait after the first failure; doubled by each further one.
const FIRST_DELAY: Duration = Duration::from_millis(20);
/// The longest wait.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// A piece of work of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    pub(super) tenant: Tenant,
    pub(super) work: Work,
}

/// A piece of work, named by what it is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// The default account and the root certificates of a namespace.
    Defaults(Arc<str>),
    /// A namespace that is being deleted.
    Namespace(Arc<str>),
    /// A definition that is being deleted.
    Definition(Arc<str>),
    /// The names that definitions of a group ask for, some of which may be free again.
    Names(Arc<str>),
    /// A Secret for a token of an account.
    TokenSecret(Place),
    /// An object that has owners, which may be gone.
    Dependent(Place),
    /// An object whose deletion waits for the garbage collector.
    Owner(Place),
}

/// What is to be done; tenants take turns. Bounded by what there is: an item is in it once.
#[derive(Debug, Default)]
pub(super) struct Queue {
    ready: Rounds<Tenant, Item>,
    /// What is in `ready`.
    queued: BTreeSet<Item>,
    running: BTreeSet<Item>,
    /// What has to be done again once it is done, since something happened meanwhile.
    again: BTreeSet<Item>,
    delayed: BTreeSet<(Instant, Item)>,
    failures: BTreeMap<Item, u32>,
}

impl Queue {
    /// Adds an item. One that waits after a failure is done at once: something has changed.
    pub(super) fn add(&mut self, item: Item) {
        if self.running.contains(&item) {
            self.again.insert(item);
        } else if self.queued.insert(item.clone()) {
            let tenant = item.tenant.clone();
            self.ready.push(&tenant, item);
        }
    }

    /// The next item, which is running from now on.
    pub(super) fn take(&mut self, now: Instant) -> Option<Item> {
        while let Some((due, _)) = self.delayed.first() {
            if *due > now {
                break;
            }
            if let Some((_, item)) = self.delayed.pop_first() {
                self.add(item);
            }
        }
        let item = self.ready.pop()?;
        self.queued.remove(&item);
        self.running.insert(item.clone());
        Some(item)
    }

    /// When the next waiting item is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(due, _)| *due)
    }

    /// A running item is done.
    pub(super) fn succeeded(&mut self, item: &Item) {
        self.failures.remove(item);
        self.stopped(item);
    }

    /// A running item has to be done again later.
    pub(super) fn failed(&mut self, item: Item, now: Instant) {
        let failures = self.failures.entry(item.clone()).or_default();
        let delay = FIRST_DELAY.saturating_mul(1 << (*failures).min(16)).min(LONGEST_DELAY);
        *failures += 1;
        self.stopped(&item);
        if !self.queued.contains(&item) {
            self.delayed.insert((now + delay, item));
        }
    }

    /// Drops what is not kept, but for what runs.
    pub(super) fn retain(&mut self, keep: impl Fn(&Item) -> bool) {
        self.ready.retain(&keep);
        self.queued.retain(&keep);
        self.again.retain(&keep);
        self.delayed.retain(|(_, item)| keep(item));
        self.failures.retain(|item, _| keep(item));
    }

    fn stopped(&mut self, item: &Item) {
        self.running.remove(item);
        if let Some(item) = self.again.take(item) {
            self.add(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        Item { tenant: Tenant::platform(), work: Work::Namespace(Arc::from(name)) }
    }

    #[test]
    fn an_item_is_done_once_and_again_if_it_came_up_meanwhile() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.add(item("a"));
        queue.add(item("a"));
        queue.add(item("b"));
        assert_eq!(queue.take(now), Some(item("a")));
        queue.add(item("a"));
        assert_eq!(queue.take(now), Some(item("b")));
        assert_eq!(queue.take(now), None, "it is running");
        queue.succeeded(&item("a"));
        assert_eq!(queue.take(now), Some(item("a")));
        queue.succeeded(&item("a"));
        assert_eq!(queue.take(now), None);
    }

    #[test]
    fn a_tenant_does_not_wait_for_all_that_another_one_has_to_do() {
        let mut queue = Queue::default();
        (0..1000).for_each(|name| queue.add(item(&name.to_string())));
        let quiet = Item { tenant: Tenant::logical("quiet"), ..item("a") };
        queue.add(quiet.clone());
        let taken: Vec<_> = (0..2).filter_map(|_| queue.take(Instant::now())).collect();
        assert!(taken.contains(&quiet), "{taken:?}");
    }

    #[test]
    fn failures_wait_longer_each_time_and_news_cut_the_wait_short() {
        let mut queue = Queue::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        queue.add(item("a"));
        for _ in 0..12 {
            let taken = queue.take(now).expect("it is due");
            queue.failed(taken, now);
            assert_eq!(queue.take(now), None);
            let due = queue.next_due().expect("it waits");
            waits.push((due - now).as_millis());
            now = due;
        }
        assert_eq!(waits, [20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 20480, 30000]);
        let taken = queue.take(now).expect("it is due");
        queue.failed(taken, now);
        queue.add(item("a"));
        assert_eq!(queue.take(now), Some(item("a")));
        queue.succeeded(&item("a"));
        assert!(queue.failures.is_empty());
    }
}
