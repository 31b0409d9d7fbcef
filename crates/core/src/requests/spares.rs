//! Spare Clusters: what a Purpose's `warm` asks for, and which spares are too many.
//!
//! A spare is a Cluster that the platform made for no request: a note on it says so, until its first tenant
//! takes room and the note goes in the same write. Requests find spares as they find any open Cluster.
//!
//! # Guarantees
//! The name of a spare is noted in the Purpose before the spare is made, so that lost replies, crashes and
//! other schedulers make the same one again. Spares beyond `warm` go after their grace, the least useful first.

use std::collections::BTreeMap;

use allotment_api::names;
use allotment_api::reasons::ConditionType;
use allotment_api::requests::{Cluster, ClusterProviderRef, ClusterRequestSpec};
use k8s_openapi::jiff::Timestamp;

use super::aggregate::{Aggregated, aggregate};
use super::conditions::is_true;
use super::making::{free_name, new_cluster};
use super::plan::PurposePlan;
use super::request::{annotate, create};
use super::select::unmet_traits;
use super::snapshot::{Snapshot, annotation};
use crate::write::{Kind, ObjectKey};

/// What a spare is worth; the least is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// The next request of its Purpose gets it.
    Open,
    /// It would, but takes nothing now: its provider is not ready, or it is unhealthy.
    Closed,
    /// No request of its Purpose gets it as things are.
    Useless,
}

/// The spares of a Purpose, best first.
struct Ranked<'a> {
    spares: Vec<(Worth, bool, &'a ObjectKey)>,
    warm: usize,
}

impl Ranked<'_> {
    /// Whether a spare is one of those that `warm` keeps.
    fn keeps(&self, key: &ObjectKey) -> bool {
        let useful = |(worth, ..): &&(Worth, bool, &ObjectKey)| *worth != Worth::Useless;
        self.spares.iter().filter(useful).take(self.warm).any(|(_, _, kept)| *kept == key)
    }
}

/// The next write for a Purpose: another spare, if one is missing and may be made. `proposals` are random texts
/// as for [`super::decide_request`].
pub fn decide_purpose(
    snapshot: &Snapshot,
    name: &str,
    now: Timestamp,
    proposals: &mut dyn Iterator<Item = String>,
) -> PurposePlan {
    let nothing = PurposePlan::Done { again: None };
    let Some(purpose) = snapshot.purposes.get(name) else { return nothing };
    let Some(asked) = asked_alone(snapshot, name) else { return nothing };
    let ranked = rank(snapshot, name, Some(&asked), now);
    let open = || ranked.spares.iter().filter(|(worth, ..)| *worth == Worth::Open);
    if open().count() >= ranked.warm || purpose.metadata.deletion_timestamp.is_some() {
        let overdue = open().filter_map(|(_, _, key)| snapshot.becomes_overdue(snapshot.clusters.get(key)?));
        return PurposePlan::Done { again: overdue.min() };
    }
    let nowhere = asked.namespace.as_ref().is_some_and(|namespace| !snapshot.namespaces.contains_key(namespace));
    if nowhere || snapshot.purpose_is_full(name).is_some() {
        return nothing;
    }
    // A spare has no requester in whose namespace it could live, dedicated or not.
    let namespace = asked.namespace.as_deref().unwrap_or(names::CLUSTERS_NAMESPACE);
    let Some((provider, profile, version)) = snapshot.best_profile(&asked) else { return nothing };
    let recorded = annotation(&purpose.metadata, names::SPARE_NAME).and_then(ObjectKey::parse);
    match recorded.filter(|key| key.namespace == namespace && !snapshot.clusters.contains_key(key)) {
        Some(key) => {
            let profile = ClusterProviderRef { name: provider, profile };
            let purposes = [name.to_owned()];
            let mut spare = new_cluster(snapshot, &purposes, &asked, &key, profile, version.text, Vec::new());
            spare.metadata.annotations = Some([(names::SPARE.to_owned(), "true".to_owned())].into());
            PurposePlan::CreateSpare(create(Kind::Cluster, key, &spare))
        }
        None => match free_name(snapshot, namespace, name, proposals) {
            Some(key) => {
                let note = BTreeMap::from([(names::SPARE_NAME, Some(key.to_string()))]);
                PurposePlan::RecordSpareName(annotate(Kind::Purpose, &purpose.metadata, &note))
            }
            None => nothing,
        },
    }
}

/// What a request for this Purpose alone asks for, which is what a spare is made for.
fn asked_alone(snapshot: &Snapshot, name: &str) -> Option<Aggregated> {
    let request = ClusterRequestSpec { purposes: vec![name.to_owned()], ..ClusterRequestSpec::default() };
    aggregate(&request, &[(name, snapshot.purpose(name)?)], &snapshot.equivalences).ok()
}

/// Ranks the spares of a Purpose by what a request for it alone asks for; nothing is asked where it contradicts itself.
fn rank<'a>(snapshot: &'a Snapshot, name: &str, asked: Option<&Aggregated>, now: Timestamp) -> Ranked<'a> {
    let warm = snapshot.purpose(name).and_then(|purpose| usize::try_from(purpose.warm?).ok()).unwrap_or(0);
    let keys = snapshot.unused_spares.get(name).into_iter().flatten();
    let mut spares: Vec<_> = keys
        .filter_map(|key| {
            let cluster = snapshot.clusters.get(key)?;
            let worth = asked.map_or(Worth::Useless, |asked| worth(snapshot, cluster, asked, now));
            Some((worth, !is_true(cluster, ConditionType::ClusterHealthy), key))
        })
        .collect();
    spares.sort_unstable();
    Ranked { spares, warm }
}

fn worth(snapshot: &Snapshot, cluster: &Cluster, asked: &Aggregated, now: Timestamp) -> Worth {
    let fits = snapshot.profile_of(cluster).is_none_or(|profile| unmet_traits(profile, asked).is_empty());
    if !fits || cluster.spec.dedicated != Some(asked.dedicated) || snapshot.is_overdue(cluster, now) {
        return Worth::Useless;
    }
    if snapshot.closed(cluster).is_some() { Worth::Closed } else { Worth::Open }
}

/// Whether a Cluster is a spare: made for no request, and none came yet.
pub(crate) fn is_spare(cluster: &Cluster) -> bool {
    annotation(&cluster.metadata, names::SPARE).is_some()
        && cluster.spec.deletion_policy.is_some()
        && cluster.spec.tenants.is_empty()
}

/// The Purpose of a spare that `warm` counts: one that stays, as far as it knows.
pub(crate) fn counted_for(cluster: &Cluster) -> Option<&String> {
    let goes =
        cluster.metadata.deletion_timestamp.is_some() || annotation(&cluster.metadata, names::DRAINING).is_some();
    cluster.spec.purposes.first().filter(|_| is_spare(cluster) && !goes && cluster.spec.purposes.len() == 1)
}

/// Whether a spare is one of those that `warm` keeps.
pub(crate) fn is_kept(snapshot: &Snapshot, cluster: &Cluster, now: Timestamp) -> bool {
    let key = ObjectKey::of(&cluster.metadata);
    counted_for(cluster).is_some_and(|purpose| {
        let asked = asked_alone(snapshot, purpose);
        rank(snapshot, purpose, asked.as_ref(), now).keeps(&key)
    })
}
