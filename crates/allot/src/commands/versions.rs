//! Versions of profiles as a table: what expires when, in which profiles, and who uses it.

use allotment_api::catalog::Date;
use allotment_core::catalog::{Expiring, ProfileName, listed};
use jiff::{SignedDuration, Timestamp};

use crate::output;

/// Most names that a line lists.
const MOST_NAMED: usize = 5;

/// A line for each version.
pub(super) fn table(rows: &[Expiring], now: Timestamp) -> String {
    let row = |row: &Expiring| {
        let away = row.expires.as_ref().and_then(Date::at).map(|at| distance(now.duration_until(at)));
        let profile = |name: &ProfileName| match name.namespace.as_str() {
            "" => name.name.clone(),
            namespace => format!("{namespace}/{}", name.name),
        };
        let profiles: Vec<String> = row.profiles.iter().map(profile).collect();
        let what = format!("{} {}", row.image.as_deref().unwrap_or("kubernetes"), row.version);
        vec![
            what,
            row.expires.as_ref().map_or("never", Date::text).to_owned(),
            away.unwrap_or_default(),
            named(&profiles),
            named(&row.shoots),
        ]
    };
    output::table(&["VERSION", "EXPIRES", "IN", "PROFILES", "SHOOTS"], &rows.iter().map(row).collect::<Vec<_>>())
}

/// Names on one line: of many the first.
pub(super) fn named(names: &[String]) -> String {
    if names.is_empty() { "-".to_owned() } else { listed(names, MOST_NAMED) }
}

/// How far a date is away, in its largest unit: `12d`, `3h ago`.
pub(super) fn distance(span: SignedDuration) -> String {
    let minutes = span.unsigned_abs().as_secs() / 60;
    let text = match minutes {
        0..60 => format!("{minutes}m"),
        60..1440 => format!("{}h", minutes / 60),
        _ => format!("{}d", minutes / 1440),
    };
    if span.is_negative() || span.is_zero() { format!("{text} ago") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_told_in_their_largest_unit() {
        let check = |minutes: i64, expect: &str| {
            assert_eq!(distance(SignedDuration::from_mins(minutes)), expect, "{minutes}");
        };
        check(59, "59m");
        check(-60, "1h ago");
        check(0, "0m ago");
        check(1439, "23h");
        check(1440 * 30, "30d");
        check(-1440 * 400, "400d ago");
    }

    #[test]
    fn long_lists_are_cut_off() {
        let names = |count: usize| (0..count).map(|number| format!("n{number}")).collect::<Vec<_>>();
        assert_eq!(named(&names(0)), "-");
        assert_eq!(named(&names(2)), "n0, n1");
        assert_eq!(named(&names(7)), "n0, n1, n2, n3, n4 and 2 more");
    }
}
