//! `/scale`: the desired and the present number of something, whatever it is.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::jsonpath::JsonPath;
use allotment_machinery::object::{metadata_mut, metadata_str};

use super::options::WriteOptions;
use super::store::{self, about};
use super::update::{ATTEMPTS, Raced, replace};
use super::{Call, Reply};
use crate::registry::Scale;
use crate::status::ApiError;

/// Answers a request on `/scale`.
pub(super) async fn scale(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Some(scale) = call.row.version().subresources.scale.clone() else { return Err(ApiError::unknown_resource()) };
    match call.cx.info.verb {
        "get" => get(call, &scale).await,
        "update" | "patch" => set(call, &scale).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn get(call: &Call<'_>, scale: &Scale) -> Result<Reply, ApiError> {
    let key = store::key(call.cx, call.row, &call.object_namespace(), &call.cx.info.name);
    let entry = store::get(call.cx, call.row, &key).await?;
    let object = store::object_of(call.row, &entry.body)?;
    check_present(scale, &object)?;
    Ok(Reply::Value { code: 200, value: scale_of(scale, &object) })
}

async fn set(call: &Call<'_>, scale: &Scale) -> Result<Reply, ApiError> {
    let Call { cx, row, .. } = call;
    let kind = if cx.info.verb == "patch" { "PatchOptions" } else { "UpdateOptions" };
    let options = WriteOptions::parse(call.query, kind)?;
    let key = store::key(cx, row, &call.object_namespace(), &cx.info.name);
    for _ in 0..ATTEMPTS {
        let current = store::get(cx, row, &key).await?;
        let mut object = store::object_of(row, &current.body)?;
        let wanted = wanted(call, scale, &object)?;
        set_replicas(scale, &mut object, &wanted)?;
        match replace(cx, row, current, object, options).await {
            Ok(body) => {
                let value = scale_of(scale, &store::object_of(row, &body)?);
                return Ok(Reply::Value { code: 200, value });
            }
            Err(Raced::Again) => {}
            Err(Raced::Failed(error)) => return Err(error),
        }
    }
    Err(ApiError::conflict(about(row, &key.name), "the object keeps changing; please try again"))
}

/// A custom object that has no number yet has no scale that could be shown.
fn check_present(scale: &Scale, object: &Map) -> Result<(), ApiError> {
    let path = &scale.spec_replicas;
    let whole = Value::Object(object.clone());
    let found = path.parse::<JsonPath>().is_ok_and(|path| path.first(&whole).is_some());
    if found { Ok(()) } else { Err(ApiError::internal(format!("the spec replicas field {path:?} does not exist"))) }
}

fn number_at(path: &str, object: &Value) -> i64 {
    let found = path.parse::<JsonPath>().ok();
    let found = found.as_ref().map(|path| path.find(object)).unwrap_or_default();
    found.first().and_then(|value| value.as_i64()).unwrap_or_default()
}

/// The `Scale` of an object.
fn scale_of(scale: &Scale, object: &Map) -> Value {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let mut of = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.and_then(|metadata| metadata.get(field)) {
            of.insert(field, value.clone());
        }
    }
    let whole = Value::Object(object.clone());
    let mut spec = Map::new();
    let replicas = number_at(&scale.spec_replicas, &whole);
    if replicas != 0 {
        spec.insert("replicas", replicas);
    }
    let mut status = Map::new();
    status.insert("replicas", number_at(&scale.status_replicas, &whole));
    let selector = scale.label_selector.as_deref().and_then(|path| path.parse::<JsonPath>().ok());
    let selector = selector.as_ref().and_then(|path| path.find(&whole).first().and_then(|value| selector_text(value)));
    if let Some(text) = selector.filter(|text| !text.is_empty()) {
        status.insert("selector", text);
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": of, "spec": spec, "status": status})
}

/// A selector as text, be it that already (custom kinds) or a `LabelSelector` (workloads).
fn selector_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        other => allotment_machinery::selector::LabelSelector::from_object(Some(other))
            .ok()
            .map(|selector| selector.to_string()),
    }
}

/// The number that the request asks for, and the revision it expects.
struct Wanted {
    replicas: i64,
    resource_version: Option<String>,
}

fn wanted(call: &Call<'_>, scale: &Scale, object: &Map) -> Result<Wanted, ApiError> {
    let body = allotment_machinery::json::parse(&call.body)
        .map_err(|error| ApiError::bad_request(format!("the body is no Scale: {error}")))?;
    let body = if call.cx.info.verb == "patch" {
        let mut current = scale_of(scale, object);
        if let Some(metadata) = current.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        super::patch::apply_to_value(call, current, body)?
    } else {
        body
    };
    let kind = body.get("kind").and_then(Value::as_str).unwrap_or("Scale");
    if kind != "Scale" {
        return Err(ApiError::bad_request(format!("the body is no Scale but of kind {kind:?}")));
    }
    let name = body.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
    if !name.is_empty() && name != call.cx.info.name {
        let path = &call.cx.info.name;
        let message = format!("the name of the object ({name}) does not match the name on the URL ({path})");
        return Err(ApiError::bad_request(message));
    }
    let replicas = match body.at(&["spec", "replicas"]) {
        None | Some(Value::Null) => 0,
        Some(value) => value.as_i64().filter(|count| i32::try_from(*count).is_ok()).ok_or_else(|| {
            ApiError::bad_request("Scale in version \"v1\" cannot be handled as a Scale: spec.replicas is no int32")
        })?,
    };
    if replicas < 0 {
        let at = allotment_machinery::field::Path::new("spec").child("replicas");
        let error =
            allotment_machinery::field::FieldError::invalid(&at, replicas, "must be greater than or equal to 0");
        return Err(ApiError::invalid("autoscaling", "Scale", &call.cx.info.name, &[error]));
    }
    let resource_version = body.at(&["metadata", "resourceVersion"]).and_then(Value::as_str).map(str::to_owned);
    Ok(Wanted { replicas, resource_version })
}

fn set_replicas(scale: &Scale, object: &mut Map, wanted: &Wanted) -> Result<(), ApiError> {
    let path = scale.spec_replicas.parse::<JsonPath>().ok();
    if !path.is_some_and(|path| path.set(object, Value::from(wanted.replicas))) {
        return Err(ApiError::internal("the path of the replicas names no member that can be set"));
    }
    let expected = wanted.resource_version.clone().filter(|version| !version.is_empty() && version != "0");
    let own = metadata_str(object, "resourceVersion").unwrap_or_default().to_owned();
    if let Some(metadata) = metadata_mut(object) {
        // Without a revision of its own, the request is for whatever is there now.
        metadata.insert("resourceVersion", expected.unwrap_or(own));
    }
    Ok(())
}
