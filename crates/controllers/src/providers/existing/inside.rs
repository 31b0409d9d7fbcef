//! What provider `existing` writes into a cluster: whose it is, and nothing else; and how all that is the platform's goes
//! out again.
//!
//! # Guarantees
//! Only what bears the platform's labels goes. Namespaces that were made for AccessRequests stay, since they hold what
//! their tenants made.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names::{ACCESS_NAMESPACE, CLUSTER_UID};
use allotment_core::access::removal_of_leftovers;
use allotment_core::providers::Claim;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};

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

/// Takes out what the platform made, unless the cluster is another Cluster's by now.
pub(super) async fn leave(cluster: &Client, order: &Order) -> Result<(), kube::Error> {
    match read_claim(cluster, order).await? {
        Claim::Others { .. } => Ok(()),
        Claim::NotRead | Claim::Free | Claim::Ours => take_out(cluster, order).await,
    }
}

/// Takes out all that is the platform's: identities, rights, the namespace that was made for them; last, whose it is.
async fn take_out(cluster: &Client, order: &Order) -> Result<(), kube::Error> {
    let objects = inside::read_all(cluster).await?;
    inside::change(cluster, &removal_of_leftovers(objects, &BTreeSet::new())).await?;
    clusters::take_out(cluster).await?;
    let maps = Api::<ConfigMap>::namespaced(cluster.clone(), ACCESS_NAMESPACE);
    let ours = |labels: &BTreeMap<String, String>| labels.get(CLUSTER_UID) == Some(&order.uid);
    if let Some(map) = maps.get_opt(CLAIM).await?.filter(|map| ours(map.labels())) {
        gone(maps.delete(CLAIM, &this_one(map.uid())).await)?;
    }
    let namespaces = Api::<Namespace>::all(cluster.clone());
    if let Some(namespace) = namespaces.get_opt(ACCESS_NAMESPACE).await?.filter(|found| ours(found.labels())) {
        gone(namespaces.delete(ACCESS_NAMESPACE, &this_one(namespace.uid())).await)?;
    }
    Ok(())
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
