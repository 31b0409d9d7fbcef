//! Long lists in short texts.

/// The first `most` of some things, and how many more there are: `team/a, team/b and 3 more`. No more than these are held.
pub fn listed<T: ToString>(things: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut things = things.into_iter();
    let shown = things.by_ref().take(most).map(|one| one.to_string()).collect::<Vec<_>>().join(", ");
    match things.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn of_many_the_first_are_named_and_the_rest_is_counted() {
        let check = |count: usize, expect: &str| {
            assert_eq!(listed((0..count).map(|number| number.to_string()), 2), expect);
        };
        check(0, "");
        check(1, "0");
        check(2, "0, 1");
        check(3, "0, 1 and 1 more");
        check(9, "0, 1 and 7 more");
    }
}
