//! Lanes of a controller: work that something of somebody else's may hold up, such as a server that answers
//! slowly, keeps to a lane of its own, so that the rest goes on beside it.

use std::collections::{BTreeMap, VecDeque};

use super::ObjectKey;

/// Keys of one lane that are worked on at once: enough that one slow call does not hold up the next at once.
const MOST_IN_LANE: usize = 4;
/// Keys of all lanes that are worked on at once. They wait for others most of the time and cost little meanwhile.
const MOST_IN_ALL: usize = 64;

/// What work is kept apart by, such as the UID of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane(String);

impl Lane {
    /// The lane of that name.
    pub fn new(name: impl Into<String>) -> Self {
        Lane(name.into())
    }
}

/// Who works in which lane and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    running: BTreeMap<Lane, usize>,
    in_all: usize,
    waiting: BTreeMap<Lane, VecDeque<ObjectKey>>,
    /// Lanes in which somebody waits, in the order in which they are served.
    turns: VecDeque<Lane>,
}

impl Lanes {
    /// How many keys are worked on in lanes.
    pub(super) fn running(&self) -> usize {
        self.in_all
    }

    /// Takes a key into its lane; gives it back if it may be worked on now.
    pub(super) fn enter(&mut self, lane: Lane, key: ObjectKey) -> Option<(Lane, ObjectKey)> {
        if self.waiting.contains_key(&lane) || !self.has_room(&lane) {
            let queue = self.waiting.entry(lane.clone()).or_default();
            if queue.is_empty() {
                self.turns.push_back(lane);
            }
            queue.push_back(key);
            return None;
        }
        self.start(&lane);
        Some((lane, key))
    }

    /// Work has ended, in a lane or beside them; gives the key that may be worked on now.
    pub(super) fn leave(&mut self, lane: Option<Lane>) -> Option<(Lane, ObjectKey)> {
        let lane = lane?;
        self.in_all = self.in_all.saturating_sub(1);
        if let Some(count) = self.running.get_mut(&lane) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.running.remove(&lane);
            }
        }
        let turn = self.turns.iter().position(|lane| self.has_room(lane))?;
        let lane = self.turns.remove(turn)?;
        let queue = self.waiting.get_mut(&lane)?;
        let key = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&lane);
        } else {
            self.turns.push_back(lane.clone());
        }
        self.start(&lane);
        Some((lane, key))
    }

    fn has_room(&self, lane: &Lane) -> bool {
        self.in_all < MOST_IN_ALL && self.running.get(lane).copied().unwrap_or(0) < MOST_IN_LANE
    }

    fn start(&mut self, lane: &Lane) {
        self.in_all += 1;
        *self.running.entry(lane.clone()).or_insert(0) += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: usize) -> ObjectKey {
        ObjectKey::new("n", index.to_string())
    }

    #[test]
    fn a_lane_takes_no_more_than_its_share_and_serves_in_order() {
        let mut lanes = Lanes::default();
        let (slow, other) = (Lane::new("slow"), Lane::new("other"));
        for index in 0..MOST_IN_LANE {
            assert!(lanes.enter(slow.clone(), key(index)).is_some());
        }
        assert_eq!(lanes.enter(slow.clone(), key(10)), None);
        assert_eq!(lanes.enter(slow.clone(), key(11)), None);
        assert!(lanes.enter(other.clone(), key(20)).is_some(), "another lane goes on");
        assert_eq!(lanes.leave(Some(other)), None, "the slow one is still full");
        assert_eq!(lanes.leave(None), None);
        assert_eq!(lanes.leave(Some(slow.clone())), Some((slow.clone(), key(10))));
        assert_eq!(lanes.leave(Some(slow.clone())), Some((slow.clone(), key(11))));
        for _ in 0..MOST_IN_LANE {
            assert_eq!(lanes.leave(Some(slow.clone())), None);
        }
        assert_eq!(lanes.running(), 0);
    }

    #[test]
    fn all_lanes_together_are_bounded_and_none_waits_for_ever() {
        let mut lanes = Lanes::default();
        let mut running: Vec<Lane> = Vec::new();
        let mut waiting = 0;
        for index in 0..3 * MOST_IN_ALL {
            match lanes.enter(Lane::new(format!("l{}", index % (MOST_IN_ALL / 2))), key(index)) {
                Some((lane, _)) => running.push(lane),
                None => waiting += 1,
            }
        }
        assert_eq!((running.len(), lanes.running()), (MOST_IN_ALL, MOST_IN_ALL));
        while let Some(lane) = running.pop() {
            if let Some((lane, _)) = lanes.leave(Some(lane)) {
                waiting -= 1;
                running.insert(0, lane);
            }
            assert!(lanes.running() <= MOST_IN_ALL);
        }
        assert_eq!((waiting, lanes.running()), (0, 0));
    }
}
