//! Durations as Go writes them: `90s`, `1h30m`, `500ms`.

use std::time::Duration;

/// Reads a duration; errors say what one looks like.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("\"{text}\" is no duration; write it as 90s, 5m or 1h30m");
    let mut rest = text;
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    if rest.starts_with('-') && parse(&rest[1..]).is_ok() {
        return Err(format!("\"{text}\" is negative; write a duration as 90s, 5m or 1h30m"));
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0).ok_or_else(wrong)?;
        let count: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let millis: u64 = match &rest[..unit] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        rest = &rest[unit..];
        let part = count.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
    }
    Ok(total)
}

/// A time span for people: `4.2 ms`, `1.7 s`.
pub(crate) fn human(span: Duration) -> String {
    if span < Duration::from_secs(1) {
        format!("{:.1} ms", span.as_secs_f64() * 1e3)
    } else {
        format!("{:.1} s", span.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let check = |text: &str, expect: Option<u64>| {
            assert_eq!(parse(text).ok(), expect.map(Duration::from_millis), "{text}");
        };
        check("90s", Some(90_000));
        check("1h30m", Some(5_400_000));
        check("250ms", Some(250));
        check("", None);
        check("5", None);
        check("s", None);
        check("5 m", None);
        check("-5m", None);
        check("99999999999999999999h", None);
        check("9999999999999999h", None);
    }
}
