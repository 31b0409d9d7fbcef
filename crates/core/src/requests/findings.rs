//! What each candidate lacks, for people: fewest unmet first, then by name, bounded.

use allotment_api::reasons::FindingReason;
use allotment_api::requests::Finding;

/// Most findings in a status: enough to see what would help, small enough for an object.
pub const MAX_FINDINGS: usize = 32;

/// One unmet requirement: why, and the trait, version or purpose as it was written.
pub(crate) type Unmet = (FindingReason, String);

/// A profile or a Cluster, and which of [`Findings::unmet`] it lacks. Sorted as findings are.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate<'a> {
    count: usize,
    provider: &'a str,
    profile: &'a str,
    cluster: &'a str,
    unmet: usize,
}

/// Findings being collected. What is said of a candidate is written out only if it is listed.
#[derive(Debug, Default)]
pub(crate) struct Findings<'a> {
    candidates: Vec<Candidate<'a>>,
    unmet: Vec<Vec<Unmet>>,
    /// How many findings there are of all candidates.
    total: usize,
}

impl<'a> Findings<'a> {
    /// Adds a candidate; one that lacks nothing is not listed.
    pub(crate) fn add(&mut self, provider: &'a str, profile: &'a str, cluster: &'a str, unmet: Vec<Unmet>) {
        self.add_all(provider, profile, std::iter::once(cluster), unmet);
    }

    /// Adds candidates that lack the same, in the order of their names.
    pub(crate) fn add_all(
        &mut self,
        provider: &'a str,
        profile: &'a str,
        clusters: impl ExactSizeIterator<Item = &'a str>,
        mut unmet: Vec<Unmet>,
    ) {
        if unmet.is_empty() {
            return;
        }
        unmet.sort_by(|left, right| (left.0.as_str(), &left.1).cmp(&(right.0.as_str(), &right.1)));
        self.total += clusters.len() * unmet.len();
        let (count, at) = (unmet.len(), self.unmet.len());
        let candidate = |cluster| Candidate { count, provider, profile, cluster, unmet: at };
        self.candidates.extend(clusters.take(MAX_FINDINGS).map(candidate));
        self.unmet.push(unmet);
    }

    /// The findings to list, and how many there are beyond.
    pub(crate) fn bounded(mut self) -> (Vec<Finding>, usize) {
        if self.candidates.len() > MAX_FINDINGS {
            self.candidates.select_nth_unstable(MAX_FINDINGS);
            self.candidates.truncate(MAX_FINDINGS);
        }
        self.candidates.sort_unstable();
        let each = self.candidates.iter().flat_map(|candidate| {
            let unmet = self.unmet.get(candidate.unmet).into_iter().flatten();
            unmet.map(|(reason, detail)| Finding {
                provider: candidate.provider.to_owned(),
                profile: candidate.profile.to_owned(),
                cluster: candidate.cluster.to_owned(),
                reason: reason.as_str().to_owned(),
                detail: detail.clone(),
            })
        });
        let listed: Vec<Finding> = each.take(MAX_FINDINGS).collect();
        let omitted = self.total - listed.len();
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
