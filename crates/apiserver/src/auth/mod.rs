//! Who asks, and may they: authentication and authorization.

mod access;
mod user;

pub use access::{Access, AccessConfig, PeerCertificates};
#[expect(unused_imports, reason = "the service calls them")]
pub(crate) use access::{authenticate, authorize, impersonate};
pub use user::UserInfo;

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

/// What is to be authorized: one action, taken from a request or from an access review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// Who.
    pub user: &'a UserInfo,
    /// What.
    pub request: &'a RequestInfo,
}
