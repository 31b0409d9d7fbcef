//! The record of a logical control plane: one Secret, written once.

use std::collections::BTreeMap;

use allotment_api::names::CLUSTER_UID;
use allotment_pki::{CertificateAuthority, KeySource, PkiError, PrivateKey};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;

use super::Tenant;
use crate::frame::{ObjectKey, Seams};
use crate::providers::{Order, ProviderError, recorded};

/// Where all lies that is or can mint admin rights.
pub const PLANES_NAMESPACE: &str = "allot-planes";

/// The type of Secrets that Cluster API's tools know.
const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
const CLUSTER: &str = "cluster.openmcp.cloud/cluster";

const TENANT: &str = "tenant";
const VERSION: &str = "version";
const HOME: &str = "home";
const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const SERVICE_ACCOUNT_KEY: &str = "sa.key";
const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "sa.pub";

/// Lifetime of a plane's certificate authority: ten years, as kubeadm has it.
const CA_LIFETIME_SECS: i64 = 10 * 365 * 24 * 3600;

/// `c-` and 16 hexadecimal digits of the SHA-256 of the Cluster's UID.
pub(super) fn record_name(cluster_uid: &str) -> String {
    let hash = allotment_pki::sha256(cluster_uid.as_bytes());
    let digits: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("c-{digits}")
}

/// A plane that nobody has recorded yet.
pub(super) fn new_tenant(
    order: &Order,
    home: &str,
    keys: &dyn KeySource,
    seams: &Seams,
) -> Result<Tenant, ProviderError> {
    let make = || -> Result<Tenant, PkiError> {
        let now = seams.now().as_second();
        let authority = CertificateAuthority::new(&record_name(&order.uid), keys.generate()?, now, CA_LIFETIME_SECS)?;
        Ok(Tenant {
            id: seams.entropy.uid(),
            cluster: ObjectKey::new(&order.namespace, &order.name),
            cluster_uid: order.uid.clone(),
            version: order.version.clone(),
            authority,
            service_account_key: keys.generate()?,
            home: home.to_owned(),
        })
    };
    make().map_err(|error| ProviderError::Pki(Box::new(error)))
}

/// The Secret that records `tenant`.
pub(super) fn to_secret(tenant: &Tenant, order: &Order) -> Secret {
    let name = record_name(&order.uid);
    let pair = tenant.authority.pair();
    let key = tenant.service_account_key.to_pem();
    let entries: [(&str, &str); 6] = [
        (TENANT, &tenant.id),
        (VERSION, &tenant.version),
        (CA_CERTIFICATE, &pair.certificate_pem()),
        (CA_KEY, &pair.key_pem()),
        (SERVICE_ACCOUNT_KEY, &key),
        (SERVICE_ACCOUNT_PUBLIC_KEY, &tenant.service_account_key.public_key().to_pem()),
    ];
    // Absent where there can be no other.
    let home = Some((HOME, tenant.home.as_str())).filter(|(_, home)| !home.is_empty());
    let data = entries.into_iter().chain(home);
    let data = data.map(|(name, text)| (name.to_owned(), ByteString(text.as_bytes().to_vec())));
    Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(PLANES_NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([
                (CLUSTER_LABEL.to_owned(), name),
                (CLUSTER_UID.to_owned(), order.uid.clone()),
            ])),
            annotations: Some(BTreeMap::from([(CLUSTER.to_owned(), format!("{}/{}", order.namespace, order.name))])),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(data.collect()),
        ..Secret::default()
    }
}

/// The plane that `secret` records; an error if it is not that of the Cluster ordered, or not whole.
pub(super) fn from_secret(secret: &Secret, order: &Order) -> Result<Tenant, ProviderError> {
    recorded::check(secret, order)?;
    let entry = |name: &str, missing: &'static str| {
        recorded::entry(secret, name).ok_or_else(|| recorded::wrong(secret, missing))
    };
    let home = secret.data.as_ref().and_then(|data| data.get(HOME)).map(|bytes| String::from_utf8_lossy(&bytes.0));
    let authority =
        CertificateAuthority::from_pem(entry(CA_CERTIFICATE, "without ca.crt")?, entry(CA_KEY, "without ca.key")?)
            .map_err(|error| ProviderError::Pki(Box::new(error)))?;
    let service_account_key = PrivateKey::from_pem(entry(SERVICE_ACCOUNT_KEY, "without sa.key")?)
        .map_err(|error| ProviderError::Pki(Box::new(error)))?;
    Ok(Tenant {
        id: entry(TENANT, "without tenant")?.to_owned(),
        cluster: ObjectKey::new(&order.namespace, &order.name),
        cluster_uid: order.uid.clone(),
        version: entry(VERSION, "without version")?.to_owned(),
        authority,
        service_account_key,
        home: home.unwrap_or_default().into_owned(),
    })
}
