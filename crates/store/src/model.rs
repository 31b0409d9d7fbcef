//! What goes into and comes out of a store.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use allotment_machinery::object::Encoded;
use bytes::Bytes;

use crate::body::{Body, Content};
use crate::{Key, Resource, Revision, Scope, Tenant};

/// An object at a revision. Shared: never changed, only replaced. It does not say whose it is: what comes
/// from a [`Template`] is shared by many tenants, and so bears the revision at which the template was
/// first used, which may be older than the tenant.
#[derive(Clone)]
pub struct Entry {
    /// Its collection.
    pub resource: Resource,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The write that made this state of it: its `resourceVersion`.
    pub revision: Revision,
    pub(crate) body: Body,
}

impl Entry {
    /// What `key` names, as the write `revision` leaves it. Stores make their own; this is for who stands in for one.
    pub fn of(key: Key, revision: Revision, body: Encoded) -> Self {
        let Key { resource, namespace, name, .. } = key;
        Entry { resource, namespace, name, revision, body: Content::of(body).at(revision) }
    }

    /// The stored form, `metadata.resourceVersion` included: what is held, or, where that is packed, unpacked. The
    /// latter is done anew each time, a microsecond or two for each ten thousand bytes: ask once, and keep it while it
    /// is needed.
    pub fn body(&self) -> Cow<'_, Bytes> {
        self.body.form(self.revision)
    }

    /// The stored form, if it is held as it is: then it can be kept without holding more.
    pub fn plain_body(&self) -> Option<&Bytes> {
        Some(self.body.held()).filter(|_| self.body.packed().is_none())
    }

    /// Whether the stored form is this one. It is unpacked only if their lengths agree.
    pub fn has_body(&self, form: &[u8]) -> bool {
        self.body_len() == form.len() && **self.body() == *form
    }

    /// The stored form as it would be at another revision.
    pub fn body_at(&self, revision: Revision) -> Bytes {
        self.body.form_at(self.revision, revision)
    }

    /// How long the stored form is. Nothing is unpacked for it.
    pub fn body_len(&self) -> usize {
        self.body.len(self.revision)
    }

    /// Where in the stored form the member `"resourceVersion":"…",` begins.
    pub fn splice(&self) -> usize {
        self.body.splice() as usize
    }

    /// The key of it in the key space of `tenant`.
    pub fn key(&self, tenant: &Tenant) -> Key {
        Key {
            tenant: tenant.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Whether its UID is this one, as told by where the stored form has it. `false` may also mean that the text
    /// would have to be escaped.
    pub fn has_uid(&self, uid: &str) -> bool {
        let body = self.body();
        let member = body.get(self.splice()..).unwrap_or_default();
        let revision = format!("\"resourceVersion\":\"{}\",\"uid\":\"{uid}\"", self.revision);
        !uid.contains(['"', '\\']) && member.starts_with(revision.as_bytes())
    }
}

impl fmt::Debug for Entry {
    /// Bodies may hold secrets; they are never shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("resource", &self.resource)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// What an event says happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key was absent before.
    Added,
    /// It had another state before.
    Modified,
    /// It is gone; the entry holds its last state, with the revision of the deletion.
    Deleted,
}

/// One change of one object. Shared by all watchers.
#[derive(Debug)]
pub struct Event {
    /// Whose object it is.
    pub tenant: Tenant,
    /// The write that it tells of. That of `entry`, but for objects made from a template, whose entries
    /// are older.
    pub revision: Revision,
    /// What happened.
    pub kind: EventKind,
    /// The object after it; of a deletion, its last state at the deletion's revision.
    pub entry: Arc<Entry>,
    /// The object before it; absent for additions.
    pub previous: Option<Arc<Entry>>,
}

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing under that key.
    Absent,
    /// The object as this revision left it.
    Revision(Revision),
}

/// One atomic write.
#[derive(Clone)]
pub enum Write {
    /// Creates or replaces an object.
    Put {
        /// Its name.
        key: Key,
        /// Compare-and-swap.
        expect: Expect,
        /// Its new state.
        body: Encoded,
    },
    /// Takes an object away.
    Delete {
        /// Its name.
        key: Key,
        /// Compare-and-swap.
        expect: Revision,
        /// The state that watchers are shown; the stored one where absent.
        last: Option<Encoded>,
    },
    /// Begins a key space with all objects of a template, sharing their bytes with every other tenant
    /// made from it. One write with one revision: watches deliver all its additions, in order of
    /// collection, namespace and name. It does nothing where the key space is there already, even if that
    /// has no objects.
    Instantiate {
        /// Whose key space.
        tenant: Tenant,
        /// What to make.
        template: Arc<Template>,
    },
    /// Ends a key space and takes away everything in it. Watches of it end with
    /// [`crate::StoreError::Compacted`]; writes to it end with [`crate::StoreError::NoTenant`] until it is
    /// begun again.
    DropTenant {
        /// Whose key space.
        tenant: Tenant,
    },
}

/// Objects that many tenants begin with, kept once.
#[derive(Debug)]
pub struct Template {
    /// Names the content: two templates with one name are the same.
    pub id: String,
    /// The objects.
    pub entries: Vec<TemplateEntry>,
}

/// One object of a template.
#[derive(Debug)]
pub struct TemplateEntry {
    /// Its collection.
    pub resource: Resource,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its content.
    pub body: Encoded,
}

/// What a write did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its place in the order of writes. A write that had nothing to do gives the newest revision.
    pub revision: Revision,
    /// The object after a [`Write::Put`], the last state after a [`Write::Delete`]; else absent.
    pub entry: Option<Arc<Entry>>,
}

/// A question for a range of objects, in order of (namespace, name).
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Where.
    pub scope: Scope,
    /// The state at exactly this revision; `None` for the newest.
    pub at: Option<Revision>,
    /// Only what comes after this (namespace, name).
    pub after: Option<(Arc<str>, Arc<str>)>,
    /// At most so many; 0 for all.
    pub limit: usize,
}

/// A part of a collection.
#[derive(Clone, Debug)]
pub struct Page {
    /// The revision that it shows.
    pub revision: Revision,
    /// The objects, in order of (namespace, name).
    pub entries: Vec<Arc<Entry>>,
    /// How many come after them.
    pub remaining: usize,
}

/// What to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchScope {
    /// One collection of one tenant, or one namespace of it.
    Scope(Scope),
    /// One tenant's everything.
    Tenant(Tenant),
    /// Everything of everyone. Events of a tenant that is dropped before they are read are left out, and
    /// the dropping itself is no event.
    All,
}
