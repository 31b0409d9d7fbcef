//! The record of a Cluster that was there before: which cluster it is, and where its kubeconfig lies. One Secret, so that
//! a Cluster outlives its ProviderConfig.

use std::collections::BTreeMap;

use allotment_api::names::{CLUSTER_UID, PLANES_NAMESPACE};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};

use crate::frame::is_gone;
use crate::providers::place::Place;
use crate::providers::{Order, ProviderError};

const MANAGER: &str = "allot-existing";
const CLUSTER: &str = "cluster.openmcp.cloud/cluster";
const IDENTITY: &str = "identity";
const SECRET: &str = "kubeconfigSecret";
const KEY: &str = "kubeconfigKey";

/// What is recorded of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// What tells the cluster from others.
    pub(super) identity: String,
    /// Where its kubeconfig lies.
    pub(super) place: Place,
}

/// Records, in namespace `allot-planes`.
#[derive(Clone, Debug)]
pub(super) struct Records {
    secrets: Api<Secret>,
}

/// `existing-` and 16 hexadecimal digits of the SHA-256 of the Cluster's UID.
fn record_name(cluster_uid: &str) -> String {
    let hash = allotment_pki::sha256(cluster_uid.as_bytes());
    let digits: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("existing-{digits}")
}

impl Records {
    pub(super) fn new(secrets: Api<Secret>) -> Self {
        Records { secrets }
    }

    /// What is recorded of that Cluster.
    pub(super) async fn read(&self, order: &Order) -> Result<Option<Record>, ProviderError> {
        let secret = self.secrets.get_opt(&record_name(&order.uid)).await?;
        secret.map(|secret| from_secret(&secret, order)).transpose()
    }

    /// Records it, or where its kubeconfig lies by now.
    pub(super) async fn write(&self, order: &Order, record: &Record) -> Result<(), ProviderError> {
        let secret = to_secret(order, record);
        let params = PatchParams::apply(MANAGER).force();
        self.secrets.patch(&secret.name_any(), &params, &Patch::Apply(&secret)).await?;
        Ok(())
    }

    /// Forgets the Cluster.
    pub(super) async fn delete(&self, order: &Order) -> Result<(), ProviderError> {
        let name = record_name(&order.uid);
        let Some(secret) = self.secrets.get_opt(&name).await? else { return Ok(()) };
        from_secret(&secret, order)?;
        let this_one = Preconditions { uid: secret.uid(), resource_version: None };
        match self.secrets.delete(&name, &DeleteParams::default().preconditions(this_one)).await {
            Err(error) if !is_gone(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn to_secret(order: &Order, record: &Record) -> Secret {
    let entries = [(IDENTITY, &record.identity), (SECRET, &record.place.name), (KEY, &record.place.key)];
    let data = entries.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
    Secret {
        metadata: ObjectMeta {
            name: Some(record_name(&order.uid)),
            namespace: Some(PLANES_NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([(CLUSTER_UID.to_owned(), order.uid.clone())])),
            annotations: Some(BTreeMap::from([(CLUSTER.to_owned(), format!("{}/{}", order.namespace, order.name))])),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        ..Secret::default()
    }
}

fn from_secret(secret: &Secret, order: &Order) -> Result<Record, ProviderError> {
    let wrong = |what: &'static str| ProviderError::Record {
        namespace: PLANES_NAMESPACE.to_owned(),
        name: secret.name_any(),
        what,
    };
    if secret.labels().get(CLUSTER_UID) != Some(&order.uid) {
        return Err(wrong("not the record of this Cluster"));
    }
    let entry = |key: &str, missing: &'static str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        bytes.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok()).ok_or_else(|| wrong(missing))
    };
    Ok(Record {
        identity: entry(IDENTITY, "without identity")?,
        place: Place { name: entry(SECRET, "without kubeconfigSecret")?, key: entry(KEY, "without kubeconfigKey")? },
    })
}
