//! What each candidate lacks, for people: fewest unmet first, then by name, bounded.

use std::collections::BTreeMap;

use allotment_api::reasons::FindingReason;
use allotment_api::requests::Finding;

use crate::write::ObjectKey;

/// Most findings in a status: enough to see what would help, small enough for an object.
pub const MAX_FINDINGS: usize = 32;

/// One unmet requirement: why, and the trait, version or purpose as it was written.
pub(crate) type Unmet = (FindingReason, String);

/// Clusters by the text that names them.
pub(crate) type Members = BTreeMap<String, ObjectKey>;

/// Candidates that lack the same: a profile by itself, or Clusters of it.
#[derive(Debug)]
struct Group<'a> {
    provider: &'a str,
    profile: &'a str,
    clusters: Clusters<'a>,
    unmet: Vec<Unmet>,
}

#[derive(Clone, Copy, Debug)]
enum Clusters<'a> {
    /// The name of one; empty for the profile by itself.
    One(&'a str),
    All(&'a Members),
}

impl<'a> Group<'a> {
    fn len(&self) -> usize {
        match self.clusters {
            Clusters::One(_) => 1,
            Clusters::All(members) => members.len(),
        }
    }

    /// The first of its candidates by name; more are never listed.
    fn first(&self) -> impl Iterator<Item = Candidate<'_>> {
        let (one, all) = match self.clusters {
            Clusters::One(name) => (Some(name), None),
            Clusters::All(members) => (None, Some(members)),
        };
        let names = one.into_iter().chain(all.into_iter().flat_map(BTreeMap::keys).map(String::as_str));
        let Group { provider, profile, unmet, .. } = self;
        names.take(MAX_FINDINGS).map(|cluster| Candidate { count: unmet.len(), provider, profile, cluster, unmet })
    }
}

/// Candidates are sorted as findings are.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate<'a> {
    count: usize,
    provider: &'a str,
    profile: &'a str,
    cluster: &'a str,
    unmet: &'a [Unmet],
}

/// Findings being collected. What is said of a candidate is written out only if it is listed.
#[derive(Debug, Default)]
pub(crate) struct Findings<'a> {
    groups: Vec<Group<'a>>,
}

impl<'a> Findings<'a> {
    /// Adds a candidate; one that lacks nothing is not listed.
    pub(crate) fn add(&mut self, provider: &'a str, profile: &'a str, cluster: &'a str, unmet: Vec<Unmet>) {
        self.add_group(provider, profile, Clusters::One(cluster), unmet);
    }

    /// Adds Clusters that lack the same.
    pub(crate) fn add_all(&mut self, provider: &'a str, profile: &'a str, clusters: &'a Members, unmet: Vec<Unmet>) {
        self.add_group(provider, profile, Clusters::All(clusters), unmet);
    }

    fn add_group(&mut self, provider: &'a str, profile: &'a str, clusters: Clusters<'a>, mut unmet: Vec<Unmet>) {
        if !unmet.is_empty() {
            unmet.sort_by(|left, right| (left.0.as_str(), &left.1).cmp(&(right.0.as_str(), &right.1)));
            self.groups.push(Group { provider, profile, clusters, unmet });
        }
    }

    /// The findings to list, and how many there are beyond.
    pub(crate) fn bounded(mut self) -> (Vec<Finding>, usize) {
        self.groups.sort_by_key(|group| group.unmet.len());
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        for lacking_as_much in self.groups.chunk_by(|left, right| left.unmet.len() == right.unmet.len()) {
            if candidates.len() >= MAX_FINDINGS {
                break;
            }
            candidates.extend(lacking_as_much.iter().flat_map(Group::first));
        }
        candidates.sort_unstable();
        let each = candidates.iter().flat_map(|candidate| {
            candidate.unmet.iter().map(|(reason, detail)| Finding {
                provider: candidate.provider.to_owned(),
                profile: candidate.profile.to_owned(),
                cluster: candidate.cluster.to_owned(),
                reason: reason.as_str().to_owned(),
                detail: detail.clone(),
            })
        });
        let listed: Vec<Finding> = each.take(MAX_FINDINGS).collect();
        let total: usize = self.groups.iter().map(|group| group.len() * group.unmet.len()).sum();
        let omitted = total - listed.len();
        (listed, omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewest_unmet_come_first_then_names_and_the_rest_is_counted() {
        let mut findings = Findings::default();
        let version = || (FindingReason::VersionNotOffered, "1.99".to_owned());
        let names: Vec<String> = (0..40).map(|index| format!("profile-{index:02}")).collect();
        for name in names.iter().rev() {
            findings.add("p", name, "", vec![version()]);
        }
        findings.add("a", "two", "", vec![version(), (FindingReason::NoProfileWithTrait, "x".into())]);
        findings.add("a", "none", "", vec![]);
        let (listed, omitted) = findings.bounded();
        assert_eq!((listed.len(), omitted), (MAX_FINDINGS, 10));
        assert_eq!(listed[0].profile, "profile-00");
        assert!(listed.is_sorted());
    }
}
