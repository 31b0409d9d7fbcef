//! What decides who a tenant's clients are and what they may: authenticators, keys, the RBAC index.

use allotment_store::Event;
use http::request::Parts;
use rustls_pki_types::CertificateDer;

use super::{Attributes, Decision, UserInfo};
use crate::server::{ApiServer, TenantState};
use crate::status::ApiError;

/// Certificates, keys and tokens that a tenant is made with. Never shown.
#[derive(Clone, Default)]
pub struct AccessConfig {
    /// Bearer tokens that are known from the start, and whose they are.
    pub static_tokens: Vec<(String, UserInfo)>,
}

/// A tenant's authenticators and access rules.
pub struct Access {
    config: AccessConfig,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

/// The certificate chain that the peer of a connection proved to possess, leaf first; in the extensions
/// of each request that came over it. Nothing has checked yet who signed it.
#[derive(Clone, Debug)]
pub struct PeerCertificates(pub std::sync::Arc<[CertificateDer<'static>]>);

impl Access {
    pub(crate) fn new(config: AccessConfig) -> Self {
        Access { config }
    }

    /// Follows one change of a role, binding or whatever else access depends on. Called for every event
    /// of the tenant, in order.
    pub(crate) fn apply(&self, _event: &Event) {}
}

/// Who sends this request; `None` where it carries no credentials. Bad credentials are an error (401).
/// In-process callers are known by the [`UserInfo`] in the request's extensions and do not come here.
pub(crate) async fn authenticate(
    _server: &ApiServer,
    tenant: &TenantState,
    parts: &Parts,
) -> Result<Option<UserInfo>, ApiError> {
    let Some(header) = parts.headers.get(http::header::AUTHORIZATION) else { return Ok(None) };
    let token = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).map(str::trim);
    let found = tenant.access.config.static_tokens.iter().find(|(known, _)| Some(known.as_str()) == token);
    found.map(|(_, user)| Some(user.clone())).ok_or_else(ApiError::unauthorized)
}

/// The identity that the request asks to be taken for, if `user` may take it; `user` itself where it
/// asks for none.
pub(crate) async fn impersonate(
    _server: &ApiServer,
    _tenant: &TenantState,
    user: UserInfo,
    _parts: &Parts,
) -> Result<UserInfo, ApiError> {
    Ok(user)
}

/// Whether the action is allowed.
pub(crate) async fn authorize(_server: &ApiServer, _tenant: &TenantState, attributes: &Attributes<'_>) -> Decision {
    if attributes.user.groups.iter().any(|group| group == "system:masters") {
        Decision::Allow { reason: String::new() }
    } else {
        Decision::NoOpinion { reason: String::new() }
    }
}
