//! What decides who a tenant's clients are and what they may: authenticators, keys, the RBAC index.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use allotment_pki::{CaBundle, ServiceAccountKeys, token_digest};
use allotment_store::Event;
use rustls_pki_types::CertificateDer;

use super::authenticate::Verified;
use super::impersonate::Remembered;
use super::rbac::RbacIndex;
use super::user::{GROUP_AUTHENTICATED, GROUP_MASTERS};
use super::{Action, Attributes, Decision, UserInfo};
use crate::server::{ApiServer, TenantState};

/// Certificates, keys and tokens that a tenant is made with. Never shown.
#[derive(Clone, Default)]
pub struct AccessConfig {
    /// Bearer tokens that are known from the start, and whose they are.
    pub static_tokens: Vec<(String, UserInfo)>,
    /// The CAs whose client certificates count; none count where there is none.
    pub client_authorities: CaBundle,
    /// Who issues the tokens of service accounts; without one there are no such tokens.
    pub service_accounts: Option<ServiceAccountIssuer>,
    /// Whether requests without credentials are let through as `system:anonymous`.
    pub anonymous: bool,
}

/// The issuer of a tenant's service-account tokens.
#[derive(Clone, Debug)]
pub struct ServiceAccountIssuer {
    /// The `iss` of tokens: an https URL.
    pub issuer: String,
    /// The keys: one signs, all verify.
    pub keys: ServiceAccountKeys,
    /// The audiences of this API; the issuer where empty.
    pub audiences: Vec<String>,
}

impl ServiceAccountIssuer {
    /// The audiences of this API: what a token has to be for, and is for unless asked otherwise.
    pub fn api_audiences(&self) -> Vec<String> {
        if self.audiences.is_empty() { vec![self.issuer.clone()] } else { self.audiences.clone() }
    }
}

/// A tenant's authenticators and access rules.
pub struct Access {
    /// By SHA-256 of the token, so that no comparison of secrets takes a time that tells something.
    static_tokens: Vec<([u8; 32], UserInfo)>,
    anonymous: bool,
    authorities: RwLock<Arc<CaBundle>>,
    issuer: RwLock<Option<Arc<ServiceAccountIssuer>>>,
    pub(super) verified: Verified,
    pub(super) impersonated: Remembered,
    pub(super) rbac: RbacIndex,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

/// The certificate chain that the peer of a connection proved to possess, leaf first; in the extensions
/// of each request that came over it. Nothing has checked yet who signed it.
#[derive(Clone, Debug)]
pub struct PeerCertificates {
    chain: Arc<[CertificateDer<'static>]>,
    digest: [u8; 32],
}

impl PeerCertificates {
    /// The chain of a connection.
    pub fn new(chain: &[CertificateDer<'_>]) -> Self {
        let whole: Vec<u8> = chain.iter().flat_map(|certificate| certificate.iter().copied()).collect();
        let owned = chain.iter().map(|certificate| certificate.clone().into_owned());
        PeerCertificates { chain: owned.collect(), digest: token_digest(&whole) }
    }

    /// The certificates.
    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Names the chain: SHA-256 of its certificates, one after the other.
    pub(super) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

impl Access {
    pub(crate) fn new(config: AccessConfig) -> Self {
        let known = |(token, mut user): (String, UserInfo)| {
            user.add_group(GROUP_AUTHENTICATED);
            (token_digest(token.as_bytes()), user)
        };
        Access {
            static_tokens: config.static_tokens.into_iter().map(known).collect(),
            anonymous: config.anonymous,
            authorities: RwLock::new(Arc::new(config.client_authorities)),
            issuer: RwLock::new(config.service_accounts.map(Arc::new)),
            verified: Verified::default(),
            impersonated: Remembered::default(),
            rbac: RbacIndex::default(),
        }
    }

    /// Follows one change of a role, binding or whatever else access depends on. Called for every event
    /// of the tenant, in order.
    pub(crate) fn apply(&self, event: &Event) {
        self.rbac.apply(event);
    }

    /// Events were missed: what is known of roles and bindings is read again when it is next needed.
    pub(crate) fn reset(&self) {
        self.rbac.reset();
    }

    /// The CAs whose client certificates count.
    pub fn client_authorities(&self) -> Arc<CaBundle> {
        Arc::clone(&self.authorities.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the CAs whose client certificates count.
    pub fn set_client_authorities(&self, authorities: CaBundle) {
        *self.authorities.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(authorities);
        self.verified.forget();
    }

    /// Who issues the tokens of service accounts.
    pub fn service_account_issuer(&self) -> Option<Arc<ServiceAccountIssuer>> {
        self.issuer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the issuer of service-account tokens, or its keys.
    pub fn set_service_account_issuer(&self, issuer: Option<ServiceAccountIssuer>) {
        *self.issuer.write().unwrap_or_else(PoisonError::into_inner) = issuer.map(Arc::new);
        self.verified.forget();
    }

    /// Whether requests without credentials are let through.
    pub(super) fn allows_anonymous(&self) -> bool {
        self.anonymous
    }

    /// Whose a bearer token from the configuration is.
    pub(super) fn static_token(&self, token: &str) -> Option<&UserInfo> {
        if self.static_tokens.is_empty() {
            return None;
        }
        let digest = token_digest(token.as_bytes());
        self.static_tokens.iter().find(|(known, _)| *known == digest).map(|(_, user)| user)
    }
}

/// Whether the action is allowed.
pub(crate) async fn authorize(server: &ApiServer, tenant: &TenantState, attributes: &Attributes<'_>) -> Decision {
    decide(server, tenant, attributes.user, &Action::of(attributes.request, attributes.verb)).await
}

/// Whether `user` may do it.
pub(crate) async fn decide(server: &ApiServer, tenant: &TenantState, user: &UserInfo, action: &Action<'_>) -> Decision {
    if user.is_in(GROUP_MASTERS) {
        return Decision::Allow { reason: String::new() };
    }
    let decided = tenant.access.rbac.ask(server.store(), &tenant.tenant, |policy| policy.decide(user, action)).await;
    // Whoever wrote roles before may have ended before their aggregates were brought up to date.
    if tenant.access.rbac.take_fresh() {
        server.aggregation().mark(&tenant.tenant);
    }
    decided.unwrap_or_else(|error| Decision::NoOpinion { reason: format!("RBAC: {error}") })
}
