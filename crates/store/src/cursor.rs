//! A watch: a place in the history, and the bell that tells when there is more.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;

use crate::bells::Bell;
use crate::history::cost;
use crate::shared::Shared;
use crate::{Event, Revision, StoreError, Watch, WatchScope};

/// Events that a watch takes from the history at once, so that fast ones do not queue for the lock.
const READ_AHEAD: usize = 32;

/// Bytes of objects that a watch takes at once, but for one event, which may be larger: a watch that is not
/// read any more keeps them even when the history has let them go.
const READ_AHEAD_BYTES: usize = 128 << 10;

/// What is read from the history at once.
#[derive(Debug)]
pub(crate) struct Portion {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    most: usize,
}

impl Portion {
    /// An empty one, for about `most` events.
    fn new(most: usize) -> Self {
        Portion { events: VecDeque::new(), bytes: 0, most }
    }

    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.bytes += cost(&event.entry) + event.previous.as_deref().map_or(0, cost);
        self.events.push_back(event);
    }

    /// Whether there is enough.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() >= self.most || self.bytes >= READ_AHEAD_BYTES
    }

    fn pop(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.bytes -= cost(&event.entry) + event.previous.as_deref().map_or(0, cost);
        Some(event)
    }
}

/// A running watch of any engine.
#[derive(Debug)]
pub(crate) struct Cursor {
    shared: Arc<Shared>,
    scope: WatchScope,
    bell: Arc<Bell>,
    /// Events up to here were delivered or lie in `ahead`.
    read: u64,
    /// Events up to here were delivered.
    delivered: u64,
    ahead: Portion,
    /// Whether the history had more than what lies in `ahead` when it was read.
    more: bool,
}

impl Cursor {
    pub(crate) fn new(shared: Arc<Shared>, scope: WatchScope, from: Revision) -> Result<Self, StoreError> {
        let bell = shared.write().hang(&scope, from.0)?;
        Ok(Cursor {
            shared,
            scope,
            bell,
            read: from.0,
            delivered: from.0,
            ahead: Portion::new(READ_AHEAD),
            more: false,
        })
    }

    /// The next event, if it has happened.
    fn advance(&mut self) -> Result<Option<Arc<Event>>, StoreError> {
        if self.ahead.events.is_empty() {
            let state = self.shared.read();
            if self.read < self.bell.floor() {
                let (asked, oldest) = (Revision(self.read), Revision(self.bell.floor()));
                return Err(StoreError::Compacted { asked, oldest });
            }
            self.read = state.read(&self.scope, self.read, &mut self.ahead);
            self.more = self.ahead.is_full();
        }
        let event = self.ahead.pop();
        self.delivered = match self.ahead.events.front() {
            // Of events with one revision all but the last leave some of it to be delivered.
            Some(next) => next.revision.0 - 1,
            None => self.read,
        };
        Ok(event)
    }
}

#[async_trait]
impl Watch for Cursor {
    async fn next(&mut self) -> Result<Arc<Event>, StoreError> {
        let bell = self.bell.clone();
        loop {
            // Listens before it looks, so that no event falls between.
            let mut rung = std::pin::pin!(bell.notify.notified());
            rung.as_mut().enable();
            if let Some(event) = self.advance()? {
                return Ok(event);
            }
            rung.await;
        }
    }

    fn ready(&mut self) -> Result<Option<Arc<Event>>, StoreError> {
        // What came since the last look rings the bell; looking again each time would only crowd the lock.
        if self.ahead.events.is_empty() && !self.more { Ok(None) } else { self.advance() }
    }

    fn progress(&self) -> Revision {
        if !self.ahead.events.is_empty() {
            return Revision(self.delivered);
        }
        let state = self.shared.read();
        if self.read < self.bell.floor() {
            return Revision(self.delivered.min(state.revision));
        }
        let mut more = Portion::new(1);
        state.read(&self.scope, self.read, &mut more);
        // Up to date, but for the first event that waits to be delivered.
        Revision(more.events.front().map_or(state.revision, |event| event.revision.0 - 1))
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.shared.write().leave(&self.scope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{body, key, noise, nothing};
    use crate::history::HistoryLimits;
    use crate::shared::Pending;
    use crate::state::State;
    use crate::{Expect, Tenant, Write};

    fn shared() -> Arc<Shared> {
        let shared = Arc::new(Shared::new(State::new(0, HistoryLimits::default())));
        write(&shared, Write::Instantiate { tenant: Tenant::logical("t"), template: nothing() });
        shared
    }

    fn write(shared: &Shared, write: Write) {
        let prepared = shared.prepare(&Pending::new(), write.into(), shared.revision().0 + 1).expect("holds");
        shared.publish(prepared.change.into_iter().collect());
    }

    fn put(shared: &Shared, name: &str, data: &str) {
        let key = key("t", "n", name);
        let expect = shared.get(&key).map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
        write(shared, Write::Put { key, expect, body: body(data) });
    }

    #[tokio::test]
    async fn what_is_at_hand_comes_without_waiting_and_nothing_is_left_out() {
        let shared = shared();
        let mut cursor = Cursor::new(shared.clone(), WatchScope::All, Revision(0)).expect("a watch");
        assert!(cursor.ready().expect("goes on").is_none());
        for count in [1, READ_AHEAD - 1, READ_AHEAD, READ_AHEAD + 1, 3 * READ_AHEAD] {
            (0..count).for_each(|_| put(&shared, "one", "x"));
            cursor.next().await.expect("goes on");
            let ready = std::iter::from_fn(|| cursor.ready().expect("goes on")).count();
            assert_eq!(ready, count - 1, "after {count} writes");
            assert_eq!(cursor.progress(), shared.revision());
        }
    }

    #[tokio::test]
    async fn a_watch_that_is_not_read_keeps_few_bytes() {
        let shared = shared();
        let mut cursor = Cursor::new(shared.clone(), WatchScope::All, shared.revision()).expect("a watch");
        (0..READ_AHEAD).for_each(|name| put(&shared, &name.to_string(), &noise(READ_AHEAD_BYTES / 4, 1)));
        cursor.next().await.expect("goes on");
        let kept: usize = cursor.ahead.events.iter().map(|event| event.entry.body.held().len()).sum();
        assert!(kept > 0 && kept <= READ_AHEAD_BYTES, "{kept}");
    }
}
