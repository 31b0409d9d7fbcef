//! Objects of kinds that are known, given as JSON: applied and deleted.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::frame::is_gone;

/// The field manager of all that is made for providers.
const MANAGER: &str = "allot-providers";

/// Applies what stands in the object, by force: it is the platform's own.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<DynamicObject, kube::Error> {
    api(client, object).patch(name(object), &PatchParams::apply(MANAGER).force(), &Patch::Apply(object)).await
}

/// Deletes the object of that kind and name, if there is one. Gives whether nothing of it is left; a Deployment is there until
/// its Pods are gone.
pub(crate) async fn delete(client: &Client, object: &Value) -> Result<bool, kube::Error> {
    let params = match object["kind"] == "Deployment" {
        true => DeleteParams::foreground(),
        false => DeleteParams::default(),
    };
    match api(client, object).delete(name(object), &params).await {
        Err(error) if is_gone(&error) => Ok(true),
        Err(error) => Err(error),
        Ok(answer) => Ok(answer.is_right()),
    }
}

/// The same for what its provider may write: what it put there to keep the object is taken off, and what a Secret holds
/// goes at once. Nothing that writes it may have rights any more.
pub(crate) async fn take_away(client: &Client, object: &Value) -> Result<bool, kube::Error> {
    if delete(client, object).await? {
        return Ok(true);
    }
    let mut bare = json!({"metadata": {"finalizers": null}});
    if object["kind"] == "Secret" {
        bare["data"] = Value::Null;
    }
    match api(client, object).patch(name(object), &PatchParams::default(), &Patch::Merge(&bare)).await {
        Err(error) if is_gone(&error) => Ok(true),
        Err(error) => Err(error),
        // A Deployment or what else takes its time is asked for again.
        Ok(_) => Ok(false),
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |member: &str| object[member].as_str().unwrap_or_default();
    let resource = match text("kind") {
        "ConfigMap" => ApiResource::erase::<ConfigMap>(&()),
        "Deployment" => ApiResource::erase::<Deployment>(&()),
        "Lease" => ApiResource::erase::<Lease>(&()),
        "Secret" => ApiResource::erase::<Secret>(&()),
        "ServiceAccount" => ApiResource::erase::<ServiceAccount>(&()),
        "ClusterRole" => ApiResource::erase::<ClusterRole>(&()),
        "ClusterRoleBinding" => ApiResource::erase::<ClusterRoleBinding>(&()),
        "Role" => ApiResource::erase::<Role>(&()),
        "RoleBinding" => ApiResource::erase::<RoleBinding>(&()),
        other => {
            let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
            ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, other))
        }
    };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
