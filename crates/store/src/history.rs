//! What happened lately: the newest writes of all tenants in order, bounded by number and bytes.
//!
//! One ring holds everything; each tenant and each collection has a [`Trail`] of its own events, so that
//! reading a quiet one costs nothing of a busy one. The ring decides what is let go, the trails follow.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::body::Content;
use crate::objects::Objects;
use crate::{Entry, Event, EventKind, Resource, Revision, Template, Tenant};

/// How much history is kept. Whichever bound is reached first holds.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Events at most.
    pub events: usize,
    /// Bytes at most: bodies as they are held that are there for the history alone, and [`EVENT_COST`] for each
    /// event.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    /// 50,000 events are some minutes of a busy landscape, far more than a client needs to come back
    /// after a restart; 32 MiB keep a server of large objects within the memory of a small machine.
    fn default() -> Self {
        HistoryLimits { events: 50_000, bytes: 32 << 20 }
    }
}

/// History up to so much is kept however little the state holds: some hundred writes of a small landscape, enough
/// for clients of its busy kinds to come back after a restart of their own; those of quiet ones have longer, and
/// lists are short. It is no more because of what it does to memory when a large landscape becomes small: what is
/// left of the history then lies scattered over all that there was, and keeps ten times its size from being
/// given back.
pub(crate) const LEAST_BYTES: usize = 512 << 10;

/// What an event costs beside its body: itself, its entry, its places in three rings.
pub const EVENT_COST: usize = 256;

/// What an object counts for.
pub(crate) fn cost(entry: &Entry) -> usize {
    entry.body.held().len() + EVENT_COST
}

/// What an event counts for: what was there before it, which nobody but the history has any more, and itself. What it
/// left is among the objects, or before a later event; but for the last state of what it took away, which is held
/// apart from the state before only where both are not one packed block.
fn cost_of_event(event: &Event) -> usize {
    let before = event.previous.as_deref();
    let kept = before.map_or(0, |before| before.body.held().len());
    let shared = before.is_some_and(|before| before.body.shares(&event.entry.body));
    let last = if event.kind == EventKind::Deleted && !shared { event.entry.body.held().len() } else { 0 };
    EVENT_COST + kept + last
}

/// One change of the state.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Of one object.
    Object(Arc<Event>),
    /// The objects of a template appeared in an empty key space.
    Instantiated(Tenant, Arc<Seed>),
    /// Everything of a tenant went.
    Dropped(Tenant),
}

/// A template as tenants share it.
#[derive(Debug)]
pub(crate) struct Seed {
    /// The template's name.
    pub(crate) id: String,
    /// In order of (resource, namespace, name).
    pub(crate) entries: Vec<Arc<Entry>>,
    /// The same by collection, to be shared.
    pub(crate) collections: BTreeMap<Resource, Objects>,
}

impl Change {
    /// The event, if it is of one object.
    pub(crate) fn event(&self) -> Option<&Arc<Event>> {
        match self {
            Change::Object(event) => Some(event),
            Change::Instantiated(..) | Change::Dropped(_) => None,
        }
    }
}

impl Seed {
    /// The objects of `template`, which the write `revision` makes known.
    pub(crate) fn new(template: &Template, revision: u64) -> Self {
        let entries = template.entries.iter().map(|entry| {
            Arc::new(Entry {
                resource: entry.resource.clone(),
                namespace: entry.namespace.clone(),
                name: entry.name.clone(),
                revision: Revision(revision),
                body: Content::of(entry.body.clone()).at(Revision(revision)),
            })
        });
        Seed::from_entries(template.id.clone(), entries.collect())
    }

    /// Entries in any order; of those with one name the last counts.
    pub(crate) fn from_entries(id: String, mut entries: Vec<Arc<Entry>>) -> Self {
        fn place(entry: &Entry) -> (&Resource, &str, &str) {
            (&entry.resource, &entry.namespace, &entry.name)
        }
        entries.reverse();
        entries.sort_by(|left, right| place(left).cmp(&place(right)));
        entries.dedup_by(|later, earlier| place(later) == place(earlier));
        let mut collections = BTreeMap::<Resource, Objects>::new();
        for entry in &entries {
            collections.entry(entry.resource.clone()).or_default().put(entry.clone());
        }
        Seed { id, entries, collections }
    }

    /// The objects of one collection.
    pub(crate) fn objects(&self, resource: &Resource) -> Option<&Objects> {
        self.collections.get(resource)
    }

    /// The additions that instantiating it for `tenant` at `revision` means, of `resource` or of all.
    pub(crate) fn events<'a>(
        &'a self,
        tenant: &'a Tenant,
        revision: u64,
        resource: Option<&'a Resource>,
    ) -> impl Iterator<Item = Arc<Event>> + 'a {
        self.entries.iter().filter(move |entry| resource.is_none_or(|resource| entry.resource == *resource)).map(
            move |entry| {
                Arc::new(Event {
                    tenant: tenant.clone(),
                    revision: Revision(revision),
                    kind: EventKind::Added,
                    entry: entry.clone(),
                    previous: None,
                })
            },
        )
    }
}

/// The events of one tenant or one collection that the history still holds.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    events: VecDeque<Arc<Event>>,
    /// The newest revision of it that is no longer here.
    pub(crate) floor: u64,
}

impl Trail {
    pub(crate) fn new(floor: u64) -> Self {
        Trail { events: VecDeque::new(), floor }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.events.push_back(event);
    }

    /// Lets its oldest event go, which is `event`.
    pub(crate) fn forget(&mut self, event: &Event) {
        let oldest = self.events.pop_front();
        debug_assert_eq!(oldest.map(|oldest| oldest.revision), Some(event.revision));
        self.floor = event.revision.0;
        if self.events.len() < self.events.capacity() / 4 {
            self.events.shrink_to(self.events.len() * 2);
        }
    }

    /// The events after `revision`, in order.
    pub(crate) fn since(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        self.events.range(self.events.partition_point(|event| event.revision.0 <= revision)..)
    }
}

/// The ring of everything.
#[derive(Debug)]
pub(crate) struct History {
    /// What each revision did, from `floor + 1` on; `None` once its tenant was dropped.
    slots: VecDeque<Option<Change>>,
    /// The newest revision that is no longer here.
    floor: u64,
    bytes: usize,
    limits: HistoryLimits,
}

impl History {
    /// A history that begins after `floor`.
    pub(crate) fn new(floor: u64, limits: HistoryLimits) -> Self {
        History { slots: VecDeque::new(), floor, bytes: 0, limits }
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn limits(&self) -> HistoryLimits {
        self.limits
    }

    fn cost(change: &Change) -> usize {
        match change {
            Change::Object(event) => cost_of_event(event),
            Change::Instantiated(..) | Change::Dropped(_) => EVENT_COST,
        }
    }

    /// Appends what the next revision did; `None` leaves a gap for a write whose tenant is gone.
    pub(crate) fn push(&mut self, change: Option<Change>) {
        self.bytes += change.as_ref().map_or(0, Self::cost);
        self.slots.push_back(change);
    }

    /// Takes the oldest revision out, while the bounds are exceeded or it is not after `least`. A history
    /// larger than the state of `live` bytes is of no use: to list again costs less than to replay it.
    pub(crate) fn evict(&mut self, least: u64, live: usize) -> Option<(u64, Option<Change>)> {
        let bytes = self.limits.bytes.min(live.max(LEAST_BYTES));
        let over = self.slots.len() > self.limits.events || self.bytes > bytes || self.floor < least;
        let change = over.then(|| self.slots.pop_front())??;
        self.floor += 1;
        self.bytes -= change.as_ref().map_or(0, Self::cost);
        if self.slots.len() < self.slots.capacity() / 4 {
            self.slots.shrink_to(self.slots.len() * 2);
        }
        Some((self.floor, change))
    }

    /// Takes what `revision` did out, if it is still here.
    pub(crate) fn blank(&mut self, revision: u64) {
        let slot = revision.checked_sub(self.floor + 1).and_then(|index| self.slots.get_mut(index as usize));
        if let Some(change) = slot.and_then(Option::take) {
            self.bytes -= Self::cost(&change);
        }
    }

    /// What the revisions after `revision` did, in order, with their revisions.
    pub(crate) fn since(&self, revision: u64) -> impl Iterator<Item = (u64, Option<&Change>)> {
        let skip = (revision.saturating_sub(self.floor) as usize).min(self.slots.len());
        (self.floor + 1 + skip as u64..).zip(self.slots.range(skip..).map(Option::as_ref))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{body, key, noise};

    fn entry(revision: u64, data: &str) -> Arc<Entry> {
        Arc::new(Entry::of(key("t", "a", "x"), Revision(revision), body(data)))
    }

    fn event(kind: EventKind, entry: Arc<Entry>, previous: Option<&Arc<Entry>>) -> Event {
        let (tenant, revision) = (Tenant::logical("t"), entry.revision);
        Event { tenant, revision, kind, entry, previous: previous.cloned() }
    }

    #[test]
    fn an_event_counts_for_what_is_there_for_it_alone() {
        let (small, plain) = (entry(1, "x"), entry(2, &noise(100_000, 1)));
        let packed = entry(3, &noise(50_000, 1).repeat(2));
        let [of_small, of_plain, of_packed] = [&small, &plain, &packed].map(|entry| entry.body.held().len());
        assert!(of_packed < 60_000);
        let last = |entry: &Arc<Entry>| {
            let body = entry.body.content(entry.revision).at(Revision(9));
            Arc::new(Entry { body, revision: Revision(9), ..(**entry).clone() })
        };
        for (event, wanted) in [
            (event(EventKind::Added, plain.clone(), None), 0),
            (event(EventKind::Modified, plain.clone(), Some(&small)), of_small),
            (event(EventKind::Modified, small.clone(), Some(&packed)), of_packed),
            (event(EventKind::Deleted, last(&plain), Some(&plain)), 2 * of_plain),
            (event(EventKind::Deleted, last(&packed), Some(&packed)), of_packed),
        ] {
            assert_eq!(cost_of_event(&event), EVENT_COST + wanted, "{event:?}");
        }
    }
}
