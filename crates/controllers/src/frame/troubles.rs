//! What goes wrong again and again is said once, then now and then with how often: a server that is away for an hour must
//! not fill a disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often the same trouble is said again.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// Texts that are told apart; with more, all are said as if they were new.
const MOST_TEXTS: usize = 256;

/// What was said of what goes wrong, in several places of a process.
#[derive(Clone, Debug, Default)]
pub struct Troubles(Arc<Mutex<BTreeMap<String, Said>>>);

#[derive(Debug)]
struct Said {
    at: Instant,
    /// How often it happened since.
    unsaid: u64,
}

impl Troubles {
    /// Something went wrong, in these words. Gives how often it did without being said if it is to be said now.
    pub fn again(&self, text: &str) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(before) = said.get_mut(text) {
            if now.duration_since(before.at) < SAY_EVERY {
                before.unsaid += 1;
                return None;
            }
            before.at = now;
            return Some(std::mem::take(&mut before.unsaid));
        }
        said.retain(|_, before| now.duration_since(before.at) < SAY_EVERY);
        if said.len() < MOST_TEXTS {
            said.insert(text.to_owned(), Said { at: now, unsaid: 0 });
        }
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_trouble_is_said_once_and_then_with_how_often() {
        let troubles = Troubles::default();
        assert_eq!(troubles.again("a"), Some(0));
        for _ in 0..420 {
            assert_eq!(troubles.again("a"), None);
        }
        assert_eq!(troubles.again("b"), Some(0), "another one is news");
        tokio::time::advance(SAY_EVERY).await;
        assert_eq!(troubles.again("a"), Some(420));
        assert_eq!(troubles.again("a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn texts_that_always_differ_are_said_and_not_kept() {
        let troubles = Troubles::default();
        for number in 0..2 * MOST_TEXTS {
            assert_eq!(troubles.again(&number.to_string()), Some(0));
        }
        assert_eq!(troubles.0.lock().expect("unharmed").len(), MOST_TEXTS);
    }
}
