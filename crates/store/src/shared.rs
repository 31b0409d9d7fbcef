//! The state behind its lock, and how a write becomes a change of it. What every engine shares: reads are
//! answered here, and never wait for a disk; the engines order writes and decide when they are seen.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::body::Content;
use crate::history::{Change, Seed};
use crate::state::State;
use crate::{
    Entry, Event, EventKind, Expect, Key, ListQuery, Outcome, Page, Revision, StoreError, Template, Tenant, Write,
};

/// The state that all clones of an engine, its writer and its watches share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: RwLock<State>,
}

/// What a write comes to.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// What it changes; nothing, if there is nothing to do.
    pub(crate) change: Option<Change>,
    /// What its caller is told once that is done.
    pub(crate) outcome: Outcome,
}

/// Objects that writes before this one will have changed, but that nobody sees yet.
pub(crate) type Pending = BTreeMap<Key, Option<Arc<Entry>>>;

/// A write whose bodies are as they will be held. Whoever asks for one makes it of his [`Write`], before he waits for
/// his turn: packing takes time, and the one that orders all writes has none to spare.
pub(crate) enum Order {
    Put { key: Key, expect: Expect, body: Content },
    Delete { key: Key, expect: Revision, last: Option<Content> },
    Instantiate { tenant: Tenant, template: Arc<Template> },
    DropTenant { tenant: Tenant },
}

impl From<Write> for Order {
    fn from(write: Write) -> Self {
        match write {
            Write::Put { key, expect, body } => Order::Put { key, expect, body: Content::of(body) },
            Write::Delete { key, expect, last } => Order::Delete { key, expect, last: last.map(Content::of) },
            Write::Instantiate { tenant, template } => Order::Instantiate { tenant, template },
            Write::DropTenant { tenant } => Order::DropTenant { tenant },
        }
    }
}

impl Order {
    /// Whether it concerns a whole key space. Such a write can only be prepared when nothing is pending.
    pub(crate) fn is_wide(&self) -> bool {
        matches!(self, Order::Instantiate { .. } | Order::DropTenant { .. })
    }
}

impl Shared {
    pub(crate) fn new(state: State) -> Self {
        Shared { state: RwLock::new(state) }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        // A panic elsewhere cannot leave the state torn for readers: changes are made of moves.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn revision(&self) -> Revision {
        Revision(self.read().revision)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.read().get(key).cloned()
    }

    pub(crate) fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        let view = self.read().view(query)?;
        Ok(view.page(query))
    }

    /// Makes changes, of the revisions after the newest, seen, and wakes who waits for them.
    pub(crate) fn publish(&self, changes: Vec<Change>) {
        let mut state = self.write();
        for change in &changes {
            let revision = state.revision + 1;
            state.apply(revision, change.clone());
        }
        drop(state);
        self.read().ring(&changes);
    }

    /// What `order` would do as `revision`, after what is `pending`.
    pub(crate) fn prepare(&self, pending: &Pending, order: Order, revision: u64) -> Result<Prepared, StoreError> {
        debug_assert!(pending.is_empty() || !order.is_wide());
        match order {
            Order::Put { key, expect, body } => {
                let (key, current) = self.current(pending, key)?;
                match (expect, &current) {
                    (Expect::Absent, None) => (),
                    (Expect::Revision(expect), Some(entry)) if entry.revision == expect => (),
                    _ => return Err(StoreError::Conflict { current }),
                }
                Ok(Prepared::put(place(key, revision, body), current))
            }
            Order::Delete { key, expect, last } => {
                let (key, current) = self.current(pending, key)?;
                let Some(entry) = current.clone().filter(|entry| entry.revision == expect) else {
                    return Err(StoreError::Conflict { current });
                };
                let last = last.unwrap_or_else(|| entry.body.content(entry.revision));
                Ok(Prepared::delete(place(key, revision, last), entry))
            }
            Order::Instantiate { tenant, template } => {
                let state = self.read();
                let seed = (!state.has(&tenant)).then(|| state.seeds.get(&template.id).cloned());
                drop(state);
                let seed = seed.map(|known| known.unwrap_or_else(|| Arc::new(Seed::new(&template, revision))));
                Ok(Prepared::wide(seed.map(|seed| Change::Instantiated(tenant, seed)), revision))
            }
            Order::DropTenant { tenant } => {
                let there = self.read().has(&tenant);
                Ok(Prepared::wide(there.then_some(Change::Dropped(tenant)), revision))
            }
        }
    }

    /// What is under `key` once what is pending is done, and the key in the names that the state has already,
    /// so that each name is kept once.
    fn current(&self, pending: &Pending, key: Key) -> Result<(Key, Option<Arc<Entry>>), StoreError> {
        let state = self.read();
        let Some((tenant, resource, objects)) = state.names(&key.tenant, &key.resource) else {
            return Err(StoreError::NoTenant { tenant: key.tenant });
        };
        let (found, namespace) = objects.map_or((None, None), |objects| objects.look((&key.namespace, &key.name)));
        let current = match pending.get(&key) {
            Some(entry) => entry.as_ref(),
            None => found,
        };
        let (namespace, name) = match current {
            Some(current) => (current.namespace.clone(), current.name.clone()),
            None => (namespace.unwrap_or(&key.namespace).clone(), key.name),
        };
        Ok((Key { tenant: tenant.clone(), resource: resource.clone(), namespace, name }, current.cloned()))
    }
}

/// The entry that `key` gets.
fn place(key: Key, revision: u64, body: Content) -> (Tenant, Entry) {
    let Key { tenant, resource, namespace, name } = key;
    let revision = Revision(revision);
    (tenant, Entry { resource, namespace, name, revision, body: body.at(revision) })
}

impl Prepared {
    fn put((tenant, entry): (Tenant, Entry), current: Option<Arc<Entry>>) -> Self {
        let kind = if current.is_some() { EventKind::Modified } else { EventKind::Added };
        Prepared::object(tenant, kind, Arc::new(entry), current)
    }

    fn delete((tenant, entry): (Tenant, Entry), current: Arc<Entry>) -> Self {
        Prepared::object(tenant, EventKind::Deleted, Arc::new(entry), Some(current))
    }

    fn object(tenant: Tenant, kind: EventKind, entry: Arc<Entry>, previous: Option<Arc<Entry>>) -> Self {
        let revision = entry.revision;
        let outcome = Outcome { revision, entry: Some(entry.clone()) };
        let event = Event { tenant, revision, kind, entry, previous };
        Prepared { change: Some(Change::Object(Arc::new(event))), outcome }
    }

    fn wide(change: Option<Change>, revision: u64) -> Self {
        let revision = if change.is_some() { revision } else { revision - 1 };
        Prepared { change, outcome: Outcome { revision: Revision(revision), entry: None } }
    }

    /// Notes what it leaves under its key, for the writes after it.
    pub(crate) fn pend(&self, pending: &mut Pending) {
        if let Some(Change::Object(event)) = &self.change {
            let entry = (event.kind != EventKind::Deleted).then(|| event.entry.clone());
            pending.insert(event.entry.key(&event.tenant), entry);
        }
    }
}
