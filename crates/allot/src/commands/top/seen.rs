//! What `allot top` has seen: of each object only what its row needs.

use std::collections::BTreeMap;

use allotment_api::names;
use allotment_api::reasons::{ConditionType, Verdict};
use allotment_api::requests::{AccessRequest, Cluster, ClusterProvider, ClusterRequest, Purpose};
use allotment_core::requests::counts_against;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};

use crate::client::Platform;
use crate::commands::reading::{self, Listed, Part, Unread};

/// Prefixes of a Cluster that are kept to be shown.
const MOST_PREFIXES: usize = 32;

/// A Cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterSeen {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) purposes: Vec<String>,
    pub(super) provider: String,
    pub(super) profile: String,
    pub(super) version: String,
    pub(super) dedicated: bool,
    pub(super) spare: bool,
    /// Whether somebody wrote it, not the platform.
    pub(super) by_hand: bool,
    pub(super) tenants: usize,
    pub(super) released: usize,
    pub(super) prefixes: Vec<String>,
    /// What is unwell, or `Ready`.
    pub(super) health: &'static str,
    pub(super) created: Option<Timestamp>,
    pub(super) idle_since: Option<Timestamp>,
}

/// A Purpose.
#[derive(Clone, Debug)]
pub(super) struct PurposeSeen {
    pub(super) name: String,
    pub(super) dedicated: bool,
    pub(super) max_tenants: Option<usize>,
    pub(super) max_clusters: Option<usize>,
    pub(super) warm: usize,
    /// Clusters that count against `max_clusters`: counted where all could be, else as its status says.
    pub(super) clusters: Option<usize>,
    /// Spares that its next request may get: as its status says, else as they were counted.
    pub(super) spares: Option<usize>,
    pub(super) created: Option<Timestamp>,
}

/// A ClusterRequest that is not granted.
#[derive(Clone, Debug)]
pub(super) struct RequestSeen {
    pub(super) name: String,
    pub(super) status: &'static str,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) purposes: Vec<String>,
    pub(super) created: Option<Timestamp>,
}

/// A ClusterProvider.
#[derive(Clone, Debug)]
pub(super) struct ProviderSeen {
    pub(super) name: String,
    pub(super) ready: bool,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) package: String,
    pub(super) profiles: Vec<String>,
    pub(super) created: Option<Timestamp>,
}

/// All that was seen. What may not be listed at all is `None`, which is another thing than there being none.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) clusters: Option<Vec<ClusterSeen>>,
    pub(super) purposes: Option<Vec<PurposeSeen>>,
    pub(super) requests: Option<RequestsSeen>,
    pub(super) providers: Option<Vec<ProviderSeen>>,
    /// By the UID of a Cluster: how many AccessRequests live in it.
    pub(super) access: Option<BTreeMap<String, usize>>,
    /// By provider: how many Clusters it has; `None` where not all could be counted.
    pub(super) of_provider: Option<BTreeMap<String, usize>>,
    /// Whether the Clusters and requests shown are only a part of those that there are.
    pub(super) partly: bool,
    /// What could not be seen, and why.
    pub(super) unseen: Vec<String>,
}

/// The ClusterRequests that were seen.
#[derive(Debug, Default)]
pub(super) struct RequestsSeen {
    /// How many are granted.
    pub(super) granted: usize,
    /// The others.
    pub(super) open: Vec<RequestSeen>,
}

impl Seen {
    /// Whether none of what it shows may be seen.
    pub(super) fn is_nothing(&self) -> bool {
        let none = self.clusters.is_none() && self.purposes.is_none() && self.requests.is_none();
        none && self.providers.is_none() && !self.unseen.is_empty()
    }

    /// Lists each kind once. What may not be listed everywhere is looked for in one namespace: the one asked for, or
    /// that of the context.
    pub(super) async fn read(platform: &Platform, namespace: Option<&str>) -> anyhow::Result<Self> {
        let own = namespace.unwrap_or(&platform.namespace);
        let mut look = Look { platform, unseen: Vec::new() };
        let live_in = |access: PartialObjectMeta<AccessRequest>| access.annotations().get(names::LIVE_IN).cloned();
        let access = look.at::<AccessRequest, _, _>(namespace, own, live_in).await?;
        let access = access.map(|(uids, _)| {
            let mut count: BTreeMap<String, usize> = BTreeMap::new();
            uids.into_iter().flatten().for_each(|uid| *count.entry(uid).or_default() += 1);
            count
        });
        let concerns = |cluster: &Cluster| {
            let lives = |namespace: &str| {
                let mut tenants = cluster.spec.tenants.iter().filter(|tenant| !tenant.released);
                let uid = cluster.metadata.uid.as_ref();
                cluster.metadata.namespace.as_deref() == Some(namespace)
                    || tenants.any(|tenant| tenant.namespace == namespace)
                    || uid.zip(access.as_ref()).is_some_and(|(uid, access)| access.contains_key(uid))
            };
            namespace.is_none_or(lives)
        };
        let row = |cluster: Cluster| (concerns(&cluster), ClusterSeen::of(&cluster));
        let clusters = look.at::<Cluster, _, _>(None, own, row).await?;
        let all = clusters.as_ref().filter(|(_, reach)| *reach == Reach::Asked);
        let counted = all.map(|(rows, _)| Counted::of(rows.iter().map(|(_, cluster)| cluster)));
        let purposes = look.at::<Purpose, _, _>(None, "", |purpose: Purpose| purpose).await?;
        let purposes = match purposes {
            Some((purposes, _)) => {
                let counts = match &counted {
                    Some(counted) => look.count(&purposes, counted).await?,
                    None => None,
                };
                Some(purposes.into_iter().map(|purpose| PurposeSeen::of(&purpose, counts.as_ref())).collect())
            }
            None => None,
        };
        let providers = look.at::<ClusterProvider, _, _>(None, "", ProviderSeen::of).await?;
        let requests = look.at::<ClusterRequest, _, _>(namespace, own, RequestSeen::of).await?;
        let partly = [&clusters.as_ref().map(|seen| seen.1), &requests.as_ref().map(|seen| seen.1)]
            .into_iter()
            .any(|reach| *reach == Some(Reach::Fallback));
        Ok(Seen {
            partly: partly || namespace.is_some(),
            clusters: clusters.map(|(rows, _)| {
                rows.into_iter().filter(|(concerns, _)| *concerns).map(|(_, cluster)| cluster).collect()
            }),
            purposes,
            requests: requests.map(|(rows, _)| RequestsSeen {
                granted: rows.iter().filter(|row| row.is_none()).count(),
                open: rows.into_iter().flatten().collect(),
            }),
            providers: providers.map(|(rows, _)| rows),
            access,
            of_provider: counted.map(|counted| counted.of_provider),
            unseen: look.unseen,
        })
    }
}

/// How many Clusters there are.
#[derive(Default)]
struct Counted {
    of_provider: BTreeMap<String, usize>,
    /// By Purpose.
    purposes: BTreeMap<String, OfPurpose>,
}

/// The Clusters that list a Purpose.
#[derive(Default)]
struct OfPurpose {
    made: usize,
    spares: usize,
    /// Those written by hand, by namespace.
    by_hand: BTreeMap<String, usize>,
}

impl Counted {
    fn of<'a>(clusters: impl Iterator<Item = &'a ClusterSeen>) -> Self {
        let mut counted = Counted::default();
        for cluster in clusters {
            *counted.of_provider.entry(cluster.provider.clone()).or_default() += 1;
            for purpose in &cluster.purposes {
                let of_it = counted.purposes.entry(purpose.clone()).or_default();
                of_it.spares += usize::from(cluster.spare);
                match cluster.by_hand {
                    false => of_it.made += 1,
                    true => *of_it.by_hand.entry(cluster.namespace().to_owned()).or_default() += 1,
                }
            }
        }
        counted
    }
}

/// Whether all was listed that was asked for, or another namespace in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Asked,
    Fallback,
}

/// Looks at one kind after another, and keeps what could not be seen.
struct Look<'a> {
    platform: &'a Platform,
    unseen: Vec<String>,
}

impl Look<'_> {
    /// Lists a kind, everywhere or in that namespace; where it may not be listed everywhere, in `fallback`, if that is
    /// one. Nothing where it may not be listed there either.
    async fn at<K, T, R>(
        &mut self,
        namespace: Option<&str>,
        fallback: &str,
        mut row: impl FnMut(T) -> R,
    ) -> anyhow::Result<Option<(Vec<R>, Reach)>>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Listed<K>,
        T: Part<K>,
    {
        let why = match reading::each::<K, T, R>(self.platform, namespace, &mut row, |_| {}).await {
            Ok(rows) => return Ok(Some((rows, Reach::Asked))),
            Err(Unread::Failed(error)) => return Err(error),
            Err(Unread::Forbidden(why)) => why,
        };
        if namespace.is_some() || fallback.is_empty() {
            self.unseen.push(why);
            return Ok(None);
        }
        match reading::each::<K, T, R>(self.platform, Some(fallback), &mut row, |_| {}).await {
            Ok(rows) => {
                self.unseen.push(format!("{why}; those of namespace {fallback} are shown, -n names another"));
                Ok(Some((rows, Reach::Fallback)))
            }
            Err(Unread::Failed(error)) => Err(error),
            Err(Unread::Forbidden(_)) => {
                self.unseen.push(format!("{why}; nor those of namespace {fallback}, -n names another"));
                Ok(None)
            }
        }
    }

    /// By Purpose: how many Clusters count against its `maxClusters`, and its spares. Labels of namespaces are read only
    /// where they matter to that; nothing is given where they do and may not be seen.
    async fn count(
        &mut self,
        purposes: &[Purpose],
        counted: &Counted,
    ) -> anyhow::Result<Option<BTreeMap<String, (usize, usize)>>> {
        let none = OfPurpose::default();
        let of = |purpose: &Purpose| counted.purposes.get(&purpose.name_any()).unwrap_or(&none);
        let selects = |purpose: &&Purpose| purpose.spec.allowed_namespaces.is_some() && !of(purpose).by_hand.is_empty();
        let mut labels: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        if purposes.iter().any(|purpose| selects(&purpose)) {
            let row = |namespace: PartialObjectMeta<Namespace>| (namespace.name_any(), namespace.labels().clone());
            let Some((rows, _)) = self.at::<Namespace, _, _>(None, "", row).await? else { return Ok(None) };
            labels.extend(rows);
        }
        let unlabelled = BTreeMap::new();
        let count = |purpose: &Purpose| {
            let of_it = of(purpose);
            let counts = |namespace: &str| {
                counts_against(&purpose.spec, namespace, true, labels.get(namespace).unwrap_or(&unlabelled))
            };
            let by_hand: usize =
                of_it.by_hand.iter().filter(|(namespace, _)| counts(namespace)).map(|(_, count)| count).sum();
            (purpose.name_any(), (of_it.made + by_hand, of_it.spares))
        };
        Ok(Some(purposes.iter().map(count).collect()))
    }
}

impl ClusterSeen {
    fn namespace(&self) -> &str {
        self.name.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    fn of(cluster: &Cluster) -> Self {
        let live = cluster.spec.tenants.iter().filter(|tenant| !tenant.released);
        let status = cluster.status.clone().unwrap_or_default();
        let runs = status.kubernetes.as_ref().and_then(|kubernetes| kubernetes.version.clone());
        let idle = cluster.annotations().get(names::IDLE_SINCE).and_then(|text| text.parse().ok());
        ClusterSeen {
            name: key(cluster),
            uid: cluster.uid().unwrap_or_default(),
            purposes: cluster.spec.purposes.clone(),
            provider: cluster.spec.cluster_provider_ref.name.clone(),
            profile: cluster.spec.cluster_provider_ref.profile.clone(),
            version: runs.or_else(|| cluster.spec.kubernetes.version.clone()).unwrap_or_default(),
            dedicated: cluster.spec.dedicated == Some(true),
            spare: cluster.annotations().contains_key(names::SPARE),
            by_hand: cluster.spec.deletion_policy.is_none(),
            tenants: live.clone().count(),
            released: cluster.spec.tenants.iter().filter(|tenant| tenant.released).count(),
            prefixes: live
                .filter(|tenant| !tenant.prefix.is_empty())
                .take(MOST_PREFIXES)
                .map(|tenant| tenant.prefix.clone())
                .collect(),
            health: health(cluster),
            created: created(cluster),
            idle_since: idle,
        }
    }
}

/// The first thing that is to be known of how a Cluster is.
fn health(cluster: &Cluster) -> &'static str {
    let conditions = cluster.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let deleting = cluster.metadata.deletion_timestamp.is_some();
    match () {
        () if deleting && ConditionType::DeletionBlocked.is_true(conditions) => "DeletionBlocked",
        () if deleting => "Deleting",
        () if cluster.annotations().contains_key(names::DRAINING) => "Draining",
        () if ConditionType::Withdrawn.is_true(conditions) => "Withdrawn",
        () if ConditionType::Ready.is_true(conditions) => "Ready",
        () if ConditionType::Provisioned.is_true(conditions) => "Unhealthy",
        () => "Creating",
    }
}

impl PurposeSeen {
    fn of(purpose: &Purpose, counts: Option<&BTreeMap<String, (usize, usize)>>) -> Self {
        let number = |value: Option<i32>| value.and_then(|value| usize::try_from(value).ok());
        let status = purpose.status.clone().unwrap_or_default();
        let said = |value: Option<i64>| value.and_then(|value| usize::try_from(value).ok());
        let counted = counts.and_then(|counts| counts.get(&purpose.name_any()));
        PurposeSeen {
            name: purpose.name_any(),
            dedicated: purpose.spec.dedicated == Some(true),
            max_tenants: number(purpose.spec.max_tenants),
            max_clusters: number(purpose.spec.max_clusters),
            warm: number(purpose.spec.warm).unwrap_or(0),
            clusters: counted.map(|(clusters, _)| *clusters).or_else(|| said(status.clusters)),
            spares: said(status.spares).or_else(|| counted.map(|(_, spares)| *spares)),
            created: created(purpose),
        }
    }
}

impl RequestSeen {
    /// Nothing where it is granted: of these only the number is shown.
    fn of(request: ClusterRequest) -> Option<Self> {
        let status = request.status.clone().unwrap_or_default();
        if status.status == Some(Verdict::Granted) {
            return None;
        }
        Some(RequestSeen {
            name: key(&request),
            status: status.status.map_or("Pending", |verdict| verdict.as_str()),
            reason: if status.reason.is_empty() { "NotDecidedYet".to_owned() } else { status.reason },
            message: status.message,
            created: created(&request),
            purposes: request.spec.purposes,
        })
    }
}

impl ProviderSeen {
    fn of(provider: ClusterProvider) -> Self {
        let status = provider.status.clone().unwrap_or_default();
        ProviderSeen {
            name: provider.name_any(),
            ready: status.ready,
            reason: status.reason,
            message: status.message,
            profiles: status.profiles.into_iter().map(|profile| profile.name).collect(),
            created: created(&provider),
            package: provider.spec.package,
        }
    }
}

fn key(object: &impl ResourceExt) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

fn created(object: &impl ResourceExt) -> Option<Timestamp> {
    object.meta().creation_timestamp.as_ref().map(|time| time.0)
}
