//! Kinds and subresources that answer a create without storing anything.

use std::fmt::Debug;

use allotment_machinery::json::Value;
use async_trait::async_trait;

use crate::server::Context;
use crate::status::ApiError;

/// Answers a create of something that is not stored: access reviews, token requests.
#[async_trait]
pub trait Connect: Debug + Send + Sync + 'static {
    /// Answers `object`, which has been decoded, defaulted and validated. For a subresource,
    /// `cx.info.name` and `cx.info.namespace` name the parent, which the implementation looks up.
    async fn create(&self, cx: &Context, object: Value) -> Result<Value, ApiError>;
}
