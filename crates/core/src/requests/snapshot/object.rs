//! The objects that decisions read, as they are handed to a snapshot; what is made of them is the snapshot's.

use std::collections::BTreeMap;
use std::sync::Arc;

use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, Purpose,
    TraitEquivalence,
};

use crate::write::ObjectKey;

/// An object that decisions read, shared with whoever else keeps it.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A ClusterProvider.
    Provider(Arc<ClusterProvider>),
    /// A Purpose.
    Purpose(Arc<Purpose>),
    /// A TraitEquivalence.
    Equivalence(Arc<TraitEquivalence>),
    /// A namespace of the platform, with its labels.
    Namespace {
        /// Its name.
        name: String,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// A Cluster.
    Cluster(Arc<Cluster>),
    /// A ClusterRequest.
    Request(Arc<ClusterRequest>),
    /// A ClusterRequestGrant.
    Grant(Arc<ClusterRequestGrant>),
    /// An AccessRequest.
    Access(Arc<AccessRequest>),
    /// An AccessPolicy.
    Policy(Arc<AccessPolicy>),
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

impl Object {
    /// Where it stands.
    pub(super) fn key(&self) -> ObjectKey {
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
