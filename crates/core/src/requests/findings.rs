//! What each candidate lacks, for people: fewest unmet first, then by name, bounded.

use std::collections::BTreeMap;
use std::sync::Arc;

use allotment_api::reasons::FindingReason;
use allotment_api::requests::Finding;
use allotment_machinery::json::write_string;

use crate::write::ObjectKey;

/// Most findings in a status: enough to see what would help, small enough for an object.
pub const MAX_FINDINGS: usize = 32;

/// One unmet requirement: why, and the trait, version or purpose as it was written.
pub(crate) type Unmet = (FindingReason, String);

/// Clusters by the text that names them, which findings share with it.
pub(crate) type Members = BTreeMap<Arc<str>, ObjectKey>;

/// Candidates that lack the same: a profile by itself, or Clusters of it.
#[derive(Debug)]
struct Group<'a, S> {
    /// How much each lacks.
    count: usize,
    provider: &'a str,
    profile: &'a str,
    clusters: Clusters<'a>,
    /// What tells what it is.
    source: S,
}

#[derive(Clone, Copy, Debug)]
enum Clusters<'a> {
    /// None: it is the profile by itself.
    None,
    One(&'a Arc<str>),
    All(&'a Members),
}

impl<'a, S> Group<'a, S> {
    fn len(&self) -> usize {
        match self.clusters {
            Clusters::None | Clusters::One(_) => 1,
            Clusters::All(members) => members.len(),
        }
    }

    /// Its candidates, sorted.
    fn candidates(&self, group: usize) -> impl Iterator<Item = Candidate<'a>> {
        let (profile_itself, one, all) = match self.clusters {
            Clusters::None => (Some(None), None, None),
            Clusters::One(name) => (None, Some(name), None),
            Clusters::All(members) => (None, None, Some(members)),
        };
        let named = one.into_iter().chain(all.into_iter().flat_map(BTreeMap::keys)).map(Some);
        let (provider, profile) = (self.provider, self.profile);
        profile_itself.into_iter().chain(named).map(move |cluster| Candidate { provider, profile, cluster, group })
    }
}

/// Of those that lack as much, candidates are sorted as findings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate<'a> {
    provider: &'a str,
    profile: &'a str,
    cluster: Option<&'a Arc<str>>,
    /// Its place among the groups.
    group: usize,
}

/// Candidates being collected, with how much they lack. What that is, is found out only of those that are listed: `S`
/// tells it.
#[derive(Debug)]
pub(crate) struct Candidates<'a, S> {
    groups: Vec<Group<'a, S>>,
}

impl<'a, S> Candidates<'a, S> {
    /// None yet, and room for so many groups.
    pub(crate) fn with_capacity(groups: usize) -> Self {
        Candidates { groups: Vec::with_capacity(groups) }
    }

    /// Adds a profile by itself; one that lacks nothing is not listed.
    pub(crate) fn add_profile(&mut self, provider: &'a str, profile: &'a str, count: usize, source: S) {
        self.add_group(provider, profile, Clusters::None, count, source);
    }

    /// Adds a Cluster.
    pub(crate) fn add(&mut self, provider: &'a str, profile: &'a str, cluster: &'a Arc<str>, count: usize, source: S) {
        self.add_group(provider, profile, Clusters::One(cluster), count, source);
    }

    /// Adds Clusters that lack the same.
    pub(crate) fn add_all(
        &mut self,
        provider: &'a str,
        profile: &'a str,
        clusters: &'a Members,
        count: usize,
        source: S,
    ) {
        self.add_group(provider, profile, Clusters::All(clusters), count, source);
    }

    fn add_group(&mut self, provider: &'a str, profile: &'a str, clusters: Clusters<'a>, count: usize, source: S) {
        if count > 0 {
            self.groups.push(Group { count, provider, profile, clusters, source });
        }
    }

    /// The findings to list. `unmet` tells what the candidates of a group lack, as much as was said when they were added.
    pub(crate) fn bounded(self, unmet: impl Fn(&S) -> Vec<Unmet>) -> Findings {
        let mut findings = Findings::default();
        // The group that was listed last, and where what it lacks stands.
        let mut last: Option<(usize, usize)> = None;
        let mut count = self.groups.iter().map(|group| group.count).min();
        while let Some(lacking) = count.filter(|_| findings.listed.len() < MAX_FINDINGS) {
            for candidate in self.first(lacking, MAX_FINDINGS - findings.listed.len()) {
                let at = match last.filter(|(group, _)| *group == candidate.group) {
                    Some((_, at)) => at,
                    None => {
                        let group = &self.groups[candidate.group];
                        let mut unmet = unmet(&group.source);
                        unmet.sort_by(|left, right| (left.0.as_str(), &left.1).cmp(&(right.0.as_str(), &right.1)));
                        let (provider, profile) = (group.provider.to_owned(), group.profile.to_owned());
                        findings.lacks.push(Lack { provider, profile, unmet });
                        findings.lacks.len() - 1
                    }
                };
                last = Some((candidate.group, at));
                findings.listed.push((at, candidate.cluster.cloned()));
            }
            count = self.groups.iter().map(|group| group.count).filter(|count| *count > lacking).min();
        }
        let total: usize = self.groups.iter().map(|group| group.len() * group.count).sum();
        let found: usize = findings.candidates().map(|(lack, _)| lack.unmet.len()).sum();
        findings.omitted = total - found.min(MAX_FINDINGS);
        findings
    }

    /// The first candidates of those that lack so much, so many at most.
    fn first(&self, lacking: usize, most: usize) -> Vec<Candidate<'a>> {
        let mut first: Vec<Candidate<'a>> = Vec::with_capacity(most);
        for (index, group) in self.groups.iter().enumerate().filter(|(_, group)| group.count == lacking) {
            // Each group is sorted: the first that comes too late ends it, and who follows the last of all does so to the end.
            let mut last_of_all = false;
            for candidate in group.candidates(index) {
                last_of_all = last_of_all || first.last().is_none_or(|last| *last < candidate);
                if last_of_all {
                    if first.len() == most {
                        break;
                    }
                    first.push(candidate);
                    continue;
                }
                if first.len() == most {
                    first.pop();
                }
                let place = first.partition_point(|earlier| *earlier < candidate);
                first.insert(place, candidate);
            }
        }
        first
    }
}

/// What one or more candidates of a profile lack.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lack {
    provider: String,
    profile: String,
    unmet: Vec<Unmet>,
}

/// What is the same in the findings of all candidates that lack the same, as text: all but the name of the Cluster.
struct Parts<'a> {
    lack: &'a Lack,
    /// The members before it.
    begin: Vec<u8>,
    /// By requirement: the members after it, and what ends the finding.
    ends: Vec<Vec<u8>>,
}

impl Lack {
    fn parts(&self) -> Parts<'_> {
        let mut begin = Vec::new();
        for (name, member) in [("\"provider\":", &self.provider), ("\"profile\":", &self.profile)] {
            if !member.is_empty() {
                begin.extend_from_slice(name.as_bytes());
                write_string(member, &mut begin);
                begin.push(b',');
            }
        }
        let end = |(reason, detail): &Unmet| {
            let mut end = b"\"reason\":".to_vec();
            write_string(reason.as_str(), &mut end);
            if !detail.is_empty() {
                end.extend_from_slice(b",\"detail\":");
                write_string(detail, &mut end);
            }
            end.push(b'}');
            end
        };
        Parts { lack: self, begin, ends: self.unmet.iter().map(end).collect() }
    }
}

/// Findings, as a status lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    lacks: Vec<Lack>,
    /// What it lacks, and the Cluster; none for the profile by itself.
    listed: Vec<(usize, Option<Arc<str>>)>,
    omitted: usize,
}

/// One finding.
struct Listed<'a> {
    provider: &'a str,
    profile: &'a str,
    cluster: &'a str,
    reason: FindingReason,
    detail: &'a str,
}

impl Findings {
    /// Of no provider: these requirements are unmet whoever would meet them.
    pub(crate) fn of_nobody(unmet: Vec<Unmet>) -> Self {
        let mut candidates = Candidates::with_capacity(1);
        candidates.add_profile("", "", unmet.len(), unmet);
        candidates.bounded(Clone::clone)
    }

    /// As objects have them.
    pub fn listed(&self) -> Vec<Finding> {
        let each = self.iter().map(|listed| Finding {
            provider: listed.provider.to_owned(),
            profile: listed.profile.to_owned(),
            cluster: listed.cluster.to_owned(),
            reason: listed.reason.as_str().to_owned(),
            detail: listed.detail.to_owned(),
        });
        each.collect()
    }

    /// How many there are beyond these.
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Whether those are the ones that are listed.
    pub(crate) fn are(&self, told: &[Finding]) -> bool {
        if told.len() > MAX_FINDINGS {
            return false;
        }
        let mut rest = told.iter();
        for (lack, cluster) in self.candidates() {
            for (reason, detail) in &lack.unmet {
                let Some(told) = rest.next() else { return told.len() == MAX_FINDINGS };
                let same = told.cluster == cluster
                    && told.detail == *detail
                    && told.reason == reason.as_str()
                    && (&told.provider, &told.profile) == (&lack.provider, &lack.profile);
                if !same {
                    return false;
                }
            }
        }
        rest.next().is_none()
    }

    /// Appends them as JSON, as [`Findings::listed`] would be written.
    pub(crate) fn write(&self, text: &mut Vec<u8>) {
        let mut left = MAX_FINDINGS;
        let mut parts: Option<Parts<'_>> = None;
        let separator = |left: usize| if left == MAX_FINDINGS { &b"{"[..] } else { &b",{"[..] };
        text.push(b'[');
        for (lack, cluster) in self.candidates() {
            let Parts { begin, ends, .. } = match parts.take().filter(|parts| std::ptr::eq(parts.lack, lack)) {
                Some(known) => parts.insert(known),
                None => parts.insert(lack.parts()),
            };
            for end in ends.iter().take(left) {
                text.extend_from_slice(separator(left));
                left -= 1;
                text.extend_from_slice(begin);
                if !cluster.is_empty() {
                    text.extend_from_slice(b"\"cluster\":");
                    write_string(cluster, text);
                    text.push(b',');
                }
                text.extend_from_slice(end);
            }
        }
        text.push(b']');
    }

    /// What each of them lacks, and its name; empty for a profile by itself.
    fn candidates(&self) -> impl Iterator<Item = (&Lack, &str)> {
        let listed = self.listed.iter();
        listed.filter_map(|(at, cluster)| Some((self.lacks.get(*at)?, cluster.as_deref().unwrap_or_default())))
    }

    fn iter(&self) -> impl Iterator<Item = Listed<'_>> {
        let each = self.candidates().flat_map(|(lack, cluster)| {
            let Lack { provider, profile, unmet } = lack;
            unmet.iter().map(move |(reason, detail)| Listed { provider, profile, cluster, reason: *reason, detail })
        });
        each.take(MAX_FINDINGS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Findings of candidates, each with what it lacks: `(provider, profile, cluster, unmet)`.
    fn bounded(candidates: &[(&str, &str, &str, Vec<Unmet>)]) -> Findings {
        let names: Vec<Arc<str>> = candidates.iter().map(|(_, _, cluster, _)| Arc::from(*cluster)).collect();
        let mut collected = Candidates::with_capacity(0);
        for ((provider, profile, _, unmet), name) in candidates.iter().zip(&names) {
            match name.is_empty() {
                true => collected.add_profile(provider, profile, unmet.len(), unmet),
                false => collected.add(provider, profile, name, unmet.len(), unmet),
            }
        }
        collected.bounded(|unmet| (*unmet).clone())
    }

    #[test]
    fn fewest_unmet_come_first_then_names_and_the_rest_is_counted() {
        let version = || (FindingReason::VersionNotOffered, "1.99".to_owned());
        let names: Vec<String> = (0..40).map(|index| format!("profile-{index:02}")).collect();
        let mut candidates: Vec<_> = names.iter().rev().map(|name| ("p", name.as_str(), "", vec![version()])).collect();
        candidates.push(("a", "two", "", vec![version(), (FindingReason::NoProfileWithTrait, "x".into())]));
        candidates.push(("a", "none", "", vec![]));
        let findings = bounded(&candidates);
        let listed = findings.listed();
        assert_eq!((listed.len(), findings.omitted()), (MAX_FINDINGS, 10));
        assert_eq!(listed[0].profile, "profile-00");
        assert!(listed.is_sorted());
    }

    proptest! {
        #[test]
        fn those_listed_are_the_first_of_all_and_are_written_as_objects_have_them(
            lacks in prop::collection::vec((0..3usize, 0..3usize, 0..4usize), 0..90),
        ) {
            let names: Vec<String> = (0..lacks.len()).map(|index| format!("n/\"{}", index * 37 % 90)).collect();
            let unmet = |count: usize| (0..count).map(move |index| (FindingReason::ALL[index * 5], format!("d{}", count - index)));
            let of = |(place, (provider, profile, count)): (usize, &(usize, usize, usize))| {
                let cluster = if place % 7 == 0 { "" } else { names[place].as_str() };
                (["p", "q", "r"][*provider], ["a", "b", ""][*profile], cluster, unmet(*count).collect::<Vec<_>>())
            };
            let mut candidates: Vec<_> = lacks.iter().enumerate().map(of).collect();
            let findings = bounded(&candidates);

            candidates.sort_by_key(|(provider, profile, cluster, unmet)| (unmet.len(), *provider, *profile, *cluster));
            let mut expect: Vec<Finding> = Vec::new();
            for (provider, profile, cluster, unmet) in candidates {
                let mut unmet: Vec<_> = unmet.iter().map(|(reason, detail)| (reason.as_str(), detail)).collect();
                unmet.sort();
                expect.extend(unmet.into_iter().map(|(reason, detail)| Finding {
                    provider: provider.to_owned(), profile: profile.to_owned(), cluster: cluster.to_owned(),
                    reason: reason.to_owned(), detail: detail.clone(),
                }));
            }
            let omitted = expect.len().saturating_sub(MAX_FINDINGS);
            prop_assert!(omitted == 0 || !findings.are(&expect), "more than are listed");
            expect.truncate(MAX_FINDINGS);
            prop_assert_eq!((findings.listed(), findings.omitted()), (expect.clone(), omitted));
            prop_assert!(findings.are(&expect));
            let mut text = Vec::new();
            findings.write(&mut text);
            prop_assert_eq!(String::from_utf8(text).expect("a text"), serde_json::to_string(&expect).expect("a text"));
            if expect.pop().is_some() {
                prop_assert!(!findings.are(&expect), "fewer than are listed");
            }
        }
    }
}
