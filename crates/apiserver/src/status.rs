//! Errors as Kubernetes answers them: a `Status` object with reason, details and causes.

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, MAX_ERRORS};
use allotment_machinery::gotext::go_quote;
use allotment_machinery::json;
use allotment_machinery::json::Value;

/// The most bytes of faults that one answer lists; each of them may show a large value.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// An error that a client is answered with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable reason; empty where Kubernetes gives none.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// What it is about; boxed since most of the program passes errors on.
    pub details: Option<Box<Details>>,
}

/// What an error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// Its API group.
    pub group: String,
    /// Its kind, or resource.
    pub kind: String,
    /// Its UID.
    pub uid: String,
    /// What exactly is wrong.
    pub causes: Vec<Cause>,
    /// Seconds after which to try again.
    pub retry_after_seconds: u32,
    /// A token to go on listing with, though not consistently; it stands in the Status' metadata.
    pub continue_token: String,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason.
    pub reason: String,
    /// What a person reads.
    pub message: String,
    /// The field, as a path.
    pub field: String,
}

/// The resource that an error names: `roles.rbac.authorization.k8s.io "x" not found`.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural resource name, or the kind where Kubernetes names kinds.
    pub resource: &'a str,
    /// Object name; may be empty.
    pub name: &'a str,
}

impl About<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() { self.resource.to_owned() } else { format!("{}.{}", self.resource, self.group) }
    }

    fn details(&self) -> Details {
        Details {
            name: self.name.to_owned(),
            group: self.group.to_owned(),
            kind: self.resource.to_owned(),
            ..Details::default()
        }
    }
}

impl ApiError {
    /// 429: somebody asks for more than is his share; to be tried again in a second.
    pub(crate) fn too_many_requests(message: &str) -> Self {
        let details = Details { retry_after_seconds: 1, ..Details::default() };
        ApiError { details: Some(Box::new(details)), ..ApiError::new(429, "TooManyRequests", message) }
    }

    /// An error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        ApiError { code, reason, message: message.into(), details: None }
    }

    /// The same error with details, though there is nothing to say in them: `details: {}`.
    #[must_use]
    pub(crate) fn with_details(mut self) -> Self {
        self.details.get_or_insert_default();
        self
    }

    fn about(code: u16, reason: &'static str, about: About<'_>, message: String) -> Self {
        ApiError { code, reason, message, details: Some(Box::new(about.details())) }
    }

    /// 404: no such object.
    pub fn not_found(about: About<'_>) -> Self {
        let message = format!("{} {} not found", about.qualified(), go_quote(about.name));
        ApiError::about(404, "NotFound", about, message)
    }

    /// 409: the name is taken.
    pub fn already_exists(about: About<'_>) -> Self {
        let message = format!("{} {} already exists", about.qualified(), go_quote(about.name));
        ApiError::about(409, "AlreadyExists", about, message)
    }

    /// 409: somebody else was faster, or a precondition does not hold.
    pub fn conflict(about: About<'_>, why: &str) -> Self {
        let (what, name) = (about.qualified(), go_quote(about.name));
        let message = format!("Operation cannot be fulfilled on {what} {name}: {why}");
        ApiError::about(409, "Conflict", about, message)
    }

    /// 403.
    pub fn forbidden(about: About<'_>, why: &str) -> Self {
        let message = match (about.resource, about.name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", about.qualified()),
            (_, name) => format!("{} {} is forbidden: {why}", about.qualified(), go_quote(name)),
        };
        ApiError::about(403, "Forbidden", about, message)
    }

    /// 422: fields are wrong. `kind` is the kind, not the resource.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let about = About { group, resource: kind, name };
        let (list, causes) = shown_errors(errors);
        let message = format!("{} {} is invalid: {list}", about.qualified(), go_quote(name));
        let details = Details { causes, ..about.details() };
        ApiError { code: 422, reason: "Invalid", message, details: Some(Box::new(details)) }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        ApiError::new(400, "BadRequest", message)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        ApiError::new(401, "Unauthorized", "Unauthorized")
    }

    /// 500: our fault. The message must not hold secrets.
    pub fn internal(message: impl Into<String>) -> Self {
        let text = message.into();
        let details =
            Details { causes: vec![Cause { message: text.clone(), ..Cause::default() }], ..Details::default() };
        ApiError {
            code: 500,
            reason: "InternalError",
            message: format!("Internal error occurred: {text}"),
            details: Some(Box::new(details)),
        }
    }

    /// 404: the path names no resource.
    pub fn unknown_resource() -> Self {
        ApiError::new(404, "NotFound", "the server could not find the requested resource").with_details()
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        ApiError::new(405, "MethodNotAllowed", message).with_details()
    }

    /// 410: the history asked for is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        ApiError::new(410, "Expired", message)
    }

    /// 413.
    pub fn too_large(message: impl std::fmt::Display) -> Self {
        ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: {message}"))
    }

    /// 503: try again in a second.
    pub fn unavailable(message: impl Into<String>) -> Self {
        let details = Details { retry_after_seconds: 1, ..Details::default() };
        ApiError { details: Some(Box::new(details)), ..ApiError::new(503, "ServiceUnavailable", message) }
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": (self.message.as_str()), "code": (i64::from(self.code))
        });
        if let Some(map) = status.as_object_mut() {
            if !self.reason.is_empty() {
                map.insert("reason", self.reason);
            }
            if let Some(details) = &self.details {
                map.insert("details", details.to_value());
                if !details.continue_token.is_empty() {
                    map.insert("metadata", json!({ "continue": (details.continue_token.as_str()) }));
                }
            }
        }
        status
    }
}

/// Errors as the message lists them and as causes, as many as are worth an answer.
fn shown_errors(errors: &[FieldError]) -> (String, Vec<Cause>) {
    // One text stands once, however many causes have it.
    let mut seen = BTreeSet::new();
    let mut texts = Vec::new();
    let mut causes = Vec::new();
    let mut bytes = 0;
    for error in errors.iter().take(MAX_ERRORS) {
        let text = error.to_string();
        bytes += text.len();
        if bytes > MAX_ERROR_BYTES && !causes.is_empty() {
            break;
        }
        causes.push(Cause { reason: error.reason().to_owned(), message: error.body(), field: error.path.to_string() });
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    if causes.len() < errors.len() {
        texts.push(format!("and {} more", errors.len() - causes.len()));
    }
    let list = if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) };
    (if errors.is_empty() { String::new() } else { list }, causes)
}

impl Details {
    fn to_value(&self) -> Value {
        let mut map = allotment_machinery::json::Map::new();
        let mut set = |key: &str, text: &str| {
            if !text.is_empty() {
                map.insert(key, text);
            }
        };
        set("name", &self.name);
        set("group", &self.group);
        set("kind", &self.kind);
        set("uid", &self.uid);
        if !self.causes.is_empty() {
            map.insert("causes", self.causes.iter().map(Cause::to_value).collect::<Vec<_>>());
        }
        if self.retry_after_seconds > 0 {
            map.insert("retryAfterSeconds", i64::from(self.retry_after_seconds));
        }
        Value::Object(map)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let members = [("reason", &self.reason), ("message", &self.message), ("field", &self.field)];
        let present = members.into_iter().filter(|(_, text)| !text.is_empty());
        Value::Object(present.map(|(key, text)| (key.to_owned(), Value::from(text.as_str()))).collect())
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::field::Path;

    use super::*;

    #[test]
    fn an_answer_stays_small_however_much_is_wrong() {
        let long = "x".repeat(60_000);
        for (value, most) in [("short", 100_000), (long.as_str(), 3 << 20)] {
            let path = |index| Path::new("spec").child("list").index(index);
            let errors: Vec<FieldError> =
                (0..50_000).map(|index| FieldError::invalid(&path(index), value, "is wrong")).collect();
            let error = ApiError::invalid("", "ConfigMap", "c", &errors);
            let size = error.to_value().to_vec().len();
            assert!(size < most, "{size} bytes");
            assert!(error.message.contains("spec.list[0]: Invalid value"), "the first faults are told");
            let told = error.details.expect("has details").causes.len();
            assert!(error.message.ends_with(&format!("and {} more]", 50_000 - told)), "the rest is counted");
        }
    }

    #[test]
    fn one_text_stands_once_however_many_causes_have_it() {
        let error = FieldError::required(&Path::new("a"), "");
        let answer = ApiError::invalid("g", "K", "n", &[error.clone(), error]);
        assert_eq!(answer.message, "K.g \"n\" is invalid: a: Required value");
        assert_eq!(answer.details.expect("has details").causes.len(), 2);
    }
}
