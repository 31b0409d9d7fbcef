//! What a new platform begins with: namespaces, our definitions, provider `local` and the four Purposes.

use std::fmt::Debug;
use std::time::Duration;

use allotment_api::catalog::GROUP as CATALOG_GROUP;
use allotment_api::names::{CLUSTERS_NAMESPACE, PLANES_NAMESPACE, SYSTEM_NAMESPACE};
use allotment_api::requests::{ClusterProvider, ProviderConfig, Purpose};
use allotment_controllers::frame::{Troubles, is_conflict, tell};
use allotment_machinery::json::Value;
use allotment_machinery::yaml;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::landscape::LandscapeError;
use crate::roles;

const PROVIDER: &str = include_str!("../../../examples/provider.yaml");
const PURPOSES: &str = include_str!("../../../examples/purposes.yaml");
/// Says that the landscape was made: what its owner deletes from it stays deleted.
const MADE: &str = "landscape-made";

/// Annotation of definitions: the version that installed them.
const INSTALLED_BY: &str = "cluster.openmcp.cloud/installed-by";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long a definition may take to be served once it is accepted.
const ESTABLISHED_LIMIT: Duration = Duration::from_secs(60);

/// Makes what is missing on one server, under the name of one field manager.
#[derive(Clone)]
pub(crate) struct Setup {
    client: Client,
    manager: &'static str,
    /// The catalog's kinds are somebody else's.
    without_catalog: bool,
    /// Definitions of the catalog that are somebody else's are left alone, and told here.
    foreign: Option<Troubles>,
}

impl Setup {
    pub(crate) fn new(client: Client, manager: &'static str) -> Self {
        Setup { client, manager, without_catalog: false, foreign: None }
    }

    /// The same, which leaves the catalog's kinds alone if that is asked for.
    pub(crate) fn without_catalog(self, without_catalog: bool) -> Self {
        Setup { without_catalog, ..self }
    }

    /// The same, which leaves a definition of the catalog alone that somebody else made, and tells of it.
    pub(crate) fn leaving_foreign(self, troubles: Troubles) -> Self {
        Setup { foreign: Some(troubles), ..self }
    }

    /// Makes all that is missing: namespaces and definitions always, the rest once in a platform's life.
    pub(crate) async fn ensure(&self) -> Result<(), LandscapeError> {
        futures::future::try_join3(self.namespaces(), self.definitions(), self.roles()).await?;
        self.defaults().await
    }

    /// The roles that come with the catalog.
    pub(crate) async fn roles(&self) -> Result<(), LandscapeError> {
        if self.without_catalog {
            return Ok(());
        }
        roles::apply(&self.client, self.manager).await
    }

    /// The platform's namespaces.
    pub(crate) async fn namespaces(&self) -> Result<(), LandscapeError> {
        let names = [SYSTEM_NAMESPACE, PLANES_NAMESPACE, CLUSTERS_NAMESPACE];
        try_join_all(names.map(|name| self.namespace(name))).await.map(drop)
    }

    /// Provider `local` and the Purposes, unless they have been made before.
    pub(crate) async fn defaults(&self) -> Result<(), LandscapeError> {
        if self.is_made().await? {
            return Ok(());
        }
        let providers: Vec<ClusterProvider> = parse(PROVIDER, "ClusterProvider")?;
        let configs: Vec<ProviderConfig> = parse(PROVIDER, "ProviderConfig")?;
        let purposes: Vec<Purpose> = parse(PURPOSES, "Purpose")?;
        futures::future::try_join3(self.create_all(&providers), self.create_all(&configs), self.create_all(&purposes))
            .await?;
        let mark = ConfigMap {
            metadata: ObjectMeta { name: Some(MADE.to_owned()), ..ObjectMeta::default() },
            ..ConfigMap::default()
        };
        unless_there(self.marks().create(&self.params(), &mark).await, || format!("make ConfigMap {MADE}"))
    }

    /// Whether a landscape was made here before.
    pub(crate) async fn is_made(&self) -> Result<bool, LandscapeError> {
        let made = self.marks().get_opt(MADE).await;
        Ok(made.map_err(|error| call_failed(format!("read ConfigMap {MADE}"), error))?.is_some())
    }

    fn marks(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE)
    }

    fn params(&self) -> PostParams {
        PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() }
    }

    async fn namespace(&self, name: &str) -> Result<(), LandscapeError> {
        let api = Api::<Namespace>::all(self.client.clone());
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        unless_there(api.create(&self.params(), &namespace).await, || format!("make namespace {name}"))
    }

    /// Installs our definitions, all at the same time, brings those of an older version up to date, and waits
    /// until they are served.
    pub(crate) async fn definitions(&self) -> Result<(), LandscapeError> {
        let wanted = if self.without_catalog { allotment_api::request_crds() } else { allotment_api::crds() };
        try_join_all(wanted.into_iter().map(|wanted| self.definition(wanted))).await.map(drop)
    }

    async fn definition(&self, mut wanted: CustomResourceDefinition) -> Result<(), LandscapeError> {
        let plain = wanted.clone();
        wanted.annotations_mut().insert(INSTALLED_BY.to_owned(), VERSION.to_owned());
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        let name = wanted.name_any();
        let there = api.get_opt(&name).await;
        let there = there.map_err(|error| call_failed(format!("read the definition {name}"), error))?;
        let current = match there {
            Some(there) if is_newer(&there) => there,
            Some(there) if is_marked(&there) && covers(&to_value(&there.spec)?, &to_value(&wanted.spec)?) => there,
            Some(there) if self.leaves(&there, &plain)? => return Ok(()),
            _ => {
                let params = PatchParams::apply(self.manager).force();
                let applied = api.patch(&name, &params, &Patch::Apply(&wanted)).await;
                applied.map_err(|error| call_failed(format!("apply the definition {name}"), error))?
            }
        };
        if is_established(Some(&current)) {
            return Ok(());
        }
        let established = await_condition(api, &name, is_established);
        match tokio::time::timeout(ESTABLISHED_LIMIT, established).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                let source = Box::new(error);
                Err(LandscapeError::Wait { what: format!("the definition {name}"), source })
            }
            Err(error) => Err(LandscapeError::Wait { what: format!("the definition {name}"), source: Box::new(error) }),
        }
    }

    /// Whether this is a definition of somebody else's to leave alone; then it is told.
    fn leaves(
        &self,
        there: &CustomResourceDefinition,
        wanted: &CustomResourceDefinition,
    ) -> Result<bool, LandscapeError> {
        let Some(troubles) = self.foreign.as_ref().filter(|_| wanted.spec.group == CATALOG_GROUP) else {
            return Ok(false);
        };
        if is_installed_by_us(there, wanted)? {
            return Ok(false);
        }
        let error = LandscapeError::ForeignCatalog { found: format!("CustomResourceDefinition {}", there.name_any()) };
        tell(troubles, "a definition is left as it is", &error);
        Ok(true)
    }

    async fn create_all<K>(&self, objects: &[K]) -> Result<(), LandscapeError>
    where
        K: kube::Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let api = Api::<K>::all(self.client.clone());
        let creations = objects.iter().map(|object| {
            let api = &api;
            async move {
                let what = || format!("make {} {}", K::kind(&()), object.name_any());
                unless_there(api.create(&self.params(), object).await, what)
            }
        });
        try_join_all(creations).await.map(drop)
    }
}

/// Whether a newer version installed it: brought down to ours, it would lose fields that are stored already.
fn is_newer(definition: &CustomResourceDefinition) -> bool {
    let numbers = |version: &str| version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u64>>();
    let by = definition.annotations().get(INSTALLED_BY);
    by.is_some_and(|by| numbers(by) > numbers(VERSION))
}

fn is_marked(definition: &CustomResourceDefinition) -> bool {
    definition.annotations().get(INSTALLED_BY).is_some_and(|by| by == VERSION)
}

/// Whether it is one of ours, of whichever version, or says all that ours says.
pub(crate) fn is_installed_by_us(
    there: &CustomResourceDefinition,
    wanted: &CustomResourceDefinition,
) -> Result<bool, LandscapeError> {
    Ok(there.annotations().contains_key(INSTALLED_BY) || covers(&to_value(&there.spec)?, &to_value(&wanted.spec)?))
}

fn is_established(definition: Option<&CustomResourceDefinition>) -> bool {
    let status = definition.and_then(|definition| definition.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
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

fn unless_there<T>(answer: Result<T, kube::Error>, what: impl FnOnce() -> String) -> Result<(), LandscapeError> {
    match answer {
        Err(error) if !is_conflict(&error) => Err(call_failed(what(), error)),
        _ => Ok(()),
    }
}

pub(crate) fn call_failed(what: String, source: kube::Error) -> LandscapeError {
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
    fn an_older_version_leaves_the_definitions_of_a_newer_one_alone() {
        for (by, expect) in [(Some("999.0.0"), true), (Some("0.0.9"), false), (Some(VERSION), false), (None, false)] {
            let mut definition = allotment_api::crds().remove(0);
            if let Some(by) = by {
                definition.annotations_mut().insert(INSTALLED_BY.to_owned(), by.to_owned());
            }
            assert_eq!(is_newer(&definition), expect, "{by:?}");
            assert_eq!(is_marked(&definition), by == Some(VERSION));
        }
    }

    #[test]
    fn a_definition_with_the_servers_defaults_counts_as_up_to_date() {
        let wanted = json!({"a": [{"b": 1}], "c": "x"});
        assert!(covers(&json!({"a": [{"b": 1, "default": true}], "c": "x", "d": {}}), &wanted));
        assert!(!covers(&json!({"a": [{"b": 2}], "c": "x"}), &wanted));
        assert!(!covers(&json!({"a": [{"b": 1}, {}], "c": "x"}), &wanted));
    }
}
