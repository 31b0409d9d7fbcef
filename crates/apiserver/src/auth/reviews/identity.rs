//! Who is that: of oneself, and of the holder of a token.

use allotment_machinery::json::{Map, Value};
use async_trait::async_trait;

use super::{AUTHENTICATION, answer, list, text, texts};
use crate::auth::UserInfo;
use crate::auth::authenticate::{Refusal, authenticate_token};
use crate::auth::token::format_time;
use crate::auth::user::EXTRA_IN_PROCESS;
use crate::registry::Connect;
use crate::server::Context;
use crate::status::ApiError;

/// Who one is, after impersonation.
#[derive(Clone, Copy, Debug, Default)]
pub struct SelfSubjectReview;

#[async_trait]
impl Connect for SelfSubjectReview {
    async fn create(&self, cx: &Context, _object: Value, _dry_run: bool) -> Result<Value, ApiError> {
        let mut metadata = Map::new();
        metadata.insert("creationTimestamp", format_time(cx.server.clock().now()));
        let mut status = Map::new();
        status.insert("userInfo", user_info(&cx.user));
        let mut object = Map::new();
        object.insert("metadata", metadata);
        Ok(answer("SelfSubjectReview", AUTHENTICATION, &Value::Object(object), status))
    }
}

/// Whose a token is, and for which of the audiences asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenReview;

#[async_trait]
impl Connect for TokenReview {
    async fn create(&self, cx: &Context, object: Value, _dry_run: bool) -> Result<Value, ApiError> {
        let spec = object.get("spec");
        let token = text(spec, "token");
        if token.is_empty() {
            return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
        }
        let mut audiences = texts(spec, "audiences");
        if audiences.is_empty() {
            audiences =
                cx.tenant.access.service_account_issuer().map(|issuer| issuer.api_audiences()).unwrap_or_default();
        }
        let mut status = Map::new();
        match authenticate_token(&cx.server, &cx.tenant, token, &audiences).await {
            Ok(holder) => {
                status.insert("authenticated", true);
                status.insert("user", user_info(&holder.user));
                if !holder.audiences.is_empty() {
                    status.insert("audiences", list(holder.audiences));
                }
            }
            Err(Refusal::Failed(error)) => return Err(error),
            Err(refusal) => {
                status.insert("user", Map::new());
                status.insert("error", refusal.to_review_error());
            }
        }
        Ok(answer("TokenReview", AUTHENTICATION, &object, status))
    }
}

fn user_info(user: &UserInfo) -> Map {
    let mut out = Map::new();
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            out.insert(field, text.as_str());
        }
    }
    if !user.groups.is_empty() {
        out.insert("groups", list(user.groups.iter().cloned()));
    }
    let shown = user.extra.iter().filter(|(key, _)| *key != EXTRA_IN_PROCESS);
    let extra: Map = shown.map(|(key, values)| (key.clone(), Value::Array(list(values.iter().cloned())))).collect();
    if !extra.is_empty() {
        out.insert("extra", extra);
    }
    out
}
