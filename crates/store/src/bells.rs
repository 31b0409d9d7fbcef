//! Who waits for what: one bell for each scope that is watched, none for what is not.
//!
//! A bell is rung for events of its scope alone, so a thousand idle watches sleep through the others'
//! traffic. It also bears how far the history of exactly its scope has been let go, so that a watch of
//! a quiet scope outlives the history of a busy one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::history::Change;
use crate::{Event, Resource, Tenant, WatchScope};

/// What the watches of one scope wait for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// Rung after events of the scope were published.
    pub(crate) notify: Notify,
    /// The newest revision of the scope that is no longer in the history. A watch that has not got as
    /// far as this has missed something.
    floor: AtomicU64,
}

impl Bell {
    pub(crate) fn floor(&self) -> u64 {
        // Only read and written under the state's lock.
        self.floor.load(Ordering::Relaxed)
    }

    fn raise(&self, floor: u64) {
        self.floor.fetch_max(floor, Ordering::Relaxed);
    }
}

/// A bell with those who share it; gone when nobody does.
type Shared = Option<Arc<Bell>>;

#[derive(Debug, Default)]
struct TenantBells {
    all: Shared,
    collections: BTreeMap<Resource, CollectionBells>,
}

#[derive(Debug, Default)]
struct CollectionBells {
    all: Shared,
    namespaces: BTreeMap<Arc<str>, Arc<Bell>>,
}

/// All bells.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    all: Shared,
    tenants: BTreeMap<Tenant, TenantBells>,
}

impl Bells {
    /// The bell of `scope`, hung up if there is none. `floor`: how far the scope's history has been let go.
    pub(crate) fn hang(&mut self, scope: &WatchScope, floor: u64) -> Arc<Bell> {
        let bell = match scope {
            WatchScope::All => self.all.get_or_insert_default(),
            WatchScope::Tenant(tenant) => self.tenants.entry(tenant.clone()).or_default().all.get_or_insert_default(),
            WatchScope::Scope(scope) => {
                let tenant = self.tenants.entry(scope.tenant.clone()).or_default();
                let collection = tenant.collections.entry(scope.resource.clone()).or_default();
                match &scope.namespace {
                    None => collection.all.get_or_insert_default(),
                    Some(namespace) => collection.namespaces.entry(namespace.clone()).or_default(),
                }
            }
        };
        // A fresh bell knows nothing yet; one that hangs already is the more exact of the two.
        if Arc::strong_count(bell) == 1 {
            bell.raise(floor);
        }
        bell.clone()
    }

    /// Takes the bell of `scope` down if nobody shares it but the watch that is about to go.
    pub(crate) fn leave(&mut self, scope: &WatchScope) {
        let unused = |bell: &mut Arc<Bell>| Arc::strong_count(bell) <= 2;
        match scope {
            WatchScope::All => drop(self.all.take_if(unused)),
            WatchScope::Tenant(tenant) => {
                if let Some(bells) = self.tenants.get_mut(tenant) {
                    bells.all.take_if(unused);
                    self.sweep(tenant);
                }
            }
            WatchScope::Scope(scope) => {
                let Some(bells) = self.tenants.get_mut(&scope.tenant) else { return };
                let Some(collection) = bells.collections.get_mut(&scope.resource) else { return };
                match &scope.namespace {
                    None => drop(collection.all.take_if(unused)),
                    Some(namespace) => {
                        if collection.namespaces.get_mut(namespace).is_some_and(unused) {
                            collection.namespaces.remove(namespace);
                        }
                    }
                }
                if collection.all.is_none() && collection.namespaces.is_empty() {
                    bells.collections.remove(&scope.resource);
                }
                self.sweep(&scope.tenant);
            }
        }
    }

    fn sweep(&mut self, tenant: &Tenant) {
        if self.tenants.get(tenant).is_some_and(|bells| bells.all.is_none() && bells.collections.is_empty()) {
            self.tenants.remove(tenant);
        }
    }

    /// Every bell that rings for an event of this place.
    fn of(&self, event: &Event) -> impl Iterator<Item = &Arc<Bell>> {
        let tenant = self.tenants.get(&event.tenant);
        let collection = tenant.and_then(|tenant| tenant.collections.get(&event.entry.resource));
        self.all.iter().chain(tenant.and_then(|tenant| tenant.all.as_ref())).chain(
            collection
                .into_iter()
                .flat_map(|bells| bells.all.iter().chain(bells.namespaces.get(&event.entry.namespace))),
        )
    }

    /// Every bell of a tenant.
    fn of_tenant(&self, tenant: &Tenant) -> impl Iterator<Item = &Arc<Bell>> {
        self.tenants.get(tenant).into_iter().flat_map(|tenant| {
            tenant
                .all
                .iter()
                .chain(tenant.collections.values().flat_map(|bells| bells.all.iter().chain(bells.namespaces.values())))
        })
    }

    /// Wakes those who wait for any of these changes, each once: who is woken finds all of them, and would otherwise
    /// come again for every single one.
    pub(crate) fn ring(&self, changes: &[Change]) {
        let mut rung = BTreeSet::new();
        let mut ring = |bell: &Arc<Bell>| {
            if rung.insert(Arc::as_ptr(bell)) {
                bell.notify.notify_waiters();
            }
        };
        for change in changes {
            match change {
                Change::Object(event) => self.of(event).for_each(&mut ring),
                Change::Instantiated(tenant, _) | Change::Dropped(tenant) => {
                    self.all.iter().chain(self.of_tenant(tenant)).for_each(&mut ring);
                }
            }
        }
    }

    /// Notes that `event` is no longer in the history.
    pub(crate) fn forget(&self, event: &Event) {
        self.of(event).for_each(|bell| bell.raise(event.revision.0));
    }

    /// Notes that nothing of `tenant` up to `revision` is known any more.
    pub(crate) fn forget_tenant(&self, tenant: &Tenant, revision: u64) {
        self.of_tenant(tenant).for_each(|bell| bell.raise(revision));
    }

    /// Notes that the beginning of `tenant`, at `revision`, is no longer in the history.
    pub(crate) fn forget_all_of(&self, tenant: &Tenant, revision: u64) {
        self.all.iter().chain(self.of_tenant(tenant)).for_each(|bell| bell.raise(revision));
    }

    /// Wakes everyone.
    pub(crate) fn wake_all(&self) {
        let tenants = self.tenants.keys().flat_map(|tenant| self.of_tenant(tenant));
        self.all.iter().chain(tenants).for_each(|bell| bell.notify.notify_waiters());
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_none() && self.tenants.is_empty()
    }
}
