//! Time and randomness of tests: one stands still, the other counts.

use std::sync::Mutex;

use allotment_machinery::seams::{Clock, Entropy};

/// 2026-07-01T00:00:00Z, for ever.
#[derive(Debug)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_782_864_000).expect("a time")
    }
}

/// Counts, so that nothing is the same twice.
#[derive(Debug, Default)]
pub(crate) struct Counter(Mutex<u64>);

impl Entropy for Counter {
    fn fill(&self, out: &mut [u8]) {
        let mut next = self.0.lock().expect("not poisoned");
        for part in out.chunks_mut(8) {
            *next += 1;
            part.copy_from_slice(&next.to_be_bytes()[8 - part.len()..]);
        }
    }
}
