//! The objects of one collection in order of (namespace, name): a sorted list in two levels.
//!
//! Chunks are shared and copied on write, so that a copy of the whole costs one reference: a snapshot
//! is taken without stopping the writer, a template's collection is shared by all tenants until one
//! changes it, and a long list is collected outside the lock. Ranks cost one addition a chunk, so a page
//! can say how many objects follow it without counting them.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::Entry;

/// Entries in a chunk, at most: what a copy on write copies (2 KiB of references).
const CHUNK: usize = 256;

type Chunk = Vec<Arc<Entry>>;

/// (namespace, name).
pub(crate) type Name<'a> = (&'a str, &'a str);

/// Where an entry stands in its collection.
pub(crate) fn name_of(entry: &Entry) -> Name<'_> {
    (&entry.namespace, &entry.name)
}

/// How the place of an entry compares with a name. Entries share their namespace, so that most of the time
/// its text need not be looked at.
fn order(entry: &Entry, name: Name<'_>) -> Ordering {
    let namespace =
        if std::ptr::eq(&*entry.namespace, name.0) { Ordering::Equal } else { (*entry.namespace).cmp(name.0) };
    namespace.then_with(|| (*entry.name).cmp(name.1))
}

/// A sorted set of entries, cheap to copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    chunks: Arc<Vec<Arc<Chunk>>>,
    len: usize,
}

impl Objects {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The chunk and the place in it of the first entry for which `before` does not hold; it has to hold
    /// for a prefix. The place may be the end of a chunk.
    fn partition(&self, before: impl Fn(&Entry) -> bool) -> (usize, usize) {
        let after = self.chunks.partition_point(|chunk| before(&chunk[0]));
        match after.checked_sub(1) {
            None => (0, 0),
            Some(index) => (index, self.chunks[index].partition_point(|entry| before(entry))),
        }
    }

    /// How many entries there are for which `before` holds; it has to hold for a prefix.
    pub(crate) fn rank(&self, before: impl Fn(&Entry) -> bool) -> usize {
        let (chunk, place) = self.partition(before);
        self.chunks[..chunk].iter().map(|chunk| chunk.len()).sum::<usize>() + place
    }

    /// The entry called `name`.
    pub(crate) fn get(&self, name: Name<'_>) -> Option<&Arc<Entry>> {
        self.look(name).0
    }

    /// The entry called `name`, and the namespace as an entry beside that place has it, so that it is kept
    /// once.
    pub(crate) fn look(&self, name: Name<'_>) -> (Option<&Arc<Entry>>, Option<&Arc<str>>) {
        let (index, place) = self.partition(|entry| order(entry, name).is_lt());
        let Some(chunk) = self.chunks.get(index) else { return (None, None) };
        // The end of a chunk is the begin of the next one, whose first entry is at or after the name.
        let after = chunk.get(place).or_else(|| self.chunks.get(index + 1)?.first());
        let before = place.checked_sub(1).and_then(|place| chunk.get(place));
        let beside = [before, after].into_iter().flatten().map(|entry| &entry.namespace);
        (after.filter(|entry| order(entry, name).is_eq()), beside.into_iter().find(|namespace| ***namespace == *name.0))
    }

    /// Puts `entry` in its place; returns what was there.
    pub(crate) fn put(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let after = self.chunks.partition_point(|chunk| order(&chunk[0], name_of(&entry)).is_le());
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.is_empty() {
            chunks.push(Arc::new(vec![entry]));
            self.len = 1;
            return None;
        }
        let index = after.saturating_sub(1);
        let chunk = Arc::make_mut(&mut chunks[index]);
        match chunk.binary_search_by(|have| order(have, name_of(&entry))) {
            Ok(place) => Some(std::mem::replace(&mut chunk[place], entry)),
            Err(place) => {
                self.len += 1;
                if chunk.len() < CHUNK {
                    chunk.insert(place, entry);
                } else if place == CHUNK {
                    // Names often come in order; a full chunk is then left full.
                    chunks.insert(index + 1, Arc::new(vec![entry]));
                } else {
                    let mut upper = chunk.split_off(CHUNK / 2);
                    if place <= CHUNK / 2 {
                        chunk.insert(place, entry);
                    } else {
                        upper.insert(place - CHUNK / 2, entry);
                    }
                    chunk.shrink_to_fit();
                    chunks.insert(index + 1, Arc::new(upper));
                }
                None
            }
        }
    }

    /// Takes the entry called `name` out.
    pub(crate) fn remove(&mut self, name: Name<'_>) -> Option<Arc<Entry>> {
        let index = self.chunks.partition_point(|chunk| order(&chunk[0], name).is_le()).checked_sub(1)?;
        let place = self.chunks[index].binary_search_by(|have| order(have, name)).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(&mut chunks[index]);
        let entry = chunk.remove(place);
        self.len -= 1;
        if chunk.is_empty() {
            chunks.remove(index);
        } else if chunk.len() <= CHUNK / 4 {
            chunk.shrink_to_fit();
            Self::join(chunks, index);
        }
        Some(entry)
    }

    /// Joins a small chunk with the one after it, if both together leave room to grow.
    fn join(chunks: &mut Vec<Arc<Chunk>>, index: usize) {
        if chunks.get(index + 1).is_some_and(|next| next.len() + chunks[index].len() <= CHUNK / 2) {
            let next = chunks.remove(index + 1);
            Arc::make_mut(&mut chunks[index]).extend(next.iter().cloned());
        }
    }

    /// The entries from rank `start` on, in order.
    pub(crate) fn iter_from(&self, start: usize) -> impl Iterator<Item = &Arc<Entry>> {
        let (mut chunk, mut skip) = (0, start);
        while self.chunks.get(chunk).is_some_and(|have| have.len() <= skip) {
            skip -= self.chunks[chunk].len();
            chunk += 1;
        }
        self.chunks[chunk..].iter().flat_map(|chunk| chunk.iter()).skip(skip)
    }

    /// Whether both are the very same, not only equal.
    pub(crate) fn is_same(&self, other: &Objects) -> bool {
        Arc::ptr_eq(&self.chunks, &other.chunks)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::body::Body;
    use crate::{Resource, Revision};

    fn entry(namespace: u8, name: u16, revision: u64) -> Arc<Entry> {
        Arc::new(Entry {
            resource: Resource::new("configmaps", ""),
            namespace: Arc::from(format!("{namespace}")),
            name: Arc::from(format!("{name:05}")),
            revision: Revision(revision),
            body: Body::plain(Bytes::new(), 0),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn it_is_a_sorted_map_whatever_the_order_of_changes(
            changes in proptest::collection::vec((any::<bool>(), 0..3u8, 0..900u16), 0..3000)
        ) {
            let mut objects = Objects::default();
            let mut model = BTreeMap::new();
            for (revision, (remove, namespace, name)) in changes.into_iter().enumerate() {
                let entry = entry(namespace, name, revision as u64);
                let key = (entry.namespace.to_string(), entry.name.to_string());
                let before = if remove && revision % 3 > 0 {
                    (objects.remove(name_of(&entry)), model.remove(&key))
                } else {
                    (objects.put(entry.clone()), model.insert(key.clone(), entry.revision))
                };
                prop_assert_eq!(before.0.map(|entry| entry.revision), before.1);
                prop_assert_eq!(objects.get(name_of(&entry)).map(|entry| entry.revision), model.get(&key).copied());
            }
            prop_assert_eq!(objects.len(), model.len());
            let have: Vec<_> = objects.iter_from(0).map(|entry| entry.revision).collect();
            prop_assert_eq!(&have, &model.values().copied().collect::<Vec<_>>());
            for (rank, key) in model.keys().enumerate().step_by(17) {
                prop_assert_eq!(objects.rank(|entry| name_of(entry) < (&key.0, &key.1)), rank);
                let from: Vec<_> = objects.iter_from(rank).map(|entry| entry.revision).collect();
                prop_assert_eq!(&from, &have[rank..]);
            }
            prop_assert!(objects.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK));
        }
    }

    #[test]
    fn a_copy_keeps_what_it_saw() {
        let mut objects = Objects::default();
        (0..1000).for_each(|name| drop(objects.put(entry(0, name, 1))));
        let copy = objects.clone();
        (0..1000).step_by(2).for_each(|name| drop(objects.remove(("0", &format!("{name:05}")))));
        assert_eq!((objects.len(), copy.len(), copy.iter_from(0).count()), (500, 1000, 1000));
    }
}
