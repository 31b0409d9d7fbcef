//! Times as Go's API types read and write them (`metav1.Time`, `metav1.MicroTime`), with the texts of
//! Go's `time.Parse`.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::Offset;

/// Which form a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// RFC 3339, kept to the second; fractions are taken and dropped.
    Seconds,
    /// RFC 3339 with exactly six digits of a fraction.
    Micros,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// The time in the form that it is stored and answered in, always UTC.
pub(crate) fn format(time: Timestamp, precision: Precision) -> String {
    match precision {
        Precision::Seconds => allotment_machinery::time::format(time),
        Precision::Micros => allotment_machinery::time::format_micro(time),
    }
}

/// Reads a time.
///
/// # Errors
/// The text of Go's error, which says what could not be read as which part of the layout.
pub(crate) fn parse(text: &str, precision: Precision) -> Result<Timestamp, String> {
    let mut reader = Reader { text, rest: text, layout: precision.layout() };
    let year = reader.digits(4, "2006")?;
    reader.literal("-")?;
    let month = reader.digits(2, "01")?;
    reader.range((1..=12).contains(&month), "month")?;
    reader.literal("-")?;
    let day = reader.digits(2, "02")?;
    reader.literal("T")?;
    let hour = reader.digits(2, "15")?;
    reader.range(hour < 24, "hour")?;
    reader.literal(":")?;
    let minute = reader.digits(2, "04")?;
    reader.range(minute < 60, "minute")?;
    reader.literal(":")?;
    let second = reader.digits(2, "05")?;
    reader.range(second < 60, "second")?;
    let nanos = match precision {
        Precision::Micros => reader.micros()?,
        Precision::Seconds => reader.any_fraction(),
    };
    let offset = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {text:?}: extra text: {:?}", reader.rest));
    }
    let outside = || format!("parsing time {text:?}: day out of range");
    let small = |value: u32| i8::try_from(value).unwrap_or(i8::MAX);
    let year = i16::try_from(year).unwrap_or(i16::MAX);
    let date = Date::new(year, small(month), small(day)).map_err(|_| outside())?;
    let clock = Time::new(small(hour), small(minute), small(second), nanos).map_err(|_| outside())?;
    offset.to_timestamp(date.to_datetime(clock)).map_err(|_| outside())
}

/// What is left to read, and what an error names.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn fail<T>(&self, part: &str) -> Result<T, String> {
        Err(format!("parsing time {:?} as {:?}: cannot parse {:?} as {part:?}", self.text, self.layout, self.rest))
    }

    fn range(&self, holds: bool, part: &str) -> Result<(), String> {
        if holds { Ok(()) } else { Err(format!("parsing time {:?}: {part} out of range", self.text)) }
    }

    fn digits(&mut self, count: usize, part: &str) -> Result<u32, String> {
        match self.rest.get(..count).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(text) => {
                let value = text.bytes().fold(0, |sum, byte| sum * 10 + u32::from(byte - b'0'));
                self.rest = &self.rest[count..];
                Ok(value)
            }
            None => self.fail(part),
        }
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => self.fail(text),
        }
    }

    /// `.000000`: a point and exactly six digits.
    fn micros(&mut self) -> Result<i32, String> {
        let before = self.rest;
        if !before.starts_with('.') {
            return self.fail(".000000");
        }
        self.rest = &before[1..];
        match self.digits(6, ".000000") {
            Ok(micros) => Ok(i32::try_from(micros).unwrap_or(0) * 1000),
            Err(_) => {
                self.rest = before;
                self.fail(".000000")
            }
        }
    }

    /// A fraction of any length, where the layout has none.
    fn any_fraction(&mut self) -> i32 {
        let Some(after) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let length = after.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return 0;
        }
        self.rest = &after[length..];
        let nanos = after.bytes().take(length).chain(std::iter::repeat(b'0')).take(9);
        nanos.fold(0, |sum, byte| sum * 10 + i32::from(byte - b'0'))
    }

    /// `Z07:00`: `Z`, or hours and minutes with a sign.
    fn offset(&mut self) -> Result<Offset, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(Offset::UTC);
        }
        let before = self.rest;
        let parsed = self.signed_offset();
        if parsed.is_none() {
            self.rest = before;
        }
        match parsed {
            Some(offset) => Ok(offset),
            None => self.fail("Z07:00"),
        }
    }

    fn signed_offset(&mut self) -> Option<Offset> {
        let sign = match self.rest.bytes().next()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.rest = &self.rest[1..];
        let hours = self.digits(2, "07").ok()?;
        self.literal(":").ok()?;
        let minutes = self.digits(2, "00").ok()?;
        if hours > 24 || minutes > 60 {
            return None;
        }
        let seconds = i32::try_from(hours * 3600 + minutes * 60).ok()?;
        Offset::from_seconds(sign * seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, precision: Precision, expect: &str) {
        let read = parse(text, precision).map_or_else(|error| error, |time| format(time, precision));
        assert_eq!(read, expect, "{text}");
    }

    #[test]
    fn times_are_read_as_go_reads_them() {
        use Precision::{Micros, Seconds};
        check("2020-01-01T00:00:00Z", Seconds, "2020-01-01T00:00:00Z");
        check("2020-01-01T00:00:00.999999999Z", Seconds, "2020-01-01T00:00:00Z");
        check("2020-01-01T01:00:00.5+01:00", Seconds, "2020-01-01T00:00:00Z");
        check("2020-02-29T23:30:00.123456-01:30", Micros, "2020-03-01T01:00:00.123456Z");
        check("nope", Seconds, r#"parsing time "nope" as "2006-01-02T15:04:05Z07:00": cannot parse "nope" as "2006""#);
        check(
            "2020-01-01T00:00:00Z",
            Micros,
            r#"parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
        );
        check(
            "2020-01-01T00:00:00.123456789Z",
            Micros,
            r#"parsing time "2020-01-01T00:00:00.123456789Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "789Z" as "Z07:00""#,
        );
        check("2020-13-01T00:00:00Z", Seconds, r#"parsing time "2020-13-01T00:00:00Z": month out of range"#);
        check("2021-02-29T00:00:00Z", Seconds, r#"parsing time "2021-02-29T00:00:00Z": day out of range"#);
        check("2020-01-01T00:00:00Zx", Seconds, r#"parsing time "2020-01-01T00:00:00Zx": extra text: "x""#);
        check(
            "2020-01-01 00:00:00Z",
            Seconds,
            r#"parsing time "2020-01-01 00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 00:00:00Z" as "T""#,
        );
        check("", Seconds, r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#);
        check(
            "2020-01-0é",
            Seconds,
            r#"parsing time "2020-01-0é" as "2006-01-02T15:04:05Z07:00": cannot parse "0é" as "02""#,
        );
    }
}
