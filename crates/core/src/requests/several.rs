//! Choosing for several requests at once: each sees what the ones before it got, and those that join the same
//! Cluster share one write of it.
//!
//! # Guarantees
//! What is chosen is what one decision after another would choose, each carried out before the next. The order is
//! that of the queue: higher priority, then older.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::binding::Binding;
use super::forecast::{Destination, destination};
use super::queue::QueueOrder;
use super::request::{decide_placed, decide_request, has_finalizer, prefix_for, room, take_over, tenant};
use super::snapshot::{Snapshot, annotation};
use crate::write::{ObjectKey, Write};
use allotment_api::names;
use allotment_api::requests::{Cluster, Tenant};

/// A write for one or more requests. Those of one choice may be made side by side.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Take a request under the platform's finalizer, before it is bound to anything.
    TakeOver {
        /// The request.
        request: ObjectKey,
        /// The write.
        write: Write,
    },
    /// Enter requests in the `spec.tenants` of a Cluster.
    TakeRoom {
        /// The requests, in the order in which they were decided.
        requests: Vec<ObjectKey>,
        /// The compare-and-swap of the Cluster.
        write: Write,
    },
    /// A choice that nobody shares, such as a new Cluster: the only one of its round, since those after it depend on what
    /// comes of it.
    Alone {
        /// The request.
        request: ObjectKey,
        /// The write.
        write: Write,
    },
}

impl Step {
    /// What to write.
    pub fn write(&self) -> &Write {
        match self {
            Step::TakeOver { write, .. } | Step::TakeRoom { write, .. } | Step::Alone { write, .. } => write,
        }
    }

    /// For whom.
    pub fn requests(&self) -> &[ObjectKey] {
        match self {
            Step::TakeRoom { requests, .. } => requests,
            Step::TakeOver { request, .. } | Step::Alone { request, .. } => std::slice::from_ref(request),
        }
    }
}

/// A request that joins a Cluster which others are on already.
struct Joining {
    cluster: ObjectKey,
    tenant: Tenant,
    /// What comes first: it is not taken over yet.
    first: Option<Write>,
}

/// The next writes for these requests, as far as they choose a Cluster for one; empty when none of them has to be
/// chosen for. The snapshot is changed while choosing, and is as before afterwards. `proposals` as for
/// [`decide_request`].
pub fn choose_together(
    snapshot: &mut Snapshot,
    requests: impl IntoIterator<Item = ObjectKey>,
    now: Timestamp,
    proposals: &mut dyn Iterator<Item = String>,
) -> Vec<Step> {
    let mut queue: Vec<ObjectKey> = requests.into_iter().collect();
    queue.sort_by_cached_key(|key| snapshot.request(key).map(QueueOrder::of));
    let mut steps = Vec::new();
    // By Cluster: how many tenants it has, and who joins in this round, those that are not taken over yet as well.
    let mut joined: BTreeMap<ObjectKey, (usize, Vec<Option<ObjectKey>>)> = BTreeMap::new();
    for request in queue {
        let found = join(snapshot, &request, now, proposals);
        if let Found::Joins(joining) = found {
            let taken_over = joining.first.is_none();
            steps.extend(joining.first.map(|write| Step::TakeOver { request: request.clone(), write }));
            let before = snapshot.assume(&joining.cluster, joining.tenant);
            let (_, joins) = joined.entry(joining.cluster).or_insert_with(|| (before, Vec::new()));
            joins.push(taken_over.then_some(request));
            continue;
        }
        let plan = match found {
            Found::Goes(destination) => decide_placed(snapshot, &request, *destination, now, proposals),
            Found::Joins(_) | Found::Bound => decide_request(snapshot, &request, now, proposals),
        };
        if !plan.chooses() {
            continue;
        }
        if steps.is_empty() && joined.is_empty() {
            steps.extend(plan.write().map(|write| Step::Alone { request, write: write.clone() }));
        }
        break;
    }
    for (key, (before, joins)) in joined {
        let Some(cluster) = snapshot.cluster(&key) else { continue };
        let (old, new) = cluster.spec.tenants.split_at(before);
        let come = new.iter().zip(&joins).filter(|(_, joins)| joins.is_some()).map(|(tenant, _)| tenant);
        let tenants: Vec<&Tenant> = old.iter().chain(come).collect();
        if tenants.len() > before {
            let write = room(&cluster.metadata, &tenants, None);
            steps.push(Step::TakeRoom { requests: joins.into_iter().flatten().collect(), write });
        }
        snapshot.forget_assumed(&key, before);
    }
    steps
}

/// What was found out about a request on the way.
enum Found {
    /// It only joins others.
    Joins(Box<Joining>),
    /// Where it goes that does not only join others; finding it out again would cost as much as it did.
    Goes(Box<Destination>),
    /// That is not to be asked: it is bound, or is not to be bound.
    Bound,
}

/// Where a request goes, and how if it only joins others there.
fn join(snapshot: &Snapshot, key: &ObjectKey, now: Timestamp, proposals: &mut dyn Iterator<Item = String>) -> Found {
    let Some(request) = snapshot.requests.get(key) else { return Found::Bound };
    let Some(uid) = request.metadata.uid.as_deref() else { return Found::Bound };
    let is_free =
        request.metadata.deletion_timestamp.is_none() && matches!(Binding::of(snapshot, request, now), Binding::None);
    if !is_free {
        return Found::Bound;
    }
    let destination = destination(snapshot, request, now);
    let joins = match &destination {
        Destination::Existing { cluster, asked } => snapshot
            .clusters
            .get(cluster)
            .filter(|chosen| !asked.dedicated && is_shared_already(chosen))
            .and_then(|chosen| prefix_for(asked, request, &chosen.spec.tenants, proposals))
            .map(|prefix| (cluster.clone(), prefix)),
        Destination::New { .. } | Destination::Refused(_) | Destination::NoNamespace { .. } => None,
    };
    let Some((cluster, prefix)) = joins else { return Found::Goes(Box::new(destination)) };
    let held = has_finalizer(&request.metadata, names::REQUEST_FINALIZER);
    let first = (!held).then(|| take_over(request, &cluster));
    Found::Joins(Box::new(Joining { cluster, tenant: tenant(key, uid, prefix), first }))
}

/// Whether one tenant more changes nothing of a Cluster but its tenants.
fn is_shared_already(cluster: &Cluster) -> bool {
    let marked = |mark| annotation(&cluster.metadata, mark).is_some();
    !cluster.spec.tenants.is_empty() && !marked(names::IDLE_SINCE) && !marked(names::SPARE)
}
