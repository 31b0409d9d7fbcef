//! What one connection is doing: whether its client is known, which requests run, which replies lie unread.
//!
//! Requests carry it in their extensions, so that what outlives its client still counts against the
//! connection that it came by.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::limits::Limits;
use crate::body::ResponseBody;

/// A reply of which nothing lies unread.
const READ: u64 = 0;

/// One connection, as long as it is open or something that it asked for runs.
pub struct Visit {
    opened: Instant,
    first_request: Duration,
    idle: Duration,
    body: Duration,
    unread: Duration,
    /// Cancelled to make room for others.
    pub(super) evicted: CancellationToken,
    state: Mutex<State>,
    /// Its place among all connections.
    _place: OwnedSemaphorePermit,
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit").finish_non_exhaustive()
    }
}

struct State {
    /// Whether a request of it came from somebody whom a tenant knows.
    known: bool,
    /// Since when there has been no request.
    idle_since: Instant,
    next: u64,
    /// Requests that run or are being answered, each with the milliseconds since the connection was opened at which
    /// its client was given a part and asked for no other yet; [`READ`] where it waits for us.
    running: BTreeMap<u64, Arc<AtomicU64>>,
}

/// How readily a connection is given up for another one; the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Nobody has been known yet. The longer ago it was opened, the sooner it goes.
    Unknown(Instant),
    /// No request. The longer, the sooner it goes.
    Idle(Instant),
}

/// When a connection has to be looked at, and when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may go on, and be judged again then.
    Until(Instant),
    /// It had no request for too long.
    Idle,
    /// Its client does not read.
    Unread,
}

impl Visit {
    pub(super) fn new(limits: &Limits, place: OwnedSemaphorePermit) -> Self {
        let opened = Instant::now();
        Visit {
            opened,
            first_request: limits.first_request,
            idle: limits.idle,
            body: limits.body,
            unread: limits.unread,
            evicted: CancellationToken::new(),
            state: Mutex::new(State { known: false, idle_since: opened, next: 0, running: BTreeMap::new() }),
            _place: place,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that somebody asks whom a tenant knows, or who otherwise asks for what is there to be asked for.
    pub fn known(&self) {
        self.lock().known = true;
    }

    /// How long the client may take to send a body.
    pub(crate) fn body_timeout(&self) -> Duration {
        self.body
    }

    /// Notes a request, which runs until what is answered is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        let mut state = self.lock();
        let (id, unread) = (state.next, Arc::new(AtomicU64::new(READ)));
        state.next += 1;
        state.running.insert(id, Arc::clone(&unread));
        Running { visit: Arc::clone(self), id, unread }
    }

    /// How readily it is given up; `None` where it must not be, since somebody who is known is being answered.
    pub(super) fn standing(&self) -> Option<Standing> {
        let state = self.lock();
        match (state.known, state.running.is_empty()) {
            (false, _) => Some(Standing::Unknown(self.opened)),
            (true, true) => Some(Standing::Idle(state.idle_since)),
            (true, false) => None,
        }
    }

    /// Judges the connection by its clock.
    pub(super) fn judge(&self) -> Verdict {
        let now = Instant::now();
        let state = self.lock();
        // What changes after this moment ends after it by one of these at least.
        let soonest = now + self.unread.min(self.idle).min(self.first_request);
        let (end, verdict) = if state.running.is_empty() {
            (Some(state.idle_since + if state.known { self.idle } else { self.first_request }), Verdict::Idle)
        } else {
            let unread = state.running.values().map(|at| at.load(Ordering::Relaxed)).filter(|at| *at != READ);
            (unread.min().map(|at| self.opened + Duration::from_millis(at) + self.unread), Verdict::Unread)
        };
        match end {
            Some(end) if end <= now => verdict,
            Some(end) => Verdict::Until(end.min(soonest)),
            None => Verdict::Until(soonest),
        }
    }
}

/// A request that runs.
pub(super) struct Running {
    visit: Arc<Visit>,
    id: u64,
    unread: Arc<AtomicU64>,
}

impl Running {
    /// A part was handed over, and there is more.
    fn gave(&self) {
        let at = u64::try_from(self.visit.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.unread.store(at.max(READ + 1), Ordering::Relaxed);
    }

    /// The next part is asked for.
    fn asked(&self) {
        self.unread.store(READ, Ordering::Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.visit.lock();
        state.running.remove(&self.id);
        if state.running.is_empty() {
            state.idle_since = Instant::now();
        }
    }
}

/// A reply's body that notes how its client reads it.
pub(super) struct Reply {
    body: ResponseBody,
    running: Running,
}

impl Reply {
    pub(super) fn new(body: ResponseBody, running: Running) -> Self {
        Reply { body, running }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        let reply = self.get_mut();
        reply.running.asked();
        let polled = Pin::new(&mut reply.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(Some(_))) {
            reply.running.gave();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    fn visit() -> Arc<Visit> {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("there is room");
        Arc::new(Visit::new(&Limits::default(), place))
    }

    async fn pass(time: Duration) {
        tokio::time::advance(time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_less_time_for_its_first_request_than_between_requests() {
        let limits = Limits::default();
        let visit = visit();
        let opened = Instant::now();
        assert_eq!(visit.judge(), Verdict::Until(opened + limits.first_request));
        assert!(matches!(visit.standing(), Some(Standing::Unknown(_))));
        visit.known();
        pass(limits.first_request).await;
        assert!(matches!(visit.judge(), Verdict::Until(_)));
        drop(visit.begin());
        let since = Instant::now();
        assert_eq!(visit.standing(), Some(Standing::Idle(since)));
        pass(limits.idle - Duration::from_millis(1)).await;
        assert_eq!(visit.judge(), Verdict::Until(since + limits.idle));
        pass(Duration::from_millis(1)).await;
        assert_eq!(visit.judge(), Verdict::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_request_keeps_its_connection_unless_its_reply_lies_unread() {
        let limits = Limits::default();
        let visit = visit();
        visit.known();
        let frames = futures::stream::iter([Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
        let mut reply = Reply::new(
            ResponseBody::stream(futures::StreamExt::chain(frames, futures::stream::pending())),
            visit.begin(),
        );
        pass(limits.unread * 10).await;
        assert!(matches!(visit.judge(), Verdict::Until(_)), "it waits for us");
        assert_eq!(visit.standing(), None);
        for _ in 0..2 {
            let _ = reply.frame().await.expect("a frame");
            pass(limits.unread - Duration::from_secs(1)).await;
            assert!(matches!(visit.judge(), Verdict::Until(_)), "it was read in time");
        }
        pass(Duration::from_secs(1)).await;
        assert_eq!(visit.judge(), Verdict::Unread);
        assert!(futures::FutureExt::now_or_never(reply.frame()).is_none(), "there is no third frame");
        assert!(matches!(visit.judge(), Verdict::Until(_)), "its client waits again");
        drop(reply);
        assert_eq!(visit.standing(), Some(Standing::Idle(Instant::now())));
    }

    #[test]
    fn unknown_connections_go_before_idle_ones_and_older_before_newer() {
        let early = Instant::now();
        let late = early + Duration::from_secs(1);
        assert!(Standing::Unknown(late) < Standing::Idle(early));
        assert!(Standing::Unknown(early) < Standing::Unknown(late));
        assert!(Standing::Idle(early) < Standing::Idle(late));
    }
}
