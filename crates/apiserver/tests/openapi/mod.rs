//! The documents of OpenAPI as clients ask for them: by digest, once, and each tenant its own.

use std::io::Read as _;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value, parse};
use http::HeaderMap;
use http_body_util::BodyExt as _;

use crate::world::World;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(description: &str) -> Value {
    json!({
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "description": description, "properties": {
                    "spec": {"type": "object", "properties": {"size": {"x-kubernetes-int-or-string": true}}}
                }}}
            }]
        }
    })
}

struct Got {
    code: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn json(&self) -> Value {
        parse(&self.body).expect("JSON")
    }
}

async fn get(world: &World, path: &str, headers: &[(&'static str, &str)]) -> Got {
    let mut request = world.request("GET", path, &Value::Null);
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a value"));
    }
    let response = world.raw(request).await;
    let (code, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.into_body().collect().await.expect("infallible").to_bytes().to_vec();
    Got { code, headers, body }
}

/// The URL of the document at `path`, as the index below `prefix` names it.
async fn url(world: &World, prefix: &str, path: &str) -> String {
    let index = get(world, &format!("{prefix}/openapi/v3"), &[]).await.json();
    let url = index.at(&["paths", path, "serverRelativeURL"]).and_then(Value::as_str);
    url.unwrap_or_else(|| panic!("the index names {path}: {index}")).to_owned()
}

#[tokio::test]
async fn every_document_of_the_index_is_there_and_may_be_kept_for_ever() {
    let world = World::new().await;
    world.create(DEFINITIONS, definition("A thing.")).await;
    let index = get(&world, "/openapi/v3", &[]).await.json();
    let paths = index.get("paths").and_then(Value::as_object).expect("paths");
    for expect in ["api", "api/v1", "apis", "apis/rbac.authorization.k8s.io", "apis/example.org/v1", "version"] {
        assert!(paths.contains_key(expect), "{expect}: {index}");
    }
    for (path, entry) in paths.iter() {
        let url = entry.get("serverRelativeURL").and_then(Value::as_str).expect("a URL");
        let got = get(&world, url, &[]).await;
        assert_eq!((got.code, got.header("cache-control")), (200, "public, immutable"), "{path}");
        assert_eq!(got.header("expires"), "Thu, 01 Jul 2027 00:00:00 GMT");
        let document = got.json();
        assert_eq!(document.get("openapi"), Some(&Value::from("3.0.0")), "{path}");
        assert_references_lead_somewhere(path, &document);
    }
}

/// Every `$ref` names a schema of the document.
fn assert_references_lead_somewhere(path: &str, document: &Value) {
    let none = Map::new();
    let schemas = document.at(&["components", "schemas"]).and_then(Value::as_object).unwrap_or(&none);
    let mut open = vec![document];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                if let Some(target) = map.get("$ref").and_then(Value::as_str) {
                    let name = target.strip_prefix("#/components/schemas/").unwrap_or(target);
                    assert!(schemas.contains_key(name), "{path} refers to {target}");
                }
                open.extend(map.iter().map(|(_, value)| value));
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
}

#[tokio::test]
async fn an_old_digest_leads_to_the_present_document_of_the_tenant() {
    let world = World::new().await;
    world.tenant("one").await;
    let got = get(&world, "/clusters/one/openapi/v3/version?hash=0815", &[]).await;
    assert_eq!(got.code, 301);
    let present = url(&world, "/clusters/one", "version").await;
    assert_eq!(got.header("location"), format!("/clusters/one{present}"));
    assert_eq!(get(&world, &format!("/clusters/one{present}"), &[]).await.code, 200);
    let plain = get(&world, "/openapi/v3/version", &[]).await;
    assert_eq!((plain.code, plain.header("cache-control")), (200, "no-cache, private"));
    assert_eq!(get(&world, "/openapi/v3/apis/nope.example.org/v1", &[]).await.code, 404);
}

#[tokio::test]
async fn a_document_is_not_sent_twice_and_comes_in_the_form_that_is_asked_for() {
    let world = World::new().await;
    for path in ["/openapi/v2", "/openapi/v3/api/v1"] {
        let first = get(&world, path, &[]).await;
        let again = get(&world, path, &[("if-none-match", first.header("etag"))]).await;
        assert_eq!((again.code, again.body.len()), (304, 0), "{path}");
        assert_eq!(get(&world, path, &[("accept", "image/png")]).await.code, 406, "{path}");
        let form = if path.ends_with("v2") { "v2" } else { "v3" };
        for sign in ['.', '@'] {
            let asked = format!("application/com.github.proto-openapi.spec.{form}{sign}v1.0+protobuf");
            let got = get(&world, path, &[("accept", &asked)]).await;
            let answered = format!("application/com.github.proto-openapi.spec.{form}.v1.0+protobuf");
            assert_eq!((got.code, got.header("content-type")), (200, answered.as_str()));
            // The version of OpenAPI is the first field of both messages.
            assert!(got.body.starts_with(if form == "v2" { b"\x0a\x032.0" } else { b"\x0a\x053.0.0" }), "{path}");
        }
    }
}

#[tokio::test]
async fn the_whole_of_the_old_form_is_sent_compressed_to_those_who_take_that() {
    let world = World::new().await;
    let plain = get(&world, "/openapi/v2", &[]).await;
    let packed = get(&world, "/openapi/v2", &[("accept-encoding", "gzip")]).await;
    assert_eq!((packed.header("content-encoding"), packed.body.len() < plain.body.len() / 5), ("gzip", true));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed.body.as_slice()).read_to_end(&mut unpacked).expect("is gzip");
    assert_eq!(unpacked, plain.body);
}

#[tokio::test]
async fn tenants_with_equal_definitions_share_documents_and_others_see_none_of_theirs() {
    let world = World::new().await;
    for (tenant, description) in [("one", "A thing."), ("two", "A thing."), ("three", "Another thing.")] {
        world.tenant(tenant).await;
        world.create(&format!("/clusters/{tenant}{DEFINITIONS}"), definition(description)).await;
    }
    let group = "apis/example.org/v1";
    let one = url(&world, "/clusters/one", group).await;
    assert_eq!(one, url(&world, "/clusters/two", group).await);
    assert_ne!(one, url(&world, "/clusters/three", group).await);
    let index = get(&world, "/openapi/v3", &[]).await.json();
    assert_eq!(index.at(&["paths", group]), None, "the platform has no such definition");
    let three = get(&world, &format!("/clusters/three/openapi/v3/{group}"), &[]).await.json();
    let text = three.at(&["components", "schemas", "org.example.v1.Thing", "description"]);
    assert_eq!(text, Some(&Value::from("Another thing.")));
}

#[tokio::test]
async fn documents_follow_their_definition() {
    let world = World::new().await;
    let group = "apis/example.org/v1";
    let old_form_knows = async || {
        let document = get(&world, "/openapi/v2", &[]).await.json();
        document.at(&["definitions", "org.example.v1.Thing"]).is_some()
    };
    assert!(!old_form_knows().await);
    world.create(DEFINITIONS, definition("Before.")).await;
    assert!(old_form_knows().await);
    let before = url(&world, "", group).await;
    let schema = json!({"type": "object", "description": "After."});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let patch = json!({"spec": {"versions": versions}});
    let changed = world.patch(&format!("{DEFINITIONS}/things.example.org"), &patch).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    assert_eq!(get(&world, &before, &[]).await.code, 301, "the old document is no longer the present one");
    let after = get(&world, &url(&world, "", group).await, &[]).await.json();
    let text = after.at(&["components", "schemas", "org.example.v1.Thing", "description"]);
    assert_eq!(text, Some(&Value::from("After.")));
    world.delete(&format!("{DEFINITIONS}/things.example.org")).await;
    world.until(&format!("{DEFINITIONS}/things.example.org"), |reply| reply.code == 404).await;
    assert_eq!(get(&world, &format!("/openapi/v3/{group}"), &[]).await.code, 404);
    assert!(!old_form_knows().await);
}
