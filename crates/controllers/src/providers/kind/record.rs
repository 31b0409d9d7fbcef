//! The record of a cluster that kind makes: one Secret, written before the first command, with the kubeconfig once
//! there is one.

use allotment_api::names::CLUSTER_UID;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::frame::is_conflict;
use crate::providers::place::Place;
use crate::providers::{Order, ProviderError, recorded};

const MANAGER: &str = "allot-kind";
const IMAGE: &str = "image";
const WORKERS: &str = "workers";
const KUBECONFIG: &str = "kubeconfig";

/// What is recorded of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// What kind calls it.
    pub(super) name: String,
    /// Its node image.
    pub(super) image: String,
    /// How many nodes it has beside the one of its control plane.
    pub(super) workers: i32,
    /// Whether it was made: its kubeconfig is here.
    pub(super) is_made: bool,
}

/// Records, in namespace `allot-planes`.
#[derive(Clone, Debug)]
pub(super) struct Records {
    secrets: Api<Secret>,
}

/// What kind calls the cluster of a Cluster: `allot-` and 16 hexadecimal digits of the SHA-256 of its UID. Nobody else
/// gives a cluster that name.
pub(super) fn cluster_name(cluster_uid: &str) -> String {
    format!("allot-{}", recorded::digits(cluster_uid))
}

fn record_name(cluster_uid: &str) -> String {
    format!("kind-{}", cluster_name(cluster_uid))
}

/// Where the kubeconfig of a Cluster lies.
pub(super) fn place(cluster_uid: &str) -> Place {
    Place { name: record_name(cluster_uid), key: KUBECONFIG.to_owned() }
}

impl Records {
    pub(super) fn new(secrets: Api<Secret>) -> Self {
        Records { secrets }
    }

    pub(super) async fn read(&self, order: &Order) -> Result<Option<Record>, ProviderError> {
        let secret = self.secrets.get_opt(&record_name(&order.uid)).await?;
        secret.map(|secret| from_secret(&secret, order)).transpose()
    }

    /// Records a cluster that is about to be made; what is there already counts.
    pub(super) async fn create(&self, order: &Order, image: &str, workers: i32) -> Result<Record, ProviderError> {
        let entries = [(IMAGE, image.to_owned()), (WORKERS, workers.to_string())];
        let data = entries.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
        let secret = Secret {
            metadata: recorded::metadata(record_name(&order.uid), order),
            data: Some(data.collect()),
            ..Secret::default()
        };
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match self.secrets.create(&params, &secret).await {
            Ok(written) => from_secret(&written, order),
            Err(error) if is_conflict(&error) => self.read(order).await?.ok_or(ProviderError::Api(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps the kubeconfig of a cluster that was made; its record must still be there.
    pub(super) async fn made(&self, order: &Order, kubeconfig: &str) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {"labels": {CLUSTER_UID: order.uid}}, "stringData": {KUBECONFIG: kubeconfig}});
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        self.secrets.patch(&record_name(&order.uid), &params, &Patch::Merge(&patch)).await.map(drop)
    }

    /// Forgets the cluster.
    pub(super) async fn delete(&self, order: &Order) -> Result<(), ProviderError> {
        let Some(secret) = self.secrets.get_opt(&record_name(&order.uid)).await? else { return Ok(()) };
        from_secret(&secret, order)?;
        recorded::delete(&self.secrets, &secret).await
    }
}

fn from_secret(secret: &Secret, order: &Order) -> Result<Record, ProviderError> {
    let wrong = |what: &'static str| recorded::wrong(secret, what);
    recorded::check(secret, order)?;
    let entry = |key: &str| recorded::entry(secret, key);
    Ok(Record {
        name: cluster_name(&order.uid),
        image: entry(IMAGE).map(str::to_owned).ok_or_else(|| wrong("without image"))?,
        workers: entry(WORKERS).and_then(|text| text.parse().ok()).ok_or_else(|| wrong("without workers"))?,
        is_made: entry(KUBECONFIG).is_some_and(|text| !text.is_empty()),
    })
}
