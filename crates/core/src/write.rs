//! Writes to the platform's API, as data.
//!
//! What a controller owns it applies: a configuration says all that the controller wants to own of the object
//! (or of its status) from now on, whoever else owns a part of it. What goes is taken away by a patch, since an
//! apply takes back only what the same manager applied before; and so is written what several write together.
//!
//! Both carry the UID and the resourceVersion of what was observed, so that they fail where somebody else wrote
//! in between; the decision is then made anew on what is there.

use std::fmt;

use allotment_api::names;
use allotment_machinery::json::write_string;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
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

    /// Whether this is how the key is written, `namespace/name`.
    pub(crate) fn is_written(&self, text: &str) -> bool {
        text.split_once('/') == Some((&self.namespace, &self.name))
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

/// What a write sends, as JSON text: it goes to the server as it is, and making trees of values of it would cost more than
/// most decisions do. Two are equal if their texts are.
#[derive(Clone, PartialEq, Eq)]
pub struct Body(String);

impl Body {
    /// That object.
    pub(crate) fn of<T: Serialize + ?Sized>(object: &T) -> Self {
        Body(serde_json::to_string(object).expect(SERIALISES))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the text says, for those that look into it.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).expect("it was written as JSON")
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
        object: Body,
    },
    /// Server-side apply (KEP-555) to the object, by force.
    Apply {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// All that its writer wants to own but the status, with `apiVersion`, `kind` and, in `metadata`, the
        /// name and the preconditions.
        object: Body,
    },
    /// Server-side apply to the object's status subresource, by force.
    ApplyStatus {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// All that its writer wants to own of the status, with what [`Write::Apply`] has beside it.
        object: Body,
    },
    /// JSON merge patch (RFC 7386) of the object.
    Patch {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// The patch, with `metadata.uid` and `metadata.resourceVersion` as preconditions.
        patch: Body,
    },
    /// JSON merge patch of the object's status subresource.
    PatchStatus {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// The patch, with `metadata.uid` and `metadata.resourceVersion` as preconditions.
        patch: Body,
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

/// A configuration to apply: its metadata, with these members and the preconditions.
pub(crate) fn configuration(kind: Kind, metadata: &ObjectMeta, members: Map<String, Value>) -> Value {
    let mut applied = preconditions(metadata);
    applied.insert("name".to_owned(), json!(metadata.name));
    if let Some(namespace) = &metadata.namespace {
        applied.insert("namespace".to_owned(), json!(namespace));
    }
    applied.extend(members);
    json!({ "apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": applied })
}

/// The write that makes the status `new` of `old`, both as JSON, where it says something new. `own` is the
/// part of `new` that the writer owns: all of it where nobody else writes there.
pub(crate) fn write_status(kind: Kind, metadata: &ObjectMeta, old: &Value, new: &Value, own: Value) -> Option<Write> {
    let change = merge_diff(old, new)?;
    if takes_away(old, new) {
        let patch = Body::of(&json!({ "metadata": preconditions(metadata), "status": change }));
        return Some(Write::PatchStatus { kind, key: ObjectKey::of(metadata), patch });
    }
    Some(apply_status(kind, metadata, |text| write_json(&own, text)))
}

/// The write of a status from which nothing goes. `status` appends what its writer owns of it, as JSON.
pub(crate) fn apply_status(kind: Kind, metadata: &ObjectMeta, status: impl FnOnce(&mut Vec<u8>)) -> Write {
    let mut text = Vec::with_capacity(USUAL_LENGTH);
    let member = |begin: &str, member: &Option<String>, text: &mut Vec<u8>| {
        text.extend_from_slice(begin.as_bytes());
        match member {
            Some(member) => write_string(member, text),
            None => text.extend_from_slice(b"null"),
        }
    };
    text.extend_from_slice(b"{\"apiVersion\":");
    write_string(kind.api_version(), &mut text);
    text.extend_from_slice(b",\"kind\":");
    write_string(kind.as_str(), &mut text);
    member(",\"metadata\":{\"name\":", &metadata.name, &mut text);
    if metadata.namespace.is_some() {
        member(",\"namespace\":", &metadata.namespace, &mut text);
    }
    member(",\"resourceVersion\":", &metadata.resource_version, &mut text);
    member(",\"uid\":", &metadata.uid, &mut text);
    text.extend_from_slice(b"},\"status\":");
    status(&mut text);
    text.push(b'}');
    Write::ApplyStatus {
        kind,
        key: ObjectKey::of(metadata),
        object: Body(String::from_utf8(text).expect("JSON is UTF-8")),
    }
}

/// Why writing one of our objects as JSON cannot fail.
const SERIALISES: &str = "their keys are strings, and memory takes all";

/// Bytes of a status and what goes with it, as most are.
const USUAL_LENGTH: usize = 1024;

/// Appends an object as JSON.
pub(crate) fn write_json<T: Serialize + ?Sized>(object: &T, text: &mut Vec<u8>) {
    serde_json::to_writer(text, object).expect(SERIALISES);
}

/// An object without its members that are null.
pub(crate) fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(members) = &mut value {
        members.retain(|_, member| !member.is_null());
    }
    value
}

/// Whether `new` lacks a member of `old`, or an element of a list that is told apart by `type`. What other lists
/// hold is one value.
fn takes_away(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => old.iter().any(|(name, value)| match new.get(name) {
            Some(new) => takes_away(value, new),
            None => true,
        }),
        (Value::Array(old), Value::Array(new)) => {
            let type_of = |value: &Value| value.get("type").cloned();
            old.iter().filter(|value| value.get("type").is_some()).any(|value| {
                let same = new.iter().find(|new| type_of(new) == type_of(value));
                same.is_none_or(|new| takes_away(value, new))
            })
        }
        (old, new) => !old.is_null() && new.is_null(),
    }
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
    fn a_status_that_loses_nothing_is_applied() {
        let metadata = ObjectMeta {
            name: Some("n".into()),
            uid: Some("u".into()),
            resource_version: Some("7".into()),
            ..ObjectMeta::default()
        };
        let write = |old: &Value, new: &Value| write_status(Kind::Cluster, &metadata, old, new, json!({"own": 1}));
        let applied = |old: Value, new: Value| matches!(write(&old, &new), Some(Write::ApplyStatus { .. }));
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        assert_eq!(write(&json!({"a": 1}), &json!({"a": 1})), None);
        assert!(applied(json!({}), json!({"a": 1})) && applied(json!({"a": 1}), json!({"a": 2, "b": [1]})));
        assert!(applied(json!({"a": [1, 2]}), json!({"a": [1]})), "a list is one value");
        assert!(!applied(json!({"a": 1}), json!({})) && !applied(json!({"a": {"b": 1}}), json!({"a": {}})));
        let list = |conditions: &[Value]| json!({ "conditions": conditions });
        let (one, other) = (condition("A", "True"), condition("B", "True"));
        assert!(applied(list(std::slice::from_ref(&one)), list(&[condition("A", "False"), other.clone()])));
        assert!(!applied(list(&[one.clone(), other]), list(&[one])), "a condition goes");
        let Some(Write::ApplyStatus { object, .. }) = write(&json!({}), &json!({"a": 1})) else {
            panic!("it is applied");
        };
        let object = object.to_value();
        assert_eq!(object["status"], json!({"own": 1}));
        assert_eq!(object["metadata"], json!({"name": "n", "uid": "u", "resourceVersion": "7"}));
        assert_eq!((&object["apiVersion"], &object["kind"]), (&json!(names::API_VERSION), &json!("Cluster")));
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
