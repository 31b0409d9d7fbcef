//! What each candidate lacks, for people: fewest unmet first, then by name, bounded.

use allotment_api::reasons::FindingReason;
use allotment_api::requests::Finding;

/// Most findings in a status: enough to see what would help, small enough for an object.
pub const MAX_FINDINGS: usize = 32;

/// One unmet requirement: why, and the trait, version or purpose as it was written.
pub(crate) type Unmet = (FindingReason, String);

/// Findings being collected.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    candidates: Vec<(usize, Vec<Finding>)>,
    /// Findings of candidates that cannot be among those listed.
    beyond: usize,
}

impl Findings {
    /// Adds a candidate; one that lacks nothing is not listed.
    pub(crate) fn add(&mut self, provider: &str, profile: &str, cluster: &str, unmet: Vec<Unmet>) {
        let count = unmet.len();
        let mut findings: Vec<Finding> = unmet
            .into_iter()
            .map(|(reason, detail)| Finding {
                provider: provider.to_owned(),
                profile: profile.to_owned(),
                cluster: cluster.to_owned(),
                reason: reason.as_str().to_owned(),
                detail,
            })
            .collect();
        findings.sort();
        if count > 0 {
            self.candidates.push((count, findings));
        }
    }

    /// Adds candidates that lack the same, in the order of their names.
    pub(crate) fn add_all<'a>(
        &mut self,
        provider: &str,
        profile: &str,
        clusters: impl ExactSizeIterator<Item = &'a String>,
        unmet: &[Unmet],
    ) {
        self.beyond += clusters.len().saturating_sub(MAX_FINDINGS) * unmet.len();
        for cluster in clusters.take(MAX_FINDINGS) {
            self.add(provider, profile, cluster, unmet.to_vec());
        }
    }

    /// The findings to list, and how many there are beyond.
    pub(crate) fn bounded(mut self) -> (Vec<Finding>, usize) {
        self.candidates.sort();
        let mut all: Vec<Finding> = self.candidates.into_iter().flat_map(|(_, findings)| findings).collect();
        let omitted = all.len().saturating_sub(MAX_FINDINGS) + self.beyond;
        all.truncate(MAX_FINDINGS);
        (all, omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewest_unmet_come_first_then_names_and_the_rest_is_counted() {
        let mut findings = Findings::default();
        let version = || (FindingReason::VersionNotOffered, "1.99".to_owned());
        for index in (0..40).rev() {
            findings.add("p", &format!("profile-{index:02}"), "", vec![version()]);
        }
        findings.add("a", "two", "", vec![version(), (FindingReason::NoProfileWithTrait, "x".into())]);
        findings.add("a", "none", "", vec![]);
        let (listed, omitted) = findings.bounded();
        assert_eq!((listed.len(), omitted), (MAX_FINDINGS, 10));
        assert_eq!(listed[0].profile, "profile-00");
        assert!(listed.is_sorted());
    }
}
