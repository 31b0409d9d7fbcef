//! What every key space begins with: namespaces and bootstrap roles.

use allotment_machinery::json;
use allotment_machinery::json::Value;
use allotment_machinery::object::Encoded;
use allotment_pki::token_digest;
use allotment_store::{Resource, Template, TemplateEntry};
use jiff::Timestamp;

use crate::auth::bootstrap_policy;
use crate::endpoints::metadata::format_time;

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The first objects of a key space. The same `created` gives the same template, UIDs included, so that
/// all tenants share it.
pub fn bootstrap_template(created: Timestamp) -> Template {
    let mut entries = bootstrap_policy(created);
    entries.extend(NAMESPACES.iter().filter_map(|name| namespace(name, created)));
    Template { id: format!("bootstrap-{}", created.as_second()), entries }
}

fn namespace(name: &str, created: Timestamp) -> Option<TemplateEntry> {
    let object = json!({
        "metadata": {
            "name": name, "uid": (uid_of(name)), "creationTimestamp": (format_time(created)),
            "labels": {"kubernetes.io/metadata.name": name}
        },
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}
    });
    let Value::Object(object) = object else { return None };
    let body = Encoded::of(&object)?;
    Some(TemplateEntry { resource: Resource::new("namespaces", ""), namespace: "".into(), name: name.into(), body })
}

/// A UID that the name alone decides, in the form of a random one.
fn uid_of(name: &str) -> String {
    let digest = token_digest(format!("namespaces/{name}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
