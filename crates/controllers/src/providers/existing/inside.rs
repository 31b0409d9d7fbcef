//! What provider `existing` writes into a cluster: whose it is, and nothing else; and how all that is the platform's goes
//! out again.
//!
//! # Guarantees
//! Only what bears the platform's labels goes, and ClusterRoleBindings under tenants' prefixes: with the rule of prefixes goes what
//! kept these rights within bounds. Namespaces that were made for AccessRequests stay, since they hold what their tenants made.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names::{ACCESS_NAMESPACE, CLUSTER_UID};
use allotment_core::access::removal_of_leftovers;
use allotment_core::providers::Claim;
use allotment_core::requests::owns;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};

use crate::access::inside;
use crate::clusters;
use crate::frame::{is_conflict, is_gone};
use crate::providers::Order;

const MANAGER: &str = "allot-existing";
/// ConfigMap in namespace `allot-access` that says whose the cluster is.
const CLAIM: &str = "allot-cluster";
const UID: &str = "clusterUID";
const CLUSTER: &str = "cluster";

/// Whose the cluster is.
pub(super) async fn read_claim(cluster: &Client, order: &Order) -> Result<Claim, kube::Error> {
    let maps = Api::<ConfigMap>::namespaced(cluster.clone(), ACCESS_NAMESPACE);
    let Some(map) = maps.get_opt(CLAIM).await? else { return Ok(Claim::Free) };
    let said = |key: &str| map.data.as_ref().and_then(|data| data.get(key)).cloned().unwrap_or_default();
    if said(UID) == order.uid {
        return Ok(Claim::Ours);
    }
    Ok(Claim::Others { whose: format!("that of Cluster {} (UID {})", said(CLUSTER), said(UID)) })
}

/// Says that it is that Cluster, unless something is said there.
pub(super) async fn write_claim(cluster: &Client, order: &Order) -> Result<(), kube::Error> {
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    let labels = Some(BTreeMap::from([(CLUSTER_UID.to_owned(), order.uid.clone())]));
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(ACCESS_NAMESPACE.to_owned()),
            labels: labels.clone(),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    unless_there(Api::<Namespace>::all(cluster.clone()).create(&params, &namespace).await)?;
    let said = [(UID, order.uid.clone()), (CLUSTER, format!("{}/{}", order.namespace, order.name))];
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(CLAIM.to_owned()), labels, ..ObjectMeta::default() },
        data: Some(said.map(|(key, text)| (key.to_owned(), text)).into()),
        ..ConfigMap::default()
    };
    unless_there(Api::<ConfigMap>::namespaced(cluster.clone(), ACCESS_NAMESPACE).create(&params, &map).await)
}

/// What is left of tenants in a cluster that is left.
#[derive(Debug, Default)]
pub(super) struct OfTenants {
    /// ClusterRoleBindings of theirs, which were taken out.
    pub(super) bindings: BTreeSet<String>,
    /// Namespaces of theirs, which stay.
    pub(super) namespaces: BTreeSet<String>,
}

/// Takes out what the platform made, unless the cluster is another Cluster's by now. Tenants had those prefixes.
pub(super) async fn leave(
    cluster: &Client,
    order: &Order,
    prefixes: &BTreeSet<String>,
) -> Result<OfTenants, kube::Error> {
    match read_claim(cluster, order).await? {
        Claim::Others { .. } => Ok(OfTenants::default()),
        Claim::NotRead | Claim::Free | Claim::Ours => take_out(cluster, order, prefixes).await,
    }
}

/// Takes out all that is the platform's: identities, rights, the namespace that was made for them; last, whose it is.
async fn take_out(cluster: &Client, order: &Order, prefixes: &BTreeSet<String>) -> Result<OfTenants, kube::Error> {
    let objects = inside::read_all(cluster).await?;
    inside::change(cluster, &removal_of_leftovers(objects, &BTreeSet::new())).await?;
    // While the rule is still in force: what makes them anew meanwhile loses the right to.
    let bindings = unbind(cluster, prefixes).await?;
    let namespaces = names_under::<Namespace>(cluster, prefixes).await?;
    clusters::take_out(cluster).await?;
    let maps = Api::<ConfigMap>::namespaced(cluster.clone(), ACCESS_NAMESPACE);
    let ours = |labels: &BTreeMap<String, String>| labels.get(CLUSTER_UID) == Some(&order.uid);
    if let Some(map) = maps.get_opt(CLAIM).await?.filter(|map| ours(map.labels())) {
        gone(maps.delete(CLAIM, &this_one(map.uid())).await)?;
    }
    let all = Api::<Namespace>::all(cluster.clone());
    if let Some(namespace) = all.get_opt(ACCESS_NAMESPACE).await?.filter(|found| ours(found.labels())) {
        gone(all.delete(ACCESS_NAMESPACE, &this_one(namespace.uid())).await)?;
    }
    Ok(OfTenants { bindings, namespaces })
}

/// Takes out all ClusterRoleBindings under those prefixes. Their accounts are kept to names no longer, and may have rights in
/// their own namespaces only.
async fn unbind(cluster: &Client, prefixes: &BTreeSet<String>) -> Result<BTreeSet<String>, kube::Error> {
    let all = Api::<ClusterRoleBinding>::all(cluster.clone());
    let mut unbound = BTreeSet::new();
    loop {
        let found = names_under::<ClusterRoleBinding>(cluster, prefixes).await?;
        // One that a finalizer holds gives rights no less.
        if found.is_empty() {
            return Ok(unbound);
        }
        for name in found {
            let free = Patch::Merge(serde_json::json!({"metadata": {"finalizers": null}}));
            gone(all.patch(&name, &PatchParams::default(), &free).await.map(drop))?;
            gone(all.delete(&name, &DeleteParams::default()).await)?;
            unbound.insert(name);
        }
    }
}

/// Names of the objects of that kind that begin with one of the prefixes.
async fn names_under<K>(cluster: &Client, prefixes: &BTreeSet<String>) -> Result<BTreeSet<String>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    if prefixes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let all = Api::<K>::all(cluster.clone()).list_metadata(&ListParams::default()).await?;
    let names = all.into_iter().map(|object| object.name_any());
    Ok(names.filter(|name| prefixes.iter().any(|prefix| owns(prefix, name))).collect())
}

fn this_one(uid: Option<String>) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions { uid, resource_version: None })
}

fn unless_there<T>(answer: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(error) if !is_conflict(&error) => Err(error),
        _ => Ok(()),
    }
}

fn gone<T>(answer: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}
