//! Writes the table of the built-in types: a line for each message, a line for each of its fields. Its
//! form is described at the head of the table and read by `allotment-apiserver`'s `builtin::types`.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, bail};

use super::go::{Body, Declaration, Field, Source};

const HEAD: &str = "\
# The types of Kubernetes' built-in API, generated from the Go modules of release VERSION by
# `cargo xtask generate types`; do not edit.
#
# =PACKAGE.MESSAGE [kind] [atomic]   kind: has apiVersion and kind
# NAME NUMBER TYPE [FLAG]...         NAME in JSON, NUMBER in protobuf (0: not there); `.` is embedded, its members inline
# TYPE   [] list of, {} map of, * may be absent (a Go pointer); @MESSAGE; else a scalar or a type with its own form
# FLAG   e  left out where empty (omitempty)      z  left out where zero (omitzero)     r  required
#        l=set|atomic|map:KEY,KEY  a=atomic|granular (of a map or struct)  p=merge[:KEY],retainKeys  patch strategy
#        d=JSON default            v=A|B all values (~ is a blank)
";

/// Types with a form of their own in JSON or protobuf.
const SPECIAL: &[(&str, &str)] = &[
    ("k8s.io/apimachinery/pkg/util/intstr.IntOrString", "intorstring"),
    ("k8s.io/apimachinery/pkg/api/resource.Quantity", "quantity"),
    ("k8s.io/apimachinery/pkg/runtime.RawExtension", "raw"),
    ("meta/v1.Time", "time"),
    ("meta/v1.MicroTime", "microtime"),
    ("meta/v1.Duration", "duration"),
    ("meta/v1.FieldsV1", "fieldsv1"),
    ("apiextensions/v1.JSON", "json"),
    ("apiextensions/v1.JSONSchemaPropsOrArray", "schemaorarray"),
    ("apiextensions/v1.JSONSchemaPropsOrBool", "schemaorbool"),
    ("apiextensions/v1.JSONSchemaPropsOrStringArray", "schemaorstrings"),
];

/// The whole table.
pub(crate) fn render(source: &Source, version: &str) -> anyhow::Result<String> {
    let mut out = HEAD.replace("VERSION", version);
    for (name, declaration) in &source.types {
        let Body::Struct(fields) = &declaration.body else { continue };
        let special = SPECIAL.iter().any(|(special, _)| special == name);
        if special || is_list(fields) || !on_the_wire(fields) {
            continue;
        }
        write!(out, "={name}")?;
        if fields.iter().any(|field| field.embedded && field.go_type.ends_with("TypeMeta")) {
            out.push_str(" kind");
        }
        if declaration.markers.iter().any(|marker| marker == "structType=atomic" || marker == "k8s:structType=atomic") {
            out.push_str(" atomic");
        }
        out.push('\n');
        let mut numbers = BTreeSet::new();
        for field in fields {
            let line = field_line(source, declaration, field).with_context(|| format!("a field of {name}"))?;
            let Some(line) = line else { continue };
            if line.1 != 0 && !numbers.insert(line.1) {
                bail!("{name} has the number {} twice", line.1);
            }
            out.push_str(&line.0);
            out.push('\n');
        }
    }
    Ok(out)
}

/// Types without protobuf tags are discovery documents and the like, never bodies of requests.
fn on_the_wire(fields: &[Field]) -> bool {
    fields.is_empty() || fields.iter().any(|field| field.tags.contains_key("protobuf"))
}

/// Lists are the same for all kinds and need no line.
fn is_list(fields: &[Field]) -> bool {
    let has_items = fields.iter().any(|field| field.tags.get("json").is_some_and(|json| json.starts_with("items")));
    has_items && fields.iter().any(|field| field.go_type.ends_with("ListMeta"))
}

fn field_line(source: &Source, owner: &Declaration, field: &Field) -> anyhow::Result<Option<(String, u32)>> {
    let json = field.tags.get("json").map_or("", String::as_str);
    let (name, options) = json.split_once(',').unwrap_or((json, ""));
    if name == "-" || field.embedded && field.go_type.ends_with("TypeMeta") {
        return Ok(None);
    }
    let name = if name.is_empty() { "." } else { name };
    let number: u32 = match field.tags.get("protobuf") {
        Some(tag) if tag != "-" => tag.split(',').nth(1).context("no number")?.parse().context("number")?,
        _ => 0,
    };
    let resolved = resolve(source, owner, &field.go_type)?;
    let mut line = format!("{name} {number} {}", resolved.text);
    let omitempty = options.split(',').any(|option| option == "omitempty");
    let omitzero = options.split(',').any(|option| option == "omitzero");
    let has = |wanted: &str| field.markers.iter().any(|marker| marker == wanted);
    if omitempty {
        line.push_str(" e");
    }
    if omitzero {
        line.push_str(" z");
    }
    if name != "." && (has("required") || !omitempty && !has("optional")) {
        line.push_str(" r");
    }
    line.push_str(&list_flag(field)?);
    if has("mapType=atomic") || has("structType=atomic") {
        line.push_str(" a=atomic");
    } else if has("mapType=granular") || has("structType=granular") {
        line.push_str(" a=granular");
    }
    if let Some(strategy) = field.tags.get("patchStrategy") {
        write!(line, " p={strategy}")?;
        if let Some(key) = field.tags.get("patchMergeKey") {
            write!(line, ":{key}")?;
        }
    }
    if let Some(default) = field.markers.iter().find_map(|marker| marker.strip_prefix("default=")) {
        write!(line, " d={}", default_value(source, owner, default)?)?;
    }
    if !resolved.values.is_empty() {
        write!(line, " v={}", resolved.values.join("|").replace(' ', "~"))?;
    }
    Ok(Some((line, number)))
}

fn list_flag(field: &Field) -> anyhow::Result<String> {
    let values = |name: &str| {
        let wanted = [format!("{name}="), format!("k8s:{name}=")];
        let values: Vec<&str> = field
            .markers
            .iter()
            .filter_map(|marker| wanted.iter().find_map(|prefix| marker.strip_prefix(prefix.as_str())))
            .collect();
        let mut once = BTreeSet::new();
        values.into_iter().filter(|value| once.insert(*value)).collect::<Vec<_>>()
    };
    Ok(match values("listType").first() {
        None => String::new(),
        Some(&"map") => {
            let keys = values("listMapKey");
            if keys.is_empty() {
                bail!("a list map without keys");
            }
            format!(" l=map:{}", keys.join(","))
        }
        Some(kind) => format!(" l={kind}"),
    })
}

/// `+default=` gives JSON or `ref(CONSTANT)`.
fn default_value(source: &Source, owner: &Declaration, text: &str) -> anyhow::Result<String> {
    if let Some(name) = text.strip_prefix("ref(").and_then(|rest| rest.strip_suffix(')')) {
        let found = source
            .constants
            .iter()
            .filter(|(of, _)| of.starts_with(&format!("{}.", owner.package)))
            .flat_map(|(_, values)| values)
            .find(|(constant, _)| constant == name);
        return Ok(format!("\"{}\"", found.with_context(|| format!("no constant {name}"))?.1));
    }
    let value: serde_json::Value = serde_json::from_str(text).with_context(|| format!("default {text}"))?;
    let text = value.to_string();
    if text.contains(' ') {
        bail!("a default with a blank: {text}");
    }
    Ok(text)
}

/// A type in the table's form, and all its values where it is a closed set.
struct Resolved {
    text: String,
    values: Vec<String>,
}

fn resolve(source: &Source, owner: &Declaration, go_type: &str) -> anyhow::Result<Resolved> {
    if go_type == "[]byte" {
        return Ok(Resolved { text: "bytes".to_owned(), values: Vec::new() });
    }
    let nested = |shown: &str, rest: &str| -> anyhow::Result<Resolved> {
        let inner = resolve(source, owner, rest)?;
        Ok(Resolved { text: format!("{shown}{}", inner.text), values: inner.values })
    };
    if let Some(rest) = go_type.strip_prefix('*') {
        return nested("*", rest);
    }
    if let Some(rest) = go_type.strip_prefix("[]") {
        return nested("[]", rest);
    }
    if let Some(rest) = go_type.strip_prefix("map[") {
        return nested("{}", rest.split_once(']').context("a map without value")?.1);
    }
    let scalar = match go_type {
        "string" | "bool" | "int32" | "int64" => Some(go_type),
        "float64" => Some("double"),
        _ => None,
    };
    if let Some(scalar) = scalar {
        return Ok(Resolved { text: scalar.to_owned(), values: Vec::new() });
    }
    named(source, owner, go_type)
}

fn named(source: &Source, owner: &Declaration, go_type: &str) -> anyhow::Result<Resolved> {
    let name = match go_type.split_once('.') {
        None => format!("{}.{go_type}", owner.package),
        Some((alias, name)) => {
            let import = owner.imports.get(alias).with_context(|| format!("{alias} is not imported"))?;
            format!("{}.{name}", source.short(import).unwrap_or(import))
        }
    };
    if let Some((_, special)) = SPECIAL.iter().find(|(special, _)| *special == name) {
        return Ok(Resolved { text: (*special).to_owned(), values: Vec::new() });
    }
    let declaration = source.types.get(&name).with_context(|| format!("{name} is not declared"))?;
    match &declaration.body {
        Body::Struct(_) => Ok(Resolved { text: format!("@{name}"), values: Vec::new() }),
        // A nullable list is a message of its own on the wire, since protobuf has no lists in maps.
        Body::Named(_) if declaration.markers.iter().any(|marker| marker == "protobuf.nullable=true") => {
            Ok(Resolved { text: "items".to_owned(), values: Vec::new() })
        }
        Body::Named(target) => {
            let mut resolved = resolve(source, declaration, target)?;
            if declaration.markers.iter().any(|marker| marker == "enum") {
                let values = source.constants.get(&name).map(Vec::as_slice).unwrap_or_default();
                let values: BTreeSet<String> = values.iter().map(|(_, value)| value.clone()).collect();
                resolved.values = values.into_iter().collect();
            }
            Ok(resolved)
        }
    }
}
