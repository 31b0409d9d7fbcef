//! A watch: a place in the history, and the bell that tells when there is more.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;

use crate::bells::Bell;
use crate::shared::Shared;
use crate::{Event, Revision, StoreError, Watch, WatchScope};

/// Events that a watch takes from the history at once, so that fast ones do not queue for the lock.
const READ_AHEAD: usize = 32;

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
    ahead: VecDeque<Arc<Event>>,
}

impl Cursor {
    pub(crate) fn new(shared: Arc<Shared>, scope: WatchScope, from: Revision) -> Result<Self, StoreError> {
        let bell = shared.write().hang(&scope, from.0)?;
        Ok(Cursor { shared, scope, bell, read: from.0, delivered: from.0, ahead: VecDeque::new() })
    }

    /// The next event, if it has happened.
    fn advance(&mut self) -> Result<Option<Arc<Event>>, StoreError> {
        if self.ahead.is_empty() {
            let state = self.shared.read();
            if self.read < self.bell.floor() {
                let (asked, oldest) = (Revision(self.read), Revision(self.bell.floor()));
                return Err(StoreError::Compacted { asked, oldest });
            }
            self.read = state.read(&self.scope, self.read, READ_AHEAD, &mut self.ahead);
        }
        let event = self.ahead.pop_front();
        self.delivered = match self.ahead.front() {
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

    fn progress(&self) -> Revision {
        if !self.ahead.is_empty() {
            return Revision(self.delivered);
        }
        let state = self.shared.read();
        if self.read < self.bell.floor() {
            return Revision(self.delivered.min(state.revision));
        }
        let mut more = VecDeque::new();
        state.read(&self.scope, self.read, 1, &mut more);
        // Up to date, but for the first event that waits to be delivered.
        Revision(more.front().map_or(state.revision, |event| event.revision.0 - 1))
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.shared.write().leave(&self.scope);
    }
}
