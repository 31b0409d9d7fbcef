//! New Clusters: what one is made of, and what it is called. Whether one is made is decided by `request` and
//! `spares`.

use allotment_api::names;
use allotment_api::requests::{Cluster, ClusterCeiling, ClusterProviderRef, ClusterSpec, KubernetesVersion, Tenant};

use super::aggregate::Aggregated;
use super::snapshot::Snapshot;
use crate::write::ObjectKey;

/// Most characters of a Purpose's name in the name of a Cluster.
const MOST_PURPOSE_IN_NAME: usize = 40;
/// Random characters in the name of a Cluster.
const NAME_SUFFIX: usize = 8;

/// A Cluster for these purposes, as it is created.
pub(crate) fn new_cluster(
    snapshot: &Snapshot,
    purposes: &[String],
    asked: &Aggregated,
    key: &ObjectKey,
    profile: ClusterProviderRef,
    version: String,
    tenants: Vec<Tenant>,
) -> Cluster {
    let mut cluster = Cluster::new(
        &key.name,
        ClusterSpec {
            cluster_provider_ref: profile,
            cluster_config_ref: None,
            kubernetes: KubernetesVersion { version: Some(version) },
            purposes: purposes.to_vec(),
            dedicated: Some(asked.dedicated),
            tenants,
            deletion_policy: Some(asked.deletion_policy),
            idle_grace: Some(asked.idle_grace.clone()),
            ceilings: ceilings(snapshot, purposes, &[]),
        },
    );
    cluster.metadata.namespace = Some(key.namespace.clone());
    cluster.metadata.finalizers = Some(vec![names::CLUSTER_FINALIZER.to_owned()]);
    cluster
}

/// A name that no Cluster of that namespace has; `None` if chance gave none.
pub(crate) fn free_name(
    snapshot: &Snapshot,
    namespace: &str,
    purpose: &str,
    proposals: &mut dyn Iterator<Item = String>,
) -> Option<ObjectKey> {
    let stem: String = purpose.chars().take(MOST_PURPOSE_IN_NAME).collect();
    let stem = stem.trim_end_matches(['-', '.']);
    proposals.take(NAME_SUFFIX).find_map(|text| {
        let key = ObjectKey::new(namespace, format!("{stem}-{}", text.get(..NAME_SUFFIX)?));
        (!snapshot.clusters.contains_key(&key)).then_some(key)
    })
}

/// The ceilings of these purposes: a Purpose's own while it exists, the one kept after.
pub(crate) fn ceilings(snapshot: &Snapshot, purposes: &[String], kept: &[ClusterCeiling]) -> Vec<ClusterCeiling> {
    let of = |name: &String| match snapshot.purpose(name) {
        Some(purpose) => {
            let rules = purpose.permission_ceiling.clone()?;
            Some(ClusterCeiling { purpose: name.clone(), rules })
        }
        None => kept.iter().find(|ceiling| ceiling.purpose == *name).cloned(),
    };
    purposes.iter().filter_map(of).collect()
}
