//! ProviderConfigs of groups that providers of other processes bring: which Secrets they name. All else about them is
//! the providers'.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allotment_core::providers::named_secrets;
use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::frame::{ObjectKey, Queue, Tasks, caught, chain};

/// The version of every group's ProviderConfigs.
const VERSION: &str = "v1alpha1";
/// How long to wait after a watch broke. Until a provider has brought its definitions there is nothing to watch.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// How long to wait after they could not be taken in.
const AFTER_PANIC: Duration = Duration::from_secs(30);
/// Objects of one list call.
const PAGE: u32 = 500;

/// What is known of the ProviderConfigs of one group.
#[derive(Debug, Default)]
struct Group {
    /// By name: the ClusterProvider that it belongs to, and the Secrets that it names.
    configs: BTreeMap<String, (String, BTreeSet<String>)>,
    /// The same of a list that is not complete yet.
    incoming: Option<BTreeMap<String, (String, BTreeSet<String>)>>,
    /// Whether they were all seen once, so that what is not here is not there.
    listed: bool,
    /// The ClusterProviders that asked before.
    waiting: BTreeSet<String>,
}

/// Groups that are followed.
#[derive(Debug, Default)]
struct State {
    groups: BTreeMap<String, (Arc<Mutex<Group>>, CancellationToken)>,
    /// The group of each ClusterProvider.
    group_of: BTreeMap<String, String>,
}

/// The ProviderConfigs of all groups of providers outside.
pub(super) struct FollowedConfigs {
    tasks: Tasks,
    client: Client,
    providers: Arc<Queue<ObjectKey>>,
    state: Mutex<State>,
}

impl FollowedConfigs {
    /// Nothing yet. Providers whose Secrets change are put into that queue.
    pub(super) fn new(tasks: Tasks, client: Client, providers: Arc<Queue<ObjectKey>>) -> Self {
        FollowedConfigs { tasks, client, providers, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Secrets that the ProviderConfigs of a ClusterProvider name; from now on they are followed. Nothing where that is not
    /// known yet: the ClusterProvider is woken once it is.
    pub(super) fn follow(&self, provider: &str, group: &str) -> Option<BTreeSet<String>> {
        let mut state = self.state();
        let before = state.group_of.insert(provider.to_owned(), group.to_owned());
        if before.is_some_and(|before| before != group) {
            state.drop_unused();
        }
        let (known, _) = state.groups.entry(group.to_owned()).or_insert_with(|| self.begin(group));
        lock(known).secrets_of(provider)
    }

    /// Follows no more for that ClusterProvider.
    pub(super) fn forget(&self, provider: &str) {
        let mut state = self.state();
        state.group_of.remove(provider);
        state.drop_unused();
    }

    fn begin(&self, group: &str) -> (Arc<Mutex<Group>>, CancellationToken) {
        let (known, stop) = (Arc::new(Mutex::new(Group::default())), CancellationToken::new());
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, VERSION, "ProviderConfig"));
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
        let (sink, providers, stopped) = (known.clone(), self.providers.clone(), stop.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = follow_again(api, sink, providers) => {}
            }
        });
        (known, stop)
    }
}

impl State {
    fn drop_unused(&mut self) {
        let used: BTreeSet<&String> = self.group_of.values().collect();
        self.groups.retain(|group, (_, stop)| {
            let keep = used.contains(group);
            if !keep {
                stop.cancel();
            }
            keep
        });
    }
}

fn lock(group: &Mutex<Group>) -> MutexGuard<'_, Group> {
    group.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows for ever. What one of them holds is its provider's, and must harm no other group: after a panic all are listed anew.
async fn follow_again(api: Api<DynamicObject>, known: Arc<Mutex<Group>>, providers: Arc<Queue<ObjectKey>>) {
    loop {
        caught("ProviderConfigs of a provider outside", follow(api.clone(), known.clone(), providers.clone())).await;
        tokio::time::sleep(AFTER_PANIC).await;
    }
}

async fn follow(api: Api<DynamicObject>, known: Arc<Mutex<Group>>, providers: Arc<Queue<ObjectKey>>) {
    loop {
        let config = watcher::Config::default().page_size(PAGE);
        let mut events = std::pin::pin!(watcher::watcher(api.clone(), config));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let changed = lock(&known).take(event);
                    changed.into_iter().for_each(|provider| providers.add(ObjectKey::cluster_wide(provider)));
                }
                Err(error) => {
                    if is_undefined(&error) {
                        let changed = lock(&known).take_none();
                        changed.into_iter().for_each(|provider| providers.add(ObjectKey::cluster_wide(provider)));
                    }
                    debug!(error = %chain(&error), "ProviderConfigs cannot be followed yet");
                    break;
                }
            }
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

/// Whether there is no such kind: nothing is of it.
fn is_undefined(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

impl Group {
    fn secrets_of(&mut self, provider: &str) -> Option<BTreeSet<String>> {
        if !self.listed {
            self.waiting.insert(provider.to_owned());
            return None;
        }
        let own = self.configs.values().filter(|(of, _)| of == provider);
        Some(own.flat_map(|(_, secrets)| secrets.iter().cloned()).collect())
    }

    /// Takes in that there are none.
    fn take_none(&mut self) -> BTreeSet<String> {
        self.incoming = Some(BTreeMap::new());
        self.take(Event::InitDone)
    }

    /// Takes in what the watch says; gives the ClusterProviders whose Secrets changed.
    fn take(&mut self, event: Event<DynamicObject>) -> BTreeSet<String> {
        match event {
            Event::Apply(object) => {
                let (name, entry) = read(&object);
                let before = self.configs.insert(name, entry.clone());
                changed(before.as_ref(), Some(&entry))
            }
            Event::Delete(object) => changed(self.configs.remove(&object.name_any()).as_ref(), None),
            Event::Init => {
                self.incoming = Some(BTreeMap::new());
                BTreeSet::new()
            }
            Event::InitApply(object) => {
                self.incoming.get_or_insert_default().extend([read(&object)]);
                BTreeSet::new()
            }
            Event::InitDone => {
                let after = self.incoming.take().unwrap_or_default();
                let before = std::mem::replace(&mut self.configs, after);
                self.listed = true;
                let names: BTreeSet<&String> = before.keys().chain(self.configs.keys()).collect();
                let mut woken = std::mem::take(&mut self.waiting);
                woken.extend(names.into_iter().flat_map(|name| changed(before.get(name), self.configs.get(name))));
                woken
            }
        }
    }
}

type Entry = (String, BTreeSet<String>);

fn read(config: &DynamicObject) -> (String, Entry) {
    let spec = &config.data["spec"];
    let provider = spec["providerRef"].as_str().unwrap_or_default().to_owned();
    (config.name_any(), (provider, named_secrets(spec)))
}

fn changed(before: Option<&Entry>, after: Option<&Entry>) -> BTreeSet<String> {
    if before == after {
        return BTreeSet::new();
    }
    let named = |entry: &&Entry| !entry.0.is_empty();
    [before, after].into_iter().flatten().filter(named).map(|(provider, _)| provider.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(name: &str, provider: &str, secret: &str) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "x.cluster.openmcp.cloud/v1alpha1", "kind": "ProviderConfig",
            "metadata": {"name": name}, "spec": {"providerRef": provider, "secretRef": {"name": secret}}}))
        .expect("an object")
    }

    fn names(set: &[&str]) -> BTreeSet<String> {
        set.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn until_the_first_list_is_there_nothing_is_known_and_who_asked_is_woken() {
        let mut group = Group::default();
        assert_eq!(group.secrets_of("p"), None);
        group.take(Event::Init);
        group.take(Event::InitApply(config("a", "q", "s")));
        assert_eq!(group.secrets_of("q"), None, "of half a list nothing is known");
        assert_eq!(group.take(Event::InitDone), names(&["p", "q"]));
        assert_eq!((group.secrets_of("p"), group.secrets_of("q")), (Some(names(&[])), Some(names(&["s"]))));
        // Where the kind is not defined, there are none.
        let mut group = Group::default();
        assert_eq!(group.secrets_of("p"), None);
        assert_eq!((group.take_none(), group.secrets_of("p")), (names(&["p"]), Some(names(&[]))));
    }

    #[test]
    fn whose_secrets_changed_is_woken() {
        let mut group = Group::default();
        assert_eq!(group.take(Event::Apply(config("a", "p", "s"))), names(&["p"]));
        assert_eq!(group.take(Event::Apply(config("a", "p", "s"))), names(&[]), "nothing changed");
        assert_eq!(group.take(Event::Apply(config("a", "q", "s"))), names(&["p", "q"]), "it changed hands");
        group.take(Event::Init);
        group.take(Event::InitApply(config("a", "q", "s")));
        group.take(Event::InitApply(config("b", "r", "s")));
        assert_eq!(group.take(Event::InitDone), names(&["r"]));
        assert_eq!(group.take(Event::Delete(config("a", "q", "s"))), names(&["q"]));
        group.take(Event::Init);
        assert_eq!(group.take(Event::InitDone), names(&["r"]), "what a relist does not have is gone");
    }
}
