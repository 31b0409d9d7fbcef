//! Snapshots: all objects and the history at one revision, so that the log before it can go.
//!
//! Entries that are shared (by tenants of one template, by objects and events) are written once and
//! referred to by number, so they are shared again after reading.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::files::{FileWriter, Files};
use super::frame::{self, HEADER};
use super::record::*;
use crate::history::{Change, HistoryLimits, Seed};
use crate::objects::Objects;
use crate::state::State;
use crate::{Entry, Event, EventKind, Resource, Revision, Tenant};

/// Payload of a frame, about: what a checksum covers, and what is in memory twice while written.
const FRAME: usize = 256 << 10;

/// All there is at one revision. Cheap to take, since collections are copied on write.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) revision: u64,
    floor: u64,
    seeds: Vec<Arc<Seed>>,
    spaces: Vec<(Tenant, Vec<(Resource, Objects)>)>,
    history: Vec<Option<Change>>,
}

impl Image {
    pub(super) fn of(state: &State) -> Self {
        let spaces = state.spaces.iter().map(|(tenant, space)| {
            let filled = space.collections.iter().filter(|(_, collection)| !collection.objects.is_empty());
            let filled = filled.map(|(resource, collection)| (resource.clone(), collection.objects.clone()));
            (tenant.clone(), filled.collect())
        });
        Image {
            revision: state.revision,
            floor: state.history.floor(),
            seeds: state.seeds.values().cloned().collect(),
            spaces: spaces.collect(),
            history: state.history.since(0).map(|(_, change)| change.cloned()).collect(),
        }
    }

    /// Writes it to the new file `name` and makes that durable; returns its length. `None`: told to stop.
    pub(super) async fn write(&self, files: &dyn Files, name: &str, stop: &AtomicBool) -> io::Result<Option<u64>> {
        let mut out = Sink {
            file: files.create(name).await?,
            first: self.revision,
            frame: frame::begin(),
            records: 0,
            written: 0,
        };
        let mut numbers = Numbers::default();
        out.frame.push(HEAD);
        put_number(&mut out.frame, self.revision);
        put_number(&mut out.frame, self.floor);
        out.end_record().await?;
        for seed in &self.seeds {
            put_template(&mut out.frame, seed);
            out.end_record().await?;
            for entry in &seed.entries {
                numbers.of(entry);
            }
        }
        for event in self.history.iter().flatten().filter_map(Change::event) {
            for entry in [Some(&event.entry), event.previous.as_ref()].into_iter().flatten() {
                if numbers.of(entry).1 {
                    out.frame.push(SHARED);
                    put_bytes(&mut out.frame, entry.resource.as_str().as_bytes());
                    put_number(&mut out.frame, entry.revision.0);
                    put_entry(&mut out.frame, entry);
                    out.end_record().await?;
                }
            }
        }
        for (tenant, collections) in &self.spaces {
            out.frame.push(SPACE);
            put_bytes(&mut out.frame, tenant.as_str().as_bytes());
            out.end_record().await?;
            for (resource, objects) in collections {
                if stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                self.write_collection(&mut out, &numbers, (tenant, resource, objects)).await?;
            }
        }
        for change in &self.history {
            write_past(&mut out.frame, &mut numbers, change.as_ref());
            out.end_record().await?;
        }
        out.frame.push(END);
        let collections = self.spaces.iter().flat_map(|(_, collections)| collections);
        put_number(&mut out.frame, collections.map(|(_, objects)| objects.len() as u64).sum());
        out.records += 1;
        out.flush().await?;
        out.file.sync().await?;
        Ok(Some(out.written))
    }

    async fn write_collection(
        &self,
        out: &mut Sink,
        numbers: &Numbers,
        (tenant, resource, objects): (&Tenant, &Resource, &Objects),
    ) -> io::Result<()> {
        let seed = self.seeds.iter().find(|seed| seed.objects(resource).is_some_and(|theirs| theirs.is_same(objects)));
        put_collection(&mut out.frame, tenant, resource, seed.map_or("", |seed| &seed.id));
        out.end_record().await?;
        if seed.is_some() {
            return Ok(());
        }
        for entry in objects.iter_from(0) {
            if out.records == 0 {
                // Each frame says whose objects it has, so that it can be read without the one before.
                put_collection(&mut out.frame, tenant, resource, "");
                out.end_record().await?;
            }
            match numbers.get(entry) {
                Some(number) => {
                    out.frame.push(OBJECT_SHARED);
                    put_number(&mut out.frame, number);
                }
                None => {
                    out.frame.push(OBJECT);
                    put_number(&mut out.frame, entry.revision.0);
                    put_entry(&mut out.frame, entry);
                }
            }
            out.end_record().await?;
        }
        Ok(())
    }
}

fn put_collection(out: &mut Vec<u8>, tenant: &Tenant, resource: &Resource, template: &str) {
    out.push(COLLECTION);
    put_bytes(out, tenant.as_str().as_bytes());
    put_bytes(out, resource.as_str().as_bytes());
    put_bytes(out, template.as_bytes());
}

fn write_past(out: &mut Vec<u8>, numbers: &mut Numbers, change: Option<&Change>) {
    match change {
        None => out.push(GAP),
        Some(Change::Object(event)) => {
            out.push(EVENT);
            out.push(match event.kind {
                EventKind::Added => 0,
                EventKind::Modified => 1,
                EventKind::Deleted => 2,
            });
            put_bytes(out, event.tenant.as_str().as_bytes());
            put_number(out, numbers.of(&event.entry).0);
            put_number(out, event.previous.as_ref().map_or(0, |entry| numbers.of(entry).0 + 1));
        }
        Some(wide @ (Change::Instantiated(..) | Change::Dropped(_))) => put_change(out, wide),
    }
}

/// The numbers of shared entries, by their address, which is compared and never followed.
#[derive(Debug, Default)]
struct Numbers(HashMap<usize, u64>);

impl Numbers {
    fn get(&self, entry: &Arc<Entry>) -> Option<u64> {
        self.0.get(&(Arc::as_ptr(entry) as usize)).copied()
    }

    /// The number of an entry, and whether it has just got it.
    fn of(&mut self, entry: &Arc<Entry>) -> (u64, bool) {
        let next = self.0.len() as u64;
        let number = *self.0.entry(Arc::as_ptr(entry) as usize).or_insert(next);
        (number, number == next)
    }
}

/// Writes records in frames.
#[derive(Debug)]
struct Sink {
    file: Box<dyn FileWriter>,
    first: u64,
    frame: Vec<u8>,
    records: u32,
    written: u64,
}

impl Sink {
    async fn end_record(&mut self) -> io::Result<()> {
        self.records += 1;
        if self.frame.len() < HEADER + FRAME { Ok(()) } else { self.flush().await }
    }

    async fn flush(&mut self) -> io::Result<()> {
        frame::seal(&mut self.frame, self.first, self.records);
        self.file.write(&self.frame).await?;
        self.written += self.frame.len() as u64;
        self.records = 0;
        self.frame.truncate(HEADER);
        Ok(())
    }
}

/// Puts a state together from the records of a snapshot.
#[derive(Debug)]
pub(super) struct Loader {
    state: State,
    revision: u64,
    /// The revision of the event that comes next.
    next: u64,
    shared: Vec<Arc<Entry>>,
    place: Option<(Tenant, Resource)>,
    /// The namespace of the object before.
    namespace: Option<Arc<str>>,
    objects: u64,
    ended: bool,
}

impl Loader {
    pub(super) fn new(limits: HistoryLimits) -> Self {
        let state = State::new(0, limits);
        Loader {
            state,
            revision: 0,
            next: 0,
            shared: Vec::new(),
            place: None,
            namespace: None,
            objects: 0,
            ended: false,
        }
    }

    /// Takes the records of one frame; `None` if they make no sense.
    pub(super) fn load(&mut self, mut input: Input<'_>, records: u32) -> Option<()> {
        for _ in 0..records {
            self.load_record(&mut input)?;
        }
        input.is_empty().then_some(())
    }

    /// The state; `None` if the snapshot is not whole.
    pub(super) fn finish(mut self) -> Option<State> {
        self.state.revision = self.revision;
        self.state.evict(0);
        (self.ended && self.next == self.revision + 1).then_some(self.state)
    }

    fn load_record(&mut self, input: &mut Input<'_>) -> Option<()> {
        if self.ended {
            return None;
        }
        match input.byte()? {
            HEAD => {
                let (revision, floor) = (input.number()?, input.number()?);
                self.revision = revision;
                self.next = floor + 1;
                self.state = State::new(floor, self.state.history.limits());
            }
            TEMPLATE => {
                let seed = Arc::new(input.template()?);
                self.shared.extend(seed.entries.iter().cloned());
                self.state.seeds.insert(seed.id.clone(), seed);
            }
            SHARED => {
                let resource = input.text()?;
                let revision = input.number()?;
                let known = self.shared.last().map(|entry| &entry.resource).filter(|known| known.as_str() == resource);
                let resource = known.cloned().unwrap_or_else(|| Resource::stored(resource));
                let beside = self.shared.last().map(|last| &last.namespace);
                let entry = input.entry()?.entry(resource, revision, None, beside);
                self.shared.push(entry);
            }
            SPACE => {
                let tenant = self.state.tenant(input.text()?);
                self.state.space(&tenant);
            }
            COLLECTION => self.load_collection(input)?,
            OBJECT => {
                let (tenant, resource) = self.place.clone()?;
                let revision = input.number()?;
                let entry = input.entry()?.entry(resource, revision, None, self.namespace.as_ref());
                self.put(&tenant, entry);
            }
            OBJECT_SHARED => {
                let (tenant, _) = self.place.clone()?;
                let entry = self.shared.get(input.number()? as usize)?.clone();
                self.put(&tenant, entry);
            }
            END => self.ended = input.number()? == self.objects,
            past => self.load_past(past, input)?,
        }
        Some(())
    }

    fn put(&mut self, tenant: &Tenant, entry: Arc<Entry>) {
        self.objects += 1;
        self.namespace = Some(entry.namespace.clone());
        self.state.place(tenant, entry);
    }

    fn load_collection(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (tenant, resource) = (input.text()?, input.text()?);
        let (tenant, resource) = (self.state.tenant(tenant), self.state.resource(tenant, resource));
        let template = input.text()?;
        if !template.is_empty() {
            let seed = self.state.seeds.get(template)?.clone();
            let objects = seed.objects(&resource)?;
            self.objects += objects.len() as u64;
            self.state.place_all(&tenant, &resource, objects);
        }
        self.place = Some((tenant, resource));
        Some(())
    }

    fn load_past(&mut self, past: u8, input: &mut Input<'_>) -> Option<()> {
        let revision = self.next;
        self.next += 1;
        let change = match past {
            GAP => None,
            EVENT => {
                let kind = match input.byte()? {
                    0 => EventKind::Added,
                    1 => EventKind::Modified,
                    2 => EventKind::Deleted,
                    _ => return None,
                };
                let tenant = self.state.tenant(input.text()?);
                let entry = self.shared.get(input.number()? as usize)?.clone();
                let previous = match input.number()?.checked_sub(1) {
                    None => None,
                    Some(number) => Some(self.shared.get(number as usize)?.clone()),
                };
                let revision = Revision(revision);
                let event = Event { tenant, revision, kind, entry, previous };
                Some(Change::Object(Arc::new(event)))
            }
            INSTANTIATE => {
                let tenant = self.state.tenant(input.text()?);
                Some(Change::Instantiated(tenant, self.state.seeds.get(input.text()?)?.clone()))
            }
            DROP => Some(Change::Dropped(self.state.tenant(input.text()?))),
            _ => return None,
        };
        self.state.recall(revision, change);
        Some(())
    }
}
