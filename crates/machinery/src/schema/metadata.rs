//! Which fields the metadata of an object has, for embedded resources.

use super::prune::join;
use crate::json::{Map, Value};

/// Members of object metadata (`k8s.io/apimachinery/pkg/apis/meta/v1`, ObjectMeta).
const MEMBERS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Drops members from the metadata of an embedded resource that object metadata does not have.
pub(super) fn prune_embedded(resource: &mut Map, path: &str, unknown: &mut Vec<String>) {
    let Some(Value::Object(metadata)) = resource.get_mut("metadata") else { return };
    metadata.retain(|name, _| {
        let known = MEMBERS.contains(&name);
        if !known {
            unknown.push(join(&join(path, "metadata"), name));
        }
        known
    });
}
