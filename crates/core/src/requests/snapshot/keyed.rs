//! A map that is asked by name all the time and walked through hardly ever. A tree of texts compares twenty of them to
//! find one among a hundred thousand, and each lies somewhere else in memory: that was most of what a decision cost. Here
//! the tree is of hashes, which lie side by side, and one text is compared. What has the same hash stands together.
//!
//! Nothing is ever given in the order of the hashes.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Values by key.
#[derive(Clone, Debug)]
pub(crate) struct Keyed<K, V> {
    /// By hash of the key; nearly always of one.
    entries: BTreeMap<u64, Vec<(K, V)>>,
}

impl<K: Hash + Ord, V> Keyed<K, V> {
    pub(super) fn new() -> Self {
        Keyed { entries: BTreeMap::new() }
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let same_hash = self.entries.get(&hash(key))?;
        same_hash.iter().find(|(have, _)| have.borrow() == key).map(|(_, value)| value)
    }

    pub(super) fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let same_hash = self.entries.get_mut(&hash(key))?;
        same_hash.iter_mut().find(|(have, _)| have.borrow() == key).map(|(_, value)| value)
    }

    pub(crate) fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Gives what was there before.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let same_hash = self.entries.entry(hash(&key)).or_insert_with(|| Vec::with_capacity(1));
        match same_hash.iter_mut().find(|(have, _)| *have == key) {
            Some((_, have)) => Some(std::mem::replace(have, value)),
            None => {
                same_hash.push((key, value));
                None
            }
        }
    }

    pub(super) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let hash = hash(key);
        let same_hash = self.entries.get_mut(&hash)?;
        let index = same_hash.iter().position(|(have, _)| have.borrow() == key);
        let value = index.map(|index| same_hash.swap_remove(index).1);
        if same_hash.is_empty() {
            self.entries.remove(&hash);
        }
        value
    }

    /// Takes a value out that is to be replaced by [`Keyed::insert`] or, where none comes, by [`Keyed::remove`]: its place is
    /// kept for it.
    pub(super) fn take<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let same_hash = self.entries.get_mut(&hash(key))?;
        let index = same_hash.iter().position(|(have, _)| have.borrow() == key)?;
        Some(same_hash.swap_remove(index).1)
    }

    /// The value is as given now, or none. Gives what was there before.
    pub(super) fn put(&mut self, key: K, value: Option<V>) -> Option<V> {
        match value {
            Some(value) => self.insert(key, value),
            None => self.remove(&key),
        }
    }

    /// All keys, sorted, which takes a while.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        let keys: BTreeSet<&K> = self.entries.values().flatten().map(|(key, _)| key).collect();
        keys.into_iter()
    }
}

impl<K: Hash + Ord, M: Ord + Clone> Keyed<K, BTreeSet<M>> {
    /// Puts a member into, or takes it out of, the set under a key; empty sets go.
    pub(super) fn set_member(&mut self, key: K, member: &M, enters: bool) {
        match self.get_mut(&key) {
            Some(set) if enters => _ = set.insert(member.clone()),
            Some(set) => {
                set.remove(member);
                if set.is_empty() {
                    self.remove(&key);
                }
            }
            None if enters => _ = self.insert(key, BTreeSet::from([member.clone()])),
            None => {}
        }
    }
}

/// The same in every process, so that two that are fed the same do the same. Who makes keys of the same hash, if anybody can,
/// makes a short list longer.
fn hash<Q: Hash + ?Sized>(key: &Q) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A key of which many have the same hash.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Alike(u8);

    impl Hash for Alike {
        fn hash<H: Hasher>(&self, state: &mut H) {
            (self.0 % 3).hash(state);
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_sorted_map_holds(steps in prop::collection::vec((0u8..12, any::<Option<u16>>()), 0..200)) {
            let (mut keyed, mut sorted) = (Keyed::new(), BTreeMap::new());
            for (key, value) in steps {
                let before = match value {
                    Some(value) => sorted.insert(Alike(key), value),
                    None => sorted.remove(&Alike(key)),
                };
                if before.is_some_and(|before| before % 2 == 0) {
                    prop_assert_eq!(keyed.take(&Alike(key)), before);
                    prop_assert_eq!(keyed.get(&Alike(key)), None);
                    prop_assert_eq!(keyed.put(Alike(key), value), None);
                } else {
                    prop_assert_eq!(keyed.put(Alike(key), value), before);
                }
                prop_assert!(keyed.entries.values().all(|same_hash| !same_hash.is_empty()));
                prop_assert_eq!(keyed.keys().collect::<Vec<_>>(), sorted.keys().collect::<Vec<_>>());
                for key in (0..12).map(Alike) {
                    prop_assert_eq!(keyed.get(&key), sorted.get(&key));
                    prop_assert_eq!(keyed.contains_key(&key), sorted.contains_key(&key));
                    prop_assert_eq!(keyed.get_mut(&key), sorted.get_mut(&key));
                }
            }
        }

        #[test]
        fn its_sets_hold_what_sets_of_a_sorted_map_hold(steps in prop::collection::vec((0u8..6, 0u8..4, any::<bool>()), 0..200)) {
            let (mut keyed, mut sorted) = (Keyed::new(), BTreeMap::new());
            for (key, member, enters) in steps {
                keyed.set_member(Alike(key), &member, enters);
                super::super::set_member(&mut sorted, Alike(key), &member, enters);
                for key in (0..6).map(Alike) {
                    prop_assert_eq!(keyed.get(&key), sorted.get(&key));
                }
            }
        }
    }
}
