//! Random numbers that a seed decides.

use std::sync::{Mutex, PoisonError};

use allotment_machinery::seams::Entropy;

/// A small generator (SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators").
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// A generator for `seed`; different `stream`s of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut chance = Chance { state: seed ^ stream.wrapping_mul(0xd605_1f5a_2c3b_9e01) };
        chance.bits();
        chance
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut out = self.state;
        out = (out ^ (out >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        out = (out ^ (out >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        out ^ (out >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// True in `of_thousand` of 1,000 cases.
    pub fn strikes(&mut self, of_thousand: u64) -> bool {
        self.bits() % 1000 < of_thousand
    }

    /// One of `choices`, which are not empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

/// The platform's source of names and UIDs, seeded.
#[derive(Debug)]
pub struct SeededEntropy {
    chance: Mutex<Chance>,
}

impl SeededEntropy {
    /// A source that `chance` decides.
    pub fn new(chance: Chance) -> Self {
        SeededEntropy { chance: Mutex::new(chance) }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, out: &mut [u8]) {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).fill(out);
    }
}
