//! What is told of an API server's answer to those who may not read what was asked of it.
//!
//! # Guarantees
//! Nothing that a server wrote is passed on but a code and a word of Kubernetes'. A server says back what it was asked with:
//! of a policy that it does not take, the names of all tenants; a proxy before it, perhaps the credential. What it wrote is for
//! the log.

/// The words for what is the matter that Kubernetes has (`metav1.StatusReason`).
const REASONS: [&str; 19] = [
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
];

/// An answer of that code and reason, for anybody: `503 ServiceUnavailable`.
pub fn answer(code: u16, reason: &str) -> String {
    match REASONS.iter().find(|known| **known == reason) {
        Some(known) => format!("{code} {known}"),
        None => code.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_of_an_answer_but_its_code_and_a_word_of_kubernetes() {
        for (code, reason, expect) in [
            (503, "ServiceUnavailable", "503 ServiceUnavailable"),
            (422, "Invalid", "422 Invalid"),
            (403, "Forbidden\nAuthorization: Bearer abc", "403"),
            (500, "Authorization: Bearer abc", "500"),
            (502, "", "502"),
            (404, "notfound", "404"),
        ] {
            assert_eq!(answer(code, reason), expect, "{code} {reason:?}");
        }
    }
}
