//! Which Cluster a ClusterRequest gets, and what becomes of Clusters.
//!
//! # Flow
//! [`Snapshot`] is fed every object seen (`apply`, `delete`, `reset`) and says what is due. Per
//! ClusterRequest, [`decide_request`] gives one [`Plan`]: the next write. Once it is applied and its
//! result fed back, the next call gives the write after it, until [`Plan::Done`]. [`decide_cluster`]
//! does the same per Cluster.
//!
//! # Guarantees
//! A crash between any two writes heals: each decision rests on what is stored only. Room is taken by
//! one compare-and-swap of the Cluster, a request's one Cluster is settled by creating its Grant, so
//! any number of schedulers never exceed room and never bind a request twice.

mod plan;
mod snapshot;

pub use plan::{ClusterPlan, ConfirmAbsent, Plan};
pub use snapshot::{Due, Object, ObjectKind, Snapshot};

use allotment_machinery::seams::Entropy;
use k8s_openapi::jiff::Timestamp;

use crate::write::ObjectKey;

/// The next write for a ClusterRequest. `proposals` gives random texts, a letter and nine of a
/// vowel-free alphabet ([`proposals`]), for prefixes and names of Clusters.
pub fn decide_request(
    _snapshot: &Snapshot,
    _request: &ObjectKey,
    _now: Timestamp,
    _proposals: &mut dyn Iterator<Item = String>,
) -> Plan {
    Plan::Done { again: None }
}

/// The next write for a Cluster.
pub fn decide_cluster(_snapshot: &Snapshot, _cluster: &ObjectKey, _now: Timestamp) -> ClusterPlan {
    ClusterPlan::Done { again: None }
}

/// Random texts for [`decide_request`], without end.
pub fn proposals(entropy: &dyn Entropy) -> impl Iterator<Item = String> {
    std::iter::repeat_with(|| {
        let text = entropy.suffix(10);
        let digits = "2456789";
        let first = text.chars().next().map_or('b', |first| match digits.find(first) {
            Some(index) => char::from(b"bcdfghj"[index]),
            None => first,
        });
        std::iter::once(first).chain(text.chars().skip(1)).collect()
    })
}
