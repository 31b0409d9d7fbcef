//! The real clock and the real randomness. The only place of the program that asks the system for either.

use std::sync::Arc;

use allotment_controllers::frame::Seams;
use allotment_machinery::seams::{Clock, Entropy};
use jiff::Timestamp;

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RandomBytes;

impl Entropy for RandomBytes {
    fn fill(&self, out: &mut [u8]) {
        // A process whose system gives no randomness can make no names and no keys: it has to stop.
        aws_lc_rs::rand::fill(out).expect("the system gives random bytes");
    }
}

/// Both, as the controllers are handed them.
pub(crate) fn seams() -> Seams {
    Seams { clock: Arc::new(WallClock), entropy: Arc::new(RandomBytes) }
}
