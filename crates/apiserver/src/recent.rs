//! What was used lately, up to so many bytes: a bounded table that lets go first what was used longest ago.

use std::collections::BTreeMap;

/// Values by key.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    bytes: usize,
    most_bytes: usize,
    /// Counts uses.
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: usize,
    used: u64,
}

impl<K: Clone + Ord, V: Clone> Recent<K, V> {
    /// An empty table for values of `most_bytes` together.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Recent { entries: BTreeMap::new(), bytes: 0, most_bytes, clock: 0 }
    }

    /// The value of `key`, used now.
    pub(crate) fn find(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.clock;
        Some(entry.value.clone())
    }

    /// Keeps a value of so many bytes, and makes room for it. One that is larger than all room is not kept, and
    /// costs no other its place.
    pub(crate) fn keep(&mut self, key: K, value: V, bytes: usize) {
        if bytes > self.most_bytes {
            self.remove(&key);
            return;
        }
        self.clock += 1;
        self.bytes += bytes;
        if let Some(old) = self.entries.insert(key, Entry { value, bytes, used: self.clock }) {
            self.bytes -= old.bytes;
        }
        while self.bytes > self.most_bytes {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &K) {
        if let Some(gone) = self.entries.remove(key) {
            self.bytes -= gone.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let mut recent = Recent::new(10);
        for name in 0..3 {
            recent.keep(name, name, 3);
        }
        assert_eq!(recent.find(&0), Some(0));
        recent.keep(3, 3, 3);
        assert_eq!([0, 1, 2, 3].map(|name| recent.find(&name)), [Some(0), None, Some(2), Some(3)]);
        recent.keep(3, 4, 1);
        assert_eq!((recent.find(&3), recent.bytes), (Some(4), 7));
    }

    #[test]
    fn what_is_larger_than_all_room_is_not_kept_and_costs_nobody_a_place() {
        let mut recent = Recent::new(10);
        for name in 0..2 {
            recent.keep(name, name, 5);
        }
        recent.keep(2, 2, 11);
        assert_eq!([0, 1, 2].map(|name| recent.find(&name)), [Some(0), Some(1), None]);
        recent.keep(0, 7, 11);
        assert_eq!([0, 1].map(|name| recent.find(&name)), [None, Some(1)], "the old value is not the key's any more");
        recent.keep(3, 3, 10);
        assert_eq!((recent.find(&3), recent.entries.len(), recent.bytes), (Some(3), 1, 10));
    }
}
