//! Traits that mean the same, and expressions over traits.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::traits::TraitEntry;

/// Classes of traits that mean the same. Every trait has one canonical name: the least of its class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Equivalences {
    canonical: BTreeMap<String, String>,
}

impl Equivalences {
    /// Joins lists of traits that mean the same; lists that share a trait are one class.
    pub fn of<'a>(lists: impl IntoIterator<Item = &'a [String]>) -> Self {
        let mut parent: BTreeMap<&str, &str> = BTreeMap::new();
        fn root<'a>(parent: &BTreeMap<&'a str, &'a str>, mut name: &'a str) -> &'a str {
            while let Some(up) = parent.get(name) {
                name = up;
            }
            name
        }
        for list in lists {
            for pair in list.windows(2) {
                let (left, right) = (root(&parent, &pair[0]), root(&parent, &pair[1]));
                // The lesser name stays the root, so that the canonical name does not depend on order.
                match left.cmp(right) {
                    std::cmp::Ordering::Less => _ = parent.insert(right, left),
                    std::cmp::Ordering::Greater => _ = parent.insert(left, right),
                    std::cmp::Ordering::Equal => {}
                }
            }
        }
        let canonical = parent.keys().map(|name| ((*name).to_owned(), root(&parent, name).to_owned())).collect();
        Equivalences { canonical }
    }

    /// The canonical name of a trait.
    pub fn canonical<'a>(&'a self, name: &'a str) -> &'a str {
        self.canonical.get(name).map_or(name, String::as_str)
    }
}

/// An expression over traits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A trait is present.
    Trait(String),
    /// At least one holds.
    Or(Vec<Expression>),
    /// All hold.
    And(Vec<Expression>),
    /// Exactly one holds.
    Xor(Vec<Expression>),
    /// It does not hold.
    Not(Box<Expression>),
}

/// Whether an expression depends on anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constancy {
    /// It can hold and can fail.
    Depends,
    /// It can never hold.
    Never,
    /// It always holds.
    Always,
}

impl Expression {
    /// The expression that an entry stands for, over canonical names; an entry that is nothing at all
    /// never holds.
    pub fn of(entry: &TraitEntry, equivalences: &Equivalences) -> Self {
        let list = |entries: &[TraitEntry]| entries.iter().map(|entry| Expression::of(entry, equivalences)).collect();
        if let Some(entries) = &entry.or {
            Expression::Or(list(entries))
        } else if let Some(entries) = &entry.and {
            Expression::And(list(entries))
        } else if let Some(entries) = &entry.xor {
            Expression::Xor(list(entries))
        } else if let Some(inner) = &entry.not {
            Expression::Not(Box::new(Expression::of(inner, equivalences)))
        } else {
            let leaf = match entry.key() {
                Some(key) => Expression::Trait(equivalences.canonical(key).to_owned()),
                None => Expression::Or(Vec::new()),
            };
            if entry.is_negated() { Expression::Not(Box::new(leaf)) } else { leaf }
        }
    }

    /// Whether it holds where exactly these traits are present.
    pub fn holds(&self, present: &BTreeSet<String>) -> bool {
        match self {
            Expression::Trait(name) => present.contains(name),
            Expression::Or(items) => items.iter().any(|item| item.holds(present)),
            Expression::And(items) => items.iter().all(|item| item.holds(present)),
            Expression::Xor(items) => items.iter().filter(|item| item.holds(present)).count() == 1,
            Expression::Not(item) => !item.holds(present),
        }
    }

    /// Whether it can hold, and whether it can fail.
    ///
    /// Traits that occur once are independent, so what a part can be follows from its parts; only
    /// those that occur more often are tried both ways: with at most 32 leaves, at most 16 of them.
    pub fn constancy(&self) -> Constancy {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.count(&mut counts);
        let repeated: Vec<&str> = counts.iter().filter(|(_, count)| **count > 1).map(|(name, _)| *name).collect();
        if repeated.len() > allotment_api::traits::MAX_LEAVES / 2 {
            return Constancy::Depends;
        }
        let (mut can_hold, mut can_fail) = (false, false);
        for assignment in 0u32..1 << repeated.len() {
            let fixed = |name: &str| {
                let index = repeated.iter().position(|repeated| *repeated == name)?;
                Some(assignment & (1 << index) != 0)
            };
            let possible = self.possible(&fixed);
            can_hold |= possible.hold;
            can_fail |= possible.fail;
            if can_hold && can_fail {
                return Constancy::Depends;
            }
        }
        if can_hold { Constancy::Always } else { Constancy::Never }
    }

    fn count<'a>(&'a self, counts: &mut BTreeMap<&'a str, usize>) {
        match self {
            Expression::Trait(name) => *counts.entry(name).or_default() += 1,
            Expression::Or(items) | Expression::And(items) | Expression::Xor(items) => {
                items.iter().for_each(|item| item.count(counts));
            }
            Expression::Not(item) => item.count(counts),
        }
    }

    fn possible(&self, fixed: &impl Fn(&str) -> Option<bool>) -> Possible {
        let all = |items: &[Expression]| -> Vec<Possible> { items.iter().map(|item| item.possible(fixed)).collect() };
        match self {
            Expression::Trait(name) => match fixed(name) {
                Some(value) => Possible { hold: value, fail: !value },
                None => Possible { hold: true, fail: true },
            },
            Expression::Not(item) => {
                let inner = item.possible(fixed);
                Possible { hold: inner.fail, fail: inner.hold }
            }
            Expression::And(items) => {
                let items = all(items);
                Possible { hold: items.iter().all(|item| item.hold), fail: items.iter().any(|item| item.fail) }
            }
            Expression::Or(items) => {
                let items = all(items);
                Possible { hold: items.iter().any(|item| item.hold), fail: items.iter().all(|item| item.fail) }
            }
            Expression::Xor(items) => {
                let items = all(items);
                // Which numbers of true items can be reached: none, one, more.
                let start = (true, false, false);
                let (none, one, more) = items.iter().fold(start, |(none, one, more), item| {
                    (
                        none && item.fail,
                        (one && item.fail) || (none && item.hold),
                        (more && (item.fail || item.hold)) || (one && item.hold),
                    )
                });
                Possible { hold: one, fail: none || more }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Possible {
    hold: bool,
    fail: bool,
}

/// An entry as people write it: `x`, `not x`, `or(x, not y)`.
pub fn written(entry: &TraitEntry) -> String {
    let list = |operator: &str, entries: &[TraitEntry]| {
        let items: Vec<String> = entries.iter().map(written).collect();
        format!("{operator}({})", items.join(", "))
    };
    if let Some(entries) = &entry.or {
        list("or", entries)
    } else if let Some(entries) = &entry.and {
        list("and", entries)
    } else if let Some(entries) = &entry.xor {
        list("xor", entries)
    } else if let Some(inner) = &entry.not {
        format!("not({})", written(inner))
    } else {
        let key = entry.key().unwrap_or_default();
        if entry.is_negated() { format!("not {key}") } else { key.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn a(name: &str) -> Expression {
        Expression::Trait(name.to_owned())
    }

    #[test]
    fn equivalences_that_share_a_trait_are_one_class_whatever_the_order() {
        let lists = [
            vec!["b".to_owned(), "c".to_owned()],
            vec!["d".to_owned(), "a".to_owned()],
            vec!["c".to_owned(), "d".to_owned()],
        ];
        let forth = Equivalences::of(lists.iter().map(Vec::as_slice));
        let back = Equivalences::of(lists.iter().rev().map(Vec::as_slice));
        for name in ["a", "b", "c", "d"] {
            assert_eq!((forth.canonical(name), back.canonical(name)), ("a", "a"), "{name}");
        }
        assert_eq!(forth.canonical("e"), "e");
    }

    #[test]
    fn constant_expressions_are_told() {
        let not = |inner: Expression| Expression::Not(Box::new(inner));
        for (expression, expect) in [
            (Expression::Xor(vec![a("a"), a("a")]), Constancy::Never),
            (Expression::And(vec![a("a"), not(a("a"))]), Constancy::Never),
            (Expression::Or(vec![a("a"), not(a("a"))]), Constancy::Always),
            (Expression::Xor(vec![a("a"), not(a("a"))]), Constancy::Always),
            (Expression::Xor(vec![a("a"), a("b")]), Constancy::Depends),
            (Expression::Or(vec![]), Constancy::Never),
            (a("a"), Constancy::Depends),
        ] {
            assert_eq!(expression.constancy(), expect, "{expression:?}");
        }
    }

    fn expressions() -> impl proptest::strategy::Strategy<Value = Expression> {
        let leaf = "[a-e]".prop_map(Expression::Trait);
        leaf.prop_recursive(4, 16, 3, |inner| {
            let list = prop::collection::vec(inner.clone(), 1..4);
            prop_oneof![
                list.clone().prop_map(Expression::Or),
                list.clone().prop_map(Expression::And),
                list.prop_map(Expression::Xor),
                inner.prop_map(|inner| Expression::Not(Box::new(inner))),
            ]
        })
    }

    proptest! {
        #[test]
        fn constancy_is_what_trying_every_assignment_gives(expression in expressions()) {
            let names = ["a", "b", "c", "d", "e"];
            let results: BTreeSet<bool> = (0u32..32)
                .map(|bits| {
                    let present = (0..5).filter(|index| bits & (1 << index) != 0).map(|index| names[index].to_owned());
                    expression.holds(&present.collect())
                })
                .collect();
            let expect = match (results.contains(&true), results.contains(&false)) {
                (true, true) => Constancy::Depends,
                (true, false) => Constancy::Always,
                _ => Constancy::Never,
            };
            prop_assert_eq!(expression.constancy(), expect);
        }
    }
}
