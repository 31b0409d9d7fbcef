//! Service-account tokens: JSON web tokens (RFC 7519) with Kubernetes' claims, signed with ES256 (or RS256
//! where the key is RSA). Whether the account that a token names still exists is for the caller to ask.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Deserializer, Serialize};
use zeroize::Zeroizing;

use crate::key::{Pair, PublicKeyKind};
use crate::{PkiError, PrivateKey, PublicKey};

/// Longer tokens are refused before they are parsed: Kubernetes' own stay below 2 KiB, and headers are
/// bounded anyhow.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// The issuer of tokens that lie in Secrets, whatever the issuer of others is called.
pub const SECRET_TOKEN_ISSUER: &str = "kubernetes/serviceaccount";

/// Why a token was not believed. The token itself is in none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is no JSON web token, or one without the claims of a service-account token.
    #[error("the token is malformed")]
    Malformed,
    /// None of the keys made its signature.
    #[error("the token was not signed by a key that is trusted here")]
    BadSignature,
    /// Its time is over.
    #[error("service account token has expired")]
    Expired,
    /// Its time has not come.
    #[error("service account token is not valid yet")]
    NotYetValid,
}

/// The claims of a service-account token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Whom it is for.
    #[serde(deserialize_with = "one_or_many", default)]
    pub aud: Vec<String>,
    /// When it ends, in seconds since 1970.
    pub exp: i64,
    /// When it was issued, in seconds since 1970.
    pub iat: i64,
    /// Who issued it.
    pub iss: String,
    /// Its own id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jti: String,
    /// What it is about.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: KubernetesClaims,
    /// When it begins, in seconds since 1970.
    pub nbf: i64,
    /// The user name: `system:serviceaccount:NAMESPACE:NAME`.
    pub sub: String,
}

/// What a service-account token is about and bound to (KEP-1205).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesClaims {
    /// The namespace of the account.
    pub namespace: String,
    /// The node that the pod runs on, or that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<BoundObject>,
    /// The pod that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<BoundObject>,
    /// The Secret that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<BoundObject>,
    /// The account.
    pub serviceaccount: BoundObject,
}

/// An object that a token stands or falls with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundObject {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The claims of a token that lies in a Secret. It has no end: it holds as long as the Secret has it
/// (`k8s.io/kubernetes/pkg/serviceaccount`, legacy claims).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretTokenClaims {
    /// [`SECRET_TOKEN_ISSUER`].
    pub iss: String,
    /// The namespace of the account and the Secret.
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub namespace: String,
    /// The Secret.
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub secret: String,
    /// The account.
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub account: String,
    /// The account's UID.
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub account_uid: String,
    /// The user name: `system:serviceaccount:NAMESPACE:NAME`.
    pub sub: String,
}

impl SecretTokenClaims {
    /// The same as other tokens say it: without end and audience, bound to a Secret whose UID is unknown.
    fn into_claims(self) -> Claims {
        let secret = BoundObject { name: self.secret, uid: String::new() };
        let serviceaccount = BoundObject { name: self.account, uid: self.account_uid };
        Claims {
            aud: Vec::new(),
            exp: i64::MAX,
            iat: 0,
            iss: self.iss,
            jti: String::new(),
            kubernetes: KubernetesClaims {
                namespace: self.namespace,
                node: None,
                pod: None,
                secret: Some(secret),
                serviceaccount,
            },
            nbf: 0,
            sub: self.sub,
        }
    }
}

fn one_or_many<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(input)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

impl Claims {
    /// Whether they are those of a token that lies in a Secret, and so holds only while it lies there.
    pub fn is_of_secret(&self) -> bool {
        self.iss == SECRET_TOKEN_ISSUER
    }

    /// Whether they hold at `now`, in seconds since 1970.
    pub fn check_time(&self, now: i64) -> Result<(), TokenError> {
        match () {
            () if now >= self.exp => Err(TokenError::Expired),
            () if now < self.nbf => Err(TokenError::NotYetValid),
            () => Ok(()),
        }
    }
}

/// The keys of one token issuer: one signs, all of them verify, so that a key can be replaced while tokens
/// of the one before are about.
#[derive(Clone)]
pub struct ServiceAccountKeys {
    signing: PrivateKey,
    verifying: Vec<PublicKey>,
}

impl fmt::Debug for ServiceAccountKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountKeys").field("verifying", &self.verifying).finish_non_exhaustive()
    }
}

impl ServiceAccountKeys {
    /// Signs with `signing`; verifies with it and with `also_verifying`.
    ///
    /// # Errors
    /// A key is of a kind that tokens are not signed with.
    pub fn new(signing: PrivateKey, also_verifying: &[PublicKey]) -> Result<Self, PkiError> {
        let mut verifying = vec![signing.public_key().clone()];
        for key in also_verifying {
            if !verifying.contains(key) {
                verifying.push(key.clone());
            }
        }
        if verifying.iter().any(|key| algorithm(key).is_none()) {
            return Err(PkiError::UnsupportedKey);
        }
        Ok(ServiceAccountKeys { signing, verifying })
    }

    /// The public keys, the one that signs first.
    pub fn verifying(&self) -> &[PublicKey] {
        &self.verifying
    }

    /// The key that signs.
    pub fn signing(&self) -> &PrivateKey {
        &self.signing
    }

    /// A token with these claims.
    pub fn sign(&self, claims: &impl Serialize) -> Result<Zeroizing<String>, PkiError> {
        let public = self.signing.public_key();
        let algorithm = algorithm(public).ok_or(PkiError::UnsupportedKey)?;
        let failed = || PkiError::Crypto { operation: "signing a token" };
        let header = Header { alg: algorithm, kid: Some(public.key_id()), typ: None, ..Header::default() };
        let token = match self.signing.pair() {
            Pair::P256(_) | Pair::P384(_) => {
                jsonwebtoken::encode(&header, claims, &EncodingKey::from_ec_der(self.signing.pkcs8())).ok()
            }
            // The library takes RSA keys in PKCS #1 form only, which we do not keep.
            Pair::Rsa(_) => signed_with_rsa(&self.signing, &header, claims),
        };
        token.map(Zeroizing::new).ok_or_else(failed)
    }

    /// The claims of a token that one of the keys signed, those of tokens in Secrets included. Neither time, issuer nor audience are looked at.
    pub fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Malformed);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Malformed)?;
        let named = self.verifying.iter().filter(|key| header.kid.as_deref() == Some(key.key_id().as_str()));
        let mut candidates: Vec<&PublicKey> = named.collect();
        if candidates.is_empty() {
            candidates = self.verifying.iter().collect();
        }
        // The algorithm follows from the key, never from what the token says of itself.
        let tries = candidates.into_iter().filter(|key| algorithm(key) == Some(header.alg));
        let mut outcome = TokenError::BadSignature;
        for key in tries {
            match jsonwebtoken::decode::<Claims>(token, &decoding_key(key), &signature_only(header.alg)) {
                Ok(data) => return Ok(data.claims),
                Err(error) if matches!(error.kind(), jsonwebtoken::errors::ErrorKind::InvalidSignature) => {}
                Err(_) => match secret_token_claims(token, key, header.alg) {
                    Some(claims) => return Ok(claims),
                    None => outcome = TokenError::Malformed,
                },
            }
        }
        Err(outcome)
    }
}

fn secret_token_claims(token: &str, key: &PublicKey, algorithm: Algorithm) -> Option<Claims> {
    let validation = signature_only(algorithm);
    let data = jsonwebtoken::decode::<SecretTokenClaims>(token, &decoding_key(key), &validation).ok()?;
    Some(data.claims).filter(|claims| claims.iss == SECRET_TOKEN_ISSUER).map(SecretTokenClaims::into_claims)
}

fn signed_with_rsa(key: &PrivateKey, header: &Header, claims: &impl Serialize) -> Option<String> {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let header = serde_json::to_vec(header).ok()?;
    let claims = serde_json::to_vec(claims).ok()?;
    let message = format!("{}.{}", encode(&header), encode(&claims));
    let signature = rcgen::SigningKey::sign(key, message.as_bytes()).ok()?;
    Some(format!("{message}.{}", encode(&signature)))
}

/// The algorithm that tokens signed with a key use; absent where there is none.
pub(crate) fn algorithm(key: &PublicKey) -> Option<Algorithm> {
    match key.kind() {
        PublicKeyKind::P256(_) => Some(Algorithm::ES256),
        PublicKeyKind::P384(_) => Some(Algorithm::ES384),
        PublicKeyKind::Rsa { modulus, .. } if (256..=1024).contains(&modulus.len()) => Some(Algorithm::RS256),
        PublicKeyKind::Rsa { .. } => None,
    }
}

fn decoding_key(key: &PublicKey) -> DecodingKey {
    match key.kind() {
        PublicKeyKind::P256(point) | PublicKeyKind::P384(point) => DecodingKey::from_ec_der(point),
        PublicKeyKind::Rsa { modulus, exponent } => DecodingKey::from_rsa_raw_components(modulus, exponent),
    }
}

/// Time, issuer and audience are checked against what the caller hands in, not against a clock of the
/// library's own.
fn signature_only(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

/// SHA-256 of a secret, to find it in a table without comparing the secret itself byte by byte.
pub fn token_digest(secret: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, secret).as_ref());
    out
}
