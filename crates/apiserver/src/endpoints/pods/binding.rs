//! `/binding`: gives a pod its node
//! (`k8s.io/kubernetes/pkg/registry/core/pod/storage`).

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;
use allotment_store::Expect;
use async_trait::async_trait;

use super::super::store::{self, Refused};
use super::super::update::{ATTEMPTS, MODIFIED};
use super::{about_pod, check_name, done, pod, row, set_condition};
use crate::registry::Connect;
use crate::server::Context;
use crate::status::{About, ApiError};

/// Answers a create of a Binding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Binding;

#[async_trait]
impl Connect for Binding {
    async fn create(&self, cx: &Context, object: Value, dry_run: bool) -> Result<Value, ApiError> {
        check_name(cx, &object, "Binding")?;
        let target = object.get("target").and_then(Value::as_object).cloned().unwrap_or_default();
        let node = check_target(&target)?.to_owned();
        let row = row(cx, "", "pods")?;
        for _ in 0..ATTEMPTS {
            let (entry, mut bound) = pod(cx, &row).await?;
            check_preconditions(cx, &object, &bound)?;
            bind(cx, &object, &node, &mut bound)?;
            let encoded = store::encode(&row, &bound)?;
            if dry_run {
                return Ok(done());
            }
            let expect = Expect::Revision(entry.revision);
            match store::put(cx, entry.key(&cx.tenant.tenant), expect, encoded).await {
                Ok(_) => return Ok(done()),
                Err(Refused::Conflict(_)) => {}
                Err(Refused::Failed(error)) => return Err(error),
            }
        }
        Err(ApiError::conflict(about_pod(&cx.info.name), MODIFIED))
    }
}

/// Pods are bound to nodes, by name.
fn check_target(target: &Map) -> Result<&str, ApiError> {
    let text = |name: &str| target.get(name).and_then(Value::as_str).unwrap_or_default();
    let path = Path::new("target");
    let mut errors = Vec::new();
    if !matches!(text("kind"), "" | "Node") {
        errors.push(FieldError::not_supported(&path.child("kind"), text("kind"), &["Node", "<empty>"]));
    }
    if text("name").is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    // Kubernetes has no status for it, and so it is taken for a fault of the server.
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => Ok(text("name")),
        [one] => Err(ApiError::new(500, "", one.as_str())),
        more => Err(ApiError::new(500, "", format!("[{}]", more.join(", ")))),
    }
}

/// UID and version of the binding are those that the pod has to have.
fn check_preconditions(cx: &Context, binding: &Value, pod: &Map) -> Result<(), ApiError> {
    for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let asked = binding.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default();
        let have = metadata_str(pod, field).unwrap_or_default();
        if !asked.is_empty() && asked != have {
            let (namespace, name) = (&cx.info.namespace, &cx.info.name);
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: {called} in precondition: {asked}, {called} in object meta: \
                 {have}"
            );
            return Err(ApiError::conflict(about_pod(name), &why));
        }
    }
    Ok(())
}

/// Makes of a pod one that is bound.
fn bind(cx: &Context, binding: &Value, node: &str, pod: &mut Map) -> Result<(), ApiError> {
    let name = cx.info.name.as_str();
    let spec = pod.get("spec").cloned().unwrap_or_default();
    let bound_to = spec.get("nodeName").and_then(Value::as_str).unwrap_or_default();
    let gated = spec.get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    let why = match metadata_str(pod, "deletionTimestamp") {
        Some(_) => format!("pod {name} is being deleted, cannot be assigned to a host"),
        None if !bound_to.is_empty() => format!("pod {name} is already assigned to node {bound_to:?}"),
        None if gated => format!("pod {name} has non-empty .spec.schedulingGates"),
        None => String::new(),
    };
    if !why.is_empty() {
        return Err(ApiError::conflict(About { group: "", resource: "pods/binding", name }, &why));
    }
    if let Some(spec) = pod.object_mut("spec") {
        spec.insert("nodeName", node);
    }
    if let Some(status) = pod.object_mut("status") {
        status.remove("nominatedNodeName");
    }
    for member in ["annotations", "labels"] {
        let given = binding.at(&["metadata", member]).and_then(Value::as_object).filter(|given| !given.is_empty());
        let Some(given) = given else { continue };
        if let Some(own) = pod.object_mut("metadata").and_then(|metadata| metadata.object_mut(member)) {
            for (key, value) in given.iter() {
                own.insert(key, value.clone());
            }
        }
    }
    let scheduled = allotment_machinery::json!({"type": "PodScheduled", "status": "True"});
    set_condition(cx, pod, scheduled.as_object().cloned().unwrap_or_default());
    Ok(())
}
