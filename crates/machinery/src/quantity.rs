//! Quantities (`k8s.io/apimachinery/pkg/api/resource`): `100m`, `1.5Gi`, `12e6`. Exact decimal arithmetic
//! within 128 bits.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

const NANO: i128 = 1_000_000_000;
/// The largest amount with a binary suffix, in billionths: 2^63-1 units, as in Kubernetes.
const LARGEST_BINARY: i128 = i64::MAX as i128 * NANO;
/// The largest amount otherwise, in billionths. Kubernetes has no bound here; this one is what 128 bits
/// hold, far above what anything is measured in.
const LARGEST: i128 = 10i128.pow(38);
/// Digits are read up to this number; further ones are below what can be told apart.
const MOST_DIGITS: i128 = 10i128.pow(37);
/// The longest text that is read as a quantity, in bytes. Nothing shorter is written by anyone.
const MAX_LENGTH: usize = 256;

/// An amount, and the way in which it is written.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// The amount in billionths.
    nanos: i128,
    format: Format,
}

/// The family of suffixes that a quantity is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `Ki`, `Mi`, …
    BinarySi,
    /// `m`, `k`, `M`, …
    DecimalSi,
    /// `e3`, `E6`
    DecimalExponent,
}

/// Why a text is no quantity, in the words of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Another shape.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// No number.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// A suffix that there is not.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

impl Quantity {
    /// A whole amount.
    pub fn from_units(units: i64) -> Self {
        Quantity { nanos: i128::from(units) * NANO, format: Format::DecimalSi }
    }

    /// The amount in billionths.
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// The amount in units, rounded up, away from zero.
    pub fn units(&self) -> i64 {
        let units = self.nanos / NANO + (self.nanos % NANO).signum();
        i64::try_from(units).unwrap_or(if units < 0 { i64::MIN } else { i64::MAX })
    }

    /// How it is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The sum, written as this one; at most the largest quantity.
    #[must_use]
    pub fn plus(&self, other: &Quantity) -> Quantity {
        Quantity { nanos: self.nanos.saturating_add(other.nanos).clamp(-LARGEST, LARGEST), format: self.format }
    }

    /// The difference, written as this one; at most the largest quantity.
    #[must_use]
    pub fn minus(&self, other: &Quantity) -> Quantity {
        Quantity { nanos: self.nanos.saturating_sub(other.nanos).clamp(-LARGEST, LARGEST), format: self.format }
    }

    /// The nearest multiple of `step` billionths that is not nearer to zero, written as this one.
    #[must_use]
    pub fn rounded_up(&self, step: i128) -> Quantity {
        let rest = self.nanos % step;
        let nanos = if rest == 0 { self.nanos } else { self.nanos - rest + step * rest.signum() };
        Quantity { nanos: nanos.clamp(-LARGEST, LARGEST), format: self.format }
    }

    /// Whether it is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }
}

impl PartialEq for Quantity {
    /// By amount: `8Gi` is `8192Mi`.
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Fractions of a billionth are rounded up, away from zero; amounts beyond the largest are cut.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() || text.len() > MAX_LENGTH {
            return Err(QuantityError::Format);
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = |text: &str| text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        let (whole, rest) = unsigned.split_at(end(unsigned));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(end(rest)),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(if suffix.is_empty() { QuantityError::Numeric } else { QuantityError::Format });
        }
        let (scale, format) = read_suffix(suffix)?;
        let most = if format == Format::BinarySi { LARGEST_BINARY } else { LARGEST };
        let nanos = amount(whole, fraction, scale).min(most);
        Ok(Quantity { nanos: if text.starts_with('-') { -nanos } else { nanos }, format })
    }
}

/// What a number is multiplied by.
#[derive(Clone, Copy)]
enum Scale {
    Two(u32),
    Ten(i32),
}

fn read_suffix(suffix: &str) -> Result<(Scale, Format), QuantityError> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((Scale::Two(*power), Format::BinarySi));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((Scale::Ten(*power), Format::DecimalSi));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityError::Suffix);
    }
    let power: i32 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
    Ok((Scale::Ten(power), Format::DecimalExponent))
}

/// The number in billionths, rounded up, and cut at the largest.
fn amount(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let (power, factor) = match scale {
        Scale::Ten(power) => (i64::from(power), 1),
        Scale::Two(power) => (0, 1i128 << power),
    };
    // The digits stand for themselves times ten to this.
    let mut exponent = power + 9 - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    exponent += i64::try_from(digits.len() - digits.trim_end_matches('0').len()).unwrap_or(0);
    if significant.is_empty() {
        return 0;
    }
    let (mut value, mut dropped) = (0i128, false);
    for digit in significant.bytes() {
        // More digits than this say nothing at the scale of the largest quantity in billionths.
        if value >= MOST_DIGITS {
            dropped |= digit != b'0';
            exponent += 1;
        } else {
            value = value * 10 + i128::from(digit - b'0');
        }
    }
    scaled(value, exponent, factor, dropped)
}

/// `value` times ten to `exponent` times `factor`, rounded up, cut at the largest.
fn scaled(value: i128, exponent: i64, factor: i128, dropped: bool) -> i128 {
    if exponent >= 0 {
        let grown = (0..exponent.min(40)).try_fold(value, |value, _| value.checked_mul(10));
        let grown = grown.and_then(|value| value.checked_mul(factor));
        return grown.map_or(LARGEST, |value| value.saturating_add(i128::from(dropped)).min(LARGEST));
    }
    // Divide before multiplying where the product does not fit.
    let (mut value, mut rest, mut exponent) = (value, dropped, exponent);
    let mut product = value.checked_mul(factor);
    while product.is_none() && exponent < 0 {
        rest |= value % 10 != 0;
        value /= 10;
        exponent += 1;
        product = value.checked_mul(factor);
    }
    let Some(mut product) = product else { return LARGEST };
    while exponent < 0 && product != 0 {
        rest |= product % 10 != 0;
        product /= 10;
        exponent += 1;
    }
    product.saturating_add(i128::from(rest)).min(LARGEST)
}

impl fmt::Display for Quantity {
    /// The canonical form: the largest suffix with which the number is whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let sign = if self.nanos < 0 { "-" } else { "" };
        let nanos = self.nanos.unsigned_abs();
        let nano = NANO.unsigned_abs();
        // Below 1024, and for fractions, binary suffixes are given up, as in Kubernetes.
        if self.format == Format::BinarySi && nanos >= 1024 * nano && nanos.is_multiple_of(nano) {
            let units = nanos / nano;
            let fits = BINARY.iter().rev().find(|(_, power)| units.is_multiple_of(1 << power));
            return match fits {
                Some((name, power)) => write!(f, "{sign}{}{name}", units >> power),
                None => write!(f, "{sign}{units}"),
            };
        }
        let (mut number, mut power) = (nanos, -9);
        while power < 18 && number.is_multiple_of(1_000) {
            number /= 1_000;
            power += 3;
        }
        if self.format == Format::DecimalExponent && power != 0 {
            return write!(f, "{sign}{number}e{power}");
        }
        let suffix = DECIMAL.iter().find(|(_, have)| *have == power).map_or("", |(name, _)| name);
        write!(f, "{sign}{number}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(input: &str, canonical: &str) {
        let quantity: Quantity = input.parse().expect(input);
        assert_eq!(quantity.to_string(), canonical, "{input}");
    }

    #[test]
    fn quantities_have_one_canonical_form() {
        for (input, canonical) in [
            ("0", "0"),
            ("-0", "0"),
            ("0Ki", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("8192Mi", "8Gi"),
            ("0.5Ki", "512"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1.5", "1500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1e3", "1e3"),
            ("12E6", "12e6"),
            ("1e1", "10"),
            ("1E", "1E"),
            ("1500e-3", "1500e-3"),
            ("100000k", "100M"),
            ("1.0001Ki", "1024102400u"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("-1.5Gi", "-1536Mi"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775808"),
            ("10E", "10E"),
            ("1578965235548G", "1578965235548G"),
            ("100Ei", "9223372036854775807"),
            ("1e99", "100000000000e18"),
            ("-1e2147483647", "-100000000000e18"),
            ("1e-99", "1e-9"),
            ("00012.500", "12500m"),
        ] {
            check(input, canonical);
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for (input, error) in [
            ("", QuantityError::Format),
            ("-", QuantityError::Numeric),
            (".", QuantityError::Numeric),
            ("Gi", QuantityError::Format),
            ("1i", QuantityError::Suffix),
            ("1gi", QuantityError::Suffix),
            ("1K", QuantityError::Suffix),
            ("1 Gi", QuantityError::Suffix),
            ("1.2.3", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("1e1.5", QuantityError::Suffix),
            ("1e+-1", QuantityError::Suffix),
            ("1e99999999999", QuantityError::Suffix),
            ("--1", QuantityError::Format),
            ("é", QuantityError::Format),
        ] {
            assert_eq!(input.parse::<Quantity>(), Err(error), "{input}");
        }
    }

    #[test]
    fn quantities_are_rounded_away_from_zero() {
        for (input, expect) in [("1.0001", "1001m"), ("-1.0001", "-1001m"), ("1n", "1m"), ("5m", "5m"), ("0", "0")] {
            let quantity: Quantity = input.parse().expect(input);
            assert_eq!(quantity.rounded_up(1_000_000).to_string(), expect, "{input}");
        }
    }

    #[test]
    fn quantities_compare_and_add_by_amount() {
        let read = |text: &str| text.parse::<Quantity>().expect(text);
        assert_eq!(read("8Gi"), read("8192Mi"));
        assert!(read("1G") < read("1Gi") && read("999m") < read("1") && read("-1") < read("0"));
        assert_eq!(read("1Gi").plus(&read("512Mi")).to_string(), "1536Mi");
        assert_eq!(read("1").minus(&read("1500m")).to_string(), "-500m");
        assert_eq!(
            (read("1500m").units(), read("-1500m").units(), Quantity::from_units(3).to_string()),
            (2, -2, "3".into())
        );
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_the_same_amount(text in "-?[0-9]{1,12}(\\.[0-9]{1,9})?(n|u|m|k|M|G|T|Ki|Mi|Gi|e[0-9]|)") {
            let quantity: Quantity = text.parse().expect("a quantity");
            let canonical = quantity.to_string();
            let again: Quantity = canonical.parse().expect("a quantity");
            prop_assert_eq!(again, quantity);
            prop_assert_eq!(again.to_string(), canonical);
        }

        #[test]
        fn order_is_that_of_the_amounts(left in -1_000_000i64..1_000_000, right in -1_000_000i64..1_000_000) {
            let read = |number: i64, suffix: &str| format!("{number}{suffix}").parse::<Quantity>().expect("a quantity");
            prop_assert_eq!(read(left, "m").cmp(&read(right, "m")), left.cmp(&right));
            prop_assert_eq!(read(left, "k").cmp(&read(right, "")), (i128::from(left) * 1000).cmp(&i128::from(right)));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+0-9.eEKMinum]{0,48}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                prop_assert!(quantity.nanos().abs() <= LARGEST);
            }
        }
    }
}
