//! Reading: events of the YAML parser become values, with a stack of its own instead of recursion.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::{Document, DuplicateKey, MAX_EXPANSION, YamlError, resolve};
use crate::field::MAX_ERRORS;
use crate::json::{self, MAX_DEPTH, Map, Value};

/// The values of a text that is JSON, one after another; `None` if it is something else.
pub(super) fn json_stream(text: &str) -> Option<Vec<Document>> {
    let mut documents = Vec::new();
    let mut rest = text.trim_start();
    let (mut line, mut counted) = (1, 0);
    if !rest.starts_with(['{', '[']) {
        return None;
    }
    while !rest.is_empty() {
        let (parsed, length) = json::parse_first(rest).ok()?;
        let begin = text.len() - rest.len();
        line += text[counted..begin].matches('\n').count();
        counted = begin;
        let duplicates = parsed.duplicates.into_iter().map(|path| {
            let key = path.rsplit('.').next().unwrap_or_default().to_owned();
            DuplicateKey { line: 0, key, path }
        });
        let number = documents.len() + 1;
        documents.push(Document { number, line, duplicates: duplicates.collect(), value: parsed.value });
        rest = rest[length..].trim_start();
    }
    documents.retain(|document| !document.value.is_null());
    Some(documents)
}

/// The documents of a YAML text.
pub(super) fn yaml_stream(text: &str) -> Result<Vec<Document>, YamlError> {
    let mut reader = Reader::default();
    let mut parser = Parser::new_from_str(text);
    let mut documents = Vec::new();
    let (mut number, mut start) = (0, 1);
    while let Some(event) = parser.next_event() {
        let (event, span) =
            event.map_err(|error| YamlError { line: error.marker().line(), problem: error.info().to_owned() })?;
        reader.line = span.start.line();
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd => {}
            Event::DocumentStart(_) => {
                (number, start) = (number + 1, reader.line);
                reader.anchors.clear();
            }
            Event::DocumentEnd => {
                let value = reader.root.take().unwrap_or_default();
                let duplicates = std::mem::take(&mut reader.duplicates);
                if !value.is_null() {
                    documents.push(Document { number, line: start, value, duplicates });
                }
            }
            Event::Alias(anchor) => reader.alias(anchor)?,
            Event::Scalar(text, style, anchor, tag) => reader.scalar(text, style, anchor, tag.as_deref())?,
            Event::SequenceStart(anchor, _) => reader.open(Content::List(Vec::new()), anchor)?,
            Event::MappingStart(anchor, _) => reader.open(Content::Map(Members::default()), anchor)?,
            Event::SequenceEnd | Event::MappingEnd => reader.close()?,
        }
    }
    Ok(documents)
}

#[derive(Default)]
struct Reader {
    stack: Vec<Frame>,
    root: Option<Value>,
    anchors: BTreeMap<usize, Anchored>,
    duplicates: Vec<DuplicateKey>,
    /// The line of the event at hand.
    line: usize,
    /// Nodes and bytes so far, aliases included.
    produced: usize,
    /// Nodes and bytes that anchors hold and aliases added.
    expansion: usize,
}

struct Anchored {
    value: Value,
    cost: usize,
    depth: usize,
}

struct Frame {
    content: Content,
    anchor: usize,
    /// [`Reader::produced`] when it began.
    began: usize,
}

enum Content {
    List(Vec<Value>),
    Map(Members),
}

#[derive(Default)]
struct Members {
    members: Vec<(String, Value)>,
    seen: BTreeSet<String>,
    key: Option<Key>,
    merged: Vec<Map>,
}

enum Key {
    Name(String),
    Merge,
}

impl Reader {
    fn error<T>(&self, problem: impl Into<String>) -> Result<T, YamlError> {
        Err(YamlError { line: self.line, problem: problem.into() })
    }

    fn open(&mut self, content: Content, anchor: usize) -> Result<(), YamlError> {
        if self.stack.len() >= MAX_DEPTH {
            return self.error(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.stack.push(Frame { content, anchor, began: self.produced });
        self.produced += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), YamlError> {
        let Some(frame) = self.stack.pop() else { return self.error("nothing is open") };
        let value = match frame.content {
            Content::List(items) => Value::Array(items),
            Content::Map(members) => Value::Object(members.finish()),
        };
        self.keep(frame.anchor, &value, self.produced - frame.began)?;
        self.value(value, false)
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), YamlError> {
        let cost = 1 + text.len();
        self.produced += cost;
        let plain = style == ScalarStyle::Plain;
        let is_merge = plain && tag.is_none() && text == "<<";
        let value = match tag {
            None if plain => match resolve::plain(&text) {
                Some(value) => value,
                None => return self.error(format!("{text} is a number that JSON does not have")),
            },
            None => Value::String(text.into_owned()),
            Some(tag) => self.tagged(text, tag)?,
        };
        self.keep(anchor, &value, cost)?;
        self.value(value, is_merge)
    }

    fn tagged(&self, text: Cow<'_, str>, tag: &Tag) -> Result<Value, YamlError> {
        if !tag.is_yaml_core_schema() {
            // Tags of one's own tell nothing that JSON could say.
            return Ok(Value::String(text.into_owned()));
        }
        let value = resolve::plain(&text).unwrap_or_default();
        match (tag.suffix.as_str(), value) {
            ("str" | "timestamp", _) => Ok(Value::String(text.into_owned())),
            ("null", value @ Value::Null) | ("bool", value @ Value::Bool(_)) => Ok(value),
            ("int", Value::Number(number)) if number.is_integer() => Ok(Value::Number(number)),
            ("float", value @ Value::Number(_)) => Ok(value),
            (suffix, _) => self.error(format!("cannot read {text:?} as !!{suffix}")),
        }
    }

    /// Keeps an anchored value for its aliases.
    fn keep(&mut self, anchor: usize, value: &Value, cost: usize) -> Result<(), YamlError> {
        if anchor == 0 {
            return Ok(());
        }
        self.expand(cost)?;
        let anchored = Anchored { value: value.clone(), cost, depth: depth(value) };
        self.anchors.insert(anchor, anchored);
        Ok(())
    }

    fn alias(&mut self, anchor: usize) -> Result<(), YamlError> {
        // An alias within what it stands for has no value yet.
        let Some(anchored) = self.anchors.get(&anchor) else {
            return self.error("an alias stands for a value that is not complete");
        };
        let (cost, depth) = (anchored.cost, anchored.depth);
        if self.stack.len() + depth > MAX_DEPTH {
            return self.error(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.expand(cost)?;
        self.produced += cost;
        let value = self.anchors.get(&anchor).map(|anchored| anchored.value.clone()).unwrap_or_default();
        self.value(value, false)
    }

    fn expand(&mut self, cost: usize) -> Result<(), YamlError> {
        self.expansion += cost;
        if self.expansion > MAX_EXPANSION {
            return self.error("document contains excessive aliasing");
        }
        Ok(())
    }

    /// Puts a complete value where it belongs.
    fn value(&mut self, value: Value, is_merge_key: bool) -> Result<(), YamlError> {
        let line = self.line;
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        let members = match &mut frame.content {
            Content::List(items) => {
                items.push(value);
                return Ok(());
            }
            Content::Map(members) => members,
        };
        match members.key.take() {
            None if is_merge_key => members.key = Some(Key::Merge),
            None => {
                let Some(key) = key_text(value) else {
                    return self.error("a key has to be a text, a number or a boolean");
                };
                let duplicate = !members.seen.insert(key.clone());
                members.key = Some(Key::Name(key.clone()));
                if duplicate && self.duplicates.len() < MAX_ERRORS {
                    let path = self.path();
                    self.duplicates.push(DuplicateKey { line, key, path });
                }
            }
            Some(Key::Merge) => {
                let Some(maps) = mergeable(value) else {
                    return self.error("map merge requires map or sequence of maps as the value");
                };
                members.merged.extend(maps);
            }
            Some(Key::Name(key)) => members.members.push((key, value)),
        }
        Ok(())
    }

    /// Where the reader is: the keys and positions that are open.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in &self.stack {
            match &frame.content {
                Content::List(items) => path.push_str(&format!("[{}]", items.len())),
                Content::Map(Members { key: Some(Key::Name(key)), .. }) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
                Content::Map(_) => {}
            }
        }
        path
    }
}

impl Members {
    /// Own members go before merged ones, of which the first counts.
    fn finish(self) -> Map {
        if self.merged.is_empty() {
            return Map::from_iter(self.members);
        }
        let merged = self.merged.into_iter().rev().flatten();
        merged.chain(self.members).collect()
    }
}

fn key_text(key: Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.as_str().to_owned()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn mergeable(value: Value) -> Option<Vec<Map>> {
    let map = |value: Value| match value {
        Value::Object(map) => Some(map),
        _ => None,
    };
    match value {
        Value::Object(map) => Some(vec![map]),
        Value::Array(items) => items.into_iter().map(map).collect(),
        _ => None,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
        _ => 0,
    }
}
