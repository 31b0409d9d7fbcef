//! Tenants of one server: whatever one of them asks, in whichever form, nothing of another one shows.

use std::collections::BTreeSet;

use allotment_apiserver::auth::{AccessConfig, GROUP_MASTERS, PeerCertificates, ServiceAccountIssuer, UserInfo};
use allotment_machinery::json;
use allotment_machinery::json::Value;
use allotment_pki::{CertificateAuthority, KeySource as _, Leaf, LeafUsage, RandomKeys, ServiceAccountKeys};
use allotment_store::Tenant;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use rustls::pki_types::CertificateDer;

use super::world::{Reply, World, next};

/// Stands in the name of everything that the other tenant has.
const MARK: &str = "onlyhere";

/// The moment at which the world's clock stands.
const NOW: i64 = 1_782_864_000;

struct Neighbours {
    world: World,
    /// Their certificate authorities.
    authorities: [CertificateAuthority; 2],
}

const A: &str = "/clusters/a";
const B: &str = "/clusters/b";

impl Neighbours {
    async fn new() -> Neighbours {
        let world = World::new().await;
        let authority = |name: &str| {
            CertificateAuthority::new(name, RandomKeys.generate().expect("a key"), NOW - 10, 1 << 30).expect("a CA")
        };
        let authorities = [authority("a"), authority("b")];
        for (id, authority) in ["a", "b"].into_iter().zip(&authorities) {
            let access = AccessConfig {
                client_authorities: authority.bundle(),
                service_accounts: Some(ServiceAccountIssuer {
                    issuer: format!("https://127.0.0.1:1/clusters/{id}"),
                    keys: ServiceAccountKeys::new(RandomKeys.generate().expect("a key"), &[]).expect("keys"),
                    audiences: Vec::new(),
                }),
                ..AccessConfig::default()
            };
            world.admit(Tenant::logical(id), access).await.expect("a tenant");
            let account = format!("/clusters/{id}/api/v1/namespaces/default/serviceaccounts/default");
            world.until(&account, |reply| reply.code == 200).await;
        }
        Neighbours { world, authorities }
    }

    /// Fills tenant b with what nobody else must see.
    async fn furnish(&self) {
        let metadata = |name: &str| json!({"name": (format!("{MARK}-{name}")), "labels": {"mark": (MARK)}});
        let namespace = format!("{B}/api/v1/namespaces/{MARK}-n");
        self.world.create(&format!("{B}/api/v1/namespaces"), json!({"metadata": (metadata("n"))})).await;
        for (plural, field, value) in [
            ("configmaps", "data", json!({"a": (MARK)})),
            ("secrets", "stringData", json!({"a": (MARK)})),
            ("serviceaccounts", "automountServiceAccountToken", Value::from(false)),
            ("services", "spec", json!({"ports": [{"port": 80}]})),
        ] {
            let object = json!({"metadata": (metadata(plural)), field: value});
            self.world.create(&format!("{namespace}/{plural}"), object).await;
        }
        let names =
            json!({"plural": (format!("{MARK}s")), "singular": (MARK), "kind": "Onlyhere", "listKind": "OnlyhereList"});
        let schema = json!({"type": "object", "properties": {(MARK): {"type": "string", "description": (MARK)}}});
        let definition = json!({
            "metadata": {"name": (format!("{MARK}s.{MARK}.example.com"))},
            "spec": {
                "group": (format!("{MARK}.example.com")), "scope": "Cluster", "names": names,
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]
            }
        });
        self.world.create(&format!("{B}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"), definition).await;
        let custom = format!("{B}/apis/{MARK}.example.com/v1/{MARK}s");
        let object =
            json!({"apiVersion": (format!("{MARK}.example.com/v1")), "kind": "Onlyhere", "metadata": {"name": (MARK)}});
        self.world.create(&custom, object).await;
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        let role = json!({"metadata": (metadata("role")), "rules": rules});
        self.world.create(&format!("{B}/apis/rbac.authorization.k8s.io/v1/clusterroles"), role).await;
    }

    async fn text(&self, path: &str, accept: &str) -> (u16, String) {
        let mut request = self.world.request("GET", path, &Value::Null);
        request.headers_mut().insert("accept", accept.parse().expect("a value"));
        let response = self.world.raw(request).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("infallible").to_bytes();
        (code, String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A request of somebody who shows credentials.
fn outside(path: &str, token: Option<&str>, certificates: Option<PeerCertificates>) -> Request<Full<Bytes>> {
    let mut builder = Request::builder().uri(path);
    if let Some(token) = token {
        builder = builder.header("authorization", format!("Bearer {token}"));
    }
    let mut request = builder.body(Full::default()).expect("a request");
    if let Some(certificates) = certificates {
        request.extensions_mut().insert(certificates);
    }
    request
}

/// Every collection of a tenant, by path.
async fn collections(world: &World, tenant: &str) -> Vec<String> {
    let mut found = Vec::new();
    let groups = world.get(&format!("{tenant}/apis")).await;
    let mut roots = vec!["/api/v1".to_owned()];
    for group in groups.body.get("groups").and_then(Value::as_array).expect("groups") {
        for version in group.get("versions").and_then(Value::as_array).expect("versions") {
            roots.push(format!("/apis/{}", version.get("groupVersion").and_then(Value::as_str).expect("a version")));
        }
    }
    for root in roots {
        found.push(root.clone());
        let list = world.get(&format!("{tenant}{root}")).await;
        for resource in list.body.get("resources").and_then(Value::as_array).expect("resources") {
            let verbs = resource.get("verbs").and_then(Value::as_array).expect("verbs");
            let name = resource.get("name").and_then(Value::as_str).expect("a name");
            if verbs.contains(&Value::from("list")) {
                found.push(format!("{root}/{name}"));
            }
        }
    }
    found
}

#[tokio::test]
async fn whatever_a_tenant_reads_holds_nothing_of_its_neighbour() {
    let neighbours = Neighbours::new().await;
    neighbours.furnish().await;
    let world = &neighbours.world;
    let mut paths = collections(world, A).await;
    assert!(paths.len() > 40, "{paths:?}");
    let openapi = world.get(&format!("{A}/openapi/v3")).await;
    for (path, _) in openapi.body.get("paths").and_then(Value::as_object).expect("paths").iter() {
        paths.push(format!("/openapi/v3/{path}"));
    }
    let rest = [
        "/",
        "/api",
        "/apis",
        "/openapi/v2",
        "/openapi/v3",
        "/metrics",
        "/version",
        "/readyz?verbose",
        "/livez?verbose",
        "/healthz",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
        "/api/v1/namespaces/onlyhere-n",
        "/api/v1/namespaces/default/configmaps/nothing",
        "/api/v1/configmaps?labelSelector=mark%3Donlyhere",
        "/api/v1/events",
        "/nothing",
    ];
    paths.extend(rest.map(str::to_owned));
    let forms = [
        "application/json",
        "application/yaml",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf,application/json",
    ];
    for path in &paths {
        for accept in forms {
            let (code, text) = neighbours.text(&format!("{A}{path}"), accept).await;
            let asked = path.contains(MARK);
            assert!(asked || !text.to_lowercase().contains(MARK), "{path} as {accept}: {code} {text}");
            assert!(code < 500, "{path} as {accept}: {code} {text}");
        }
    }
    // The same questions do find what is there, asked of who has it.
    for path in ["/apis", "/openapi/v2", "/openapi/v3", "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/namespaces"] {
        let (_, text) = neighbours.text(&format!("{B}{path}"), "application/json").await;
        assert!(text.contains(MARK), "{path}: {text}");
    }
    let (code, _) = neighbours.text(&format!("{A}/metrics"), "*/*").await;
    assert_eq!(code, 404, "metrics tell of all tenants");
}

#[tokio::test]
async fn an_error_about_what_only_the_neighbour_has_is_that_about_what_nobody_has() {
    let neighbours = Neighbours::new().await;
    neighbours.furnish().await;
    let nobody = "nobodyhas";
    for path in [
        "/api/v1/namespaces/onlyhere-n",
        "/api/v1/namespaces/onlyhere-n/configmaps/onlyhere-configmaps",
        "/apis/onlyhere.example.com/v1/onlyheres",
        "/apis/onlyhere.example.com",
        "/apis/onlyhere.example.com/v1",
        "/openapi/v3/apis/onlyhere.example.com/v1",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/onlyheres.onlyhere.example.com",
    ] {
        let theirs = neighbours.text(&format!("{A}{path}"), "application/json").await;
        let other = neighbours.text(&format!("{A}{}", path.replace(MARK, nobody)), "application/json").await;
        assert_eq!(theirs, (other.0, other.1.replace(nobody, MARK)), "{path}");
        assert_eq!(theirs.0, 404, "{path}");
    }
}

#[tokio::test]
async fn a_watch_of_everything_sees_its_own_tenant_alone() {
    let neighbours = Neighbours::new().await;
    let world = &neighbours.world;
    let from = world.revision().await;
    let mut watch = world.watch(&format!("{A}/api/v1/configmaps?watch=1&resourceVersion={from}")).await;
    neighbours.furnish().await;
    let object = json!({"metadata": {"name": "mine"}});
    world.create(&format!("{A}/api/v1/namespaces/default/configmaps"), object).await;
    loop {
        let event = next(&mut watch).await.expect("goes on");
        let text = event.to_string();
        assert!(!text.contains(MARK), "{text}");
        if event.at(&["object", "metadata", "name"]) == Some(&Value::from("mine")) {
            break;
        }
    }
}

#[tokio::test]
async fn tokens_of_a_page_and_versions_of_the_neighbour_show_nothing_of_it() {
    let neighbours = Neighbours::new().await;
    neighbours.furnish().await;
    let world = &neighbours.world;
    let page = world.get(&format!("{B}/api/v1/configmaps?limit=1")).await;
    let token = page.text(&["metadata", "continue"]);
    assert!(!token.is_empty());
    let version = world.get(&format!("{B}/api/v1/namespaces/onlyhere-n/configmaps/onlyhere-configmaps")).await;
    let version = version.text(&["metadata", "resourceVersion"]);
    let own: BTreeSet<String> = names(&world.get(&format!("{A}/api/v1/configmaps")).await);
    let page = world.get(&format!("{A}/api/v1/configmaps?limit=500&continue={token}")).await;
    assert_eq!(page.code, 400, "{}", page.body);
    assert!(!page.body.to_string().contains(MARK), "{}", page.body);
    for query in [
        format!("resourceVersion={version}"),
        format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
        format!("resourceVersion={version}&resourceVersionMatch=Exact&limit=500"),
    ] {
        let list = world.get(&format!("{A}/api/v1/configmaps?{query}")).await;
        assert_eq!(list.code, 200, "{query}: {}", list.body);
        assert!(names(&list).is_subset(&own), "{query}: {}", list.body);
        assert!(!list.body.to_string().contains(MARK), "{query}: {}", list.body);
    }
    let since = json!({"metadata": {"name": "mine", "resourceVersion": (version.as_str())}});
    let reply = world.send("PUT", &format!("{A}/api/v1/namespaces/default/configmaps/kube-root-ca.crt"), &since).await;
    assert!(!reply.body.to_string().contains(MARK) && reply.code >= 400, "{}", reply.body);
}

fn names(list: &Reply) -> BTreeSet<String> {
    let items = list.body.get("items").and_then(Value::as_array).unwrap_or_default();
    let text = |item: &Value, field: &str| {
        item.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    items.iter().map(|item| format!("{}/{}", text(item, "namespace"), text(item, "name"))).collect()
}

#[tokio::test]
async fn credentials_of_one_tenant_are_worth_nothing_to_another() {
    let neighbours = Neighbours::new().await;
    let world = &neighbours.world;
    let wanted = |tenant: &str| format!("{tenant}/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let reply =
        world.send("POST", &format!("{A}/api/v1/namespaces/default/serviceaccounts/default/token"), &json!({})).await;
    let token = reply.text(&["status", "token"]);
    assert_eq!(reply.code, 201, "{}", reply.body);
    let leaf = Leaf {
        common_name: "admin".to_owned(),
        organization: Some(GROUP_MASTERS.to_owned()),
        names: Vec::new(),
        usage: LeafUsage::Client,
        lifetime_secs: 1 << 20,
    };
    let pair =
        neighbours.authorities[0].issue(&leaf, RandomKeys.generate().expect("a key"), NOW).expect("a certificate");
    let chain: Vec<CertificateDer<'_>> =
        pair.chain().iter().map(|certificate| CertificateDer::from(certificate.der())).collect();
    let certificates = PeerCertificates::new(&chain);
    // In its own tenant each says who it is, elsewhere it is nobody: also where the path is written otherwise.
    for (tenant, code) in
        [(A, 200), (B, 401), ("", 401), ("/clusters/a/clusters/b", 401), ("/clusters/b/clusters/a", 401)]
    {
        for (token, certificates) in [(Some(token.as_str()), None), (None, Some(certificates.clone()))] {
            let reply = world.answer(outside(&format!("{tenant}/version"), token, certificates)).await;
            let code = if tenant == "/clusters/a/clusters/b" { 404 } else { code };
            let allowed = reply.code == code || (code == 404 && reply.code == 403);
            assert!(allowed, "{tenant}: {} {}", reply.code, reply.body);
        }
    }
    for path in [
        "/clusters/",
        "/clusters//version",
        "/clusters/a%2f..%2fb/version",
        "/clusters/%62/version",
        "/clusters/A/version",
    ] {
        let reply = world.answer(outside(path, Some(&token), Some(certificates.clone()))).await;
        assert!(matches!(reply.code, 404 | 401), "{path}: {}", reply.code);
    }
    // Nor does a review tell one tenant that a token of another is good.
    for (tenant, good) in [(A, true), (B, false)] {
        let review = json!({"spec": {"token": (token.as_str())}});
        let path = format!("{tenant}/apis/authentication.k8s.io/v1/tokenreviews");
        let reply = world.create(&path, review).await;
        assert_eq!(
            reply.body.at(&["status", "authenticated"]).and_then(Value::as_bool).unwrap_or(false),
            good,
            "{tenant}"
        );
    }
    assert_eq!(world.send("POST", &wanted(A), &json!({})).await.code, 201);
}

#[tokio::test]
async fn keys_and_issuers_are_a_tenant_s_own() {
    let neighbours = Neighbours::new().await;
    let world = &neighbours.world;
    let read =
        |tenant: &'static str, path: &'static str| async move { world.get(&format!("{tenant}{path}")).await.body };
    let [a, b] = [read(A, "/openid/v1/jwks").await, read(B, "/openid/v1/jwks").await];
    let keys = |document: &Value| document.get("keys").and_then(Value::as_array).expect("keys").to_vec();
    assert_eq!((keys(&a).len(), keys(&b).len()), (1, 1));
    assert_ne!(keys(&a)[0].get("x"), keys(&b)[0].get("x"));
    let document = read(B, "/.well-known/openid-configuration").await;
    assert_eq!(document.get("issuer"), Some(&Value::from("https://127.0.0.1:1/clusters/b")));
}

#[tokio::test]
async fn each_cluster_has_an_identity_of_its_own_and_keeps_it() {
    let neighbours = Neighbours::new().await;
    let identity = async |world: &World, tenant: &str| {
        let mut all = Vec::new();
        for name in ["kube-system", "default", "kube-public", "kube-node-lease"] {
            all.push(world.get(&format!("{tenant}/api/v1/namespaces/{name}")).await.text(&["metadata", "uid"]));
        }
        all
    };
    let world = &neighbours.world;
    let [platform, a, b] = [identity(world, "").await, identity(world, A).await, identity(world, B).await];
    let distinct: BTreeSet<&String> = platform.iter().chain(&a).chain(&b).collect();
    assert_eq!(distinct.len(), 12, "{platform:?} {a:?} {b:?}");
    let world = neighbours.world.restarted().await;
    world.tenant("a").await;
    world.tenant("b").await;
    assert_eq!([identity(&world, "").await, identity(&world, A).await, identity(&world, B).await], [platform, a, b]);
}

#[tokio::test]
async fn rights_that_are_given_in_one_tenant_are_none_in_another() {
    let neighbours = Neighbours::new().await;
    let world = &neighbours.world;
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}]
    });
    world.create(&format!("{A}/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"), binding).await;
    for (tenant, code) in [(A, 200), (B, 403), ("", 403)] {
        let mut request = world.request("GET", &format!("{tenant}/api/v1/secrets"), &Value::Null);
        request.extensions_mut().insert(UserInfo { name: "reader".to_owned(), ..UserInfo::default() });
        let reply = world.answer(request).await;
        assert_eq!(reply.code, code, "{tenant}: {}", reply.body);
    }
}
