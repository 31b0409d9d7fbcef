//! `/livez`, `/readyz` and `/healthz`: whether the server works, check by check.

use std::fmt::Debug;
use std::time::Duration;

use allotment_store::StoreError;
use async_trait::async_trait;
use http::Response;

use crate::body::ResponseBody;
use crate::nonresource::plain;
use crate::query::Query;
use crate::server::{ApiServer, Context};
use crate::service::plain_not_found;

/// How long the store may take to answer before it counts as failed.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// A check of readiness that others add: whether controllers have synced, say.
#[async_trait]
pub trait ReadinessCheck: Debug + Send + Sync + 'static {
    /// Its name in `/readyz?verbose`.
    fn name(&self) -> &str;

    /// Why it fails; the text is shown to whoever may ask.
    async fn check(&self) -> Result<(), String>;
}

/// Answers `/readyz`, `/readyz/NAME` and the like.
pub(crate) async fn answer(cx: &Context, segments: &[&str], query: &Query) -> Response<ResponseBody> {
    let endpoint = segments[0];
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut results = vec![("ping".to_owned(), Ok(()))];
    // Liveness is the process alone: restarting it heals no store.
    if endpoint != "livez" {
        results.push(("store".to_owned(), store(&cx.server).await));
        for check in cx.server.readiness_checks() {
            results.push((check.name().to_owned(), check.check().await));
        }
    }
    if let Some(name) = segments.get(1) {
        return match results.iter().find(|(have, _)| have == name) {
            Some((_, Ok(()))) => plain(200, "ok"),
            Some((_, Err(reason))) => plain(500, format!("internal server error: {reason}\n")),
            None => plain_not_found(),
        };
    }
    let failed = results.iter().any(|(name, result)| result.is_err() && !excluded.contains(&name.as_str()));
    if !failed && !query.flag("verbose") {
        return plain(200, "ok");
    }
    let mut text = String::new();
    for (name, result) in &results {
        text.push_str(&match result {
            _ if excluded.contains(&name.as_str()) => format!("[+]{name} excluded: ok\n"),
            Ok(()) => format!("[+]{name} ok\n"),
            Err(reason) => format!("[-]{name} failed: {reason}\n"),
        });
    }
    let verdict = if failed { "failed" } else { "passed" };
    text.push_str(&format!("{endpoint} check {verdict}\n"));
    plain(if failed { 500 } else { 200 }, text)
}

async fn store(server: &ApiServer) -> Result<(), String> {
    let answer = async {
        server.store().revision().await?;
        server.store().writable().await
    };
    match tokio::time::timeout(STORE_TIMEOUT, answer).await {
        Ok(Ok(())) => Ok(()),
        // Who takes no writes any more is nobody to send clients to, although reads go on.
        Ok(Err(error @ StoreError::ReadOnly { .. })) => Err(format!("{error}; mend the disk and start it again")),
        Ok(Err(_)) => Err("the store does not answer".to_owned()),
        Err(_) => Err(format!("the store has not answered for {} s", STORE_TIMEOUT.as_secs())),
    }
}
