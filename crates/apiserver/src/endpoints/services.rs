//! What writes of Services need beyond other writes: cluster addresses and node ports, held while the write
//! runs.

use allotment_machinery::json::Map;
use allotment_machinery::object::metadata_str;

use crate::builtin::Refusal;
use crate::registry::Row;
use crate::server::{Claims, Context, Held, Outcome};
use crate::status::ApiError;

fn is_service(row: &Row) -> bool {
    row.kind.group.is_empty() && row.kind.plural == "services"
}

/// Gives a Service that is created or changed what it needs, before it is judged. The claims are held until
/// what is returned is dropped; `None` for all other kinds.
pub(super) async fn before_write(
    cx: &Context,
    row: &Row,
    old: Option<&Map>,
    object: &mut Map,
) -> Result<Option<Held>, ApiError> {
    if !is_service(row) || !cx.info.subresource.is_empty() {
        return Ok(None);
    }
    let text = |field: &str| metadata_str(object, field).unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    match Claims::allocate(cx, (&namespace, &name), old, object).await {
        Ok(held) => Ok(Some(held)),
        Err(Outcome::Failed(error)) => Err(error),
        Err(Outcome::Refused(Refusal::Full(why))) => Err(ApiError::internal(why)),
        Err(Outcome::Refused(Refusal::Invalid(errors))) => {
            Err(ApiError::invalid(row.kind.shown_group(), &row.kind.kind, &name, &errors))
        }
    }
}

/// Gives back what a write held, unless nobody knows whether the write came to be.
pub(super) fn after_write(held: Option<Held>, error: Option<&ApiError>) {
    const UNKNOWN: u16 = 504;
    if let Some(held) = held
        && error.is_some_and(|error| error.code == UNKNOWN)
    {
        held.keep();
    }
}
