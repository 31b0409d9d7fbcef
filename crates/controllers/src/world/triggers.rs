//! Who has to look when something changes. One rule per kind; a rule may wake too many, never too few.

use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, ProviderConfig,
    Purpose, TraitEquivalence,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;

use super::{Mirrored, Queues, State, Target};
use crate::frame::{Change, Mirror, ObjectKey};

impl State {
    /// Wakes the requests that list one of `purposes` and have no room anywhere.
    fn wake_unbound(&self, queues: &Queues, purposes: &[String]) {
        for purpose in purposes {
            for key in self.indexes.requests_of_purpose(purpose) {
                self.wake_if_unbound(queues, key);
            }
        }
    }

    fn wake_all_unbound(&self, queues: &Queues) {
        for (key, _) in self.requests.iter() {
            self.wake_if_unbound(queues, key);
        }
    }

    fn wake_if_unbound(&self, queues: &Queues, key: &ObjectKey) {
        let uid = self.requests.get(key).and_then(|request| request.uid()).unwrap_or_default();
        if !self.indexes.is_bound(&uid) {
            queues.requests.add(key.clone());
        }
    }

    fn wake_access(&self, queues: &Queues, target: &Target) {
        for key in self.indexes.access_to(target) {
            queues.access.add(key.clone());
        }
    }

    /// The Clusters of the requests that have room on `cluster` and of the access to it.
    fn wake_users(&self, queues: &Queues, cluster: &Cluster) {
        for tenant in &cluster.spec.tenants {
            let request = ObjectKey::new(tenant.namespace.clone(), tenant.name.clone());
            queues.requests.add(request.clone());
            self.wake_access(queues, &Target::Request(request));
        }
        let key = ObjectKey::of(cluster);
        for request in self.indexes.requests_that_chose(&key) {
            queues.requests.add(request.clone());
        }
        self.wake_access(queues, &Target::Cluster(key));
        for access in self.indexes.access_live_in(&cluster.uid().unwrap_or_default()) {
            queues.access.add(access.clone());
        }
    }
}

impl Mirrored for ClusterRequest {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.requests
    }

    fn changed(state: &mut State, queues: &Queues, change: &Change<Self>) {
        state.indexes.request_changed(change);
        queues.requests.add(change.key.clone());
        state.wake_access(queues, &Target::Request(change.key.clone()));
        // A request that is gone may have left room behind, wherever it had some.
        let seen = change.after.as_ref().or(change.before.as_ref());
        let uid = seen.and_then(|request| request.uid()).unwrap_or_default();
        for cluster in state.indexes.clusters_of_request(&uid) {
            queues.clusters.add(cluster.clone());
        }
    }
}

impl Mirrored for ClusterRequestGrant {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.grants
    }

    fn changed(state: &mut State, queues: &Queues, change: &Change<Self>) {
        queues.requests.add(change.key.clone());
        state.wake_access(queues, &Target::Request(change.key.clone()));
        for grant in [&change.before, &change.after].into_iter().flatten() {
            let cluster = &grant.spec.cluster_ref;
            queues.clusters.add(ObjectKey::new(cluster.namespace.clone(), cluster.name.clone()));
        }
    }
}

impl Mirrored for Cluster {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.clusters
    }

    fn changed(state: &mut State, queues: &Queues, change: &Change<Self>) {
        state.indexes.cluster_changed(change);
        queues.clusters.add(change.key.clone());
        queues.planes.add(change.key.clone());
        for cluster in [&change.before, &change.after].into_iter().flatten() {
            state.wake_users(queues, cluster);
        }
        let seen = change.after.as_ref().or(change.before.as_ref());
        if let Some(cluster) = seen {
            // What opens, closes or frees room matters to those who wait for any of its purposes, and
            // room under `maxClusters` to the same.
            state.wake_unbound(queues, &cluster.spec.purposes);
            queues.providers.add(ObjectKey::cluster(cluster.spec.cluster_provider_ref.name.clone()));
        }
    }
}

impl Mirrored for Purpose {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.purposes
    }

    fn changed(state: &mut State, queues: &Queues, change: &Change<Self>) {
        state.wake_unbound(queues, std::slice::from_ref(&change.key.name));
        for cluster in state.indexes.clusters_of_purpose(&change.key.name) {
            queues.clusters.add(cluster.clone());
        }
    }
}

impl Mirrored for ClusterProvider {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.providers
    }

    fn changed(state: &mut State, queues: &Queues, change: &Change<Self>) {
        queues.providers.add(change.key.clone());
        let same = match (&change.before, &change.after) {
            (Some(before), Some(after)) => before.status == after.status && before.spec == after.spec,
            _ => false,
        };
        if same {
            return;
        }
        state.wake_all_unbound(queues);
        for cluster in state.indexes.clusters_of_provider(&change.key.name) {
            queues.clusters.add(cluster.clone());
            queues.planes.add(cluster.clone());
        }
    }
}

impl Mirrored for ProviderConfig {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.configs
    }

    fn changed(_state: &mut State, queues: &Queues, change: &Change<Self>) {
        for config in [&change.before, &change.after].into_iter().flatten() {
            queues.providers.add(ObjectKey::cluster(config.spec.provider_ref.clone()));
        }
    }
}

impl Mirrored for TraitEquivalence {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.equivalences
    }

    fn changed(state: &mut State, queues: &Queues, _change: &Change<Self>) {
        state.wake_all_unbound(queues);
    }
}

impl Mirrored for AccessRequest {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.access
    }

    fn changed(state: &mut State, queues: &Queues, change: &Change<Self>) {
        state.indexes.access_changed(change);
        queues.access.add(change.key.clone());
        for access in [&change.before, &change.after].into_iter().flatten() {
            match Target::of(access) {
                Some(Target::Cluster(cluster)) => queues.clusters.add(cluster),
                Some(Target::Request(request)) => queues.requests.add(request),
                None => {}
            }
            if let Some(live) = live_in(access) {
                queues.clusters.add(live);
            }
        }
    }
}

/// The Cluster in which objects of that access lie.
pub(crate) fn live_in(access: &AccessRequest) -> Option<ObjectKey> {
    let (namespace, name) = access.annotations().get(allotment_api::names::LIVE_IN_NAME)?.split_once('/')?;
    Some(ObjectKey::new(namespace, name))
}

impl Mirrored for AccessPolicy {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.policies
    }

    fn changed(state: &mut State, queues: &Queues, change: &Change<Self>) {
        for key in state.indexes.access_into(&change.key.namespace) {
            queues.access.add(key.clone());
        }
    }
}

impl Mirrored for Namespace {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.namespaces
    }

    fn changed(state: &mut State, queues: &Queues, change: &Change<Self>) {
        let labels = |object: &Option<std::sync::Arc<Namespace>>| object.as_ref().map(|found| found.labels().clone());
        if labels(&change.before) == labels(&change.after) {
            return;
        }
        // Labels decide which purposes may be asked for from here, and which policies let in.
        for (key, _) in state.requests.in_namespace(&change.key.name) {
            state.wake_if_unbound(queues, key);
        }
        for (key, _) in state.access.in_namespace(&change.key.name) {
            queues.access.add(key.clone());
        }
    }
}
