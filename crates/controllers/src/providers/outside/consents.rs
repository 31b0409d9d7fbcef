//! Which Secrets in `allot-system` say themselves which provider may read them. What a ProviderConfig names is not
//! enough: its kind is defined by the provider that would read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allotment_api::names::{READ_BY, SYSTEM_NAMESPACE};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tracing::debug;

use crate::frame::{ObjectKey, Queue, Tasks, chain};

/// How long to wait after a watch broke.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// Objects of one list call.
const PAGE: u32 = 500;

/// The Secrets that bear [`READ_BY`]. Nothing but their names and labels is kept.
pub(super) struct Consents {
    tasks: Tasks,
    client: Client,
    providers: Arc<Queue<ObjectKey>>,
    known: Arc<Mutex<Known>>,
}

/// What is known of them.
#[derive(Debug, Default)]
struct Known {
    begun: bool,
    listed: bool,
    /// The ClusterProviders that were judged before all were known.
    early: BTreeSet<String>,
    /// By Secret: the ClusterProvider that may read it.
    readers: BTreeMap<String, String>,
    /// The same of a list that is not complete yet.
    incoming: BTreeMap<String, String>,
}

/// The Secrets that ProviderConfigs name, by what they say themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Readable {
    /// Those that the provider may read.
    pub(super) open: BTreeSet<String>,
    /// Those that do not name it; empty until all are known.
    pub(super) closed: BTreeSet<String>,
    /// Whether all are known; if not, the ClusterProvider is woken once they are.
    pub(super) known: bool,
}

impl Consents {
    /// Nothing yet. Providers whose Secrets change are put into that queue.
    pub(super) fn new(tasks: Tasks, client: Client, providers: Arc<Queue<ObjectKey>>) -> Self {
        Consents { tasks, client, providers, known: Arc::default() }
    }

    /// What a ClusterProvider may read of the Secrets that its ProviderConfigs name; from now on they are followed.
    pub(super) fn judge(&self, provider: &str, named: BTreeSet<String>) -> Readable {
        let mut known = lock(&self.known);
        if !known.begun {
            known.begun = true;
            let secrets = Api::<PartialObjectMeta<Secret>>::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
            self.tasks.spawn(follow(secrets, self.known.clone(), self.providers.clone()));
        }
        if !known.listed {
            known.early.insert(provider.to_owned());
        }
        known.judge(provider, named)
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn follow(secrets: Api<PartialObjectMeta<Secret>>, known: Arc<Mutex<Known>>, providers: Arc<Queue<ObjectKey>>) {
    loop {
        let config = watcher::Config::default().labels(READ_BY).page_size(PAGE);
        let mut events = std::pin::pin!(watcher::watcher(secrets.clone(), config));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let changed = lock(&known).take(event);
                    changed.into_iter().for_each(|provider| providers.add(ObjectKey::cluster_wide(provider)));
                }
                Err(error) => {
                    debug!(error = %chain(&error), "Secrets that providers read cannot be followed yet");
                    break;
                }
            }
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

impl Known {
    fn judge(&self, provider: &str, named: BTreeSet<String>) -> Readable {
        let (open, closed): (BTreeSet<String>, BTreeSet<String>) =
            named.into_iter().partition(|name| self.readers.get(name).is_some_and(|reader| reader == provider));
        let closed = if self.listed { closed } else { BTreeSet::new() };
        Readable { open, closed, known: self.listed }
    }

    /// Takes in what the watch says; gives the ClusterProviders that may read more or less than before.
    fn take(&mut self, event: Event<PartialObjectMeta<Secret>>) -> BTreeSet<String> {
        let read = |secret: &PartialObjectMeta<Secret>| {
            (secret.name_any(), secret.labels().get(READ_BY).cloned().unwrap_or_default())
        };
        let (name, before, after) = match event {
            Event::Apply(secret) => {
                let (name, reader) = read(&secret);
                let before = self.readers.insert(name.clone(), reader);
                (name.clone(), before, self.readers.get(&name).cloned())
            }
            Event::Delete(secret) => {
                let name = secret.name_any();
                let before = self.readers.remove(&name);
                (name, before, None)
            }
            Event::Init => {
                self.incoming.clear();
                return BTreeSet::new();
            }
            Event::InitApply(secret) => {
                self.incoming.extend([read(&secret)]);
                return BTreeSet::new();
            }
            Event::InitDone => {
                let after = std::mem::take(&mut self.incoming);
                let before = std::mem::replace(&mut self.readers, after);
                self.listed = true;
                // Rare, and a pass that changes nothing writes nothing.
                let early = std::mem::take(&mut self.early);
                return before.into_values().chain(self.readers.values().cloned()).chain(early).collect();
            }
        };
        debug!(secret = name, "who may read it changed");
        let changed = before != after;
        before.into_iter().chain(after).filter(|_| changed).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(name: &str, reader: &str) -> PartialObjectMeta<Secret> {
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "labels": {READ_BY: reader}}, "data": {"key": "c2VjcmV0"}}))
        .expect("a Secret's metadata")
    }

    fn names(set: &[&str]) -> BTreeSet<String> {
        set.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_provider_reads_the_secrets_that_name_it_and_no_other() {
        let mut known = Known::default();
        let judge = |known: &Known, provider: &str| {
            let Readable { open, closed, .. } = known.judge(provider, names(&["mine", "theirs", "unmarked"]));
            (open, closed)
        };
        assert_eq!(judge(&known, "p"), (names(&[]), names(&[])), "nothing is known yet");
        known.take(Event::Init);
        known.take(Event::InitApply(secret("mine", "p")));
        known.take(Event::InitApply(secret("theirs", "q")));
        known.take(Event::InitApply(secret("unnamed", "p")));
        assert_eq!(judge(&known, "p"), (names(&[]), names(&[])), "half a list counts for nothing");
        known.early.insert("early".to_owned());
        assert!(!known.judge("p", names(&[])).known);
        assert_eq!(
            known.take(Event::InitDone),
            names(&["early", "p", "q"]),
            "who was judged too early is judged again"
        );
        assert!(known.judge("p", names(&[])).known);
        assert_eq!(judge(&known, "p"), (names(&["mine"]), names(&["theirs", "unmarked"])));
        assert_eq!(judge(&known, "q"), (names(&["theirs"]), names(&["mine", "unmarked"])));
        assert_eq!(judge(&known, ""), (names(&[]), names(&["mine", "theirs", "unmarked"])));

        assert_eq!(known.take(Event::Apply(secret("mine", "p"))), names(&[]), "nothing changed");
        assert_eq!(known.take(Event::Apply(secret("mine", "q"))), names(&["p", "q"]));
        assert_eq!(judge(&known, "p").0, names(&[]));
        // What loses the label leaves the watch.
        assert_eq!(known.take(Event::Delete(secret("mine", "q"))), names(&["q"]));
        assert_eq!(judge(&known, "q").0, names(&["theirs"]));
        known.take(Event::Init);
        assert_eq!(known.take(Event::InitDone), names(&["p", "q"]));
        assert_eq!(judge(&known, "q").0, names(&[]), "what a relist does not have is not open");
    }
}
