//! CAs: made, read back, and the leaves that they issue.

use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, SanType, SerialNumber,
};
use rustls_pki_types::CertificateDer;

use crate::{CaBundle, Certificate, CertificatePair, PkiError, PrivateKey};

/// How long before `now` a new certificate begins to hold: room for clocks that go a little slow.
pub const BACKDATE_SECS: i64 = 300;

/// The last second that a certificate can express: the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// A name that a server certificate is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubjectName {
    /// A DNS name.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

impl From<&str> for SubjectName {
    /// An address if it reads as one, else a DNS name.
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| SubjectName::Dns(text.to_owned()), SubjectName::Ip)
    }
}

/// What a leaf is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafUsage {
    /// To serve TLS.
    Server,
    /// To be a client.
    Client,
    /// Both, as etcd peers need.
    Peer,
}

/// A leaf certificate to be issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The common name: of a client its user name.
    pub common_name: String,
    /// The organization: of a client its group. One at most.
    pub organization: Option<String>,
    /// What it is for.
    pub usage: LeafUsage,
    /// The names it is for; of clients usually none.
    pub names: Vec<SubjectName>,
    /// How long it holds from now on, in seconds; never beyond the CA.
    pub lifetime_secs: i64,
}

/// A CA that can issue: certificate and private key.
#[derive(Clone, Debug)]
pub struct CertificateAuthority {
    pair: CertificatePair,
}

impl CertificateAuthority {
    /// Makes a self-signed CA that holds for `lifetime_secs` from `now` (seconds since 1970) on.
    pub fn new(common_name: &str, key: PrivateKey, now: i64, lifetime_secs: i64) -> Result<Self, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(common_name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, now - BACKDATE_SECS, now.saturating_add(lifetime_secs))?;
        params.serial_number = Some(serial(&params, &key, &[], common_name));
        let signed = params.self_signed(&key).map_err(refused("signing a CA certificate"))?;
        let pair = CertificatePair::new(vec![Certificate::from_der(signed.der())?], key)?;
        Ok(CertificateAuthority { pair })
    }

    /// Takes an existing CA.
    ///
    /// # Errors
    /// The certificate is no CA.
    pub fn from_pair(pair: CertificatePair) -> Result<Self, PkiError> {
        if !pair.certificate().is_authority() {
            return Err(PkiError::NotAnAuthority { subject: pair.certificate().common_name().to_owned() });
        }
        Ok(CertificateAuthority { pair })
    }

    /// Reads `tls.crt` and `tls.key` of a CA.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, PkiError> {
        CertificateAuthority::from_pair(CertificatePair::from_pem(certificate, key)?)
    }

    /// Certificate and key.
    pub fn pair(&self) -> &CertificatePair {
        &self.pair
    }

    /// The certificate.
    pub fn certificate(&self) -> &Certificate {
        self.pair.certificate()
    }

    /// What verifies certificates of this CA.
    pub fn bundle(&self) -> CaBundle {
        CaBundle::new(vec![self.certificate().clone()])
    }

    /// Issues a leaf for `key` at `now`, in seconds since 1970.
    pub fn issue(&self, leaf: &Leaf, key: PrivateKey, now: i64) -> Result<CertificatePair, PkiError> {
        let authority = self.certificate();
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(&leaf.common_name, leaf.organization.as_deref());
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = match leaf.usage {
            LeafUsage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            LeafUsage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            LeafUsage::Peer => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.subject_alt_names = leaf.names.iter().map(alternative_name).collect::<Result<_, _>>()?;
        params.use_authority_key_identifier_extension = true;
        let not_before = (now - BACKDATE_SECS).max(authority.not_before());
        let not_after = now.saturating_add(leaf.lifetime_secs).min(authority.not_after());
        set_validity(&mut params, not_before, not_after)?;
        params.serial_number = Some(serial(&params, &key, authority.public_key().der(), &format!("{leaf:?}")));
        let issuer_der = CertificateDer::from(authority.der());
        let issuer =
            Issuer::from_ca_cert_der(&issuer_der, self.pair.key()).map_err(refused("reading the CA certificate"))?;
        let signed = params.signed_by(&key, &issuer).map_err(refused("signing a certificate"))?;
        CertificatePair::new(vec![Certificate::from_der(signed.der())?], key)
    }
}

fn refused(operation: &'static str) -> impl Fn(rcgen::Error) -> PkiError {
    move |_| PkiError::Crypto { operation }
}

fn distinguished_name(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    name
}

fn alternative_name(name: &SubjectName) -> Result<SanType, PkiError> {
    match name {
        SubjectName::Ip(address) => Ok(SanType::IpAddress(*address)),
        SubjectName::Dns(text) => {
            let bad = || PkiError::BadSubjectName { name: text.clone() };
            let plain = rustls_pki_types::DnsName::try_from(text.trim_start_matches("*.")).is_ok();
            let encoded = text.as_str().try_into().map_err(|_| bad())?;
            if plain { Ok(SanType::DnsName(encoded)) } else { Err(bad()) }
        }
    }
}

fn set_validity(params: &mut CertificateParams, not_before: i64, not_after: i64) -> Result<(), PkiError> {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since_epoch = |seconds: i64| match u64::try_from(seconds) {
        Ok(seconds) if seconds <= LAST_SECOND => Ok(Duration::from_secs(seconds)),
        _ => Err(PkiError::TimeOutOfRange),
    };
    params.not_before = epoch + since_epoch(not_before)?;
    params.not_after = epoch + since_epoch(not_after)?;
    Ok(())
}

/// A serial number without a source of randomness: 160 bits of a hash over what tells certificates of one
/// issuer apart. What is asked for twice has one serial number, different things never.
fn serial(params: &CertificateParams, key: &PrivateKey, issuer: &[u8], content: &str) -> SerialNumber {
    let mut context = Context::new(&SHA256);
    let validity = format!("{}-{}", params.not_before.unix_timestamp(), params.not_after.unix_timestamp());
    for part in [issuer, key.public_key().der(), validity.as_bytes(), content.as_bytes()] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut bytes = context.finish().as_ref()[..20].to_vec();
    // Positive and of full length, as RFC 5280, section 4.1.2.2 wants it.
    bytes[0] = (bytes[0] & 0x7f) | 0x40;
    SerialNumber::from(bytes)
}
