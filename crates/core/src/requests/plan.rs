//! What is to be written next for a ClusterRequest or a Cluster.

use allotment_api::requests::{Cluster, ClusterRequestGrant};
use k8s_openapi::jiff::Timestamp;

use crate::write::{ObjectKey, Write};

/// The next write for one ClusterRequest.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Nothing to write, until an input changes or, where given, until then.
    Done {
        /// When to decide again though nothing changed.
        again: Option<Timestamp>,
    },
    /// Take the request under the platform's finalizer, before anything is bound to it.
    AddFinalizer(Write),
    /// Note in the request which Cluster is about to be made for it.
    RecordClusterName(Write),
    /// Make the Cluster, with the request as its tenant.
    CreateCluster {
        /// The write.
        write: Write,
        /// What it creates.
        cluster: Box<Cluster>,
    },
    /// Enter the request in the `spec.tenants` of a Cluster: room and prefix at once.
    TakeRoom {
        /// The Cluster.
        cluster: ObjectKey,
        /// The compare-and-swap.
        write: Write,
    },
    /// Bind the request to the Cluster in whose `spec.tenants` it stands.
    CreateGrant {
        /// The write.
        write: Write,
        /// What it creates.
        grant: Box<ClusterRequestGrant>,
    },
    /// Note in the request to which Cluster it is bound: the one evidence that outlives that Cluster.
    RecordBinding(Write),
    /// Take away the Grant of a request that is being deleted, or one that is not this request's.
    DeleteGrant(Write),
    /// Give the room back: the Grant is gone, or names another Cluster.
    ReleaseRoom {
        /// The Cluster.
        cluster: ObjectKey,
        /// The compare-and-swap.
        write: Write,
    },
    /// Let a request go that is being deleted.
    RemoveFinalizer(Write),
    /// Say in the Grant's status what became of its Cluster.
    WriteGrantStatus(Write),
    /// Say in the request's status what was decided.
    WriteStatus(Write),
}

impl Plan {
    /// Whether the write chooses or makes a Cluster, or prepares that: each such choice has to see what came of the one
    /// before it.
    pub fn chooses(&self) -> bool {
        match self {
            Plan::AddFinalizer(_) | Plan::RecordClusterName(_) | Plan::CreateCluster { .. } | Plan::TakeRoom { .. } => {
                true
            }
            Plan::Done { .. }
            | Plan::CreateGrant { .. }
            | Plan::RecordBinding(_)
            | Plan::DeleteGrant(_)
            | Plan::ReleaseRoom { .. }
            | Plan::RemoveFinalizer(_)
            | Plan::WriteGrantStatus(_)
            | Plan::WriteStatus(_) => false,
        }
    }

    /// The write, if there is one.
    pub fn write(&self) -> Option<&Write> {
        match self {
            Plan::Done { .. } => None,
            Plan::AddFinalizer(write)
            | Plan::RecordClusterName(write)
            | Plan::CreateCluster { write, .. }
            | Plan::TakeRoom { write, .. }
            | Plan::CreateGrant { write, .. }
            | Plan::RecordBinding(write)
            | Plan::DeleteGrant(write)
            | Plan::ReleaseRoom { write, .. }
            | Plan::RemoveFinalizer(write)
            | Plan::WriteGrantStatus(write)
            | Plan::WriteStatus(write) => Some(write),
        }
    }
}

/// An object that must be absent, by a read that no cache answers, before a write is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfirmAbsent {
    /// Namespace and name of the ClusterRequest.
    pub request: ObjectKey,
    /// Its UID; one of this name with another UID counts as absent.
    pub uid: String,
}

/// The next write for one Purpose: what its `warm` asks for, and what its status says.
#[derive(Clone, Debug, PartialEq)]
pub enum PurposePlan {
    /// Nothing to write, until an input changes or, where given, until then.
    Done {
        /// When to decide again though nothing changed.
        again: Option<Timestamp>,
    },
    /// Note in the Purpose which spare Cluster is about to be made for it.
    RecordSpareName(Write),
    /// Make a spare Cluster.
    CreateSpare(Write),
    /// Say in the status what there is, and why a spare is missing.
    WriteStatus(Write),
}

impl PurposePlan {
    /// The write, if there is one.
    pub fn write(&self) -> Option<&Write> {
        match self {
            PurposePlan::Done { .. } => None,
            PurposePlan::RecordSpareName(write) | PurposePlan::CreateSpare(write) | PurposePlan::WriteStatus(write) => {
                Some(write)
            }
        }
    }
}

/// The next write for one Cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterPlan {
    /// Nothing to write, until an input changes or, where given, until then.
    Done {
        /// When to decide again though nothing changed.
        again: Option<Timestamp>,
    },
    /// Take the Cluster under the platform's finalizer.
    AddFinalizer(Write),
    /// Follow the Purposes: `deletionPolicy`, `idleGrace`, `ceilings`.
    FollowPurposes(Write),
    /// Give back the room of a request that is no more.
    ReleaseOrphan {
        /// What has to be confirmed first.
        confirm: ConfirmAbsent,
        /// The compare-and-swap.
        write: Write,
    },
    /// Note since when nobody uses the Cluster.
    MarkIdle(Write),
    /// Somebody uses the Cluster again: forget since when nobody did.
    MarkUsed(Write),
    /// Take nothing new; a compare-and-swap, so that nobody takes room at the same time.
    MarkDraining(Write),
    /// Delete the Cluster that nobody uses.
    Delete(Write),
    /// Note in a request that its Cluster goes by force, before it does.
    NoteLost(Write),
    /// Let the Cluster go: nobody uses it, or it is deleted by force.
    RemoveFinalizer {
        /// The write.
        write: Write,
        /// What an Event says first: who loses the Cluster, and what may be left of it.
        told: Option<String>,
    },
    /// Say in the status what was found.
    WriteStatus(Write),
}

impl ClusterPlan {
    /// The write, if there is one.
    pub fn write(&self) -> Option<&Write> {
        match self {
            ClusterPlan::Done { .. } => None,
            ClusterPlan::AddFinalizer(write)
            | ClusterPlan::FollowPurposes(write)
            | ClusterPlan::ReleaseOrphan { write, .. }
            | ClusterPlan::MarkIdle(write)
            | ClusterPlan::MarkUsed(write)
            | ClusterPlan::MarkDraining(write)
            | ClusterPlan::NoteLost(write)
            | ClusterPlan::Delete(write)
            | ClusterPlan::RemoveFinalizer { write, .. }
            | ClusterPlan::WriteStatus(write) => Some(write),
        }
    }
}
