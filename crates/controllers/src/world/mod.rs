//! What the controllers know: a mirror of every kind they read, indexes over them, and which controller
//! has to look at what when something changes. Synchronous; nothing here waits or calls.

mod indexes;
mod triggers;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, ProviderConfig,
    Purpose, TraitEquivalence,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::watcher::Event;

use crate::frame::{Change, Mirror, ObjectKey, Queue};
pub use indexes::{Indexes, Target};

/// One queue per controller.
#[derive(Debug, Default)]
pub struct Queues {
    /// ClusterRequests.
    pub requests: Arc<Queue<ObjectKey>>,
    /// Clusters: lifecycle.
    pub clusters: Arc<Queue<ObjectKey>>,
    /// Clusters: their provider's part.
    pub planes: Arc<Queue<ObjectKey>>,
    /// AccessRequests.
    pub access: Arc<Queue<ObjectKey>>,
    /// ClusterProviders.
    pub providers: Arc<Queue<ObjectKey>>,
}

/// All objects that the controllers read, with indexes.
#[derive(Debug, Default)]
pub struct State {
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
    /// ProviderConfigs of the local provider.
    pub configs: Mirror<ProviderConfig>,
    /// TraitEquivalences.
    pub equivalences: Mirror<TraitEquivalence>,
    /// AccessRequests.
    pub access: Mirror<AccessRequest>,
    /// AccessPolicies.
    pub policies: Mirror<AccessPolicy>,
    /// Namespaces, for their labels.
    pub namespaces: Mirror<Namespace>,
    /// What can be found without looking through all.
    pub indexes: Indexes,
}

/// A kind that the world mirrors.
pub trait Mirrored: kube::Resource<DynamicType = ()> + Clone + Sized + Send + Sync + 'static {
    /// Where objects of this kind are kept.
    fn mirror(state: &mut State) -> &mut Mirror<Self>;

    /// Brings indexes up to date and wakes whoever has to look.
    fn changed(state: &mut State, queues: &Queues, change: &Change<Self>);
}

/// The world, shared by watches and controllers.
#[derive(Debug, Default)]
pub struct World {
    state: RwLock<State>,
    /// The controllers' queues.
    pub queues: Queues,
}

impl World {
    /// A look at everything. Never held across an await.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a watch says.
    pub fn watched<K: Mirrored>(&self, event: Event<K>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let changes: Vec<Change<K>> = match event {
            Event::Apply(object) => K::mirror(&mut state).apply(object).into_iter().collect(),
            Event::Delete(object) => K::mirror(&mut state).delete(&object).into_iter().collect(),
            Event::Init => {
                K::mirror(&mut state).begin_reset();
                Vec::new()
            }
            Event::InitApply(object) => {
                K::mirror(&mut state).reset_item(object);
                Vec::new()
            }
            Event::InitDone => K::mirror(&mut state).end_reset(),
        };
        for change in &changes {
            K::changed(&mut state, &self.queues, change);
        }
    }

    /// Takes in the reply to an own write, so that the next decision sees it although the watch lags.
    pub fn written<K: Mirrored>(&self, object: K) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(change) = K::mirror(&mut state).written(object) {
            K::changed(&mut state, &self.queues, &change);
        }
    }
}
