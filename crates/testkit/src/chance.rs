//! Random choices that a seed decides.

/// A small generator (SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators").
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// A generator for one of the sequences of a seed.
    pub(crate) fn new(seed: u64, number: u64) -> Chance {
        let mut chance = Chance { state: seed ^ number.wrapping_mul(0xd605_1f5a_2c3b_9e01) };
        chance.bits();
        chance
    }

    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut out = self.state;
        out = (out ^ (out >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        out = (out ^ (out >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        out ^ (out >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.bits() % bound as u64).unwrap_or_default()
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn strikes(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, which are not empty.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// One of `choices`, which are not empty, as a text of its own.
    pub(crate) fn text(&mut self, choices: &[&str]) -> String {
        (*self.pick(choices)).to_owned()
    }

    /// One of `choices`, each as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            if left < *weight {
                return *choice;
            }
            left -= weight;
        }
        choices[0].1
    }
}
