//! What others need to verify a tenant's service-account tokens: the documents of OpenID Connect Discovery.

use allotment_pki::{ISSUER_DISCOVERY_PATH, JWKS_PATH, issuer_metadata, jwks};

use crate::server::TenantState;

/// A document and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenIdDocument {
    /// The media type; a client that does not accept it gets 406.
    pub(crate) content_type: &'static str,
    /// The document.
    pub(crate) body: String,
}

/// The document at `path`; `None` for other paths, and where the tenant issues no tokens.
pub(crate) fn openid_document(tenant: &TenantState, path: &str) -> Option<OpenIdDocument> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path != ISSUER_DISCOVERY_PATH && path != JWKS_PATH {
        return None;
    }
    let issuer = tenant.access.service_account_issuer()?;
    let keys = issuer.keys.verifying();
    if path == JWKS_PATH {
        return Some(OpenIdDocument { content_type: "application/jwk-set+json", body: jwks(keys) });
    }
    let jwks_uri = format!("{}{JWKS_PATH}", tenant.server_url);
    Some(OpenIdDocument { content_type: "application/json", body: issuer_metadata(&issuer.issuer, &jwks_uri, keys) })
}
