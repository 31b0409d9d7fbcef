//! Definitions: of those that are being deleted, the objects go first; names that are free again go to
//! those that ask for them.

use std::sync::Arc;

use allotment_store::Resource;

use super::graph::Place;
use super::objects::{Failure, Object, Objects};
use crate::crd;

/// How many objects are deleted before others get their turn.
const BATCH: usize = 500;

/// Deletes the objects of a definition, then lets the definition go. Objects that finalizers hold bring
/// it here again when they go.
pub(super) async fn clean_up(objects: &Objects, name: &Arc<str>) -> Result<(), Failure> {
    let place = Place {
        resource: Resource::new("customresourcedefinitions", "apiextensions.k8s.io"),
        namespace: Arc::from(""),
        name: Arc::clone(name),
    };
    let Some(mut definition) = objects.get(&place).await? else { return Ok(()) };
    let held =
        definition.metadata().is_some_and(|metadata| super::index::has_finalizer(metadata, crd::CLEANUP_FINALIZER));
    if !definition.is_deleting() || !held {
        return Ok(());
    }
    let mut content = definition.content.clone();
    crd::note_deletion(&mut content, &objects.now());
    if content != definition.content {
        objects.update(&definition, content).await?;
        let Some(noted) = objects.get(&place).await? else { return Ok(()) };
        definition = noted;
    }
    // A definition's name, PLURAL.GROUP, is what its collection is called.
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    let resource = Resource::new(plural, group);
    let (entries, more) = objects.list(&resource, None, BATCH).await?;
    for entry in &entries {
        objects.delete(entry, None).await?;
    }
    let (left, _) = objects.list(&resource, None, 1).await?;
    if left.is_empty() {
        let mut content = definition.content.clone();
        crd::finish_deletion(&mut content, &objects.now());
        return objects.update(&definition, content).await;
    }
    // What is left is held by finalizers and brings this here again when it goes; what was beyond this
    // batch has its turn now.
    if more > 0 { Err(Failure::Changed) } else { Ok(()) }
}

/// Gives definitions of a group that lack names those that nobody has any more.
pub(super) async fn give_names(objects: &Objects, group: &str) -> Result<(), Failure> {
    let resource = Resource::new("customresourcedefinitions", "apiextensions.k8s.io");
    let _turn = objects.tenant().naming.lock().await;
    let (entries, _) = objects.list(&resource, None, 0).await?;
    let of_group = entries.iter().filter(|entry| entry.name.split_once('.').is_some_and(|(_, have)| have == group));
    for definition in of_group.cloned().filter_map(Object::read) {
        if !crd::wants_names(&definition.content) {
            continue;
        }
        let registry = objects.tenant().registry();
        let others = crd::NamesInUse::in_group(group, &definition.entry.name, &registry, &entries);
        let mut content = definition.content.clone();
        crd::establish(&mut content, &others, &objects.now());
        if content != definition.content {
            objects.update(&definition, content).await?;
            // The next one has to see what this one got; the change brings this here again.
            return Ok(());
        }
    }
    Ok(())
}
