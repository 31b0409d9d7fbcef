//! Certificates as they are read: what they say about their subject and when they hold. Whether to
//! believe it is the business of [`crate::CaBundle`].

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
use zeroize::Zeroizing;

use crate::key::encode_pem;
use crate::{PkiError, PrivateKey, PublicKey};

/// A certificate, read. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Arc<[u8]>,
    facts: Arc<Facts>,
}

#[derive(PartialEq, Eq)]
struct Facts {
    common_name: String,
    organizations: Vec<String>,
    serial: Vec<u8>,
    not_before: i64,
    not_after: i64,
    is_authority: bool,
    dns_names: Vec<String>,
    ip_addresses: Vec<IpAddr>,
    public_key: PublicKey,
    self_issued: bool,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("common_name", &self.facts.common_name)
            .field("organizations", &self.facts.organizations)
            .field("not_after", &self.facts.not_after)
            .finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads a DER certificate.
    pub fn from_der(der: &[u8]) -> Result<Self, PkiError> {
        let malformed = |reason: &dyn fmt::Display| PkiError::malformed("certificate", reason);
        let (rest, parsed) = X509Certificate::from_der(der).map_err(|error| malformed(&error))?;
        if !rest.is_empty() {
            return Err(malformed(&"trailing bytes"));
        }
        let subject = parsed.subject();
        let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().map(str::to_owned);
        // The last common name counts, as in Go's crypto/x509.
        let common_name = subject.iter_common_name().last().map(text).transpose();
        let organizations = subject.iter_organization().map(text).collect::<Result<Vec<_>, _>>();
        let (mut dns_names, mut ip_addresses) = (Vec::new(), Vec::new());
        let alternative = parsed.subject_alternative_name().map_err(|error| malformed(&error))?;
        for name in alternative.iter().flat_map(|extension| &extension.value.general_names) {
            match name {
                GeneralName::DNSName(name) => dns_names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => ip_addresses.extend(address(bytes)),
                _ => {}
            }
        }
        let authority = parsed.basic_constraints().map_err(|error| malformed(&error))?;
        let facts = Facts {
            common_name: common_name.map_err(|error| malformed(&error))?.unwrap_or_default(),
            organizations: organizations.map_err(|error| malformed(&error))?,
            serial: parsed.tbs_certificate.raw_serial().to_vec(),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            is_authority: authority.is_some_and(|extension| extension.value.ca),
            dns_names,
            ip_addresses,
            public_key: PublicKey::from_der(parsed.public_key().raw)?,
            self_issued: parsed.subject().as_raw() == parsed.issuer().as_raw(),
        };
        Ok(Certificate { der: Arc::from(der), facts: Arc::new(facts) })
    }

    /// Reads the first certificate of a PEM file.
    pub fn from_pem(text: &str) -> Result<Self, PkiError> {
        let all = Certificate::all_from_pem(text)?;
        all.into_iter().next().ok_or(PkiError::NoPemBlock { wanted: "CERTIFICATE" })
    }

    /// Reads every certificate of a PEM file.
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, PkiError> {
        let blocks = pem::parse_many(text).map_err(|_| PkiError::malformed("certificate", "not PEM"))?;
        let certificates = blocks.iter().filter(|block| block.tag() == "CERTIFICATE");
        certificates.map(|block| Certificate::from_der(block.contents())).collect()
    }

    /// The certificate as PEM.
    pub fn to_pem(&self) -> String {
        encode_pem(&pem::Pem::new("CERTIFICATE", self.der.to_vec()))
    }

    /// The certificate as DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The common name of the subject: the user name of a client. Empty if there is none.
    pub fn common_name(&self) -> &str {
        &self.facts.common_name
    }

    /// The organizations of the subject: the groups of a client.
    pub fn organizations(&self) -> &[String] {
        &self.facts.organizations
    }

    /// The serial number, big-endian.
    pub fn serial(&self) -> &[u8] {
        &self.facts.serial
    }

    /// When it begins to hold, in seconds since 1970.
    pub fn not_before(&self) -> i64 {
        self.facts.not_before
    }

    /// The last second in which it holds, since 1970.
    pub fn not_after(&self) -> i64 {
        self.facts.not_after
    }

    /// Whether it holds at `now`, in seconds since 1970.
    pub fn holds_at(&self, now: i64) -> bool {
        (self.facts.not_before..=self.facts.not_after).contains(&now)
    }

    /// Whether it may be used as a CA.
    pub fn is_authority(&self) -> bool {
        self.facts.is_authority
    }

    /// Whether subject and issuer have the same name, as roots do.
    pub fn is_self_issued(&self) -> bool {
        self.facts.self_issued
    }

    /// The DNS names that it is for.
    pub fn dns_names(&self) -> &[String] {
        &self.facts.dns_names
    }

    /// The addresses that it is for.
    pub fn ip_addresses(&self) -> &[IpAddr] {
        &self.facts.ip_addresses
    }

    /// The public key that it is about.
    pub fn public_key(&self) -> &PublicKey {
        &self.facts.public_key
    }

    /// SHA-256 of the DER form, in lower-case hex.
    pub fn fingerprint(&self) -> String {
        digest(&SHA256, &self.der).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// A certificate with its chain and private key, as a Secret of type `kubernetes.io/tls` holds it.
#[derive(Clone, Debug)]
pub struct CertificatePair {
    chain: Vec<Certificate>,
    key: PrivateKey,
}

impl CertificatePair {
    /// Puts a certificate and its key together; intermediate certificates follow in `chain`.
    ///
    /// # Errors
    /// The chain is empty, or the key does not belong to the first certificate.
    pub fn new(chain: Vec<Certificate>, key: PrivateKey) -> Result<Self, PkiError> {
        let leaf = chain.first().ok_or(PkiError::NoPemBlock { wanted: "CERTIFICATE" })?;
        if leaf.public_key() != key.public_key() {
            return Err(PkiError::KeyMismatch);
        }
        Ok(CertificatePair { chain, key })
    }

    /// Reads `tls.crt` and `tls.key`.
    pub fn from_pem(certificates: &str, key: &str) -> Result<Self, PkiError> {
        CertificatePair::new(Certificate::all_from_pem(certificates)?, PrivateKey::from_pem(key)?)
    }

    /// The certificate itself.
    pub fn certificate(&self) -> &Certificate {
        &self.chain[0]
    }

    /// The certificate and what was sent along with it.
    pub fn chain(&self) -> &[Certificate] {
        &self.chain
    }

    /// Its private key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// `tls.crt`
    pub fn certificate_pem(&self) -> String {
        self.chain.iter().map(Certificate::to_pem).collect()
    }

    /// `tls.key`
    pub fn key_pem(&self) -> Zeroizing<String> {
        self.key.to_pem()
    }
}
