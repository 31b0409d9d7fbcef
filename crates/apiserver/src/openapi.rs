//! OpenAPI (`/openapi/v2`, `/openapi/v3`): which paths there are and that they take `fieldValidation`, so
//! that clients leave validation to the server; schemas of the kinds that have one.

mod v2;

use std::collections::BTreeMap;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use http::Response;
use http::header;
use http::request::Parts;

use crate::body::ResponseBody;
use crate::discovery::fnv1a;
use crate::negotiation::accepts;
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

/// The media type of the old form in protobuf, with the version that kubectl names and without.
const PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

fn v2(cx: &Context, parts: &Parts) -> Response<ResponseBody> {
    let accepted = text(&parts.headers, &header::ACCEPT);
    let registry = cx.tenant.registry();
    let kinds = written(&registry);
    let version = format!("v{}", cx.tenant.version);
    if accepts(accepted, "application/json") {
        let document = v2::document(&version, &kinds);
        return response(200, "application/json", ResponseBody::full(document.to_vec()));
    }
    if PROTOBUF.iter().any(|media| accepts(accepted, media)) {
        return response(200, PROTOBUF[1], ResponseBody::full(v2::protobuf(&version, &kinds)));
    }
    let message = "the OpenAPI v2 document is served as application/json and as protobuf only";
    status_response(&ApiError::new(406, "NotAcceptable", message), crate::negotiation::Accept::default())
}

/// Every kind in every version that is served and that objects are written of.
fn written(registry: &Registry) -> Vec<v2::Written<'_>> {
    let mut all = Vec::new();
    for (path, kinds) in group_versions(registry) {
        for (kind, version) in kinds.into_iter().filter(|(kind, _)| kind.connect.is_none()) {
            let path = object_path(&path, kind);
            all.push(v2::Written { path, group: &kind.group, version: &version.name, kind: &kind.kind });
        }
    }
    all
}

/// The path of an object of a kind, with names in braces.
fn object_path(group_version: &str, kind: &Kind) -> String {
    let scope = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
    format!("/{group_version}/{scope}{}/{{name}}", kind.plural)
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
        paths.insert(object_path(path, kind), operations(kind, of_kind));
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
