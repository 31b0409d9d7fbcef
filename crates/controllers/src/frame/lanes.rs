//! Lanes of a controller: work that something of somebody else's may hold up, such as a server that answers
//! slowly, keeps to a lane of its own, so that the rest goes on beside it.
//!
//! # Guarantees
//! Nobody's lanes, such as those of one provider's Clusters, take more than a part of all places, however many lanes there are.
//! Those who wait are served in turn: whose lanes they are, then the lanes of each.

use std::collections::{BTreeMap, VecDeque};

use super::ObjectKey;

/// Keys of one lane that are worked on at once: enough that one slow call does not hold up the next at once.
const MOST_IN_LANE: usize = 4;
/// Keys of all lanes of one owner that are worked on at once: three whose servers all keep silent leave room for a fourth.
const MOST_OF_ONE: usize = 16;
/// Keys of all lanes that are worked on at once. They wait for others most of the time and cost little meanwhile.
const MOST_IN_ALL: usize = 64;

/// What work is kept apart by, such as the UID of a Cluster, and whose it is, such as its ClusterProvider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    of: String,
    name: String,
}

impl Lane {
    /// The lane of that name, one of all those of `of`.
    pub fn new(of: impl Into<String>, name: impl Into<String>) -> Self {
        Lane { of: of.into(), name: name.into() }
    }
}

/// Who works in which lane and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    running: BTreeMap<Lane, usize>,
    in_all: usize,
    waiting: BTreeMap<Lane, VecDeque<ObjectKey>>,
    owners: BTreeMap<String, Owner>,
    /// Owners of lanes in which somebody waits, in the order in which they are served.
    turns: VecDeque<String>,
}

/// Whose lanes some are.
#[derive(Debug, Default)]
struct Owner {
    running: usize,
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
                let owner = self.owners.entry(lane.of.clone()).or_default();
                if owner.turns.is_empty() {
                    self.turns.push_back(lane.of.clone());
                }
                owner.turns.push_back(lane);
            }
            queue.push_back(key);
            return None;
        }
        self.start(&lane);
        Some((lane, key))
    }

    /// Work has ended, in a lane or beside them; gives the key that may be worked on now.
    pub(super) fn leave(&mut self, lane: Option<Lane>) -> Option<(Lane, ObjectKey)> {
        self.end(&lane?);
        let lane = self.turn()?;
        let queue = self.waiting.get_mut(&lane)?;
        let key = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&lane);
        } else {
            self.owners.entry(lane.of.clone()).or_default().turns.push_back(lane.clone());
        }
        if self.owners.get(&lane.of).is_some_and(|owner| !owner.turns.is_empty()) {
            self.turns.push_back(lane.of.clone());
        }
        self.start(&lane);
        Some((lane, key))
    }

    /// Takes the lane whose turn it is out of the order, with its owner.
    fn turn(&mut self) -> Option<Lane> {
        let first = |of: &String| -> Option<usize> {
            let owner = self.owners.get(of).filter(|owner| owner.running < MOST_OF_ONE)?;
            owner.turns.iter().position(|lane| self.has_room(lane))
        };
        let (owner, lane) = self.turns.iter().enumerate().find_map(|(index, of)| Some((index, first(of)?)))?;
        let of = self.turns.remove(owner)?;
        self.owners.get_mut(&of)?.turns.remove(lane)
    }

    fn has_room(&self, lane: &Lane) -> bool {
        self.in_all < MOST_IN_ALL
            && self.owners.get(&lane.of).is_none_or(|owner| owner.running < MOST_OF_ONE)
            && self.running.get(lane).copied().unwrap_or(0) < MOST_IN_LANE
    }

    fn start(&mut self, lane: &Lane) {
        self.in_all += 1;
        *self.running.entry(lane.clone()).or_insert(0) += 1;
        self.owners.entry(lane.of.clone()).or_default().running += 1;
    }

    fn end(&mut self, lane: &Lane) {
        self.in_all = self.in_all.saturating_sub(1);
        if let Some(count) = self.running.get_mut(lane) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.running.remove(lane);
            }
        }
        if let Some(owner) = self.owners.get_mut(&lane.of) {
            owner.running = owner.running.saturating_sub(1);
            if owner.running == 0 && owner.turns.is_empty() {
                self.owners.remove(&lane.of);
            }
        }
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
        let (slow, other) = (Lane::new("p", "slow"), Lane::new("p", "other"));
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
            let (of, lane) = (index % (MOST_IN_ALL / MOST_OF_ONE), index % (MOST_IN_ALL / 2));
            match lanes.enter(Lane::new(of.to_string(), lane.to_string()), key(index)) {
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
    #[test]
    fn whoever_has_many_lanes_leaves_room_for_others_and_all_of_it_is_worked_off_in_turn() {
        let mut lanes = Lanes::default();
        let mut running = Vec::new();
        for index in 0..2 * MOST_IN_ALL {
            running.extend(lanes.enter(Lane::new("silent", index.to_string()), key(index)));
        }
        assert_eq!(running.len(), MOST_OF_ONE, "one of many servers takes a part of all places");
        for index in 0..2 * MOST_OF_ONE {
            running.extend(lanes.enter(Lane::new("busy", "one"), key(1000 + index)));
        }
        assert_eq!(running.len(), MOST_OF_ONE + MOST_IN_LANE, "another is served beside it");
        let mut served = 0;
        while let Some((lane, _)) = running.pop() {
            served += 1;
            if let Some(next) = lanes.leave(Some(lane)) {
                running.insert(0, next);
            }
            assert!(lanes.owners.values().all(|owner| owner.running <= MOST_OF_ONE));
        }
        assert_eq!(served, 2 * MOST_IN_ALL + 2 * MOST_OF_ONE);
        assert!(lanes.owners.is_empty() && lanes.turns.is_empty() && lanes.waiting.is_empty());
    }
}
