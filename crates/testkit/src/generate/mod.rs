//! Random sequences. Names, labels and fields come from small pools, so that requests meet the objects of
//! earlier ones; a part of everything is wrong on purpose.
//!
//! What is left out is what kube-apiserver itself answers by chance: lists from its cache, garbage that is
//! collected some time later, names whose order their random end decides.

mod access;
mod applied;
mod apply;
mod definition;
mod impersonation;
mod kinds;
mod networks;
mod objects;
mod owners;
mod pods;
mod requests;
mod storage;
mod stories;
mod workloads;

use crate::chance::Chance;
use crate::sequence::{Sequence, Step};

use kinds::Kind;

/// Most requests of a sequence.
const LONGEST: usize = 14;
/// Names of objects.
const NAMES: &[&str] = &["a", "b", "c"];

/// The names of the areas that sequences are made of.
pub const AREAS: &[&str] = &[
    "core",
    "rbac",
    "events",
    "definitions",
    "discovery",
    "apply",
    "workloads",
    "networks",
    "quotas",
    "storage",
    "access",
    "tokens",
    "owners",
];

/// A sequence that `seed` and `number` decide, of one of `areas`.
pub fn sequence(seed: u64, number: u64, areas: &[&str]) -> Sequence {
    let mut chance = Chance::new(seed, number);
    let area = *chance.pick(areas);
    let mut maker = Maker { chance, steps: Vec::new(), kinds: Vec::new() };
    match area {
        "definitions" => maker.define(),
        "discovery" => maker.discover(),
        "apply" => {
            let length = 3 + maker.chance.below(LONGEST - 3);
            maker.own(length);
        }
        "access" => {
            let length = 2 + maker.chance.below(LONGEST - 4);
            if maker.chance.strikes(30) {
                maker.ask_as_others(length);
            } else {
                maker.ask_for_access(length);
            }
        }
        "tokens" => {
            let length = 3 + maker.chance.below(LONGEST - 3);
            maker.ask_for_tokens(length);
        }
        "owners" => maker.inherit(),
        area => {
            let all = kinds::of(area);
            if !all.is_empty() {
                for _ in 0..=maker.chance.below(2) {
                    let kind = *maker.chance.pick(&all);
                    maker.kinds.push(kind.clone());
                }
            }
        }
    }
    let length = 2 + maker.chance.below(LONGEST - 1);
    while maker.steps.len() < length && !maker.kinds.is_empty() {
        let kind = maker.chance.pick(&maker.kinds).clone();
        maker.request(&kind);
    }
    if area == "definitions" && maker.chance.strikes(15) {
        maker.redefine();
    }
    Sequence { steps: maker.steps }
}

/// A sequence that is being made.
struct Maker {
    chance: Chance,
    steps: Vec<Step>,
    /// The kinds that it is about.
    kinds: Vec<Kind>,
}

impl Maker {
    /// Appends a step.
    fn push(&mut self, step: Step) {
        let id = self.steps.len() + 1;
        self.steps.push(Step { id, ..step });
    }

    /// Something that the answer to an earlier step said, or nothing of the kind.
    fn earlier(&mut self, what: &str) -> String {
        if self.steps.is_empty() || self.chance.strikes(5) {
            return self.chance.text(&["0", "x", "99999999"]);
        }
        let steps = self.steps.len();
        // What happened last matters most.
        let back = if self.chance.strikes(60) { 0 } else { self.chance.below(steps) };
        format!("${{{what}{}}}", steps - back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_a_sequence_and_numbers_differ() {
        let made = |number| sequence(7, number, AREAS);
        assert!((0..50).all(|number| made(number) == made(number)));
        let different = (0..50).filter(|number| made(*number) != made(number + 1)).count();
        assert_eq!(different, 50);
    }

    #[test]
    fn sequences_are_never_empty_and_bounded() {
        for number in 0..2000 {
            let steps = sequence(1, number, AREAS).steps.len();
            assert!((1..=LONGEST + 10).contains(&steps), "sequence {number} has {steps} steps");
        }
    }

    #[test]
    fn nothing_reaches_beyond_its_own_run() {
        for number in 0..3000 {
            for step in sequence(3, number, AREAS).steps {
                let of_all = !step.path.contains("${") && step.method == "DELETE";
                assert!(!of_all, "{} {} deletes what is not its own", step.method, step.path);
            }
        }
    }
}
