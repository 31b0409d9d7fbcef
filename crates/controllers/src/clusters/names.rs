//! The names of a Cluster's own objects, as far as they begin with prefixes of tenants, new or former.
//!
//! # Guarantees
//! - Read is all that the Cluster's API server keeps itself. What another server serves behind it (an APIService) is read where
//!   that answers: no namespace, role or ServiceAccount is there, and one that is away holds nobody up.
//! - Not counted are objects that nobody chose the names of: the APIServices that a server makes of a definition's versions.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names::TENANT;
use futures::TryStreamExt;
use kube::api::{ApiResource, ListParams, PartialObjectMeta};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use tracing::debug;

use crate::frame::{is_gone, told};

/// Names of one call: few calls, bounded replies.
const PAGE: u32 = 500;
/// The group of APIServices, which tell what is served by other servers.
const REGISTRATION: &str = "apiregistration.k8s.io";
/// Label of APIServices that the server makes by itself.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const CLUSTER_SCOPE: &str = "Cluster";

/// An object of the whole cluster.
struct Seen<'a> {
    kind: &'a str,
    name: &'a str,
    labels: &'a BTreeMap<String, String>,
}

/// An object that bears a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// An object of the whole cluster whose name begins with the prefix, and that nobody said is of the tenant with that UID.
pub(crate) async fn bearer(cluster: &Client, prefix: &str, tenant: &str) -> Result<Option<Bearer>, kube::Error> {
    let mut found = None;
    each(cluster, |seen| {
        let own = seen.labels.get(TENANT).is_some_and(|of| of == tenant);
        if seen.name.starts_with(prefix) && !own {
            found = Some(Bearer { kind: seen.kind.to_owned(), name: seen.name.to_owned() });
        }
        found.is_none()
    })
    .await?;
    Ok(found)
}

/// Which of `prefixes` no name of an object of the whole cluster begins with. An error says that this is
/// not known of any.
pub(super) async fn free(cluster: &Client, prefixes: BTreeSet<String>) -> Result<BTreeSet<String>, kube::Error> {
    let mut free = prefixes;
    each(cluster, |seen| {
        free.retain(|prefix| !seen.name.starts_with(prefix.as_str()));
        !free.is_empty()
    })
    .await?;
    Ok(free)
}

/// Shows every object of the whole cluster, until `look` has seen enough.
async fn each(cluster: &Client, mut look: impl FnMut(&Seen<'_>) -> bool) -> Result<(), kube::Error> {
    let elsewhere = served_elsewhere(cluster).await?;
    for resource in resources(cluster).await? {
        let objects = Api::<DynamicObject>::all_with(cluster.clone(), &resource);
        let mut pages = std::pin::pin!(pages(&objects));
        loop {
            let page = match pages.try_next().await {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(error) if elsewhere.contains(&resource.api_version) => {
                    let answer = told(&error);
                    debug!(resource.api_version, answer, "another server's names are passed over: it is away");
                    break;
                }
                // It was taken out since it was found.
                Err(error) if is_gone(&error) => break,
                Err(error) => return Err(error),
            };
            for object in &page {
                let (name, labels) = (object.name_any(), object.labels());
                if resource.group == REGISTRATION && labels.contains_key(AUTOMANAGED) {
                    continue;
                }
                if !look(&Seen { kind: &resource.kind, name: &name, labels }) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Every kind of the whole cluster that can be listed, once, whichever of its versions are served: a group may have kinds
/// that its newest lacks.
async fn resources(cluster: &Client) -> Result<Vec<ApiResource>, kube::Error> {
    let (core, named) =
        futures::future::try_join(cluster.list_core_api_versions_aggregated(), cluster.list_api_groups_aggregated())
            .await?;
    let mut found = BTreeMap::new();
    for group in core.items.into_iter().chain(named.items) {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        for version in group.versions {
            let number = version.version.unwrap_or_default();
            for resource in version.resources {
                let listed = resource.verbs.iter().any(|verb| verb == "list");
                let (Some(plural), Some(kind)) = (resource.resource, resource.response_kind) else { continue };
                if !listed || resource.scope.as_deref() != Some(CLUSTER_SCOPE) {
                    continue;
                }
                found.entry((name.clone(), plural.clone())).or_insert_with(|| ApiResource {
                    group: name.clone(),
                    version: number.clone(),
                    api_version: if name.is_empty() { number.clone() } else { format!("{name}/{number}") },
                    kind: kind.kind.clone().unwrap_or_default(),
                    plural,
                });
            }
        }
    }
    Ok(found.into_values().collect())
}

/// What says which server serves a version of a group.
#[derive(Clone, Debug, Deserialize)]
struct Registered {
    spec: Registration,
}

#[derive(Clone, Debug, Deserialize)]
struct Registration {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    service: Option<serde_json::Value>,
}

/// The versions of groups, as `group/version`, that other servers serve.
async fn served_elsewhere(cluster: &Client) -> Result<BTreeSet<String>, kube::Error> {
    #[derive(Deserialize)]
    struct All {
        items: Vec<Registered>,
    }
    let path = format!("/apis/{REGISTRATION}/v1/apiservices");
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    match cluster.request::<All>(request).await {
        Ok(all) => {
            let specs = all.items.into_iter().map(|one| one.spec).filter(|spec| spec.service.is_some());
            Ok(specs.map(|spec| format!("{}/{}", spec.group, spec.version)).collect())
        }
        // A server that has none behind it.
        Err(error) if is_gone(&error) => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

type Page = Vec<PartialObjectMeta<DynamicObject>>;

/// All objects, page by page, without what is in them.
fn pages(objects: &Api<DynamicObject>) -> impl futures::Stream<Item = Result<Page, kube::Error>> + '_ {
    futures::stream::try_unfold(Some(String::new()), move |token| async move {
        let Some(token) = token else { return Ok(None) };
        let mut params = ListParams::default().limit(PAGE);
        if !token.is_empty() {
            params = params.continue_token(&token);
        }
        let page = objects.list_metadata(&params).await?;
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        Ok(Some((page.items, next)))
    })
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn object(name: &str, labels: &Value) -> Value {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": name, "labels": labels}})
    }

    /// A server with namespaces, APIServices, nodes of a server behind it, and a kind of its own, that answer so.
    fn server(namespaces: &[Value], services: &[Value], metrics: u16, own: u16) -> Client {
        let resource = |plural: &str, kind: &str, scope: &str| {
            json!({"resource": plural, "responseKind": {"group": "", "version": "v1", "kind": kind}, "scope": scope,
                "singularResource": "", "verbs": ["get", "list"]})
        };
        let group = |name: &str, versions: Value| json!({"metadata": {"name": name}, "versions": versions});
        let version = |resources: Value| json!([{"version": "v1", "resources": resources}]);
        let list = |items: &[Value]| json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items});
        let discovery = |items: Value| {
            (
                200,
                json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}),
            )
        };
        let core = discovery(json!([group(
            "",
            version(json!([resource("namespaces", "Namespace", "Cluster"), resource("pods", "Pod", "Namespaced")]))
        )]));
        let named = discovery(json!([
            group("gone.example.com", json!([])),
            group("metrics.k8s.io", version(json!([resource("nodes", "NodeMetrics", "Cluster")]))),
            group("own.example.com", version(json!([resource("widgets", "Widget", "Cluster")]))),
            group(REGISTRATION, version(json!([resource("apiservices", "APIService", "Cluster")]))),
        ]));
        let registered = services.iter().map(|service| {
            let mut service = service.clone();
            service["spec"] = json!({});
            service
        });
        let metrics_service = json!({"metadata": {"name": "v1.metrics.k8s.io"},
            "spec": {"group": "metrics.k8s.io", "version": "v1", "service": {"name": "metrics", "namespace": "kube-system"}}});
        let registered: Vec<_> = registered.chain([metrics_service]).collect();
        let away = |code: u16| json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "the server is away"});
        let answer = |code: u16, body: Value| if code == 200 { (200, body) } else { (code, away(code)) };
        let answers = BTreeMap::from([
            ("/api", core),
            ("/apis", named),
            ("/api/v1/namespaces", (200, list(namespaces))),
            ("/apis/metrics.k8s.io/v1/nodes", answer(metrics, list(&[object("foo-node", &json!({}))]))),
            ("/apis/own.example.com/v1/widgets", answer(own, list(&[]))),
            ("/apis/apiregistration.k8s.io/v1/apiservices", (200, list(&registered))),
        ]);
        let answers: BTreeMap<String, (u16, Value)> =
            answers.into_iter().map(|(path, answer)| (path.to_owned(), answer)).collect();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = answers.get(request.uri().path()).cloned().unwrap_or((404, json!({})));
            let response = Response::builder().status(answer.0).body(Body::from(answer.1.to_string().into_bytes()));
            async move { response.map_err(std::io::Error::other) }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn what_bears_a_prefix_is_found_and_what_another_server_has_is_passed_over_while_that_is_away() {
        let theirs = object("foo-theirs", &json!({}));
        let labelled = |uid: &str| object("foo-app", &json!({TENANT: uid}));
        let made = object("foo-x.example.com", &json!({AUTOMANAGED: "true"}));
        let chosen = object("foo-x.example.com", &json!({}));
        let bears = |kind: &str, name: &str| Ok(Some(Bearer { kind: kind.to_owned(), name: name.to_owned() }));
        let other = object("food", &json!({}));
        for (namespaces, services, metrics, own, expect) in [
            (vec![theirs.clone()], vec![], 200, 200, bears("Namespace", "foo-theirs")),
            (vec![other], vec![], 200, 200, bears("NodeMetrics", "foo-node")),
            (vec![], vec![], 503, 200, Ok(None)),
            (vec![], vec![], 404, 200, Ok(None)),
            // What the server itself keeps and does not tell is not known.
            (vec![], vec![], 503, 503, Err(503)),
            (vec![], vec![], 503, 500, Err(500)),
            (vec![], vec![made], 503, 200, Ok(None)),
            (vec![], vec![chosen], 503, 200, bears("APIService", "foo-x.example.com")),
            (vec![labelled("u-r")], vec![], 503, 200, Ok(None)),
            (vec![labelled("another")], vec![], 503, 200, bears("Namespace", "foo-app")),
        ] {
            let server = server(&namespaces, &services, metrics, own);
            let found = bearer(&server, "foo-", "u-r").await.map_err(|error| match error {
                kube::Error::Api(status) => status.code,
                other => panic!("{other}"),
            });
            assert_eq!(found, expect, "{namespaces:?} {services:?} {metrics} {own}");
        }
    }

    #[tokio::test]
    async fn a_prefix_is_free_when_nothing_begins_with_it_whosever_that_is() {
        let prefixes = || BTreeSet::from(["foo-".to_owned(), "bar-".to_owned()]);
        let made = object("foo-x.example.com", &json!({AUTOMANAGED: "true"}));
        let named = server(&[object("bar-a", &json!({TENANT: "u-r"}))], &[made], 503, 200);
        assert_eq!(free(&named, prefixes()).await.expect("it answers"), BTreeSet::from(["foo-".to_owned()]));
        free(&server(&[], &[], 503, 500), prefixes()).await.expect_err("not known");
    }
}
