//! What becomes of panics (docs/adr/0021-panics.md): the alarm of what cannot go on without a part that broke, and the
//! catching of one item's, which harms no other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// Rung once a part broke that others rely on. Clones are the same alarm; later reasons are not heard.
#[derive(Clone, Debug, Default)]
pub struct Alarm(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell {
    why: OnceLock<String>,
    rung: CancellationToken,
}

impl Alarm {
    /// Says what broke.
    pub fn ring(&self, why: impl Into<String>) {
        self.0.why.get_or_init(|| why.into());
        self.0.rung.cancel();
    }

    /// Waits until something broke, and says what.
    pub async fn rung(&self) -> String {
        self.0.rung.cancelled().await;
        self.why().unwrap_or_default().to_owned()
    }

    /// What broke, if something did.
    pub fn why(&self) -> Option<&str> {
        self.0.why.get().map(String::as_str)
    }
}

/// Does work on one thing of many; nothing if that panicked, which is logged as `what`. What the panic says is on standard error
/// alone: it may show what is in objects.
pub(crate) async fn caught<T>(what: &str, work: impl Future<Output = T>) -> Option<T> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.map_err(|_| error!("{what}: the program itself failed; what it was is above")).ok()
}

/// The same for work that waits for nothing.
pub(crate) fn caught_at_once<T>(what: &str, work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.map_err(|_| error!("{what}: the program itself failed; what it was is above")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_is_heard_by_all_however_late_they_listen() {
        let alarm = Alarm::default();
        let early = alarm.clone();
        let (early, ()) = tokio::join!(early.rung(), async { alarm.ring("a") });
        alarm.ring("b");
        assert_eq!((early.as_str(), alarm.rung().await.as_str(), alarm.why()), ("a", "a", Some("a")));
    }

    #[tokio::test]
    async fn a_panic_of_one_item_is_an_answer() {
        assert_eq!(caught("an item", async { 1 }).await, Some(1));
        assert_eq!(caught::<u8>("an item", async { panic!("planted") }).await, None);
        assert_eq!(
            (caught_at_once("an item", || 1), caught_at_once::<u8>("an item", || panic!("planted"))),
            (Some(1), None)
        );
    }
}
