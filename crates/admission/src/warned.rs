//! Warnings of one write, within what an answer has room for: whoever does not read all of them reads that there are more.

/// The most bytes of the warnings of one write. kube-apiserver drops what goes beyond 4,096 of an answer without a word
/// (`truncateAtTotalRunes` of k8s.io/apiserver/pkg/endpoints/filters); others may have something to say too.
const MOST_BYTES: usize = 3 << 10;
/// The most bytes of one.
const MOST_OF_ONE: usize = 1 << 10;

/// As many of these as there is room for, and how many more there are, with `unkept` that are not among them; `elsewhere`
/// says where these stand, if they do.
pub(crate) fn bounded(warnings: Vec<String>, unkept: usize, elsewhere: &str) -> Vec<String> {
    let (all, mut taken, mut told) = (warnings.len() + unkept, 0, Vec::new());
    for warning in warnings {
        let warning = cut(warning);
        taken += warning.len();
        if taken > MOST_BYTES {
            break;
        }
        told.push(warning);
    }
    if told.len() < all {
        told.push(format!("and {} more warnings{elsewhere}", all - told.len()));
    }
    told
}

fn cut(mut text: String) -> String {
    if text.len() > MOST_OF_ONE {
        text.truncate(text.floor_char_boundary(MOST_OF_ONE));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_too_many_says_how_many_more_there_are() {
        let check = |count: usize, bytes: usize, unkept: usize, expect: (usize, Option<&str>)| {
            let told = bounded(vec!["é".repeat(bytes / 2); count], unkept, ": see there");
            let last = told.last().filter(|last| last.starts_with("and "));
            assert_eq!((told.len(), last.map(String::as_str)), expect, "{count} of {bytes}, {unkept} unkept");
            assert!(told.iter().map(String::len).sum::<usize>() < 4_000);
        };
        check(0, 0, 0, (0, None));
        check(30, 100, 0, (30, None));
        check(61, 100, 0, (31, Some("and 31 more warnings: see there")));
        check(3, 10, 7, (4, Some("and 7 more warnings: see there")));
        check(1, 5_000, 0, (1, None));
        check(4, 5_000, 1, (3, Some("and 3 more warnings: see there")));
    }
}
