//! Follows a kind: list, then watch, for ever, into a sink. Errors are logged and tried again with
//! back-off.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tracing::warn;

/// The first wait after a watch broke.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The longest wait between two tries; short, since a server that restarts is back within seconds.
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// Objects of one list call: large enough for few calls, small enough for bounded replies.
const PAGE: u32 = 2_000;

/// Tells how many kinds have been listed at least once. Those who wait are woken in the order in which
/// they came: tokio's `watch` throws dice, and then a simulation is not repeatable.
#[derive(Clone, Debug, Default)]
pub struct Synced(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    kinds: AtomicUsize,
    risen: Notify,
}

impl Synced {
    /// Waits until `kinds` kinds have been listed.
    pub async fn wait(&self, kinds: usize) {
        loop {
            let mut risen = std::pin::pin!(self.0.risen.notified());
            // From here on no rise is missed.
            risen.as_mut().enable();
            if self.reached(kinds) {
                return;
            }
            risen.await;
        }
    }

    /// Whether `kinds` kinds have been listed.
    pub fn reached(&self, kinds: usize) -> bool {
        self.0.kinds.load(Ordering::Acquire) >= kinds
    }

    fn one_more(&self) {
        self.0.kinds.fetch_add(1, Ordering::AcqRel);
        self.0.risen.notify_waiters();
    }
}

#[derive(Debug, Default)]
struct Retry {
    failures: u32,
}

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = FIRST_RETRY.saturating_mul(1 << self.failures.min(10)).min(LONGEST_RETRY);
        self.failures = self.failures.saturating_add(1);
        Some(delay)
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Follows all objects of `api` and hands every event to `sink`. Ends when it is dropped.
/// `labels` is a label selector; empty for everything.
pub async fn follow<K>(api: Api<K>, labels: &str, synced: Synced, mut sink: impl FnMut(Event<K>) + Send)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default().page_size(PAGE).labels(labels);
    let mut events = std::pin::pin!(watcher::watcher(api, config).backoff(Retry::default()));
    let mut listed = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let complete = matches!(event, Event::InitDone);
                sink(event);
                if complete && !listed {
                    listed = true;
                    synced.one_more();
                }
            }
            Err(error) => warn!(kind = %K::kind(&()), error = %chain(&error), "watch broke, trying again"),
        }
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
