//! IP addresses and blocks of them, with the texts of `k8s.io/apimachinery/pkg/util/validation`.

use std::net::{IpAddr, Ipv6Addr};

use allotment_machinery::field::{FieldError, Path};

use crate::builtin::rules::Errors;

/// An address, where the text is one. Leading zeros and IPv4 dressed up as IPv6 are read, and told of
/// (`IsValidIPForLegacyField`).
pub(crate) fn address(text: &str, path: &Path, errors: &mut Errors) -> Option<IpAddr> {
    let Some(parsed) = read(text) else {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(path, text, detail));
        return None;
    };
    match text.parse::<IpAddr>() {
        Err(_) => errors.push(FieldError::invalid(path, text, "must not have leading 0s")),
        Ok(address) if is_mapped(address) => {
            errors.push(FieldError::invalid(path, text, "must not be an IPv4-mapped IPv6 address"));
        }
        Ok(_) => {}
    }
    Some(parsed)
}

/// An address in its one form (`IsValidIP`).
pub(crate) fn canonical_address(text: &str, path: &Path, errors: &mut Errors) -> Option<IpAddr> {
    let before = errors.len();
    let parsed = address(text, path, errors)?;
    if errors.len() == before && parsed.to_string() != text {
        errors.push(FieldError::invalid(path, text, format!("must be in canonical form (\"{parsed}\")")));
    }
    Some(parsed)
}

/// What is said of an address that is written in another way than it should be.
pub(crate) fn address_warning(text: &str, path: &Path) -> Option<String> {
    let address: Ipv6Addr = text.parse().ok()?;
    let shown = address.to_string();
    (shown != text)
        .then(|| format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{shown}\")"))
}

/// What is said of a block that is written in another way than it should be.
pub(crate) fn block_warning(text: &str, path: &Path) -> Option<String> {
    let (base, bits) = text.split_once('/')?;
    let shown = format!("{}/{bits}", base.parse::<Ipv6Addr>().ok()?);
    (shown != text)
        .then(|| format!("{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{shown}\")"))
}

/// Whether the text is an address, however it is written.
pub(crate) fn is_address(text: &str) -> bool {
    read(text).is_some()
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// An address as Kubernetes has always read them: zeros before a number count for nothing.
fn read(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let (before, quad) = text.split_at(text.rfind(':').map_or(0, |at| at + 1));
    let plain = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        digits => digits.to_owned(),
    };
    let parts: Vec<String> = quad.split('.').map(plain).collect();
    if parts.len() != 4 {
        return None;
    }
    format!("{before}{}", parts.join(".")).parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    base: IpAddr,
    bits: u8,
}

/// A block, where the text is one. What is read and not as it has to be is told of (`IsValidCIDRForLegacyField`).
pub(crate) fn block(text: &str, path: &Path, errors: &mut Errors) -> Option<Block> {
    let Some(parsed) = parse_block(text) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(FieldError::invalid(path, text, detail));
        return None;
    };
    let (base, bits) = text.split_once('/')?;
    let fault = match base.parse::<IpAddr>() {
        Ok(_) if bits.len() > 1 && bits.starts_with('0') => Some("must not have leading 0s in IP or prefix length"),
        Err(_) => Some("must not have leading 0s in IP or prefix length"),
        Ok(base) if is_mapped(base) => Some("must not have an IPv4-mapped IPv6 address"),
        Ok(_) if number(parsed.base) & !parsed.mask() != 0 => Some("must not have bits set beyond the prefix length"),
        Ok(_) => None,
    };
    errors.extend(fault.map(|detail| FieldError::invalid(path, text, detail)));
    Some(parsed)
}

fn parse_block(text: &str) -> Option<Block> {
    let (base, bits) = text.split_once('/')?;
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: u8 = bits.parse().ok().filter(|_| plain)?;
    // Of IPv4 dressed up as IPv6 the number of bits is that of IPv6.
    let mapped = base.contains(':');
    let base = read(base)?;
    let width = if mapped { 128 } else { width(base) };
    (bits <= width).then(|| Block { base, bits: if mapped && base.is_ipv4() { bits.saturating_sub(96) } else { bits } })
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address as a number, at the upper end.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

impl Block {
    /// The bits of it that count, at the upper end.
    fn mask(&self) -> u128 {
        if self.bits == 0 { 0 } else { u128::MAX << (128 - u32::from(self.bits)) }
    }

    /// Whether `other` lies in this block and is smaller.
    pub(crate) fn strictly_contains(&self, other: &Block) -> bool {
        let mask = self.mask();
        self.base.is_ipv4() == other.base.is_ipv4()
            && number(self.base) & mask == number(other.base) & mask
            && self.bits < other.bits
    }
}

/// What an endpoint cannot be reached at.
pub(crate) fn reachable(text: &str, path: &Path, errors: &mut Errors) {
    let Some(address) = read(text) else {
        return errors.push(FieldError::invalid(path, text, "must be a valid IP address"));
    };
    let (link_local, local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    let unspecified = format!("may not be unspecified ({text})");
    let faults = [
        (address.is_unspecified(), unspecified.as_str()),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (local_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ];
    for (_, detail) in faults.into_iter().filter(|(holds, _)| *holds) {
        errors.push(FieldError::invalid(path, text, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_contain_smaller_ones() {
        let block = |text| parse_block(text).unwrap_or_else(|| panic!("{text}"));
        for (outer, inner, expect) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.0.0.0/8", false),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("0.0.0.0/0", "10.0.0.0/8", true),
            ("2001:db8::/32", "2001:db8:1::/48", true),
            ("0.0.0.0/0", "2001:db8::/32", false),
        ] {
            assert_eq!(block(outer).strictly_contains(&block(inner)), expect, "{outer} {inner}");
        }
        for text in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "x/8"] {
            assert_eq!(parse_block(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_oddly_is_read_and_told_of() {
        let one = |judge: &dyn Fn(&Path, &mut Errors) -> bool| {
            let mut errors = Errors::default();
            judge(&Path::new("ip"), &mut errors);
            errors.iter().map(|error| error.detail.clone()).collect::<Vec<_>>().join("; ")
        };
        for (text, expect) in [
            ("10.1.2.3", ""),
            ("010.1.2.3", "must not have leading 0s"),
            ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
            ("FE80::1", ""),
            ("1.2.3", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ] {
            assert_eq!(one(&|path, errors| address(text, path, errors).is_some()), expect, "{text}");
        }
        for (text, expect) in [
            ("10.0.0.0/8", ""),
            ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
            ("010.0.0.0/8", "must not have leading 0s in IP or prefix length"),
            ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
            ("10.1.0.0/8", "must not have bits set beyond the prefix length"),
            ("10.0.0.0/33", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        ] {
            assert_eq!(one(&|path, errors| block(text, path, errors).is_some()), expect, "{text}");
        }
        assert_eq!(
            one(&|path, errors| canonical_address("2001:DB8::1", path, errors).is_some()),
            "must be in canonical form (\"2001:db8::1\")"
        );
        assert_eq!(
            address_warning("2001:DB8::1", &Path::new("ip")).as_deref(),
            Some("ip: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")")
        );
        assert_eq!(address_warning("10.1.2.3", &Path::new("ip")), None);
        assert_eq!(
            block_warning("2001:DB8::/32", &Path::new("b")).as_deref(),
            Some("b: IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")")
        );
    }

    #[test]
    fn endpoints_have_addresses_that_can_be_reached() {
        for (text, faults) in [("10.1.2.3", 0), ("0.0.0.0", 1), ("127.0.0.1", 1), ("fe80::1", 1), ("224.0.0.5", 1)] {
            let mut errors = Errors::default();
            reachable(text, &Path::new("ip"), &mut errors);
            assert_eq!(errors.len(), faults, "{text}");
        }
    }
}
