//! A collection as it was: what it is now with the newer events undone.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::objects::{Name, Objects, name_of};
use crate::{Entry, Event, ListQuery, Page, Revision};

/// (namespace, name).
type OwnedName = (Arc<str>, Arc<str>);

/// A collection at one revision. It holds no lock.
#[derive(Debug)]
pub(crate) struct View {
    revision: u64,
    objects: Objects,
    /// What was there instead, by (namespace, name).
    before: BTreeMap<OwnedName, Option<Arc<Entry>>>,
}

impl View {
    pub(crate) fn new(revision: u64, objects: Objects) -> Self {
        View { revision, objects, before: BTreeMap::new() }
    }

    /// Goes back before `event`; they are undone from the newest to the oldest.
    pub(crate) fn undo(&mut self, event: &Event) {
        let key = (event.entry.namespace.clone(), event.entry.name.clone());
        self.before.insert(key, event.previous.clone());
    }

    /// The part of it that `query` asks for.
    pub(crate) fn page(&self, query: &ListQuery) -> Page {
        let namespace = query.scope.namespace.as_deref();
        let after = query.after.as_ref().map(|(namespace, name)| (&**namespace, &**name));
        let before = |name: Name<'_>| {
            namespace.is_some_and(|namespace| name.0 < namespace) || after.is_some_and(|after| name <= after)
        };
        let within = |name: Name<'_>| namespace.is_none_or(|namespace| name.0 <= namespace);
        let start = self.objects.rank(|entry| before(name_of(entry)));
        let end = self.objects.rank(|entry| within(name_of(entry))).max(start);
        let mut total = end - start;
        let mut changed = Vec::new();
        for (key, entry) in &self.before {
            let name = (&*key.0, &*key.1);
            if before(name) || !within(name) {
                continue;
            }
            total = total + usize::from(entry.is_some()) - usize::from(self.objects.get(name).is_some());
            changed.push((name, entry.as_ref()));
        }
        let limit = if query.limit == 0 { total } else { query.limit.min(total) };
        let current = self.objects.iter_from(start).take(end - start);
        let mut entries = Vec::with_capacity(limit);
        entries.extend(merge(current, changed).take(limit).cloned());
        Page { revision: Revision(self.revision), remaining: total - entries.len(), entries }
    }
}

/// The entries of `current`, except where `changed` says otherwise; both are in order.
fn merge<'a>(
    current: impl Iterator<Item = &'a Arc<Entry>>,
    changed: Vec<(Name<'a>, Option<&'a Arc<Entry>>)>,
) -> impl Iterator<Item = &'a Arc<Entry>> {
    let mut current = current.peekable();
    let mut changed = changed.into_iter().peekable();
    std::iter::from_fn(move || {
        loop {
            let Some((name, instead)) = changed.peek().copied() else { return current.next() };
            match current.peek() {
                Some(entry) if name_of(entry) < name => return current.next(),
                Some(entry) if name_of(entry) == name => drop(current.next()),
                _ => (),
            }
            changed.next();
            if instead.is_some() {
                return instead;
            }
        }
    })
}
