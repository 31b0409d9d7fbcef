//! Whether our kinds are somebody else's on an API server: then theirs stay as they are, and nothing is begun unless whoever
//! starts the platform says that it is to leave them alone, as it can the catalog's.

use allotment_api::catalog::GROUP;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::landscape::LandscapeError;
use crate::manifests::{call_failed, is_installed_by_us};

/// Which versions of such groups another server is to serve, in words; nothing where none. Its registration tells, whether it
/// answers or not.
pub(crate) async fn registered(
    client: &Client,
    is_meant: impl Fn(&str) -> bool,
) -> Result<Option<String>, LandscapeError> {
    let all = match Api::<APIService>::all(client.clone()).list(&ListParams::default()).await {
        Ok(all) => all,
        // A server that has none behind it.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(call_failed("list APIServices".to_owned(), error)),
    };
    let words = |one: APIService| {
        let name = one.name_any();
        let spec = one.spec.filter(|spec| spec.group.as_deref().is_some_and(&is_meant))?;
        // Those of definitions have no Service.
        let service = spec.service?;
        let (namespace, service) = (service.namespace.unwrap_or_default(), service.name.unwrap_or_default());
        Some(format!("APIService {name} (Service {namespace}/{service})"))
    };
    let found: Vec<String> = all.items.into_iter().filter_map(words).collect();
    Ok((!found.is_empty()).then(|| found.join(", ")))
}

/// What of the catalog's kinds is there and not ours, in words; nothing where all may be installed.
pub(crate) async fn found(client: &Client) -> Result<Option<String>, LandscapeError> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let (mut found, mut undefined) = (Vec::new(), Vec::new());
    for wanted in allotment_api::catalog_crds() {
        let name = wanted.name_any();
        let there = definitions.get_opt(&name).await;
        match there.map_err(|error| call_failed(format!("read the definition {name}"), error))? {
            Some(there) if is_installed_by_us(&there, &wanted)? => {}
            Some(_) => found.push(format!("CustomResourceDefinition {name}")),
            None => undefined.push(wanted.spec.names.plural),
        }
    }
    let served = served(client).await?;
    let aggregated = served.iter().filter(|(_, plural)| undefined.contains(plural));
    found.extend(aggregated.map(|(version, plural)| format!("{plural} of {version}, which have no definition")));
    Ok((!found.is_empty()).then(|| found.join(", ")))
}

/// What is served in the group, by version.
async fn served(client: &Client) -> Result<Vec<(String, String)>, LandscapeError> {
    let failed = |error| call_failed(format!("ask the API server what it serves of {GROUP}"), error);
    let groups = client.list_api_groups().await.map_err(failed)?;
    let versions = groups.groups.into_iter().filter(|group| group.name == GROUP).flat_map(|group| group.versions);
    let mut served = Vec::new();
    for version in versions {
        let version = version.group_version;
        match client.list_api_group_resources(&version).await {
            Ok(list) => served.extend(list.resources.into_iter().map(|resource| (version.clone(), resource.name))),
            // Its last definition went meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(served)
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// A server with these definitions, and these resources of the group.
    fn server(definitions: Vec<CustomResourceDefinition>, resources: &[&str]) -> Client {
        answering(definitions, resources, Value::Null)
    }

    fn answering(definitions: Vec<CustomResourceDefinition>, resources: &[&str], registrations: Value) -> Client {
        let of = move |path: &str, resources: &[String]| match path {
            "/apis" => {
                let version = json!({"groupVersion": "core.gardener.cloud/v1beta1", "version": "v1beta1"});
                let group = json!({"name": GROUP, "versions": [version], "preferredVersion": version});
                json!({"kind": "APIGroupList", "groups": if resources.is_empty() { vec![] } else { vec![group] }})
            }
            "/apis/core.gardener.cloud/v1beta1" => {
                let one = |name: &String| json!({"name": name, "singularName": "", "namespaced": true, "kind": "X", "verbs": ["get"]});
                json!({"kind": "APIResourceList", "groupVersion": "core.gardener.cloud/v1beta1",
                    "resources": resources.iter().map(one).collect::<Vec<_>>()})
            }
            "/apis/apiregistration.k8s.io/v1/apiservices" => registrations.clone(),
            _ => Value::Null,
        };
        let resources: Vec<String> = resources.iter().map(|name| (*name).to_owned()).collect();
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let name = path.rsplit('/').next().unwrap_or_default();
            let definition = definitions.iter().find(|one| one.name_any() == name);
            let answer = definition.map_or_else(|| of(&path, &resources), |one| json!(one));
            let code = if answer.is_null() { 404 } else { 200 };
            let missing =
                json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": path});
            let body = if answer.is_null() { missing } else { answer };
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async move { Ok::<_, kube::Error>(response.expect("a response")) }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn what_another_server_is_to_serve_is_named() {
        let one = |group: &str, service: Value| {
            json!({"metadata": {"name": format!("v1.{group}")}, "spec": {"group": group, "version": "v1",
                "groupPriorityMinimum": 1, "versionPriority": 1, "service": service}})
        };
        let check = async |items: Option<Vec<Value>>, expect: Option<&str>| {
            let list = items.map_or(Value::Null, |items| json!({"metadata": {}, "items": items}));
            let found = registered(&answering(Vec::new(), &[], list), |group| group == GROUP).await;
            assert_eq!(found.expect("an answer").as_deref(), expect);
        };
        let service = json!({"namespace": "garden", "name": "api"});
        // A server without such an API, or with definitions of that group.
        check(None, None).await;
        check(Some(vec![one(GROUP, Value::Null), one("metrics.k8s.io", service.clone())]), None).await;
        let theirs = "APIService v1.core.gardener.cloud (Service garden/api)";
        check(Some(vec![one("", Value::Null), one(GROUP, service)]), Some(theirs)).await;
    }

    #[tokio::test]
    async fn what_is_somebody_elses_is_named_and_what_is_ours_is_not() {
        let kinds = ["cloudprofiles", "privatecloudprofiles", "shoots"];
        let ours = allotment_api::catalog_crds;
        let check = async |definitions: Vec<CustomResourceDefinition>, resources: &[&str], expect: Option<&str>| {
            let found = found(&server(definitions, resources)).await.expect("an answer");
            assert_eq!(found.as_deref(), expect);
        };
        check(Vec::new(), &[], None).await;
        check(Vec::new(), &["seeds"], None).await;
        // As `allot crds` prints them.
        check(ours(), &kinds, None).await;
        check(ours()[..1].to_vec(), &["cloudprofiles"], None).await;
        check(
            Vec::new(),
            &["cloudprofiles", "shoots"],
            Some(
                "cloudprofiles of core.gardener.cloud/v1beta1, which have no definition, \
                 shoots of core.gardener.cloud/v1beta1, which have no definition",
            ),
        )
        .await;
        let mut other = ours();
        for version in &mut other[2].spec.versions {
            version.schema = None;
        }
        check(other.clone(), &kinds, Some("CustomResourceDefinition shoots.core.gardener.cloud")).await;
        // One of an older version of ours.
        other[2].annotations_mut().insert("cluster.openmcp.cloud/installed-by".to_owned(), "0.0.1".to_owned());
        check(other, &kinds, None).await;
    }
}
