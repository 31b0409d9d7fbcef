//! A request together with its Purposes: what is asked for, each trait once.
//!
//! Among the entries for one trait the polarity of the first source wins: the request, then its
//! purposes in order. `optional` is ANDed over the entries of the winning polarity only; a required
//! entry that loses is reported, never dropped in silence.

use std::collections::BTreeSet;

use allotment_api::requests::{
    ClusterRequestSpec, DeletionPolicy, PurposeSpec, ResolvedRequest, ResolvedTrait, Strategy,
};
use allotment_api::traits::TraitEntry;
use allotment_machinery::duration::Duration;

use super::expressions::{Constancy, Equivalences, Expression, written};
use super::versions::Version;

/// How long an unused Cluster is kept where no Purpose says.
pub(crate) const DEFAULT_IDLE_GRACE: &str = "5m";

/// What is asked for, the Purposes' part included.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregated {
    /// Whether the Cluster is to be the request's own.
    pub dedicated: bool,
    /// Demands and wishes, each trait once, then expressions.
    pub demands: Vec<Demand>,
    /// The version asked for; `None` for any.
    pub version: Option<Version>,
    /// The version as written.
    pub version_text: String,
    /// Required entries that lost: `<trait>: purpose <name> requires it`.
    pub overridden: Vec<String>,
    /// Optional entries that lost, in the same words.
    pub wishes_lost: Vec<String>,
    /// Namespace of a new Cluster, where a Purpose says.
    pub namespace: Option<String>,
    /// Profiles in order of preference.
    pub profiles: Vec<String>,
    /// Which of several Clusters is taken.
    pub strategy: Strategy,
    /// What happens to a new Cluster when nobody uses it.
    pub deletion_policy: DeletionPolicy,
    /// How long it is kept.
    pub idle_grace: String,
}

/// A demand or wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// What has to hold, over canonical names.
    pub expression: Expression,
    /// The trait or expression as it was written.
    pub written: String,
    /// A wish only.
    pub optional: bool,
    /// How much the wish counts.
    pub weight: i32,
    /// As the Grant keeps it.
    pub resolved: ResolvedTrait,
}

/// Why a request contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// Two traits of the request mean the same, and one is wanted, the other not.
    Conflicting {
        /// As first written.
        first: String,
        /// As written again, with the opposite polarity.
        second: String,
    },
    /// A required expression can never hold, by equivalences.
    Impossible {
        /// The expression as written.
        written: String,
    },
}

/// One plain entry and where it comes from.
struct Entry<'a> {
    canonical: &'a str,
    entry: &'a TraitEntry,
    /// The Purpose; `None` for the request itself.
    purpose: Option<&'a str>,
}

/// Aggregates a request with its Purposes, which are given in the request's order.
pub fn aggregate(
    request: &ClusterRequestSpec,
    purposes: &[(&str, &PurposeSpec)],
    equivalences: &Equivalences,
) -> Result<Aggregated, Contradiction> {
    let dedicated =
        request.dedicated.unwrap_or_else(|| purposes.iter().any(|(_, purpose)| purpose.dedicated == Some(true)));
    let (plain, expressions) = sources(request, purposes, equivalences);
    contradicts_itself(&plain)?;

    let (mut overridden, mut wishes_lost) = (Vec::new(), Vec::new());
    let mut demands = Vec::new();
    let mut seen = BTreeSet::new();
    for first in plain.iter().filter(|entry| seen.insert(entry.canonical)) {
        let same: Vec<&Entry<'_>> = plain.iter().filter(|entry| entry.canonical == first.canonical).collect();
        demands.push(settle(first, &same));
        for loser in same.iter().filter(|entry| entry.entry.is_negated() != first.entry.is_negated()) {
            let what = if loser.entry.is_negated() { "requires its absence" } else { "requires it" };
            let key = loser.entry.key().unwrap_or_default();
            let purpose = loser.purpose.unwrap_or_default();
            if loser.entry.is_optional() {
                wishes_lost.push(format!("{key}: purpose {purpose} {}", what.replace("requires", "prefers")));
            } else {
                overridden.push(format!("{key}: purpose {purpose} {what}"));
            }
        }
    }
    for entry in expressions {
        demands.push(settle_expression(entry, equivalences)?);
    }

    let version_text = request.kubernetes.as_ref().and_then(|wanted| wanted.version.clone()).unwrap_or_default();
    let specs = || purposes.iter().map(|(_, purpose)| *purpose);
    let (deletion_policy, idle_grace) = retention(specs());
    Ok(Aggregated {
        dedicated,
        demands,
        version: Version::parse(&version_text),
        version_text,
        overridden,
        wishes_lost,
        namespace: specs().find_map(|purpose| purpose.namespace.clone()),
        profiles: specs().map(|purpose| &purpose.profiles).find(|list| !list.is_empty()).cloned().unwrap_or_default(),
        strategy: specs().find_map(|purpose| purpose.strategy).unwrap_or_default(),
        deletion_policy,
        idle_grace,
    })
}

/// Plain entries in order of precedence, and expressions.
fn sources<'a>(
    request: &'a ClusterRequestSpec,
    purposes: &[(&'a str, &'a PurposeSpec)],
    equivalences: &'a Equivalences,
) -> (Vec<Entry<'a>>, Vec<&'a TraitEntry>) {
    let own = request.traits.iter().map(|entry| (None, entry));
    let inherited = purposes.iter().flat_map(|(name, purpose)| purpose.traits.iter().map(|entry| (Some(*name), entry)));
    let (mut plain, mut expressions) = (Vec::new(), Vec::new());
    for (purpose, entry) in own.chain(inherited) {
        match entry.key() {
            Some(key) if !entry.is_expression() => {
                plain.push(Entry { canonical: equivalences.canonical(key), entry, purpose });
            }
            _ => expressions.push(entry),
        }
    }
    (plain, expressions)
}

fn contradicts_itself(plain: &[Entry<'_>]) -> Result<(), Contradiction> {
    let own = || plain.iter().filter(|entry| entry.purpose.is_none());
    for entry in own() {
        let opposite = own()
            .find(|other| other.canonical == entry.canonical && other.entry.is_negated() != entry.entry.is_negated());
        if let Some(opposite) = opposite {
            return Err(Contradiction::Conflicting { first: written(entry.entry), second: written(opposite.entry) });
        }
    }
    Ok(())
}

fn settle(first: &Entry<'_>, same: &[&Entry<'_>]) -> Demand {
    let negated = first.entry.is_negated();
    let winners = || same.iter().filter(|entry| entry.entry.is_negated() == negated);
    let optional = winners().all(|entry| entry.entry.is_optional());
    let weight = winners().map(|entry| entry.entry.weight.unwrap_or(1)).max().unwrap_or(1);
    let present = Expression::Trait(first.canonical.to_owned());
    Demand {
        expression: if negated { Expression::Not(Box::new(present)) } else { present },
        written: written(first.entry),
        optional,
        weight,
        resolved: ResolvedTrait {
            trait_: Some(first.canonical.to_owned()),
            expression: None,
            optional,
            negated,
            weight,
        },
    }
}

fn settle_expression(entry: &TraitEntry, equivalences: &Equivalences) -> Result<Demand, Contradiction> {
    let expression = Expression::of(entry, equivalences);
    let optional = entry.is_optional();
    if !optional && expression.constancy() == Constancy::Never {
        return Err(Contradiction::Impossible { written: written(entry) });
    }
    let weight = entry.weight.unwrap_or(1);
    Ok(Demand {
        expression,
        written: written(entry),
        optional,
        weight,
        resolved: ResolvedTrait {
            trait_: None,
            expression: Some(Box::new(entry.clone())),
            optional,
            negated: false,
            weight,
        },
    })
}

/// Retain beats WhenIdle, the longest grace counts.
pub(crate) fn retention<'a>(purposes: impl Iterator<Item = &'a PurposeSpec>) -> (DeletionPolicy, String) {
    let mut policy = DeletionPolicy::WhenIdle;
    let mut longest: Option<(Duration, &str)> = None;
    for purpose in purposes {
        if purpose.deletion_policy == Some(DeletionPolicy::Retain) {
            policy = DeletionPolicy::Retain;
        }
        let text = purpose.idle_grace.as_deref().unwrap_or(DEFAULT_IDLE_GRACE);
        if let Ok(grace) = text.parse::<Duration>()
            && longest.is_none_or(|(have, _)| grace > have)
        {
            longest = Some((grace, text));
        }
    }
    (policy, longest.map_or(DEFAULT_IDLE_GRACE, |(_, text)| text).to_owned())
}

impl Aggregated {
    /// The request as its Grant keeps it.
    pub fn resolved(&self, purposes: &[String]) -> ResolvedRequest {
        ResolvedRequest {
            purposes: purposes.to_vec(),
            dedicated: self.dedicated,
            traits: self.demands.iter().map(|demand| demand.resolved.clone()).collect(),
            version: self.version_text.clone(),
            deletion_policy: self.deletion_policy,
            idle_grace: self.idle_grace.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> TraitEntry {
        let mut entry = TraitEntry::default();
        let mut rest = text;
        if let Some(shorter) = rest.strip_suffix(" optional") {
            entry.optional = Some(true);
            rest = shorter;
        }
        if let Some(shorter) = rest.strip_prefix("not ") {
            entry.negated = Some(true);
            rest = shorter;
        }
        entry.trait_ = Some(rest.to_owned());
        entry
    }

    fn purpose(entries: &[&str]) -> PurposeSpec {
        PurposeSpec { traits: entries.iter().map(|text| entry(text)).collect(), ..PurposeSpec::default() }
    }

    #[track_caller]
    fn check(a: &[&str], b: &[&str], request: &[&str], expect: &str, overridden: &[&str]) {
        let (a, b) = (purpose(a), purpose(b));
        let spec = ClusterRequestSpec {
            purposes: vec!["A".into(), "B".into()],
            traits: request.iter().map(|text| entry(text)).collect(),
            ..ClusterRequestSpec::default()
        };
        let result = aggregate(&spec, &[("A", &a), ("B", &b)], &Equivalences::default()).expect("no contradiction");
        let demand = &result.demands[0].resolved;
        let word = match (demand.optional, demand.negated) {
            (false, false) => "required",
            (true, false) => "preferred",
            (false, true) => "required absent",
            (true, true) => "preferred absent",
        };
        assert_eq!(word, expect);
        assert_eq!(result.demands.len(), 1);
        assert_eq!(result.overridden, overridden);
    }

    #[test]
    fn entries_for_one_trait_are_settled_by_precedence_and_optional_is_anded_among_winners() {
        check(&["w optional"], &["w"], &[], "required", &[]);
        check(&["w"], &["not w optional"], &[], "required", &[]);
        check(&["w optional"], &["not w"], &[], "preferred", &["w: purpose B requires its absence"]);
        check(&["not w"], &["w"], &[], "required absent", &["w: purpose B requires it"]);
        check(&["w"], &[], &["w optional"], "required", &[]);
        check(&["w"], &[], &["not w optional"], "preferred absent", &["w: purpose A requires it"]);
    }

    #[test]
    fn equivalent_traits_are_one_and_contradict_each_other_within_a_request() {
        let lists = [["v".to_owned(), "w".to_owned()]];
        let same = Equivalences::of(lists.iter().map(<[String; 2]>::as_slice));
        let spec = |entries: &[&str]| ClusterRequestSpec {
            traits: entries.iter().map(|text| entry(text)).collect(),
            ..ClusterRequestSpec::default()
        };
        let merged = aggregate(&spec(&["w optional", "v"]), &[], &same).expect("the same polarity");
        assert_eq!(merged.demands.len(), 1);
        assert_eq!((merged.demands[0].optional, merged.demands[0].written.as_str()), (false, "w"));
        assert_eq!(
            aggregate(&spec(&["w", "not v"]), &[], &same),
            Err(Contradiction::Conflicting { first: "w".into(), second: "not v".into() })
        );
        let never = TraitEntry { xor: Some(vec![entry("v"), entry("w")]), ..TraitEntry::default() };
        let spec = ClusterRequestSpec { traits: vec![never.clone()], ..ClusterRequestSpec::default() };
        assert_eq!(aggregate(&spec, &[], &same), Err(Contradiction::Impossible { written: "xor(v, w)".into() }));
        let wish = TraitEntry { optional: Some(true), ..never };
        let spec = ClusterRequestSpec { traits: vec![wish], ..ClusterRequestSpec::default() };
        assert!(aggregate(&spec, &[], &same).is_ok(), "a wish that never holds denies nothing");
    }

    #[test]
    fn dedicated_is_the_requests_word_or_any_purposes() {
        let (shared, own) = (PurposeSpec::default(), PurposeSpec { dedicated: Some(true), ..PurposeSpec::default() });
        for (word, purposes, expect) in [
            (None, vec![("s", &shared)], false),
            (None, vec![("s", &shared), ("d", &own)], true),
            (Some(false), vec![("d", &own)], false),
            (Some(true), vec![("s", &shared)], true),
        ] {
            let spec = ClusterRequestSpec { dedicated: word, ..ClusterRequestSpec::default() };
            let result = aggregate(&spec, &purposes, &Equivalences::default()).expect("no contradiction");
            assert_eq!(result.dedicated, expect, "{word:?} {purposes:?}");
        }
    }

    #[test]
    fn retain_beats_when_idle_and_the_longest_grace_counts() {
        let with = |policy, grace: Option<&str>| PurposeSpec {
            deletion_policy: policy,
            idle_grace: grace.map(str::to_owned),
            ..PurposeSpec::default()
        };
        let purposes = [with(None, Some("90s")), with(Some(DeletionPolicy::Retain), Some("1h")), with(None, None)];
        assert_eq!(retention(purposes.iter()), (DeletionPolicy::Retain, "1h".to_owned()));
        assert_eq!(retention(purposes[..0].iter()), (DeletionPolicy::WhenIdle, "5m".to_owned()));
    }
}
