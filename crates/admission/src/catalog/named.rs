//! How texts name many objects: the first few, and how many more there are.

use std::sync::Arc;

use allotment_core::catalog::{KeptShoot, listed};
use allotment_core::write::ObjectKey;

/// Most objects that a text names.
const MOST_NAMED: usize = 10;

/// `team/a, team/b and 3 more`.
pub(super) fn named<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    listed(all, MOST_NAMED)
}

/// The names of Shoots alone, where all are of one namespace.
pub(super) fn names<'a>(shoots: impl IntoIterator<Item = &'a (ObjectKey, Arc<KeptShoot>)>) -> String {
    named(shoots.into_iter().map(|(_, shoot)| shoot.shown()))
}

/// That a write drops what Shoots use.
pub(super) fn dropped(path: &str, users: &str) -> String {
    format!("{path}: is dropped, and Shoots {users} use it: they stay as they are, and nothing new takes it")
}

/// What cannot be read, where it may be among those that are meant.
pub(super) fn unread<'a>(keys: impl IntoIterator<Item = &'a ObjectKey>) -> String {
    named(keys.into_iter().map(|key| format!("{key} (cannot be read)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_named_by_the_first_of_them() {
        assert_eq!(named(["a"]), "a");
        assert_eq!(named(0..10), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9");
        assert_eq!(named(0..12), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
        assert_eq!(unread([&ObjectKey::new("n", "a")]), "n/a (cannot be read)");
    }
}
