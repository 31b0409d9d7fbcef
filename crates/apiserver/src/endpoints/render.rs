//! What a reply shows: whole objects, tables, metadata alone; as JSON or YAML.

use std::sync::Arc;

use allotment_machinery::gotext::go_quote;
use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::{metadata_str, stored_metadata, type_prefix};
use allotment_store::Revision;
use bytes::Bytes;
use jiff::Timestamp;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::list::ListPage;
use super::watch::{put_whole_frame, value_frame};
use super::{Call, Reply, store, table};
use crate::body::{Piece, ResponseBody};
use crate::negotiation::{self, Accept, Form, Media};
use crate::registry::Row;
use crate::status::ApiError;

/// How many bytes of objects may be made anew where the request is served: about as many as one object may have.
/// Longer lists wait for their turn, and are made beside everything else.
const AT_ONCE: usize = 1024 * 1024;

/// A rendered reply.
pub(crate) struct Rendered {
    pub(crate) code: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: ResponseBody,
}

/// Renders a reply as the client accepts it.
pub(super) async fn render(call: &Call<'_>, reply: Reply) -> Result<Rendered, ApiError> {
    let accept = call.accept;
    let content_type = accept.media.content_type();
    let (code, body) = match reply {
        Reply::Nothing => return Ok(Rendered { code: 204, content_type: "", body: ResponseBody::empty() }),
        Reply::Value { code, value } => (code, encoded(&value, accept)),
        Reply::Object { code, body } => (code, object(call, &body)?),
        // In a box, so that other replies do not have its size.
        Reply::List(page) if !is_short(call, &page) => (200, Box::pin(long_list(call, &page)).await?),
        Reply::List(page) => (200, list(call, &page)?),
        Reply::Watch(frames) => (200, ResponseBody::stream(frames)),
    };
    Ok(Rendered { code, content_type, body })
}

/// Any value as the client accepts it.
pub(crate) fn encoded(value: &Value, accept: Accept) -> ResponseBody {
    match accept.media {
        Media::Json if accept.pretty => ResponseBody::full(pretty(value)),
        Media::Json => {
            let mut bytes = value.to_vec();
            bytes.push(b'\n');
            ResponseBody::full(bytes)
        }
        Media::Yaml => ResponseBody::full(allotment_machinery::yaml::to_string(value)),
    }
}

/// JSON with one member a line.
fn pretty(value: &Value) -> String {
    let mut out = String::new();
    pretty_into(value, 0, &mut out);
    out.push('\n');
    out
}

fn pretty_into(value: &Value, depth: usize, out: &mut String) {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(out, depth + 1);
                pretty_into(item, depth + 1, out);
            }
            line(out, depth);
            out.push(']');
        }
        Value::Object(map) if !map.is_empty() => {
            out.push('{');
            for (index, (key, member)) in map.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(out, depth + 1);
                out.push_str(&Value::from(key).to_string());
                out.push_str(": ");
                pretty_into(member, depth + 1, out);
            }
            line(out, depth);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn wrong_form(call: &Call<'_>, list: bool) -> ApiError {
    let kind = if list { &call.row.kind.list_kind } else { &call.row.kind.kind };
    // The package of the internal type, which has the name of the group's first part.
    let package = call.row.kind.shown_group().split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    let (group, kind) = match (call.row.kind.custom, list) {
        (true, true) => ("unstructured", "UnstructuredList"),
        (true, false) => ("unstructured", "Unstructured"),
        (false, _) => (package, kind.as_str()),
    };
    let message = if list {
        format!("you requested PartialObjectMetadata, but the requested object is a list (*{group}.{kind})")
    } else {
        format!("you requested PartialObjectMetadataList, but the requested object is not a list (*{group}.{kind})")
    };
    ApiError::new(406, "NotAcceptable", message)
}

fn object(call: &Call<'_>, body: &Bytes) -> Result<ResponseBody, ApiError> {
    let Call { row, accept, .. } = *call;
    let body = &store::in_version(row, body)?;
    match accept.form {
        Form::Whole if accept.media == Media::Json && !accept.pretty => {
            let mut out = type_prefix(&row.api_version(), &row.kind.kind);
            out.reserve_exact(body.len());
            out.extend_from_slice(&body[1..]);
            out.push(b'\n');
            Ok(ResponseBody::full(out))
        }
        Form::Whole => Ok(encoded(&whole(row, body)?, accept)),
        Form::Partial { list: true } => Err(wrong_form(call, false)),
        Form::Partial { list: false } => Ok(encoded(&partial_of(body, accept.meta_version)?, accept)),
        Form::Table => {
            let shape = Shape::of(call)?;
            let object = whole_map(row, body)?;
            let metadata = row_metadata(&object);
            let rows = vec![shape.table_row(row, &object)];
            Ok(encoded(&table::table(accept.meta_version, metadata, Some(table::columns(row)), rows), accept))
        }
    }
}

/// Whether a list is made in no time: as it is stored, or of few bytes.
fn is_short(call: &Call<'_>, page: &ListPage) -> bool {
    let Call { row, accept, .. } = *call;
    let as_stored = accept.form == Form::Whole && accept.media == Media::Json && !accept.pretty;
    (as_stored && !store::needs_work(row))
        || page.entries.iter().map(|entry| entry.body_len()).sum::<usize>() <= AT_ONCE
}

/// A list that takes long to make. Few are made at once, those of each tenant and user in turn, and each on a thread
/// that serves nobody else meanwhile.
async fn long_list(call: &Call<'_>, page: &ListPage) -> Result<ResponseBody, ApiError> {
    let cx = call.cx;
    let _turn = cx.server.long_replies().take(&cx.tenant.tenant, &cx.user.name).await?;
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(|| list(call, page)),
        _ => list(call, page),
    }
}

fn list(call: &Call<'_>, page: &ListPage) -> Result<ResponseBody, ApiError> {
    let Call { row, accept, .. } = *call;
    let metadata = list_metadata(row, accept, page);
    let bodies = page.entries.iter().map(|entry| store::in_version(row, &entry.body()));
    match accept.form {
        Form::Whole if accept.media == Media::Json && !accept.pretty => {
            // Behind the brace of items of custom kinds goes their type.
            let from = usize::from(row.kind.custom);
            let items = page.entries.iter().map(|entry| store::entry_in_version(call.cx, row, entry));
            let items: Vec<Piece> = items.map(|entry| Ok(Piece::of(&entry?, from))).collect::<Result<_, ApiError>>()?;
            Ok(ResponseBody::pieces(list_pieces(row, &metadata, items)))
        }
        Form::Whole => {
            let items: Result<Vec<Value>, ApiError> = bodies.map(|body| item(row, &body?)).collect();
            let (kind, version) = (row.kind.list_kind.as_str(), row.api_version());
            Ok(encoded(&json!({"apiVersion": version, "kind": kind, "metadata": metadata, "items": (items?)}), accept))
        }
        Form::Partial { list: false } => Err(wrong_form(call, true)),
        Form::Partial { list: true } => {
            let items = bodies.map(|body| partial_of(&body?, accept.meta_version));
            let version = format!("meta.k8s.io/{}", accept.meta_version);
            let mut list = json!({"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": metadata});
            if page.entries.is_empty() {
                // As Kubernetes has it: no items are null here, while whole lists have an empty one.
                list.as_object_mut().map(|list| list.insert("items", Value::Null));
                return Ok(encoded(&list, accept));
            }
            made_anew(list, "items", items, accept)
        }
        Form::Table => {
            let shape = Shape::of(call)?;
            let rows = bodies.map(|body| Ok(shape.table_row(row, &whole_map(row, &body?)?)));
            let mut table = table::table(accept.meta_version, metadata, Some(table::columns(row)), Vec::new());
            if page.entries.is_empty() {
                if table::is_plain(row) {
                    table.as_object_mut().map(|table| table.insert("rows", Value::Null));
                }
                return Ok(encoded(&table, accept));
            }
            made_anew(table, "rows", rows, accept)
        }
    }
}

/// `list` with `items` as its `member`. As compact JSON each is written as soon as it is made, so that neither all
/// values have to be there at once nor all texts be written at one go.
fn made_anew(
    mut list: Value,
    member: &'static str,
    items: impl Iterator<Item = Result<Value, ApiError>>,
    accept: Accept,
) -> Result<ResponseBody, ApiError> {
    if accept.media != Media::Json || accept.pretty {
        let items: Vec<Value> = items.collect::<Result<_, _>>()?;
        list.as_object_mut().map(|list| list.insert(member, items));
        return Ok(encoded(&list, accept));
    }
    let items: Vec<Bytes> = items.map(|item| Ok(Bytes::from(item?.to_vec()))).collect::<Result<_, ApiError>>()?;
    list.as_object_mut().map(|list| list.remove(member));
    let mut head = list.to_vec();
    head.truncate(head.len() - 1);
    head.extend_from_slice(format!(",\"{member}\":[").as_bytes());
    let comma = Bytes::from_static(b",");
    let items = items.into_iter().enumerate();
    let items = items.flat_map(|(index, item)| [if index > 0 { comma.clone() } else { Bytes::new() }, item]);
    Ok(ResponseBody::pieces([Bytes::from(head)].into_iter().chain(items).chain([Bytes::from_static(b"]}\n")])))
}

fn list_metadata(row: &Row, accept: Accept, page: &ListPage) -> Value {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion", page.revision.to_string());
    // Lists of custom kinds always have the member, as in Kubernetes, but not as tables.
    if (row.kind.custom && accept.form == Form::Whole) || !page.continue_token.is_empty() {
        metadata.insert("continue", page.continue_token.as_str());
    }
    if let Some(remaining) = page.remaining.and_then(|count| i64::try_from(count).ok()) {
        metadata.insert("remainingItemCount", remaining);
    }
    Value::Object(metadata)
}

/// The bytes of a list: what stands before the items, the items as they are stored, those of custom kinds without their
/// brace, and the end.
fn list_pieces(row: &Row, metadata: &Value, items: Vec<Piece>) -> Vec<Piece> {
    let item_prefix = row.kind.custom.then(|| Bytes::from(type_prefix(&row.api_version(), &row.kind.kind)));
    let mut head = type_prefix(&row.api_version(), &row.kind.list_kind);
    head.extend_from_slice(b"\"metadata\":");
    head.extend_from_slice(&metadata.to_vec());
    head.extend_from_slice(b",\"items\":[");
    let mut pieces = Vec::with_capacity(items.len() * 3 + 2);
    pieces.push(Bytes::from(head).into());
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            pieces.push(Bytes::from_static(b",").into());
        }
        pieces.extend(item_prefix.clone().map(Piece::from));
        pieces.push(item);
    }
    pieces.push(Bytes::from_static(b"]}\n").into());
    pieces
}

fn parsed(body: &[u8]) -> Result<Map, ApiError> {
    match json::parse(body) {
        Ok(Value::Object(map)) => Ok(map),
        _ => Err(ApiError::internal("a stored object cannot be read")),
    }
}

fn whole_map(row: &Row, body: &[u8]) -> Result<Map, ApiError> {
    let mut object = parsed(body)?;
    object.insert("apiVersion", row.api_version());
    object.insert("kind", row.kind.kind.as_str());
    Ok(object)
}

fn whole(row: &Row, body: &[u8]) -> Result<Value, ApiError> {
    whole_map(row, body).map(Value::Object)
}

/// An item of a list; those of built-in kinds do not repeat their type.
fn item(row: &Row, body: &[u8]) -> Result<Value, ApiError> {
    if row.kind.custom { whole(row, body) } else { parsed(body).map(Value::Object) }
}

/// The metadata of a table of one object: its version, unless it has none, as after a dry run.
fn row_metadata(object: &Map) -> Value {
    match metadata_str(object, "resourceVersion") {
        Some(version) => json!({ "resourceVersion": version }),
        None => json!({}),
    }
}

/// The metadata of a stored object; nothing else of it is read, which may be a hundred times as much.
fn partial_of(body: &[u8], version: &str) -> Result<Value, ApiError> {
    match stored_metadata(body).and_then(|text| json::parse(text).ok()) {
        Some(metadata) => Ok(partial_with(metadata, version)),
        None => Ok(partial(&parsed(body)?, version)),
    }
}

fn partial(object: &Map, version: &str) -> Value {
    partial_with(object.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new())), version)
}

fn partial_with(metadata: Value, version: &str) -> Value {
    let version = format!("meta.k8s.io/{version}");
    json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata})
}

/// What rows of a table show of their objects (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IncludeObject {
    None,
    Metadata,
    Object,
}

/// The shape of the events of a watch and of the rows of a table.
pub(super) struct Shape {
    accept: Accept,
    include: IncludeObject,
    clock: Arc<dyn allotment_machinery::seams::Clock>,
    /// Whether the columns of the table have been told; later events leave them out.
    told_columns: bool,
}

impl Shape {
    fn of(call: &Call<'_>) -> Result<Self, ApiError> {
        let shape = Shape::whole(call);
        let include = match call.query.text("includeObject") {
            "" | "Metadata" => IncludeObject::Metadata,
            "None" => IncludeObject::None,
            "Object" => IncludeObject::Object,
            other => {
                let other = go_quote(other);
                let message = format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other}: must be \
                     'Metadata', 'Object', 'None', or empty"
                );
                return Err(ApiError::bad_request(message));
            }
        };
        Ok(Shape { include, ..shape })
    }

    fn whole(call: &Call<'_>) -> Self {
        let clock = Arc::clone(call.cx.server.clock());
        Shape { accept: call.accept, include: IncludeObject::Metadata, clock, told_columns: false }
    }

    /// The shape of the events of a watch, which come in a form that can be streamed.
    pub(super) fn of_watch(call: &Call<'_>) -> Result<Self, ApiError> {
        let shape = match call.accept.form {
            Form::Table => Shape::of(call)?,
            _ => Shape::whole(call),
        };
        negotiation::check_streams(call.accept)?;
        Ok(shape)
    }

    /// Whether no event can be shown, since none is a list. Such a watch is taken, and ends with the first.
    pub(super) fn shows_no_events(&self) -> bool {
        self.accept.form == Form::Partial { list: true }
    }

    /// Whether events show objects just as they are stored.
    pub(super) fn is_as_stored(&self, row: &Row) -> bool {
        self.accept.form == Form::Whole && !store::needs_work(row)
    }

    /// The frame of an event.
    pub(super) fn event(&mut self, row: &Row, kind: &str, body: &Bytes) -> Bytes {
        // A stored object that cannot be read was refused when it was written; an empty frame ends nothing.
        self.try_event(row, kind, body).unwrap_or_else(|error| value_frame("ERROR", &error.to_value()))
    }

    fn try_event(&mut self, row: &Row, kind: &str, body: &Bytes) -> Result<Bytes, ApiError> {
        let body = store::in_version(row, body)?;
        Ok(match self.accept.form {
            Form::Whole => {
                let mut out = Vec::new();
                put_whole_frame(&type_prefix(&row.api_version(), &row.kind.kind), kind, &body, &mut out);
                Bytes::from(out)
            }
            Form::Partial { .. } => value_frame(kind, &partial_of(&body, self.accept.meta_version)?),
            Form::Table => {
                let object = whole_map(row, &body)?;
                value_frame(kind, &self.event_table(row, &object))
            }
        })
    }

    fn event_table(&mut self, row: &Row, object: &Map) -> Value {
        let columns = (!std::mem::replace(&mut self.told_columns, true)).then(|| table::columns(row));
        let rows = vec![self.table_row(row, object)];
        table::table(self.accept.meta_version, row_metadata(object), columns, rows)
    }

    /// The frame that tells how far the watch has come.
    pub(super) fn bookmark(&mut self, row: &Row, revision: Revision, ends_initial: bool) -> Bytes {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion", revision.to_string());
        if ends_initial {
            metadata.insert("annotations", json!({"k8s.io/initial-events-end": "true"}));
        }
        let mut object = Map::new();
        if !row.kind.custom {
            // It is an object of which nothing else is set: members that are never left out are there. A table
            // knows of nothing that could not be read.
            let _ = row.version().schema.decode(&mut object);
        }
        object.insert("apiVersion", row.api_version());
        object.insert("kind", row.kind.kind.as_str());
        object.insert("metadata", metadata);
        row.kind.strategy.fill_bookmark(&mut object);
        let value = match self.accept.form {
            Form::Whole => Value::Object(object),
            Form::Partial { .. } => partial(&object, self.accept.meta_version),
            Form::Table => self.event_table(row, &object),
        };
        value_frame("BOOKMARK", &value)
    }

    /// The row of an object.
    pub(super) fn table_row(&self, row: &Row, object: &Map) -> Value {
        let now: Timestamp = self.clock.now();
        let mut table_row = Map::new();
        table_row.insert("cells", table::cells(row, object, now));
        let shown = match self.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial(object, self.accept.meta_version),
            IncludeObject::Object => Value::Object(object.clone()),
        };
        table_row.insert("object", shown);
        Value::Object(table_row)
    }
}
