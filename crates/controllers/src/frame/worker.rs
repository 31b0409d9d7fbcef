//! The loop that works a queue off: take a key, look, act, say when to look again. Work on one key that panics is a failure of that
//! key alone.

use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tracing::{debug, error, warn};

use super::lanes::{Lane, Lanes};
use super::watch::chain;
use super::write::is_ending;
use super::{ObjectKey, Queue, Troubles, is_conflict, is_gone};

/// When to look at an object again, if nothing happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Change,
    /// After that time.
    After(Duration),
}

/// Objects that one controller works on at once. Their writes share the store's commits; more would only
/// crowd out the users of the API.
pub(crate) const AT_ONCE: usize = 16;

/// Why a pass did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A call of the platform's API or of a Cluster's failed.
    #[error("a call of the API failed")]
    Api(#[from] kube::Error),
    /// A TokenRequest was answered without a token.
    #[error("the Cluster answered the TokenRequest for ServiceAccount {account} without a token")]
    NoToken {
        /// The ServiceAccount in the Cluster.
        account: ObjectKey,
    },
    /// Neither name of the Secret of an AccessRequest is free.
    #[error("Secret {secret} belongs to somebody else; delete it")]
    Taken {
        /// The Secret.
        secret: ObjectKey,
    },
    /// A Cluster did not answer in time.
    #[error("Cluster {cluster} does not answer in time")]
    Slow {
        /// The Cluster.
        cluster: ObjectKey,
    },
    /// What is written is undone, or does not hold.
    #[error("{profile} does not come to rest: what is written to it does not stay; find out who else writes it")]
    Restless {
        /// The profile.
        profile: String,
    },
    /// What is known of an object's users is older than what the API says of them, and by much.
    #[error("who uses {profile} is not known yet: watches lag behind")]
    Behind {
        /// The profile.
        profile: String,
    },
    /// The process of a provider could not be started or ended.
    #[error("the provider cannot be run")]
    Runner(#[from] crate::providers::RunnerError),
    /// A provider could not do what it was asked.
    #[error("the provider failed")]
    Provider(#[from] crate::providers::ProviderError),
}

impl ReconcileError {
    /// Whether the next look will most likely find things in order: a race was lost.
    fn is_race(&self) -> bool {
        match self {
            ReconcileError::Api(error) => is_conflict(error) || is_gone(error) || is_ending(error),
            ReconcileError::Behind { .. } => true,
            ReconcileError::NoToken { .. }
            | ReconcileError::Taken { .. }
            | ReconcileError::Slow { .. }
            | ReconcileError::Restless { .. }
            | ReconcileError::Runner(_)
            | ReconcileError::Provider(_) => false,
        }
    }

    /// Whether the API takes no such write, and will not take the same one later.
    pub(crate) fn is_refusal(&self) -> bool {
        let ReconcileError::Api(kube::Error::Api(status)) = self else { return false };
        !self.is_race() && matches!(status.code, 400..500) && !matches!(status.code, 408 | 429)
    }
}

/// One controller: brings one object a step nearer to what it should be.
#[async_trait]
pub trait Reconcile: Send + Sync + 'static {
    /// What the controller is called in logs.
    fn name(&self) -> &'static str;

    /// The lane that work on the object of that key keeps to, where it may be held up by something of somebody
    /// else's.
    fn lane(&self, _key: &ObjectKey) -> Option<Lane> {
        None
    }

    /// Looks at the object of that key and acts. Called again until it asks for nothing more, and it
    /// may be dropped at any await.
    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError>;
}

/// Works `queue` off, at most `concurrency` keys at a time, and those that keep to lanes beside them. Ends when it
/// is dropped.
pub async fn work<R>(controller: Arc<dyn Reconcile>, queue: Arc<Queue<ObjectKey, R>>, concurrency: usize)
where
    R: Clone + Debug + Default + Ord + Send,
{
    let mut running = FuturesUnordered::new();
    let (mut lanes, troubles) = (Lanes::default(), Troubles::default());
    loop {
        let free = running.len() - lanes.running() < concurrency;
        let (lane, key) = tokio::select! {
            biased;
            Some(lane) = running.next(), if !running.is_empty() => {
                match lanes.leave(lane) {
                    Some((lane, key)) => (Some(lane), key),
                    None => continue,
                }
            }
            key = queue.take(), if free => match controller.lane(&key) {
                Some(lane) => match lanes.enter(lane, key) {
                    Some((lane, key)) => (Some(lane), key),
                    None => continue,
                },
                None => (None, key),
            },
        };
        let work = one(controller.clone(), queue.clone(), key, troubles.clone());
        running.push(work.map(|()| lane).boxed());
    }
}

async fn one<R>(controller: Arc<dyn Reconcile>, queue: Arc<Queue<ObjectKey, R>>, key: ObjectKey, troubles: Troubles)
where
    R: Clone + Debug + Default + Ord + Send,
{
    // It may be dropped at any await, so that what it leaves behind is whole; of what is changed between awaits, `Shared` knows
    // whether it came to its end.
    let done = AssertUnwindSafe(controller.reconcile(&key)).catch_unwind().await;
    match done {
        Err(_) => {
            let delay = queue.retry_panic(key.clone());
            let name = controller.name();
            error!(controller = name, object = %key, ?delay, "the program itself failed, as said above; trying again");
        }
        Ok(Ok(next)) => {
            queue.succeeded(&key);
            if let Next::After(delay) = next {
                queue.add_after(key.clone(), delay);
            }
        }
        Ok(Err(error)) => {
            let (name, text, delay) = (controller.name(), chain(&error), queue.retry(key.clone()));
            if error.is_race() {
                debug!(controller = name, object = %key, ?delay, error = %text, "lost a race");
            } else if let Some(unsaid) = troubles.again(&text) {
                // What is wrong with all of them alike, as an API server that is away, is said of one.
                warn!(controller = name, object = %key, ?delay, unsaid, error = %text, "trying again");
            } else {
                debug!(controller = name, object = %key, ?delay, error = %text, "trying again");
            }
        }
    }
    queue.done(&key);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Panics at once for one key, after an await for another, and notes which it was asked for.
    #[derive(Default)]
    struct Planted(Mutex<BTreeMap<String, usize>>);

    #[async_trait]
    impl Reconcile for Planted {
        fn name(&self) -> &'static str {
            "planted"
        }

        fn lane(&self, key: &ObjectKey) -> Option<Lane> {
            (key.name == "late").then(|| Lane::new("p", "late"))
        }

        async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
            {
                let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                *seen.entry(key.name.clone()).or_default() += 1;
                assert_ne!(key.name, "bad", "planted");
            }
            tokio::task::yield_now().await;
            assert_ne!(key.name, "late", "planted");
            Ok(Next::Change)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_on_one_key_that_panics_is_tried_again_later_and_holds_up_no_other() {
        let (planted, queue) = (Arc::new(Planted::default()), Arc::new(Queue::<ObjectKey>::default()));
        let key = |name: &str| ObjectKey::new("n", name);
        ["bad", "late", "good"].into_iter().for_each(|name| queue.add(key(name)));
        let begin = tokio::time::Instant::now();
        let worked = tokio::time::timeout(Duration::from_secs(100), work(planted.clone(), queue.clone(), 1)).await;
        assert!(worked.is_err(), "the loop goes on");
        assert_eq!(begin.elapsed(), Duration::from_secs(100));
        let seen = planted.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // At 0, 1, 3, 7, 15, 31 and 63 seconds.
        let expect = [("bad", 7), ("good", 1), ("late", 7)].map(|(name, times)| (name.to_owned(), times));
        assert_eq!(seen, BTreeMap::from(expect));
        assert_eq!(queue.panics(), 14);
    }
}
