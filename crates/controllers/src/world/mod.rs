//! What the controllers know: the snapshot that decisions read, mirrors that guard it against going back
//! in time, and a queue per controller for what became due. Synchronous; nothing here waits or calls.

mod kinds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use allotment_api::names::{SYSTEM_NAMESPACE, provider_object};
use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, ExistingConfig,
    KindConfig, ObjectRef, ProviderConfig, Purpose, TraitEquivalence,
};
use allotment_core::requests::{Rank, Snapshot, Step, choose_together};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use crate::access::AccessSecret;
use crate::frame::{AT_ONCE, Alarm, Change, Mirror, ObjectKey, Queue, Shared, Written};
use crate::providers::{self, AsConfig, Config};
pub(crate) use kinds::Mirrored;

/// New requests that are chosen for before their turn, at most: among a hundred Clusters several for each. Who has the turn waits
/// for the writes of all.
const MOST_NEW: usize = 256;

/// One queue per controller.
#[derive(Debug, Default)]
pub struct Queues {
    /// ClusterRequests, new ones first, by priority and age.
    pub requests: Arc<Queue<ObjectKey, Option<Rank>>>,
    /// Clusters: the platform's part.
    pub clusters: Arc<Queue<ObjectKey>>,
    /// Clusters: their provider's part.
    pub planes: Arc<Queue<ObjectKey>>,
    /// Clusters: what lies inside and should not.
    pub insides: Arc<Queue<ObjectKey>>,
    /// AccessRequests.
    pub access: Arc<Queue<ObjectKey>>,
    /// Purposes, for their spares.
    pub purposes: Arc<Queue<ObjectKey>>,
    /// ClusterProviders.
    pub providers: Arc<Queue<ObjectKey>>,
    /// ProviderConfigs: their packages, as namespaces, and names.
    pub configs: Arc<Queue<ObjectKey>>,
}

/// All objects that the controllers read.
#[derive(Debug, Default)]
pub struct State {
    /// What decisions read.
    pub snapshot: Snapshot,
    /// ClusterRequests.
    pub requests: Mirror<ClusterRequest>,
    /// ClusterRequestGrants.
    pub grants: Mirror<ClusterRequestGrant>,
    /// Clusters.
    pub clusters: Mirror<Cluster>,
    /// Purposes.
    pub purposes: Mirror<Purpose>,
    /// ClusterProviders.
    pub providers: Mirror<ClusterProvider>,
    /// ProviderConfigs of provider `local`.
    pub configs: Mirror<ProviderConfig>,
    /// ProviderConfigs of provider `existing`.
    pub existing_configs: Mirror<ExistingConfig>,
    /// ProviderConfigs of provider `kind`.
    pub kind_configs: Mirror<KindConfig>,
    /// TraitEquivalences.
    pub equivalences: Mirror<TraitEquivalence>,
    /// AccessRequests.
    pub access: Mirror<AccessRequest>,
    /// AccessPolicies.
    pub policies: Mirror<AccessPolicy>,
    /// Namespaces, for their labels.
    pub namespaces: Mirror<Namespace>,
    /// What is known of the Secrets of AccessRequests; tokens are not kept.
    pub secrets: Mirror<AccessSecret>,
    /// The Leases by which providers of other processes say that they live.
    pub heartbeats: Mirror<Lease>,
    /// By AccessRequest: the Secrets that say they answer it.
    secrets_of: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// UIDs of Clusters in which something may lie that no status tells of: an access ended there, or the
    /// list of leftovers went away.
    suspects: BTreeSet<String>,
}

impl State {
    /// The Lease of that ClusterProvider, where it is one of another process.
    pub fn lease_of(&self, provider: &str) -> Option<Arc<Lease>> {
        self.heartbeats.get(&ObjectKey::new(SYSTEM_NAMESPACE, provider_object(provider))).cloned()
    }

    /// The ProviderConfig of that name that the provider of that package reads, unless it is being deleted.
    pub fn config(&self, package: &str, name: &str) -> Option<Config> {
        let key = ObjectKey::cluster_wide(name);
        match package {
            providers::LOCAL => self.configs.get(&key)?.as_config(),
            providers::EXISTING => self.existing_configs.get(&key)?.as_config(),
            providers::KIND => self.kind_configs.get(&key)?.as_config(),
            _ => None,
        }
    }

    /// The ProviderConfigs of a ClusterProvider of that package, in the order of their names.
    pub fn configs_of(&self, package: &str, provider: &str) -> Vec<Config> {
        fn all<K: AsConfig>(mirror: &Mirror<K>) -> Vec<Config> {
            mirror.iter().filter_map(|(_, config)| config.as_config()).collect()
        }
        let mut configs = match package {
            providers::LOCAL => all(&self.configs),
            providers::EXISTING => all(&self.existing_configs),
            providers::KIND => all(&self.kind_configs),
            _ => Vec::new(),
        };
        configs.retain(|config| config.provider == provider);
        configs
    }

    /// What is known of the Secret that answers the AccessRequest of that key and UID; where none does, of one that
    /// answered an earlier one of its name.
    pub fn secret_of(&self, request: &ObjectKey, uid: &str) -> Option<&Arc<AccessSecret>> {
        let named = || self.secrets_of.get(request).into_iter().flatten().filter_map(|key| self.secrets.get(key));
        named().find(|secret| secret.facts(uid).owned).or_else(|| named().next())
    }

    /// The Cluster that work on an AccessRequest has to do with: where it lives, else what it refers to.
    pub fn home_of_access(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let access = self.access.get(key)?;
        if let Some((cluster, _)) = kinds::lives_in(access) {
            return Some(cluster);
        }
        let named = |reference: &ObjectRef| {
            let namespace = reference.namespace.clone().unwrap_or_else(|| key.namespace.clone());
            ObjectKey::new(namespace, reference.name.clone())
        };
        let cluster = access.spec.cluster_ref.as_ref().map(named);
        cluster.or_else(|| {
            let grant = self.grants.get(&named(access.spec.request_ref.as_ref()?))?;
            let bound = &grant.spec.cluster_ref;
            Some(ObjectKey::new(bound.namespace.clone(), bound.name.clone()))
        })
    }

    /// Notes that something may lie in that Cluster, if it is there, that no status tells of.
    fn suspect(&mut self, cluster: &ObjectKey, uid: &str) {
        let there = self.clusters.get(cluster).is_some_and(|cluster| cluster.uid().as_deref() == Some(uid));
        if there {
            self.suspects.insert(uid.to_owned());
        }
    }
}

/// The world, shared by watches and controllers.
#[derive(Debug)]
pub struct World {
    state: Shared<State>,
    /// The controllers' queues.
    pub queues: Queues,
}

impl World {
    /// A world of nothing. A Cluster that is not provisioned after that time takes no more requests.
    pub fn new(provisioning_deadline: Duration) -> Self {
        World::ringing(provisioning_deadline, Alarm::default())
    }

    /// The same; the alarm is rung when a change of it panicked half-way.
    pub fn ringing(provisioning_deadline: Duration, alarm: Alarm) -> Self {
        let seconds = i64::try_from(provisioning_deadline.as_secs()).unwrap_or(i64::MAX);
        // More than are worked on at once, so that those who find room follow each other without a pause.
        let snapshot = Snapshot::with_provisioning_deadline(seconds).with_standing_for_all(2 * AT_ONCE);
        let state = State { snapshot, ..State::default() };
        World { state: Shared::new(state, alarm), queues: Queues::default() }
    }

    /// A look at everything. Never held across an await.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// The same; nothing where a change broke off half-way.
    pub fn whole(&self) -> Option<RwLockReadGuard<'_, State>> {
        self.state.whole()
    }

    /// What to write next to choose Clusters for these requests; and, of those that wait for a worker, for new ones, so that
    /// each Cluster is written once for several, and for those that are due before the last of them in the order. Those
    /// that are to be left out are not among these.
    pub fn choose(
        &self,
        requests: impl IntoIterator<Item = ObjectKey>,
        left_out: &BTreeSet<ObjectKey>,
        now: Timestamp,
        proposals: &mut dyn Iterator<Item = String>,
    ) -> Vec<Step> {
        // Changed while choosing, and as before afterwards.
        let mut state = self.state.write();
        let mut requests: BTreeSet<ObjectKey> = requests.into_iter().collect();
        let new = Rank::new_ones();
        let new = self.queues.requests.ready_within(Some(new.start)..Some(new.end), MOST_NEW);
        requests.extend(new.into_iter().filter(|key| !left_out.contains(key)));
        if let Some(last) = requests.iter().filter_map(|key| state.snapshot.turn(key)).max() {
            let before = Rank::waiting_before(&last);
            let before = Some(before.start)..Some(before.end);
            let due = self.queues.requests.ready_within(before, 2 * AT_ONCE);
            requests.extend(due.into_iter().filter(|key| !left_out.contains(key)));
        }
        choose_together(&mut state.snapshot, requests, now, proposals)
    }

    /// A write of that request was refused, and will be until it changes: it stands for nobody else that waits.
    pub(crate) fn was_refused(&self, request: &ObjectKey) {
        let mut state = self.state.write();
        state.snapshot.was_refused(request);
        self.hand_out(state);
    }

    /// Takes in what a watch says.
    pub fn watched<K: Mirrored>(&self, event: Event<K>) {
        self.change(|state| K::mirror(state).watched(event));
    }

    /// Takes in the reply to an own write, so that the next decision sees it although the watch lags.
    pub fn written<K: Mirrored>(&self, object: K) {
        self.change(|state| K::mirror(state).written(object).into_iter().collect());
    }

    /// The same for a write that a decision consisted of.
    pub fn took(&self, written: Written) {
        match written {
            Written::Provider(object) => self.written(*object),
            Written::Purpose(object) => self.written(*object),
            Written::Cluster(object) => self.written(*object),
            Written::Request(object) => self.written(*object),
            Written::Grant(object) => self.written(*object),
            Written::Access(object) => self.written(*object),
        }
    }

    /// Forgets a Secret that was just deleted, so that the next decision does not see it although the
    /// watch lags.
    pub fn forget_secret(&self, key: &ObjectKey, uid: &str) {
        self.change::<AccessSecret>(|state| state.secrets.forget(key, uid).into_iter().collect());
    }

    /// Has the inside of a Cluster looked through unless the AccessRequest of that key and UID lives there.
    pub fn suspect(&self, access: &ObjectKey, uid: &str, cluster: &ObjectKey, cluster_uid: &str) {
        let mut state = self.state.write();
        let there = state.access.get(access).filter(|access| access.uid().as_deref() == Some(uid));
        let lives = there.and_then(|access| kinds::lives_in(access)).is_some_and(|(_, home)| home == cluster_uid);
        if !lives {
            state.suspect(cluster, cluster_uid);
            drop(state);
            self.queues.insides.add(cluster.clone());
        }
    }

    /// What a ProviderConfig stands for is not as it was: its provider says what it offers now, and how its Clusters do.
    pub fn config_changed(&self, config: &Config) {
        self.queues.providers.add(ObjectKey::cluster_wide(config.provider.clone()));
        kinds::wake_clusters(&self.read(), &self.queues, config);
    }

    /// Whether something may lie in the Cluster of that UID that no status tells of; whoever asks looks
    /// through it, and says so by [`World::still_suspect`] if that fails.
    pub fn take_suspect(&self, cluster_uid: &str) -> bool {
        self.state.write().suspects.remove(cluster_uid)
    }

    /// The Cluster could not be looked through.
    pub fn still_suspect(&self, cluster: &ObjectKey, cluster_uid: &str) {
        self.state.write().suspect(cluster, cluster_uid);
    }

    fn change<K: Mirrored>(&self, change: impl FnOnce(&mut State) -> Vec<Change<K>>) {
        let mut state = self.state.write();
        for change in change(&mut state) {
            match &change.after {
                Some(object) => {
                    if let Some(object) = K::to_object(object) {
                        state.snapshot.apply(object);
                    }
                }
                None => {
                    if let Some(kind) = K::KIND {
                        state.snapshot.delete(kind, &change.key);
                    }
                }
            }
            K::index(&mut state, &change);
            K::wake(&state, &self.queues, &change);
        }
        self.hand_out(state);
    }

    /// Puts what became due into the queues.
    fn hand_out(&self, mut state: RwLockWriteGuard<'_, State>) {
        let due = state.snapshot.take_due();
        // Whoever chooses sees the snapshot and this queue under one lock, and nobody chooses between what changed and who
        // is due because of it.
        for key in due.requests {
            let rank = state.snapshot.rank(&key);
            self.queues.requests.add_ranked(key, rank);
        }
        drop(state);
        due.clusters.into_iter().for_each(|key| self.queues.clusters.add(key));
        due.access.into_iter().for_each(|key| self.queues.access.add(key));
        due.purposes.into_iter().for_each(|key| self.queues.purposes.add(key));
    }
}

#[cfg(test)]
mod tests;
