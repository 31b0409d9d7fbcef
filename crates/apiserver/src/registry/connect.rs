//! Kinds and subresources that answer for themselves: a create without an object that is stored, a way through to
//! somewhere else.

use std::fmt::Debug;

use allotment_machinery::json::Value;
use async_trait::async_trait;

use crate::query::Query;
use crate::server::Context;
use crate::status::ApiError;

/// Answers requests to something that is not an object: access reviews, token requests, the logs of a pod.
#[async_trait]
pub trait Connect: Debug + Send + Sync + 'static {
    /// Answers `object`, which has been decoded, defaulted and validated. For a subresource,
    /// `cx.info.name` and `cx.info.namespace` name the parent, which the implementation looks up.
    async fn create(&self, cx: &Context, object: Value, dry_run: bool) -> Result<Value, ApiError>;

    /// Whether it is a way through to somewhere else: [`Connect::stream`] answers requests of any verb, and their
    /// bodies are not read as objects.
    fn streams(&self) -> bool {
        false
    }

    /// Leads a request through. Where there is nothing at the other end, nothing is answered (204).
    async fn stream(&self, _cx: &Context, _query: &Query) -> Result<(), ApiError> {
        Err(ApiError::method_not_allowed())
    }
}
