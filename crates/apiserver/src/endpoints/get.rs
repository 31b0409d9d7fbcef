//! Get: one object as it is now.

use super::store;
use super::{Call, Reply};
use crate::status::ApiError;
use allotment_store::Revision;

/// Answers a GET on an object.
pub(super) async fn get(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Call { cx, row, .. } = call;
    if call.query.flag("export") {
        return Err(ApiError::bad_request("the export parameter, deprecated since v1.14, is no longer supported"));
    }
    let key = store::named(call)?;
    check_revision(call).await?;
    let entry = store::get(cx, row, &key).await?;
    Ok(Reply::Object { code: 200, body: entry.body().into_owned() })
}

/// The newest state is always new enough, unless the client has seen a revision that we have not.
pub(super) async fn check_revision(call: &Call<'_>) -> Result<(), ApiError> {
    let text = call.query.text("resourceVersion");
    if text.is_empty() || text == "0" {
        return Ok(());
    }
    let asked = text.parse().map(Revision).map_err(|_| {
        let message =
            format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
        ApiError::new(500, "", message)
    })?;
    let current = call.cx.server.store().revision().await.map_err(|error| store::api_error(&error))?;
    if asked > current { Err(store::too_large_version(asked, current)) } else { Ok(()) }
}
