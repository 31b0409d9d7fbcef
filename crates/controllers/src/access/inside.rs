//! The inside of a Cluster, as far as an AccessRequest has to do with it: read, changed, asked for tokens.

use std::collections::BTreeSet;

use allotment_api::names::ACCESS_REQUEST;
use allotment_core::access::{Change, InsideState};
use allotment_core::write::ObjectKey;
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::request::MANAGER;
use crate::frame::{ReconcileError, is_conflict, is_gone};

/// Reads what lies in the Cluster for the AccessRequest of that UID, and which of `namespaces` exist. `endpoint` is where
/// the Cluster is reached.
pub(super) async fn read(
    cluster: &Client,
    request_uid: &str,
    namespaces: &BTreeSet<String>,
    endpoint: String,
) -> Result<InsideState, kube::Error> {
    let own = format!("{ACCESS_REQUEST}={request_uid}");
    let lists = objects(cluster, &own);
    let api = Api::<Namespace>::all(cluster.clone());
    let looks = namespaces.iter().map(|name| {
        let api = &api;
        async move { Ok::<_, kube::Error>(api.get_metadata_opt(name).await?.map(|_| name.clone())) }
    });
    let (objects, found) = futures::future::try_join(lists, try_join_all(looks)).await?;
    Ok(InsideState { objects, namespaces: found.into_iter().flatten().collect(), endpoint, ..InsideState::default() })
}

/// Reads what lies in the Cluster for any AccessRequest.
pub(crate) async fn read_all(cluster: &Client) -> Result<Vec<Value>, kube::Error> {
    objects(cluster, ACCESS_REQUEST).await
}

/// Every object of the kinds that access consists of, by label.
async fn objects(cluster: &Client, labels: &str) -> Result<Vec<Value>, kube::Error> {
    let params = ListParams::default().labels(labels);
    let lists = futures::future::try_join5(
        list::<ServiceAccount>(cluster, &params),
        list::<ClusterRole>(cluster, &params),
        list::<ClusterRoleBinding>(cluster, &params),
        list::<Role>(cluster, &params),
        list::<RoleBinding>(cluster, &params),
    );
    let (accounts, cluster_roles, cluster_bindings, roles, bindings) = lists.await?;
    Ok([accounts, cluster_roles, cluster_bindings, roles, bindings].concat())
}

async fn list<K>(cluster: &Client, params: &ListParams) -> Result<Vec<Value>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let items = Api::<K>::all(cluster.clone()).list(params).await?.items;
    items
        .into_iter()
        .map(|item| {
            let mut value = serde_json::to_value(item).map_err(kube::Error::SerdeError)?;
            // Items of lists do not say what they are.
            value["apiVersion"] = K::api_version(&()).into();
            value["kind"] = K::kind(&()).into();
            Ok(value)
        })
        .collect()
}

/// Makes the changes in their order. Creations that stand side by side are made at once, since none of
/// them needs another but the namespace that it lies in.
pub(crate) async fn change(cluster: &Client, changes: &[Change]) -> Result<(), kube::Error> {
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let alike = |change: &&Change| same_stage(first, change);
        let count = rest.iter().take_while(alike).count();
        let (stage, later) = rest.split_at(count.max(1));
        try_join_all(stage.iter().map(|change| one(cluster, change))).await?;
        rest = later;
    }
    Ok(())
}

/// Whether two changes may be made at the same time.
fn same_stage(first: &Change, other: &Change) -> bool {
    match (first, other) {
        (Change::Create(first), Change::Create(other)) => {
            (first["kind"] == "Namespace") == (other["kind"] == "Namespace")
        }
        _ => false,
    }
}

async fn one(cluster: &Client, change: &Change) -> Result<(), kube::Error> {
    match change {
        Change::Delete { api_version, kind, key, uid } => {
            let api = dynamic(cluster, api_version, kind, &key.namespace);
            let this_one = Preconditions { uid: Some(uid.clone()), resource_version: None };
            match api.delete(&key.name, &DeleteParams::default().preconditions(this_one)).await {
                Err(error) if !is_gone(&error) => Err(error),
                _ => Ok(()),
            }
        }
        Change::Apply(value) => {
            let (api, object) = parse(cluster, value)?;
            let name = object.metadata.name.clone().unwrap_or_default();
            // Force: the rights inside are what was asked for, whoever changed them.
            api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await.map(drop)
        }
        Change::Create(value) => {
            let (api, object) = parse(cluster, value)?;
            // Not applied: who finds something of that name there must not make it its own.
            let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
            match api.create(&params, &object).await {
                Err(error) if is_conflict(&error) && value["kind"] == "Namespace" => Ok(()),
                answer => answer.map(drop),
            }
        }
    }
}

fn parse(cluster: &Client, value: &Value) -> Result<(Api<DynamicObject>, DynamicObject), kube::Error> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
    let api = dynamic(cluster, text("apiVersion"), text("kind"), namespace);
    let object = serde_json::from_value(value.clone()).map_err(kube::Error::SerdeError)?;
    Ok((api, object))
}

/// The kinds that access consists of; there are no others, so that none has to be discovered.
fn dynamic(cluster: &Client, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let resource = match kind {
        "Namespace" => ApiResource::erase::<Namespace>(&()),
        "ServiceAccount" => ApiResource::erase::<ServiceAccount>(&()),
        "Role" => ApiResource::erase::<Role>(&()),
        "RoleBinding" => ApiResource::erase::<RoleBinding>(&()),
        "ClusterRole" => ApiResource::erase::<ClusterRole>(&()),
        "ClusterRoleBinding" => ApiResource::erase::<ClusterRoleBinding>(&()),
        other => {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, other))
        }
    };
    if namespace.is_empty() {
        Api::all_with(cluster.clone(), &resource)
    } else {
        Api::namespaced_with(cluster.clone(), namespace, &resource)
    }
}

/// A token and when it ends. It has no `Debug`, so that it is shown nowhere.
pub(super) struct Token {
    pub(super) token: String,
    pub(super) expires: Timestamp,
}

/// Asks the Cluster for a token of that ServiceAccount; the lifetime may turn out otherwise.
pub(super) async fn mint(cluster: &Client, account: &ObjectKey, lifetime_secs: i64) -> Result<Token, ReconcileError> {
    let accounts = Api::<ServiceAccount>::namespaced(cluster.clone(), &account.namespace);
    let spec = Some(TokenRequestSpec { expiration_seconds: Some(lifetime_secs), ..TokenRequestSpec::default() });
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = accounts.create_token_request(&account.name, &PostParams::default(), &request).await?;
    let status = answer.status.unwrap_or_default();
    match (status.token, status.expiration_timestamp) {
        (Some(token), Some(expires)) => Ok(Token { token, expires: expires.0 }),
        _ => Err(ReconcileError::NoToken { account: account.clone() }),
    }
}
