//! What tables show of built-in objects: lengths of time as people read them, counts.

use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;
use allotment_machinery::time;
use jiff::Timestamp;

/// The time since `from` in two units at most, as `k8s.io/apimachinery/pkg/util/duration` prints it.
pub(crate) fn human_duration(from: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - from.as_second();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let pair = |big: i64, big_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{big_unit}"),
        _ => format!("{big}{big_unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => pair(hours / 24, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => pair(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}

/// The time since the one that `value` holds; `None` where it holds none.
pub(crate) fn since(value: Option<&Value>, now: Timestamp) -> Option<String> {
    let text = value?.as_str()?;
    Some(human_duration(time::parse(text).ok()?, now))
}

/// The cell of an object's age.
pub(crate) fn age(object: &Map, now: Timestamp) -> Value {
    let created = object.get("metadata").and_then(|metadata| metadata.get("creationTimestamp"));
    Value::String(since(created, now).unwrap_or_else(|| "<unknown>".to_owned()))
}

/// The cell of an object's name.
pub(crate) fn name(object: &Map) -> Value {
    Value::from(metadata_str(object, "name").unwrap_or_default())
}

/// The text under a path; empty where there is none.
pub(crate) fn text<'a>(object: &'a Map, path: &[&str]) -> &'a str {
    let Some((first, rest)) = path.split_first() else { return "" };
    object.get(first).and_then(|value| value.at(rest)).and_then(Value::as_str).unwrap_or_default()
}

/// How many members the objects under these names have together.
pub(crate) fn count(object: &Map, names: &[&str]) -> Value {
    let lengths = names.iter().filter_map(|name| object.get(name)?.as_object()).map(Map::len);
    Value::from(i64::try_from(lengths.sum::<usize>()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_shows_them() {
        let start = Timestamp::UNIX_EPOCH;
        let after = |seconds: i64| human_duration(start, Timestamp::from_second(seconds).expect("in range"));
        let day = 86_400;
        for (seconds, expect) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (8 * 3600, "8h"),
            (2 * day - 1, "47h"),
            (2 * day, "2d"),
            (2 * day + 3600, "2d1h"),
            (8 * day, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (8 * 365 * day, "8y"),
        ] {
            assert_eq!(after(seconds), expect, "{seconds}");
        }
    }
}
