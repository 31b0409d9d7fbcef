//! What others verify tokens with: the key set (RFC 7517) and the issuer's metadata (OpenID Connect
//! Discovery 1.0), as kube-apiserver publishes them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};

use crate::PublicKey;
use crate::key::PublicKeyKind;
use crate::token::algorithm;

/// Where the metadata lies, below the issuer.
pub const ISSUER_DISCOVERY_PATH: &str = "/.well-known/openid-configuration";
/// Where the key set lies.
pub const JWKS_PATH: &str = "/openid/v1/jwks";

/// The key set document.
pub fn jwks(keys: &[PublicKey]) -> String {
    let keys: Vec<Value> = keys.iter().filter_map(json_web_key).collect();
    json!({ "keys": keys }).to_string()
}

/// The metadata of an issuer whose key set is at `jwks_uri`.
pub fn issuer_metadata(issuer: &str, jwks_uri: &str, keys: &[PublicKey]) -> String {
    let mut algorithms: Vec<&str> = keys.iter().filter_map(|key| algorithm(key).map(algorithm_name)).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    json!({
        "issuer": issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
    })
    .to_string()
}

fn json_web_key(key: &PublicKey) -> Option<Value> {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let alg = algorithm_name(algorithm(key)?);
    let kid = key.key_id();
    Some(match key.kind() {
        PublicKeyKind::P256(point) | PublicKeyKind::P384(point) => {
            let (x, y) = point[1..].split_at(point.len() / 2);
            let crv = if point.len() == 65 { "P-256" } else { "P-384" };
            json!({"use": "sig", "kty": "EC", "kid": kid, "alg": alg, "crv": crv, "x": encode(x), "y": encode(y)})
        }
        PublicKeyKind::Rsa { modulus, exponent } => {
            json!({"use": "sig", "kty": "RSA", "kid": kid, "alg": alg, "n": encode(modulus), "e": encode(exponent)})
        }
    })
}

fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::ES256 => "ES256",
        Algorithm::ES384 => "ES384",
        _ => "RS256",
    }
}
