//! Namespaces that are being deleted: everything in them goes, then they do; their conditions say what
//! is in the way (`k8s.io/kubernetes/pkg/controller/namespace/deletion`).

use std::collections::BTreeMap;
use std::sync::Arc;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_store::Resource;

use super::graph::Place;
use super::objects::{Failure, Object, Objects, retain};
use crate::builtin::NAMESPACE_FINALIZER;
use crate::endpoints::Propagation;

/// How many objects of a collection are deleted before the next one gets its turn.
const BATCH: usize = 500;

/// What is left of a namespace's content.
#[derive(Debug, Default, PartialEq, Eq)]
struct Remaining {
    /// `PLURAL.GROUP` and how many.
    resources: BTreeMap<String, usize>,
    /// Finalizers and how many objects have them.
    finalizers: BTreeMap<String, usize>,
    /// What went wrong.
    errors: Vec<String>,
    /// Whether not all was seen.
    more: bool,
}

/// Deletes what is in a namespace, then lets it go. Objects that finalizers hold bring it here again
/// when they change or go.
pub(super) async fn empty(objects: &Objects, namespace: &Arc<str>) -> Result<(), Failure> {
    let place =
        Place { resource: Resource::new("namespaces", ""), namespace: Arc::from(""), name: Arc::clone(namespace) };
    let Some(found) = objects.get(&place).await? else { return Ok(()) };
    let finalizers = found.content.get("spec").and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
    let held = finalizers.unwrap_or_default().iter().any(|name| name.as_str() == Some(NAMESPACE_FINALIZER));
    if !found.is_deleting() || !held {
        return Ok(());
    }
    let remaining = delete_content(objects, namespace).await?;
    if remaining == Remaining::default() {
        let mut content = found.content.clone();
        if let Some(Value::Object(spec)) = content.get_mut("spec") {
            retain(spec, "finalizers", |name| name.as_str() != Some(NAMESPACE_FINALIZER));
        }
        return objects.update(&found, content).await;
    }
    let content = with_conditions(&found, &remaining, &objects.now());
    if content != found.content {
        objects.update(&found, content).await?;
    }
    if remaining.more || !remaining.errors.is_empty() { Err(Failure::Changed) } else { Ok(()) }
}

async fn delete_content(objects: &Objects, namespace: &Arc<str>) -> Result<Remaining, Failure> {
    let mut remaining = Remaining::default();
    for resource in objects.resources().await? {
        let (entries, more) = objects.list(&resource, Some(namespace), BATCH).await?;
        for entry in &entries {
            let is_deleting = Object::read(Arc::clone(entry)).is_some_and(|object| object.is_deleting());
            if is_deleting {
                continue;
            }
            match objects.delete(entry, Some(Propagation::Background)).await {
                Ok(()) | Err(Failure::Changed) => {}
                Err(Failure::Refused(error)) => remaining.errors.push(error.message),
                Err(other) => return Err(other),
            }
        }
        if entries.is_empty() {
            continue;
        }
        remaining.more |= more > 0;
        let (left, more) = objects.list(&resource, Some(namespace), BATCH).await?;
        if !left.is_empty() {
            remaining.resources.insert(group_resource(&resource), left.len() + more);
        }
        for object in left.into_iter().filter_map(Object::read) {
            let list = object.metadata().and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
            for finalizer in list.unwrap_or_default().iter().filter_map(Value::as_str) {
                *remaining.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }
    Ok(remaining)
}

/// `configmaps.` and `widgets.example.com`, as the messages have it.
fn group_resource(resource: &Resource) -> String {
    let text = resource.as_str();
    if text.contains('.') { text.to_owned() } else { format!("{text}.") }
}

/// The namespace with the conditions that tell what remains.
fn with_conditions(namespace: &Object, remaining: &Remaining, now: &str) -> Map {
    let mut content = namespace.content.clone();
    let Some(status) = content.object_mut("status") else { return content };
    let list = status.get_or_insert_with("conditions", || Value::Array(Vec::new()));
    let Value::Array(conditions) = list else { return content };
    for (kind, is_true, reason, message) in conditions_of(remaining) {
        let status = if is_true { "True" } else { "False" };
        let fresh = json!({
            "type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": (message.as_str())
        });
        let is_it = |condition: &&mut Value| condition.get("type").and_then(Value::as_str) == Some(kind);
        match conditions.iter_mut().find(is_it) {
            None => conditions.push(fresh),
            Some(condition) => {
                let same = |field: &str| condition.get(field) == fresh.get(field);
                if !(same("status") && same("reason") && same("message")) {
                    *condition = fresh;
                }
            }
        }
    }
    content
}

/// Type, whether it is true, reason, message; in the order in which Kubernetes sets them.
fn conditions_of(remaining: &Remaining) -> [(&'static str, bool, &'static str, String); 5] {
    let counted = |counts: &BTreeMap<String, usize>, verb: &str| {
        let parts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {verb} {count} resource instances")).collect();
        parts.join(", ")
    };
    let (errors, resources, finalizers) = (&remaining.errors, &remaining.resources, &remaining.finalizers);
    let pick = |is_true: bool, yes: (&'static str, String), no: (&'static str, &str)| {
        if is_true { (true, yes.0, yes.1) } else { (false, no.0, no.1.to_owned()) }
    };
    let content_failure = pick(
        !errors.is_empty(),
        (
            "ContentDeletionFailed",
            format!("Failed to delete all resource types, {} remaining: {}", errors.len(), errors.join(", ")),
        ),
        ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    );
    let content_remaining = pick(
        !resources.is_empty(),
        ("SomeResourcesRemain", format!("Some resources are remaining: {}", counted(resources, "has"))),
        ("ContentRemoved", "All content successfully removed"),
    );
    let finalizers_remaining = pick(
        !finalizers.is_empty(),
        (
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {}", counted(finalizers, "in")),
        ),
        ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    );
    let named = |kind, (is_true, reason, message): (bool, &'static str, String)| (kind, is_true, reason, message);
    let fine = |reason, message: &str| (false, reason, message.to_owned());
    [
        named(
            "NamespaceDeletionDiscoveryFailure",
            fine("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        named(
            "NamespaceDeletionGroupVersionParsingFailure",
            fine("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        named("NamespaceDeletionContentFailure", content_failure),
        named("NamespaceContentRemaining", content_remaining),
        named("NamespaceFinalizersRemaining", finalizers_remaining),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_say_what_remains() {
        let remaining = Remaining {
            resources: BTreeMap::from([("configmaps.".to_owned(), 2), ("widgets.example.com".to_owned(), 1)]),
            finalizers: BTreeMap::from([("example.com/hold".to_owned(), 3)]),
            ..Remaining::default()
        };
        let messages: Vec<String> = conditions_of(&remaining).into_iter().map(|(_, _, _, message)| message).collect();
        assert_eq!(
            messages[3..],
            [
                "Some resources are remaining: configmaps. has 2 resource instances, widgets.example.com has 1 resource instances",
                "Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances",
            ]
        );
    }
}
