//! Lists of traits: shape, bounds, contradictions.

use std::collections::BTreeSet;

use allotment_api::traits::{MAX_DEPTH, MAX_ENTRIES, MAX_LEAVES, MAX_TRAIT_BYTES, TraitEntry, is_known};
use allotment_core::requests::{Constancy, Equivalences, Expression, Snapshot};
use allotment_machinery::field::{FieldError, Path, ShownValue};

use crate::review::Found;
use serde_json::Value;

/// Checks a list of entries; only requests may have expressions.
pub(crate) fn check(
    entries: &[TraitEntry],
    path: &Path,
    expressions: bool,
    snapshot: Option<&Snapshot>,
    found: &mut Found,
) {
    if entries.len() > MAX_ENTRIES {
        found.errors.push(FieldError::too_many(path, entries.len(), MAX_ENTRIES));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let at = path.index(index);
        let (depth, leaves) = measure(entry);
        let before = found.errors.len();
        if entry.is_expression() && !expressions {
            found.errors.push(FieldError::forbidden(&at, "or, and, xor and not are for ClusterRequests"));
        } else if depth > MAX_DEPTH {
            let detail = format!("nested {depth} deep, at most {MAX_DEPTH}");
            found.errors.push(FieldError::invalid(&at, ShownValue::raw("expression"), detail));
        } else if leaves > MAX_LEAVES {
            let detail = format!("{leaves} leaves, at most {MAX_LEAVES}");
            found.errors.push(FieldError::invalid(&at, ShownValue::raw("expression"), detail));
        } else {
            shape(entry, &at, true, snapshot, found);
            if found.errors.len() == before && entry.is_expression() {
                constant(entry, &at, snapshot, found);
            }
        }
        let key = entry.key().filter(|_| !entry.is_expression());
        if let Some(key) = key.filter(|key| !seen.insert((*key).to_owned())) {
            found.errors.push(FieldError::duplicate(&at.child("trait"), key));
        }
    }
}

/// Checks the JSON types inside entries, which no structural schema can say of a recursive shape; what
/// passes can be read as entries. A key that is none of an entry's is an error: left out in silence, a
/// misspelt `optional` would turn a wish into a demand.
pub(crate) fn check_types(list: &Value, path: &Path, found: &mut Found) {
    let Some(list) = list.as_array() else { return };
    for (index, entry) in list.iter().enumerate() {
        entry_types(entry, &path.index(index), found);
    }
}

fn entry_types(entry: &Value, at: &Path, found: &mut Found) {
    let Some(fields) = entry.as_object() else {
        found.errors.push(wrong_type(at, entry, "an object"));
        return;
    };
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let path = at.child(key);
        match key.as_str() {
            "or" | "and" | "xor" => match value.as_array() {
                Some(list) => list.iter().enumerate().for_each(|(i, inner)| entry_types(inner, &path.index(i), found)),
                None => found.errors.push(wrong_type(&path, value, "a list of entries")),
            },
            "not" => entry_types(value, &path, found),
            "trait" | "name" if value.is_string() => {}
            "trait" | "name" => found.errors.push(wrong_type(&path, value, "a string")),
            "optional" | "negated" if value.is_boolean() => {}
            "optional" | "negated" => found.errors.push(wrong_type(&path, value, "true or false")),
            "weight" if value.as_i64().is_some_and(|weight| i32::try_from(weight).is_ok()) => {}
            "weight" => found.errors.push(wrong_type(&path, value, "a number from 1 to 100")),
            _ => found.errors.push(FieldError::forbidden(&path, "unknown field")),
        }
    }
}

fn wrong_type(path: &Path, value: &Value, expected: &str) -> FieldError {
    let shown = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    FieldError::type_invalid(path, ShownValue::raw(shown), format!("must be {expected}"))
}

/// Checks the name of a trait: any text that a person can read and tell from another.
pub(crate) fn check_name(text: &str, path: &Path, found: &mut Found) {
    if text.len() > MAX_TRAIT_BYTES {
        found.errors.push(FieldError::too_long(path, MAX_TRAIT_BYTES));
    } else if text.trim() != text || text.chars().any(char::is_control) {
        let detail = "must not begin or end with white space, nor contain control characters";
        found.errors.push(FieldError::invalid(path, text, detail));
    }
}

fn children(entry: &TraitEntry) -> Vec<(&'static str, Vec<&TraitEntry>)> {
    let lists = [("or", &entry.or), ("and", &entry.and), ("xor", &entry.xor)];
    let lists = lists.into_iter().filter_map(|(name, list)| Some((name, list.as_ref()?.iter().collect())));
    lists.chain(entry.not.as_deref().map(|inner| ("not", vec![inner]))).collect()
}

/// Operators on the longest path, and leaves.
fn measure(entry: &TraitEntry) -> (usize, usize) {
    let inner: Vec<(usize, usize)> =
        children(entry).into_iter().flat_map(|(_, list)| list.into_iter().map(measure).collect::<Vec<_>>()).collect();
    match entry.is_expression() {
        true => (1 + inner.iter().map(|one| one.0).max().unwrap_or(0), inner.iter().map(|one| one.1).sum()),
        false => (0, 1),
    }
}

fn shape(entry: &TraitEntry, at: &Path, outermost: bool, snapshot: Option<&Snapshot>, found: &mut Found) {
    let operators = children(entry);
    let kinds = operators.len() + usize::from(entry.key().is_some());
    if kinds != 1 || (entry.trait_.is_some() && entry.name.is_some() && entry.trait_ != entry.name) {
        found.errors.push(FieldError::required(at, "exactly one of trait, or, and, xor, not"));
        return;
    }
    if let Some(weight) = entry.weight.filter(|weight| !(1..=100).contains(weight)) {
        let detail = "must be between 1 and 100, inclusive";
        found.errors.push(FieldError::invalid(&at.child("weight"), i64::from(weight), detail));
    }
    if !outermost {
        for (name, set) in [("optional", entry.optional.is_some()), ("weight", entry.weight.is_some())] {
            if set {
                found.warnings.push(format!("{}.{name} is ignored", at));
            }
        }
    }
    match entry.key() {
        Some("") => found.errors.push(FieldError::required(&at.child("trait"), "")),
        Some(key) if key.len() > MAX_TRAIT_BYTES || key.trim() != key || key.chars().any(char::is_control) => {
            check_name(key, &at.child("trait"), found);
        }
        Some(key) if snapshot.is_some_and(|snapshot| !is_known(key) && !snapshot.publishes(key)) => {
            found.warnings.push(format!("{at}.trait: UnknownTrait: no profile publishes {key:?}"));
        }
        Some(_) => {}
        None if entry.is_negated() => {
            found.errors.push(FieldError::forbidden(&at.child("negated"), "only a trait may be negated; use not"));
        }
        None => {}
    }
    for (name, list) in operators {
        let inside = at.child(name);
        if list.is_empty() {
            found.errors.push(FieldError::required(&inside, "at least one entry"));
        }
        for (index, inner) in list.into_iter().enumerate() {
            let path = if name == "not" { inside.clone() } else { inside.index(index) };
            shape(inner, &path, false, snapshot, found);
        }
    }
}

fn constant(entry: &TraitEntry, at: &Path, snapshot: Option<&Snapshot>, found: &mut Found) {
    let operator = children(entry).first().map_or("not", |(name, _)| *name);
    let words = |constancy| match constancy {
        Constancy::Never => Some("can never hold"),
        Constancy::Always => Some("always holds"),
        Constancy::Depends => None,
    };
    if let Some(words) = words(Expression::of(entry, &Equivalences::default()).constancy()) {
        found.errors.push(FieldError::forbidden(&at.child(operator), words));
    } else if let Some(words) =
        snapshot.and_then(|snapshot| words(Expression::of(entry, snapshot.equivalences()).constancy()))
    {
        found.warnings.push(format!("{at}.{operator}: {words}, since some of its traits mean the same"));
    }
}
