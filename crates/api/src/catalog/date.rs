//! Dates as profiles write them: the text is kept, and read once.

use std::borrow::Cow;
use std::fmt;

use allotment_machinery::time;
use k8s_openapi::jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bounds;

/// A point in time, RFC 3339. What was written is kept, also where it is no time: that is refused by admission, with
/// the text that would be right, and not by whoever reads the object.
#[derive(Clone, Debug)]
pub struct Date {
    text: Box<str>,
    at: Option<Timestamp>,
}

impl Date {
    /// What a text says.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        let at = read(&text).or_else(|| end_of_time(&text));
        Date { text, at }
    }

    /// A point in time, written to the second.
    pub fn of(at: Timestamp) -> Self {
        Date::new(time::format(at))
    }

    /// What was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The time; `None` where the text is none.
    pub fn at(&self) -> Option<Timestamp> {
        self.at
    }
}

/// A time of RFC 3339. Kubernetes takes a little more, which other readers of profiles do not: a comma, an hour of one digit, an
/// offset of a whole day.
fn read(text: &str) -> Option<Timestamp> {
    let offset = text.len().checked_sub("+00:00".len()).and_then(|start| text.get(start..));
    let offset = offset.and_then(|offset| offset.strip_prefix(['+', '-']));
    let is_right = offset.is_none_or(|offset| offset < "24:00" && !offset.ends_with("60"));
    let has_hour = text.as_bytes().get("2006-01-02T15".len()) == Some(&b':');
    if is_right && has_hour && !text.contains(',') { time::parse(text).ok() } else { None }
}

/// The last days of the year 9999, by which some say never, lie behind the last time that can be computed with; they stand
/// for that.
fn end_of_time(text: &str) -> Option<Timestamp> {
    let rest = text.strip_prefix("9999-12-3")?;
    read(&format!("9998-12-3{rest}")).map(|_| Timestamp::MAX)
}

impl PartialEq for Date {
    /// By time, however it is written; what is no time by its text.
    fn eq(&self, other: &Self) -> bool {
        match (self.at, other.at) {
            (Some(left), Some(right)) => left == right,
            (None, None) => self.text == other.text,
            _ => false,
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Date::new)
    }
}

impl JsonSchema for Date {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Date".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": bounds::SHORT})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_rfc_3339_has_it() {
        for (text, is_time) in [
            ("2099-08-08T23:59:59Z", true),
            ("2099-08-08T23:59:59.5Z", true),
            ("2099-08-08T23:59:59+23:59", true),
            ("2099-08-08T23:59:59-23:59", true),
            ("2099-08-08T23:59:59,5Z", false),
            ("2099-08-08T23:59:59+24:00", false),
            ("2099-08-08T23:59:59-24:00", false),
            ("2099-08-08T23:59:59+01:60", false),
            ("2099-08-08T3:59:59Z", false),
            ("2099-08-08t23:59:59z", false),
            ("9999-12-31T23:59:59,5Z", false),
        ] {
            assert_eq!(Date::new(text).at().is_some(), is_time, "{text}");
        }
    }

    #[test]
    fn what_is_written_for_never_is_a_time_as_any_other() {
        for (text, is_time) in [
            ("9999-12-31T23:59:59Z", true),
            ("9999-12-31T23:59:59.999+02:00", true),
            ("9999-12-30T22:30:00Z", true),
            ("9999-12-31", false),
            ("9999-12-32T00:00:00Z", false),
            ("9999-12-3xT00:00:00Z", false),
            ("2026-12-31T23:59:60Z", false),
        ] {
            let date = Date::new(text);
            assert_eq!((date.at().is_some(), date.text()), (is_time, text));
            assert!(!is_time || date.at() > Date::new("9999-12-29T00:00:00Z").at(), "{text}");
        }
    }
}
