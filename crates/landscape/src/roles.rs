//! The roles that come with the catalog: who may read profiles, who may write private ones and Shoots, and the one that
//! holds the verbs by which dates and images are guarded. Made once at each start, as they are here.

use allotment_api::catalog::{GROUP, SPECIAL_FIELDS_ROLE};
use allotment_core::catalog::Verb;
use futures::future::try_join_all;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::landscape::LandscapeError;
use crate::manifests::call_failed;

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// Reads private profiles and Shoots; part of `view`.
const VIEW: &str = "allotment:catalog-view";
/// Writes them; part of `edit`, and so of `admin`.
const EDIT: &str = "allotment:catalog-edit";
/// Reads CloudProfiles; everybody has it who was authenticated.
const PROFILES: &str = "allotment:cloudprofiles-view";

/// Puts the roles there.
pub(crate) async fn apply(client: &Client, manager: &str) -> Result<(), LandscapeError> {
    let params = PatchParams::apply(manager).force();
    let roles = Api::<ClusterRole>::all(client.clone());
    let applied = roles_to_have().map(|(name, role)| {
        let (roles, params) = (&roles, &params);
        async move {
            let applied = roles.patch(name, params, &Patch::Apply(&role)).await;
            applied.map_err(|error| call_failed(format!("apply ClusterRole {name}"), error))
        }
    });
    try_join_all(applied).await?;
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    let applied = bindings.patch(PROFILES, &params, &Patch::Apply(&binding())).await;
    applied.map(drop).map_err(|error| call_failed(format!("apply ClusterRoleBinding {PROFILES}"), error))
}

fn roles_to_have() -> [(&'static str, Value); 4] {
    let own = ["privatecloudprofiles", "shoots"];
    let reading = ["get", "list", "watch"];
    let writing = ["create", "delete", "deletecollection", "patch", "update"];
    let verbs = [Verb::Kubernetes, Verb::MachineImages].map(Verb::as_str);
    [
        (VIEW, role(VIEW, Some("view"), &own, &reading)),
        (EDIT, role(EDIT, Some("edit"), &own, &writing)),
        (PROFILES, role(PROFILES, None, &["cloudprofiles"], &reading)),
        (SPECIAL_FIELDS_ROLE, role(SPECIAL_FIELDS_ROLE, None, &["privatecloudprofiles"], &verbs)),
    ]
}

fn role(name: &str, aggregated: Option<&str>, resources: &[&str], verbs: &[&str]) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(role) = aggregated {
        metadata["labels"] = json!({(format!("rbac.authorization.k8s.io/aggregate-to-{role}")): "true"});
    }
    let rule = json!({"apiGroups": [GROUP], "resources": resources, "verbs": verbs});
    json!({"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": metadata, "rules": [rule]})
}

fn binding() -> Value {
    json!({"apiVersion": API_VERSION, "kind": "ClusterRoleBinding", "metadata": {"name": PROFILES},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PROFILES},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}]})
}
