//! Everything that decisions read, indexed and kept up to date object by object.

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

/// Everything that decisions read.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {}

impl Snapshot {
    /// A snapshot of nothing.
    pub fn new() -> Self {
        Snapshot::default()
    }

    /// The object is as given now.
    pub fn apply(&mut self, _object: Object) {}

    /// The object is gone.
    pub fn delete(&mut self, _kind: ObjectKind, _key: &ObjectKey) {}

    /// These, and no others, are the objects of the kind.
    pub fn reset(&mut self, _kind: ObjectKind, _objects: Vec<Object>) {}

    /// What became due since the last call.
    pub fn take_due(&mut self) -> Due {
        Due::default()
    }
}
