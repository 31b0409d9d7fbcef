//! Keys, certificates, service-account tokens and kubeconfigs.
//!
//! Everything here is a function of its arguments: the time is handed in, and new keys come from a
//! [`KeySource`], so a simulation can supply both. Where credentials are kept, when they are renewed and
//! who may have them is decided elsewhere.

mod authority;
mod certificate;
mod chain;
mod discovery;
mod error;
mod key;
mod kubeconfig;
mod token;

pub use authority::{BACKDATE_SECS, CertificateAuthority, Leaf, LeafUsage, SubjectName};
pub use certificate::{Certificate, CertificatePair};
pub use chain::{CaBundle, ChainError};
pub use discovery::{ISSUER_DISCOVERY_PATH, JWKS_PATH, issuer_metadata, jwks};
pub use error::PkiError;
pub use key::{KeySource, PrivateKey, PublicKey, RandomKeys, sha256};
pub use kubeconfig::{Kubeconfig, KubeconfigUser};
pub use token::{
    BoundObject, Claims, KubernetesClaims, SECRET_TOKEN_ISSUER, SecretTokenClaims, ServiceAccountKeys, TokenError,
    token_digest,
};
pub use zeroize::Zeroizing;
