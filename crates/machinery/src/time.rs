//! Points in time as `metav1.Time` and `metav1.MicroTime` print and parse them. Telling the time is
//! [`crate::seams::Clock`]'s business, lengths of time are [`crate::duration`]'s.

use jiff::Timestamp;
use jiff::civil;
use jiff::tz::Offset;

use crate::gotext::go_quote;

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Why a text is no point in time, in the words of Go's `time` package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Something else stands where a part should.
    #[error("parsing time {} as {}: cannot parse {} as {}", go_quote(.text), go_quote(.layout), go_quote(.rest), go_quote(.part))]
    Shape {
        /// The text.
        text: String,
        /// The form that it should have, shown by the time that Go has for that.
        layout: &'static str,
        /// What stands there, to the end.
        rest: String,
        /// The part of the form.
        part: &'static str,
    },
    /// It has the right form but is no time.
    #[error("parsing time {}: {problem}", go_quote(.text))]
    Value {
        /// The text.
        text: String,
        /// What is wrong.
        problem: String,
    },
}

/// A time as `metav1.Time` takes it: RFC 3339, with any offset and any fraction of a second.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    Cursor { text, rest: text.as_bytes(), layout: SECONDS }.time(false)
}

/// A time as `metav1.MicroTime` takes it: RFC 3339 with exactly six digits of a second's fraction.
pub fn parse_micro(text: &str) -> Result<Timestamp, TimeError> {
    Cursor { text, rest: text.as_bytes(), layout: MICROS }.time(true)
}

/// `2006-01-02T15:04:05Z`; fractions of a second are cut off.
pub fn format(time: Timestamp) -> String {
    let civil = Offset::UTC.to_datetime(time);
    let (date, clock) = (civil.date(), civil.time());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        date.year(),
        date.month(),
        date.day(),
        clock.hour(),
        clock.minute(),
        clock.second()
    )
}

/// `2006-01-02T15:04:05.000000Z`; what is shorter than a microsecond is cut off.
pub fn format_micro(time: Timestamp) -> String {
    let mut text = format(time);
    text.pop();
    let micros = Offset::UTC.to_datetime(time).subsec_nanosecond() / 1_000;
    text + &format!(".{micros:06}Z")
}

/// Reads one part after another, as Go does, so that the errors are the same.
struct Cursor<'a> {
    text: &'a str,
    rest: &'a [u8],
    layout: &'static str,
}

impl Cursor<'_> {
    fn time(mut self, micros: bool) -> Result<Timestamp, TimeError> {
        let year = self.number(4, 4, "2006")?;
        self.literal("-")?;
        let month = self.within(2, 1..=12, "01", "month")?;
        self.literal("-")?;
        let day = self.number(2, 2, "02")?;
        self.literal("T")?;
        // Go takes an hour of one digit.
        let hour = self.within(1, 0..=23, "15", "hour")?;
        self.literal(":")?;
        let minute = self.within(2, 0..=59, "04", "minute")?;
        self.literal(":")?;
        let second = self.within(2, 0..=59, "05", "second")?;
        let nanos = if micros { self.micros()? } else { self.any_fraction() };
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            let extra = String::from_utf8_lossy(self.rest).into_owned();
            return Err(self.value_error(&format!("extra text: {}", go_quote(&extra))));
        }
        let out_of_range = || self.value_error("day out of range");
        let date = civil::Date::new(year, month as i8, day as i8).map_err(|_| out_of_range())?;
        let clock = civil::Time::new(hour as i8, minute as i8, second as i8, nanos).map_err(|_| out_of_range())?;
        offset.to_timestamp(date.to_datetime(clock)).map_err(|_| out_of_range())
    }

    fn shape_error(&self, part: &'static str) -> TimeError {
        let rest = String::from_utf8_lossy(self.rest).into_owned();
        TimeError::Shape { text: self.text.to_owned(), layout: self.layout, rest, part }
    }

    fn value_error(&self, problem: &str) -> TimeError {
        TimeError::Value { text: self.text.to_owned(), problem: problem.to_owned() }
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), TimeError> {
        self.rest = self.rest.strip_prefix(literal.as_bytes()).ok_or_else(|| self.shape_error(literal))?;
        Ok(())
    }

    /// A number of `least` to `most` digits, at most four.
    fn number(&mut self, least: usize, most: usize, part: &'static str) -> Result<i16, TimeError> {
        let length = self.rest.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        if length < least {
            return Err(self.shape_error(part));
        }
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(digits.iter().fold(0, |number, digit| number * 10 + i16::from(digit - b'0')))
    }

    /// A number of at most two digits in a range.
    fn within(
        &mut self,
        least: usize,
        range: std::ops::RangeInclusive<i16>,
        part: &'static str,
        name: &str,
    ) -> Result<i16, TimeError> {
        let number = self.number(least, 2, part)?;
        if range.contains(&number) { Ok(number) } else { Err(self.value_error(&format!("{name} out of range"))) }
    }

    /// Nanoseconds, if a point or a comma and digits stand here. What is below a nanosecond is dropped.
    fn any_fraction(&mut self) -> i32 {
        let [b'.' | b',', digits @ ..] = self.rest else { return 0 };
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length > 0 {
            self.rest = &digits[length..];
        }
        nanos(&digits[..length])
    }

    /// Nanoseconds from a point or a comma and six digits.
    fn micros(&mut self) -> Result<i32, TimeError> {
        let Some(([b'.' | b',', digits @ ..], rest)) = self.rest.split_first_chunk::<7>() else {
            return Err(self.shape_error(".000000"));
        };
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(self.shape_error(".000000"));
        }
        self.rest = rest;
        Ok(nanos(digits))
    }

    fn offset(&mut self) -> Result<Offset, TimeError> {
        if let Some(rest) = self.rest.strip_prefix(b"Z") {
            self.rest = rest;
            return Ok(Offset::UTC);
        }
        let Some(([sign @ (b'+' | b'-'), h1, h2, b':', m1, m2], rest)) = self.rest.split_first_chunk::<6>() else {
            return Err(self.shape_error("Z07:00"));
        };
        if ![h1, h2, m1, m2].iter().all(|digit| digit.is_ascii_digit()) {
            return Err(self.shape_error("Z07:00"));
        }
        let number = |tens: &u8, ones: &u8| i32::from(tens - b'0') * 10 + i32::from(ones - b'0');
        let (hours, minutes) = (number(h1, h2), number(m1, m2));
        if hours > 24 {
            return Err(self.value_error("time zone offset hour out of range"));
        }
        if minutes > 60 {
            return Err(self.value_error("time zone offset minute out of range"));
        }
        self.rest = rest;
        let seconds = hours * 3600 + minutes * 60;
        Offset::from_seconds(if *sign == b'-' { -seconds } else { seconds })
            .map_err(|_| self.value_error("time zone offset hour out of range"))
    }
}

/// The first nine digits of a second's fraction in nanoseconds.
fn nanos(digits: &[u8]) -> i32 {
    (0..9).fold(0, |nanos, place| nanos * 10 + digits.get(place).map_or(0, |digit| i32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &str, seconds: &str, micros: &str) {
        let time = parse(input).expect(input);
        assert_eq!((format(time).as_str(), format_micro(time).as_str()), (seconds, micros));
        assert_eq!(parse_micro(micros).map(format_micro).as_deref(), Ok(micros));
    }

    #[test]
    fn times_are_printed_in_utc_to_the_second_or_microsecond() {
        check("2006-01-02T15:04:05Z", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05.000000Z");
        check("2006-01-02T15:04:05+01:30", "2006-01-02T13:34:05Z", "2006-01-02T13:34:05.000000Z");
        check("2024-02-29T23:59:59.123456+00:00", "2024-02-29T23:59:59Z", "2024-02-29T23:59:59.123456Z");
        check("2024-02-29T23:59:59.1234567891-00:00", "2024-02-29T23:59:59Z", "2024-02-29T23:59:59.123456Z");
        check("1960-01-01T00:00:00.5Z", "1960-01-01T00:00:00Z", "1960-01-01T00:00:00.500000Z");
        check("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z");
    }

    #[test]
    fn only_rfc_3339_is_a_time() {
        for input in [
            "",
            "2006-01-02",
            "2006-01-02T15:04:05",
            "2006-01-02 15:04:05Z",
            "2006-01-02t15:04:05z",
            "2006-1-2T15:04:05Z",
            "2006-13-02T15:04:05Z",
            "2023-02-29T15:04:05Z",
            "2023-08-8T00:00:00ZZ",
            "2006-01-02T24:04:05Z",
            "2006-01-02T15:04:60Z",
            "2006-01-02T15:04:05.Z",
            "2006-01-02T15:04:05+0100",
            "2006-01-02T15:04:05+25:00",
            "2006-01-02T15:04:05Z ",
            "éééééééééééééééééééé",
        ] {
            assert!(parse(input).is_err(), "{input}");
        }
    }

    #[test]
    fn errors_read_as_in_go() {
        for (input, message) in [
            ("nope", "parsing time \"nope\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"nope\" as \"2006\""),
            ("2006-01-02", "parsing time \"2006-01-02\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\""),
            ("2006-13-02T", "parsing time \"2006-13-02T\": month out of range"),
            ("2023-02-29T00:00:00Z", "parsing time \"2023-02-29T00:00:00Z\": day out of range"),
            ("2006-01-02T15:04:05Zx", "parsing time \"2006-01-02T15:04:05Zx\": extra text: \"x\""),
        ] {
            assert_eq!(parse(input).expect_err(input).to_string(), message);
        }
        for (input, message) in [
            (
                "2020-01-01T00:00:00Z",
                "parsing time \"2020-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"",
            ),
            (
                "2020-01-01T00:00:00.123456789Z",
                "parsing time \"2020-01-01T00:00:00.123456789Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"789Z\" as \"Z07:00\"",
            ),
        ] {
            assert_eq!(parse_micro(input).expect_err(input).to_string(), message);
        }
    }

    #[test]
    fn micro_times_have_six_digits() {
        assert!(parse_micro("2006-01-02T15:04:05.123456+02:00").is_ok());
        for input in ["2006-01-02T15:04:05Z", "2006-01-02T15:04:05.123Z", "2006-01-02T15:04:05.1234567Z"] {
            assert!(parse_micro(input).is_err(), "{input}");
        }
    }
}
