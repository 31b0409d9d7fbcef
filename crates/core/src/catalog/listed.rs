//! Long lists in short texts.

/// The first `most` of some texts, and how many more there are. No more than these are held.
pub(super) fn listed(texts: impl IntoIterator<Item = String>, most: usize) -> String {
    let mut texts = texts.into_iter();
    let shown = texts.by_ref().take(most).collect::<Vec<_>>().join(", ");
    match texts.count() {
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
