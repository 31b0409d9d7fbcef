//! Bundles of certificates, PEM: read into certificates, told apart by their bytes, and joined.
//!
//! Read is the form only (RFC 7468, and the outline of RFC 5280, section 4.1): whether a certificate is valid is for
//! those to judge who trust it.

use std::collections::BTreeSet;

/// A certificate, DER.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Certificate {
    der: Vec<u8>,
}

/// Why a text is no bundle of certificates. It never shows what stands in the text, which may be a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BundleError {
    /// Nothing between BEGIN and END lines.
    #[error(
        "it holds no certificate: put one or more blocks from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----"
    )]
    Empty,
    /// A block that is no PEM.
    #[error("it is not PEM: a block is not closed, or is not base64; put whole blocks from BEGIN to END line")]
    NotPem,
    /// A block that holds something else.
    #[error("block {number} holds a {tag}, and only a CERTIFICATE belongs here: take it out")]
    Tag {
        /// Which block, from 1.
        number: usize,
        /// What its BEGIN line says.
        tag: String,
    },
    /// A block that is called a certificate and is none.
    #[error("block {number} is no X.509 certificate: put it in again from its file")]
    NotCertificate {
        /// Which block, from 1.
        number: usize,
    },
}

/// The certificates of a bundle in their order. Text around the blocks says nothing.
pub(super) fn read(bundle: &str) -> Result<Vec<Certificate>, BundleError> {
    let begun = bundle.matches("-----BEGIN ").count();
    let blocks = pem::parse_many(bundle).map_err(|_| BundleError::NotPem)?;
    if blocks.len() != begun {
        return Err(BundleError::NotPem);
    }
    if blocks.is_empty() {
        return Err(BundleError::Empty);
    }
    let certificate = |(index, block): (usize, pem::Pem)| {
        let number = index + 1;
        if block.tag() != "CERTIFICATE" {
            return Err(BundleError::Tag { number, tag: block.tag().chars().take(64).collect() });
        }
        match is_certificate(block.contents()) {
            true => Ok(Certificate { der: block.into_contents() }),
            false => Err(BundleError::NotCertificate { number }),
        }
    };
    blocks.into_iter().enumerate().map(certificate).collect()
}

/// The parent's bundle with the private one's certificates that it lacks behind it. `None` where nothing is added.
pub(super) fn joined(parent: Option<(&str, &[Certificate])>, added: &[Certificate]) -> Option<String> {
    let mut seen: BTreeSet<&Certificate> = parent.iter().flat_map(|(_, certificates)| certificates.iter()).collect();
    let new: Vec<String> = added.iter().filter(|certificate| seen.insert(certificate)).map(encoded).collect();
    if new.is_empty() {
        return None;
    }
    let mut blocks: Vec<&str> =
        parent.iter().map(|(text, _)| text.trim_end()).filter(|text| !text.is_empty()).collect();
    blocks.extend(new.iter().map(|block| block.trim_end()));
    Some(blocks.join("\n") + "\n")
}

fn encoded(certificate: &Certificate) -> String {
    let block = pem::Pem::new("CERTIFICATE", certificate.der.as_slice());
    pem::encode_config(&block, pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF))
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const VERSION: u8 = 0xa0;

/// Whether DER has the outline of a certificate: to be signed, algorithm, signature; and in the first: version, serial
/// number, algorithm, issuer, validity, subject, key.
fn is_certificate(der: &[u8]) -> bool {
    let outline = || {
        let (whole, rest) = element(der, SEQUENCE)?;
        let (signed, after) = element(whole, SEQUENCE)?;
        let (_, after) = element(after, SEQUENCE)?;
        let (_, after) = element(after, BIT_STRING)?;
        let mut fields = element(signed, VERSION).map_or(signed, |(_, after)| after);
        for tag in [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE] {
            (_, fields) = element(fields, tag)?;
        }
        (rest.is_empty() && after.is_empty()).then_some(())
    };
    outline().is_some()
}

/// The content of the first element, which has to be of that type, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    if *found != tag {
        return None;
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![tag, 0x82, (content.len() >> 8) as u8, content.len() as u8];
        out.extend_from_slice(content);
        out
    }

    /// Something with the outline of a certificate, and that serial number.
    pub(in crate::catalog) fn certificate(serial: u8) -> String {
        let empty = tlv(SEQUENCE, &[]);
        let mut signed = tlv(VERSION, &tlv(INTEGER, &[2]));
        signed.extend(tlv(INTEGER, &[serial]));
        (0..5).for_each(|_| signed.extend(&empty));
        let whole = [tlv(SEQUENCE, &signed), empty, tlv(BIT_STRING, &[0, 1])].concat();
        encoded(&Certificate { der: tlv(SEQUENCE, &whole) })
    }

    #[track_caller]
    fn check(bundle: &str, expect: Result<usize, &str>) {
        let read = read(bundle).map(|certificates| certificates.len()).map_err(|error| error.to_string());
        match (&read, expect) {
            (Ok(count), Ok(expect)) => assert_eq!(*count, expect),
            (Err(text), Err(part)) => assert!(text.contains(part), "{text}"),
            _ => panic!("{read:?}"),
        }
    }

    #[test]
    fn a_bundle_holds_certificates_and_nothing_else() {
        let (one, two) = (certificate(1), certificate(2));
        check(&one, Ok(1));
        check(&format!("# the first\n{one}\n# the second\n{two}"), Ok(2));
        check("", Err("holds no certificate"));
        check("nothing", Err("holds no certificate"));
        check(&one.replace("CERTIFICATE", "PRIVATE KEY"), Err("block 1 holds a PRIVATE KEY"));
        check(&format!("{one}-----BEGIN CERTIFICATE-----\nAAAA\n"), Err("not PEM"));
        check("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", Err("block 1 is no X.509"));
        check(&format!("{one}-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"), Err("not PEM"));
    }

    #[test]
    fn certificates_are_joined_by_what_they_are_and_not_by_how_they_are_written() {
        let (one, two) = (certificate(1), certificate(2));
        let windows = two.replace('\n', "\r\n");
        let parent = read(&one).expect("a bundle");
        let added = read(&format!("{windows}{one}{two}")).expect("a bundle");
        assert_eq!(joined(Some((&one, &parent)), &added), Some(format!("{one}{two}")));
        assert_eq!(joined(Some((&one, &parent)), &parent), None);
        assert_eq!(joined(None, &added), Some(format!("{two}{one}")));
    }
}
