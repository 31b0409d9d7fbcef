//! Waits for an object to become what is wanted, woken by a watch.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::anyhow;
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::client;
use crate::exit::Failure;
use crate::progress::Progress;

/// What a look at an object says.
pub(crate) enum Look {
    /// It is so far; nothing more to wait for.
    Done,
    /// Not yet, and this is what to show.
    NotYet(String),
}

/// Waits until `look` says done, and gives the object as it was then.
pub(crate) async fn until<K>(
    api: Api<K>,
    name: &str,
    limit: Duration,
    mut look: impl FnMut(&K) -> Look,
) -> Result<K, Failure>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut progress = Progress::start();
    let mut last = "it was not looked at yet".to_owned();
    let watching = async {
        let absent = api.get_metadata_opt(name).await;
        if absent.map_err(|error| anyhow!("{}", client::explain(&error)))?.is_none() {
            last = format!("{} {name} does not exist", K::kind(&()));
            progress.say(&format!("{last} yet; waiting until it does"));
        }
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut seen = std::pin::pin!(watcher(api, config).default_backoff().applied_objects());
        while let Some(seen) = seen.next().await {
            let object = match seen {
                Ok(object) => object,
                Err(error) if is_final(&error) => return Err(explained(error)),
                // The server may be starting again; the watcher asks anew, ever more slowly.
                Err(_) => {
                    progress.say("the server does not answer; trying again");
                    continue;
                }
            };
            match look(&object) {
                Look::Done => return Ok(Some(object)),
                Look::NotYet(text) => {
                    progress.say(&text);
                    last = text;
                }
            }
        }
        Ok(None)
    };
    let found = tokio::time::timeout(limit, watching).await;
    progress.end();
    match found {
        Ok(Ok(Some(object))) => Ok(object),
        Ok(Ok(None)) => Err(anyhow!("the watch ended; last: {last}").into()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(anyhow!("gave up after {}: {last}", crate::duration::human(limit)).into()),
    }
}

/// Whether asking again cannot help: the server answered, and will not let us watch.
fn is_final(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status)
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => matches!(status.code, 401 | 403 | 404),
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => false,
    }
}

/// The error in words, once: the watcher's own repeats its cause with all its fields.
fn explained(error: watcher::Error) -> anyhow::Error {
    let cause = match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => cause,
        watcher::Error::WatchError(status) => kube::Error::Api(status),
        watcher::Error::NoResourceVersion => return error.into(),
    };
    let why = client::explain(&cause);
    match cause {
        kube::Error::Api(status) if status.code == 403 => {
            anyhow!("{why}; --wait needs the rights to list and to watch")
        }
        _ => anyhow!(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_watch_is_told_so_once_and_in_words() {
        let status = || {
            let text = "clusterrequests.cluster.openmcp.cloud is forbidden: User \"u\" cannot watch resource";
            kube::core::Status::failure(text, "Forbidden").with_code(403).boxed()
        };
        for error in [
            watcher::Error::WatchStartFailed(kube::Error::Api(status())),
            watcher::Error::InitialListFailed(kube::Error::Api(status())),
            watcher::Error::WatchError(status()),
        ] {
            assert!(is_final(&error));
            let told = format!("{:#}", explained(error));
            assert_eq!(told.matches("cannot watch").count(), 1, "{told}");
            assert!(!told.contains("Status {") && told.contains("--wait needs"), "{told}");
        }
    }
}
