//! Tables (`meta.k8s.io`, Table): what `kubectl get` shows.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;
use jiff::Timestamp;

use crate::builtin::since;
use crate::registry::{Column, Row};
use allotment_machinery::jsonpath::JsonPath;

/// A table; `columns` are left out where the client has them already.
pub(super) fn table(version: &str, metadata: Value, columns: Option<Value>, rows: Vec<Value>) -> Value {
    let version = format!("meta.k8s.io/{version}");
    let columns = columns.unwrap_or(Value::Null);
    json!({
        "kind": "Table", "apiVersion": version, "metadata": metadata, "columnDefinitions": columns, "rows": rows
    })
}

/// Whether a built-in kind has no table of its own: Kubernetes then shows an empty one without a list of rows.
pub(super) fn is_plain(row: &Row) -> bool {
    let plain = ["Name", "Created At"];
    !row.kind.custom && row.version().columns.iter().map(|column| column.name.as_str()).eq(plain)
}

/// The column definitions of a row of the registry.
pub(super) fn columns(row: &Row) -> Value {
    let columns = row.version().columns.iter().map(|column| {
        json!({
            "name": (column.name.as_str()), "type": (column.kind.as_str()), "format": (column.format.as_str()),
            "description": (column.description.as_str()), "priority": (column.priority)
        })
    });
    Value::Array(columns.collect())
}

/// The cells of an object, one for each column.
pub(super) fn cells(row: &Row, object: &Map, now: Timestamp) -> Vec<Value> {
    if let Some(cells) = row.kind.strategy.cells(object, now) {
        return cells;
    }
    row.version().columns.iter().map(|column| cell(column, row.kind.custom, object, now)).collect()
}

fn cell(column: &Column, custom: bool, object: &Map, now: Timestamp) -> Value {
    if column.format == "name" && column.json_path == ".metadata.name" {
        return Value::from(metadata_str(object, "name").unwrap_or_default());
    }
    let Ok(path) = column.json_path.parse::<JsonPath>() else { return Value::Null };
    let root = Value::Object(object.clone());
    let found = path.find(&root);
    match (column.kind.as_str(), found.as_slice()) {
        (_, [] | [Value::Null]) => Value::Null,
        ("integer", [Value::Number(number)]) if number.is_integer() => Value::Number(number.clone()),
        ("number", [Value::Number(number)]) => Value::Number(number.clone()),
        ("boolean", [Value::Bool(value)]) => Value::Bool(*value),
        ("integer" | "number" | "boolean", _) => Value::Null,
        // Built-in kinds show times as they are.
        ("date", [Value::String(text)]) if !custom => Value::from(text.as_str()),
        ("date", [value]) => Value::from(since(Some(value), now).unwrap_or_else(|| "<invalid>".to_owned())),
        ("date", _) => Value::Null,
        (_, [Value::String(text)]) => Value::from(text.as_str()),
        (_, many) => Value::from(many.iter().map(|value| plain(value)).collect::<Vec<_>>().join(" ")),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
