//! The clock of a simulation: tokio's paused one, read as wall time.

use std::time::Duration;

use allotment_machinery::seams::Clock;
use jiff::Timestamp;

/// Seconds since 1970 at which every simulation begins: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600;

/// Wall time that follows tokio's clock. Made and read inside a simulation's runtime.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedClock {
    start: tokio::time::Instant,
}

impl SimulatedClock {
    /// A clock that shows the beginning now.
    pub fn new() -> Self {
        SimulatedClock { start: tokio::time::Instant::now() }
    }

    /// How long the simulation has run.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

impl Default for SimulatedClock {
    fn default() -> Self {
        SimulatedClock::new()
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let nanos = i128::from(BEGINNING) * 1_000_000_000 + self.start.elapsed().as_nanos() as i128;
        Timestamp::from_nanosecond(nanos).expect("a simulation does not run for thousands of years")
    }
}
