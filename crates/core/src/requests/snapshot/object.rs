//! The objects that decisions read, as they are handed to a snapshot; what is made of them is the snapshot's.

use std::collections::BTreeMap;

use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, Purpose,
    TraitEquivalence,
};

use crate::write::ObjectKey;

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
