//! What a changed object does to the indexes, and who has to be decided again because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use allotment_api::names;
use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, ObjectRef, Profile,
    Purpose,
};

use super::waiting::is_special;
use super::{ProfileEntry, Snapshot, annotation, in_namespace, set_member, tenant_key};
use crate::requests::expressions::Equivalences;
use crate::requests::versions::Offer;
use crate::write::ObjectKey;

impl Snapshot {
    pub(super) fn set_provider(&mut self, name: String, provider: Option<ClusterProvider>) {
        if self.providers.get(&name).map(told_to_access) != provider.as_ref().map(told_to_access) {
            self.access_on_clusters_of_is_due(&name);
        }
        let there = self.providers.contains_key(&name);
        let profiles = provider.as_ref().map(|provider| profiles_of(provider, &self.equivalences));
        let comes_or_goes = there != provider.is_some();
        put(&mut self.providers, name.clone(), provider);
        let mut changed = BTreeSet::new();
        {
            let (none, old) = (BTreeMap::new(), self.profiles.get(&name));
            let (old, new) = (old.unwrap_or(&none), profiles.as_ref().unwrap_or(&none));
            changed
                .extend(old.keys().chain(new.keys()).filter(|profile| old.get(*profile) != new.get(*profile)).cloned());
        }
        put(&mut self.profiles, name.clone(), profiles);
        if changed.is_empty() && !comes_or_goes {
            return;
        }
        let affected = match comes_or_goes {
            // Clusters tell a profile that is not published from a provider that is not there.
            true => self.by_provider.get(&name).cloned().unwrap_or_default(),
            false => changed
                .into_iter()
                .filter_map(|profile| self.by_profile.get(&(name.clone(), profile)))
                .flatten()
                .cloned()
                .collect(),
        };
        self.reindex(affected);
        self.waiting_are_due();
    }

    /// All access that is or may come to be on Clusters of that provider.
    fn access_on_clusters_of_is_due(&mut self, provider: &str) {
        for key in self.by_provider.get(provider).into_iter().flatten() {
            let Some(cluster) = self.clusters.get(key) else { continue };
            let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
            let by_request = cluster.spec.tenants.iter().map(tenant_key);
            let by_request = by_request.filter_map(|request| self.access_to_request.get(&request));
            let direct = self.access_to_cluster.get(key).into_iter().chain(self.live_access.get(uid));
            self.due_access.extend(by_request.chain(direct).flatten().cloned());
        }
    }

    pub(super) fn set_purpose(&mut self, name: String, purpose: Option<Purpose>) {
        match purpose.as_ref().and_then(|purpose| purpose.spec.warm) {
            Some(1..) => _ = self.warm.insert(name.clone()),
            Some(_) | None => _ = self.warm.remove(&name),
        }
        self.due_purposes.insert(name.clone());
        // What is noted in it and said in its status concerns nobody else, and is written with each spare that goes.
        let same = self.purpose(&name) == purpose.as_ref().map(|purpose| &purpose.spec);
        put(&mut self.purposes, name.clone(), purpose);
        if same {
            return;
        }
        let affected = self.by_purpose.get(&name).cloned().unwrap_or_default();
        self.reindex(affected);
        self.waiting_are_due();
    }

    pub(super) fn set_equivalence(&mut self, name: String, traits: Option<Vec<String>>) {
        put(&mut self.equivalence_lists, name, traits);
        self.equivalences = Equivalences::of(self.equivalence_lists.values().map(Vec::as_slice));
        for (name, provider) in &self.providers {
            self.profiles.insert(name.clone(), profiles_of(provider, &self.equivalences));
        }
        // What a spare is good for may have changed.
        self.due_clusters.extend(self.unused_spares.values().flatten().cloned());
        self.waiting_are_due();
    }

    pub(super) fn set_namespace(&mut self, name: String, labels: Option<BTreeMap<String, String>>) {
        if self.namespaces.get(&name) == labels.as_ref() {
            return;
        }
        put(&mut self.namespaces, name.clone(), labels);
        // Purposes select by label whose requests they take, and with them which hand-written Clusters count.
        self.due_requests.extend(self.waiting.in_namespace(&name).cloned());
        let counts =
            |purpose: &str| self.by_hand.get(purpose).is_some_and(|keys| in_namespace(keys, &name).next().is_some());
        let concerned = self.purposes.iter().filter(|(purpose, found)| {
            found.spec.namespace.as_ref() == Some(&name) || (found.spec.allowed_namespaces.is_some() && counts(purpose))
        });
        let concerned: Vec<String> = concerned.map(|(purpose, _)| purpose.clone()).collect();
        self.due_purposes.extend(concerned.iter().cloned());
        self.waiting_for_are_due(concerned);
        // Policies select by label whose access they allow.
        let access = self.access.range(ObjectKey::new(name.clone(), "")..);
        let access = access.map(|(key, _)| key).take_while(|key| key.namespace == name).cloned();
        self.due_access.extend(access);
    }

    pub(super) fn set_policy(&mut self, key: ObjectKey, policy: Option<Arc<AccessPolicy>>) {
        let same = self.policies.get(&key).map(|policy| &policy.spec) == policy.as_ref().map(|policy| &policy.spec);
        let namespace = key.namespace.clone();
        put(&mut self.policies, key, policy);
        if same {
            return;
        }
        // It allows what lies beside it, to those from elsewhere.
        for index in [&self.access_to_request, &self.access_to_cluster] {
            let referred = index.range(ObjectKey::new(namespace.clone(), "")..);
            let referred = referred.take_while(|(target, _)| target.namespace == namespace);
            let access = referred.flat_map(|(_, access)| access).filter(|access| access.namespace != namespace);
            self.due_access.extend(access.cloned());
        }
    }

    pub(super) fn set_request(&mut self, key: ObjectKey, request: Option<Arc<ClusterRequest>>) {
        self.due_access.extend(self.access_to_request.get(&key).into_iter().flatten().cloned());
        self.refused.remove(&key);
        let is = request.as_ref().and_then(|request| request.metadata.uid.clone());
        match request.is_some() {
            true => self.due_requests.insert(key.clone()),
            false => self.due_requests.remove(&key),
        };
        let was = self.requests.put(key.clone(), request).and_then(|request| request.metadata.uid.clone());
        self.note_waiting(&key);
        self.claims_changed(&key, was, is);
    }

    /// To Clusters it matters only whether a request or a Grant is there.
    fn claims_changed(&mut self, key: &ObjectKey, was: Option<String>, is: Option<String>) {
        let changed = was != is;
        for uid in [was, is].into_iter().flatten().filter(|_| changed) {
            self.claim_changed(key, &uid);
        }
    }

    pub(super) fn set_grant(&mut self, key: ObjectKey, grant: Option<Arc<ClusterRequestGrant>>) {
        self.due_access.extend(self.access_to_request.get(&key).into_iter().flatten().cloned());
        let is = grant.as_ref().map(|grant| grant.spec.request_uid.clone());
        let was = self.grants.put(key.clone(), grant).map(|grant| grant.spec.request_uid.clone());
        self.claims_changed(&key, was, is);
        self.note_waiting(&key);
        if self.requests.contains_key(&key) {
            self.due_requests.insert(key);
        }
    }

    pub(super) fn set_access(&mut self, key: ObjectKey, access: Option<Arc<AccessRequest>>) {
        let old = self.access.remove(&key);
        if let Some(provider) = old.as_ref().and_then(|old| let_go_by(old, access.as_deref())) {
            // What was listed as left over of it is taken away by now.
            let listed = |key: &&ObjectKey| self.clusters.get(*key).is_some_and(|cluster| has_leftovers(cluster));
            let clusters = self.by_provider.get(provider).into_iter().flatten().filter(listed).cloned();
            self.due_clusters.extend(clusters);
        }
        for (access, enters) in [(&old, false), (&access, true)] {
            if let Some(access) = access {
                self.index_access(&key, access, enters);
            }
        }
        match access {
            Some(access) => {
                self.access.insert(key.clone(), access);
                self.due_access.insert(key);
            }
            None => _ = self.due_access.remove(&key),
        }
    }

    fn index_access(&mut self, key: &ObjectKey, access: &AccessRequest, enters: bool) {
        let place = |reference: &Option<ObjectRef>| {
            reference.as_ref().map(|reference| {
                let namespace = reference.namespace.clone().unwrap_or_else(|| key.namespace.clone());
                ObjectKey::new(namespace, reference.name.clone())
            })
        };
        if let Some(request) = place(&access.spec.request_ref) {
            set_member(&mut self.access_to_request, request.clone(), key, enters);
            // A request that is being deleted waits for the access that came by it.
            if self.requests.contains_key(&request) {
                self.due_requests.insert(request);
            }
        }
        if let Some(cluster) = place(&access.spec.cluster_ref) {
            set_member(&mut self.access_to_cluster, cluster, key, enters);
        }
        if let Some(uid) = annotation(&access.metadata, names::LIVE_IN) {
            set_member(&mut self.live_access, uid.to_owned(), key, enters);
            if let Some(cluster) = annotation(&access.metadata, names::LIVE_IN_NAME).and_then(ObjectKey::parse)
                && self.clusters.contains_key(&cluster)
            {
                self.due_clusters.insert(cluster);
            }
        }
    }

    /// Keeps `waiting` true for one request.
    pub(super) fn note_waiting(&mut self, key: &ObjectKey) {
        let request = self.requests.get(key);
        let waits = request
            .filter(|request| request.metadata.uid.as_ref().is_some_and(|uid| !self.tenancies.contains_key(uid)));
        let next = match waits {
            Some(request) => {
                let alone = is_special(request) || self.grants.contains_key(key) || self.refused.contains(key);
                self.waiting.enter(key, request, alone)
            }
            None => self.waiting.leave(key),
        };
        self.due_requests.extend(next);
    }

    /// A write of that request was refused, and will be until the request changes. It stands for nobody else meanwhile.
    pub fn was_refused(&mut self, key: &ObjectKey) {
        if self.requests.contains_key(key) {
            self.refused.insert(key.clone());
            self.note_waiting(key);
        }
    }

    /// Whoever waits for a Cluster, Purposes for their spares included, and those that have some left to count.
    pub(super) fn waiting_are_due(&mut self) {
        self.all_waiting_are_due = true;
        self.due_purposes.extend(self.warm.iter().chain(self.unused_spares.keys()).cloned());
    }

    /// The same, of those that ask for any of these purposes.
    pub(super) fn waiting_for_are_due(&mut self, purposes: Vec<String>) {
        self.due_waiting_for.extend(purposes);
        self.due_purposes.extend(self.warm.iter().cloned());
    }

    fn reindex(&mut self, keys: BTreeSet<ObjectKey>) {
        for key in &keys {
            self.settle(key);
            for tenant in self.clusters.get(key).into_iter().flat_map(|cluster| &cluster.spec.tenants) {
                let request = tenant_key(tenant);
                if self.requests.contains_key(&request) {
                    self.due_requests.insert(request);
                }
            }
        }
        self.due_clusters.extend(keys);
    }
}

/// What of a ClusterProvider decisions about access read: whether it is there to act, and what its profiles support.
fn told_to_access(provider: &ClusterProvider) -> impl PartialEq + use<> {
    let status = provider.status.clone().unwrap_or_default();
    let profiles = status.profiles.into_iter();
    let types: Vec<_> =
        profiles.map(|profile| (profile.name, profile.access_types, profile.access_by, profile.oidc)).collect();
    (status.ready, status.reason, status.message, types)
}

fn profiles_of(provider: &ClusterProvider, equivalences: &Equivalences) -> BTreeMap<String, ProfileEntry> {
    let status = provider.status.clone().unwrap_or_default();
    // A provider that is going takes nothing new.
    let ready = status.ready && provider.metadata.deletion_timestamp.is_none();
    let entry = |profile: Profile| {
        let traits = profile.supported_traits.iter().filter_map(|supported| supported.key());
        let entry = ProfileEntry {
            ready,
            traits: traits.map(|name| equivalences.canonical(name).to_owned()).collect(),
            offer: Offer::of(&profile.supported_versions),
            profile: profile.clone(),
        };
        (profile.name, entry)
    };
    status.profiles.into_iter().map(entry).collect()
}

/// The ClusterProvider that held an AccessRequest and does not any more.
fn let_go_by<'a>(old: &'a AccessRequest, new: Option<&AccessRequest>) -> Option<&'a str> {
    let finalizers = |access: &'a AccessRequest| access.metadata.finalizers.iter().flatten();
    let held = finalizers(old).find_map(|finalizer| finalizer.strip_prefix(names::PROVIDER_ACCESS_FINALIZER))?;
    let still = names::provider_access_finalizer(held);
    let holds = new.is_some_and(|new| new.metadata.finalizers.iter().flatten().any(|have| *have == still));
    (!holds).then_some(held)
}

fn has_leftovers(cluster: &Cluster) -> bool {
    cluster.status.as_ref().is_some_and(|status| !status.leftovers.is_empty())
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => _ = map.insert(key, value),
        None => _ = map.remove(&key),
    }
}
