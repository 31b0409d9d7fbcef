//! What pods have beyond other kinds: admission that looks at other objects, and parts that are no objects
//! (`k8s.io/kubernetes/pkg/registry/core/pod`). No node runs them, so that what leads to a node ends here.

mod admission;
mod binding;
mod eviction;
mod streams;

use std::sync::Arc;

use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;
use allotment_store::{Entry, Key, Resource};

use super::metadata::format_time;
use super::store;
use crate::registry::Row;
use crate::server::Context;
use crate::status::{About, ApiError};

pub(crate) use admission::await_account;
pub(super) use admission::{before_create, check_overhead};
pub(crate) use binding::Binding;
pub(crate) use eviction::Eviction;
pub(crate) use streams::Stream;

/// What errors call a pod.
fn about_pod(name: &str) -> About<'_> {
    About { group: "", resource: "pods", name }
}

/// The key of an object of the core group, or of another one.
fn key(cx: &Context, resource: Resource, namespace: &str, name: &str) -> Key {
    Key { tenant: cx.tenant.tenant.clone(), resource, namespace: Arc::from(namespace), name: Arc::from(name) }
}

/// The row of a kind that every server has.
fn row(cx: &Context, group: &str, plural: &str) -> Result<Row, ApiError> {
    cx.tenant.registry().find(group, "v1", plural).ok_or_else(ApiError::unknown_resource)
}

/// The pod that the request names, as an entry and as an object.
async fn pod(cx: &Context, row: &Row) -> Result<(Arc<Entry>, Map), ApiError> {
    let name = cx.info.name.as_str();
    let key = key(cx, Resource::new("pods", ""), &cx.info.namespace, name);
    let entry = store::find(cx, &key).await?.ok_or_else(|| ApiError::not_found(about_pod(name)))?;
    let object = store::object_of(row, &entry.body())?;
    Ok((entry, object))
}

/// What a create answers that makes no object.
fn done() -> Value {
    allotment_machinery::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201
    })
}

/// The name in a body has to be that of the path.
fn check_name(cx: &Context, object: &Value, kind: &str) -> Result<(), ApiError> {
    let given = object.as_object().and_then(|object| metadata_str(object, "name")).unwrap_or_default();
    if given == cx.info.name {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("name in URL does not match name in {kind} object")))
}

/// Sets a condition of a pod; one that is there already keeps its time where it says the same.
fn set_condition(cx: &Context, pod: &mut Map, mut condition: Map) {
    let Some(status) = pod.object_mut("status") else { return };
    let list = status.get_or_insert_with("conditions", || Value::Array(Vec::new()));
    let Some(conditions) = list.as_array_mut() else { return };
    let same = |have: &Value, name: &str, condition: &Map| have.get(name) == condition.get(name);
    let position = conditions.iter().position(|have| same(have, "type", &condition));
    let since = position.map(|at| &conditions[at]).filter(|have| same(have, "status", &condition));
    let since = since.and_then(|have| have.get("lastTransitionTime")).cloned();
    let now = || Value::from(format_time(cx.server.clock().now()));
    condition.insert("lastTransitionTime", since.unwrap_or_else(now));
    condition.insert("lastProbeTime", Value::Null);
    match position {
        Some(at) => conditions[at] = Value::Object(condition),
        None => conditions.push(Value::Object(condition)),
    }
}
