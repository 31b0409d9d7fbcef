//! The real clock and the real randomness. The only place of the program that asks the system for either.

use std::cell::RefCell;
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

/// How many random bytes are drawn at once: enough for the UIDs of 32 requests.
const DRAWN: usize = 1024;

/// Random bytes that were drawn ahead, each given out once.
struct Drawn {
    bytes: [u8; DRAWN],
    left: usize,
}

thread_local! {
    static DRAWN_AHEAD: RefCell<Drawn> = const { RefCell::new(Drawn { bytes: [0; DRAWN], left: 0 }) };
}

impl Entropy for RandomBytes {
    /// A draw costs as much for a kilobyte as for a UID, of which every answer has one.
    fn fill(&self, out: &mut [u8]) {
        if out.len() > DRAWN {
            return draw(out);
        }
        DRAWN_AHEAD.with_borrow_mut(|drawn| {
            if drawn.left < out.len() {
                draw(&mut drawn.bytes);
                drawn.left = DRAWN;
            }
            let (rest, given) = drawn.bytes[..drawn.left].split_at_mut(drawn.left - out.len());
            out.copy_from_slice(given);
            given.fill(0);
            drawn.left = rest.len();
        });
    }
}

/// A process whose system gives no randomness can make no names and no keys: it has to stop.
fn draw(out: &mut [u8]) {
    aws_lc_rs::rand::fill(out).expect("the system gives random bytes");
}

/// Both, as the controllers are handed them.
pub(crate) fn seams() -> Seams {
    Seams { clock: Arc::new(WallClock), entropy: Arc::new(RandomBytes) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_byte_is_given_out_twice_and_none_is_left_unset() {
        let wants = (0..4000).map(|index| [16, 1, 5, DRAWN, DRAWN + 1][index % 5]);
        let mut seen = BTreeSet::new();
        for want in wants.filter(|want| *want >= 16) {
            let mut bytes = vec![0; want];
            RandomBytes.fill(&mut bytes);
            for part in bytes.chunks_exact(16) {
                assert!(seen.insert(part.to_vec()), "{part:?} came twice");
            }
        }
        assert!(!seen.contains(&vec![0; 16]));
    }
}
