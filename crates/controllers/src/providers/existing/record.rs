//! The record of a Cluster that was there before: which cluster it is, and where its kubeconfig lies. One Secret, so that
//! a Cluster outlives its ProviderConfig.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};

use crate::providers::place::Place;
use crate::providers::{Order, ProviderError, recorded};

const MANAGER: &str = "allot-existing";
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
    format!("existing-{}", recorded::digits(cluster_uid))
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
        let Some(secret) = self.secrets.get_opt(&record_name(&order.uid)).await? else { return Ok(()) };
        from_secret(&secret, order)?;
        recorded::delete(&self.secrets, &secret).await
    }
}

fn to_secret(order: &Order, record: &Record) -> Secret {
    let entries = [(IDENTITY, &record.identity), (SECRET, &record.place.name), (KEY, &record.place.key)];
    let data = entries.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
    Secret {
        metadata: recorded::metadata(record_name(&order.uid), order),
        data: Some(data.collect()),
        ..Secret::default()
    }
}

fn from_secret(secret: &Secret, order: &Order) -> Result<Record, ProviderError> {
    recorded::check(secret, order)?;
    let entry = |key: &str, missing: &'static str| {
        recorded::entry(secret, key).map(str::to_owned).ok_or_else(|| recorded::wrong(secret, missing))
    };
    Ok(Record {
        identity: entry(IDENTITY, "without identity")?,
        place: Place { name: entry(SECRET, "without kubeconfigSecret")?, key: entry(KEY, "without kubeconfigKey")? },
    })
}
