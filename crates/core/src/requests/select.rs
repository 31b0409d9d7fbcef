//! Where a request goes: filter with reasons, rank, take the first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names;
use allotment_api::reasons::{ConditionType, FindingReason, RequestReason};
use allotment_api::requests::{Cluster, ClusterRequest, PurposeSpec, Strategy};
use k8s_openapi::jiff::Timestamp;

use super::aggregate::{Aggregated, Contradiction, Demand, aggregate};
use super::conditions::is_true;
use super::findings::{Candidates, Findings, Unmet};
use super::namespaces::{selects, shown};
use super::snapshot::{Alike, Origin, ProfileEntry, Shape, Snapshot, annotation, is_provisioned, running_version};
use super::versions::{Chosen, Version};
use crate::write::ObjectKey;

/// Where a request goes, or why nowhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Placement {
    /// A Cluster that is there.
    Existing {
        /// Which.
        cluster: ObjectKey,
    },
    /// A new Cluster.
    New {
        /// Of this ClusterProvider.
        provider: String,
        /// From this profile.
        profile: String,
        /// Of this version.
        version: String,
    },
    /// Nowhere, as things are.
    None(Refusal),
}

/// Why a request is not granted.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Denied or Pending, and why.
    pub reason: RequestReason,
    /// The same for people.
    pub message: String,
    /// Per candidate, what it lacks; sorted and bounded.
    pub findings: Findings,
}

impl Refusal {
    fn plain(reason: RequestReason, message: String) -> Self {
        Refusal { reason, message, findings: Findings::default() }
    }

    /// A refusal before any candidate was looked at: these Purposes stand in the way.
    fn of_purposes(finding: FindingReason, reason: RequestReason, message: String, purposes: &[&str]) -> Self {
        let unmet = purposes.iter().map(|name| (finding, (*name).to_owned()));
        Refusal { reason, message, findings: Findings::of_nobody(unmet.collect()) }
    }
}

/// A Cluster that is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) purposes: &'a BTreeSet<String>,
    pub(crate) asked: &'a Aggregated,
    /// The request's namespace.
    pub(crate) from: &'a str,
    pub(crate) now: Timestamp,
}

/// Whether a Cluster in that namespace that lists a Purpose counts against its `maxClusters`: all do, but those that
/// somebody wrote by hand where the Purpose lets nobody ask for it, and operators write no Clusters.
pub fn counts_against(
    purpose: &PurposeSpec,
    namespace: &str,
    by_hand: bool,
    labels: &BTreeMap<String, String>,
) -> bool {
    let Some(allowed) = purpose.allowed_namespaces.as_ref().filter(|_| by_hand) else { return true };
    namespace == purpose.namespace.as_deref().unwrap_or(names::CLUSTERS_NAMESPACE) || selects(allowed, labels)
}

/// Most names that a message lists of what could have been asked for.
const MOST_NAMED: usize = 8;

impl Snapshot {
    /// The request together with its Purposes, or why it cannot be.
    pub fn resolve(&self, request: &ClusterRequest) -> Result<Aggregated, Refusal> {
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let named = || request.spec.purposes.iter().map(|name| (name.as_str(), self.purpose(name)));
        let unknown: Vec<&str> = named().filter(|(_, purpose)| purpose.is_none()).map(|(name, _)| name).collect();
        if !unknown.is_empty() {
            let message = format!("there is no Purpose {}{}", quoted(&unknown), self.known_purposes());
            return Err(Refusal::of_purposes(
                FindingReason::UnknownPurpose,
                RequestReason::UnknownPurpose,
                message,
                &unknown,
            ));
        }
        let purposes: Vec<(&str, &PurposeSpec)> =
            named().filter_map(|(name, purpose)| purpose.map(|purpose| (name, purpose))).collect();
        let closed = || purposes.iter().filter(|(_, purpose)| !self.namespace_allowed(namespace, purpose));
        let selectors: Vec<String> =
            closed().filter_map(|(_, purpose)| purpose.allowed_namespaces.as_ref()).map(shown).collect();
        let closed: Vec<&str> = closed().map(|(name, _)| *name).collect();
        if !closed.is_empty() {
            let message = format!(
                "Purpose {} does not allow namespace {namespace:?}; allowed are those with labels {}",
                quoted(&closed),
                selectors.join(" and ")
            );
            let reason = RequestReason::NamespaceNotAllowed;
            return Err(Refusal::of_purposes(FindingReason::NamespaceNotAllowed, reason, message, &closed));
        }
        aggregate(&request.spec, &purposes, &self.equivalences).map_err(|contradiction| match contradiction {
            Contradiction::Conflicting { first, second } => {
                let message = format!("{first:?} and {second:?} contradict each other: both mean the same trait");
                Refusal::plain(RequestReason::ConflictingTraits, message)
            }
            Contradiction::Impossible { written } => {
                let message = format!("{written:?} can never hold, since some of its traits mean the same");
                Refusal::plain(RequestReason::ImpossibleTraits, message)
            }
        })
    }

    /// Where a request goes that is bound to nothing yet.
    pub fn place(&self, request: &ClusterRequest, asked: &Aggregated, now: Timestamp) -> Placement {
        let purposes: BTreeSet<String> = request.spec.purposes.iter().cloned().collect();
        let from = request.metadata.namespace.as_deref().unwrap_or_default();
        let search = Search { purposes: &purposes, asked, from, now };
        let existing = if asked.dedicated { self.best_spare(&search) } else { self.best_shared(&search) };
        if let Some(cluster) = existing {
            return Placement::Existing { cluster };
        }
        let full = purposes.iter().find_map(|name| self.purpose_is_full(name));
        match (self.best_profile(asked), full) {
            (Some((provider, profile, chosen)), None) => Placement::New { provider, profile, version: chosen.text },
            (Some(_), Some((purpose, count))) => {
                let message = format!(
                    "no Cluster takes the request, and {count} with purpose {purpose:?} are as many as its maxClusters allows"
                );
                let detail = Some((FindingReason::MaxClustersReached, purpose));
                let reason = RequestReason::MaxClustersReached;
                Placement::None(self.refusal(&search, reason, message, detail))
            }
            (None, _) if self.waits_for_profile(asked) => {
                let reason = RequestReason::MaxClustersReached;
                let message = "no Cluster takes the request, and each profile that fits has as many as it makes; it waits \
                    until one goes";
                Placement::None(self.refusal(&search, reason, message.to_owned(), None))
            }
            (None, _) => {
                let (reason, message) = self.furthest(asked);
                Placement::None(self.refusal(&search, reason, message, None))
            }
        }
    }

    /// Why a Cluster takes nothing new, whatever is asked for; its age is not looked at.
    pub(crate) fn closed(&self, cluster: &Cluster) -> Option<FindingReason> {
        let hand_written = cluster.spec.deletion_policy.is_none();
        let healthy = is_true(cluster, ConditionType::ClusterHealthy);
        match self.profile_of(cluster) {
            _ if cluster.metadata.deletion_timestamp.is_some() => Some(FindingReason::Deleting),
            _ if annotation(&cluster.metadata, names::DRAINING).is_some() => Some(FindingReason::Draining),
            None => Some(FindingReason::Withdrawn),
            Some(profile) if !profile.ready => Some(FindingReason::NoReadyProvider),
            Some(_) if is_provisioned(cluster) && !healthy => Some(FindingReason::Unhealthy),
            Some(_) if hand_written && cluster.spec.dedicated.is_none() => Some(FindingReason::NotOpened),
            Some(_) => None,
        }
    }

    /// Whether a Cluster was never healthy though it had its time.
    pub(crate) fn is_overdue(&self, cluster: &Cluster, now: Timestamp) -> bool {
        self.becomes_overdue(cluster).is_some_and(|at| now >= at)
    }

    /// When a Cluster that was never healthy counts as unhealthy.
    pub(crate) fn becomes_overdue(&self, cluster: &Cluster) -> Option<Timestamp> {
        let created = cluster.metadata.creation_timestamp.as_ref().filter(|_| !is_provisioned(cluster))?;
        let deadline = created.0.as_second().saturating_add(self.provisioning_deadline_secs).saturating_add(1);
        Some(Timestamp::from_second(deadline).unwrap_or(Timestamp::MAX))
    }

    fn best_shared(&self, search: &Search<'_>) -> Option<ObjectKey> {
        let fitting = self.shared.iter().filter_map(|(shape, members)| {
            let rank = self.rank_shape(shape, search)?;
            let strategy = search.asked.strategy;
            let (tenants, key) = self.first_in_time(members, strategy, search.now)?;
            Some((shape.spare, rank, by_strategy(strategy, tenants), key))
        });
        fitting.min().map(|(.., key)| key.clone())
    }

    /// How well Clusters of a shape fit; `None` where they do not.
    fn rank_shape(&self, shape: &Shape, search: &Search<'_>) -> Option<Rank> {
        let Search { purposes, asked, from, .. } = *search;
        if !purposes.is_subset(&shape.purposes) || !is_within_reach(shape.home.as_deref(), asked, from) {
            return None;
        }
        let profile = self.profiles.get(&shape.provider)?.get(&shape.profile)?;
        let version = fitting_version(&shape.version, asked)?;
        let meets = asked.demands.iter().filter(|demand| !demand.optional);
        meets.clone().all(|demand| demand.expression.holds(&profile.traits)).then(|| Rank {
            deprecated: version.is_some_and(|version| profile.offer.is_deprecated(&version)),
            weight: Reverse(weight(&asked.demands, &profile.traits)),
            position: position(asked, &shape.provider, &shape.profile),
        })
    }

    /// The first by strategy, then name, that is not overdue.
    fn first_in_time<'a>(
        &'a self,
        members: &'a BTreeSet<(usize, ObjectKey)>,
        strategy: Strategy,
        now: Timestamp,
    ) -> Option<(usize, &'a ObjectKey)> {
        let in_time = |(_, key): &&(usize, ObjectKey)| {
            self.clusters.get(key).is_some_and(|cluster| !self.is_overdue(cluster, now))
        };
        if strategy == Strategy::Balanced {
            return members.iter().find(in_time).map(|(tenants, key)| (*tenants, key));
        }
        let mut below = usize::MAX;
        while let Some((tenants, _)) = members.range(..(below, ObjectKey::default())).next_back() {
            let level = members.range((*tenants, ObjectKey::default())..).take_while(|member| member.0 == *tenants);
            if let Some((tenants, key)) = level.into_iter().find(in_time) {
                return Some((*tenants, key));
            }
            below = *tenants;
        }
        None
    }

    fn best_spare(&self, search: &Search<'_>) -> Option<ObjectKey> {
        let Search { purposes, now, .. } = *search;
        let spares = self.spares.get(purposes)?.iter();
        let fitting = spares.filter_map(|key| {
            let cluster = self.clusters.get(key).filter(|cluster| !self.is_overdue(cluster, now))?;
            let reference = &cluster.spec.cluster_provider_ref;
            let shape = Shape {
                purposes: purposes.clone(),
                provider: reference.name.clone(),
                profile: reference.profile.clone(),
                version: running_version(cluster).to_owned(),
                spare: true,
                home: home(cluster),
            };
            let rank = self.rank_shape(&shape, search)?;
            Some((!is_true(cluster, ConditionType::ClusterHealthy), rank, key))
        });
        fitting.min().map(|(_, _, key)| key.clone())
    }

    pub(crate) fn best_profile(&self, asked: &Aggregated) -> Option<(String, String, Chosen)> {
        let profiles = self
            .profiles
            .iter()
            .flat_map(|(provider, list)| list.iter().map(move |(name, profile)| (provider, name, profile)));
        let fitting = profiles.filter_map(|(provider, name, profile)| {
            let required = asked.demands.iter().filter(|demand| !demand.optional);
            if !profile.ready || !required.clone().all(|demand| demand.expression.holds(&profile.traits)) {
                return None;
            }
            let chosen = profile.offer.choose(asked.version.as_ref()).ok()?;
            if self.profile_is_full(provider, name, profile) {
                return None;
            }
            let rank = Rank {
                deprecated: chosen.deprecated,
                weight: Reverse(weight(&asked.demands, &profile.traits)),
                position: position(asked, provider, name),
            };
            let tenants = self.tenants_of_profile.get(&(provider.clone(), name.clone())).copied().unwrap_or_default();
            let by_strategy = by_strategy(asked.strategy, tenants);
            Some(((rank, by_strategy, Reverse(chosen.version.clone())), provider, name, chosen))
        });
        let best = fitting.min_by(|left, right| (&left.0, left.1, left.2).cmp(&(&right.0, right.1, right.2)))?;
        Some((best.1.clone(), best.2.clone(), best.3))
    }

    /// A purpose that as many Clusters list as its `maxClusters` allows, and how many.
    pub(crate) fn purpose_is_full(&self, name: &str) -> Option<(String, usize)> {
        let most = usize::try_from(self.purpose(name)?.max_clusters?).ok()?;
        let count = self.count_clusters(name);
        (count >= most).then(|| (name.to_owned(), count))
    }

    /// How many Clusters count against a Purpose's `maxClusters`, by [`counts_against`].
    pub(crate) fn count_clusters(&self, name: &str) -> usize {
        let all = self.by_purpose.get(name).map_or(0, BTreeSet::len);
        let Some(purpose) = self.purpose(name).filter(|purpose| purpose.allowed_namespaces.is_some()) else {
            return all;
        };
        let none = BTreeMap::new();
        let by_hand = self.by_hand.get(name).into_iter().flatten();
        let uncounted = by_hand.filter(|key| {
            let labels = self.namespaces.get(&key.namespace).unwrap_or(&none);
            !counts_against(purpose, &key.namespace, true, labels)
        });
        all - uncounted.count().min(all)
    }

    /// Whether a profile has as many Clusters as it makes, those being deleted included: what they stand for is
    /// not free before they are gone.
    fn profile_is_full(&self, provider: &str, name: &str, profile: &ProfileEntry) -> bool {
        let Some(most) = profile.profile.max_clusters.map(|most| usize::try_from(most).unwrap_or(0)) else {
            return false;
        };
        self.clusters_of_profile(provider, name) >= most
    }

    /// Whether a profile lacks nothing but room for another Cluster.
    fn waits_for_profile(&self, asked: &Aggregated) -> bool {
        self.profiles.iter().any(|(provider, profiles)| {
            profiles.iter().any(|(name, profile)| {
                let unmet = self.unmet_by_profile(provider, name, profile, asked);
                matches!(unmet.as_slice(), [(FindingReason::MaxClustersReached, _)])
            })
        })
    }

    /// What a profile lacks.
    fn unmet_by_profile(&self, provider: &str, name: &str, profile: &ProfileEntry, asked: &Aggregated) -> Vec<Unmet> {
        let mut unmet = Vec::new();
        if !profile.ready {
            unmet.push((FindingReason::NoReadyProvider, String::new()));
        }
        unmet.extend(unmet_traits(profile, asked));
        if let Err(reason) = profile.offer.choose(asked.version.as_ref()) {
            unmet.push((reason, asked.version_text.clone()));
        }
        if self.profile_is_full(provider, name, profile) {
            unmet.push((FindingReason::MaxClustersReached, format!("{provider}/{name}")));
        }
        unmet
    }

    fn offered(&self, origin: &Origin, asked: &Aggregated) -> Offered<'_> {
        Offered {
            profile: self.profiles.get(&origin.provider).and_then(|profiles| profiles.get(&origin.profile)),
            fits: fitting_version(&origin.version, asked).is_some(),
        }
    }

    /// What Purposes there are, as the rest of a sentence.
    fn known_purposes(&self) -> String {
        let names: Vec<&str> = self.purposes.keys().map(String::as_str).collect();
        match names.len() {
            0 => "; there is none at all yet".to_owned(),
            count if count > MOST_NAMED => format!("; there are {} and more", quoted(&names[..MOST_NAMED])),
            1 => format!("; there is {}", quoted(&names)),
            _ => format!("; there are {}", quoted(&names)),
        }
    }

    /// What versions the profiles offer that lack nothing else, as the rest of a sentence.
    fn offered_versions(&self, asked: &Aggregated) -> String {
        let profiles = self.profiles.values().flat_map(BTreeMap::values);
        let fitting = profiles.filter(|profile| profile.ready && unmet_traits(profile, asked).is_empty());
        let versions: BTreeSet<_> = fitting.flat_map(|profile| profile.offer.current()).map(Reverse).collect();
        let texts: Vec<&str> = versions.iter().take(MOST_NAMED).map(|Reverse((_, text))| *text).collect();
        match texts.len() {
            0 => String::new(),
            count if count < versions.len() => format!("; offered are {} and older ones", texts.join(", ")),
            _ => format!("; offered: {}", texts.join(", ")),
        }
    }

    /// The reason of the profile that got furthest, and words for it.
    fn furthest(&self, asked: &Aggregated) -> (RequestReason, String) {
        let profiles = self.profiles.values().flat_map(BTreeMap::values);
        let stuck = profiles.map(|profile| {
            if !profile.ready {
                return (RequestReason::NoReadyProvider, Vec::new());
            }
            let traits = unmet_traits(profile, asked);
            match profile.offer.choose(asked.version.as_ref()) {
                _ if !traits.is_empty() => (RequestReason::NoProfileWithTrait, traits),
                Err(FindingReason::OnlyDeprecatedVersions) => (RequestReason::OnlyDeprecatedVersions, Vec::new()),
                _ => (RequestReason::VersionNotOffered, Vec::new()),
            }
        });
        let nowhere = (RequestReason::NoReadyProvider, Vec::new());
        let (reason, traits) = stuck.max_by_key(|(reason, traits)| (*reason, Reverse(traits.len()))).unwrap_or(nowhere);
        let message = match reason {
            RequestReason::NoProfileWithTrait => {
                let traits: Vec<String> = traits.into_iter().map(|(_, written)| format!("{written:?}")).collect();
                format!("no profile of a provider that is ready has {}", traits.join(" and "))
            }
            RequestReason::VersionNotOffered => {
                let version = if asked.version_text.is_empty() {
                    "any version".to_owned()
                } else {
                    format!("version {:?}", asked.version_text)
                };
                format!("no profile with the traits required offers {version}{}", self.offered_versions(asked))
            }
            RequestReason::OnlyDeprecatedVersions => match asked.version_text.as_str() {
                "" => "every version offered is deprecated; ask for one in full".to_owned(),
                version => format!("every version that matches {version:?} is deprecated; ask for one in full"),
            },
            _ => "no ClusterProvider that is ready publishes a profile".to_owned(),
        };
        (reason, message)
    }

    fn refusal(
        &self,
        search: &Search<'_>,
        reason: RequestReason,
        message: String,
        of_fitting: Option<(FindingReason, String)>,
    ) -> Refusal {
        let mut candidates =
            Candidates::with_capacity(self.profiles.len() + self.alike.values().map(BTreeMap::len).sum::<usize>());
        for (provider, profiles) in &self.profiles {
            for (name, profile) in profiles {
                let mut unmet = self.unmet_by_profile(provider, name, profile, search.asked);
                if unmet.is_empty() {
                    unmet.extend(of_fitting.clone());
                }
                candidates.add_profile(provider, name, unmet.len(), Lacking::Known(unmet));
            }
        }
        for (origin, groups) in &self.alike {
            let (offered, Origin { provider, profile, .. }) = (self.offered(origin, search.asked), origin);
            for (alike, members) in groups {
                let count = |overdue| {
                    let mut count = 0;
                    unmet_in(alike, overdue, offered, search, |_, _| count += 1);
                    count
                };
                // What is alike lacks the same, but for the age of Clusters that were never healthy.
                if alike.provisioned {
                    let source = Lacking::Alike { alike, offered, overdue: false };
                    candidates.add_all(provider, profile, members, count(false), source);
                    continue;
                }
                for (name, key) in members {
                    let overdue = self.clusters.get(key).is_some_and(|cluster| self.is_overdue(cluster, search.now));
                    let source = Lacking::Alike { alike, offered, overdue };
                    candidates.add(provider, profile, name, count(overdue), source);
                }
            }
        }
        let findings = candidates.bounded(|lacking| match lacking {
            Lacking::Known(unmet) => unmet.clone(),
            Lacking::Alike { alike, offered, overdue } => {
                let mut unmet = Vec::new();
                let add = |reason, detail: &str| unmet.push((reason, detail.to_owned()));
                unmet_in(alike, *overdue, *offered, search, add);
                unmet
            }
        });
        Refusal { reason, message, findings }
    }
}

/// What Clusters of a profile offer that run the same version.
#[derive(Clone, Copy)]
struct Offered<'a> {
    /// While it is published.
    profile: Option<&'a ProfileEntry>,
    /// Whether the version is one that is asked for.
    fits: bool,
}

/// Gives each requirement that Clusters lack which are alike. `overdue` are those that were never healthy though they had
/// their time.
fn unmet_in(
    alike: &Alike,
    overdue: bool,
    offered: Offered<'_>,
    search: &Search<'_>,
    mut each: impl FnMut(FindingReason, &str),
) {
    let Search { purposes, asked, from, .. } = *search;
    match alike.closed {
        Some(reason) => each(reason, ""),
        None if overdue => each(FindingReason::Unhealthy, ""),
        None if !is_within_reach(alike.home.as_deref(), asked, from) => each(FindingReason::NotOpened, ""),
        None => {}
    }
    for missing in purposes.iter().filter(|purpose| !alike.purposes.contains(purpose)) {
        each(FindingReason::PurposesNotCovered, missing);
    }
    let wrong_size = asked.dedicated && purposes.len() != alike.purposes.len();
    if alike.own != asked.dedicated || (alike.own && !alike.untouched) || wrong_size {
        each(FindingReason::Dedicated, "");
    } else if !alike.own && !alike.room {
        each(FindingReason::Full, "");
    }
    for demand in offered.profile.into_iter().flat_map(|profile| unmet_demands(profile, asked)) {
        each(FindingReason::NoProfileWithTrait, &demand.written);
    }
    if !offered.fits {
        each(FindingReason::VersionNotOffered, &asked.version_text);
    }
}

/// What tells what a candidate lacks.
enum Lacking<'a> {
    Known(Vec<Unmet>),
    Alike { alike: &'a Alike, offered: Offered<'a>, overdue: bool },
}

/// The namespace of a Cluster that was written by hand. Whoever may write one there owns it by `clusterRef`, so it is
/// not for requests of others.
pub(crate) fn home(cluster: &Cluster) -> Option<String> {
    cluster.spec.deletion_policy.is_none().then(|| cluster.metadata.namespace.clone().unwrap_or_default())
}

/// Whether requests of namespace `from` may go to a Cluster of that home: they may to one that the platform made, to
/// their own, and to one where the platform would have made it, since only operators write there.
fn is_within_reach(home: Option<&str>, asked: &Aggregated, from: &str) -> bool {
    let operators = asked.namespace.as_deref().unwrap_or(names::CLUSTERS_NAMESPACE);
    home.is_none_or(|home| home == from || home == operators)
}

/// Names in quotes, in a row.
fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// How well a candidate fits; the least is the best. What follows it, tenants or version and then the
/// name, depends on what is ranked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    deprecated: bool,
    weight: Reverse<i64>,
    position: usize,
}

/// Where a candidate with so many tenants stands among those that fit alike; the least is the first.
fn by_strategy(strategy: Strategy, tenants: usize) -> i64 {
    let tenants = i64::try_from(tenants).unwrap_or(i64::MAX);
    match strategy {
        Strategy::Balanced => tenants,
        Strategy::Pack => -tenants,
    }
}

fn weight(demands: &[Demand], traits: &BTreeSet<String>) -> i64 {
    let met = demands.iter().filter(|demand| demand.optional && demand.expression.holds(traits));
    met.map(|demand| i64::from(demand.weight)).sum()
}

/// Position in the Purposes' list of profiles; those not listed come last.
fn position(asked: &Aggregated, provider: &str, profile: &str) -> usize {
    let is_it = |listed: &String| listed == profile || listed.split_once('/') == Some((provider, profile));
    asked.profiles.iter().position(is_it).unwrap_or(usize::MAX)
}

/// Whether a version that runs fits what is asked: `None` if not, else the version, where it is one.
fn fitting_version(runs: &str, asked: &Aggregated) -> Option<Option<Version>> {
    let version = Version::parse(runs);
    let fits = match (&asked.version, &version) {
        (None, _) => true,
        (Some(asked), Some(runs)) => asked.matches(runs),
        (Some(_), None) => false,
    };
    fits.then_some(version)
}

pub(crate) fn unmet_traits(profile: &ProfileEntry, asked: &Aggregated) -> Vec<Unmet> {
    unmet_demands(profile, asked).map(|demand| (FindingReason::NoProfileWithTrait, demand.written.clone())).collect()
}

fn unmet_demands<'a>(profile: &'a ProfileEntry, asked: &'a Aggregated) -> impl Iterator<Item = &'a Demand> {
    let required = asked.demands.iter().filter(|demand| !demand.optional);
    required.filter(|demand| !demand.expression.holds(&profile.traits))
}
