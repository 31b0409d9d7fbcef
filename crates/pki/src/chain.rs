//! Whether a certificate is to be believed: chains are checked against the CAs of one bundle.

use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use crate::Certificate;

/// Why a chain was not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// No certificate was shown.
    #[error("no certificate")]
    NoCertificate,
    /// The bundle is empty: nobody is believed.
    #[error("there is no CA to check the certificate against")]
    NoAuthority,
    /// It is not valid any more, or not yet.
    #[error("the certificate is not valid at this time")]
    OutsideValidity,
    /// No path leads from it to a CA of the bundle.
    #[error("the certificate was not issued by a CA that is trusted here")]
    UnknownIssuer,
    /// It must not be used for this.
    #[error("the certificate does not allow this use")]
    WrongUsage,
    /// Something else about it is wrong.
    #[error("the certificate cannot be verified: {reason}")]
    Invalid {
        /// What.
        reason: String,
    },
}

/// The CAs that certificates are checked against: one, or several while one replaces another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaBundle {
    authorities: Vec<Certificate>,
}

impl CaBundle {
    /// A bundle of these CAs.
    pub fn new(authorities: Vec<Certificate>) -> Self {
        CaBundle { authorities }
    }

    /// Reads a PEM file of CA certificates.
    pub fn from_pem(text: &str) -> Result<Self, crate::PkiError> {
        Ok(CaBundle { authorities: Certificate::all_from_pem(text)? })
    }

    /// The CAs.
    pub fn authorities(&self) -> &[Certificate] {
        &self.authorities
    }

    /// The bundle as PEM.
    pub fn to_pem(&self) -> String {
        self.authorities.iter().map(Certificate::to_pem).collect()
    }

    /// Whether `chain` (the leaf first, as DER) proves a client at `now`, in seconds since 1970.
    pub fn verify_client(&self, chain: &[CertificateDer<'_>], now: i64) -> Result<(), ChainError> {
        self.verify(chain, now, KeyUsage::client_auth())
    }

    /// Whether `chain` (the leaf first, as DER) proves a server at `now`, in seconds since 1970. That the
    /// server's name is the one wanted is not checked.
    pub fn verify_server(&self, chain: &[CertificateDer<'_>], now: i64) -> Result<(), ChainError> {
        self.verify(chain, now, KeyUsage::server_auth())
    }

    fn verify(&self, chain: &[CertificateDer<'_>], now: i64, usage: KeyUsage) -> Result<(), ChainError> {
        let (leaf, intermediates) = chain.split_first().ok_or(ChainError::NoCertificate)?;
        let roots: Vec<CertificateDer<'_>> =
            self.authorities.iter().map(|authority| CertificateDer::from(authority.der())).collect();
        // An expired CA is no anchor: webpki leaves the validity of anchors to its caller.
        let holding = self.authorities.iter().zip(&roots).filter(|(authority, _)| authority.holds_at(now));
        let anchors = holding
            .filter(|(authority, _)| authority.is_authority())
            .filter_map(|(_, root)| webpki::anchor_from_trusted_cert(root).ok())
            .collect::<Vec<_>>();
        if anchors.is_empty() {
            return Err(ChainError::NoAuthority);
        }
        let end_entity = EndEntityCert::try_from(leaf).map_err(explain)?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or(0)));
        let checked =
            end_entity.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &anchors, intermediates, at, usage, None, None);
        checked.map(|_| ()).map_err(explain)
    }
}

fn explain(error: webpki::Error) -> ChainError {
    match error {
        webpki::Error::CertExpired { .. }
        | webpki::Error::CertNotValidYet { .. }
        | webpki::Error::InvalidCertValidity => ChainError::OutsideValidity,
        webpki::Error::UnknownIssuer => ChainError::UnknownIssuer,
        webpki::Error::RequiredEkuNotFoundContext(_) => ChainError::WrongUsage,
        other => ChainError::Invalid { reason: other.to_string() },
    }
}
