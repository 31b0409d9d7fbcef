//! Everything that decisions read, indexed and kept up to date object by object.
//!
//! Clusters that a shared request may join are grouped by [`Shape`], all that eligibility depends on;
//! inside a group they are ordered by how many tenants they have. So a decision looks at a few dozen
//! groups, however many Clusters there are. All of them are grouped once more by [`Alike`], for those whose
//! request is refused. What a decision makes of it is left to `select`.

mod alike;
mod change;
mod clusters;
mod keyed;
mod object;
mod open;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use allotment_api::reasons::ConditionType;
use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, Profile, Purpose,
    PurposeSpec, Tenant,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::conditions::is_true;
use super::expressions::Equivalences;
use super::findings::Members;
use super::namespaces::selects;
use super::queue::{QueueOrder, Rank};
use super::versions::{Offer, Version};
use crate::write::ObjectKey;

pub(crate) use alike::{Alike, Origin};
pub use clusters::same_for_provider;
pub(crate) use keyed::Keyed;
pub use object::{Object, ObjectKind};
pub(crate) use open::Shape;
use open::Slot;
use waiting::Waiting;

/// Most tenants of one Cluster, released ones included: the record is one object.
pub const MAX_TENANT_RECORDS: usize = 1000;
/// How many Clusters that are gone are remembered: more than go within the minute for which that matters.
const MOST_GONE: usize = 1000;
/// How long a new Cluster may take before it counts as unhealthy, unless configured.
pub const DEFAULT_PROVISIONING_DEADLINE_SECS: i64 = 30 * 60;

/// How many requests that wait for the same, with the same answer, are looked at for all of them, unless configured: more
/// than are worked on at once, so that those who find room follow each other without a pause.
const STAND_FOR_ALL: usize = 32;

/// How many requests are told a second that their findings, and nothing else, are not as they were.
const MOST_FINDINGS_A_SECOND: usize = 100;

/// What has to be decided, since something that bears on it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// ClusterRequests, in the order in which they are to be decided.
    pub requests: Vec<ObjectKey>,
    /// Clusters.
    pub clusters: Vec<ObjectKey>,
    /// AccessRequests.
    pub access: Vec<ObjectKey>,
    /// Purposes, by name.
    pub purposes: Vec<ObjectKey>,
}

/// A profile, ready to be asked.
#[derive(Clone, Debug, PartialEq)]
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
    pub(crate) clusters: Keyed<ObjectKey, Arc<Cluster>>,
    pub(crate) requests: Keyed<ObjectKey, Arc<ClusterRequest>>,
    pub(crate) grants: Keyed<ObjectKey, Arc<ClusterRequestGrant>>,
    pub(crate) access: BTreeMap<ObjectKey, Arc<AccessRequest>>,
    pub(crate) policies: BTreeMap<ObjectKey, Arc<AccessPolicy>>,
    /// By provider, then profile.
    pub(crate) profiles: BTreeMap<String, BTreeMap<String, ProfileEntry>>,
    /// Open shared Clusters with room.
    pub(crate) shared: BTreeMap<Shape, BTreeSet<(usize, ObjectKey)>>,
    /// Open dedicated Clusters that never had a tenant, by exactly their purposes.
    pub(crate) spares: BTreeMap<BTreeSet<String>, BTreeSet<ObjectKey>>,
    slots: Keyed<ObjectKey, Slot>,
    /// All Clusters, by what requests miss in them.
    pub(crate) alike: BTreeMap<Origin, BTreeMap<Alike, Members>>,
    alike_of: Keyed<ObjectKey, (Origin, Alike)>,
    /// By Purpose: Clusters made for no request, of which none came yet.
    pub(crate) unused_spares: BTreeMap<String, BTreeSet<ObjectKey>>,
    pub(crate) by_purpose: BTreeMap<String, BTreeSet<ObjectKey>>,
    pub(crate) by_provider: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// By provider, then profile, those that are being deleted included.
    by_profile: BTreeMap<(String, String), BTreeSet<ObjectKey>>,
    /// By Purpose: Clusters that were written by hand.
    pub(crate) by_hand: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// By provider, then profile: how many tenants have room on its Clusters.
    pub(crate) tenants_of_profile: BTreeMap<(String, String), usize>,
    /// By UID of the request: the Clusters that have it as a tenant.
    pub(crate) tenancies: Keyed<String, BTreeSet<ObjectKey>>,
    /// By Cluster: the UIDs of tenants whose request and Grant are both not there.
    pub(crate) orphans: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// By UID of the Cluster: the AccessRequests that live in it.
    pub(crate) live_access: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// By ClusterRequest: the AccessRequests that refer to it.
    pub(crate) access_to_request: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// By Cluster: the AccessRequests that refer to it.
    access_to_cluster: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Requests that are no tenant of any Cluster.
    waiting: Waiting,
    /// Requests of which a write was refused, since they changed last.
    refused: BTreeSet<ObjectKey>,
    due_requests: BTreeSet<ObjectKey>,
    /// Whether all that wait are due; they are told apart when somebody asks, however often that was noted.
    all_waiting_are_due: bool,
    /// Purposes of which all that wait are due.
    due_waiting_for: BTreeSet<String>,
    due_clusters: BTreeSet<ObjectKey>,
    due_access: BTreeSet<ObjectKey>,
    due_purposes: BTreeSet<String>,
    /// UIDs of Clusters that were seen and are gone, the oldest first.
    gone: VecDeque<String>,
    /// Purposes that ask for spares.
    warm: BTreeSet<String>,
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
            clusters: Keyed::new(),
            requests: Keyed::new(),
            grants: Keyed::new(),
            access: BTreeMap::new(),
            policies: BTreeMap::new(),
            profiles: BTreeMap::new(),
            shared: BTreeMap::new(),
            spares: BTreeMap::new(),
            slots: Keyed::new(),
            alike: BTreeMap::new(),
            alike_of: Keyed::new(),
            unused_spares: BTreeMap::new(),
            by_purpose: BTreeMap::new(),
            by_provider: BTreeMap::new(),
            by_profile: BTreeMap::new(),
            by_hand: BTreeMap::new(),
            tenants_of_profile: BTreeMap::new(),
            tenancies: Keyed::new(),
            orphans: BTreeMap::new(),
            live_access: BTreeMap::new(),
            access_to_request: BTreeMap::new(),
            access_to_cluster: BTreeMap::new(),
            waiting: Waiting::new(STAND_FOR_ALL),
            refused: BTreeSet::new(),
            due_requests: BTreeSet::new(),
            all_waiting_are_due: false,
            due_waiting_for: BTreeSet::new(),
            due_clusters: BTreeSet::new(),
            due_access: BTreeSet::new(),
            due_purposes: BTreeSet::new(),
            gone: VecDeque::new(),
            warm: BTreeSet::new(),
            provisioning_deadline_secs: seconds,
        }
    }

    /// Of requests that wait for the same, with the same answer, so many are due for all of them; for a snapshot of
    /// nothing.
    pub fn with_standing_for_all(mut self, count: usize) -> Self {
        self.waiting = Waiting::new(count);
        self
    }

    /// The object is as given now.
    pub fn apply(&mut self, object: Object) {
        match object {
            Object::Provider(provider) => {
                self.set_provider(ObjectKey::of(&provider.metadata).name, Some(Arc::unwrap_or_clone(provider)))
            }
            Object::Purpose(purpose) => {
                self.set_purpose(ObjectKey::of(&purpose.metadata).name, Some(Arc::unwrap_or_clone(purpose)))
            }
            Object::Equivalence(equivalence) => {
                let name = ObjectKey::of(&equivalence.metadata).name;
                self.set_equivalence(name, Some(Arc::unwrap_or_clone(equivalence).spec.traits));
            }
            Object::Namespace { name, labels } => self.set_namespace(name, Some(labels)),
            Object::Cluster(cluster) => self.set_cluster(ObjectKey::of(&cluster.metadata), Some(cluster)),
            Object::Request(request) => self.set_request(ObjectKey::of(&request.metadata), Some(request)),
            Object::Grant(grant) => self.set_grant(ObjectKey::of(&grant.metadata), Some(grant)),
            Object::Access(access) => self.set_access(ObjectKey::of(&access.metadata), Some(access)),
            Object::Policy(policy) => self.set_policy(ObjectKey::of(&policy.metadata), Some(policy)),
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
        let purposes = std::mem::take(&mut self.due_waiting_for);
        if std::mem::take(&mut self.all_waiting_are_due) {
            self.due_requests.extend(self.waiting.first().cloned());
        } else {
            let concerned = purposes.iter().flat_map(|purpose| self.waiting.first_for(purpose));
            self.due_requests.extend(concerned.cloned());
        }
        let mut requests: Vec<ObjectKey> = std::mem::take(&mut self.due_requests).into_iter().collect();
        requests.sort_by_cached_key(|key| self.requests.get(key).map(|request| QueueOrder::of(request)));
        Due {
            requests,
            clusters: std::mem::take(&mut self.due_clusters).into_iter().collect(),
            access: std::mem::take(&mut self.due_access).into_iter().collect(),
            purposes: std::mem::take(&mut self.due_purposes).into_iter().map(ObjectKey::cluster_wide).collect(),
        }
    }

    /// From now on those are due that are bound to nothing, and no others: for a copy of what was decided elsewhere.
    pub(crate) fn only_unbound_are_due(&mut self) {
        self.take_due();
        self.due_requests.extend(self.requests.keys().filter(|key| !self.grants.contains_key(key)).cloned());
        self.due_purposes.extend(self.warm.iter().cloned());
    }

    /// The ClusterRequests that are no tenant of any Cluster.
    pub fn waiting(&self) -> impl Iterator<Item = &ObjectKey> {
        self.waiting.all()
    }

    /// How long the findings of a request that waits may stay as they are although they would be others now, in
    /// seconds. They are words for people, so few are written a second however many wait.
    pub(crate) fn findings_last_secs(&self) -> i64 {
        i64::try_from(self.waiting.len() / MOST_FINDINGS_A_SECOND).unwrap_or(i64::MAX)
    }

    /// Where a ClusterRequest stands among those that are to be decided, if it is there.
    pub fn turn(&self, key: &ObjectKey) -> Option<QueueOrder> {
        self.requests.get(key).map(|request| QueueOrder::of(request))
    }

    /// When a ClusterRequest is looked at, if it is there.
    pub fn rank(&self, key: &ObjectKey) -> Option<Rank> {
        self.requests.get(key).map(|request| Rank::of(request))
    }

    /// The Cluster, if it is there.
    pub fn cluster(&self, key: &ObjectKey) -> Option<&Cluster> {
        self.clusters.get(key).map(Arc::as_ref)
    }

    /// Whether a Cluster that is not there was seen, and so is gone rather than not seen yet.
    pub(crate) fn is_gone(&self, cluster_uid: &str) -> bool {
        self.gone.iter().any(|gone| gone == cluster_uid)
    }

    /// The ClusterRequest, if it is there.
    pub fn request(&self, key: &ObjectKey) -> Option<&ClusterRequest> {
        self.requests.get(key).map(Arc::as_ref)
    }

    /// The Grant, if it is there.
    pub fn grant(&self, key: &ObjectKey) -> Option<&ClusterRequestGrant> {
        self.grants.get(key).map(Arc::as_ref)
    }

    /// Whether a namespace of the platform is there.
    pub fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.contains_key(name)
    }

    /// The ClusterProvider, if it is there.
    pub fn provider(&self, name: &str) -> Option<&ClusterProvider> {
        self.providers.get(name)
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

    /// How many Clusters come from a profile, those that are being deleted included.
    pub(crate) fn clusters_of_profile(&self, provider: &str, profile: &str) -> usize {
        self.by_profile.get(&(provider.to_owned(), profile.to_owned())).map_or(0, BTreeSet::len)
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

    /// The profile of a Cluster, while it is published.
    pub(crate) fn profile_of(&self, cluster: &Cluster) -> Option<&ProfileEntry> {
        let reference = &cluster.spec.cluster_provider_ref;
        self.profiles.get(&reference.name)?.get(&reference.profile)
    }

    /// Whether the profile of a Cluster is published.
    pub fn publishes_profile_of(&self, cluster: &Cluster) -> bool {
        self.profile_of(cluster).is_some()
    }

    /// Whether namespaces of this name, with the labels it has, are selected.
    pub(crate) fn namespace_allowed(&self, namespace: &str, purpose: &PurposeSpec) -> bool {
        let none = BTreeMap::new();
        let labels = self.namespaces.get(namespace).unwrap_or(&none);
        purpose.allowed_namespaces.as_ref().is_none_or(|selector| selects(selector, labels))
    }
}

/// How many tenants have room on a Cluster.
pub fn live_tenants(cluster: &Cluster) -> usize {
    cluster.spec.tenants.iter().filter(|tenant| !tenant.released).count()
}

/// Whether a Cluster has, or once had, a tenant that was given all of it: such a tenant has no prefix.
/// Whatever the Cluster's spec says now, it is shared with nobody.
pub(crate) fn once_dedicated(cluster: &Cluster) -> bool {
    cluster.spec.tenants.iter().any(|tenant| tenant.prefix.is_empty())
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

/// Those of a set that are in a namespace.
fn in_namespace<'a>(keys: &'a BTreeSet<ObjectKey>, namespace: &'a str) -> impl Iterator<Item = &'a ObjectKey> {
    keys.range(ObjectKey::new(namespace, "")..).take_while(move |key| key.namespace == namespace)
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
