//! Service-account tokens and the documents that others verify them with.

use allotment_pki::{
    BoundObject, Claims, KubernetesClaims, PrivateKey, PublicKey, ServiceAccountKeys, TokenError, issuer_metadata, jwks,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::{NOW, key};

/// A fixed RSA key, since making one takes seconds in a debug build.
const RSA_KEY: &str = include_str!("rsa.pem");

fn claims() -> Claims {
    Claims {
        aud: vec!["https://kubernetes.default.svc".to_owned()],
        exp: NOW + 3600,
        iat: NOW,
        iss: "https://kubernetes.default.svc".to_owned(),
        jti: "f4bf2d96-2cd5-4df4-a4f2-8ad5c4e5a0d4".to_owned(),
        kubernetes: KubernetesClaims {
            namespace: "ns".to_owned(),
            node: None,
            pod: None,
            secret: Some(BoundObject { name: "s".to_owned(), uid: "u2".to_owned() }),
            serviceaccount: BoundObject { name: "a".to_owned(), uid: "u1".to_owned() },
        },
        nbf: NOW,
        sub: "system:serviceaccount:ns:a".to_owned(),
    }
}

fn keys(key: PrivateKey) -> ServiceAccountKeys {
    ServiceAccountKeys::new(key, &[]).expect("keys")
}

fn part(token: &str, index: usize) -> Value {
    let bytes = URL_SAFE_NO_PAD.decode(token.split('.').nth(index).expect("a part")).expect("base64url");
    serde_json::from_slice(&bytes).expect("JSON")
}

#[test]
fn a_token_carries_kubernetes_claims_and_names_its_key() {
    let keys = keys(key());
    let token = keys.sign(&claims()).expect("signed");
    assert_eq!(part(&token, 0), json!({"alg": "ES256", "kid": keys.signing().public_key().key_id()}));
    assert_eq!(
        part(&token, 1),
        json!({
            "aud": ["https://kubernetes.default.svc"], "exp": NOW + 3600, "iat": NOW, "nbf": NOW,
            "iss": "https://kubernetes.default.svc", "jti": "f4bf2d96-2cd5-4df4-a4f2-8ad5c4e5a0d4",
            "sub": "system:serviceaccount:ns:a",
            "kubernetes.io": {
                "namespace": "ns",
                "secret": {"name": "s", "uid": "u2"},
                "serviceaccount": {"name": "a", "uid": "u1"}
            }
        })
    );
    assert_eq!(keys.verify(&token), Ok(claims()));
}

#[test]
fn rsa_keys_sign_and_verify_too() {
    let keys = keys(PrivateKey::from_pem(RSA_KEY).expect("a key"));
    let token = keys.sign(&claims()).expect("signed");
    assert_eq!(part(&token, 0)["alg"], "RS256");
    assert_eq!(keys.verify(&token), Ok(claims()));
}

#[test]
fn tokens_of_another_key_are_refused_and_of_a_replaced_one_accepted() {
    let (old, new) = (keys(key()), key());
    let token = old.sign(&claims()).expect("signed");
    assert_eq!(keys(new.clone()).verify(&token), Err(TokenError::BadSignature));
    let both = ServiceAccountKeys::new(new, &[old.signing().public_key().clone()]).expect("keys");
    assert_eq!(both.verify(&token), Ok(claims()));
}

#[test]
fn altered_tokens_are_refused() {
    let keys = keys(key());
    let token = keys.sign(&claims()).expect("signed");
    let parts: Vec<&str> = token.split('.').collect();
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut claims = part(&token, 1);
    claims["sub"] = json!("system:serviceaccount:kube-system:root");
    let kid = keys.signing().public_key().key_id();
    let none = json!({"alg": "none", "kid": kid});
    let hmac = json!({"alg": "HS256", "kid": kid});
    for (forged, expect) in [
        (format!("{}.{}.{}", parts[0], encode(&claims), parts[2]), TokenError::BadSignature),
        (format!("{}.{}.", parts[0], parts[1]), TokenError::BadSignature),
        (format!("{}.{}.{}", encode(&hmac), parts[1], parts[2]), TokenError::BadSignature),
        (format!("{}.{}.", encode(&none), parts[1]), TokenError::Malformed),
        (format!("{}.{}", parts[0], parts[1]), TokenError::Malformed),
        ("nonsense".to_owned(), TokenError::Malformed),
        (String::new(), TokenError::Malformed),
        ("a".repeat(1 << 20), TokenError::Malformed),
    ] {
        assert_eq!(keys.verify(&forged), Err(expect), "{forged:.80}");
    }
}

#[test]
fn the_public_key_is_no_hmac_secret() {
    // The classic confusion: a token "signed" with HS256, the public key as the secret.
    let keys = keys(PrivateKey::from_pem(RSA_KEY).expect("a key"));
    let public = keys.signing().public_key().to_pem();
    let secret = jsonwebtoken::EncodingKey::from_secret(public.as_bytes());
    let forged = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims(), &secret).expect("signed");
    assert_eq!(keys.verify(&forged), Err(TokenError::BadSignature));
}

#[test]
fn claims_hold_from_nbf_until_exp() {
    let claims = claims();
    for (now, expect) in [
        (NOW - 1, Err(TokenError::NotYetValid)),
        (NOW, Ok(())),
        (NOW + 3599, Ok(())),
        (NOW + 3600, Err(TokenError::Expired)),
    ] {
        assert_eq!(claims.check_time(now), expect, "{}", now - NOW);
    }
}

#[test]
fn an_audience_may_be_one_text() {
    let keys = keys(key());
    let mut value = serde_json::to_value(claims()).expect("JSON");
    value["aud"] = json!("only");
    let token = keys.sign(&value).expect("signed");
    assert_eq!(keys.verify(&token).expect("verified").aud, ["only"]);
}

#[test]
fn the_key_set_is_enough_to_verify_with() {
    for signing in [key(), PrivateKey::from_pem(RSA_KEY).expect("a key")] {
        let keys = keys(signing);
        let token = keys.sign(&claims()).expect("signed");
        let set: jsonwebtoken::jwk::JwkSet = serde_json::from_str(&jwks(keys.verifying())).expect("a key set");
        let header = jsonwebtoken::decode_header(&*token).expect("a header");
        let jwk = set.find(&header.kid.expect("a kid")).expect("the key");
        let mut validation = jsonwebtoken::Validation::new(header.alg);
        validation.validate_exp = false;
        validation.set_audience(&["https://kubernetes.default.svc"]);
        let decoding = jsonwebtoken::DecodingKey::from_jwk(jwk).expect("a decoding key");
        let decoded = jsonwebtoken::decode::<Claims>(&*token, &decoding, &validation).expect("verified");
        assert_eq!(decoded.claims, claims());
    }
}

#[test]
fn the_metadata_names_issuer_keys_and_algorithms() {
    let rsa = PrivateKey::from_pem(RSA_KEY).expect("a key");
    let keys = ServiceAccountKeys::new(key(), &[rsa.public_key().clone()]).expect("keys");
    let document = issuer_metadata("https://i", "https://i/openid/v1/jwks", keys.verifying());
    assert_eq!(
        serde_json::from_str::<Value>(&document).expect("JSON"),
        json!({
            "issuer": "https://i", "jwks_uri": "https://i/openid/v1/jwks",
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256", "RS256"]
        })
    );
}

#[test]
fn public_keys_are_read_from_every_form() {
    let private = key();
    let public = private.public_key();
    assert_eq!(&PublicKey::from_pem(&public.to_pem()).expect("reads"), public);
    let file = format!("{}{}", public.to_pem(), *private.to_pem());
    assert_eq!(PublicKey::all_from_pem(&file).expect("reads"), [public.clone(), public.clone()]);
    assert!(PublicKey::from_pem("").is_err());
}
