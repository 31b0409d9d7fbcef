//! What can be had of a snapshot that is damaged: the objects of all frames that are right, and where some are
//! missing. The history is let go: after a repair nobody may go on from it anyway.
//!
//! Records refer to what earlier frames said: the collection that objects belong to (repeated in each frame, but
//! not in snapshots of older versions), entries by number, templates by name. What can no longer be known for
//! certain is left out.

use std::io;
use std::sync::Arc;

use super::files::Files;
use super::frame::{Frames, Header};
use super::record::*;
use crate::history::HistoryLimits;
use crate::state::State;
use crate::{Entry, Resource, Tenant};

/// Gaps that are told, at most: more help nobody.
const GAPS: usize = 20;

/// What was saved of a damaged snapshot.
#[derive(Debug)]
pub(super) struct Rescued {
    pub(super) state: State,
    /// Objects that the snapshot had and that are not there; absent if its end, where they are counted, is lost.
    pub(super) lost_objects: Option<u64>,
    /// Bytes of frames that are not right.
    pub(super) lost_bytes: u64,
    /// Where objects are missing, each place in words.
    pub(super) gaps: Vec<String>,
}

/// Reads all that is right of the snapshot `name`, which is of `revision`.
pub(super) async fn rescue(files: &dyn Files, name: &str, revision: u64, limits: HistoryLimits) -> io::Result<Rescued> {
    let mut frames = Frames::new(files, name);
    let mut salvage = Salvage::new(revision, limits);
    let mut lost_bytes = 0;
    loop {
        let offset = frames.offset();
        if let Some((header, payload)) = frames.next().await? {
            if header.first == revision && salvage.load(Input(payload), header.records).is_some() {
                continue;
            }
            // Its checksum is right, so the file was written wrong; the rest of the frame is not to be trusted.
            lost_bytes += frames.offset() - offset;
            salvage.skip(None);
            continue;
        }
        let header = frames.header();
        let passed = frames.resync().await?;
        if passed == 0 {
            break;
        }
        lost_bytes += passed;
        salvage.skip(header.filter(|header| header.whole() == passed));
    }
    if let Some(after) = salvage.open.take() {
        salvage.tell(format!("after {after}"));
    }
    let Salvage { state, expected, objects, gaps, .. } = salvage;
    let lost_objects = expected.map(|expected| expected.saturating_sub(objects));
    Ok(Rescued { state, lost_objects, lost_bytes, gaps })
}

#[derive(Debug)]
struct Salvage {
    state: State,
    /// Entries by number; those of lost frames are absent.
    shared: Vec<Option<Arc<Entry>>>,
    /// Whether nobody knows any more which number is whose.
    unnumbered: bool,
    /// Whether what is lost next may be entries that have numbers.
    numbering: bool,
    /// The kind of the last record.
    kind: u8,
    place: Option<(Tenant, Resource)>,
    /// The last object that was read, in words.
    last: String,
    /// Something is missing behind this object, and none has been read since.
    open: Option<String>,
    gaps: Vec<String>,
    objects: u64,
    expected: Option<u64>,
}

impl Salvage {
    fn new(revision: u64, limits: HistoryLimits) -> Self {
        Salvage {
            state: State::new(revision, limits),
            shared: Vec::new(),
            unnumbered: false,
            numbering: true,
            kind: HEAD,
            place: None,
            last: "the begin".to_owned(),
            open: None,
            gaps: Vec::new(),
            objects: 0,
            expected: None,
        }
    }

    /// A frame, or more than one, is missing here; `header` is that of the only one, if it can be trusted.
    fn skip(&mut self, header: Option<Header>) {
        if self.numbering {
            match header {
                // All that lies between two entries with numbers has one; `load` sees what follows.
                Some(header) if self.kind == SHARED => self.shared.extend((0..header.records).map(|_| None)),
                _ => self.unnumbered = true,
            }
        }
        self.place = None;
        self.open.get_or_insert_with(|| self.last.clone());
    }

    fn load(&mut self, mut input: Input<'_>, records: u32) -> Option<()> {
        for index in 0..records {
            let kind = input.byte()?;
            if self.numbering && index == 0 && self.open.is_some() && kind != SHARED {
                self.unnumbered = true;
            }
            self.load_record(kind, &mut input)?;
            self.kind = kind;
        }
        input.is_empty().then_some(())
    }

    fn load_record(&mut self, kind: u8, input: &mut Input<'_>) -> Option<()> {
        match kind {
            HEAD => {
                input.number()?;
                input.number()?;
            }
            TEMPLATE => {
                let seed = Arc::new(input.template()?);
                self.shared.extend(seed.entries.iter().cloned().map(Some));
                self.state.seeds.insert(seed.id.clone(), seed);
            }
            SHARED => {
                let (resource, revision) = (Resource::stored(input.text()?), input.number()?);
                let entry = input.entry()?.entry(resource, revision, None, None);
                self.shared.push(Some(entry));
            }
            SPACE => {
                self.numbering = false;
                let tenant = self.state.tenant(input.text()?);
                self.state.space(&tenant);
            }
            COLLECTION => self.load_collection(input)?,
            OBJECT => {
                let revision = input.number()?;
                let raw = input.entry()?;
                if let Some((tenant, resource)) = self.place.clone() {
                    self.put(&tenant, raw.entry(resource, revision, None, None));
                }
            }
            OBJECT_SHARED => {
                let number = input.number()? as usize;
                let known = self.shared.get(number).cloned().flatten().filter(|_| !self.unnumbered);
                match (self.place.clone(), known) {
                    (Some((tenant, resource)), Some(entry)) if entry.resource == resource => self.put(&tenant, entry),
                    // It was there, but what it was is lost.
                    _ => drop(self.open.get_or_insert_with(|| self.last.clone())),
                }
            }
            END => self.expected = Some(input.number()?),
            past => skip_past(past, input)?,
        }
        Some(())
    }

    fn load_collection(&mut self, input: &mut Input<'_>) -> Option<()> {
        self.numbering = false;
        let (tenant, resource, template) = (input.text()?, input.text()?, input.text()?);
        let (tenant, resource) = (self.state.tenant(tenant), self.state.resource(tenant, resource));
        let seed = self.state.seeds.get(template).cloned();
        match seed.as_ref().and_then(|seed| seed.objects(&resource)) {
            Some(objects) => {
                self.objects += objects.len() as u64;
                self.state.place_all(&tenant, &resource, objects);
            }
            None if template.is_empty() => {}
            None => self.tell(format!("all {} of tenant {}", resource.as_str(), tenant.as_str())),
        }
        self.place = Some((tenant, resource));
        Some(())
    }

    fn put(&mut self, tenant: &Tenant, entry: Arc<Entry>) {
        self.objects += 1;
        let slash = if entry.namespace.is_empty() { "" } else { "/" };
        let (resource, tenant_name) = (entry.resource.as_str(), tenant.as_str());
        self.last = format!("{resource} {}{slash}{} of tenant {tenant_name}", entry.namespace, entry.name);
        if let Some(after) = self.open.take() {
            self.tell(format!("between {after} and {}", self.last));
        }
        self.state.place(tenant, entry);
    }

    fn tell(&mut self, gap: String) {
        if self.gaps.len() < GAPS {
            self.gaps.push(gap);
        }
    }
}

/// Reads a record of the history, and forgets it.
fn skip_past(kind: u8, input: &mut Input<'_>) -> Option<()> {
    match kind {
        GAP => {}
        EVENT => {
            input.byte()?;
            input.text()?;
            input.number()?;
            input.number()?;
        }
        INSTANTIATE => {
            input.text()?;
            input.text()?;
        }
        DROP => drop(input.text()?),
        _ => return None,
    }
    Some(())
}
