//! Dates of versions: which of two holds, what has passed, and what a slip was meant to be.

use allotment_api::catalog::Date;
use k8s_openapi::jiff::Timestamp;

/// The date that holds where parent and private profile have an entry: the later one. No date at all is the latest;
/// a private profile's entry without one takes over its parent's. A text that is no time never holds against one that is.
pub fn later<'a>(parent: Option<&'a Date>, private: Option<&'a Date>) -> Option<&'a Date> {
    let (parent, private) = (parent?, private);
    match (parent.at(), private.and_then(Date::at)) {
        (Some(own), Some(extended)) if extended > own => private,
        _ => Some(parent),
    }
}

/// Whether what has this date is not given any more.
pub(super) fn has_passed(date: Option<&Date>, now: Timestamp) -> bool {
    date.and_then(Date::at).is_some_and(|at| at <= now)
}

/// The time that a text was meant to be, as RFC 3339: digits that lack are filled up (`2023-08-8`), a blank or a small `t`
/// stands for `T`, a day alone is its beginning, a time without an offset is UTC. `None` where nothing is near.
pub fn corrected(text: &str) -> Option<String> {
    let text = text.trim();
    let split = text.find(['T', 't', ' ']);
    let (day, clock) = split.map_or((text, "00:00:00Z"), |at| (&text[..at], &text[at + 1..]));
    let day = filled(day, '-', &[4, 2, 2])?;
    let zone = clock.find(['Z', 'z', '+', '-']).unwrap_or(clock.len());
    let (clock, zone) = (clock[..zone].trim_end(), &clock[zone..]);
    let fraction = clock.find(['.', ',']).unwrap_or(clock.len());
    let (clock, fraction) = clock.split_at(fraction);
    let fraction = fraction.replacen(',', ".", 1);
    let clock = match clock.matches(':').count() {
        1 => filled(&format!("{clock}:00"), ':', &[2, 2, 2])?,
        _ => filled(clock, ':', &[2, 2, 2])?,
    };
    let zone = match zone {
        "" | "Z" | "z" => "Z".to_owned(),
        _ => {
            let (sign, rest) = zone.split_at(1);
            match rest.len() {
                4 if rest.bytes().all(|byte| byte.is_ascii_digit()) => format!("{sign}{}:{}", &rest[..2], &rest[2..]),
                _ => format!("{sign}{}", filled(rest, ':', &[2, 2])?),
            }
        }
    };
    let whole = format!("{day}T{clock}{fraction}{zone}");
    is_time(&whole).then_some(whole)
}

fn is_time(text: &str) -> bool {
    Date::new(text).at().is_some()
}

/// Why a text is no time, and what to write.
pub(super) fn fault(text: &str) -> String {
    let capital = text.to_ascii_uppercase();
    let before_leap = text.replacen(":60", ":59", 1);
    if capital != text && is_time(&capital) {
        return format!("Kubernetes takes a capital T and Z only: write {capital:?}");
    }
    if before_leap != text && is_time(&before_leap) {
        return format!("Kubernetes knows no leap seconds: write the second before it, {before_leap:?}");
    }
    match corrected(text) {
        Some(corrected) => format!("not a time by RFC 3339: write {corrected:?}"),
        None => "not a time by RFC 3339: write it as \"2006-01-02T15:04:05Z\"".to_owned(),
    }
}

/// Numbers between separators, filled with zeros to their widths.
fn filled(text: &str, separator: char, widths: &[usize]) -> Option<String> {
    let parts: Vec<&str> = text.split(separator).collect();
    if parts.len() != widths.len() {
        return None;
    }
    let mut filled = Vec::with_capacity(parts.len());
    for (part, width) in parts.iter().zip(widths) {
        let fits = !part.is_empty() && part.len() <= *width && part.bytes().all(|byte| byte.is_ascii_digit());
        // A year of two digits is not one of the first century.
        let is_year = *width == 4;
        if !fits || (is_year && part.len() != 4) {
            return None;
        }
        filled.push(format!("{part:0>width$}"));
    }
    Some(filled.join(&separator.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_corrected_is_a_time_and_right_from_then_on(text in "[0-9]{1,4}[-/][0-9]{1,2}-[0-9]{1,2}[Tt ]?\\PC{0,12}") {
            if let Some(right) = corrected(&text) {
                prop_assert!(is_time(&right));
                prop_assert_eq!(corrected(&right), Some(right));
            }
        }
    }

    #[test]
    fn what_a_date_was_meant_to_be_is_found() {
        for (text, expect) in [
            ("2023-08-8T23:59:59Z", Some("2023-08-08T23:59:59Z")),
            ("2023-8-8T3:9:5Z", Some("2023-08-08T03:09:05Z")),
            ("2023-08-08", Some("2023-08-08T00:00:00Z")),
            ("2023-08-08 23:59:59", Some("2023-08-08T23:59:59Z")),
            ("2023-08-08 23:59", Some("2023-08-08T23:59:00Z")),
            ("2023-08-08t23:59:59.5z", Some("2023-08-08T23:59:59.5Z")),
            ("2023-08-08T23:59:59+0200", Some("2023-08-08T23:59:59+02:00")),
            ("2023-08-08T23:59:59-2:30", Some("2023-08-08T23:59:59-02:30")),
            ("2023-08-08T23:59:59,5Z", Some("2023-08-08T23:59:59.5Z")),
            ("2023-08-08T23:59:59+24:00", None),
            ("2023-02-30T00:00:00Z", None),
            ("23-08-08", None),
            ("08/08/2023", None),
            ("tomorrow", None),
            ("", None),
            ("2023-08-08T23:59:59+é00", None),
            ("2023-08-08T", None),
        ] {
            assert_eq!(corrected(text).as_deref(), expect, "{text:?}");
        }
    }

    #[test]
    fn the_later_date_holds_and_none_is_the_latest() {
        let (early, late, wrong) =
            (Date::new("2024-01-01T00:00:00Z"), Date::new("2025-01-01T00:00:00Z"), Date::new("x"));
        for (parent, private, expect) in [
            (None, None, None),
            (None, Some(&late), None),
            (Some(&early), None, Some(&early)),
            (Some(&early), Some(&late), Some(&late)),
            (Some(&late), Some(&early), Some(&late)),
            (Some(&early), Some(&wrong), Some(&early)),
            (Some(&wrong), Some(&late), Some(&wrong)),
        ] {
            assert_eq!(later(parent, private), expect, "{parent:?} {private:?}");
        }
    }
}
