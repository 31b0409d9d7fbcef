//! Follows a kind: list, then watch, for ever, into a sink. Errors are tried again with back-off, and logged once for all
//! kinds that have the same.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use allotment_core::access::why::answer;
use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use super::Troubles;

/// The first wait after a watch broke.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The longest wait between two tries; short, since a server that restarts is back within seconds.
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// Objects of one list call: large enough for few calls, small enough for bounded replies where each has some kilobytes.
const PAGE: u32 = 2_000;

/// Tells how many kinds have been listed at least once. Those who wait are woken in the order in which
/// they came: tokio's `watch` throws dice, and then a simulation is not repeatable.
#[derive(Clone, Debug, Default)]
pub struct Synced(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    kinds: AtomicUsize,
    risen: Notify,
    /// Kinds whose watch is broken now.
    broken: AtomicUsize,
    troubles: Troubles,
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

    /// The watch of a kind works again.
    fn mended(&self) {
        if self.0.broken.fetch_sub(1, Ordering::AcqRel) == 1 {
            info!("all watches that broke work again");
        }
    }

    fn one_more(&self) {
        self.0.kinds.fetch_add(1, Ordering::AcqRel);
        self.0.risen.notify_waiters();
    }
}

/// How long to wait after so many failures in a row.
fn wait(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.min(10)).min(LONGEST_RETRY)
}

/// Follows all objects of `api` and hands every event to `sink`. Ends when it is dropped.
/// `labels` is a label selector; empty for everything.
pub async fn follow<K>(api: Api<K>, labels: &str, synced: Synced, sink: impl FnMut(Event<K>) + Send)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default().page_size(PAGE).labels(labels);
    follow_by(api, config, synced, sink).await;
}

/// The same for a kind of large objects, so many of which are listed at once.
pub async fn follow_paged<K>(api: Api<K>, page: u32, synced: Synced, sink: impl FnMut(Event<K>) + Send)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    follow_by(api, watcher::Config::default().page_size(page), synced, sink).await;
}

async fn follow_by<K>(api: Api<K>, config: watcher::Config, synced: Synced, mut sink: impl FnMut(Event<K>) + Send)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = std::pin::pin!(watcher::watcher(api, config));
    let (mut listed, mut failures) = (false, 0u32);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                // A list that begins has not worked yet: whoever took it for success would ask without a pause.
                if !matches!(event, Event::Init) && std::mem::take(&mut failures) > 0 {
                    synced.mended();
                }
                let complete = matches!(event, Event::InitDone);
                sink(event);
                if complete && !listed {
                    listed = true;
                    synced.one_more();
                }
            }
            Err(error) => {
                if failures == 0 {
                    synced.0.broken.fetch_add(1, Ordering::AcqRel);
                }
                tell(&synced.0.troubles, &format!("watch of {} broke, trying again", K::plural(&())), &error);
                tokio::time::sleep(wait(failures)).await;
                failures = failures.saturating_add(1);
            }
        }
    }
}

/// Logs what failed, once for all that fail by the same error, and what to do.
pub fn tell(troubles: &Troubles, what: &str, error: &(dyn std::error::Error + 'static)) {
    let text = chain(error);
    match troubles.again(&text) {
        None => debug!(error = %text, "{what}"),
        Some(0) => warn!(error = %text, "{what}{}", advice(error)),
        Some(unsaid) => warn!(error = %text, unsaid, "{what}{}", advice(error)),
    }
}

/// What to do about an answer that no retry changes; empty where there is nothing to say.
pub fn advice(error: &(dyn std::error::Error + 'static)) -> &'static str {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(kube::Error::Api(status)) = cause.downcast_ref::<kube::Error>() {
            return match status.code {
                403 if status.message.contains("cannot ") => {
                    "; the identity lacks a right: deploy/controllers/rbac.yaml says which ones it needs"
                }
                404 if status.details.is_none() || status.message.contains("could not find the requested resource") => {
                    "; the server does not know the kind: was its CustomResourceDefinition deleted? Whoever acts makes it again"
                }
                _ => "",
            };
        }
        next = cause.source();
    }
    ""
}

/// What came of a call, for those who may not know what was asked, or of whom: nothing that a server wrote.
pub(crate) fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("an API server answers {}", answer(status.code, &status.reason)),
        kube::Error::SerdeError(_) => "an API server answers what cannot be read".to_owned(),
        other => chain(other),
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
        if let Some(watching) = cause.downcast_ref::<watcher::Error>() {
            // What it says of itself repeats what caused it.
            let (what, source): (_, Option<&(dyn std::error::Error + 'static)>) = match watching {
                watcher::Error::InitialListFailed(error) => ("it cannot be listed", Some(error)),
                watcher::Error::WatchStartFailed(error) => ("no watch begins", Some(error)),
                watcher::Error::WatchFailed(error) => ("the watch ended", Some(error)),
                watcher::Error::WatchError(status) => (status.message.as_str(), None),
                watcher::Error::NoResourceVersion => ("its lists have no resourceVersion", None),
            };
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(what);
            next = source;
            continue;
        }
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
    fn a_server_that_stays_away_is_asked_less_and_less_often() {
        let waits: Vec<u128> = (0..9).map(|failures| wait(failures).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn a_lack_of_rights_is_told_with_where_they_stand() {
        let answer = |code: u16, message: &str| {
            kube::Error::Api(Box::new(kube::core::Status::failure(message, "Reason").with_code(code)))
        };
        let says = |code, message| advice(&ReconcileError::Api(answer(code, message)));
        assert!(says(403, "pods is forbidden: User \"x\" cannot list resource \"pods\"").contains("rbac.yaml"));
        assert!(says(404, "404 page not found").contains("CustomResourceDefinition"));
        assert_eq!(says(403, "admission webhook denied the request"), "");
        assert_eq!(says(500, "oops"), "");
    }

    #[test]
    fn an_answer_of_the_api_is_told_once_and_in_its_own_words() {
        let text = chain(&ReconcileError::Api(forbidden()));
        assert_eq!(text, "a call of the API failed: namespace team is being terminated (403)");
    }

    #[test]
    fn a_watch_that_fails_is_told_by_what_caused_it() {
        let text = chain(&watcher::Error::InitialListFailed(forbidden()));
        assert_eq!(text, "it cannot be listed: namespace team is being terminated (403)");
    }

    #[test]
    fn what_a_namespace_that_goes_refuses_is_known_as_such() {
        assert!(is_ending(&forbidden()));
        let kube::Error::Api(mut status) = forbidden() else { unreachable!() };
        status.details = None;
        assert!(!is_ending(&kube::Error::Api(status)), "any other refusal is one");
    }
}
