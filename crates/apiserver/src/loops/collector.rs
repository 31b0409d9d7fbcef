//! The garbage collector: objects whose owners are gone go too; deletions in the foreground and with
//! orphans are carried through (`k8s.io/kubernetes/pkg/controller/garbagecollector`).

use std::sync::Arc;

use allotment_machinery::json::{Map, Value};
use allotment_machinery::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use allotment_machinery::object::metadata_mut;

use super::Known;
use super::graph::{self, Owner, Place};
use super::index::{has_finalizer, may_be_deleting, uid};
use super::objects::{Failure, Object, Objects, retain};
use crate::endpoints::Propagation;

/// What an owner is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// It is there.
    Solid,
    /// It is gone, or another object has its name.
    Dangling,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// Nothing is known of its kind, or it cannot own the object.
    Unknown,
}

/// Looks at an object that has owners: deletes it if none is left, takes off it those that are gone.
pub(super) async fn check_dependent(objects: &Objects, known: &Known, place: &Place) -> Result<(), Failure> {
    let Some(object) = objects.get(place).await? else { return Ok(()) };
    let Some(metadata) = object.metadata() else { return Ok(()) };
    if object.is_deleting() {
        return if has_finalizer(metadata, FINALIZER_FOREGROUND) {
            release_owner(objects, known, place).await
        } else {
            Ok(())
        };
    }
    let owners = graph::owners(metadata);
    let mut found = Vec::with_capacity(owners.len());
    for owner in &owners {
        found.push(look_up(objects, owner, place).await?);
    }
    let any = |wanted: Found| found.contains(&wanted);
    if owners.is_empty() || any(Found::Unknown) && !any(Found::Dangling) && !any(Found::Waiting) {
        return Ok(());
    }
    if any(Found::Solid) || any(Found::Unknown) {
        let gone: Vec<&str> = owners
            .iter()
            .zip(&found)
            .filter(|(_, found)| matches!(found, Found::Dangling | Found::Waiting))
            .map(|(owner, _)| &*owner.uid)
            .collect();
        return if gone.is_empty() { Ok(()) } else { objects.update(&object, without_owners(&object, &gone)).await };
    }
    let tenant = &objects.tenant().tenant;
    let own: Vec<Place> = known.lock().dependents(tenant, object.uid());
    let propagation = if any(Found::Waiting) && !own.is_empty() {
        // Owners that wait for each other in a circle would wait for ever.
        if own.iter().any(|dependent| known.lock().is_waiting(tenant, dependent)) {
            objects.update(&object, without_blocking(&object)).await?;
            return Err(Failure::Changed);
        }
        Propagation::Foreground
    } else if has_finalizer(metadata, FINALIZER_ORPHAN) {
        Propagation::Orphan
    } else if has_finalizer(metadata, FINALIZER_FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    objects.delete(&object.entry, Some(propagation)).await
}

/// What has become of an owner, as the store has it now.
async fn look_up(objects: &Objects, owner: &Owner, dependent: &Place) -> Result<Found, Failure> {
    let (group, _) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let registry = objects.tenant().registry();
    let Some(kind) = registry.kinds().find(|kind| kind.group == group && kind.kind == owner.kind) else {
        return Ok(Found::Unknown);
    };
    // An object outside of namespaces cannot be owned by one within.
    if kind.namespaced && dependent.namespace.is_empty() {
        return Ok(Found::Unknown);
    }
    let namespace = if kind.namespaced { Arc::clone(&dependent.namespace) } else { Arc::from("") };
    let place = Place { resource: kind.resource(), namespace, name: Arc::from(&*owner.name) };
    let Some(found) = objects.entry(&place).await?.filter(|found| uid(found, &found.body()) == &*owner.uid) else {
        return Ok(Found::Dangling);
    };
    if !may_be_deleting(&found) {
        return Ok(Found::Solid);
    }
    let waits = Object::read(found).is_some_and(|found| {
        found.is_deleting() && found.metadata().is_some_and(|metadata| has_finalizer(metadata, FINALIZER_FOREGROUND))
    });
    Ok(if waits { Found::Waiting } else { Found::Solid })
}

/// Carries on with a deletion that waits for the garbage collector.
pub(super) async fn release_owner(objects: &Objects, known: &Known, place: &Place) -> Result<(), Failure> {
    let Some(object) = objects.get(place).await? else { return Ok(()) };
    let Some(metadata) = object.metadata().filter(|_| object.is_deleting()) else { return Ok(()) };
    let tenant = &objects.tenant().tenant;
    if has_finalizer(metadata, FINALIZER_ORPHAN) {
        let dependents = known.lock().dependents(tenant, object.uid());
        for dependent in dependents {
            if let Some(dependent) = objects.get(&dependent).await? {
                let content = without_owners(&dependent, &[object.uid()]);
                if content != dependent.content {
                    objects.update(&dependent, content).await?;
                }
            }
        }
        return objects.release(&object, FINALIZER_ORPHAN).await;
    }
    if has_finalizer(metadata, FINALIZER_FOREGROUND) {
        let blocking = known.lock().blocking(tenant, object.uid());
        let mut left = false;
        for dependent in blocking {
            // The index may be behind: only what is there and still blocks counts.
            let owned = objects.get(&dependent).await?.is_some_and(|found| blocks(&found, object.uid()));
            left |= owned;
        }
        if !left {
            return objects.release(&object, FINALIZER_FOREGROUND).await;
        }
    }
    Ok(())
}

fn blocks(dependent: &Object, owner: &str) -> bool {
    let owners = dependent.metadata().map(graph::owners).unwrap_or_default();
    owners.iter().any(|have| &*have.uid == owner && have.blocks)
}

/// The object without owners of these UIDs.
fn without_owners(object: &Object, uids: &[&str]) -> Map {
    let mut content = object.content.clone();
    if let Some(metadata) = metadata_mut(&mut content) {
        let named = |value: &Value| value.get("uid").and_then(Value::as_str).is_some_and(|uid| uids.contains(&uid));
        retain(metadata, "ownerReferences", |value| !named(value));
    }
    content
}

/// The object blocking no owner's deletion.
fn without_blocking(object: &Object) -> Map {
    let mut content = object.content.clone();
    let owners = metadata_mut(&mut content).and_then(|metadata| metadata.get_mut("ownerReferences"));
    for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(owner) = owner.as_object_mut() {
            owner.insert("blockOwnerDeletion", false);
        }
    }
    content
}
