//! What a handler is given besides the request's body.

use std::sync::{Arc, Mutex, PoisonError};

use super::{ApiServer, TenantState};
use crate::auth::UserInfo;
use crate::request::RequestInfo;

/// The most warnings that are kept for one answer: no more of them fit into its headers.
const MAX_WARNINGS: usize = 256;

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
    warnings: Mutex<Vec<String>>,
}

impl Context {
    /// A request of `user`.
    pub fn new(server: ApiServer, tenant: Arc<TenantState>, user: Arc<UserInfo>, info: RequestInfo) -> Self {
        Context { server, tenant, user, info, manager: String::new(), warnings: Mutex::default() }
    }

    /// Adds a warning to the answer; the same one only once, and none beyond [`MAX_WARNINGS`].
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// The warnings so far.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
