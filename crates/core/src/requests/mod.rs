//! Which Cluster a ClusterRequest gets, and what becomes of Clusters.
//!
//! # Flow
//! [`Snapshot`] is fed every object seen (`apply`, `delete`, `reset`) and says what is due. Per
//! ClusterRequest, [`decide_request`] gives one [`Plan`]: the next write. Once it is applied and its
//! result fed back, the next call gives the write after it, until [`Plan::Done`]; [`choose_together`] gives the writes
//! that choose Clusters for several requests at once. [`decide_cluster`] does the same per Cluster, [`decide_purpose`] per Purpose, for its spare Clusters.
//!
//! # Guarantees
//! A crash between any two writes heals: each decision rests on what is stored only. Room is taken by
//! one compare-and-swap of the Cluster, a request's one Cluster is settled by creating its Grant, so
//! any number of schedulers never exceed room and never bind a request twice.

mod aggregate;
mod binding;
mod cluster;
mod conditions;
mod expressions;
mod findings;
mod forecast;
mod making;
mod namespaces;
mod plan;
mod prefixes;
mod queue;
mod request;
mod select;
mod several;
mod snapshot;
mod spares;
mod status;
mod trial;
mod versions;

pub use aggregate::{Aggregated, Contradiction, Demand, aggregate};
pub(crate) use cluster::note_seen;
pub use cluster::{decide_cluster, end_quarantine, quarantined};
pub use conditions::{Said, find as find_condition};
pub use expressions::{Constancy, Equivalences, Expression, written};
pub use findings::{Findings, MAX_FINDINGS};
pub use forecast::{Forecast, forecast};
pub use namespaces::selects;
pub use plan::{ClusterPlan, ConfirmAbsent, Plan, PurposePlan};
pub use prefixes::{is_canonical, is_well_formed, owns};
pub use queue::{QueueOrder, Rank};
pub use request::{decide_request, is_forced, tenant_of};
pub use select::{Placement, Refusal, counts_against};
pub use several::{Step, choose_together};
pub use snapshot::{
    DEFAULT_PROVISIONING_DEADLINE_SECS, Due, MAX_TENANT_RECORDS, Object, ObjectKind, Snapshot, is_provisioned,
    live_tenants, same_for_provider,
};
pub use spares::decide_purpose;
pub use trial::{Fate, NotCarriedOut, Trial, Unending};
pub use versions::{Chosen, Offer, Version};

pub(crate) use cluster::named;
pub(crate) use conditions::{put, whole_seconds};
pub(crate) use making::ceilings;
pub(crate) use request::{add_finalizer, annotate, configured_metadata, has_finalizer, remove_finalizer, to_value};

use allotment_machinery::seams::Entropy;

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
