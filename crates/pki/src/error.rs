//! What can go wrong with keys and certificates. No variant carries key material.

/// An operation on keys or certificates that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PkiError {
    /// A PEM file without a block of the kind looked for.
    #[error("no PEM block of type {wanted} found")]
    NoPemBlock {
        /// `CERTIFICATE`, `PRIVATE KEY`, `PUBLIC KEY`.
        wanted: &'static str,
    },
    /// Bytes that are no such thing.
    #[error("malformed {what}: {reason}")]
    Malformed {
        /// `certificate`, `private key`, …
        what: &'static str,
        /// Why, without quoting the bytes.
        reason: String,
    },
    /// A key of a kind that is not supported.
    #[error("unsupported key: want ECDSA P-256 or P-384, or RSA of 2048 to 8192 bits")]
    UnsupportedKey,
    /// Certificate and private key do not belong together.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    /// The issuer is no CA, or may not sign certificates.
    #[error("the certificate of {subject} is not a CA that may sign certificates")]
    NotAnAuthority {
        /// The common name of the would-be issuer.
        subject: String,
    },
    /// A name that no certificate can carry.
    #[error("{name:?} cannot stand in a certificate as a DNS name or IP address")]
    BadSubjectName {
        /// The name.
        name: String,
    },
    /// A time that certificates cannot express.
    #[error("the validity of a certificate lies out of range")]
    TimeOutOfRange,
    /// The cryptographic library refused.
    #[error("{operation} failed")]
    Crypto {
        /// What was being done.
        operation: &'static str,
    },
}

impl PkiError {
    pub(crate) fn malformed(what: &'static str, reason: impl ToString) -> Self {
        PkiError::Malformed { what, reason: reason.to_string() }
    }
}
