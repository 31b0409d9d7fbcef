//! The Kubernetes versions on offer, from a list that is data.

use crate::providers::OfferedVersion;

const LIST: &str = include_str!("versions.txt");

/// All versions, oldest first.
pub(super) fn offered() -> Vec<OfferedVersion> {
    LIST.lines().filter_map(read).collect()
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
