//! Reviews: what may somebody do (`authorization.k8s.io`), and who is that (`authentication.k8s.io`).
//! Nothing is stored; a create is answered with the object and its status.

mod access;
mod identity;
mod rules;
mod validation;

pub use access::{LocalSubjectAccessReview, SelfSubjectAccessReview, SubjectAccessReview};
pub use identity::{SelfSubjectReview, TokenReview};
pub use rules::SelfSubjectRulesReview;

use allotment_machinery::json::{Map, Value};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// What a review is answered with: what was sent, and the status.
fn answer(kind: &str, group: &str, object: &Value, status: Map) -> Value {
    let mut out = Map::new();
    out.insert("kind", kind);
    out.insert("apiVersion", format!("{group}/v1"));
    out.insert("metadata", object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default());
    if let Some(spec) = object.get("spec") {
        out.insert("spec", spec.clone());
    }
    out.insert("status", status);
    Value::Object(out)
}

fn text<'a>(object: Option<&'a Value>, field: &str) -> &'a str {
    object.and_then(|object| object.get(field)).and_then(Value::as_str).unwrap_or_default()
}

fn texts(object: Option<&Value>, field: &str) -> Vec<String> {
    let items = object.and_then(|object| object.get(field)).and_then(Value::as_array).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list(items: impl IntoIterator<Item = String>) -> Vec<Value> {
    items.into_iter().map(Value::from).collect()
}
