//! Lengths of time as Go prints and parses them (`time.ParseDuration`, `metav1.Duration`): `5m`, `12h`,
//! `1h30m`, `-1.5s`.

use std::fmt;
use std::str::FromStr;

/// A length of time in nanoseconds; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    nanos: i64,
}

/// Why a text is no length of time, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It has another shape, or is too long.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A number with a unit that there is not.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const SECOND: u64 = 1_000_000_000;

impl Duration {
    /// A length in nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Duration { nanos }
    }

    /// A length in seconds; the longest there is where it does not fit.
    pub const fn from_secs(seconds: i64) -> Self {
        Duration { nanos: seconds.saturating_mul(SECOND as i64) }
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.nanos
    }

    /// In whole seconds, towards zero.
    pub const fn as_secs(self) -> i64 {
        self.nanos / SECOND as i64
    }

    /// Whether it goes backwards.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// As the standard library has it; `None` where it is negative.
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.nanos).ok().map(std::time::Duration::from_nanos)
    }
}

impl From<Duration> for jiff::SignedDuration {
    fn from(duration: Duration) -> Self {
        jiff::SignedDuration::from_nanos(duration.nanos)
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let negative = text.starts_with('-');
        if unsigned == "0" {
            return Ok(Duration::default());
        }
        if unsigned.is_empty() {
            return Err(invalid());
        }
        let mut total = 0u64;
        let mut rest = unsigned;
        while !rest.is_empty() {
            let (part, after) = element(text, rest)?;
            total = total.checked_add(part).filter(|sum| *sum <= 1 << 63).ok_or_else(invalid)?;
            rest = after;
        }
        // The most negative number has no positive twin.
        let nanos = if negative { 0i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
        nanos.map(Duration::from_nanos).ok_or_else(invalid)
    }
}

/// The nanoseconds of the number and unit at the start of `rest`, and what follows them.
fn element<'a>(text: &str, rest: &'a str) -> Result<(u64, &'a str), DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let end = |text: &str, stop: fn(char) -> bool| text.find(stop).unwrap_or(text.len());
    let (whole, after) = rest.split_at(end(rest, |character| !character.is_ascii_digit()));
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => after.split_at(end(after, |character| !character.is_ascii_digit())),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let (unit, after) = after.split_at(end(after, |character| character == '.' || character.is_ascii_digit()));
    let size = match unit {
        "" => return Err(DurationError::MissingUnit(text.to_owned())),
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return Err(DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() }),
    };
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| invalid())? };
    let nanos = whole.checked_mul(size).ok_or_else(invalid)?;
    Ok((nanos.checked_add(fraction_of(size, fraction)).ok_or_else(invalid)?, after))
}

/// `0.<digits>` of `size`, in the floating point arithmetic that Go does it in.
fn fraction_of(size: u64, digits: &str) -> u64 {
    let (mut number, mut scale) = (0u64, 1.0f64);
    for digit in digits.bytes().map(|digit| u64::from(digit - b'0')) {
        // Digits beyond what 63 bits hold are below a nanosecond.
        match number.checked_mul(10).and_then(|number| number.checked_add(digit)) {
            Some(next) if next <= 1 << 63 => (number, scale) = (next, scale * 10.0),
            _ => break,
        }
    }
    (number as f64 * (size as f64 / scale)) as u64
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.nanos.unsigned_abs();
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => decimal(f, nanos, 1_000, "µs"),
            1_000_000..SECOND => decimal(f, nanos, 1_000_000, "ms"),
            _ => {
                let minutes = nanos / SECOND / 60;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                decimal(f, nanos % (60 * SECOND), SECOND, "s")
            }
        }
    }
}

/// `nanos` in units of `size`, with as many decimals as it takes.
fn decimal(f: &mut fmt::Formatter<'_>, nanos: u64, size: u64, unit: &str) -> fmt::Result {
    write!(f, "{}", nanos / size)?;
    if !nanos.is_multiple_of(size) {
        let width = size.ilog10() as usize;
        let digits = format!("{:0width$}", nanos % size);
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    f.write_str(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(input: &str, nanos: i64, printed: &str) {
        let duration: Duration = input.parse().expect(input);
        assert_eq!((duration.as_nanos(), duration.to_string().as_str()), (nanos, printed), "{input}");
    }

    #[test]
    fn durations_read_and_print_as_in_go() {
        check("0", 0, "0s");
        check("5m", 300_000_000_000, "5m0s");
        check("12h", 43_200_000_000_000, "12h0m0s");
        check("1h30m", 5_400_000_000_000, "1h30m0s");
        check("-1.5h", -5_400_000_000_000, "-1h30m0s");
        check("+.5s", 500_000_000, "500ms");
        check("1.s", 1_000_000_000, "1s");
        check("90s", 90_000_000_000, "1m30s");
        check("1h0.25s", 3_600_250_000_000, "1h0m0.25s");
        check("1µs1us1μs", 3_000, "3µs");
        check("1500ns", 1_500, "1.5µs");
        check("0.3333333333333333333h", 1_200_000_000_000, "20m0s");
        check("0.830103483285477580700h", 2_988_372_539_827, "49m48.372539827s");
        check("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s");
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        for (input, message) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            (".", "time: invalid duration \".\""),
            (".s", "time: invalid duration \".s\""),
            ("5", "time: missing unit in duration \"5\""),
            ("1h5", "time: missing unit in duration \"1h5\""),
            ("5d", "time: unknown unit \"d\" in duration \"5d\""),
            ("5 m", "time: unknown unit \" m\" in duration \"5 m\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("99999999999h", "time: invalid duration \"99999999999h\""),
            ("10000000000000000000000s", "time: invalid duration \"10000000000000000000000s\""),
        ] {
            assert_eq!(input.parse::<Duration>().expect_err(input).to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn every_duration_survives_printing(nanos: i64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
