//! What every namespace has: the default account and the certificates by which the API is known; in one of them
//! lies how it is found ([`published`]).

use std::sync::Arc;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_mut;
use allotment_store::Resource;

use super::graph::Place;
use super::objects::{Failure, Objects};
use super::published;

/// The account that is there without being asked for.
pub(super) const DEFAULT_ACCOUNT: &str = "default";
/// The ConfigMap with the certificates by which the API is known.
pub(super) const ROOT_CERTIFICATES: &str = "kube-root-ca.crt";

const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
    such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
    Kubernetes clusters.";

/// Puts in place what a namespace lacks, unless it is being deleted.
pub(super) async fn ensure(objects: &Objects, namespace: &Arc<str>) -> Result<(), Failure> {
    let place = |resource: &str, namespace: &str, name: &str| Place {
        resource: Resource::new(resource, ""),
        namespace: Arc::from(namespace),
        name: Arc::from(name),
    };
    match objects.get(&place("namespaces", "", namespace)).await? {
        Some(found) if !found.is_deleting() => {}
        _ => return Ok(()),
    }
    if **namespace == *published::NAMESPACE {
        published::ensure(objects).await?;
    }
    let account = place("serviceaccounts", namespace, DEFAULT_ACCOUNT);
    if objects.get(&account).await?.is_none() {
        objects.create(&account, object(json!({"metadata": {}}))).await?;
    }
    let certificates = place("configmaps", namespace, ROOT_CERTIFICATES);
    let pem = &*objects.tenant().root_ca_pem;
    let data = json!({"ca.crt": pem});
    match objects.get(&certificates).await? {
        None => {
            let annotations = json!({"kubernetes.io/description": DESCRIPTION});
            let content = json!({"metadata": {"annotations": annotations}, "data": data});
            objects.create(&certificates, object(content)).await
        }
        Some(found) if found.content.get("data") == Some(&data) || found.is_deleting() => Ok(()),
        Some(found) => {
            let mut content = found.content.clone();
            content.insert("data", data);
            if let Some(annotations) =
                metadata_mut(&mut content).and_then(|metadata| metadata.object_mut("annotations"))
            {
                annotations.insert("kubernetes.io/description", DESCRIPTION);
            }
            objects.update(&found, content).await
        }
    }
}

fn object(value: Value) -> Map {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
