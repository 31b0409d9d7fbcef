//! Who asks, and may they: authentication and authorization.
//!
//! A request carries a client certificate, a bearer token or nothing; [`authenticate()`] says whose it is,
//! [`impersonate()`] whom it is to be taken for, [`authorize`] whether the tenant's roles allow it. What
//! clients can ask about that (reviews) and get (tokens) stands in [`reviews`] and [`token`].

mod access;
mod action;
mod authenticate;
mod forbidden;
mod impersonate;
mod openid;
mod rbac;
mod reviews;
mod token;
mod user;

pub use access::{Access, AccessConfig, PeerCertificates, ServiceAccountIssuer};
pub(crate) use access::{authorize, decide};
pub(crate) use action::{Action, What};
pub(crate) use authenticate::authenticate;
pub(crate) use forbidden::forbidden;
pub(crate) use impersonate::impersonate;
pub(crate) use openid::{OpenIdDocument, openid_document};
pub use rbac::bootstrap_policy;
pub(crate) use rbac::{Aggregation, check_escalation, run_aggregation};
pub use reviews::{LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectReview, SelfSubjectRulesReview};
pub use reviews::{SubjectAccessReview, TokenReview};
pub(crate) use token::mint_secret_token;
pub use token::{MintedToken, TokenRequest, TokenSpec, mint_service_account_token};
pub use user::{
    GROUP_AUTHENTICATED, GROUP_MASTERS, GROUP_SERVICE_ACCOUNTS, GROUP_UNAUTHENTICATED, USER_ANONYMOUS, UserInfo,
    service_account_user,
};

use crate::request::RequestInfo;

/// What authorization says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Allow {
        /// Which rule says so.
        reason: String,
    },
    /// Nothing says yes.
    NoOpinion {
        /// What was in the way of looking everything up; usually empty.
        reason: String,
    },
}

/// What is to be authorized: one action, mostly that of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// Who.
    pub user: &'a UserInfo,
    /// With what.
    pub request: &'a RequestInfo,
    /// What: the request's verb, or another one that it takes a right to.
    pub verb: &'a str,
}

#[cfg(test)]
mod tests;
