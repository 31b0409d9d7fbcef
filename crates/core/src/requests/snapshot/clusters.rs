//! What a changed Cluster does to the indexes, and who has to be decided again because of it. Its tenants come and
//! go by the thousand, so a newcomer costs no look at the others.

use std::sync::Arc;

use allotment_api::reasons::ConditionType;
use allotment_api::requests::{Cluster, ClusterSpec, ClusterStatus, Tenant};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{MOST_GONE, Snapshot, set_member, tenant_key};
use crate::requests::conditions::{find, is_true};
use crate::requests::request::tenant_of;
use crate::requests::spares::counted_for;
use crate::write::ObjectKey;

impl Snapshot {
    pub(super) fn set_cluster(&mut self, key: ObjectKey, cluster: Option<Arc<Cluster>>) {
        let (old, new) = (self.clusters.take(&key), cluster);
        let change = Change::between(old.as_deref(), new.as_deref());
        self.index(&key, &change);
        self.remember_gone(&change);
        if !change.same {
            self.due_access.extend(self.access_to_cluster.get(&key).into_iter().flatten().cloned());
            for uid in change.both().filter_map(|cluster| cluster.metadata.uid.as_ref()) {
                self.due_access.extend(self.live_access.get(uid).into_iter().flatten().cloned());
            }
        }
        // Other words about it move nothing.
        let moves = !change.same || !change.left.is_empty() || !change.came.is_empty();
        let concerned: Vec<ObjectKey> = change.left.iter().chain(change.came).map(tenant_key).collect();
        let (spares, standing) = (self.spares_beside(&change), !change.same && self.stands_otherwise(&change));
        if !change.same && self.gives_room_in_its_profile(&change) {
            self.waiting_are_due();
        }
        match new {
            Some(new) => {
                self.clusters.insert(key.clone(), new);
                self.due_clusters.insert(key.clone());
            }
            None => {
                self.clusters.remove(&key);
                self.due_clusters.remove(&key);
            }
        }
        for purpose in spares {
            self.due_clusters.extend(self.unused_spares.get(&purpose).into_iter().flatten().cloned());
            self.due_purposes.insert(purpose);
        }
        if (moves && self.settle(&key)) || standing {
            // Whoever asks for nothing that it lists can neither join it nor make another in its place.
            let both = old.iter().chain(self.clusters.get(&key));
            let purposes = both.flat_map(|cluster| &cluster.spec.purposes).cloned().collect();
            self.waiting_for_are_due(purposes);
        }
        for request in concerned {
            self.note_waiting(&request);
            self.due_access.extend(self.access_to_request.get(&request).into_iter().flatten().cloned());
            if self.requests.contains_key(&request) {
                self.due_requests.insert(request);
            }
        }
    }

    /// Counts a newcomer as a tenant of a shared Cluster until [`Snapshot::forget_assumed`], so that others can be chosen
    /// for meanwhile; nobody is woken. Gives how many tenants there were.
    pub(crate) fn assume(&mut self, key: &ObjectKey, tenant: Tenant) -> usize {
        let Some(cluster) = self.clusters.get_mut(key).map(Arc::make_mut) else { return 0 };
        let before = cluster.spec.tenants.len();
        self.tenancies.set_member(tenant.request_uid.clone(), key, true);
        cluster.spec.tenants.push(tenant);
        self.settle(key);
        before
    }

    /// The Cluster has its first so many tenants, as before they were joined.
    pub(crate) fn forget_assumed(&mut self, key: &ObjectKey, before: usize) {
        let Some(cluster) = self.clusters.get_mut(key).map(Arc::make_mut) else { return };
        for tenant in cluster.spec.tenants.split_off(before) {
            self.tenancies.set_member(tenant.request_uid, key, false);
        }
        self.settle(key);
    }

    fn index(&mut self, key: &ObjectKey, change: &Change<'_>) {
        for (cluster, tenants, enters) in [(change.old, change.left, false), (change.new, change.came, true)] {
            let Some(cluster) = cluster else { continue };
            if !change.same {
                for purpose in &cluster.spec.purposes {
                    set_member(&mut self.by_purpose, purpose.clone(), key, enters);
                }
                for purpose in cluster.spec.purposes.iter().filter(|_| cluster.spec.deletion_policy.is_none()) {
                    set_member(&mut self.by_hand, purpose.clone(), key, enters);
                }
                set_member(&mut self.by_provider, cluster.spec.cluster_provider_ref.name.clone(), key, enters);
                set_member(&mut self.by_profile, profile_place(cluster), key, enters);
                self.due_purposes.extend(cluster.spec.purposes.iter().cloned());
            }
            self.count_tenants(cluster, tenants, enters);
            if let Some(purpose) = counted_for(cluster) {
                set_member(&mut self.unused_spares, purpose.clone(), key, enters);
            }
            for tenant in tenants.iter().filter(|tenant| !tenant.released) {
                self.tenancies.set_member(tenant.request_uid.clone(), key, enters);
                let orphan = enters && !self.is_claimed(&tenant_key(tenant), &tenant.request_uid);
                set_member(&mut self.orphans, key.clone(), &tenant.request_uid, orphan);
            }
        }
    }

    /// Keeps how many tenants a profile has.
    fn count_tenants(&mut self, cluster: &Cluster, tenants: &[Tenant], enters: bool) {
        let count = tenants.iter().filter(|tenant| !tenant.released).count();
        if count == 0 {
            return;
        }
        let place = profile_place(cluster);
        let all = self.tenants_of_profile.entry(place.clone()).or_default();
        *all = if enters { all.saturating_add(count) } else { all.saturating_sub(count) };
        if *all == 0 {
            self.tenants_of_profile.remove(&place);
        }
    }

    /// Whether the request of that UID, or its Grant, is there.
    fn is_claimed(&self, request: &ObjectKey, uid: &str) -> bool {
        self.requests.get(request).is_some_and(|request| request.metadata.uid.as_deref() == Some(uid))
            || self.grants.get(request).is_some_and(|grant| grant.spec.request_uid == uid)
    }

    /// A request or Grant of that name and UID came or went: what that is to the Clusters that have it as a tenant.
    pub(super) fn claim_changed(&mut self, request: &ObjectKey, uid: &str) {
        let Some(clusters) = self.tenancies.get(uid).cloned() else { return };
        for cluster in clusters {
            // The tenant tells the name of its request, and may tell another one.
            let tenant = self.clusters.get(&cluster).and_then(|cluster| tenant_of(cluster, uid));
            if tenant.is_none_or(|tenant| tenant_key(tenant) != *request) {
                continue;
            }
            let orphan = !self.is_claimed(request, uid);
            set_member(&mut self.orphans, cluster.clone(), &uid.to_owned(), orphan);
            self.due_clusters.insert(cluster);
        }
    }

    fn remember_gone(&mut self, change: &Change<'_>) {
        let [was, is] =
            [change.old, change.new].map(|cluster| cluster.and_then(|cluster| cluster.metadata.uid.clone()));
        if let Some(was) = was.filter(|was| Some(was) != is.as_ref()) {
            if self.gone.len() == MOST_GONE {
                self.gone.pop_front();
            }
            self.gone.push_back(was);
        }
    }

    /// Whether those that wait for a Cluster may find another one in this.
    fn stands_otherwise(&self, change: &Change<'_>) -> bool {
        let standing = |cluster: &Cluster| (self.closed(cluster), cluster.spec.purposes.clone());
        change.old.map(standing) != change.new.map(standing)
    }

    /// Whether it comes into or goes from a profile that makes only so many, for which all wait that it fits.
    fn gives_room_in_its_profile(&self, change: &Change<'_>) -> bool {
        let bounded =
            |cluster: &&Cluster| self.profile_of(cluster).is_some_and(|profile| profile.profile.max_clusters.is_some());
        change.old.map(profile_place) != change.new.map(profile_place) && change.both().any(|cluster| bounded(&cluster))
    }

    /// The Purposes whose spares have to be looked at, since which of them are kept depends on all.
    fn spares_beside(&self, change: &Change<'_>) -> Vec<String> {
        let told = |cluster: &Cluster| {
            let healthy = is_true(cluster, ConditionType::ClusterHealthy);
            counted_for(cluster).map(|purpose| (purpose.clone(), healthy, self.closed(cluster)))
        };
        let (was, is) = (change.old.and_then(told), change.new.and_then(told));
        let differs = was != is;
        [was, is].into_iter().flatten().map(|(purpose, ..)| purpose).filter(|_| differs).collect()
    }
}

/// The provider and the profile of a Cluster.
fn profile_place(cluster: &Cluster) -> (String, String) {
    let reference = &cluster.spec.cluster_provider_ref;
    (reference.name.clone(), reference.profile.clone())
}

/// A change of a Cluster, or that it came or went.
struct Change<'a> {
    old: Option<&'a Cluster>,
    new: Option<&'a Cluster>,
    /// Whether the two differ at most in their tenants, and in notes of who wrote what and when.
    same: bool,
    /// Tenants that it concerns, as they were: those that changed, or all if not only they did.
    left: &'a [Tenant],
    /// The same, as they are.
    came: &'a [Tenant],
}

impl<'a> Change<'a> {
    fn between(old: Option<&'a Cluster>, new: Option<&'a Cluster>) -> Self {
        let [mut left, mut came] =
            [old, new].map(|cluster| cluster.map_or(&[][..], |cluster| cluster.spec.tenants.as_slice()));
        let same = old.zip(new).is_some_and(|(old, new)| same_but_tenants(old, new));
        if same {
            // They come at the end and change in place: what stays at both ends is the same.
            let front = left.iter().zip(came).take_while(|(was, is)| was == is).count();
            (left, came) = (&left[front..], &came[front..]);
            let back = left.iter().rev().zip(came.iter().rev()).take_while(|(was, is)| was == is).count();
            (left, came) = (&left[..left.len() - back], &came[..came.len() - back]);
        }
        Change { old, new, same, left, came }
    }

    fn both(&self) -> impl Iterator<Item = &'a Cluster> {
        self.old.into_iter().chain(self.new)
    }
}

/// Whether nothing that a provider looks at differs between two states of a Cluster: not its tenants, nor what the
/// platform says of it.
pub fn same_for_provider(old: &Cluster, new: &Cluster) -> bool {
    let ObjectMeta { uid, deletion_timestamp, annotations, labels, finalizers, .. } = &old.metadata;
    let meta = &new.metadata;
    let (none, before, after) = (ClusterStatus::default(), old.status.as_ref(), new.status.as_ref());
    let (before, after) = (before.unwrap_or(&none), after.unwrap_or(&none));
    let healthy = |status| find(status, ConditionType::ClusterHealthy);
    let ClusterSpec {
        cluster_provider_ref,
        cluster_config_ref,
        kubernetes,
        purposes,
        dedicated,
        tenants: _,
        deletion_policy: _,
        idle_grace: _,
        ceilings: _,
    } = &old.spec;
    let spec = &new.spec;
    (uid, deletion_timestamp, annotations) == (&meta.uid, &meta.deletion_timestamp, &meta.annotations)
        && (labels, finalizers) == (&meta.labels, &meta.finalizers)
        && (cluster_provider_ref, cluster_config_ref) == (&spec.cluster_provider_ref, &spec.cluster_config_ref)
        && (kubernetes, purposes, dedicated) == (&spec.kubernetes, &spec.purposes, &spec.dedicated)
        && (before.phase, &before.kubernetes) == (after.phase, &after.kubernetes)
        && before.provider_status == after.provider_status
        && healthy(&before.conditions) == healthy(&after.conditions)
}

fn same_but_tenants(old: &Cluster, new: &Cluster) -> bool {
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

/// Whether what statuses say to others is the same. Words for people are no part of it.
fn same_status(old: Option<&ClusterStatus>, new: Option<&ClusterStatus>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return old.is_none() && new.is_none() };
    let conditions = || old.conditions.iter().zip(&new.conditions);
    old.kubernetes == new.kubernetes
        && old.conditions.len() == new.conditions.len()
        && conditions().all(|(old, new)| (&old.type_, &old.status) == (&new.type_, &new.status))
}
