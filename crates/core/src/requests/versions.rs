//! Kubernetes versions: which one a request gets, and whether one that runs fits.

use std::cmp::{Ordering, Reverse};

use allotment_api::reasons::FindingReason;
use allotment_api::requests::SupportedVersion;

/// A version by its numeric components; "1.3" and "1.30" have nothing in common but the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    components: Vec<u64>,
    /// What follows the components, `-rc.1` or `+vendor.2`; empty for a plain release.
    suffix: String,
}

impl Version {
    /// Reads "1", "1.30", "1.30.2", "v1.30.2-rc.1"; `None` where a component is no number.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let split = text.find(['-', '+']).unwrap_or(text.len());
        let (numbers, suffix) = text.split_at(split);
        let components: Option<Vec<u64>> = numbers.split('.').map(component).collect();
        Some(Version { components: components?, suffix: suffix.to_owned() })
    }

    /// Whether it names one version and not a family.
    pub fn is_full(&self) -> bool {
        self.components.len() >= 3
    }

    /// How many numeric components there are.
    pub fn components(&self) -> usize {
        self.components.len()
    }

    /// Whether anything follows the components.
    pub fn has_suffix(&self) -> bool {
        !self.suffix.is_empty()
    }

    /// Whether `other` is this version or, where this is partial, of its family.
    pub fn matches(&self, other: &Version) -> bool {
        if self.is_full() { self == other } else { other.components.starts_with(&self.components) }
    }
}

fn component(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let release = |version: &Version| !version.suffix.starts_with('-');
        self.components
            .cmp(&other.components)
            .then_with(|| release(self).cmp(&release(other)))
            .then_with(|| self.suffix.cmp(&other.suffix))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a profile offers, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    versions: Vec<(Version, String, bool)>,
}

/// The version that a new Cluster gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// As the provider spells it, without a leading `v`.
    pub text: String,
    /// Parsed.
    pub version: Version,
    /// Whether the provider calls it deprecated.
    pub deprecated: bool,
}

impl Offer {
    /// The offer of a profile; what is no version is left out.
    pub fn of(supported: &[SupportedVersion]) -> Self {
        let mut versions: Vec<_> = supported
            .iter()
            .filter_map(|entry| {
                let text = entry.version.strip_prefix('v').unwrap_or(&entry.version);
                Some((Version::parse(text)?, text.to_owned(), entry.deprecated))
            })
            .collect();
        versions.sort_by(|left, right| Reverse(&left.0).cmp(&Reverse(&right.0)));
        Offer { versions }
    }

    /// The version for a new Cluster: exactly the one asked for where that is full, else the newest that
    /// matches and is not deprecated.
    pub fn choose(&self, asked: Option<&Version>) -> Result<Chosen, FindingReason> {
        let matching = || self.versions.iter().filter(|entry| asked.is_none_or(|asked| asked.matches(&entry.0)));
        let full = asked.is_some_and(Version::is_full);
        match matching().find(|entry| full || !entry.2) {
            Some((version, text, deprecated)) => {
                Ok(Chosen { text: text.clone(), version: version.clone(), deprecated: *deprecated })
            }
            None if matching().next().is_some() => Err(FindingReason::OnlyDeprecatedVersions),
            None => Err(FindingReason::VersionNotOffered),
        }
    }

    /// The versions that are not deprecated, newest first, as the provider spells them.
    pub(crate) fn current(&self) -> impl Iterator<Item = (&Version, &str)> {
        self.versions.iter().filter(|(_, _, deprecated)| !deprecated).map(|(version, text, _)| (version, text.as_str()))
    }

    /// Whether the profile calls this version deprecated.
    pub fn is_deprecated(&self, version: &Version) -> bool {
        self.versions.iter().any(|entry| entry.2 && entry.0 == *version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Offer {
        let supported = [("1.19.9", true), ("1.3.7", false), ("1.30.1", false), ("1.30.2", false), ("1.30.3", true)];
        Offer::of(&supported.map(|(version, deprecated)| SupportedVersion { version: version.into(), deprecated }))
    }

    #[test]
    fn a_new_cluster_gets_the_newest_version_that_matches_and_is_not_deprecated() {
        for (asked, expect) in [
            ("", Ok(("1.30.2", false))),
            ("1", Ok(("1.30.2", false))),
            ("1.30", Ok(("1.30.2", false))),
            ("v1.30", Ok(("1.30.2", false))),
            ("1.3", Ok(("1.3.7", false))),
            ("1.30.3", Ok(("1.30.3", true))),
            ("1.30.1", Ok(("1.30.1", false))),
            ("1.19", Err(FindingReason::OnlyDeprecatedVersions)),
            ("1.19.9", Ok(("1.19.9", true))),
            ("1.31", Err(FindingReason::VersionNotOffered)),
            ("1.30.9", Err(FindingReason::VersionNotOffered)),
            ("2", Err(FindingReason::VersionNotOffered)),
        ] {
            let asked_version = (!asked.is_empty()).then(|| Version::parse(asked).expect(asked));
            let chosen = offer().choose(asked_version.as_ref()).map(|chosen| (chosen.text, chosen.deprecated));
            assert_eq!(chosen, expect.map(|(text, deprecated)| (text.to_owned(), deprecated)), "{asked:?}");
        }
    }

    #[test]
    fn versions_compare_by_number_and_a_release_is_newer_than_its_candidates() {
        let ordered =
            ["1.3", "1.3.7", "1.30.1-rc.1", "1.30.1", "1.30.10"].map(|text| Version::parse(text).expect(text));
        assert!(ordered.is_sorted());
        for text in ["", "1.", "1.x", "1.30.x", ".1", "1..2", "+1", "-1"] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
    }
}
