//! What a changed object does to the indexes, and who has to be decided again because of it.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names;
use allotment_api::reasons::ConditionType;
use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, ClusterSpec,
    ClusterStatus, ObjectRef, Profile, Purpose,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::open::Slot;
use super::{MOST_GONE, ProfileEntry, Snapshot, annotation, set_member, tenant_key};
use crate::requests::conditions::is_true;
use crate::requests::expressions::Equivalences;
use crate::requests::spares::counted_for;
use crate::requests::versions::Offer;
use crate::write::ObjectKey;

impl Snapshot {
    pub(super) fn set_provider(&mut self, name: String, provider: Option<ClusterProvider>) {
        match provider {
            Some(provider) => {
                self.profiles.insert(name.clone(), profiles_of(&provider, &self.equivalences));
                self.providers.insert(name.clone(), provider);
            }
            None => {
                self.profiles.remove(&name);
                self.providers.remove(&name);
            }
        }
        let affected = self.by_provider.get(&name).cloned().unwrap_or_default();
        self.reindex(affected);
        self.waiting_are_due();
    }

    pub(super) fn set_purpose(&mut self, name: String, purpose: Option<Purpose>) {
        let affected = self.by_purpose.get(&name).cloned().unwrap_or_default();
        match purpose.as_ref().and_then(|purpose| purpose.spec.warm) {
            Some(1..) => _ = self.warm.insert(name.clone()),
            Some(_) | None => _ = self.warm.remove(&name),
        }
        put(&mut self.purposes, name, purpose);
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
        put(&mut self.namespaces, name, labels);
        self.waiting_are_due();
        // Policies select namespaces by label, so any access across namespaces may change.
        self.due_access.extend(self.access.keys().cloned());
    }

    pub(super) fn set_policy(&mut self, key: ObjectKey, policy: Option<AccessPolicy>) {
        put(&mut self.policies, key, policy);
        self.due_access.extend(self.access.keys().cloned());
    }

    pub(super) fn set_request(&mut self, key: ObjectKey, request: Option<ClusterRequest>) {
        self.due_access.extend(self.access_to_request.get(&key).into_iter().flatten().cloned());
        let old = self.requests.remove(&key);
        let uids = [&old, &request].map(|request| request.as_ref().and_then(|request| request.metadata.uid.clone()));
        for uid in uids.into_iter().flatten() {
            self.due_clusters.extend(self.tenancies.get(&uid).into_iter().flatten().cloned());
        }
        match request {
            Some(request) => {
                self.requests.insert(key.clone(), request);
                self.due_requests.insert(key.clone());
                self.note_waiting(&key);
            }
            None => {
                self.waiting.remove(&key);
                self.due_requests.remove(&key);
            }
        }
    }

    pub(super) fn set_grant(&mut self, key: ObjectKey, grant: Option<ClusterRequestGrant>) {
        self.due_access.extend(self.access_to_request.get(&key).into_iter().flatten().cloned());
        let old = self.grants.remove(&key);
        for grant in [&old, &grant].into_iter().flatten() {
            self.due_clusters.extend(self.tenancies.get(&grant.spec.request_uid).into_iter().flatten().cloned());
        }
        put(&mut self.grants, key.clone(), grant);
        if self.requests.contains_key(&key) {
            self.due_requests.insert(key);
        }
    }

    pub(super) fn set_access(&mut self, key: ObjectKey, access: Option<AccessRequest>) {
        let old = self.access.remove(&key);
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

    pub(super) fn set_cluster(&mut self, key: ObjectKey, cluster: Option<Cluster>) {
        let old = self.clusters.remove(&key);
        let was = (old.as_ref().map(|old| (self.closed(old), old.spec.purposes.clone())), self.vacate(&key));
        let was = (was.0, was.1.map(Slot::place));
        for (cluster, enters) in [(&old, false), (&cluster, true)] {
            if let Some(cluster) = cluster {
                self.index_cluster(&key, cluster, enters);
            }
        }
        let tenants = concerned(old.as_ref(), cluster.as_ref());
        let [was_uid, is_uid] =
            [&old, &cluster].map(|cluster| cluster.as_ref().and_then(|cluster| cluster.metadata.uid.clone()));
        if !same_but_tenants(old.as_ref(), cluster.as_ref()) {
            self.due_access.extend(self.access_to_cluster.get(&key).into_iter().flatten().cloned());
            for uid in [&was_uid, &is_uid].into_iter().flatten() {
                self.due_access.extend(self.live_access.get(uid).into_iter().flatten().cloned());
            }
        }
        if let Some(was) = was_uid.filter(|was| Some(was) != is_uid.as_ref()) {
            if self.gone.len() == MOST_GONE {
                self.gone.pop_front();
            }
            self.gone.push_back(was);
        }
        match cluster {
            Some(cluster) => {
                self.clusters.insert(key.clone(), cluster);
                self.due_clusters.insert(key.clone());
                self.occupy(&key);
            }
            None => _ = self.due_clusters.remove(&key),
        }
        self.spares_beside(old.as_ref(), &key);
        let cluster = self.clusters.get(&key);
        let slot = self.slots.get(&key).cloned().map(Slot::place);
        let is = (cluster.map(|new| (self.closed(new), new.spec.purposes.clone())), slot);
        if was != is {
            self.waiting_are_due();
        }
        for request in tenants {
            self.note_waiting(&request);
            self.due_access.extend(self.access_to_request.get(&request).into_iter().flatten().cloned());
            if self.requests.contains_key(&request) {
                self.due_requests.insert(request);
            }
        }
    }

    /// Which spares of a Purpose are kept depends on all of them.
    fn spares_beside(&mut self, old: Option<&Cluster>, key: &ObjectKey) {
        let told = |cluster: &Cluster| {
            let healthy = is_true(cluster, ConditionType::ClusterHealthy);
            counted_for(cluster).map(|purpose| (purpose.clone(), healthy, self.closed(cluster)))
        };
        let (was, is) = (old.and_then(told), self.clusters.get(key).and_then(told));
        if was != is {
            for (purpose, ..) in [was, is].into_iter().flatten() {
                self.due_clusters.extend(self.unused_spares.get(&purpose).into_iter().flatten().cloned());
                self.due_purposes.insert(purpose);
            }
        }
    }

    fn index_cluster(&mut self, key: &ObjectKey, cluster: &Cluster, enters: bool) {
        for purpose in &cluster.spec.purposes {
            set_member(&mut self.by_purpose, purpose.clone(), key, enters);
        }
        set_member(&mut self.by_provider, cluster.spec.cluster_provider_ref.name.clone(), key, enters);
        if let Some(purpose) = counted_for(cluster) {
            set_member(&mut self.unused_spares, purpose.clone(), key, enters);
        }
        for tenant in cluster.spec.tenants.iter().filter(|tenant| !tenant.released) {
            set_member(&mut self.tenancies, tenant.request_uid.clone(), key, enters);
        }
    }

    /// Keeps `waiting` true for one request.
    fn note_waiting(&mut self, key: &ObjectKey) {
        let uid = self.requests.get(key).and_then(|request| request.metadata.uid.as_deref());
        match uid {
            Some(uid) if !self.tenancies.contains_key(uid) => _ = self.waiting.insert(key.clone()),
            _ => _ = self.waiting.remove(key),
        }
    }

    /// Whoever waits for a Cluster, Purposes for their spares included.
    fn waiting_are_due(&mut self) {
        self.due_requests.extend(self.waiting.iter().cloned());
        self.due_purposes.extend(self.warm.iter().cloned());
    }

    fn reindex(&mut self, keys: BTreeSet<ObjectKey>) {
        for key in &keys {
            self.vacate(key);
            self.occupy(key);
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

/// The requests that a change of a Cluster concerns: all of its tenants, or those that came and went if nothing
/// else changed. A Cluster of a thousand tenants costs each newcomer no look at the others.
fn concerned(old: Option<&Cluster>, new: Option<&Cluster>) -> Vec<ObjectKey> {
    let [was, is] = [old, new].map(|cluster| cluster.map_or(&[][..], |cluster| &cluster.spec.tenants));
    if !same_but_tenants(old, new) {
        return was.iter().chain(is).map(tenant_key).collect();
    }
    // They come at the end and change in place: what stays at both ends is the same.
    let front = was.iter().zip(is).take_while(|(was, is)| was == is).count();
    let (was, is) = (&was[front..], &is[front..]);
    let back = was.iter().rev().zip(is.iter().rev()).take_while(|(was, is)| was == is).count();
    was[..was.len() - back].iter().chain(&is[..is.len() - back]).map(tenant_key).collect()
}

/// Whether two states of a Cluster differ at most in their tenants, and in notes of who wrote what and when.
fn same_but_tenants(old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return false };
    let ObjectMeta { uid, deletion_timestamp, annotations, finalizers, .. } = &old.metadata;
    let meta = &new.metadata;
    let ClusterSpec {
        cluster_provider_ref,
        cluster_config_ref,
        kubernetes,
        purposes,
        dedicated,
        tenants: _,
        deletion_policy,
        idle_grace,
        ceilings,
    } = &old.spec;
    let spec = &new.spec;
    (uid, deletion_timestamp, annotations, finalizers)
        == (&meta.uid, &meta.deletion_timestamp, &meta.annotations, &meta.finalizers)
        && (cluster_provider_ref, cluster_config_ref, kubernetes, purposes)
            == (&spec.cluster_provider_ref, &spec.cluster_config_ref, &spec.kubernetes, &spec.purposes)
        && (dedicated, deletion_policy, idle_grace, ceilings)
            == (&spec.dedicated, &spec.deletion_policy, &spec.idle_grace, &spec.ceilings)
        && same_status(old.status.as_ref(), new.status.as_ref())
}

/// Whether two statuses say the same, of whichever generation.
fn same_status(old: Option<&ClusterStatus>, new: Option<&ClusterStatus>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return old.is_none() && new.is_none() };
    let ClusterStatus {
        observed_generation: _,
        last_reconcile_time: _,
        phase,
        conditions,
        kubernetes,
        leftovers,
        provider_status,
    } = old;
    let says = |condition: &Condition| {
        let Condition { type_, status, reason, message, observed_generation: _, last_transition_time: _ } = condition;
        (type_.clone(), status.clone(), reason.clone(), message.clone())
    };
    (phase, kubernetes, leftovers, provider_status)
        == (&new.phase, &new.kubernetes, &new.leftovers, &new.provider_status)
        && conditions.iter().map(says).eq(new.conditions.iter().map(says))
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

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => _ = map.insert(key, value),
        None => _ = map.remove(&key),
    }
}
