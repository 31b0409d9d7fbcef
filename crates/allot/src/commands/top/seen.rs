//! What `allot top` has seen: of each object only what its row needs.

use std::collections::BTreeMap;

use allotment_api::names;
use allotment_api::reasons::{ConditionType, Verdict};
use allotment_api::requests::{AccessRequest, Cluster, ClusterProvider, ClusterRequest, Purpose};
use k8s_openapi::jiff::Timestamp;
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::client::Platform;
use crate::commands::reading::{self, Listed, Unread};

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

/// All that was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) clusters: Vec<ClusterSeen>,
    pub(super) purposes: Vec<PurposeSeen>,
    pub(super) requests: Vec<RequestSeen>,
    /// How many requests are granted.
    pub(super) granted: usize,
    pub(super) providers: Vec<ProviderSeen>,
    /// By the UID of a Cluster: how many AccessRequests live in it.
    pub(super) access: BTreeMap<String, usize>,
    /// Whether only one namespace was looked at for Clusters.
    pub(super) partly: bool,
    /// What could not be seen, and why.
    pub(super) unseen: Vec<String>,
}

impl Seen {
    /// Lists each kind once. What may not be listed everywhere is looked for in one namespace: the one asked for, or
    /// that of the context.
    pub(super) async fn read(platform: &Platform, namespace: Option<&str>) -> anyhow::Result<Self> {
        let mut seen = Seen::default();
        let own = namespace.unwrap_or(&platform.namespace);
        let unseen = &mut seen.unseen;
        for uid in access(platform, namespace, own, unseen).await? {
            *seen.access.entry(uid).or_default() += 1;
        }
        let concerns = |cluster: &Cluster| {
            let lives = |namespace: &str| {
                let mut tenants = cluster.spec.tenants.iter().filter(|tenant| !tenant.released);
                cluster.metadata.namespace.as_deref() == Some(namespace)
                    || tenants.any(|tenant| tenant.namespace == namespace)
                    || cluster.metadata.uid.as_ref().is_some_and(|uid| seen.access.contains_key(uid))
            };
            namespace.is_none_or(lives)
        };
        let row = |cluster: Cluster| concerns(&cluster).then(|| ClusterSeen::of(&cluster));
        let (clusters, partly) = reach(platform, None, own, row, unseen).await?;
        let purposes = reach(platform, None, "", PurposeSeen::of, unseen).await?.0;
        let providers = reach(platform, None, "", ProviderSeen::of, unseen).await?.0;
        let requests = reach(platform, namespace, own, RequestSeen::of, unseen).await?.0;
        seen.granted = requests.iter().filter(|request| request.is_none()).count();
        seen.requests = requests.into_iter().flatten().collect();
        (seen.clusters, seen.partly) = (clusters.into_iter().flatten().collect(), partly || namespace.is_some());
        (seen.purposes, seen.providers) = (purposes, providers);
        Ok(seen)
    }
}

/// The UIDs of Clusters in which AccessRequests live, once for each; annotations alone tell.
async fn access(
    platform: &Platform,
    namespace: Option<&str>,
    fallback: &str,
    unseen: &mut Vec<String>,
) -> anyhow::Result<Vec<String>> {
    let uids = std::cell::RefCell::new(Vec::new());
    let begin = || uids.borrow_mut().clear();
    let take = |access: PartialObjectMeta<AccessRequest>| {
        uids.borrow_mut().extend(access.annotations().get(names::LIVE_IN).cloned());
    };
    let mut read = reading::each_metadata::<AccessRequest>(platform, namespace, begin, take).await;
    if let (Err(Unread::Forbidden(why)), None) = (&read, namespace) {
        let why = why.clone();
        read = reading::each_metadata::<AccessRequest>(platform, Some(fallback), begin, take).await;
        unseen.push(instead(why, read.is_ok(), fallback));
    }
    match read {
        Ok(()) => {}
        Err(Unread::Failed(error)) => return Err(error),
        Err(Unread::Forbidden(why)) if namespace.is_some() => unseen.push(why),
        Err(Unread::Forbidden(_)) => {}
    }
    Ok(uids.into_inner())
}

/// What could not be seen, and what is shown instead.
fn instead(why: String, shown: bool, fallback: &str) -> String {
    match shown {
        true => format!("{why}; those of namespace {fallback} are shown, -n names another"),
        false => why,
    }
}

impl ClusterSeen {
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
    fn of(purpose: Purpose) -> Self {
        let number = |value: Option<i32>| value.and_then(|value| usize::try_from(value).ok());
        PurposeSeen {
            name: purpose.name_any(),
            dedicated: purpose.spec.dedicated == Some(true),
            max_tenants: number(purpose.spec.max_tenants),
            max_clusters: number(purpose.spec.max_clusters),
            warm: number(purpose.spec.warm).unwrap_or(0),
            created: created(&purpose),
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

/// Lists a kind, everywhere or in that namespace; where it may not be listed everywhere, in `fallback`. Gives whether
/// it had to.
async fn reach<K, T>(
    platform: &Platform,
    namespace: Option<&str>,
    fallback: &str,
    row: impl Fn(K) -> T,
    unseen: &mut Vec<String>,
) -> anyhow::Result<(Vec<T>, bool)>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    K::Scope: Listed<K>,
{
    let rows = std::cell::RefCell::new(Vec::new());
    let begin = || rows.borrow_mut().clear();
    let take = |object: K| rows.borrow_mut().push(row(object));
    match reading::each::<K>(platform, namespace, begin, take).await {
        Ok(()) => return Ok((rows.into_inner(), false)),
        Err(Unread::Failed(error)) => return Err(error),
        Err(Unread::Forbidden(why)) if namespace.is_some() || fallback.is_empty() => unseen.push(why),
        Err(Unread::Forbidden(why)) => {
            let read = reading::each::<K>(platform, Some(fallback), begin, take).await;
            unseen.push(instead(why, read.is_ok(), fallback));
            if let Err(Unread::Failed(error)) = read {
                return Err(error);
            }
        }
    }
    Ok((rows.into_inner(), true))
}
