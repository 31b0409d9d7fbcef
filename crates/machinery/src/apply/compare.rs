//! What differs between two values of a type.

use std::collections::BTreeMap;

use super::element::PathElement;
use super::scalar;
use super::set::{FieldSet, Node};
use super::types::{ListAtom, MapAtom, TypeRef};
use crate::json::{Map, Value};

/// The fields in which two objects differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the first one has.
    pub removed: FieldSet,
    /// Fields that both have and that differ.
    pub modified: FieldSet,
    /// Fields that only the second one has.
    pub added: FieldSet,
}

impl Comparison {
    /// What differs between two objects of type `ty`.
    pub fn of(old: &Map, new: &Map, ty: TypeRef<'_>) -> Comparison {
        match ty.resolve().map {
            Some(map) if !map.atomic => members(&map, Some(old), Some(new)),
            _ => Comparison::default(),
        }
    }

    /// Leaves `fields`, and what lies within them, out of the comparison.
    #[must_use]
    pub fn excluding(self, fields: &FieldSet) -> Comparison {
        if fields.is_empty() {
            return self;
        }
        Comparison {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }

    /// Whether nothing differs.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    fn take(&mut self, element: PathElement, found: Found) {
        if found.is_none() {
            return;
        }
        let put = |set: &mut FieldSet, member: bool, children: FieldSet| {
            if member || !children.is_empty() {
                set.push(Node { element: element.clone(), member, children });
            }
        };
        put(&mut self.removed, found.itself == Some(Change::Removed), found.within.removed);
        put(&mut self.modified, found.itself == Some(Change::Modified), found.within.modified);
        put(&mut self.added, found.itself == Some(Change::Added), found.within.added);
    }

    fn union(self, other: Comparison) -> Comparison {
        if self.is_same() {
            return other;
        }
        Comparison {
            removed: self.removed.union(&other.removed),
            modified: self.modified.union(&other.modified),
            added: self.added.union(&other.added),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Removed,
    Modified,
    Added,
}

/// What happened to a value itself, and what to those within it.
#[derive(Default)]
struct Found {
    itself: Option<Change>,
    within: Comparison,
}

impl Found {
    /// Whether nothing happened.
    fn is_none(&self) -> bool {
        self.itself.is_none() && self.within.is_same()
    }
}

/// What a form of the type says of two values.
enum Form {
    /// They are one value each.
    Leaf,
    /// What is within them differs so.
    Inner(Comparison),
}

/// Compares two values of which at most one is absent.
fn values(old: Option<&Value>, new: Option<&Value>, ty: TypeRef<'_>) -> Found {
    // Equal values have equal fields; most are equal, and this is the cheapest way to see it.
    if let (Some(old), Some(new)) = (old, new)
        && old == new
    {
        return Found::default();
    }
    let atom = ty.resolve();
    let (of_old, of_new) = (atom.deduced(old), atom.deduced(new));
    let mut within = Comparison::default();
    let mut itself = None;
    let form = match (old, new) {
        (_, None) => form(of_old, old, new),
        (Some(_), Some(_)) if !of_old.is_same(&of_new) => {
            // The value changed its form: first it is looked at as what it was, then as what it is.
            match form(of_old, old, new) {
                Form::Leaf => itself = leaf(old, new),
                Form::Inner(inner) => within = inner,
            }
            form(of_new, old, new)
        }
        _ => form(of_new, old, new),
    };
    match form {
        Form::Leaf => itself = leaf(old, new).or(itself),
        Form::Inner(inner) => {
            within = within.union(inner);
            itself = match (old, new) {
                (None, _) => Some(Change::Added),
                (_, None) => Some(Change::Removed),
                _ => itself,
            };
        }
    }
    Found { itself, within }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Option<Change> {
    match (old, new) {
        (None, _) => Some(Change::Added),
        (_, None) => Some(Change::Removed),
        (Some(old), Some(new)) => (!scalar::equal(old, new)).then_some(Change::Modified),
    }
}

fn form(atom: super::types::Atom<'_>, old: Option<&Value>, new: Option<&Value>) -> Form {
    if let Some(map) = atom.map {
        let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
        let empty = old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty);
        return if map.atomic || empty { Form::Leaf } else { Form::Inner(members(&map, old, new)) };
    }
    if atom.scalar.is_some() {
        return Form::Leaf;
    }
    if let Some(list) = atom.list {
        let (old, new) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
        let empty = old.is_none_or(<[Value]>::is_empty) && new.is_none_or(<[Value]>::is_empty);
        return if list.atomic || empty {
            Form::Leaf
        } else {
            Form::Inner(items(&list, old.unwrap_or_default(), new.unwrap_or_default()))
        };
    }
    Form::Inner(Comparison::default())
}

fn members(map: &MapAtom<'_>, old: Option<&Map>, new: Option<&Map>) -> Comparison {
    let mut out = Comparison::default();
    let mut left = old.into_iter().flat_map(Map::iter).peekable();
    let mut right = new.into_iter().flat_map(Map::iter).peekable();
    loop {
        let name = match (left.peek(), right.peek()) {
            (None, None) => return out,
            (Some((name, _)), None) | (None, Some((name, _))) => *name,
            (Some((old, _)), Some((new, _))) => *old.min(new),
        };
        let old = left.next_if(|(have, _)| *have == name).map(|(_, value)| value);
        let new = right.next_if(|(have, _)| *have == name).map(|(_, value)| value);
        let found = values(old, new, map.member(name));
        if !found.is_none() {
            out.take(PathElement::field(name), found);
        }
    }
}

fn items(list: &ListAtom<'_>, old: &[Value], new: &[Value]) -> Comparison {
    let mut by_step: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in old {
        if let Ok(step) = list.path_element(item) {
            by_step.entry(step).or_default().0.push(item);
        }
    }
    for item in new {
        if let Ok(step) = list.path_element(item) {
            by_step.entry(step).or_default().1.push(item);
        }
    }
    let element = list.element();
    let mut out = Comparison::default();
    for (step, (old, new)) in by_step {
        let found = match (old.as_slice(), new.as_slice()) {
            ([] | [_], [] | [_]) => values(old.first().copied(), new.first().copied(), element),
            // Elements with one key are one value together.
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| scalar::equal(old, new));
                Found { itself: (!same).then_some(Change::Modified), within: Comparison::default() }
            }
            ([_, _, ..], _) => {
                let single = new.first().map(|new| values(None, Some(new), element)).unwrap_or_default();
                out.take(step.clone(), single);
                Found { itself: Some(Change::Removed), within: Comparison::default() }
            }
            (_, _) => {
                let single = old.first().map(|old| values(Some(old), None, element)).unwrap_or_default();
                out.take(step.clone(), single);
                Found { itself: Some(Change::Added), within: Comparison::default() }
            }
        };
        out.take(step, found);
    }
    out
}
