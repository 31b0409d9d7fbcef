//! Bringing sets of fields in line with a schema that has changed since they were written: what has become
//! one value is owned as one.

use super::element::PathElement;
use super::set::{FieldSet, Node};
use super::types::{MapAtom, TypeRef};

/// The set as it has to be under the type `ty` of today; `None` where it is so already.
pub fn reconcile(set: &FieldSet, ty: TypeRef<'_>) -> Option<FieldSet> {
    match within(set, ty, false) {
        Outcome::Changed(set) => Some(set),
        // The whole object cannot be owned, so that it cannot become one owned value either.
        Outcome::Kept | Outcome::OneValue => None,
    }
}

enum Outcome {
    Kept,
    /// Of what is within the value, this is left.
    Changed(FieldSet),
    /// The value is owned as a whole.
    OneValue,
}

/// `is_leaf` tells that the value itself is in the set and nothing within it.
fn within(set: &FieldSet, ty: TypeRef<'_>, is_leaf: bool) -> Outcome {
    let atom = ty.resolve();
    if let Some(map) = atom.map {
        if is_undeclared(&map) {
            return Outcome::Kept;
        }
        if !is_leaf && map.atomic {
            return if set.is_empty() { Outcome::Kept } else { Outcome::OneValue };
        }
        return nodes(set, |element| match element {
            PathElement::Field(name) => map.member(name),
            _ => map.element(),
        });
    }
    if atom.scalar.is_some() {
        return Outcome::Kept;
    }
    match atom.list {
        Some(list) if !is_leaf && list.atomic => Outcome::OneValue,
        Some(list) => nodes(set, |_| list.element()),
        None => Outcome::Kept,
    }
}

/// A map without declared members whose values may be anything: such types cannot say what is one value.
fn is_undeclared(map: &MapAtom<'_>) -> bool {
    !map.has_fields() && map.element().is_untyped()
}

fn nodes<'a>(set: &FieldSet, member_type: impl Fn(&PathElement) -> TypeRef<'a>) -> Outcome {
    let mut changed = false;
    let mut out = FieldSet::new();
    for node in set.nodes() {
        let ty = member_type(&node.element);
        let is_leaf = node.member && node.children.is_empty();
        let outcome = if ty.is_nothing() { Outcome::Kept } else { within(&node.children, ty, is_leaf) };
        out.push(match outcome {
            Outcome::Kept => node.clone(),
            Outcome::Changed(children) => {
                changed = true;
                Node { children, ..node.clone() }
            }
            Outcome::OneValue => {
                changed = true;
                Node { element: node.element.clone(), member: true, children: FieldSet::new() }
            }
        });
    }
    if changed { Outcome::Changed(out) } else { Outcome::Kept }
}
