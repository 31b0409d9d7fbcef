//! Points in time as `metav1.Time` and `metav1.MicroTime` print and parse them. Telling the time is
//! [`crate::seams::Clock`]'s business, lengths of time are [`crate::duration`]'s.

use jiff::Timestamp;
use jiff::civil;
use jiff::tz::Offset;

/// Why a text is no point in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a time as RFC 3339 writes it, such as 2006-01-02T15:04:05Z: {problem}")]
pub struct TimeError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// A time as `metav1.Time` takes it: RFC 3339, with any offset and any fraction of a second.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    parse_parts(text).map(|(time, _)| time).map_err(|problem| TimeError { text: text.to_owned(), problem })
}

/// A time as `metav1.MicroTime` takes it: RFC 3339 with exactly six digits of a second's fraction.
pub fn parse_micro(text: &str) -> Result<Timestamp, TimeError> {
    match parse_parts(text) {
        Ok((time, 6)) => Ok(time),
        Ok(_) => Err("there have to be six digits behind the seconds"),
        Err(problem) => Err(problem),
    }
    .map_err(|problem| TimeError { text: text.to_owned(), problem })
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

/// The time and how many digits its fraction had.
fn parse_parts(text: &str) -> Result<(Timestamp, usize), &'static str> {
    let bytes = text.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if bytes.len() < 20 || marks.iter().any(|(index, mark)| bytes[*index] != *mark) {
        return Err("it has another shape");
    }
    let date = civil::Date::new(digits(&bytes[..4])?, digits(&bytes[5..7])? as i8, digits(&bytes[8..10])? as i8)
        .map_err(|_| "there is no such day")?;
    let (hour, minute, second) = (digits(&bytes[11..13])?, digits(&bytes[14..16])?, digits(&bytes[17..19])?);
    let mut rest = &bytes[19..];
    let mut nanos = 0;
    let mut fraction = 0;
    if matches!(rest[0], b'.' | b',') {
        fraction = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if fraction == 0 {
            return Err("digits have to follow the decimal point");
        }
        // More than nanoseconds are read and dropped.
        for index in 0..9 {
            nanos = nanos * 10 + if index < fraction { i32::from(rest[1 + index] - b'0') } else { 0 };
        }
        rest = &rest[1 + fraction..];
    }
    let clock = civil::Time::new(hour as i8, minute as i8, second as i8, nanos).map_err(|_| "no clock shows that")?;
    let offset = offset(rest)?;
    let time = offset.to_timestamp(date.to_datetime(clock)).map_err(|_| "it is out of range")?;
    Ok((time, fraction))
}

fn offset(text: &[u8]) -> Result<Offset, &'static str> {
    match text {
        b"Z" => Ok(Offset::UTC),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 24 || minutes > 59 {
                return Err("no offset is that large");
            }
            let seconds = i32::from(hours) * 3600 + i32::from(minutes) * 60;
            Offset::from_seconds(if *sign == b'-' { -seconds } else { seconds }).map_err(|_| "no offset is that large")
        }
        _ => Err("Z or an offset such as +01:00 has to end it"),
    }
}

/// At most four digits.
fn digits(text: &[u8]) -> Result<i16, &'static str> {
    text.iter().try_fold(0, |number: i16, byte| match byte {
        b'0'..=b'9' => Ok(number * 10 + i16::from(byte - b'0')),
        _ => Err("digits are missing"),
    })
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
    fn micro_times_have_six_digits() {
        assert!(parse_micro("2006-01-02T15:04:05.123456+02:00").is_ok());
        for input in ["2006-01-02T15:04:05Z", "2006-01-02T15:04:05.123Z", "2006-01-02T15:04:05.1234567Z"] {
            assert!(parse_micro(input).is_err(), "{input}");
        }
    }
}
