//! Private and public keys: made, read, written. Private keys are wiped from memory when dropped and
//! shown nowhere.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;
use zeroize::Zeroizing;

use crate::PkiError;

/// Gives new private keys.
pub trait KeySource: fmt::Debug + Send + Sync + 'static {
    /// A key that nobody else has.
    fn generate(&self) -> Result<PrivateKey, PkiError>;
}

/// New ECDSA P-256 keys from the system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomKeys;

impl KeySource for RandomKeys {
    fn generate(&self) -> Result<PrivateKey, PkiError> {
        let failed = |_| PkiError::Crypto { operation: "generating an ECDSA key" };
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?;
        PrivateKey::of(Pair::P256(pair))
    }
}

/// A private key: ECDSA P-256, or, where somebody supplies it, P-384 or RSA. Cheap to clone.
#[derive(Clone)]
pub struct PrivateKey {
    shared: Arc<Shared>,
}

struct Shared {
    pair: Pair,
    pkcs8: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

pub(crate) enum Pair {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("public", &self.shared.public).finish_non_exhaustive()
    }
}

impl PrivateKey {
    fn of(pair: Pair) -> Result<Self, PkiError> {
        let failed = |_| PkiError::Crypto { operation: "encoding a private key" };
        let pkcs8 = match &pair {
            Pair::P256(pair) | Pair::P384(pair) => Zeroizing::new(pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let der: Pkcs8V1Der<'static> = pair.as_der().map_err(failed)?;
                Zeroizing::new(der.as_ref().to_vec())
            }
        };
        let spki: PublicKeyX509Der<'static> = match &pair {
            Pair::P256(pair) | Pair::P384(pair) => pair.public_key().as_der().map_err(failed)?,
            Pair::Rsa(pair) => pair.public_key().as_der().map_err(failed)?,
        };
        let public = PublicKey::from_der(spki.as_ref())?;
        Ok(PrivateKey { shared: Arc::new(Shared { pair, pkcs8, public }) })
    }

    /// Reads a key in PKCS #8, SEC 1 (`EC PRIVATE KEY`) or PKCS #1 (`RSA PRIVATE KEY`) form; other blocks
    /// of the file, certificates and EC parameters, are passed over.
    pub fn from_pem(text: &str) -> Result<Self, PkiError> {
        let blocks = pem::parse_many(text).map_err(|_| PkiError::malformed("private key", "not PEM"))?;
        let block = blocks.into_iter().find(|block| block.tag().ends_with("PRIVATE KEY"));
        let block = block.ok_or(PkiError::NoPemBlock { wanted: "PRIVATE KEY" })?;
        PrivateKey::from_der(&Zeroizing::new(block.into_contents()))
    }

    fn from_der(der: &[u8]) -> Result<Self, PkiError> {
        let ecdsa = |algorithm: &'static EcdsaSigningAlgorithm| {
            EcdsaKeyPair::from_pkcs8(algorithm, der).or_else(|_| EcdsaKeyPair::from_private_key_der(algorithm, der))
        };
        if let Ok(pair) = ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING) {
            return PrivateKey::of(Pair::P256(pair));
        }
        if let Ok(pair) = ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING) {
            return PrivateKey::of(Pair::P384(pair));
        }
        let rsa = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
        PrivateKey::of(Pair::Rsa(rsa.map_err(|_| PkiError::UnsupportedKey)?))
    }

    /// The key in PKCS #8 form as PEM.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let block = pem::Pem::new("PRIVATE KEY", self.shared.pkcs8.to_vec());
        Zeroizing::new(encode_pem(&block))
    }

    /// The key in PKCS #8 form.
    pub fn pkcs8(&self) -> &[u8] {
        &self.shared.pkcs8
    }

    /// Its public half.
    pub fn public_key(&self) -> &PublicKey {
        &self.shared.public
    }

    pub(crate) fn pair(&self) -> &Pair {
        &self.shared.pair
    }
}

impl rcgen::PublicKeyData for PrivateKey {
    fn der_bytes(&self) -> &[u8] {
        match self.pair() {
            Pair::P256(pair) | Pair::P384(pair) => pair.public_key().as_ref(),
            Pair::Rsa(pair) => pair.public_key().as_ref(),
        }
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        match self.pair() {
            Pair::P256(_) => &rcgen::PKCS_ECDSA_P256_SHA256,
            Pair::P384(_) => &rcgen::PKCS_ECDSA_P384_SHA384,
            Pair::Rsa(_) => &rcgen::PKCS_RSA_SHA256,
        }
    }
}

impl rcgen::SigningKey for PrivateKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let random = SystemRandom::new();
        match self.pair() {
            Pair::P256(pair) | Pair::P384(pair) => {
                let signature = pair.sign(&random, message).map_err(|_| rcgen::Error::RingUnspecified)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                signed.map_err(|_| rcgen::Error::RingUnspecified)?;
                Ok(signature)
            }
        }
    }
}

/// A public key. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    spki: Arc<[u8]>,
    kind: PublicKeyKind,
}

/// What kind of key, and the key itself as its kind writes it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum PublicKeyKind {
    /// The point, uncompressed: 4, x, y.
    P256(Arc<[u8]>),
    /// The point, uncompressed.
    P384(Arc<[u8]>),
    /// Modulus and exponent, big-endian without leading zeros.
    Rsa { modulus: Arc<[u8]>, exponent: Arc<[u8]> },
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublicKey").field(&self.key_id()).finish()
    }
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo (RFC 5280, section 4.1).
    pub fn from_der(spki: &[u8]) -> Result<Self, PkiError> {
        let (rest, parsed) =
            SubjectPublicKeyInfo::from_der(spki).map_err(|error| PkiError::malformed("public key", error))?;
        if !rest.is_empty() {
            return Err(PkiError::malformed("public key", "trailing bytes"));
        }
        let parsed_key = parsed.parsed().map_err(|error| PkiError::malformed("public key", error))?;
        let kind = match parsed_key {
            x509_parser::public_key::PublicKey::EC(point) => match point.data().len() {
                65 => PublicKeyKind::P256(Arc::from(point.data())),
                97 => PublicKeyKind::P384(Arc::from(point.data())),
                _ => return Err(PkiError::UnsupportedKey),
            },
            x509_parser::public_key::PublicKey::RSA(rsa) => PublicKeyKind::Rsa {
                modulus: Arc::from(without_leading_zeros(rsa.modulus)),
                exponent: Arc::from(without_leading_zeros(rsa.exponent)),
            },
            _ => return Err(PkiError::UnsupportedKey),
        };
        Ok(PublicKey { spki: Arc::from(spki), kind })
    }

    /// Reads the first public key of a PEM file: a `PUBLIC KEY`, or that of a `CERTIFICATE`.
    pub fn from_pem(text: &str) -> Result<Self, PkiError> {
        let keys = PublicKey::all_from_pem(text)?;
        keys.into_iter().next().ok_or(PkiError::NoPemBlock { wanted: "PUBLIC KEY" })
    }

    /// Reads every public key of a PEM file, those of private keys and certificates included, as
    /// kube-apiserver's `--service-account-key-file` does.
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, PkiError> {
        let blocks = pem::parse_many(text).map_err(|_| PkiError::malformed("public key", "not PEM"))?;
        let mut keys = Vec::new();
        for block in blocks {
            match block.tag() {
                "PUBLIC KEY" => keys.push(PublicKey::from_der(block.contents())?),
                "CERTIFICATE" => keys.push(crate::Certificate::from_der(block.contents())?.public_key().clone()),
                tag if tag.ends_with("PRIVATE KEY") => {
                    keys.push(PrivateKey::from_der(block.contents())?.public_key().clone());
                }
                _ => {}
            }
        }
        Ok(keys)
    }

    /// The key as PEM (`PUBLIC KEY`).
    pub fn to_pem(&self) -> String {
        encode_pem(&pem::Pem::new("PUBLIC KEY", self.spki.to_vec()))
    }

    /// The key as SubjectPublicKeyInfo.
    pub fn der(&self) -> &[u8] {
        &self.spki
    }

    /// The `kid` of tokens signed with its private half: SHA-256 of the SubjectPublicKeyInfo, base64url, as
    /// `k8s.io/kubernetes/pkg/serviceaccount` computes it.
    pub fn key_id(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, &self.spki))
    }

    pub(crate) fn kind(&self) -> &PublicKeyKind {
        &self.kind
    }
}

/// The SHA-256 of `bytes`: for names that are to be told apart, not for secrets.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    &bytes[start..]
}

/// PEM with the line ends that every tool takes.
pub(crate) fn encode_pem(block: &pem::Pem) -> String {
    pem::encode_config(block, pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF))
}
