//! Records: what the payloads of frames consist of. Numbers are LEB128, strings and bodies follow their
//! length. Reading trusts nothing: whatever does not fit is `None`.

use std::sync::Arc;

use crate::body::Body;
use crate::history::{Change, Seed};
use crate::{Entry, EventKind, Resource, Revision};

/// In the log: an object's new state.
pub(super) const PUT: u8 = 1;
/// In the log: an object is gone; its last state.
pub(super) const DELETE: u8 = 2;
/// A template's objects, before the first record that names it. Has no revision of its own.
pub(super) const TEMPLATE: u8 = 3;
/// A tenant begins with the objects of a template.
pub(super) const INSTANTIATE: u8 = 4;
/// A tenant is gone.
pub(super) const DROP: u8 = 5;
/// The revision goes on elsewhere, and nothing of the history before is known any more.
pub(super) const JUMP: u8 = 6;
/// In snapshots: its revision and how far its history reaches.
pub(super) const HEAD: u8 = 16;
/// In snapshots: an entry that others refer to by its number.
pub(super) const SHARED: u8 = 17;
/// In snapshots: the collection to which the following objects belong.
pub(super) const COLLECTION: u8 = 18;
/// In snapshots: an object.
pub(super) const OBJECT: u8 = 19;
/// In snapshots: an object that is a shared entry.
pub(super) const OBJECT_SHARED: u8 = 20;
/// In snapshots: an event.
pub(super) const EVENT: u8 = 21;
/// In snapshots: a revision of which nothing is known.
pub(super) const GAP: u8 = 22;
/// In snapshots: a tenant's key space, before its collections.
pub(super) const SPACE: u8 = 24;
/// In snapshots: the end, with the number of objects.
pub(super) const END: u8 = 23;

/// Appends a number.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Set in the number of a splice, which has 32 bits: the body is packed, and its length unpacked stands before it.
/// Format 1 does not know it.
const PACKED: u64 = 1 << 32;

/// Appends what an entry has beside its collection and its revision.
pub(super) fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_bytes(out, entry.namespace.as_bytes());
    put_bytes(out, entry.name.as_bytes());
    let splice = u64::from(entry.body.splice());
    match entry.body.packed() {
        Some(len) => {
            put_number(out, splice | PACKED);
            put_number(out, u64::from(len));
        }
        None => put_number(out, splice),
    }
    put_bytes(out, entry.body.held());
}

/// Appends a template.
pub(super) fn put_template(out: &mut Vec<u8>, seed: &Seed) {
    out.push(TEMPLATE);
    put_bytes(out, seed.id.as_bytes());
    put_number(out, seed.entries.first().map_or(0, |entry| entry.revision.0));
    put_number(out, seed.entries.len() as u64);
    for entry in &seed.entries {
        put_bytes(out, entry.resource.as_str().as_bytes());
        put_entry(out, entry);
    }
}

/// Appends a change as the log has it.
pub(super) fn put_change(out: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Object(event) => {
            out.push(if event.kind == EventKind::Deleted { DELETE } else { PUT });
            put_bytes(out, event.tenant.as_str().as_bytes());
            put_bytes(out, event.entry.resource.as_str().as_bytes());
            put_entry(out, &event.entry);
        }
        Change::Instantiated(tenant, seed) => {
            out.push(INSTANTIATE);
            put_bytes(out, tenant.as_str().as_bytes());
            put_bytes(out, seed.id.as_bytes());
        }
        Change::Dropped(tenant) => {
            out.push(DROP);
            put_bytes(out, tenant.as_str().as_bytes());
        }
    }
}

/// Reads records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a>(pub(super) &'a [u8]);

/// What [`put_entry`] wrote.
#[derive(Clone)]
pub(super) struct RawEntry<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    body: RawBody<'a>,
}

#[derive(Clone)]
enum RawBody<'a> {
    /// A form, and its splice.
    Plain(&'a [u8], u32),
    Packed(Body),
}

impl RawEntry<'_> {
    /// The entry. `names` are those of the one that it takes the place of; `beside` is the namespace of one
    /// near it, so that equal ones are kept once.
    pub(super) fn entry(
        self,
        resource: Resource,
        revision: u64,
        names: Option<&Entry>,
        beside: Option<&Arc<str>>,
    ) -> Arc<Entry> {
        let beside = beside.filter(|beside| ***beside == *self.namespace);
        let (namespace, name) = match names {
            Some(names) => (names.namespace.clone(), names.name.clone()),
            None => (beside.cloned().unwrap_or_else(|| Arc::from(self.namespace)), Arc::from(self.name)),
        };
        let revision = Revision(revision);
        let body = match self.body {
            RawBody::Plain(form, splice) => Body::read(form, splice, revision),
            RawBody::Packed(body) => body,
        };
        Arc::new(Entry { resource, namespace, name, revision, body })
    }
}

impl<'a> Input<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(super) fn entry(&mut self) -> Option<RawEntry<'a>> {
        let (namespace, name) = (self.text()?, self.text()?);
        let number = self.number()?;
        let splice = u32::try_from(number & !PACKED).ok()?;
        let body = if number & PACKED > 0 {
            let len = self.number()?;
            RawBody::Packed(Body::read_packed(self.bytes()?, len, splice)?)
        } else {
            let form = self.bytes()?;
            ((splice as usize) < form.len()).then_some(RawBody::Plain(form, splice))?
        };
        Some(RawEntry { namespace, name, body })
    }

    /// What [`put_template`] wrote behind its first byte.
    pub(super) fn template(&mut self) -> Option<Seed> {
        let id = self.text()?.to_owned();
        let (revision, count) = (self.number()?, self.number()?);
        let mut entries: Vec<Arc<Entry>> = Vec::new();
        for _ in 0..count {
            let resource = self.text()?;
            let known = entries.last().map(|entry| &entry.resource).filter(|known| known.as_str() == resource);
            let resource = known.cloned().unwrap_or_else(|| Resource::stored(resource));
            let entry = self.entry()?.entry(resource, revision, None, entries.last().map(|last| &last.namespace));
            entries.push(entry);
        }
        Some(Seed::from_entries(id, entries))
    }
}
