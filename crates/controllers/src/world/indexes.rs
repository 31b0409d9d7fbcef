//! Indexes over the mirrored objects: who is bound where, who waits for what, who refers to whom.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names;
use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest};
use kube::ResourceExt;

use crate::frame::{Change, ObjectKey};

/// What an AccessRequest refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A Cluster, by name.
    Cluster(ObjectKey),
    /// A ClusterRequest, by name.
    Request(ObjectKey),
}

impl Target {
    /// What that AccessRequest refers to; absent if it refers to nothing.
    pub fn of(access: &AccessRequest) -> Option<Self> {
        let own = access.namespace().unwrap_or_default();
        let key = |reference: &allotment_api::requests::ObjectRef| {
            ObjectKey::new(reference.namespace.clone().unwrap_or_else(|| own.clone()), reference.name.clone())
        };
        match (&access.spec.cluster_ref, &access.spec.request_ref) {
            (Some(cluster), _) => Some(Target::Cluster(key(cluster))),
            (None, Some(request)) => Some(Target::Request(key(request))),
            (None, None) => None,
        }
    }
}

/// Sets of keys by something.
#[derive(Debug)]
pub(super) struct Grouped<G>(BTreeMap<G, BTreeSet<ObjectKey>>);

impl<G> Default for Grouped<G> {
    fn default() -> Self {
        Grouped(BTreeMap::new())
    }
}

impl<G: Ord> Grouped<G> {
    fn insert(&mut self, group: G, key: ObjectKey) {
        self.0.entry(group).or_default().insert(key);
    }

    fn remove(&mut self, group: &G, key: &ObjectKey) {
        if let Some(keys) = self.0.get_mut(group) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(group);
            }
        }
    }

    fn get<Q: Ord + ?Sized>(&self, group: &Q) -> std::iter::Flatten<std::option::IntoIter<&BTreeSet<ObjectKey>>>
    where
        G: std::borrow::Borrow<Q>,
    {
        self.0.get(group).into_iter().flatten()
    }

    fn from(&self, first: G) -> impl Iterator<Item = (&G, &BTreeSet<ObjectKey>)> {
        self.0.range(first..)
    }
}

/// What can be found without looking through all objects.
#[derive(Debug, Default)]
pub struct Indexes {
    /// The Clusters whose `spec.tenants` hold a request, by its UID; more than one only after a crash or
    /// somebody's interference.
    bound: BTreeMap<String, BTreeSet<ObjectKey>>,
    clusters_by_purpose: Grouped<String>,
    clusters_by_provider: Grouped<String>,
    requests_by_purpose: Grouped<String>,
    access_by_target: Grouped<Target>,
    access_by_live_in: Grouped<String>,
    requests_by_chosen: Grouped<ObjectKey>,
}

impl Indexes {
    /// The Clusters that hold room for the request of that UID.
    pub fn clusters_of_request(&self, uid: &str) -> impl Iterator<Item = &ObjectKey> {
        self.bound.get(uid).into_iter().flatten()
    }

    /// Whether some Cluster holds room for the request of that UID.
    pub fn is_bound(&self, uid: &str) -> bool {
        self.bound.contains_key(uid)
    }

    /// The Clusters that list a purpose.
    pub fn clusters_of_purpose(&self, purpose: &str) -> impl Iterator<Item = &ObjectKey> {
        self.clusters_by_purpose.get(purpose)
    }

    /// The Clusters of a provider.
    pub fn clusters_of_provider(&self, provider: &str) -> impl Iterator<Item = &ObjectKey> {
        self.clusters_by_provider.get(provider)
    }

    /// The ClusterRequests that list a purpose.
    pub fn requests_of_purpose(&self, purpose: &str) -> impl Iterator<Item = &ObjectKey> {
        self.requests_by_purpose.get(purpose)
    }

    /// The AccessRequests that refer to something.
    pub fn access_to(&self, target: &Target) -> impl Iterator<Item = &ObjectKey> {
        self.access_by_target.get(target)
    }

    /// The AccessRequests that refer to something in a namespace.
    pub fn access_into(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        let first = ObjectKey::new(namespace, "");
        let clusters = self.access_by_target.from(Target::Cluster(first.clone()));
        let requests = self.access_by_target.from(Target::Request(first));
        let namespace = namespace.to_owned();
        let within = move |target: &Target| match target {
            Target::Cluster(key) | Target::Request(key) => key.namespace == namespace,
        };
        let within_too = within.clone();
        let clusters = clusters.take_while(move |(target, _)| matches!(target, Target::Cluster(_)) && within(target));
        let requests = requests.take_while(move |(target, _)| within_too(target));
        clusters.chain(requests).flat_map(|(_, keys)| keys)
    }

    /// The AccessRequests whose objects lie, or may lie, in the Cluster of that UID.
    pub fn access_live_in(&self, cluster_uid: &str) -> impl Iterator<Item = &ObjectKey> {
        self.access_by_live_in.get(cluster_uid)
    }

    /// The ClusterRequests whose annotation names a Cluster.
    pub fn requests_that_chose(&self, cluster: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.requests_by_chosen.get(cluster)
    }

    pub(super) fn cluster_changed(&mut self, change: &Change<Cluster>) {
        let key = &change.key;
        if let Some(before) = &change.before {
            for tenant in &before.spec.tenants {
                if let Some(clusters) = self.bound.get_mut(&tenant.request_uid) {
                    clusters.remove(key);
                    if clusters.is_empty() {
                        self.bound.remove(&tenant.request_uid);
                    }
                }
            }
            for purpose in &before.spec.purposes {
                self.clusters_by_purpose.remove(purpose, key);
            }
            self.clusters_by_provider.remove(&before.spec.cluster_provider_ref.name, key);
        }
        if let Some(after) = &change.after {
            for tenant in after.spec.tenants.iter().filter(|tenant| !tenant.released) {
                self.bound.entry(tenant.request_uid.clone()).or_default().insert(key.clone());
            }
            for purpose in &after.spec.purposes {
                self.clusters_by_purpose.insert(purpose.clone(), key.clone());
            }
            self.clusters_by_provider.insert(after.spec.cluster_provider_ref.name.clone(), key.clone());
        }
    }

    pub(super) fn request_changed(&mut self, change: &Change<ClusterRequest>) {
        let key = &change.key;
        if let Some(before) = &change.before {
            for purpose in &before.spec.purposes {
                self.requests_by_purpose.remove(purpose, key);
            }
            if let Some(chosen) = chosen_cluster(before) {
                self.requests_by_chosen.remove(&chosen, key);
            }
        }
        if let Some(after) = &change.after {
            for purpose in &after.spec.purposes {
                self.requests_by_purpose.insert(purpose.clone(), key.clone());
            }
            if let Some(chosen) = chosen_cluster(after) {
                self.requests_by_chosen.insert(chosen, key.clone());
            }
        }
    }

    pub(super) fn access_changed(&mut self, change: &Change<AccessRequest>) {
        let key = &change.key;
        if let Some(before) = &change.before {
            if let Some(target) = Target::of(before) {
                self.access_by_target.remove(&target, key);
            }
            if let Some(uid) = before.annotations().get(names::LIVE_IN) {
                self.access_by_live_in.remove(uid, key);
            }
        }
        if let Some(after) = &change.after {
            if let Some(target) = Target::of(after) {
                self.access_by_target.insert(target, key.clone());
            }
            if let Some(uid) = after.annotations().get(names::LIVE_IN) {
                self.access_by_live_in.insert(uid.clone(), key.clone());
            }
        }
    }
}

/// The Cluster that the request's annotation names.
pub(crate) fn chosen_cluster(request: &ClusterRequest) -> Option<ObjectKey> {
    let (namespace, name) = request.annotations().get(names::CLUSTER_NAME)?.split_once('/')?;
    Some(ObjectKey::new(namespace, name))
}
