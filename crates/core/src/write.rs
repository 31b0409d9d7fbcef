//! Writes to the platform's API, as data.
//!
//! A patch carries the UID and the resourceVersion of what was observed, so that it fails where
//! somebody else wrote in between; the decision is then made anew on what is there.

use std::fmt;

use allotment_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

/// Namespace and name of an object; the namespace is empty for objects of the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; empty for objects of the whole cluster.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object of the whole cluster.
    pub fn cluster_wide(name: impl Into<String>) -> Self {
        ObjectKey { namespace: String::new(), name: name.into() }
    }

    /// The key of the object with this metadata.
    pub fn of(metadata: &ObjectMeta) -> Self {
        ObjectKey {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    /// Reads `namespace/name`.
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then(|| ObjectKey::new(namespace, name))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// The kinds of ours that decisions write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// ClusterProvider
    ClusterProvider,
    /// Purpose
    Purpose,
    /// Cluster
    Cluster,
    /// ClusterRequest
    ClusterRequest,
    /// ClusterRequestGrant
    ClusterRequestGrant,
    /// AccessRequest
    AccessRequest,
}

impl Kind {
    /// The kind as objects name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::ClusterProvider => "ClusterProvider",
            Kind::Purpose => "Purpose",
            Kind::Cluster => "Cluster",
            Kind::ClusterRequest => "ClusterRequest",
            Kind::ClusterRequestGrant => "ClusterRequestGrant",
            Kind::AccessRequest => "AccessRequest",
        }
    }

    /// The resource as paths name it.
    pub const fn plural(self) -> &'static str {
        match self {
            Kind::ClusterProvider => "clusterproviders",
            Kind::Purpose => "purposes",
            Kind::Cluster => "clusters",
            Kind::ClusterRequest => "clusterrequests",
            Kind::ClusterRequestGrant => "clusterrequestgrants",
            Kind::AccessRequest => "accessrequests",
        }
    }

    /// The `apiVersion` in which it is written.
    pub const fn api_version(self) -> &'static str {
        names::API_VERSION
    }
}

/// One write to the platform's API.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Create the object; it exists already: decide anew.
    Create {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// The whole object, with `apiVersion` and `kind`.
        object: Value,
    },
    /// JSON merge patch (RFC 7386) of the object.
    Patch {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// The patch, with `metadata.uid` and `metadata.resourceVersion` as preconditions.
        patch: Value,
    },
    /// JSON merge patch of the object's status subresource.
    PatchStatus {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// The patch, with `metadata.uid` and `metadata.resourceVersion` as preconditions.
        patch: Value,
    },
    /// Delete the object.
    Delete {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// Precondition: its UID.
        uid: String,
        /// Precondition: its resourceVersion, where the decision rests on its content.
        resource_version: Option<String>,
    },
}

/// The metadata of a patch that fails where the object is not the one observed any more.
pub(crate) fn preconditions(metadata: &ObjectMeta) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("uid".to_owned(), json!(metadata.uid));
    map.insert("resourceVersion".to_owned(), json!(metadata.resource_version));
    map
}

/// The JSON merge patch (RFC 7386) that makes `new` of `old`; absent if they are equal. Arrays are replaced whole.
pub fn merge_diff(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (old, new) if old == new => None,
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, value) in new {
                match old.get(key) {
                    None => _ = patch.insert(key.clone(), value.clone()),
                    Some(have) => {
                        if let Some(change) = merge_diff(have, value) {
                            patch.insert(key.clone(), change);
                        }
                    }
                }
            }
            Some(Value::Object(patch))
        }
        (_, new) => Some(new.clone()),
    }
}

/// Applies a JSON merge patch (RFC 7386).
pub fn merge_apply(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(have) = target {
        for (key, value) in members {
            if value.is_null() {
                have.remove(key);
            } else {
                merge_apply(have.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_applied_gives_the_new_value() {
        let old = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1, 2]});
        let new = json!({"b": {"c": 2, "x": 4}, "e": [1], "f": {"g": 5}});
        let patch = merge_diff(&old, &new).expect("they differ");
        let mut patched = old.clone();
        merge_apply(&mut patched, &patch);
        assert_eq!(patched, new);
        assert_eq!(merge_diff(&new, &new), None);
    }

    #[test]
    fn only_what_differs_is_in_the_patch() {
        let check = |before: Value, after: Value, expect: Option<Value>| {
            assert_eq!(merge_diff(&before, &after), expect, "{before} to {after}");
        };
        check(json!({"a": 1}), json!({"a": 1}), None);
        check(json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3}), Some(json!({"b": 3})));
        check(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"c": 2}}), Some(json!({"a": {"b": null}})));
        check(json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]})));
        check(json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}})));
    }
}
