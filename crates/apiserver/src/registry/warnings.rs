//! What a client is warned of: as much as an answer has room for, however much there is to say.

use std::collections::BTreeSet;
use std::ops::Deref;

/// The most warnings that are kept for one answer: no more of them fit into its headers.
const MAX_WARNINGS: usize = 256;
/// The most that are looked at for one answer: the same text may come from each two elements of a list.
const MAX_OFFERED: usize = 16 * MAX_WARNINGS;
/// The most bytes of all warnings of a reply together: header sections are bounded everywhere.
pub(crate) const MAX_WARNING_BYTES: usize = 4 * 1024;

/// Warnings in the order in which they are told, each once. What has no room is dropped: an object of a few MiB
/// can be worth thousands of warnings for each of its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings {
    kept: Vec<String>,
    seen: BTreeSet<String>,
    offered: usize,
    bytes: usize,
    full: bool,
}

impl Warnings {
    /// Adds a warning, if there is room and it has not been told yet.
    pub fn push(&mut self, text: String) {
        self.offered += 1;
        self.full = self.full || self.offered > MAX_OFFERED;
        if self.full || self.seen.contains(&text) {
            return;
        }
        self.bytes += text.len();
        if self.kept.len() == MAX_WARNINGS || self.bytes > MAX_WARNING_BYTES {
            self.full = true;
            return;
        }
        self.seen.insert(text.clone());
        self.kept.push(text);
    }

    /// Whether nothing more is kept, so that nothing more need be looked for.
    pub fn is_full(&self) -> bool {
        self.full
    }
}

impl Deref for Warnings {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.kept
    }
}

impl Extend<String> for Warnings {
    fn extend<T: IntoIterator<Item = String>>(&mut self, texts: T) {
        for text in texts {
            self.push(text);
            if self.full {
                return;
            }
        }
    }
}

impl FromIterator<String> for Warnings {
    fn from_iter<T: IntoIterator<Item = String>>(texts: T) -> Self {
        let mut warnings = Warnings::default();
        warnings.extend(texts);
        warnings
    }
}

impl IntoIterator for Warnings {
    type Item = String;
    type IntoIter = std::vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_end_where_an_answer_has_no_room() {
        let mut looked = 0;
        let endless = (0..u32::MAX).inspect(|_| looked += 1).map(|number| format!("warning {number}"));
        let warnings: Warnings = endless.collect();
        assert!(warnings.is_full());
        assert!(looked <= 1 + MAX_WARNINGS, "{looked} warnings were made");
        let kept: Vec<String> = warnings.into_iter().collect();
        assert_eq!(kept.first().map(String::as_str), Some("warning 0"));

        let long: Warnings =
            [String::from("a"), "b".repeat(MAX_WARNING_BYTES), String::from("c")].into_iter().collect();
        assert_eq!(long.into_iter().collect::<Vec<_>>(), ["a"], "what would not be sent is not kept");
    }

    #[test]
    fn the_same_is_told_once_and_not_looked_at_for_ever() {
        let same: Warnings = (0..u32::MAX).map(|_| "a".to_owned()).collect();
        assert!(same.is_full());
        assert_eq!(*same, ["a"]);
        let warnings: Warnings = ["a", "b", "a"].map(str::to_owned).into_iter().collect();
        assert_eq!(warnings.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
