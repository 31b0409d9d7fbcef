//! A fair order: those who have something waiting take turns, one piece each, so that how much one of them
//! has is nothing to the others.

use std::collections::{BTreeMap, VecDeque};

/// What waits, by whose it is.
///
/// Invariant: whoever is in the ring has a line that is not empty, and the other way round.
#[derive(Debug)]
pub(crate) struct Rounds<K, T> {
    /// Who has something waiting, the next one first.
    ring: VecDeque<K>,
    lines: BTreeMap<K, VecDeque<T>>,
    len: usize,
}

impl<K, T> Default for Rounds<K, T> {
    fn default() -> Self {
        Rounds { ring: VecDeque::new(), lines: BTreeMap::new(), len: 0 }
    }
}

impl<K: Ord + Clone, T> Rounds<K, T> {
    /// How many pieces wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many of one's pieces wait.
    pub(crate) fn len_of(&self, whose: &K) -> usize {
        self.lines.get(whose).map_or(0, VecDeque::len)
    }

    /// Adds a piece behind those of the same one.
    pub(crate) fn push(&mut self, whose: &K, piece: T) {
        self.len += 1;
        match self.lines.get_mut(whose) {
            Some(line) => line.push_back(piece),
            None => {
                self.ring.push_back(whose.clone());
                self.lines.insert(whose.clone(), VecDeque::from([piece]));
            }
        }
    }

    /// The first piece of whoever is next, who is last from now on.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let whose = self.ring.pop_front()?;
        let line = self.lines.get_mut(&whose)?;
        let piece = line.pop_front()?;
        self.len -= 1;
        if line.is_empty() {
            self.lines.remove(&whose);
        } else {
            self.ring.push_back(whose);
        }
        Some(piece)
    }

    /// Keeps the pieces for which `keep` holds.
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.lines.retain(|_, line| {
            line.retain(&keep);
            !line.is_empty()
        });
        self.ring.retain(|whose| self.lines.contains_key(whose));
        self.len = self.lines.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_much_and_who_has_little_take_turns() {
        let mut rounds = Rounds::default();
        (0..1000).for_each(|n| rounds.push(&"noisy", ("noisy", n)));
        rounds.push(&"quiet", ("quiet", 0));
        rounds.push(&"quiet", ("quiet", 1));
        let first: Vec<_> = std::iter::from_fn(|| rounds.pop()).take(5).collect();
        assert_eq!(first, [("noisy", 0), ("quiet", 0), ("noisy", 1), ("quiet", 1), ("noisy", 2)]);
        assert_eq!((rounds.len(), rounds.len_of(&"noisy"), rounds.len_of(&"quiet")), (997, 997, 0));
    }

    #[test]
    fn what_is_not_kept_takes_no_turn() {
        let mut rounds = Rounds::default();
        for (whose, piece) in [("a", 1), ("b", 2), ("a", 3), ("c", 4)] {
            rounds.push(&whose, piece);
        }
        rounds.retain(|piece| piece % 2 == 0);
        assert_eq!(rounds.len(), 2);
        assert_eq!(std::iter::from_fn(|| rounds.pop()).collect::<Vec<_>>(), [2, 4]);
        rounds.push(&"a", 5);
        assert_eq!(rounds.pop(), Some(5));
    }
}
