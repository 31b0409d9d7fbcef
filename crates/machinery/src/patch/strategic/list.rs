//! Merging lists. Elements are found by an index over their merge keys, so that long lists do not cost
//! the square of their length.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::{DIRECTIVE, PatchSchema, StrategicError, clean, objects};
use crate::gotext::go_plain;
use crate::json::{Map, Value};

/// `items` without those that are among `gone`.
pub(super) fn without(items: Vec<Value>, gone: &[Value]) -> Vec<Value> {
    let gone: BTreeSet<Cow<'_, str>> = gone.iter().map(identity).collect();
    items.into_iter().filter(|item| !gone.contains(&identity(item))).collect()
}

/// The list after the patch, by the strategy of its type.
pub(super) fn merge<S: PatchSchema>(
    old: Vec<Value>,
    new: Vec<Value>,
    schema: Option<&S>,
) -> Result<Vec<Value>, StrategicError> {
    match schema.filter(|schema| schema.merges_lists()) {
        None => Ok(new.into_iter().filter_map(clean).collect()),
        Some(_) if old.is_empty() && new.is_empty() => Ok(old),
        Some(schema) => {
            let server_order = Keys::of(&old, schema.merge_key())?;
            let (merged, patch_order) = merge_elements(old, new, schema)?;
            arrange(merged, schema.merge_key(), &patch_order, &server_order)
        }
    }
}

/// The list after a patch with `$setElementOrder`; `None` where neither side has one.
pub(super) fn merge_in_order<S: PatchSchema>(
    old: Option<Value>,
    new: Option<Value>,
    order: Value,
    schema: Option<&S>,
) -> Result<Option<Value>, StrategicError> {
    let list = |value: Value| match value {
        Value::Array(items) => Ok(items),
        other => Err(StrategicError::expected_list(&other)),
    };
    let order = list(order)?;
    let (old, new) = (old.map(list).transpose()?, new.map(list).transpose()?);
    let key = schema.map_or("", S::merge_key);
    if let Some(new) = &new {
        check_order(new, &order, key)?;
    }
    let server_order = Keys::of(old.as_deref().unwrap_or_default(), key)?;
    let merged = match (old, new) {
        (None, None) => return Ok(None),
        (Some(old), None) => old,
        (None, Some(new)) => new.into_iter().filter_map(clean).collect(),
        (Some(old), Some(new)) => merge(old, new, schema)?,
    };
    arrange(merged, key, &Keys::of(&order, key)?, &server_order).map(|items| Some(Value::Array(items)))
}

/// The elements of the patch, but for deletions, have to be a part of `order`, in its order.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), StrategicError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for element in patch {
        if !key.is_empty() {
            let map = element.as_object().ok_or_else(|| StrategicError::expected_object(element))?;
            if map.contains_key(DIRECTIVE) {
                continue;
            }
        }
        let wanted = key_of(element, key)?;
        let mut found = false;
        for candidate in rest.by_ref() {
            if key_of(candidate, key)? == wanted {
                found = true;
                break;
            }
        }
        if !found {
            let show = |items: &[Value]| go_plain(&Value::Array(items.to_vec()));
            return Err(StrategicError::OrderMismatch { patch: show(patch), order: show(order) });
        }
    }
    Ok(())
}

/// The elements of both lists, each once, and the order of those of the patch.
fn merge_elements<S: PatchSchema>(
    old: Vec<Value>,
    new: Vec<Value>,
    schema: &S,
) -> Result<(Vec<Value>, Keys), StrategicError> {
    check_types(&old, &new)?;
    if !old.iter().chain(&new).any(|element| element.as_object().is_some()) {
        let order = Keys::of(&new, "")?;
        let mut seen = BTreeSet::new();
        let mut both: Vec<Value> = old.into_iter().chain(new).collect();
        both.retain(|item| seen.insert(identity(item).into_owned()));
        return Ok((both, order));
    }
    let key = schema.merge_key();
    if key.is_empty() {
        return Err(StrategicError::UnknownMergeKey);
    }
    let (old, new) = apply_directives(old, new, key)?;
    let order = Keys::of(&new, key)?;
    let mut places = Keys::of(&old, key)?;
    let mut merged: Vec<Value> = old;
    for element in new {
        let Value::Object(element) = element else { continue };
        match places.place_of_object(&element, key)? {
            Some(place) => {
                let found = std::mem::take(&mut merged[place]);
                let Value::Object(found) = found else { return Err(StrategicError::expected_object(&found)) };
                merged[place] = Value::Object(objects(found, element, schema.items())?);
            }
            None => {
                // Directives within a new element stay what they are: fields that its type does not know.
                let element = Value::Object(element);
                places.add(&element, key, merged.len())?;
                merged.push(element);
            }
        }
    }
    Ok((merged, order))
}

/// Does what elements with `$patch` say, and gives both lists without them.
fn apply_directives(
    mut old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let (mut kept, mut gone, mut replace) = (Vec::with_capacity(new.len()), BTreeSet::new(), false);
    for element in new {
        let Some(directive) = element.get(DIRECTIVE) else {
            kept.push(element);
            continue;
        };
        match (directive.as_str(), &element) {
            (Some("delete"), _) => {
                gone.insert(key_of(&element, key)?.into_owned());
            }
            (Some("replace"), _) => replace = true,
            (Some("merge"), _) => return Err(StrategicError::MergeDirective),
            (_, Value::Object(map)) => return Err(StrategicError::unknown_directive(map)),
            (_, other) => return Err(StrategicError::expected_object(other)),
        }
    }
    if replace {
        return Ok((kept.into_iter().filter_map(clean).collect(), Vec::new()));
    }
    if !gone.is_empty() {
        old.retain(|element| element.get(key).is_none_or(|value| !gone.contains(&*identity(value))));
    }
    Ok((old, kept))
}

/// All elements have to be of one type, and not lists.
fn check_types(old: &[Value], new: &[Value]) -> Result<(), StrategicError> {
    let mut all = old.iter().chain(new);
    let Some(first) = all.next() else { return Ok(()) };
    if first.as_array().is_some() {
        return Err(StrategicError::ListOfLists);
    }
    if all.all(|element| std::mem::discriminant(element) == std::mem::discriminant(first)) {
        return Ok(());
    }
    let show = |items: &[Value]| go_plain(&Value::Array(items.to_vec()));
    Err(StrategicError::MixedElements(format!("[{} {}]", show(old), show(new))))
}

/// Orders the elements: those that `patch_order` names in its order, among the others, which keep the
/// order of the server. An element of the server stands before the first named one that the server has
/// behind it.
fn arrange(
    items: Vec<Value>,
    key: &str,
    patch_order: &Keys,
    server_order: &Keys,
) -> Result<Vec<Value>, StrategicError> {
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in items {
        let server = server_order.place(&item, key)?;
        match patch_order.place(&item, key)? {
            Some(place) => named.push((place, server, item)),
            None => others.push((server, item)),
        }
    }
    named.sort_by_key(|(place, ..)| *place);
    sort_as_go(&mut others);
    let mut out = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, server, item) in named {
        let before = |(other, _): &(Option<usize>, Value)| matches!((other, server), (Some(other), Some(server)) if *other < server);
        while let Some((_, other)) = others.next_if(before) {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(others.map(|(_, other)| other));
    Ok(out)
}

/// Lists up to this length are sorted by insertion in Go.
const INSERTION_LENGTH: usize = 20;

/// Sorts elements by their places on the server. Those that the server lacks, as there are some beside an
/// empty `$setElementOrder`, end where Go's insertion sort leaves them: they are less than any element, and
/// any is less than they are.
fn sort_as_go(items: &mut [(Option<usize>, Value)]) {
    let unknown_last = |place: Option<usize>| (place.is_none(), place);
    if items.len() > INSERTION_LENGTH || items.iter().all(|(place, _)| place.is_some()) {
        return items.sort_by_key(|(place, _)| unknown_last(*place));
    }
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 {
            let is_less = match (items[at].0, items[at - 1].0) {
                (Some(left), Some(right)) => left < right,
                _ => true,
            };
            if !is_less {
                break;
            }
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Where the elements of a list stand, by what tells them apart.
struct Keys(BTreeMap<String, usize>);

impl Keys {
    fn of(items: &[Value], key: &str) -> Result<Keys, StrategicError> {
        let mut keys = Keys(BTreeMap::new());
        for (place, item) in items.iter().enumerate() {
            keys.add(item, key, place)?;
        }
        Ok(keys)
    }

    /// Of equal elements the first counts.
    fn add(&mut self, item: &Value, key: &str, place: usize) -> Result<(), StrategicError> {
        self.0.entry(key_of(item, key)?.into_owned()).or_insert(place);
        Ok(())
    }

    fn place(&self, item: &Value, key: &str) -> Result<Option<usize>, StrategicError> {
        Ok(self.0.get(&*key_of(item, key)?).copied())
    }

    fn place_of_object(&self, item: &Map, key: &str) -> Result<Option<usize>, StrategicError> {
        let value = item.get(key).ok_or_else(|| StrategicError::no_merge_key(&Value::Object(item.clone()), key))?;
        Ok(self.0.get(&*identity(value)).copied())
    }
}

/// What tells an element from others: its merge key, or itself where there is none.
fn key_of<'a>(element: &'a Value, key: &str) -> Result<Cow<'a, str>, StrategicError> {
    if key.is_empty() {
        return Ok(identity(element));
    }
    let map = element.as_object().ok_or_else(|| StrategicError::expected_object(element))?;
    map.get(key).map(identity).ok_or_else(|| StrategicError::no_merge_key(element, key))
}

/// A text that is the same for equal values only. Strings that look like other values are quoted.
fn identity(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) if text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/') => {
            match text.as_str() {
                "true" | "false" | "null" => Cow::Owned(value.to_string()),
                plain => Cow::Borrowed(plain),
            }
        }
        other => Cow::Owned(other.to_string()),
    }
}
