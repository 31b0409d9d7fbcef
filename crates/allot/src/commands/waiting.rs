//! Waits for an object to become what is wanted, woken by a watch.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::anyhow;
use futures::TryStreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

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
    let mut last = format!("{} {name} is not there", K::kind(&()));
    let watching = async {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut seen = std::pin::pin!(watcher(api, config).default_backoff().applied_objects());
        while let Some(object) = seen.try_next().await? {
            match look(&object) {
                Look::Done => return Ok(Some(object)),
                Look::NotYet(text) => {
                    progress.say(&text);
                    last = text;
                }
            }
        }
        Ok::<_, watcher::Error>(None)
    };
    let found = tokio::time::timeout(limit, watching).await;
    progress.end();
    match found {
        Ok(Ok(Some(object))) => Ok(object),
        Ok(Ok(None)) => Err(anyhow!("the watch ended; last: {last}").into()),
        Ok(Err(error)) => Err(anyhow::Error::from(error).into()),
        Err(_) => Err(anyhow!("not there after {}; last: {last}", crate::duration::human(limit)).into()),
    }
}
