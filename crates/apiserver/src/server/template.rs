//! What every key space begins with: bootstrap roles, which all tenants share, and namespaces of its own.

use allotment_machinery::json;
use allotment_machinery::json::Value;
use allotment_machinery::object::Encoded;
use allotment_store::{Expect, Key, Resource, StoreError, Template, Write};
use futures::future::try_join_all;
use jiff::Timestamp;

use super::{ApiServer, TenantState};
use crate::auth::bootstrap_policy;
use crate::endpoints::metadata::format_time;

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// How often to try to make a namespace whose fate is not known.
const TRIES: usize = 5;

/// The first objects of a key space. The same `created` gives the same template, UIDs included, so that
/// all tenants share it.
pub fn bootstrap_template(created: Timestamp) -> Template {
    Template { id: format!("roles-{}", created.as_second()), entries: bootstrap_policy(created) }
}

/// Makes the namespaces that every cluster has, as far as they are missing. They are no part of the template,
/// since the UID of `kube-system` is what tools take for the identity of a cluster.
pub(super) async fn ensure_namespaces(server: &ApiServer, tenant: &TenantState) -> Result<(), StoreError> {
    try_join_all(NAMESPACES.map(|name| ensure_namespace(server, tenant, name))).await.map(drop)
}

async fn ensure_namespace(server: &ApiServer, tenant: &TenantState, name: &str) -> Result<(), StoreError> {
    let resource = Resource::new("namespaces", "");
    let key = Key { tenant: tenant.tenant.clone(), resource, namespace: "".into(), name: name.into() };
    for _ in 0..TRIES {
        if server.store().get(&key).await?.is_some() {
            return Ok(());
        }
        let Some(body) = namespace(name, server.entropy().uid(), server.clock().now()) else { return Ok(()) };
        match server.store().commit(Write::Put { key: key.clone(), expect: Expect::Absent, body }).await {
            Ok(_) => return Ok(()),
            // Somebody made it meanwhile, or this did and its reply was lost: look again.
            Err(StoreError::Conflict { .. } | StoreError::Unknown { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Unavailable { reason: format!("namespace {name} could not be made").into() })
}

fn namespace(name: &str, uid: String, created: Timestamp) -> Option<Encoded> {
    let object = json!({
        "metadata": {
            "name": name, "uid": uid, "creationTimestamp": (format_time(created)),
            "labels": {"kubernetes.io/metadata.name": name}
        },
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}
    });
    let Value::Object(object) = object else { return None };
    Encoded::of(&object)
}
