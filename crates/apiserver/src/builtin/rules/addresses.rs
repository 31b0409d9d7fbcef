//! IP addresses and blocks of them, with the texts of `k8s.io/apimachinery/pkg/util/validation`.

use std::net::IpAddr;

use allotment_machinery::field::{FieldError, Path};

use crate::builtin::rules::Errors;

/// An address, where the text is one.
pub(crate) fn address(text: &str, path: &Path, errors: &mut Errors) -> Option<IpAddr> {
    let parsed = text.parse().ok();
    if parsed.is_none() {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(path, text, detail));
    }
    parsed
}

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    base: IpAddr,
    bits: u8,
}

/// A block, where the text is one.
pub(crate) fn block(text: &str, path: &Path, errors: &mut Errors) -> Option<Block> {
    let parsed = parse_block(text);
    if parsed.is_none() {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(FieldError::invalid(path, text, detail));
    }
    parsed
}

fn parse_block(text: &str) -> Option<Block> {
    let (base, bits) = text.split_once('/')?;
    let base: IpAddr = base.parse().ok()?;
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: u8 = bits.parse().ok().filter(|_| plain)?;
    (bits <= width(base)).then_some(Block { base, bits })
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
    /// Whether `other` lies in this block and is smaller.
    pub(crate) fn strictly_contains(&self, other: &Block) -> bool {
        let mask = if self.bits == 0 { 0 } else { u128::MAX << (128 - u32::from(self.bits)) };
        self.base.is_ipv4() == other.base.is_ipv4()
            && number(self.base) & mask == number(other.base) & mask
            && self.bits < other.bits
    }
}

/// What an endpoint cannot be reached at.
pub(crate) fn reachable(address: IpAddr, path: &Path, errors: &mut Errors) {
    let (link_local, local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    let faults = [
        (address.is_unspecified(), "may not be unspecified (0.0.0.0 or ::)"),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (local_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ];
    for (_, detail) in faults.into_iter().filter(|(holds, _)| *holds) {
        errors.push(FieldError::invalid(path, address.to_string().as_str(), detail));
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
    fn endpoints_have_addresses_that_can_be_reached() {
        for (text, faults) in [("10.1.2.3", 0), ("0.0.0.0", 1), ("127.0.0.1", 1), ("fe80::1", 1), ("224.0.0.5", 1)] {
            let mut errors = Vec::new();
            reachable(text.parse().expect("an address"), &Path::new("ip"), &mut errors);
            assert_eq!(errors.len(), faults, "{text}");
        }
    }
}
