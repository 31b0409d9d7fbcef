//! Spare Clusters: what a Purpose's `warm` asks for, and which spares are too many.
//!
//! A spare is a Cluster that the platform made for no request: a note on it says so, until its first tenant
//! takes room and the note goes in the same write. Requests find spares as they find any open Cluster.
//!
//! # Guarantees
//! The name of a spare is noted in the Purpose before the spare is made, so that lost replies, crashes and
//! other schedulers make the same one again. Spares beyond `warm` go after their grace, the least useful first.
//! However many of them fail once they are up, no more than twice `warm` are there.

use std::collections::BTreeMap;

use allotment_api::names;
use allotment_api::reasons::{ConditionType, SparesReason};
use allotment_api::requests::{Cluster, ClusterProviderRef, ClusterRequestSpec, Purpose, PurposeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::aggregate::{Aggregated, aggregate};
use super::conditions::{Said, is_true, whole_seconds};
use super::making::{free_name, new_cluster};
use super::plan::PurposePlan;
use super::request::{annotate, create, to_value};
use super::select::unmet_traits;
use super::snapshot::{Snapshot, annotation};
use crate::write::{Kind, ObjectKey, write_status};

/// How often counts are written that alone have changed, in seconds: they change with each Cluster.
const COUNTS_AGAIN_SECS: i64 = 10;

/// How many spares there may be for each that `warm` asks for, those included that take nothing as they are.
const MOST_USEFUL: usize = 2;

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

impl<'a> Ranked<'a> {
    /// Those that the next requests get.
    fn open(&self) -> impl Iterator<Item = &'a ObjectKey> {
        self.spares.iter().filter(|(worth, ..)| *worth == Worth::Open).map(|(_, _, key)| *key)
    }

    /// Those that the next requests get, or would get if nothing were wrong with them.
    fn useful(&self) -> impl Iterator<Item = &'a ObjectKey> {
        self.spares.iter().filter(|(worth, ..)| *worth != Worth::Useless).map(|(_, _, key)| *key)
    }

    /// Whether a spare is one of those that `warm` keeps.
    fn keeps(&self, key: &ObjectKey) -> bool {
        self.useful().take(self.warm).any(|kept| kept == key)
    }
}

/// Where a Purpose stands with its spares.
enum Standing {
    /// It has them all, and they stay so until then.
    Enough { again: Option<Timestamp> },
    /// One is missing, and this write is the next step to it.
    Next(PurposePlan),
    /// One is missing and cannot be made.
    Missing(SparesReason, String),
}

/// The next write for a Purpose: another spare, if one is missing and may be made; then what its status says.
/// `proposals` are random texts as for [`super::decide_request`].
pub fn decide_purpose(
    snapshot: &Snapshot,
    name: &str,
    now: Timestamp,
    proposals: &mut dyn Iterator<Item = String>,
) -> PurposePlan {
    let Some(purpose) = snapshot.purposes.get(name) else { return PurposePlan::Done { again: None } };
    if purpose.metadata.deletion_timestamp.is_some() {
        return PurposePlan::Done { again: None };
    }
    let asked = asked_alone(snapshot, name);
    let ranked = rank(snapshot, name, asked.as_ref(), now);
    let (said, again) = match standing(snapshot, name, purpose, asked.as_ref(), &ranked, proposals) {
        Standing::Next(plan) => return plan,
        Standing::Enough { again } => {
            let message = format!("{} of the {} Clusters kept ready are there", ranked.open().count(), ranked.warm);
            ((SparesReason::AllGood, message), again)
        }
        Standing::Missing(reason, message) => {
            // One that is there may come to be of no use.
            let overdue = ranked.useful().filter_map(|key| snapshot.becomes_overdue(snapshot.clusters.get(key)?));
            ((reason, message), overdue.min())
        }
    };
    tell(snapshot, name, purpose, &ranked, said, now, again)
}

fn standing(
    snapshot: &Snapshot,
    name: &str,
    purpose: &Purpose,
    asked: Option<&Aggregated>,
    ranked: &Ranked<'_>,
    proposals: &mut dyn Iterator<Item = String>,
) -> Standing {
    if ranked.open().count() >= ranked.warm {
        let overdue = ranked.open().filter_map(|key| snapshot.becomes_overdue(snapshot.clusters.get(key)?));
        return Standing::Enough { again: overdue.min() };
    }
    let Some(asked) = asked else {
        let message = "what the Purpose asks for contradicts itself: no Cluster could ever have it".to_owned();
        return Standing::Missing(SparesReason::Contradiction, message);
    };
    // Those that are open are fewer than `warm`: the others fail as fast as they are made.
    let useful = ranked.useful().count();
    if useful >= ranked.warm.saturating_mul(MOST_USEFUL) {
        let message = format!(
            "{} of the {useful} Clusters kept ready take nothing, since they are unhealthy or their provider is not \
             ready; no more are made beside them: see what their conditions say, and mend or delete them",
            useful - ranked.open().count()
        );
        return Standing::Missing(SparesReason::Unhealthy, message);
    }
    // A spare has no requester in whose namespace it could live, dedicated or not.
    let namespace = asked.namespace.as_deref().unwrap_or(names::CLUSTERS_NAMESPACE);
    if asked.namespace.is_some() && !snapshot.namespaces.contains_key(namespace) {
        let message = format!("namespace {namespace:?}, where its Clusters are to live, does not exist");
        return Standing::Missing(SparesReason::NamespaceNotFound, message);
    }
    if let Some((_, count)) = snapshot.purpose_is_full(name) {
        let message = format!("the {count} Clusters there are are as many as its maxClusters allows");
        return Standing::Missing(SparesReason::MaxClustersReached, message);
    }
    let Some((provider, profile, version)) = snapshot.best_profile(asked) else {
        let message = "no profile of a ClusterProvider that is ready, and makes more Clusters, fits what it asks for";
        return Standing::Missing(SparesReason::NoProfileFits, message.to_owned());
    };
    let recorded = annotation(&purpose.metadata, names::SPARE_NAME).and_then(ObjectKey::parse);
    match recorded.filter(|key| key.namespace == namespace && !snapshot.clusters.contains_key(key)) {
        Some(key) => {
            let profile = ClusterProviderRef { name: provider, profile };
            let purposes = [name.to_owned()];
            let mut spare = new_cluster(snapshot, &purposes, asked, &key, profile, version.text, Vec::new());
            spare.metadata.annotations = Some([(names::SPARE.to_owned(), "true".to_owned())].into());
            Standing::Next(PurposePlan::CreateSpare(create(Kind::Cluster, key, &spare)))
        }
        None => match free_name(snapshot, namespace, name, proposals) {
            Some(key) => {
                let note = BTreeMap::from([(names::SPARE_NAME, Some(key.to_string()))]);
                let write = annotate(Kind::Purpose, &purpose.metadata, &note);
                Standing::Next(PurposePlan::RecordSpareName(write))
            }
            None => Standing::Missing(SparesReason::Making, "no free name was found for the next one yet".to_owned()),
        },
    }
}

/// What the status says, if it says anything new. How many there are changes with each Cluster, so that alone is
/// written only so often.
fn tell(
    snapshot: &Snapshot,
    name: &str,
    purpose: &Purpose,
    ranked: &Ranked<'_>,
    (reason, message): (SparesReason, String),
    now: Timestamp,
    again: Option<Timestamp>,
) -> PurposePlan {
    let old = purpose.status.clone().unwrap_or_default();
    let count = |count: usize| Some(i64::try_from(count).unwrap_or(i64::MAX));
    let generation = purpose.metadata.generation;
    let said = Said::new(ConditionType::SparesReady, reason == SparesReason::AllGood, reason.as_str(), message);
    let conditions = match ranked.warm {
        0 => Vec::new(),
        _ => vec![said.written(&old.conditions, generation, now)],
    };
    let new = PurposeStatus {
        observed_generation: generation,
        last_reconcile_time: old.last_reconcile_time.clone(),
        clusters: count(snapshot.count_clusters(name)),
        spares: count(ranked.open().count()),
        conditions,
    };
    if new == old {
        return PurposePlan::Done { again };
    }
    let only_counts = PurposeStatus { clusters: old.clusters, spares: old.spares, ..new.clone() } == old;
    let written = old.last_reconcile_time.as_ref().map(|time| time.0);
    let due = written.and_then(|at| at.saturating_add(SignedDuration::from_secs(COUNTS_AGAIN_SECS)).ok());
    if let Some(due) = due.filter(|due| only_counts && now < *due) {
        return PurposePlan::Done { again: again.into_iter().chain([due]).min() };
    }
    let new = PurposeStatus { last_reconcile_time: Some(Time(whole_seconds(now))), ..new };
    let (old, new) = (to_value(&old), to_value(&new));
    match write_status(Kind::Purpose, &purpose.metadata, &old, &new, new.clone()) {
        Some(write) => PurposePlan::WriteStatus(write),
        None => PurposePlan::Done { again },
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
