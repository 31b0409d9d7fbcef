//! What all records of Clusters have in common: Secrets of namespace `allot-planes`, each of one Cluster. What stands in
//! one is its provider's.

use allotment_api::names::{CLUSTER_UID, PLANES_NAMESPACE};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::{Api, ResourceExt};

use super::{Order, ProviderError};
use crate::frame::is_gone;

const CLUSTER: &str = "cluster.openmcp.cloud/cluster";

/// 16 hexadecimal digits of the SHA-256 of a Cluster's UID.
pub(crate) fn digits(cluster_uid: &str) -> String {
    allotment_pki::sha256(cluster_uid.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The metadata of a record of that Cluster.
pub(crate) fn metadata(name: String, order: &Order) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(PLANES_NAMESPACE.to_owned()),
        labels: Some([(CLUSTER_UID.to_owned(), order.uid.clone())].into()),
        annotations: Some([(CLUSTER.to_owned(), format!("{}/{}", order.namespace, order.name))].into()),
        ..ObjectMeta::default()
    }
}

/// What is wrong with a record.
pub(crate) fn wrong(secret: &Secret, what: &'static str) -> ProviderError {
    ProviderError::Record { namespace: PLANES_NAMESPACE.to_owned(), name: secret.name_any(), what }
}

/// An error unless the record is of the Cluster ordered.
pub(crate) fn check(secret: &Secret, order: &Order) -> Result<(), ProviderError> {
    match secret.labels().get(CLUSTER_UID) {
        Some(uid) if *uid == order.uid => Ok(()),
        _ => Err(wrong(secret, "not the record of this Cluster")),
    }
}

/// The text of an entry; `None` also where it is no text.
pub(crate) fn entry<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    std::str::from_utf8(&secret.data.as_ref()?.get(key)?.0).ok()
}

/// Deletes this record, and no other of its name; one that is gone already is no error.
pub(crate) async fn delete(secrets: &Api<Secret>, secret: &Secret) -> Result<(), ProviderError> {
    let this_one = Preconditions { uid: secret.uid(), resource_version: None };
    match secrets.delete(&secret.name_any(), &DeleteParams::default().preconditions(this_one)).await {
        Err(error) if !is_gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}
