//! What can be had of a snapshot that is damaged: the objects of all frames that are right, and where some are
//! missing. The history is let go: after a repair nobody may go on from it anyway.
//!
//! Records refer to what earlier frames said: the collection that objects belong to (repeated in each frame, but
//! not in snapshots of older versions), entries by number, templates by name. What can no longer be known for
//! certain is left out: entries are numbered by their order, so that all behind the first lost frame that may have
//! had some are nobody's, and a wrong header, which would say how many those were, is not believed.

use std::io;
use std::sync::Arc;

use super::files::Files;
use super::frame::Frames;
use super::record::*;
use crate::history::HistoryLimits;
use crate::state::State;
use crate::{Entry, Resource, Tenant};

/// Gaps that are told, at most: more help nobody.
pub(super) const GAPS: usize = 20;

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
            let numbered = salvage.shared.len();
            if header.first == revision && salvage.load(Input(payload), header.records).is_some() {
                continue;
            }
            // Its checksum is right, so the file was written wrong; the rest of the frame is not to be trusted, nor
            // the numbers that it gave.
            salvage.shared.truncate(numbered);
            lost_bytes += frames.offset() - offset;
            salvage.skip();
            continue;
        }
        let passed = frames.resync().await?;
        if passed == 0 {
            break;
        }
        lost_bytes += passed;
        salvage.skip();
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
    /// Entries by number, as far as nothing before them is lost.
    shared: Vec<Arc<Entry>>,
    /// Whether the next entry has the next number: false once entries with numbers may have been lost.
    numbering: bool,
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
            numbering: true,
            place: None,
            last: "the begin".to_owned(),
            open: None,
            gaps: Vec::new(),
            objects: 0,
            expected: None,
        }
    }

    /// A frame, or more than one, is missing here.
    fn skip(&mut self) {
        self.numbering = false;
        self.place = None;
        self.open.get_or_insert_with(|| self.last.clone());
    }

    fn load(&mut self, mut input: Input<'_>, records: u32) -> Option<()> {
        for _ in 0..records {
            let kind = input.byte()?;
            self.load_record(kind, &mut input)?;
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
                self.number(&seed.entries);
                self.state.seeds.insert(seed.id.clone(), seed);
            }
            SHARED => {
                let (resource, revision) = (Resource::stored(input.text()?), input.number()?);
                let entry = input.entry()?.entry(resource, revision, None, None);
                self.number(&[entry]);
            }
            SPACE => {
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
                let known = self.shared.get(number).cloned();
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

    /// Gives entries the next numbers, where those are known.
    fn number(&mut self, entries: &[Arc<Entry>]) {
        if self.numbering {
            self.shared.extend_from_slice(entries);
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::frame::HEADER;
    use super::super::simulated::Disk;
    use super::super::snapshot::Image;
    use super::*;
    use crate::conformance::{begin, body, noise};
    use crate::{Embedded, Expect, Key, Options, Store, Write};

    const NAME: &str = "snapshot";
    const TENANTS: [&str; 2] = ["one", "two"];
    const OBJECTS: usize = 12;

    fn key(tenant: &str, number: usize) -> Key {
        let (resource, name) = (Resource::new("secrets", ""), format!("{tenant}-{number}"));
        Key { tenant: Tenant::logical(tenant), resource, namespace: "a".into(), name: name.as_str().into() }
    }

    /// A disk with a snapshot, nearly all of which are numbered entries of two tenants by turns; its bytes, where
    /// its frames begin, and its revision.
    async fn two_tenants() -> (Disk, Vec<u8>, Vec<usize>, u64) {
        let disk = Disk::default();
        let store = Embedded::open_on(Arc::new(disk.clone()), Options::default()).await.expect("opens");
        for tenant in TENANTS {
            begin(&store, tenant).await;
        }
        for number in 0..OBJECTS {
            for tenant in TENANTS {
                let body = body(&format!("{tenant} {}", noise(60_000, 1).repeat(1 + number % 2)));
                let write = Write::Put { key: key(tenant, number), expect: Expect::Absent, body };
                store.commit(write).await.expect("creates");
            }
        }
        let image = Image::of(&store.shared.read());
        image.write(&disk, NAME, &AtomicBool::new(false)).await.expect("writes").expect("is not stopped");
        store.close().await;
        let bytes = disk.bytes(NAME).expect("is there");
        let mut begins = vec![0];
        while let Some(header) = bytes.get(begins[begins.len() - 1]..).filter(|rest| !rest.is_empty()) {
            let length = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
            begins.push(begins[begins.len() - 1] + HEADER + length as usize);
        }
        begins.pop();
        (disk, bytes, begins, image.revision)
    }

    #[tokio::test]
    async fn whatever_byte_of_a_header_is_wrong_no_tenant_gets_an_object_of_another() {
        let (disk, whole, begins, revision) = two_tenants().await;
        assert!(begins.len() > 4, "there are frames to lose: {begins:?}");
        let mut most = 0;
        for (frame, begin) in begins.iter().enumerate() {
            for at in 0..HEADER {
                // The low bit of a count shifts by one; a high one makes it huge.
                for bit in [0x01, 0x80] {
                    let mut bytes = whole.clone();
                    bytes[begin + at] ^= bit;
                    disk.set_bytes(NAME, bytes);
                    let saved = rescue(&disk, NAME, revision, HistoryLimits::default()).await.expect("reads");
                    let case = format!("frame {frame}, byte {at}, bit {bit:#x}");
                    let mut kept = 0;
                    for (tenant, space) in &saved.state.spaces {
                        for entry in space.collections.values().flat_map(|collection| collection.objects.iter_from(0)) {
                            let body = entry.body();
                            let told = String::from_utf8_lossy(&body[..200]);
                            let name = tenant.as_str();
                            assert!(entry.name.starts_with(name), "{case}: {name} got {}", entry.name);
                            assert!(told.contains(&format!("\"{name} ")), "{case}: {} is another one", entry.name);
                            kept += 1;
                        }
                    }
                    if let Some(lost) = saved.lost_objects {
                        assert_eq!(kept + lost as usize, TENANTS.len() * OBJECTS, "{case}: all is accounted for");
                    }
                    let complete = kept == TENANTS.len() * OBJECTS && frame + 1 < begins.len();
                    assert!(complete || !saved.gaps.is_empty(), "{case}: what is missing is told");
                    most = most.max(if frame == 0 { 0 } else { kept });
                }
            }
        }
        assert!(most >= OBJECTS, "what was numbered before the lost frame is kept: {most}");
    }
}
