//! Watch: events of a collection as they happen, one JSON object a line.
//!
//! The stream reads the store's history as the client takes frames; nothing is queued here, and no task
//! is kept for it.

use std::sync::Arc;
use std::time::Duration;

use allotment_machinery::json::Value;
use allotment_machinery::object::type_prefix;
use allotment_machinery::selector::escape_value;
use allotment_store::{Entry, Event, EventKind, ListQuery, Revision, StoreError, Watch, WatchScope};
use bytes::Bytes;
use futures::Stream;
use tokio::time::Instant;

use super::list::{self, Selection};
use super::options::ListOptions;
use super::render::Shape;
use super::store;
use super::{Call, Reply};
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
    let mut options = ListOptions::parse(call.query, true)?;
    if call.cx.info.names_object {
        // `/api/v1/watch/…/NAME`
        let name = escape_value(&call.cx.info.name);
        let separator = if options.field_selector.is_empty() { "" } else { "," };
        options.field_selector.push_str(&format!("{separator}metadata.name={name}"));
    }
    let selection = Selection::parse(call.row, &options)?;
    let frames = open(call, &options, selection).await?;
    Ok(Reply::Watch(Box::pin(frames)))
}

/// Everything a running watch needs.
struct Running {
    row: Row,
    shape: Shape,
    selection: Selection,
    source: Box<dyn Watch>,
    /// What is sent before the source is read.
    initial: std::vec::IntoIter<Arc<Entry>>,
    /// The bookmark that ends the initial events, until it is sent.
    initial_end: Option<Revision>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    stopping: tokio_util::sync::CancellationToken,
    ended: bool,
}

async fn open(
    call: &Call<'_>,
    options: &ListOptions,
    selection: Selection,
) -> Result<impl Stream<Item = Bytes> + Send + use<>, ApiError> {
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
    if wants_initial || from_now {
        let query = ListQuery { scope: scope.clone(), at: None, after: None, limit: usize::from(!wants_initial) };
        let page = store.list(query).await.map_err(|error| store::api_error(&error))?;
        if page.revision < from {
            return Err(store::too_large_version(from, page.revision));
        }
        from = page.revision;
        if wants_initial {
            initial = page.entries;
        }
    }
    let now = Instant::now();
    let ends_initial = options.send_initial_events == Some(true) && options.bookmarks;
    // A start that is no longer in the history is an ERROR frame, not an error of the request.
    let source = match store.watch(WatchScope::Scope(scope), from).await {
        Ok(source) => source,
        Err(error @ StoreError::Compacted { .. }) => Box::new(Failed(Some(error))),
        Err(error) => return Err(store::api_error(&error)),
    };
    let running = Running {
        row: call.row.clone(),
        shape: Shape::of(call, true)?,
        selection,
        source,
        initial: initial.into_iter(),
        initial_end: ends_initial.then_some(from),
        bookmarks: options.bookmarks,
        next_bookmark: now + BOOKMARK_PERIOD,
        deadline: now + timeout(call.cx, options),
        stopping: call.cx.server.stopping().clone(),
        ended: false,
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

impl Running {
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        loop {
            if let Some(entry) = self.initial.next() {
                if self.selection.selects(&self.row, &entry) {
                    return Some(self.frame("ADDED", &entry.body));
                }
                continue;
            }
            if let Some(revision) = self.initial_end.take() {
                return Some(self.shape.bookmark(&self.row, revision, true));
            }
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                () = tokio::time::sleep_until(self.deadline) => return None,
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_PERIOD;
                    return Some(self.shape.bookmark(&self.row, self.source.progress(), false));
                }
                event = self.source.next() => match event {
                    Ok(event) => {
                        if let Some(frame) = self.event_frame(&event) {
                            return Some(frame);
                        }
                    }
                    Err(error) => {
                        self.ended = true;
                        return Some(error_frame(&store::api_error(&error)));
                    }
                },
            }
        }
    }

    /// What the event is to this watch's selection; `None` if it is nothing.
    fn event_frame(&mut self, event: &Event) -> Option<Bytes> {
        let selects = |entry: &Entry| self.selection.selects(&self.row, entry);
        let before = || event.previous.as_deref().is_some_and(selects);
        let kind = match event.kind {
            EventKind::Added | EventKind::Modified if self.selection.is_everything() => event.kind,
            EventKind::Added => selects(&event.entry).then_some(EventKind::Added)?,
            EventKind::Modified => match (before(), selects(&event.entry)) {
                (true, true) => EventKind::Modified,
                (false, true) => EventKind::Added,
                // It left the selection: its last selected state, at the revision of the change.
                (true, false) => {
                    let previous = event.previous.as_deref()?;
                    return Some(self.frame("DELETED", &at_revision(previous, event.revision)));
                }
                (false, false) => return None,
            },
            EventKind::Deleted => selects(&event.entry).then_some(EventKind::Deleted)?,
        };
        let name = match kind {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        };
        if kind == event.kind && self.shape.is_default(&self.row) {
            let encoded = event.encoded.get_or_init(|| whole_frame(&self.row, name, &event.entry.body));
            return Some(encoded.clone());
        }
        Some(self.frame(name, &event.entry.body))
    }

    fn frame(&mut self, kind: &str, body: &Bytes) -> Bytes {
        self.shape.event(&self.row, kind, body)
    }
}

/// An object as it was, at a later revision.
fn at_revision(entry: &Entry, revision: Revision) -> Bytes {
    let body = &entry.body;
    let splice = entry.splice as usize;
    let old = format!("\"resourceVersion\":\"{}\",", entry.revision);
    let new = format!("\"resourceVersion\":\"{revision}\",");
    match body.get(splice..splice + old.len()) {
        Some(have) if have == old.as_bytes() => {
            Bytes::from([&body[..splice], new.as_bytes(), &body[splice + old.len()..]].concat())
        }
        _ => body.clone(),
    }
}

/// The frame of a whole object in the version it is stored in.
pub(super) fn whole_frame(row: &Row, kind: &str, body: &[u8]) -> Bytes {
    let prefix = type_prefix(&row.api_version(), &row.kind.kind);
    let mut out = Vec::with_capacity(40 + prefix.len() + body.len());
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(&prefix);
    out.extend_from_slice(body.get(1..).unwrap_or_default());
    out.extend_from_slice(b"}\n");
    Bytes::from(out)
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
