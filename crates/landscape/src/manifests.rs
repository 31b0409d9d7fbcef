//! What a new platform begins with: namespaces, our definitions, provider `local` and the four Purposes.

use std::fmt::Debug;

use allotment_api::names::{CLUSTERS_NAMESPACE, PLANES_NAMESPACE, SYSTEM_NAMESPACE};
use allotment_api::requests::{ClusterProvider, ProviderConfig, Purpose};
use allotment_controllers::frame::is_conflict;
use allotment_machinery::json::Value;
use allotment_machinery::yaml;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::landscape::LandscapeError;

const PROVIDER: &str = include_str!("../../../examples/provider.yaml");
const PURPOSES: &str = include_str!("../../../examples/purposes.yaml");
/// Says that the landscape was made: what its owner deletes from it stays deleted.
const MADE: &str = "landscape-made";
const MANAGER: &str = "allot-up";

/// Makes what is missing: namespaces and definitions always, the rest once in a folder's life.
pub(crate) async fn ensure(client: &Client) -> Result<(), LandscapeError> {
    let namespaces = [SYSTEM_NAMESPACE, PLANES_NAMESPACE, CLUSTERS_NAMESPACE].map(|name| namespace(client, name));
    futures::future::try_join(try_join_all(namespaces), definitions(client)).await?;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let made = maps.get_opt(MADE).await;
    if made.map_err(|error| call(format!("read ConfigMap {MADE}"), error))?.is_some() {
        return Ok(());
    }
    let providers: Vec<ClusterProvider> = parse(PROVIDER, "ClusterProvider")?;
    let configs: Vec<ProviderConfig> = parse(PROVIDER, "ProviderConfig")?;
    let purposes: Vec<Purpose> = parse(PURPOSES, "Purpose")?;
    futures::future::try_join3(
        create_all(client, &providers),
        create_all(client, &configs),
        create_all(client, &purposes),
    )
    .await?;
    let mark = ConfigMap {
        metadata: ObjectMeta { name: Some(MADE.to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    unless_there(maps.create(&params(), &mark).await, || format!("make ConfigMap {MADE}"))
}

fn params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

async fn namespace(client: &Client, name: &str) -> Result<(), LandscapeError> {
    let api = Api::<Namespace>::all(client.clone());
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    unless_there(api.create(&params(), &namespace).await, || format!("make namespace {name}"))
}

/// Installs our definitions, each at the same time, and brings those of an older version up to date.
async fn definitions(client: &Client) -> Result<(), LandscapeError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let installed = allotment_api::crds().into_iter().map(|wanted| {
        let api = &api;
        async move {
            let name = wanted.name_any();
            let there = match api.create(&params(), &wanted).await {
                Err(error) if is_conflict(&error) => api.get(&name).await,
                answer => return answer.map(drop).map_err(|error| call(format!("define {name}"), error)),
            };
            let there = there.map_err(|error| call(format!("read the definition {name}"), error))?;
            if covers(&to_value(&there.spec)?, &to_value(&wanted.spec)?) {
                return Ok(());
            }
            let patch = serde_json::json!({ "spec": wanted.spec });
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            let patched = api.patch(&name, &params, &Patch::Merge(patch)).await;
            patched.map(drop).map_err(|error| call(format!("bring the definition {name} up to date"), error))
        }
    });
    try_join_all(installed).await.map(drop)
}

/// Whether `there` says all that `wanted` says; the server adds defaults of its own.
fn covers(there: &serde_json::Value, wanted: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| there.get(key).is_some_and(|found| covers(found, value)))
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(found, value)| covers(found, value))
        }
        _ => there == wanted,
    }
}

/// The manifests of one kind in a file of several.
fn parse<K: DeserializeOwned>(text: &str, kind: &'static str) -> Result<Vec<K>, LandscapeError> {
    let documents = yaml::parse_stream(text);
    let documents = documents.map_err(|error| LandscapeError::Manifest { kind, source: Box::new(error) })?;
    let is_of_kind = |value: &Value| value.get("kind").and_then(Value::as_str) == Some(kind);
    let of_kind = documents.into_iter().map(|document| document.value).filter(is_of_kind);
    let read = |value: Value| {
        serde_json::from_slice(&value.to_vec())
            .map_err(|error| LandscapeError::Manifest { kind, source: Box::new(error) })
    };
    of_kind.map(read).collect()
}

async fn create_all<K>(client: &Client, objects: &[K]) -> Result<(), LandscapeError>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let api = Api::<K>::all(client.clone());
    let creations = objects.iter().map(|object| {
        let api = &api;
        async move {
            let what = || format!("make {} {}", K::kind(&()), object.name_any());
            unless_there(api.create(&params(), object).await, what)
        }
    });
    try_join_all(creations).await.map(drop)
}

fn unless_there<T>(answer: Result<T, kube::Error>, what: impl FnOnce() -> String) -> Result<(), LandscapeError> {
    match answer {
        Err(error) if !is_conflict(&error) => Err(call(what(), error)),
        _ => Ok(()),
    }
}

fn call(what: String, source: kube::Error) -> LandscapeError {
    LandscapeError::Call { what, source }
}

fn to_value<T: Serialize>(object: &T) -> Result<serde_json::Value, LandscapeError> {
    let kind = "CustomResourceDefinition";
    serde_json::to_value(object).map_err(|error| LandscapeError::Manifest { kind, source: Box::new(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_embedded_manifests_are_what_our_kinds_read() {
        assert_eq!(parse::<ClusterProvider>(PROVIDER, "ClusterProvider").unwrap().len(), 1);
        assert_eq!(parse::<ProviderConfig>(PROVIDER, "ProviderConfig").unwrap().len(), 1);
        let purposes = parse::<Purpose>(PURPOSES, "Purpose").unwrap();
        let names: Vec<_> = purposes.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["platform", "onboarding", "workload", "mcp"]);
        assert_eq!(purposes[2].spec.permission_ceiling.as_ref().map(Vec::len), Some(2));
    }

    #[test]
    fn a_definition_with_the_servers_defaults_counts_as_up_to_date() {
        let wanted = json!({"a": [{"b": 1}], "c": "x"});
        assert!(covers(&json!({"a": [{"b": 1, "default": true}], "c": "x", "d": {}}), &wanted));
        assert!(!covers(&json!({"a": [{"b": 2}], "c": "x"}), &wanted));
        assert!(!covers(&json!({"a": [{"b": 1}, {}], "c": "x"}), &wanted));
    }
}
