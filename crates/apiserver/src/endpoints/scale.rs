//! `/scale`: the desired and the present number of something, whatever it is.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::jsonpath::JsonPath;
use allotment_machinery::object::{metadata_mut, metadata_str};

use super::options::WriteOptions;
use super::store::{self, about};
use super::update::{ATTEMPTS, Raced, check_uid, replace};
use super::{Call, Reply, decode, metadata};
use crate::builtin;
use crate::negotiation::BodyMedia;
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
        check_uid(row, &object, &current)?;
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

/// What the request asks for: the number, and the object that it expects.
struct Wanted {
    replicas: i64,
    resource_version: Option<String>,
    uid: Option<String>,
}

fn wanted(call: &Call<'_>, scale: &Scale, object: &Map) -> Result<Wanted, ApiError> {
    let is_patch = call.cx.info.verb == "patch";
    let body = decode::parse(call_media(call)?, &call.body, call.row)
        .map_err(|fault| ApiError::bad_request(format!("the body is no Scale: {fault}")))?;
    let body = if is_patch {
        let mut current = scale_of(scale, object);
        if let Some(metadata) = current.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        super::patch::apply_to_value(call, current, body.value)?
    } else {
        body.value
    };
    let Value::Object(mut body) = body else { return Err(ApiError::bad_request("the body is no Scale")) };
    let kind = body.get("kind").and_then(Value::as_str).unwrap_or("Scale");
    if kind != "Scale" {
        return Err(ApiError::bad_request(format!("the body is no Scale but of kind {kind:?}")));
    }
    if let Some(message) = builtin::message_of_kind("autoscaling/v1", "Scale")
        && let Err(error) = builtin::decode_whole(message, &mut body)
    {
        let why = error.message;
        return Err(match is_patch {
            true => super::patch::invalid_result(&why),
            false => ApiError::bad_request(format!("Scale in version \"v1\" cannot be handled as a Scale: {why}")),
        });
    }
    metadata::check_name(&body, &call.cx.info.name)?;
    let namespace = metadata_str(&body, "namespace").unwrap_or_default();
    if call.row.kind.namespaced && !namespace.is_empty() && namespace != call.cx.info.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    let replicas = body.get("spec").and_then(|spec| spec.get("replicas")).and_then(Value::as_i64).unwrap_or_default();
    // Custom kinds say in their own words what is wrong with the number, wherever it comes from.
    if replicas < 0 && !call.row.kind.custom {
        let at = Path::new("spec").child("replicas");
        let error = FieldError::invalid(&at, replicas, "must be greater than or equal to 0");
        return Err(ApiError::invalid("autoscaling", "Scale", &call.cx.info.name, &[error]));
    }
    let text = |field: &str| metadata_str(&body, field).filter(|text| !text.is_empty()).map(str::to_owned);
    let resource_version = text("resourceVersion").filter(|version| version != "0");
    Ok(Wanted { replicas, resource_version, uid: text("uid") })
}

/// How the body is written: patches are JSON, whatever kind of patch they are.
fn call_media(call: &Call<'_>) -> Result<BodyMedia, ApiError> {
    if call.cx.info.verb == "patch" { Ok(BodyMedia::Json) } else { call.body_media() }
}

fn set_replicas(scale: &Scale, object: &mut Map, wanted: &Wanted) -> Result<(), ApiError> {
    let path = scale.spec_replicas.parse::<JsonPath>().ok();
    if !path.is_some_and(|path| path.set(object, Value::from(wanted.replicas))) {
        return Err(ApiError::internal("the path of the replicas names no member that can be set"));
    }
    let Some(metadata) = metadata_mut(object) else { return Ok(()) };
    // Without a revision of its own, the request is for whatever is there now.
    if let Some(version) = &wanted.resource_version {
        metadata.insert("resourceVersion", version.as_str());
    }
    if let Some(uid) = &wanted.uid {
        metadata.insert("uid", uid.as_str());
    }
    Ok(())
}
