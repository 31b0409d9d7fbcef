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

/// An error with its causes, in one line. What an API server answered is its message alone: the rest of
/// its Status, and what the client makes of it, repeat that.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let answer = cause.downcast_ref::<kube::Error>().and_then(|error| match error {
            kube::Error::Api(status) => Some(format!("{} ({})", status.message, status.code)),
            _ => None,
        });
        next = if answer.is_some() { None } else { cause.source() };
        let said = answer.unwrap_or_else(|| cause.to_string());
        if !text.contains(&said) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&said);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::ReconcileError;
    use super::super::write::is_ending;
    use super::*;

    fn forbidden() -> kube::Error {
        let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
            "message": "namespace team is being terminated", "reason": "Forbidden",
            "details": {"causes": [{"reason": "NamespaceTerminating", "message": "m", "field": "metadata.namespace"}]}});
        kube::Error::Api(serde_json::from_value(status).expect("reads"))
    }

    #[test]
    fn an_answer_of_the_api_is_told_once_and_in_its_own_words() {
        let text = chain(&ReconcileError::Api(forbidden()));
        assert_eq!(text, "a call of the API failed: namespace team is being terminated (403)");
    }

    #[test]
    fn what_a_namespace_that_goes_refuses_is_known_as_such() {
        assert!(is_ending(&forbidden()));
        let kube::Error::Api(mut status) = forbidden() else { unreachable!() };
        status.details = None;
        assert!(!is_ending(&kube::Error::Api(status)), "any other refusal is one");
    }
}
