//! Lists of traits: shape, bounds, contradictions.

use std::collections::BTreeSet;

use allotment_api::traits::{MAX_DEPTH, MAX_ENTRIES, MAX_LEAVES, MAX_TRAIT_BYTES, TraitEntry, is_known};
use allotment_core::requests::{Constancy, Equivalences, Expression, Snapshot};
use allotment_machinery::field::{FieldError, Path, ShownValue};

use crate::review::Found;

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
        Some(key) if key.len() > MAX_TRAIT_BYTES => {
            found.errors.push(FieldError::too_long(&at.child("trait"), MAX_TRAIT_BYTES));
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
