//! The state in memory: what every tenant has now, and the history that leads there. Pure but for the
//! bells; the engines decide when a change is made and seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bells::{Bell, Bells};
use crate::cursor::Portion;
use crate::history::{Change, History, HistoryLimits, Seed, Trail, cost};
use crate::objects::{Objects, name_of};
use crate::past::View;
use crate::{Entry, Event, EventKind, Key, ListQuery, Resource, Revision, Scope, StoreError, Tenant, WatchScope};

/// One collection of one tenant.
#[derive(Debug)]
pub(crate) struct Collection {
    pub(crate) objects: Objects,
    trail: Trail,
}

/// A tenant's key space. It is there until the tenant is dropped, whether or not it has objects.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) collections: BTreeMap<Resource, Collection>,
    trail: Trail,
    /// The template it began with, and the revision of that, while the history reaches so far.
    seed: Option<(u64, Arc<Seed>)>,
    /// The bytes of its objects as the history counts them; those of a template count for each tenant that
    /// shares them.
    bytes: usize,
}

impl Space {
    /// Notes that nothing of it up to `floor` is in the history.
    fn raise(&mut self, floor: u64) {
        let trails = self.collections.values_mut().map(|collection| &mut collection.trail);
        trails.chain([&mut self.trail]).for_each(|trail| trail.floor = trail.floor.max(floor));
    }
}

/// Everything.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) revision: u64,
    pub(crate) spaces: BTreeMap<Tenant, Space>,
    pub(crate) history: History,
    /// The bytes of all tenants.
    live: usize,
    /// By name.
    pub(crate) seeds: BTreeMap<String, Arc<Seed>>,
    /// Where tenants were dropped, while the history reaches so far: nothing of theirs before is known.
    dropped: BTreeMap<Tenant, u64>,
    bells: Bells,
}

impl State {
    /// An empty state at `revision`.
    pub(crate) fn new(revision: u64, limits: HistoryLimits) -> Self {
        State {
            revision,
            spaces: BTreeMap::new(),
            history: History::new(revision, limits),
            live: 0,
            seeds: BTreeMap::new(),
            dropped: BTreeMap::new(),
            bells: Bells::default(),
        }
    }

    fn collection(&self, tenant: &Tenant, resource: &Resource) -> Option<&Collection> {
        self.spaces.get(tenant)?.collections.get(resource)
    }

    /// The object called `key`.
    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.collection(&key.tenant, &key.resource)?.objects.get((&key.namespace, &key.name))
    }

    /// The same names, as the state has them already if it does, and the objects that are there; `None` where
    /// the tenant has no key space.
    pub(crate) fn names<'a>(
        &'a self,
        tenant: &Tenant,
        resource: &'a Resource,
    ) -> Option<(&'a Tenant, &'a Resource, Option<&'a Objects>)> {
        let (tenant, space) = self.spaces.get_key_value(tenant)?;
        Some(match space.collections.get_key_value(resource) {
            Some((resource, collection)) => (tenant, resource, Some(&collection.objects)),
            None => (tenant, resource, None),
        })
    }

    /// The tenant of that name.
    pub(crate) fn tenant(&self, name: &str) -> Tenant {
        self.spaces.get_key_value(name).map_or_else(|| Tenant::logical(name), |(tenant, _)| tenant.clone())
    }

    /// The resource of that name.
    pub(crate) fn resource(&self, tenant: &str, name: &str) -> Resource {
        let known = self.spaces.get(tenant).and_then(|space| space.collections.get_key_value(name));
        known.map_or_else(|| Resource::stored(name), |(resource, _)| resource.clone())
    }

    /// Whether the key space of a tenant is there.
    pub(crate) fn has(&self, tenant: &Tenant) -> bool {
        self.spaces.contains_key(tenant)
    }

    /// The tenants whose key spaces are there.
    pub(crate) fn tenants(&self) -> Vec<Tenant> {
        self.spaces.keys().cloned().collect()
    }

    /// The collections of a tenant that have objects.
    pub(crate) fn resources(&self, tenant: &Tenant) -> Vec<(Resource, usize)> {
        let collections = self.spaces.get(tenant).into_iter().flat_map(|space| &space.collections);
        collections
            .filter(|(_, collection)| !collection.objects.is_empty())
            .map(|(resource, collection)| (resource.clone(), collection.objects.len()))
            .collect()
    }

    /// The newest revision of a scope that the history no longer holds.
    fn floor(&self, scope: &WatchScope) -> u64 {
        let (tenant, trail) = match scope {
            WatchScope::All => return self.history.floor(),
            WatchScope::Tenant(tenant) => (tenant, self.spaces.get(tenant).map(|space| &space.trail)),
            WatchScope::Scope(Scope { tenant, resource, .. }) => {
                (tenant, self.collection(tenant, resource).map(|collection| &collection.trail))
            }
        };
        trail.map_or_else(|| self.floor_of_absent(tenant), |trail| trail.floor)
    }

    /// How far the history of something that is not there now reaches back.
    fn floor_of_absent(&self, tenant: &Tenant) -> u64 {
        self.history.floor().max(self.dropped.get(tenant).copied().unwrap_or(0))
    }

    /// Makes the next change, which is `revision`.
    pub(crate) fn apply(&mut self, revision: u64, change: Change) {
        debug_assert_eq!(revision, self.revision + 1);
        self.revision = revision;
        match &change {
            Change::Object(event) => self.apply_event(event),
            Change::Instantiated(tenant, seed) => self.apply_seed(revision, tenant, seed),
            Change::Dropped(tenant) => self.apply_drop(revision, tenant),
        }
        self.history.push(Some(change));
        self.evict(0);
    }

    /// Passes over the next revision, of which nothing is known. Only while repairing.
    pub(crate) fn pass(&mut self) {
        self.revision += 1;
        self.history.push(None);
        self.evict(0);
    }

    /// Goes on from a later revision, of whose history nothing is known. Only while loading.
    pub(crate) fn jump(&mut self, revision: u64) {
        self.evict(self.revision);
        self.revision = revision;
        self.history = History::new(revision, self.history.limits());
        self.spaces.values_mut().for_each(|space| space.raise(revision));
    }

    /// Puts an event that is already part of the objects into the history. Only while loading.
    pub(crate) fn recall(&mut self, revision: u64, change: Option<Change>) {
        match &change {
            Some(Change::Object(event)) => self.follow(event),
            Some(Change::Instantiated(tenant, seed)) => {
                self.space(tenant).seed = Some((revision, seed.clone()));
            }
            Some(Change::Dropped(tenant)) => {
                self.dropped.insert(tenant.clone(), revision);
                if let Some(space) = self.spaces.get_mut(tenant) {
                    space.raise(revision);
                }
            }
            None => (),
        }
        self.history.push(change);
    }

    /// The key space of a tenant, begun if it is not there. Whether it may begin was decided before.
    pub(crate) fn space(&mut self, tenant: &Tenant) -> &mut Space {
        if !self.spaces.contains_key(tenant) {
            let trail = Trail::new(self.floor_of_absent(tenant));
            let space = Space { collections: BTreeMap::new(), trail, seed: None, bytes: 0 };
            self.spaces.insert(tenant.clone(), space);
        }
        self.spaces.get_mut(tenant).expect("was put there just now")
    }

    fn collection_mut(&mut self, tenant: &Tenant, resource: &Resource) -> (&mut Collection, &mut usize) {
        let floor = self.floor_of_absent(tenant);
        let space = self.space(tenant);
        if !space.collections.contains_key(resource) {
            let collection = Collection { objects: Objects::default(), trail: Trail::new(floor) };
            space.collections.insert(resource.clone(), collection);
        }
        let collection = space.collections.get_mut(resource).expect("was put there just now");
        (collection, &mut space.bytes)
    }

    /// Puts an object in its place, without history. Only while loading.
    pub(crate) fn place(&mut self, tenant: &Tenant, entry: Arc<Entry>) {
        let added = cost(&entry);
        let (collection, bytes) = self.collection_mut(tenant, &entry.resource.clone());
        let freed = collection.objects.put(entry).map_or(0, |before| cost(&before));
        *bytes = *bytes + added - freed;
        self.live = self.live + added - freed;
    }

    /// Makes `objects` all that an empty collection has, without history.
    pub(crate) fn place_all(&mut self, tenant: &Tenant, resource: &Resource, objects: &Objects) {
        let added = objects.iter_from(0).map(|entry| cost(entry)).sum::<usize>();
        let (collection, bytes) = self.collection_mut(tenant, resource);
        debug_assert!(collection.objects.is_empty());
        collection.objects = objects.clone();
        *bytes += added;
        self.live += added;
    }

    fn apply_event(&mut self, event: &Arc<Event>) {
        match event.kind {
            EventKind::Added | EventKind::Modified => self.place(&event.tenant, event.entry.clone()),
            EventKind::Deleted => {
                let (collection, bytes) = self.collection_mut(&event.tenant, &event.entry.resource);
                if let Some(before) = collection.objects.remove(name_of(&event.entry)) {
                    *bytes -= cost(&before);
                    self.live -= cost(&before);
                }
            }
        }
        self.follow(event);
    }

    /// Appends an event to the trails it belongs to.
    fn follow(&mut self, event: &Arc<Event>) {
        self.collection_mut(&event.tenant, &event.entry.resource).0.trail.push(event.clone());
        self.space(&event.tenant).trail.push(event.clone());
    }

    fn apply_seed(&mut self, revision: u64, tenant: &Tenant, seed: &Arc<Seed>) {
        self.seeds.entry(seed.id.clone()).or_insert_with(|| seed.clone());
        for (resource, objects) in &seed.collections {
            self.place_all(tenant, resource, objects);
        }
        self.space(tenant).seed = Some((revision, seed.clone()));
    }

    fn apply_drop(&mut self, revision: u64, tenant: &Tenant) {
        if let Some(space) = self.spaces.remove(tenant) {
            self.live -= space.bytes;
            space.trail.since(0).for_each(|event| self.history.blank(event.revision.0));
            space.seed.iter().for_each(|(revision, _)| self.history.blank(*revision));
        }
        if let Some(earlier) = self.dropped.insert(tenant.clone(), revision) {
            self.history.blank(earlier);
        }
        self.bells.forget_tenant(tenant, revision);
    }

    /// Lets go what exceeds the bounds of the history, and everything up to `least`.
    pub(crate) fn evict(&mut self, least: u64) {
        while let Some((revision, change)) = self.history.evict(least, self.live) {
            match change {
                Some(Change::Object(event)) => self.forget(&event),
                Some(Change::Instantiated(tenant, _)) => self.forget_seed(revision, &tenant),
                Some(Change::Dropped(tenant)) => drop(self.dropped.remove(&tenant)),
                None => (),
            }
        }
    }

    fn forget(&mut self, event: &Event) {
        self.bells.forget(event);
        let Some(space) = self.spaces.get_mut(&event.tenant) else { return };
        space.trail.forget(event);
        if let Some(collection) = space.collections.get_mut(&event.entry.resource) {
            collection.trail.forget(event);
            if collection.objects.is_empty() && collection.trail.is_empty() {
                space.collections.remove(&event.entry.resource);
            }
        }
    }

    fn forget_seed(&mut self, revision: u64, tenant: &Tenant) {
        self.bells.forget_all_of(tenant, revision);
        let Some(space) = self.spaces.get_mut(tenant) else { return };
        space.seed = None;
        space.raise(revision);
        space.collections.retain(|_, collection| !collection.objects.is_empty() || !collection.trail.is_empty());
    }

    /// Whether there is any watch.
    #[cfg(test)]
    pub(crate) fn is_watched(&self) -> bool {
        !self.bells.is_empty()
    }

    /// Wakes those who wait for any of `changes`.
    pub(crate) fn ring(&self, changes: &[Change]) {
        self.bells.ring(changes);
    }

    /// Begins a watch of `scope` after `from`.
    pub(crate) fn hang(&mut self, scope: &WatchScope, from: u64) -> Result<Arc<Bell>, StoreError> {
        let bell = self.bells.hang(scope, self.floor(scope));
        let floor = bell.floor();
        if from < floor {
            self.bells.leave(scope);
            return Err(StoreError::Compacted { asked: Revision(from), oldest: Revision(floor) });
        }
        Ok(bell)
    }

    /// Ends a watch, which still holds its bell.
    pub(crate) fn leave(&mut self, scope: &WatchScope) {
        self.bells.leave(scope);
    }

    /// Lets all history up to `least` go and ends the watches that have not got so far.
    pub(crate) fn compact(&mut self, least: u64) {
        self.evict(least.min(self.revision));
        self.bells.wake_all();
    }

    /// Adds events of `scope` after `cursor` to `out` until that is full; returns the revision up to which
    /// `out` has all of them.
    pub(crate) fn read(&self, scope: &WatchScope, cursor: u64, out: &mut Portion) -> u64 {
        match scope {
            WatchScope::All => self.read_all(cursor, out),
            WatchScope::Tenant(tenant) => match self.spaces.get(tenant) {
                Some(space) => self.read_trail(&space.trail, space, (tenant, None, None), cursor, out),
                None => cursor.max(self.revision),
            },
            WatchScope::Scope(Scope { tenant, resource, namespace }) => {
                let found = self.spaces.get(tenant).and_then(|space| Some((space, space.collections.get(resource)?)));
                let Some((space, collection)) = found else { return cursor.max(self.revision) };
                let narrow = (tenant, Some(resource), namespace.as_ref());
                self.read_trail(&collection.trail, space, narrow, cursor, out)
            }
        }
    }

    fn read_all(&self, cursor: u64, out: &mut Portion) -> u64 {
        for (revision, change) in self.history.since(cursor) {
            match change {
                Some(Change::Object(event)) => out.push(event.clone()),
                Some(Change::Instantiated(tenant, seed)) => {
                    seed.events(tenant, revision, None).for_each(|event| out.push(event));
                }
                Some(Change::Dropped(_)) | None => (),
            }
            if out.is_full() {
                return revision;
            }
        }
        cursor.max(self.revision)
    }

    fn read_trail(
        &self,
        trail: &Trail,
        space: &Space,
        (tenant, resource, namespace): (&Tenant, Option<&Resource>, Option<&Arc<str>>),
        cursor: u64,
        out: &mut Portion,
    ) -> u64 {
        let wanted = |event: &Arc<Event>| namespace.is_none_or(|namespace| event.entry.namespace == *namespace);
        let mut seed = space.seed.as_ref().filter(|(revision, _)| *revision > cursor);
        for event in trail.since(cursor) {
            if let Some((revision, sown)) = seed.take_if(|(revision, _)| *revision < event.revision.0) {
                sown.events(tenant, *revision, resource).filter(wanted).for_each(|event| out.push(event));
            }
            if wanted(event) {
                out.push(event.clone());
            }
            if out.is_full() {
                return event.revision.0;
            }
        }
        if let Some((revision, sown)) = seed {
            sown.events(tenant, *revision, resource).filter(wanted).for_each(|event| out.push(event));
        }
        cursor.max(self.revision)
    }

    /// The collection of `query` as it was at the revision asked for.
    pub(crate) fn view(&self, query: &ListQuery) -> Result<View, StoreError> {
        let Scope { tenant, resource, .. } = &query.scope;
        let at = query.at.map_or(self.revision, |at| at.0);
        if at > self.revision {
            return Err(StoreError::Future { asked: Revision(at), current: Revision(self.revision) });
        }
        let collection = self.collection(tenant, resource);
        let floor = collection.map_or_else(|| self.floor_of_absent(tenant), |collection| collection.trail.floor);
        if at < floor {
            return Err(StoreError::Compacted { asked: Revision(at), oldest: Revision(floor) });
        }
        let Some(collection) = collection else { return Ok(View::new(at, Objects::default())) };
        let seeded = self.spaces.get(tenant).and_then(|space| space.seed.as_ref()).map(|(revision, _)| *revision);
        // Before its template the key space was empty; what came after that needs no undoing.
        let (mut view, until) = match seeded.filter(|seeded| at < *seeded) {
            Some(seeded) => (View::new(at, Objects::default()), seeded),
            None => (View::new(at, collection.objects.clone()), u64::MAX),
        };
        for event in collection.trail.since(at).rev().filter(|event| event.revision.0 < until) {
            view.undo(event);
        }
        Ok(view)
    }
}
