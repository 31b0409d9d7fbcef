//! The loop that works a queue off: take a key, look, act, say when to look again.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tracing::{debug, warn};

use super::lanes::{Lane, Lanes};
use super::watch::chain;
use super::write::is_ending;
use super::{ObjectKey, Queue, is_conflict, is_gone};

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
    let mut lanes = Lanes::default();
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
        let work = one(controller.clone(), queue.clone(), key);
        running.push(work.map(|()| lane).boxed());
    }
}

async fn one<R>(controller: Arc<dyn Reconcile>, queue: Arc<Queue<ObjectKey, R>>, key: ObjectKey)
where
    R: Clone + Debug + Default + Ord + Send,
{
    match controller.reconcile(&key).await {
        Ok(next) => {
            queue.succeeded(&key);
            if let Next::After(delay) = next {
                queue.add_after(key.clone(), delay);
            }
        }
        Err(error) => {
            let race = error.is_race();
            let delay = queue.retry(key.clone());
            if race {
                debug!(controller = controller.name(), object = %key, ?delay, error = %chain(&error), "lost a race");
            } else {
                warn!(controller = controller.name(), object = %key, ?delay, error = %chain(&error), "trying again");
            }
        }
    }
    queue.done(&key);
}
