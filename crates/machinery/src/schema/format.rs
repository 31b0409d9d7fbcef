//! Formats of values that are checked; others are kept and ignored.
//!
//! The list is that of `k8s.io/apiextensions-apiserver/pkg/apiserver/validation`, what each accepts that
//! of `k8s.io/kube-openapi/pkg/validation/strfmt`.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::names;

/// Formats of strings. Dashes do not count: `date-time` is `datetime`.
const OF_STRINGS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

fn plain(format: &str) -> String {
    format.replace('-', "")
}

/// Whether values of the type `kind` (empty: not said) are checked for `format`.
pub(super) fn is_known(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => OF_STRINGS.contains(&plain(format).as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// The format, if values of the type are checked for it; empty otherwise.
pub(super) fn effective<'a>(kind: &str, format: &'a str) -> &'a str {
    if !format.is_empty() && is_known(kind, format) { format } else { "" }
}

/// Whether `text` has the format; any text has one that is not known.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match plain(format).as_str() {
        "bsonobjectid" => text.len() == 24 && all_hex(text),
        "byte" => is_base64(text),
        "cidr" => is_cidr(text),
        "creditcard" => is_credit_card(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "email" => is_email(text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && all_hex(digits)
        }
        "hostname" => is_hostname(text),
        "ipv4" => is_ipv4(text),
        "ipv6" => text.contains(':') && is_ip(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8slongname" => names::dns1123_subdomain(text).is_empty(),
        "k8sshortname" => names::dns1123_label(text).is_empty(),
        "mac" => is_mac(text),
        "rgbcolor" => is_rgb_color(text),
        "ssn" => is_social_security_number(text),
        "uri" => is_request_uri(text),
        "uuid" => is_uuid(text, None, false),
        "uuid3" => is_uuid(text, Some('3'), false),
        "uuid4" => is_uuid(text, Some('4'), true),
        "uuid5" => is_uuid(text, Some('5'), true),
        _ => true,
    }
}

fn all_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_base64(text: &str) -> bool {
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let letters = body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && letters
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let sizes = year.len() == 4 && month.len() == 2 && day.len() == 2;
    sizes && [year, month, day].into_iter().all(all_digits) && text.parse::<jiff::civil::Date>().is_ok()
}

/// RFC 3339, without a limit on what the offset says.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    if !is_date(date) || !time.is_char_boundary(8.min(time.len())) || time.len() < 9 {
        return false;
    }
    let (clock, rest) = time.split_at(8);
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = parts[..] else { return false };
    let two_digits = |part: &str, most: &str| part.len() == 2 && all_digits(part) && part <= most;
    if !two_digits(hours, "23") || !two_digits(minutes, "59") || !two_digits(seconds, "59") {
        return false;
    }
    let zone = match rest.strip_prefix(['.', ',']) {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|character: char| character.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    zone == "z" || is_offset(zone)
}

fn is_offset(zone: &str) -> bool {
    let Some((hours, minutes)) = zone.strip_prefix(['+', '-']).and_then(|zone| zone.split_once(':')) else {
        return false;
    };
    hours.len() == 2 && minutes.len() == 2 && all_digits(hours) && all_digits(minutes)
}

/// What Go's `time.ParseDuration` takes, or whole numbers with units in words: `3 days`.
fn is_duration(text: &str) -> bool {
    text.parse::<crate::duration::Duration>().is_ok() || is_duration_in_words(text)
}

fn is_duration_in_words(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let mut rest = text;
    while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
        let number = &rest[start..];
        let unit = number.trim_start_matches(|character: char| character.is_ascii_digit()).trim_start();
        let end =
            unit.find(|character: char| !character.is_ascii_alphabetic() && character != 'µ').unwrap_or(unit.len());
        let word = unit[..end].to_lowercase();
        let known = UNITS
            .iter()
            .any(|names| names.contains(&word.as_str()) || names.last().is_some_and(|last| word.starts_with(last)));
        if known {
            return true;
        }
        rest = &unit[end..];
    }
    false
}

/// An address as RFC 5322 has it, perhaps behind a display name: `Ada <ada@example.com>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(front) => match front.rsplit_once('<') {
            Some((name, address)) if !name.contains(['<', '>', '@', ',']) => address,
            _ => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']') && is_ip(domain.trim_matches(['[', ']']));
    (quoted || is_dot_atom(local)) && (literal || is_dot_atom(domain))
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| {
        let plain = |character: char| {
            character.is_ascii_alphanumeric() || !character.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(character)
        };
        !atom.is_empty() && atom.chars().all(plain)
    })
}

fn is_hostname(text: &str) -> bool {
    let letter = |character: char| {
        character.is_ascii_alphanumeric()
            || character.is_alphabetic()
            || "$+<=>^`|~".contains(character)
            || (!character.is_ascii()
                && !character.is_alphanumeric()
                && !character.is_whitespace()
                && !character.is_control())
    };
    let short = |label: &str| label.len() <= 63;
    if text.len() > 255 || !text.split('.').all(short) {
        return false;
    }
    let labels: Vec<&str> = text.split('.').collect();
    let Some((last, front)) = labels.split_last() else { return false };
    let inner = |label: &str| label.chars().all(|character| letter(character) || character == '-');
    let label_ok =
        |label: &&str| !label.is_empty() && inner(label) && label.starts_with(letter) && label.ends_with(letter);
    if front.is_empty() {
        // Without a dot, one dash at most, behind the first character.
        let mut characters = last.chars();
        return characters.next().is_some_and(letter) && {
            let rest = characters.as_str();
            let rest = rest.strip_prefix('-').unwrap_or(rest);
            rest.chars().all(letter)
        };
    }
    let top = last.chars().count() >= 2 && last.chars().all(|character| character.is_alphabetic());
    top && front.iter().all(label_ok)
}

/// Octets may begin with zeros, as Kubernetes has always taken them.
fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.len() > 3 || !all_digits(part) {
            return None;
        }
        *octet = part.parse::<u16>().ok().and_then(|value| u8::try_from(value).ok())?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn is_ip(text: &str) -> bool {
    parse_ipv4(text).is_some() || text.parse::<Ipv6Addr>().is_ok()
}

fn is_ipv4(text: &str) -> bool {
    text.contains('.') && is_ip(text)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = if parse_ipv4(address).is_some() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    length.len() <= 3 && all_digits(length) && length.parse::<u16>().is_ok_and(|length| length <= most)
}

/// Six, eight or twenty octets, with colons, dashes, or dots between pairs.
fn is_mac(text: &str) -> bool {
    let octets = |separator: char, digits: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let shaped = parts.iter().all(|part| part.len() == digits && all_hex(part));
        shaped.then_some(parts.len() * digits / 2)
    };
    let count = octets(':', 2).or_else(|| octets('-', 2)).or_else(|| octets('.', 4));
    matches!(count, Some(6 | 8 | 20))
}

fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    let channel = |part: &&str| {
        let plain = !part.starts_with('0') || part.len() == 1;
        all_digits(part) && plain && part.len() <= 3 && part.parse::<u16>().is_ok_and(|value| value <= 255)
    };
    parts.len() == 3 && parts.iter().all(channel)
}

fn is_social_security_number(text: &str) -> bool {
    let separator = |character: char| character == '-' || character == ' ';
    // Separators may be left out of the pattern, but not of the length.
    if text.len() != 11 {
        return false;
    }
    let rest = match (text.get(..3), text.get(3..)) {
        (Some(area), Some(rest)) if all_digits(area) => rest.strip_prefix(separator).unwrap_or(rest),
        _ => return false,
    };
    match (rest.get(..2), rest.get(2..)) {
        (Some(group), Some(rest)) if all_digits(group) => {
            let serial = rest.strip_prefix(separator).unwrap_or(rest);
            serial.len() == 4 && all_digits(serial)
        }
        _ => false,
    }
}

/// What Go's `url.ParseRequestURI` takes: a path from the root, or anything behind a scheme.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|character| character.is_ascii_control()) {
        return false;
    }
    let rest = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => {
            // What does not begin with a slash is opaque.
            if !rest.starts_with('/') {
                return true;
            }
            rest
        }
        _ => text,
    };
    rest.starts_with('/') && percent_escapes_hold(rest) && authority_holds(rest)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn percent_escapes_hold(text: &str) -> bool {
    let path = text.split(['?', '#']).next().unwrap_or(text);
    path.split('%').skip(1).all(|after| after.get(..2).is_some_and(all_hex))
}

fn authority_holds(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix("//") else { return true };
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = match host.strip_prefix('[') {
        Some(inside) => match inside.split_once(']') {
            Some((address, port)) if address.parse::<Ipv6Addr>().is_ok() => port.strip_prefix(':').unwrap_or(port),
            _ => return false,
        },
        None => host.rsplit_once(':').map_or("", |(_, port)| port),
    };
    let forbidden = |character: char| " \"<>\\^`{|}".contains(character) && !host.starts_with('[');
    !host.contains(forbidden) && (port.is_empty() || all_digits(port))
}

fn is_uuid(text: &str, version: Option<char>, with_variant: bool) -> bool {
    let mut rest = text;
    let mut groups = Vec::with_capacity(5);
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let (Some(group), Some(after)) = (rest.get(..length), rest.get(length..)) else { return false };
        if !all_hex(group) {
            return false;
        }
        groups.push(group);
        rest = after;
    }
    let version_fits = version.is_none_or(|version| groups[2].starts_with(version));
    let variant_fits = !with_variant || groups[3].starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    rest.is_empty() && version_fits && variant_fits
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|character| *character != '-' && *character != ' ').collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without_separators(text);
    if text.len() != 10 || !all_digits(&text[..9]) {
        return false;
    }
    let mut sum = 0;
    for (weight, byte) in (1..).zip(text.bytes()) {
        sum += weight
            * match byte {
                b'0'..=b'9' => u32::from(byte - b'0'),
                b'X' => 10,
                _ => return false,
            };
    }
    sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let text = without_separators(text);
    if text.len() != 13 || !all_digits(&text) {
        return false;
    }
    let weighted = text.bytes().enumerate().map(|(index, byte)| u32::from(byte - b'0') * [1, 3][index % 2]);
    weighted.sum::<u32>() % 10 == 0
}

/// A number of a known issuer whose check digit is right; whatever is no digit is left out.
fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|character| character.to_digit(10)).collect();
    let number: String = digits.iter().map(u32::to_string).collect();
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| number.starts_with(prefix));
    let issued = match digits.len() {
        13 => begins(&["4"]),
        14 => begins(&["300", "301", "302", "303", "304", "305", "36", "38"]),
        15 => begins(&["34", "37", "2131", "1800"]),
        16 => begins(&["4", "51", "52", "53", "54", "55", "6011", "65", "35"]),
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| if index % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { *digit })
        .sum();
    issued && sum.is_multiple_of(10)
}
