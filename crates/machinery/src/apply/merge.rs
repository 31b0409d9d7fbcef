//! Putting an applied configuration over a value.

use std::collections::{BTreeMap, BTreeSet};

use super::element::PathElement;
use super::types::{Atom, ListAtom, MapAtom, TypeRef};
use crate::json::{Map, Value};

/// The object that `live` becomes when `applied` is put over it: nothing is removed, what both say is as
/// applied says. Both are of type `ty`.
pub fn merge(live: &Map, applied: &Map, ty: TypeRef<'_>) -> Map {
    match ty.resolve().map {
        Some(map) if !map.atomic => members(&map, live, applied),
        _ => applied.clone(),
    }
}

fn values(live: Option<&Value>, applied: Option<&Value>, ty: TypeRef<'_>) -> Option<Value> {
    // With one of them there is nothing to decide.
    let (Some(live), Some(applied)) = (live, applied) else { return applied.or(live).cloned() };
    form(ty.resolve().deduced(Some(applied)), live, applied)
}

/// What comes out under the form that the applied value has. Null has any form, a map's first.
fn form(atom: Atom<'_>, live: &Value, applied: &Value) -> Option<Value> {
    if let Some(map) = atom.map {
        let (old, new) = (live.as_object(), applied.as_object());
        if map.atomic || old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty) {
            return Some(applied.clone());
        }
        return match (old, new) {
            (Some(old), Some(new)) => Some(members(&map, old, new).into()),
            (Some(old), None) => Some(old.clone().into()),
            (None, new) => new.map(|new| new.clone().into()),
        };
    }
    if atom.scalar.is_some() {
        return Some(applied.clone());
    }
    let list = atom.list?;
    let (old, new) = (live.as_array().unwrap_or_default(), applied.as_array().unwrap_or_default());
    if list.atomic || old.is_empty() && new.is_empty() {
        return Some(applied.clone());
    }
    let merged = items(&list, old, new);
    (!merged.is_empty()).then_some(Value::Array(merged))
}

fn members(map: &MapAtom<'_>, live: &Map, applied: &Map) -> Map {
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let (mut left, mut right) = (live.iter().peekable(), applied.iter().peekable());
    loop {
        let name = match (left.peek(), right.peek()) {
            (None, None) => return Map::from_iter(out),
            (Some((name, _)), None) | (None, Some((name, _))) => *name,
            (Some((old, _)), Some((new, _))) => *old.min(new),
        };
        let old = left.next_if(|(have, _)| *have == name).map(|(_, value)| value);
        let new = right.next_if(|(have, _)| *have == name).map(|(_, value)| value);
        out.extend(values(old, new, map.member(name)).map(|value| (name.to_owned(), value)));
    }
}

/// One element on its way into the merged list.
struct Item<'a> {
    step: PathElement,
    value: &'a Value,
}

fn with_steps<'a>(list: &ListAtom<'_>, items: &'a [Value]) -> Vec<Item<'a>> {
    items.iter().filter_map(|value| Some(Item { step: list.path_element(value).ok()?, value })).collect()
}

/// Merges lists whose elements are told apart. The elements of the applied list keep their order; the others
/// stay where they are as far as that allows.
fn items(list: &ListAtom<'_>, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let (live, applied) = (with_steps(list, live), with_steps(list, applied));
    let element = list.element();
    // What is live under a key; null where several elements have it, which no applied one is merged with.
    let mut live_by_step: BTreeMap<&PathElement, Option<&Value>> = BTreeMap::new();
    for item in &live {
        live_by_step.entry(&item.step).and_modify(|value| *value = None).or_insert(Some(item.value));
    }
    let applied_by_step: BTreeMap<&PathElement, &Value> = applied.iter().map(|item| (&item.step, item.value)).collect();
    let null = Value::Null;
    let merged = |item: &Item<'_>| {
        let live = live_by_step.get(&item.step).map(|value| value.unwrap_or(&null));
        values(live, Some(item.value), element)
    };
    let mut shared = applied.iter().filter(|item| live_by_step.contains_key(&item.step)).map(|item| &item.step);
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let (mut l, mut a) = (0, 0);
    while l < live.len() || a < applied.len() {
        if let (Some(old), Some(new)) = (live.get(l), applied.get(a)) {
            if old.step == new.step {
                done.insert(&new.step);
                out.extend(merged(new));
                (l, a) = (l + 1, a + 1);
                next_shared = shared.next();
                continue;
            }
            let other_is_due = next_shared.is_some_and(|next| *next != old.step);
            if other_is_due && applied_by_step.contains_key(&old.step) {
                // It is applied too, but not the one whose turn it is: the applied order decides.
                l += 1;
                continue;
            }
        }
        if let Some(old) = live.get(l) {
            if !applied_by_step.contains_key(&old.step) {
                out.push(old.value.clone());
                l += 1;
                continue;
            }
            if done.contains(&old.step) {
                l += 1;
            }
        }
        if let Some(new) = applied.get(a) {
            done.insert(&new.step);
            out.extend(merged(new));
            a += 1;
            if next_shared == Some(&new.step) {
                next_shared = shared.next();
            }
        }
    }
    out
}
