//! Everything that decisions read, indexed and kept up to date object by object.
//!
//! Clusters that a shared request may join are grouped by [`Shape`], all that eligibility depends on;
//! inside a group they are ordered by how many tenants they have. So a decision looks at a few dozen
//! groups, however many Clusters there are. What a decision makes of it is left to `select`.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names;
use allotment_api::reasons::ConditionType;
use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, Profile, Purpose,
    PurposeSpec, Tenant, TraitEquivalence,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::conditions::is_true;
use super::expressions::Equivalences;
use super::namespaces::selects;
use super::queue::QueueOrder;
use super::versions::{Offer, Version};
use crate::write::ObjectKey;

/// Most tenants of one Cluster, released ones included: the record is one object.
pub const MAX_TENANT_RECORDS: usize = 1000;
/// How long a new Cluster may take before it counts as unhealthy, unless configured.
pub const DEFAULT_PROVISIONING_DEADLINE_SECS: i64 = 30 * 60;

/// An object that decisions read.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A ClusterProvider.
    Provider(Box<ClusterProvider>),
    /// A Purpose.
    Purpose(Box<Purpose>),
    /// A TraitEquivalence.
    Equivalence(Box<TraitEquivalence>),
    /// A namespace of the platform, with its labels.
    Namespace {
        /// Its name.
        name: String,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// A Cluster.
    Cluster(Box<Cluster>),
    /// A ClusterRequest.
    Request(Box<ClusterRequest>),
    /// A ClusterRequestGrant.
    Grant(Box<ClusterRequestGrant>),
    /// An AccessRequest.
    Access(Box<AccessRequest>),
    /// An AccessPolicy.
    Policy(Box<AccessPolicy>),
}

/// The kinds of [`Object`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// ClusterProvider
    Provider,
    /// Purpose
    Purpose,
    /// TraitEquivalence
    Equivalence,
    /// Namespace
    Namespace,
    /// Cluster
    Cluster,
    /// ClusterRequest
    Request,
    /// ClusterRequestGrant
    Grant,
    /// AccessRequest
    Access,
    /// AccessPolicy
    Policy,
}

/// What has to be decided, since something that bears on it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// ClusterRequests, in the order in which they are to be decided.
    pub requests: Vec<ObjectKey>,
    /// Clusters.
    pub clusters: Vec<ObjectKey>,
    /// AccessRequests.
    pub access: Vec<ObjectKey>,
}

/// All that tells whether a shared request may join a Cluster, but for room and age.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) purposes: BTreeSet<String>,
    pub(crate) provider: String,
    pub(crate) profile: String,
    pub(crate) version: String,
}

/// Where a Cluster stands in the indexes of open ones.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Slot {
    Shared { shape: Shape, tenants: usize },
    Spare { purposes: BTreeSet<String> },
}

/// A profile, ready to be asked.
#[derive(Clone, Debug)]
pub(crate) struct ProfileEntry {
    pub(crate) ready: bool,
    pub(crate) traits: BTreeSet<String>,
    pub(crate) offer: Offer,
    pub(crate) profile: Profile,
}

/// Everything that decisions read.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) providers: BTreeMap<String, ClusterProvider>,
    pub(crate) purposes: BTreeMap<String, Purpose>,
    equivalence_lists: BTreeMap<String, Vec<String>>,
    pub(crate) equivalences: Equivalences,
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) clusters: BTreeMap<ObjectKey, Cluster>,
    pub(crate) requests: BTreeMap<ObjectKey, ClusterRequest>,
    pub(crate) grants: BTreeMap<ObjectKey, ClusterRequestGrant>,
    pub(crate) access: BTreeMap<ObjectKey, AccessRequest>,
    pub(crate) policies: BTreeMap<ObjectKey, AccessPolicy>,
    /// By provider, then profile.
    pub(crate) profiles: BTreeMap<String, BTreeMap<String, ProfileEntry>>,
    /// Open shared Clusters with room.
    pub(crate) shared: BTreeMap<Shape, BTreeSet<(usize, ObjectKey)>>,
    /// Open dedicated Clusters that never had a tenant, by exactly their purposes.
    pub(crate) spares: BTreeMap<BTreeSet<String>, BTreeSet<ObjectKey>>,
    slots: BTreeMap<ObjectKey, Slot>,
    pub(crate) by_purpose: BTreeMap<String, BTreeSet<ObjectKey>>,
    pub(crate) by_provider: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// By UID of the request: the Clusters that have it as a tenant.
    pub(crate) tenancies: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// By UID of the Cluster: the AccessRequests that live in it.
    pub(crate) live_access: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// By ClusterRequest: the AccessRequests that refer to it.
    pub(crate) access_to_request: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// By Cluster: the AccessRequests that refer to it.
    access_to_cluster: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Requests that are no tenant of any Cluster.
    waiting: BTreeSet<ObjectKey>,
    due_requests: BTreeSet<ObjectKey>,
    due_clusters: BTreeSet<ObjectKey>,
    due_access: BTreeSet<ObjectKey>,
    pub(crate) provisioning_deadline_secs: i64,
}

impl Default for Snapshot {
    fn default() -> Self {
        Snapshot::with_provisioning_deadline(DEFAULT_PROVISIONING_DEADLINE_SECS)
    }
}

impl Snapshot {
    /// A snapshot of nothing.
    pub fn new() -> Self {
        Snapshot::default()
    }

    /// A snapshot of nothing, with how long a new Cluster may take before it counts as unhealthy.
    pub fn with_provisioning_deadline(seconds: i64) -> Self {
        Snapshot {
            providers: BTreeMap::new(),
            purposes: BTreeMap::new(),
            equivalence_lists: BTreeMap::new(),
            equivalences: Equivalences::default(),
            namespaces: BTreeMap::new(),
            clusters: BTreeMap::new(),
            requests: BTreeMap::new(),
            grants: BTreeMap::new(),
            access: BTreeMap::new(),
            policies: BTreeMap::new(),
            profiles: BTreeMap::new(),
            shared: BTreeMap::new(),
            spares: BTreeMap::new(),
            slots: BTreeMap::new(),
            by_purpose: BTreeMap::new(),
            by_provider: BTreeMap::new(),
            tenancies: BTreeMap::new(),
            live_access: BTreeMap::new(),
            access_to_request: BTreeMap::new(),
            access_to_cluster: BTreeMap::new(),
            waiting: BTreeSet::new(),
            due_requests: BTreeSet::new(),
            due_clusters: BTreeSet::new(),
            due_access: BTreeSet::new(),
            provisioning_deadline_secs: seconds,
        }
    }

    /// The object is as given now.
    pub fn apply(&mut self, object: Object) {
        match object {
            Object::Provider(provider) => self.set_provider(ObjectKey::of(&provider.metadata).name, Some(*provider)),
            Object::Purpose(purpose) => self.set_purpose(ObjectKey::of(&purpose.metadata).name, Some(*purpose)),
            Object::Equivalence(equivalence) => {
                let name = ObjectKey::of(&equivalence.metadata).name;
                self.set_equivalence(name, Some(equivalence.spec.traits));
            }
            Object::Namespace { name, labels } => self.set_namespace(name, Some(labels)),
            Object::Cluster(cluster) => self.set_cluster(ObjectKey::of(&cluster.metadata), Some(*cluster)),
            Object::Request(request) => self.set_request(ObjectKey::of(&request.metadata), Some(*request)),
            Object::Grant(grant) => self.set_grant(ObjectKey::of(&grant.metadata), Some(*grant)),
            Object::Access(access) => self.set_access(ObjectKey::of(&access.metadata), Some(*access)),
            Object::Policy(policy) => self.set_policy(ObjectKey::of(&policy.metadata), Some(*policy)),
        }
    }

    /// The object is gone.
    pub fn delete(&mut self, kind: ObjectKind, key: &ObjectKey) {
        match kind {
            ObjectKind::Provider => self.set_provider(key.name.clone(), None),
            ObjectKind::Purpose => self.set_purpose(key.name.clone(), None),
            ObjectKind::Equivalence => self.set_equivalence(key.name.clone(), None),
            ObjectKind::Namespace => self.set_namespace(key.name.clone(), None),
            ObjectKind::Cluster => self.set_cluster(key.clone(), None),
            ObjectKind::Request => self.set_request(key.clone(), None),
            ObjectKind::Grant => self.set_grant(key.clone(), None),
            ObjectKind::Access => self.set_access(key.clone(), None),
            ObjectKind::Policy => self.set_policy(key.clone(), None),
        }
    }

    /// These, and no others, are the objects of the kind. An object of another kind is taken as a plain
    /// [`Snapshot::apply`].
    pub fn reset(&mut self, kind: ObjectKind, objects: Vec<Object>) {
        let kept: BTreeSet<ObjectKey> = objects.iter().map(Object::key).collect();
        for key in self.keys(kind).into_iter().filter(|key| !kept.contains(key)) {
            self.delete(kind, &key);
        }
        for object in objects {
            self.apply(object);
        }
    }

    /// What became due since the last call.
    pub fn take_due(&mut self) -> Due {
        let mut requests: Vec<ObjectKey> = std::mem::take(&mut self.due_requests).into_iter().collect();
        requests.sort_by_cached_key(|key| self.requests.get(key).map(QueueOrder::of));
        Due {
            requests,
            clusters: std::mem::take(&mut self.due_clusters).into_iter().collect(),
            access: std::mem::take(&mut self.due_access).into_iter().collect(),
        }
    }

    /// The Cluster, if it is there.
    pub fn cluster(&self, key: &ObjectKey) -> Option<&Cluster> {
        self.clusters.get(key)
    }

    /// The ClusterRequest, if it is there.
    pub fn request(&self, key: &ObjectKey) -> Option<&ClusterRequest> {
        self.requests.get(key)
    }

    /// The Grant, if it is there.
    pub fn grant(&self, key: &ObjectKey) -> Option<&ClusterRequestGrant> {
        self.grants.get(key)
    }

    /// The Purpose's spec, if it is there.
    pub fn purpose(&self, name: &str) -> Option<&PurposeSpec> {
        self.purposes.get(name).map(|purpose| &purpose.spec)
    }

    /// How the traits that mean the same are told.
    pub fn equivalences(&self) -> &Equivalences {
        &self.equivalences
    }

    /// Whether any profile publishes the trait, under whichever of its names.
    pub fn publishes(&self, name: &str) -> bool {
        let canonical = self.equivalences.canonical(name);
        self.profiles.values().flat_map(BTreeMap::values).any(|profile| profile.traits.contains(canonical))
    }

    /// Whether a profile offers this version and calls it deprecated.
    pub fn offers_deprecated(&self, version: &Version) -> bool {
        self.profiles.values().flat_map(BTreeMap::values).any(|profile| profile.offer.is_deprecated(version))
    }

    /// The Clusters of a provider.
    pub fn clusters_of_provider(&self, provider: &str) -> impl Iterator<Item = &ObjectKey> {
        self.by_provider.get(provider).into_iter().flatten()
    }

    fn keys(&self, kind: ObjectKind) -> Vec<ObjectKey> {
        fn wide<T>(map: &BTreeMap<String, T>) -> Vec<ObjectKey> {
            map.keys().map(ObjectKey::cluster_wide).collect()
        }
        match kind {
            ObjectKind::Provider => wide(&self.providers),
            ObjectKind::Purpose => wide(&self.purposes),
            ObjectKind::Equivalence => wide(&self.equivalence_lists),
            ObjectKind::Namespace => wide(&self.namespaces),
            ObjectKind::Cluster => self.clusters.keys().cloned().collect(),
            ObjectKind::Request => self.requests.keys().cloned().collect(),
            ObjectKind::Grant => self.grants.keys().cloned().collect(),
            ObjectKind::Access => self.access.keys().cloned().collect(),
            ObjectKind::Policy => self.policies.keys().cloned().collect(),
        }
    }

    fn set_provider(&mut self, name: String, provider: Option<ClusterProvider>) {
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

    fn set_purpose(&mut self, name: String, purpose: Option<Purpose>) {
        let affected = self.by_purpose.get(&name).cloned().unwrap_or_default();
        put(&mut self.purposes, name, purpose);
        self.reindex(affected);
        self.waiting_are_due();
    }

    fn set_equivalence(&mut self, name: String, traits: Option<Vec<String>>) {
        put(&mut self.equivalence_lists, name, traits);
        self.equivalences = Equivalences::of(self.equivalence_lists.values().map(Vec::as_slice));
        for (name, provider) in &self.providers {
            self.profiles.insert(name.clone(), profiles_of(provider, &self.equivalences));
        }
        self.waiting_are_due();
    }

    fn set_namespace(&mut self, name: String, labels: Option<BTreeMap<String, String>>) {
        put(&mut self.namespaces, name, labels);
        self.waiting_are_due();
        // Policies select namespaces by label, so any access across namespaces may change.
        self.due_access.extend(self.access.keys().cloned());
    }

    fn set_policy(&mut self, key: ObjectKey, policy: Option<AccessPolicy>) {
        put(&mut self.policies, key, policy);
        self.due_access.extend(self.access.keys().cloned());
    }

    fn set_request(&mut self, key: ObjectKey, request: Option<ClusterRequest>) {
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

    fn set_grant(&mut self, key: ObjectKey, grant: Option<ClusterRequestGrant>) {
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

    fn set_access(&mut self, key: ObjectKey, access: Option<AccessRequest>) {
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
        let place = |reference: &Option<allotment_api::requests::ObjectRef>| {
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

    fn set_cluster(&mut self, key: ObjectKey, cluster: Option<Cluster>) {
        let old = self.clusters.remove(&key);
        let was = (old.as_ref().map(|old| (self.closed(old), old.spec.purposes.clone())), self.vacate(&key));
        for (cluster, enters) in [(&old, false), (&cluster, true)] {
            if let Some(cluster) = cluster {
                self.index_cluster(&key, cluster, enters);
            }
        }
        let tenants: Vec<ObjectKey> =
            [&old, &cluster].into_iter().flatten().flat_map(|cluster| &cluster.spec.tenants).map(tenant_key).collect();
        self.due_access.extend(self.access_to_cluster.get(&key).into_iter().flatten().cloned());
        let uids = [&old, &cluster].map(|cluster| cluster.as_ref().and_then(|cluster| cluster.metadata.uid.clone()));
        for uid in uids.into_iter().flatten() {
            self.due_access.extend(self.live_access.get(&uid).into_iter().flatten().cloned());
        }
        match cluster {
            Some(cluster) => {
                self.clusters.insert(key.clone(), cluster);
                self.due_clusters.insert(key.clone());
                self.occupy(&key);
            }
            None => _ = self.due_clusters.remove(&key),
        }
        let cluster = self.clusters.get(&key);
        let is = (cluster.map(|new| (self.closed(new), new.spec.purposes.clone())), self.slots.get(&key).cloned());
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

    fn index_cluster(&mut self, key: &ObjectKey, cluster: &Cluster, enters: bool) {
        for purpose in &cluster.spec.purposes {
            set_member(&mut self.by_purpose, purpose.clone(), key, enters);
        }
        set_member(&mut self.by_provider, cluster.spec.cluster_provider_ref.name.clone(), key, enters);
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

    fn waiting_are_due(&mut self) {
        self.due_requests.extend(self.waiting.iter().cloned());
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

    fn vacate(&mut self, key: &ObjectKey) -> Option<Slot> {
        let slot = self.slots.remove(key);
        match slot.clone() {
            Some(Slot::Shared { shape, tenants }) => {
                set_member(&mut self.shared, shape, &(tenants, key.clone()), false);
            }
            Some(Slot::Spare { purposes }) => set_member(&mut self.spares, purposes, key, false),
            None => {}
        }
        slot
    }

    fn occupy(&mut self, key: &ObjectKey) {
        let Some(cluster) = self.clusters.get(key) else { return };
        let Some(slot) = self.slot_of(cluster) else { return };
        match &slot {
            Slot::Shared { shape, tenants } => {
                set_member(&mut self.shared, shape.clone(), &(*tenants, key.clone()), true);
            }
            Slot::Spare { purposes } => set_member(&mut self.spares, purposes.clone(), key, true),
        }
        self.slots.insert(key.clone(), slot);
    }

    /// Where an open Cluster is found; whether a new one took too long is asked when it is chosen.
    fn slot_of(&self, cluster: &Cluster) -> Option<Slot> {
        if self.closed(cluster).is_some() {
            return None;
        }
        let spec = &cluster.spec;
        let purposes: BTreeSet<String> = spec.purposes.iter().cloned().collect();
        match spec.dedicated {
            Some(true) => spec.tenants.is_empty().then_some(Slot::Spare { purposes }),
            Some(false) => {
                let tenants = live_tenants(cluster);
                self.has_room(cluster).then(|| Slot::Shared {
                    shape: Shape {
                        purposes,
                        provider: spec.cluster_provider_ref.name.clone(),
                        profile: spec.cluster_provider_ref.profile.clone(),
                        version: running_version(cluster).to_owned(),
                    },
                    tenants,
                })
            }
            None => None,
        }
    }

    /// Whether a shared Cluster has room for one more.
    pub(crate) fn has_room(&self, cluster: &Cluster) -> bool {
        let most = cluster
            .spec
            .purposes
            .iter()
            .filter_map(|name| usize::try_from(self.purpose(name)?.max_tenants?).ok())
            .min()
            .unwrap_or(MAX_TENANT_RECORDS);
        live_tenants(cluster) < most && cluster.spec.tenants.len() < MAX_TENANT_RECORDS
    }

    /// The profile of a Cluster, while it is published.
    pub(crate) fn profile_of(&self, cluster: &Cluster) -> Option<&ProfileEntry> {
        let reference = &cluster.spec.cluster_provider_ref;
        self.profiles.get(&reference.name)?.get(&reference.profile)
    }

    /// Whether namespaces of this name, with the labels it has, are selected.
    pub(crate) fn namespace_allowed(&self, namespace: &str, purpose: &PurposeSpec) -> bool {
        let none = BTreeMap::new();
        let labels = self.namespaces.get(namespace).unwrap_or(&none);
        purpose.allowed_namespaces.as_ref().is_none_or(|selector| selects(selector, labels))
    }
}

impl Object {
    fn key(&self) -> ObjectKey {
        match self {
            Object::Provider(object) => ObjectKey::of(&object.metadata),
            Object::Purpose(object) => ObjectKey::of(&object.metadata),
            Object::Equivalence(object) => ObjectKey::of(&object.metadata),
            Object::Namespace { name, .. } => ObjectKey::cluster_wide(name.clone()),
            Object::Cluster(object) => ObjectKey::of(&object.metadata),
            Object::Request(object) => ObjectKey::of(&object.metadata),
            Object::Grant(object) => ObjectKey::of(&object.metadata),
            Object::Access(object) => ObjectKey::of(&object.metadata),
            Object::Policy(object) => ObjectKey::of(&object.metadata),
        }
    }
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

/// How many tenants have room on a Cluster.
pub fn live_tenants(cluster: &Cluster) -> usize {
    cluster.spec.tenants.iter().filter(|tenant| !tenant.released).count()
}

/// The ClusterRequest of a tenant.
pub(crate) fn tenant_key(tenant: &Tenant) -> ObjectKey {
    ObjectKey::new(tenant.namespace.clone(), tenant.name.clone())
}

/// The version that a Cluster runs, or will run.
pub(crate) fn running_version(cluster: &Cluster) -> &str {
    let runs = cluster.status.as_ref().and_then(|status| status.kubernetes.as_ref()?.version.as_deref());
    runs.or(cluster.spec.kubernetes.version.as_deref()).unwrap_or_default()
}

/// Whether a Cluster was healthy at least once.
pub fn is_provisioned(cluster: &Cluster) -> bool {
    is_true(cluster, ConditionType::Provisioned) || is_true(cluster, ConditionType::ClusterHealthy)
}

/// The text of an annotation.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => _ = map.insert(key, value),
        None => _ = map.remove(&key),
    }
}

/// Puts a member into, or takes it out of, the set under a key; empty sets go.
fn set_member<K: Ord, V: Ord + Clone>(map: &mut BTreeMap<K, BTreeSet<V>>, key: K, member: &V, enters: bool) {
    if enters {
        map.entry(key).or_default().insert(member.clone());
    } else if let Some(set) = map.get_mut(&key) {
        set.remove(member);
        if set.is_empty() {
            map.remove(&key);
        }
    }
}
