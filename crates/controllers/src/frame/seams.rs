//! Time and randomness, as they are handed to the controllers.

use std::sync::Arc;
use std::time::Duration;

use allotment_machinery::seams::{Clock, Entropy};
use jiff::Timestamp;

/// The longest that anything sleeps towards a deadline before it looks at the clock again: the wall
/// clock may be set while the program runs.
const LONGEST_SLEEP: Duration = Duration::from_secs(15 * 60);

/// The clock and the source of names.
#[derive(Clone, Debug)]
pub struct Seams {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives names and UIDs.
    pub entropy: Arc<dyn Entropy>,
}

impl Seams {
    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How long to sleep so as to wake up at `deadline`; zero if it has passed.
    pub fn until(&self, deadline: Timestamp) -> Duration {
        let left = deadline.duration_since(self.now());
        // One millisecond is added since timestamps are finer than timers: waking up too early would
        // find nothing to do and sleep again.
        Duration::try_from(left).map_or(Duration::ZERO, |left| left + Duration::from_millis(1)).min(LONGEST_SLEEP)
    }
}

/// A clock that stands, and names that are all the same.
#[cfg(test)]
pub(crate) fn still() -> Seams {
    #[derive(Debug)]
    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
    }

    impl Entropy for Still {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(1);
        }
    }

    Seams { clock: Arc::new(Still), entropy: Arc::new(Still) }
}
