//! The Kubernetes versions on offer, from a list that is data.

use allotment_api::requests::SupportedVersion;
use allotment_core::requests::{Offer, Version};

use crate::providers::OfferedVersion;

const LIST: &str = include_str!("versions.txt");

/// All versions, oldest first.
pub(super) fn offered() -> Vec<OfferedVersion> {
    LIST.lines().filter_map(read).collect()
}

/// The version that a Cluster runs which asks for `text`, whole, in part or not at all; or why none.
pub(super) fn chosen(text: &str) -> Result<String, String> {
    let supported: Vec<_> = offered()
        .into_iter()
        .map(|offer| SupportedVersion { version: offer.version, deprecated: offer.deprecated })
        .collect();
    let asked = (!text.is_empty()).then(|| Version::parse(text).ok_or_else(|| format!("{text:?} is no version")));
    let chosen = Offer::of(&supported).choose(asked.transpose()?.as_ref());
    chosen.map(|chosen| chosen.text).map_err(|_| {
        format!(
            "spec.kubernetes.version: {text:?} is not offered, or deprecated and not asked for in full; the status of \
             the ClusterProvider lists what is"
        )
    })
}

fn read(line: &str) -> Option<OfferedVersion> {
    let mut words = line.split_whitespace();
    let version = words.next().filter(|word| !word.starts_with('#'))?;
    let deprecated = words.next() == Some("deprecated");
    Some(OfferedVersion { version: version.to_owned(), deprecated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_runs_a_version_that_is_offered_whatever_was_written() {
        let newest = offered().into_iter().rfind(|offer| !offer.deprecated).expect("one is current").version;
        assert_eq!(chosen(""), Ok(newest.clone()));
        assert_eq!(chosen(&newest), Ok(newest.clone()));
        let minor = newest.rsplit_once('.').expect("three numbers").0;
        assert_eq!(chosen(minor), Ok(newest.clone()), "in part");
        assert_eq!(chosen(&format!("v{newest}")), Ok(newest));
        for absent in ["9.9.9", "0.1", "x"] {
            assert!(chosen(absent).expect_err(absent).contains(absent));
        }
    }

    #[test]
    fn the_list_is_in_order_and_spans_the_minors_that_are_served() {
        let numbers: Vec<Vec<u32>> = offered()
            .iter()
            .map(|offer| offer.version.split('.').map(|part| part.parse().expect("a number")).collect())
            .collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert!(numbers.iter().all(|parts| parts.len() == 3), "{numbers:?}");
        let minors: std::collections::BTreeSet<u32> = numbers.iter().map(|parts| parts[1]).collect();
        assert_eq!(minors.into_iter().collect::<Vec<_>>(), [30, 31, 32, 33, 34, 35, 36]);
    }
}
