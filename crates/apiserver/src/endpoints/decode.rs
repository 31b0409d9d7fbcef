//! From the body of a request to an object of a kind: parsed, its type checked, its metadata and fields
//! brought into shape, unknown fields and duplicate keys treated as the client asked.

use std::collections::BTreeSet;

use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::object::metadata_str;
use allotment_machinery::yaml;
use bytes::Bytes;

use super::options::FieldValidation;
use super::{metadata, order};
use crate::builtin;
use crate::negotiation::BodyMedia;
use crate::protobuf;
use crate::registry::{DecodeError, Row};
use crate::server::Context;
use crate::status::ApiError;

/// The most complaints about one body, as in `sigs.k8s.io/json`: a client mends the first of them, and a
/// body of nothing but unknown fields must not be answered with a list of them all.
pub(super) const MAX_COMPLAINTS: usize = 100;

/// A parsed body and what a strict decoder holds against it.
pub(super) struct Parsed {
    pub(super) value: Value,
    /// `duplicate field "a.b"`
    pub(super) complaints: Vec<String>,
}

/// Parses a body; the error is what is wrong with it.
pub(super) fn parse(media: BodyMedia, body: &Bytes, row: &Row) -> Result<Parsed, String> {
    match media {
        BodyMedia::Json => {
            let parsed = json::parse_with_duplicates(body).map_err(|error| json_fault(body, &error))?;
            let duplicates = parsed.duplicates.iter();
            let complaints = duplicates.map(|path| format!("duplicate field {path:?}")).collect();
            Ok(Parsed { value: parsed.value, complaints })
        }
        BodyMedia::Yaml => parse_yaml(body),
        BodyMedia::Protobuf => {
            let value = parse_protobuf(body, &row.api_version(), &row.kind.kind)?;
            Ok(Parsed { value, complaints: Vec::new() })
        }
    }
}

fn json_fault(body: &[u8], error: &json::JsonError) -> String {
    if body.is_empty() {
        return "unexpected end of JSON input".to_owned();
    }
    error.to_string()
}

/// The first document of a YAML body, as kube-apiserver takes it.
fn parse_yaml(body: &[u8]) -> Result<Parsed, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: the text is not UTF-8".to_owned())?;
    let mut documents = yaml::parse_stream(text).map_err(|error| error.to_string())?.into_iter();
    let Some(document) = documents.next() else { return Ok(Parsed { value: Value::Null, complaints: Vec::new() }) };
    let complaints = document.duplicates.iter().map(ToString::to_string).collect();
    Ok(Parsed { value: document.value, complaints })
}

fn parse_protobuf(body: &[u8], api_version: &str, kind: &str) -> Result<Value, String> {
    protobuf::decode(body, api_version, kind).map_err(|error| error.to_string())
}

/// The object in the body of a create or an update.
pub(super) fn object(
    cx: &Context,
    row: &Row,
    media: BodyMedia,
    body: &Bytes,
    validation: FieldValidation,
) -> Result<Map, ApiError> {
    let Parsed { value, complaints } = parse(media, body, row).map_err(|fault| unrecognised(row, body, &fault))?;
    let mut object = match value {
        Value::Object(map) => map,
        Value::Null => Map::new(),
        other => {
            let fault = format!("json: cannot unmarshal {} into Go value of type map", other.type_name());
            return Err(unrecognised(row, body, &fault));
        }
    };
    let (kind, version) = check_type(row, &mut object)?;
    let cannot = |why: &str| {
        ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {}: {why}", row.kind.kind))
    };
    let mut complaints = shape(row, &mut object, complaints).map_err(|error| cannot(&error.message))?;
    if media == BodyMedia::Json && !row.kind.custom && complaints.len() > 1 {
        sort_as_they_stand(body, &mut complaints);
    }
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => complaints.into_iter().for_each(|text| cx.warn(text)),
        FieldValidation::Strict if complaints.is_empty() => {}
        FieldValidation::Strict => return Err(cannot(&format!("strict decoding error: {}", complaints.join(", ")))),
    }
    Ok(object)
}

/// Brings a parsed object into shape; adds what a strict decoder complains of.
pub(super) fn shape(row: &Row, object: &mut Map, duplicates: Vec<String>) -> Result<Vec<String>, DecodeError> {
    let mut unknown = Vec::new();
    let fault = metadata::decode(object, &mut unknown).err();
    if let Some(fault) = fault.as_ref().filter(|fault| row.kind.custom || fault.at_once) {
        return Err(fault.clone());
    }
    // What is of another custom kind has another schema, and is refused when it is validated.
    let other_kind = row.kind.custom && object.get("kind").and_then(Value::as_str) != Some(&row.kind.kind);
    if other_kind {
        return Ok(complaints(true, duplicates, &unknown));
    }
    let decoded = row.version().schema.decode(object);
    // Of two faults that the decoder goes on after, the first is told.
    if let Some(fault) = fault.filter(|_| decoded.as_ref().err().is_none_or(|other| !other.at_once)) {
        return Err(fault);
    }
    unknown.extend(decoded?.unknown);
    row.version().schema.default(object);
    row.kind.strategy.default(object);
    Ok(complaints(row.kind.custom, duplicates, &unknown))
}

/// Brings an object of a custom kind that something was applied to into shape. Nulls stay where they are:
/// it is for validation to say where they are no values.
pub(super) fn shape_applied(row: &Row, object: &mut Map) -> Result<(), DecodeError> {
    metadata::decode(object, &mut Vec::new())?;
    row.version().schema.default_applied(object);
    Ok(())
}

/// Built-in kinds are read member by member: complaints come in the order of the body. Those of custom
/// resources come by sort.
fn sort_as_they_stand(body: &[u8], complaints: &mut [String]) {
    let path_of = |complaint: &str| -> (bool, String) {
        let again = complaint.starts_with("duplicate field ");
        (again, complaint.split_once('"').map_or("", |(_, rest)| rest.trim_end_matches('"')).to_owned())
    };
    let paths: Vec<String> = complaints.iter().map(|complaint| path_of(complaint).1).collect();
    let places = order::places(body, paths.iter().map(String::as_str));
    complaints.sort_by_cached_key(|complaint| {
        let (again, path) = path_of(complaint);
        places.get(path.as_str()).map_or(usize::MAX, |places| if again { places.second } else { places.first })
    });
}

/// Each complaint once, duplicates first.
fn complaints(custom: bool, duplicates: Vec<String>, unknown: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    if !custom {
        // What types do not know is not looked into: it has no duplicates either.
        seen.extend(unknown.iter().map(|path| format!("duplicate field {path:?}")));
    }
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let mut complaints = Vec::new();
    for complaint in duplicates.into_iter().chain(unknown) {
        if complaints.len() == MAX_COMPLAINTS {
            break;
        }
        if seen.insert(complaint.clone()) {
            complaints.push(complaint);
        }
    }
    complaints
}

fn unrecognised(row: &Row, body: &[u8], fault: &str) -> ApiError {
    // The body itself is not shown: it may hold secrets.
    let shown = if body.is_empty() { " (<empty>)" } else { "" };
    let kind = &row.kind.kind;
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: \
         {fault}{shown}"
    ))
}

/// Fills in `apiVersion` and `kind` from the path, or refuses others; returns kind and version.
fn check_type(row: &Row, object: &mut Map) -> Result<(String, String), ApiError> {
    let text = |object: &Map, name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (row.api_version(), row.kind.kind.clone());
    let (given_version, given_kind) = (text(object, "apiVersion"), text(object, "kind"));
    let short = |api_version: &str| api_version.rsplit('/').next().unwrap_or_default().to_owned();
    // An object of another custom kind is refused when it is validated.
    let other_custom = row.kind.custom && short(&given_version) == row.version().name;
    if !given_kind.is_empty() && given_kind != kind && !other_custom {
        let message = format!(
            "{given_kind} in version {:?} cannot be handled as a {kind}: it is another kind than the path names",
            short(&given_version)
        );
        return Err(ApiError::bad_request(message));
    }
    if row.kind.custom && given_kind.is_empty() {
        let kind = &row.kind.kind;
        let message = format!("the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing");
        return Err(ApiError::bad_request(message));
    }
    if (row.kind.custom || !given_version.is_empty()) && given_version != api_version {
        let message = format!(
            "the API version in the data ({given_version}) does not match the expected API version ({api_version})"
        );
        return Err(ApiError::bad_request(message));
    }
    let version = short(&api_version);
    object.insert("apiVersion", api_version);
    if given_kind.is_empty() {
        object.insert("kind", kind.as_str());
    }
    Ok((kind, version))
}

/// The object in the body of a create on a subresource of its own kind, in the form of its type. What is in
/// it is the business of the one who answers it.
pub(super) fn connected(
    call: &super::Call<'_>,
    subresource: &crate::registry::Subresource,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let media = call.body_media()?;
    let kind = subresource.kind;
    let api_version = match subresource.group_version {
        Some((group, version)) => format!("{group}/{version}"),
        None => call.row.api_version(),
    };
    let parsed = match media {
        BodyMedia::Protobuf => {
            parse_protobuf(&call.body, &api_version, kind).map(|value| Parsed { value, complaints: Vec::new() })
        }
        _ => parse(media, &call.body, call.row),
    };
    let Parsed { value, complaints: duplicates } =
        parsed.map_err(|fault| unrecognised(call.row, &call.body, &fault))?;
    let mut object = match value {
        Value::Object(map) => map,
        Value::Null => Map::new(),
        _ => return Err(unrecognised(call.row, &call.body, "the body is no object")),
    };
    let text = |member: &str| object.get(member).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (given_version, given) = (text("apiVersion").unwrap_or(&api_version), text("kind").unwrap_or(kind));
    if (given_version, given) != (&api_version, kind) {
        let short = given_version.rsplit('/').next().unwrap_or_default();
        let message = format!(
            "{given} in version {short:?} cannot be handled as a {kind}: it is another kind than the path names"
        );
        return Err(ApiError::bad_request(message));
    }
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let cannot = |why: &str| {
        ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    object.insert("apiVersion", api_version.as_str());
    object.insert("kind", kind);
    let unknown = match builtin::message_of_kind(&api_version, kind) {
        Some(message) => builtin::decode_whole(message, &mut object).map_err(|error| cannot(&error.message))?.unknown,
        None => Vec::new(),
    };
    let complaints = complaints(false, duplicates, &unknown);
    match validation {
        FieldValidation::Strict if !complaints.is_empty() => {
            return Err(cannot(&format!("strict decoding error: {}", complaints.join(", "))));
        }
        FieldValidation::Warn => complaints.into_iter().for_each(|text| call.cx.warn(text)),
        _ => {}
    }
    let namespace = metadata_str(&object, "namespace").unwrap_or_default();
    if !namespace.is_empty() && namespace != call.cx.info.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    Ok(Value::Object(object))
}

/// `DeleteOptions` in the body of a delete, in the form of their type: values of other types are refused,
/// unknown fields let be.
pub(super) fn delete_options(value: Value) -> Result<Value, ApiError> {
    let mut options = match value {
        Value::Object(map) => map,
        Value::Null => Map::new(),
        _ => return Err(ApiError::bad_request("the options of a delete have to be an object")),
    };
    if let Some(message) = builtin::message_of_kind("v1", "DeleteOptions") {
        builtin::decode_whole(message, &mut options).map_err(|error| ApiError::bad_request(error.message))?;
    }
    Ok(Value::Object(options))
}

/// `DeleteOptions` in a protobuf body.
pub(super) fn protobuf_options(body: &[u8]) -> Result<Value, String> {
    parse_protobuf(body, "v1", "DeleteOptions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_of_built_in_kinds_come_as_they_stand() {
        let body = br#"{"metadata":{"foo":1},"data":{"k":"1","k":"2"},"bar":true}"#;
        let mut complaints = ["duplicate field \"data.k\"", "unknown field \"bar\"", "unknown field \"metadata.foo\""]
            .map(str::to_owned);
        sort_as_they_stand(body, &mut complaints);
        assert_eq!(
            complaints,
            ["unknown field \"metadata.foo\"", "duplicate field \"data.k\"", "unknown field \"bar\""]
        );
    }

    #[test]
    fn complaints_are_told_once_and_the_first_of_many() {
        let texts = |complaints: Vec<String>| complaints.join(", ");
        let paths = |list: &[&str]| -> Vec<String> { list.iter().map(|path| (*path).to_owned()).collect() };
        assert_eq!(
            texts(complaints(false, paths(&["duplicate field \"a\"", "duplicate field \"b\""]), &paths(&["b", "c"]))),
            "duplicate field \"a\", unknown field \"b\", unknown field \"c\""
        );
        assert_eq!(
            texts(complaints(true, paths(&["duplicate field \"b\""]), &paths(&["b"]))),
            "duplicate field \"b\", unknown field \"b\"",
            "custom resources are read whole before what is unknown is found"
        );
        let many: Vec<String> = (0..300_000).map(|index| format!("f{index}")).collect();
        let duplicates = many.iter().map(|path| format!("duplicate field {path:?}")).collect();
        assert_eq!(complaints(false, duplicates, &many).len(), MAX_COMPLAINTS);
    }
}
