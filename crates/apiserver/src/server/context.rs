//! What a handler is given besides the request's body.

use std::sync::{Arc, Mutex, PoisonError};

use super::{ApiServer, TenantState};
use crate::auth::UserInfo;
use crate::registry::Warnings;
use crate::request::RequestInfo;

/// One request's surroundings.
#[derive(Debug)]
pub struct Context {
    /// The server.
    pub server: ApiServer,
    /// Whose request it is.
    pub tenant: Arc<TenantState>,
    /// Who asks, after impersonation.
    pub user: Arc<UserInfo>,
    /// What is asked.
    pub info: RequestInfo,
    /// Under which name the request comes to own what it changes; empty for no name.
    pub manager: String,
    warnings: Mutex<Warnings>,
}

impl Context {
    /// A request of `user`.
    pub fn new(server: ApiServer, tenant: Arc<TenantState>, user: Arc<UserInfo>, info: RequestInfo) -> Self {
        Context { server, tenant, user, info, manager: String::new(), warnings: Mutex::default() }
    }

    /// Adds a warning to the answer, if it has room for it.
    pub fn warn(&self, text: impl Into<String>) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    /// The warnings so far.
    pub(crate) fn take_warnings(&self) -> Warnings {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
