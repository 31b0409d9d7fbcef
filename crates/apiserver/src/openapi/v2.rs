//! The old OpenAPI form (`/openapi/v2`), as JSON and as protobuf: which kinds there are, and that they take
//! `fieldValidation`. It has no schemas: clients that know of nothing newer than this form leave
//! validation to the server then, and others read `/openapi/v3`.
//!
//! kubectl before 1.29 asks for protobuf alone, in the messages of gnostic's `openapi_v2/OpenAPIv2.proto`.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

/// A kind that objects may be written of.
pub(super) struct Written<'a> {
    /// `/api/v1/namespaces/{namespace}/configmaps/{name}`
    pub(super) path: String,
    /// Its group.
    pub(super) group: &'a str,
    /// Its version.
    pub(super) version: &'a str,
    /// Its name.
    pub(super) kind: &'a str,
}

/// What a write takes.
const PARAMETERS: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
/// The extension that says which kind an operation is about.
const KIND: &str = "x-kubernetes-group-version-kind";

/// The document as JSON.
pub(super) fn document(version: &str, kinds: &[Written<'_>]) -> Value {
    let parameters: Vec<Value> = PARAMETERS
        .iter()
        .map(|name| json!({"name": (*name), "in": "query", "type": "string", "uniqueItems": true}))
        .collect();
    let paths: Map = kinds
        .iter()
        .map(|kind| {
            let gvk = json!({"group": (kind.group), "version": (kind.version), "kind": (kind.kind)});
            let mut patch = Map::new();
            patch.insert("parameters", parameters.clone());
            patch.insert("responses", json!({"200": {"description": "OK"}}));
            patch.insert("x-kubernetes-action", "patch");
            patch.insert(KIND, gvk);
            (kind.path.clone(), json!({ "patch": (Value::Object(patch)) }))
        })
        .collect();
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": version}, "paths": (Value::Object(paths)),
        "definitions": {}
    })
}

/// The document as a protobuf message `Document`. Numbers are those of its fields and of those below.
pub(super) fn protobuf(version: &str, kinds: &[Written<'_>]) -> Vec<u8> {
    let info = [text(1, "Kubernetes"), text(2, version)].concat();
    let paths: Vec<u8> = kinds.iter().flat_map(|kind| field(2, &named(&kind.path, &path_item(kind)))).collect();
    [text(1, "2.0"), field(2, &info), field(8, &paths), field(9, &[])].concat()
}

fn path_item(kind: &Written<'_>) -> Vec<u8> {
    let parameters: Vec<u8> = PARAMETERS.iter().flat_map(|name| field(8, &query_parameter(name))).collect();
    let response = field(1, &text(1, "OK"));
    let responses = field(1, &named("200", &response));
    // Extensions are YAML, of which JSON is a part.
    let gvk = json!({"group": (kind.group), "version": (kind.version), "kind": (kind.kind)}).to_string();
    let extension = field(13, &named(KIND, &text(2, &gvk)));
    field(8, &[parameters, field(9, &responses), extension].concat())
}

/// `ParametersItem` → `Parameter` → `NonBodyParameter` → `QueryParameterSubSchema`.
fn query_parameter(name: &str) -> Vec<u8> {
    let query = [text(2, "query"), text(4, name), text(6, "string")].concat();
    field(1, &field(2, &field(3, &query)))
}

/// A value with its name, as maps are written.
fn named(name: &str, value: &[u8]) -> Vec<u8> {
    [text(1, name), field(2, value)].concat()
}

fn text(number: u8, content: &str) -> Vec<u8> {
    field(number, content.as_bytes())
}

/// A field of bytes: its number and wire type 2, the length, the content. Numbers are below 16.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push((length & 0x7f) as u8);
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_seven_bits_a_byte() {
        assert_eq!(field(1, b"ab"), [0x0a, 2, b'a', b'b']);
        assert_eq!(field(8, &[0; 300])[..3], [0x42, 0xac, 0x02]);
    }

    #[test]
    fn both_forms_name_each_kind_and_what_its_writes_take() {
        let path = "/apis/example.org/v1/things/{name}".to_owned();
        let kinds = [Written { path, group: "example.org", version: "v1", kind: "Thing" }];
        let json = document("v1.2.3", &kinds).to_string();
        let protobuf = String::from_utf8_lossy(&protobuf("v1.2.3", &kinds)).into_owned();
        for part in ["/apis/example.org/v1/things/{name}", KIND, "fieldValidation", "v1.2.3"] {
            assert!(json.contains(part) && protobuf.contains(part), "{part}: {json} {protobuf}");
        }
    }
}
