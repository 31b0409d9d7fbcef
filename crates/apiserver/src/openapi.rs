//! OpenAPI (`/openapi/v2`, `/openapi/v3`): which paths there are and that they take `fieldValidation`, so
//! that clients leave validation to the server; schemas of the kinds that have one.

use std::collections::BTreeMap;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use http::Response;
use http::header;
use http::request::Parts;

use crate::body::ResponseBody;
use crate::discovery::fnv1a;
use crate::registry::{Kind, Registry, Version};
use crate::server::Context;
use crate::service::{response, status_response, text};
use crate::status::ApiError;

/// Answers a path below `/openapi`; `None` where there is nothing.
pub(crate) fn answer(cx: &Context, parts: &Parts, segments: &[&str]) -> Option<Response<ResponseBody>> {
    let registry = cx.tenant.registry();
    match segments {
        ["v2"] => Some(v2(cx, parts)),
        ["v3"] => Some(response(200, "text/plain; charset=utf-8", ResponseBody::full(index(&registry).to_vec()))),
        ["v3", path @ ..] => {
            let document = document(&registry, &path.join("/"), &cx.tenant.version)?;
            Some(response(200, "application/json", ResponseBody::full(document.to_vec())))
        }
        _ => None,
    }
}

/// The media type of the old form in protobuf, as clients up to 1.28 ask for it.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The same as the reply names it: `@` is not allowed in a media type (RFC 6838, section 4.2).
const PROTOBUF_REPLY: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The old form has no schemas here: clients that know the new one ask for that.
fn v2(cx: &Context, parts: &Parts) -> Response<ResponseBody> {
    let accepted = text(&parts.headers, &header::ACCEPT).unwrap_or("*/*");
    let version = format!("v{}", cx.tenant.version);
    if ["json", "*/*", "application/*"].iter().any(|form| accepted.contains(form)) {
        let document = json!({
            "swagger": "2.0", "info": {"title": "Kubernetes", "version": version}, "paths": {}, "definitions": {}
        });
        return response(200, "application/json", ResponseBody::full(document.to_vec()));
    }
    if [PROTOBUF, PROTOBUF_REPLY].iter().any(|form| accepted.contains(form)) {
        return response(200, PROTOBUF_REPLY, ResponseBody::full(v2_protobuf("Kubernetes", &version)));
    }
    let message = "the OpenAPI v2 document is served as JSON and protobuf only";
    status_response(&ApiError::new(406, "NotAcceptable", message), crate::negotiation::Accept::default())
}

/// The same document as `openapi.v2.Document` of `github.com/google/gnostic-models`.
fn v2_protobuf(title: &str, version: &str) -> Vec<u8> {
    // A field of bytes: number and wire type 2, length, content. All lengths here fit into one byte.
    let field = |number: u8, content: &[u8]| -> Vec<u8> {
        let content = &content[..content.len().min(127)];
        [&[(number << 3) | 2, u8::try_from(content.len()).unwrap_or_default()], content].concat()
    };
    let info = [field(1, title.as_bytes()), field(2, version.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, b""), field(9, b"")].concat()
}

/// The kinds that are served in a group and version, by the path of its document: `api/v1`,
/// `apis/GROUP/VERSION`.
fn group_versions(registry: &Registry) -> BTreeMap<String, Vec<(&Kind, &Version)>> {
    let mut all: BTreeMap<String, Vec<(&Kind, &Version)>> = BTreeMap::new();
    for kind in registry.kinds() {
        for version in kind.versions.iter().filter(|version| version.served) {
            let path = if kind.group.is_empty() {
                format!("api/{}", version.name)
            } else {
                format!("apis/{}/{}", kind.group, version.name)
            };
            all.entry(path).or_default().push((kind, version));
        }
    }
    all
}

fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (path, kinds) in group_versions(registry) {
        // The hash changes whenever the document may have changed: with its kinds.
        let content: Vec<String> =
            kinds.iter().map(|(kind, version)| format!("{}{:?}", kind.kind, version.schema.openapi())).collect();
        let url = format!("/openapi/v3/{path}?hash={:016X}", fnv1a(content.join("\n").as_bytes()));
        paths.insert(path, json!({ "serverRelativeURL": url }));
    }
    json!({ "paths": paths })
}

fn document(registry: &Registry, path: &str, version: &str) -> Option<Value> {
    let mut all = group_versions(registry);
    let kinds = all.remove(path)?;
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for (kind, of_kind) in kinds {
        if kind.connect.is_some() {
            continue;
        }
        let scope = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
        let own = format!("/{path}/{scope}{}/{{name}}", kind.plural);
        paths.insert(own, operations(kind, of_kind));
        if let Some(schema) = of_kind.schema.openapi() {
            schemas.insert(schema_name(kind, of_kind), schema);
        }
    }
    let version = format!("v{version}");
    Some(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": version}, "paths": paths,
        "components": {"schemas": schemas}
    }))
}

/// The name of a kind's schema: the group backwards, version, kind.
fn schema_name(kind: &Kind, version: &Version) -> String {
    let reversed: Vec<&str> = kind.group.split('.').rev().filter(|part| !part.is_empty()).collect();
    let mut parts = reversed;
    parts.extend([version.name.as_str(), kind.kind.as_str()]);
    parts.join(".")
}

fn operations(kind: &Kind, version: &Version) -> Value {
    let gvk = json!({"group": (kind.group.as_str()), "version": (version.name.as_str()), "kind": (kind.kind.as_str())});
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters = json!([(parameter("dryRun")), (parameter("fieldManager")), (parameter("fieldValidation"))]);
    let operation = |action: &str, parameters: Value| {
        json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": (gvk.clone()), "parameters": parameters,
            "responses": {"200": {"description": "OK"}}
        })
    };
    json!({
        "get": (operation("get", Value::Array(Vec::new()))), "put": (operation("put", parameters.clone())),
        "patch": (operation("patch", parameters)), "delete": (operation("delete", Value::Array(Vec::new())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_form_in_protobuf_is_a_document_with_version_and_title() {
        let expect = b"\x0a\x032.0\x12\x0e\x0a\x03Kub\x12\x07v1.36.3\x42\x00\x4a\x00";
        assert_eq!(v2_protobuf("Kub", "v1.36.3"), expect);
    }
}
