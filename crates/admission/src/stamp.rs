//! Who created an AccessRequest: stamped at creation whatever was sent, never changed after.

use allotment_api::requests::RequestedBy;
use allotment_machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::review::{Denial, Operation, Request};

/// Puts the creator into `spec.requestedBy`. The platform may copy one that was stamped before.
pub(crate) fn requested_by(request: &Request<'_>, platform: bool, object: &mut Value) -> Result<(), Denial> {
    if !object["spec"].is_object() {
        return Ok(());
    }
    let sent = object["spec"]["requestedBy"].clone();
    if request.operation == Operation::Create {
        if !(platform && sent.is_object()) {
            let caller = request.caller;
            let stamp = RequestedBy {
                username: caller.username.clone(),
                uid: caller.uid.clone(),
                groups: caller.groups.clone(),
            };
            object["spec"]["requestedBy"] = json!(stamp);
        }
        return Ok(());
    }
    let stored = request.old_object["spec"]["requestedBy"].clone();
    if !sent.is_null() && sent != stored {
        let path = Path::new("spec").child("requestedBy");
        return Err(Denial::Invalid(vec![FieldError::forbidden(&path, "is stamped at creation and never changes")]));
    }
    if sent.is_null() && !stored.is_null() {
        object["spec"]["requestedBy"] = stored;
    }
    Ok(())
}
