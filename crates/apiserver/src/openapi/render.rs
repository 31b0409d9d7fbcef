//! Paths and their operations as both forms of OpenAPI write them.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

use super::names::{Form, META};
use super::operations::{Operation, PathItem, RequestBody};
use super::parameters::Parameter;

/// What every operation but of text answers in.
const MEDIA: &[&str] = &["application/json", "application/yaml"];
/// The same of those that may be watches.
const WATCH_MEDIA: &[&str] = &["application/json", "application/yaml", "application/json;stream=watch"];
/// The kinds of patches, strategic merge patch last.
const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// A path with its operations. What all of them take stands beside them, once.
pub(super) fn path_item(form: Form, item: &PathItem) -> Value {
    let shared = shared_parameters(&item.operations);
    let mut out = Map::new();
    if !shared.is_empty() {
        out.insert("parameters", shared.iter().map(|parameter| parameter.render(form)).collect::<Vec<_>>());
    }
    for operation in &item.operations {
        out.insert(operation.method, render(form, operation, &shared));
    }
    Value::Object(out)
}

fn shared_parameters(operations: &[Operation]) -> Vec<Parameter> {
    let Some((first, rest)) = operations.split_first() else { return Vec::new() };
    let everywhere = |parameter: &&Parameter| rest.iter().all(|other| other.parameters.contains(parameter));
    first.parameters.iter().filter(everywhere).copied().collect()
}

fn render(form: Form, operation: &Operation, shared: &[Parameter]) -> Value {
    let mut out = Map::new();
    out.insert("description", operation.description.as_str());
    out.insert("operationId", operation.id.as_str());
    out.insert("tags", vec![Value::from(operation.tag.as_str())]);
    if let Some((action, subject)) = &operation.about {
        out.insert("x-kubernetes-action", *action);
        out.insert(
            "x-kubernetes-group-version-kind",
            json!({
                "group": (subject.group.as_str()), "version": (subject.version.as_str()),
                "kind": (subject.kind.as_str())
            }),
        );
    }
    let own = operation.parameters.iter().filter(|parameter| !shared.contains(parameter));
    let mut parameters: Vec<Value> = own.map(|parameter| parameter.render(form)).collect();
    let media = match &operation.media {
        Some(only) => std::slice::from_ref(only),
        None if operation.watches => WATCH_MEDIA,
        None => MEDIA,
    };
    match form {
        Form::Two => {
            let texts = |texts: &[&str]| texts.iter().map(|text| Value::from(*text)).collect::<Vec<_>>();
            let consumes = match &operation.body {
                Some(RequestBody::Patch { strategic }) => patches(*strategic),
                _ if operation.about.is_some() => body_media(operation),
                // Texts are read, never sent.
                _ if operation.answer.is_none() => &[],
                _ => media,
            };
            out.insert("schemes", texts(&["https"]));
            if !consumes.is_empty() {
                out.insert("consumes", texts(consumes));
            }
            out.insert("produces", texts(media));
            if let Some(body) = &operation.body {
                parameters.insert(0, body_parameter(body));
            }
        }
        Form::Three => {
            if let Some(body) = &operation.body {
                out.insert("requestBody", request_body(body, body_media(operation)));
            }
        }
    }
    if !parameters.is_empty() {
        out.insert("parameters", parameters);
    }
    out.insert("responses", responses(form, operation, media));
    Value::Object(out)
}

/// What bodies other than patches are written in.
fn body_media(operation: &Operation) -> &'static [&'static str] {
    if operation.custom { MEDIA } else { &["*/*"] }
}

fn patches(strategic: bool) -> &'static [&'static str] {
    if strategic { PATCHES } else { &PATCHES[..PATCHES.len() - 1] }
}

fn reference(form: Form, schema: &str) -> Value {
    json!({"$ref": (form.reference(schema))})
}

fn body_parameter(body: &RequestBody) -> Value {
    let (schema, required) = schema_of(body);
    let mut out = Map::new();
    out.insert("in", "body");
    out.insert("name", "body");
    if required {
        out.insert("required", true);
    }
    out.insert("schema", reference(Form::Two, &schema));
    Value::Object(out)
}

fn request_body(body: &RequestBody, media: &'static [&'static str]) -> Value {
    let (schema, required) = schema_of(body);
    let media = match body {
        RequestBody::Patch { strategic } => patches(*strategic),
        RequestBody::Object(_) | RequestBody::Options(_) => media,
    };
    let mut out = Map::new();
    out.insert("content", content(media, &reference(Form::Three, &schema)));
    if required {
        out.insert("required", true);
    }
    Value::Object(out)
}

fn schema_of(body: &RequestBody) -> (String, bool) {
    match body {
        RequestBody::Object(schema) => (schema.clone(), true),
        RequestBody::Options(schema) => (schema.clone(), false),
        RequestBody::Patch { .. } => (format!("{META}.Patch"), true),
    }
}

fn content(media: &[&str], schema: &Value) -> Value {
    let content: Map = media.iter().map(|name| ((*name).to_owned(), json!({"schema": (schema.clone())}))).collect();
    Value::Object(content)
}

fn responses(form: Form, operation: &Operation, media: &[&str]) -> Value {
    let schema = match &operation.answer {
        Some(schema) => reference(form, schema),
        None => json!({"type": "string"}),
    };
    let mut out = Map::new();
    for (code, meaning) in operation.answers {
        let answer = match form {
            Form::Two => json!({"description": (*meaning), "schema": (schema.clone())}),
            Form::Three => json!({"description": (*meaning), "content": (content(media, &schema))}),
        };
        out.insert(code.to_string(), answer);
    }
    out.insert("401", json!({"description": "Unauthorized"}));
    Value::Object(out)
}
