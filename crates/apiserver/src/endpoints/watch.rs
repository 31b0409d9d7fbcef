//! Watch: events of a collection as they happen, one JSON object a line.
//!
//! The stream reads the store's history as the client takes frames; nothing is queued here, and no task
//! is kept for it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use allotment_machinery::json::Value;
use allotment_machinery::object::type_prefix;
use allotment_store::{Entry, Event, EventKind, ListQuery, Revision, StoreError, Watch, WatchScope};
use bytes::Bytes;
use futures::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::list::{self, Selection};
use super::options::ListOptions;
use super::render::Shape;
use super::store::{self, Stored};
use super::{Call, Reply};
use crate::body::PORTION;
use crate::registry::Row;
use crate::server::Context;
use crate::status::ApiError;

/// How long a watch lives whose client names no time: half an hour to an hour, so that clients do not
/// all come back at once.
const MIN_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How often a client that wants bookmarks gets one.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// Answers a watch.
pub(super) async fn watch(call: &Call<'_>) -> Result<Reply, ApiError> {
    let options = ListOptions::parse(call.query)?;
    let selection = Selection::of(call.row, &options)?;
    // `/api/v1/watch/…/NAME`
    let name = Some(call.cx.info.name.as_str()).filter(|_| call.cx.info.names_object);
    let selection = match name {
        Some(name) => selection.of_name(name)?,
        None => selection,
    };
    let frames = open(call, &options, selection).await?;
    Ok(Reply::Watch(Box::pin(frames)))
}

/// Everything a running watch needs.
struct Running {
    row: Row,
    shape: Shape,
    /// `apiVersion` and `kind` of objects that are shown as they are stored; `None` where each has to be
    /// converted.
    as_stored: Option<Vec<u8>>,
    selection: Selection,
    source: Box<dyn Watch>,
    /// What is sent before the source is read.
    initial: std::vec::IntoIter<Arc<Entry>>,
    /// The bookmark that ends the initial events, until it is sent.
    initial_end: Option<Revision>,
    /// When the next bookmark is due, for clients that want them.
    bookmark: Option<Pin<Box<Sleep>>>,
    deadline: Pin<Box<Sleep>>,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
    /// Its place among the tenant's watches.
    _place: Option<OwnedSemaphorePermit>,
}

/// A place among the watches of the tenant. Parts of this process need none.
fn place(cx: &Context) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
    if cx.user.is_in_process() {
        return Ok(None);
    }
    let place = Arc::clone(&cx.tenant.watches).try_acquire_owned();
    let full = "too many watches are open in this cluster; end some, or try again later";
    place.map(Some).map_err(|_| ApiError::too_many_requests(full))
}

async fn open(
    call: &Call<'_>,
    options: &ListOptions,
    selection: Selection,
) -> Result<impl Stream<Item = Bytes> + Send + use<>, ApiError> {
    let place = place(call.cx)?;
    let store = call.cx.server.store();
    let asked = match options.resource_version.as_str() {
        "" => None,
        text => Some(text.parse().map(Revision).map_err(|_| malformed(text))?),
    };
    let from_now = matches!(asked, None | Some(Revision(0)));
    let wants_initial = options.send_initial_events.unwrap_or(from_now);
    let scope = list::scope(call);
    let mut initial = Vec::new();
    let mut from = asked.unwrap_or_default();
    let mut begun = Ok(());
    if wants_initial || from_now {
        let query = ListQuery { scope: scope.clone(), at: None, after: None, limit: usize::from(!wants_initial) };
        let page = store.list(query).await.map_err(|error| store::api_error(&error))?;
        if page.revision < from {
            begun = Err(StoreError::Future { asked: from, current: page.revision });
        } else {
            from = page.revision;
            if wants_initial {
                initial = page.entries;
            }
        }
    }
    let now = Instant::now();
    let ends_initial = options.send_initial_events == Some(true) && options.bookmarks && begun.is_ok();
    let opened = match begun {
        Ok(()) => store.watch(WatchScope::Scope(scope), from).await,
        Err(error) => Err(error),
    };
    // A start that is no longer in the history, or from which all there is cannot be told yet, is an ERROR frame,
    // not an error of the request.
    let source = match opened {
        Ok(source) => source,
        Err(error @ (StoreError::Compacted { .. } | StoreError::Future { .. })) => Box::new(Failed(Some(error))),
        Err(error) => return Err(store::api_error(&error)),
    };
    let shape = Shape::of_watch(call)?;
    let as_stored = shape.is_as_stored(call.row).then(|| type_prefix(&call.row.api_version(), &call.row.kind.kind));
    let running = Running {
        row: call.row.clone(),
        shape,
        as_stored,
        selection,
        source,
        initial: initial.into_iter(),
        initial_end: ends_initial.then_some(from),
        bookmark: options.bookmarks.then(|| Box::pin(sleep_until(now + BOOKMARK_PERIOD))),
        deadline: Box::pin(sleep_until(now + timeout(call.cx, options))),
        // A token of its own: watches would crowd the lock of the server's.
        stopped: Box::pin(call.cx.server.stopping().child_token().cancelled_owned()),
        ended: false,
        _place: place,
    };
    Ok(futures::stream::unfold(
        running,
        |mut running| async move { running.next().await.map(|frame| (frame, running)) },
    ))
}

fn malformed(text: &str) -> ApiError {
    let message =
        format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
    ApiError::new(500, "", message)
}

fn timeout(cx: &Context, options: &ListOptions) -> Duration {
    match options.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.min(24 * 60 * 60)),
        _ => {
            let mut random = [0; 2];
            cx.server.entropy().fill(&mut random);
            MIN_TIMEOUT + MIN_TIMEOUT.mul_f64(f64::from(u16::from_le_bytes(random)) / f64::from(u16::MAX))
        }
    }
}

/// Waits until a bookmark is due; for ever where none is wanted.
async fn due(bookmark: &mut Option<Pin<Box<Sleep>>>) {
    match bookmark {
        Some(bookmark) => bookmark.as_mut().await,
        None => std::future::pending().await,
    }
}

impl Running {
    /// The next frames, as many as are at hand up to a portion: a burst of events costs one frame of HTTP/2 and
    /// one record of TLS, and nothing waits for more to come.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut out = Vec::new();
        self.put_initial(&mut out);
        while out.is_empty() && !self.ended {
            tokio::select! {
                biased;
                () = self.stopped.as_mut() => return None,
                () = self.deadline.as_mut() => return None,
                () = due(&mut self.bookmark) => {
                    self.bookmark = Some(Box::pin(sleep_until(Instant::now() + BOOKMARK_PERIOD)));
                    self.put_bookmark(self.source.progress(), false, &mut out);
                }
                event = self.source.next() => {
                    self.put_next(event.map(Some), &mut out);
                    self.put_ready(&mut out);
                }
            }
        }
        Some(Bytes::from(out)).filter(|out| !out.is_empty())
    }

    /// Appends initial events up to a portion, and what ends them.
    fn put_initial(&mut self, out: &mut Vec<u8>) {
        while out.len() < PORTION
            && let Some(entry) = self.initial.next()
        {
            let stored = Stored::of(&entry);
            if self.selection.selects(&self.row, &stored) {
                self.put_frame("ADDED", stored.body(), out);
            }
        }
        if self.initial.as_slice().is_empty()
            && let Some(revision) = self.initial_end.take()
        {
            self.put_bookmark(revision, true, out);
        }
    }

    /// Appends what has happened meanwhile, up to a portion.
    fn put_ready(&mut self, out: &mut Vec<u8>) {
        while out.len() < PORTION && !self.ended {
            match self.source.ready() {
                Ok(None) => return,
                next => self.put_next(next, out),
            }
        }
    }

    fn put_next(&mut self, next: Result<Option<Arc<Event>>, StoreError>, out: &mut Vec<u8>) {
        match next {
            Ok(Some(event)) => self.put_event(&event, out),
            Ok(None) => {}
            Err(error) => {
                self.ended = true;
                out.extend_from_slice(&error_frame(&store::api_error(&error)));
            }
        }
    }

    /// Appends what the event is to this watch's selection, if it is anything.
    fn put_event(&mut self, event: &Event, out: &mut Vec<u8>) {
        let selects = |stored: &Stored<'_>| self.selection.selects(&self.row, stored);
        let stored = Stored::of(&event.entry);
        let is_selected = selects(&stored);
        let name = match event.kind {
            EventKind::Added if is_selected => "ADDED",
            EventKind::Deleted if is_selected => "DELETED",
            EventKind::Modified if self.selection.is_everything() => "MODIFIED",
            EventKind::Modified => {
                match (event.previous.as_deref().filter(|previous| selects(&Stored::of(previous))), is_selected) {
                    (Some(_), true) => "MODIFIED",
                    (None, true) => "ADDED",
                    // It left the selection: its last selected state, at the revision of the change.
                    (Some(previous), false) => {
                        return self.put_frame("DELETED", &previous.body_at(event.revision), out);
                    }
                    (None, false) => return,
                }
            }
            EventKind::Added | EventKind::Deleted => return,
        };
        self.put_frame(name, stored.body(), out);
    }

    fn put_frame(&mut self, kind: &str, body: &Bytes, out: &mut Vec<u8>) {
        match &self.as_stored {
            Some(prefix) => put_whole_frame(prefix, kind, body, out),
            None if self.shape.shows_no_events() => self.ended = true,
            None => out.extend_from_slice(&self.shape.event(&self.row, kind, body)),
        }
    }

    fn put_bookmark(&mut self, revision: Revision, ends_initial: bool, out: &mut Vec<u8>) {
        if self.shape.shows_no_events() {
            self.ended = true;
        } else {
            out.extend_from_slice(&self.shape.bookmark(&self.row, revision, ends_initial));
        }
    }
}

/// Appends the frame of a stored object to which `prefix` gives its type.
pub(super) fn put_whole_frame(prefix: &[u8], kind: &str, body: &[u8], out: &mut Vec<u8>) {
    out.reserve(32 + kind.len() + prefix.len() + body.len());
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(prefix);
    out.extend_from_slice(body.get(1..).unwrap_or_default());
    out.extend_from_slice(b"}\n");
}

/// A frame of any value.
pub(super) fn value_frame(kind: &str, object: &Value) -> Bytes {
    let mut out = format!("{{\"type\":\"{kind}\",\"object\":").into_bytes();
    out.extend_from_slice(&object.to_vec());
    out.extend_from_slice(b"}\n");
    Bytes::from(out)
}

fn error_frame(error: &ApiError) -> Bytes {
    value_frame("ERROR", &error.to_value())
}

/// A watch that could not begin.
#[derive(Debug)]
struct Failed(Option<StoreError>);

#[async_trait::async_trait]
impl Watch for Failed {
    async fn next(&mut self) -> Result<Arc<Event>, StoreError> {
        match self.0.take() {
            Some(error) => Err(error),
            None => std::future::pending().await,
        }
    }

    fn progress(&self) -> Revision {
        Revision::default()
    }
}
