//! Who owns whom: an index over owner references, of one tenant. Pure.
//!
//! Only objects that have owners are in it; whether an owner exists is asked of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use allotment_machinery::json::{Map, Value};
use allotment_store::{Entry, Resource};

/// Where an object of a tenant lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) resource: Resource,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

impl Place {
    pub(super) fn of(entry: &Entry) -> Self {
        Place {
            resource: entry.resource.clone(),
            namespace: Arc::clone(&entry.namespace),
            name: Arc::clone(&entry.name),
        }
    }
}

/// One of an object's owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: Arc<str>,
    /// Whether the owner stays until the object is gone, where it is deleted in the foreground.
    pub(super) blocks: bool,
}

/// The owners that an object's metadata names.
pub(super) fn owners(metadata: &Map) -> Vec<Owner> {
    let list = metadata.get("ownerReferences").and_then(Value::as_array).unwrap_or_default();
    let text = |owner: &Value, field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    list.iter()
        .map(|owner| Owner {
            api_version: text(owner, "apiVersion"),
            kind: text(owner, "kind"),
            name: text(owner, "name"),
            uid: Arc::from(text(owner, "uid")),
            blocks: owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true),
        })
        .collect()
}

/// The index.
#[derive(Debug, Default)]
pub(super) struct Graph {
    owners: BTreeMap<Place, Vec<Owner>>,
    dependents: BTreeMap<Arc<str>, BTreeSet<Place>>,
}

impl Graph {
    /// Whether nobody owns anything.
    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Whether the object has owners.
    pub(super) fn knows(&self, place: &Place) -> bool {
        self.owners.contains_key(place)
    }

    /// Sets an object's owners; none takes it out. What they were before.
    pub(super) fn set(&mut self, place: &Place, owners: Vec<Owner>) -> Vec<Owner> {
        let before = self.owners.remove(place).unwrap_or_default();
        for owner in &before {
            if let Some(places) = self.dependents.get_mut(&owner.uid) {
                places.remove(place);
                if places.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        for owner in &owners {
            self.dependents.entry(Arc::clone(&owner.uid)).or_default().insert(place.clone());
        }
        if !owners.is_empty() {
            self.owners.insert(place.clone(), owners);
        }
        before
    }

    /// The objects that the object with this UID owns, in order.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Those of them that its deletion in the foreground waits for.
    pub(super) fn blocking(&self, uid: &str) -> Vec<Place> {
        let blocks = |place: &Place| {
            self.owners.get(place).is_some_and(|owners| owners.iter().any(|owner| &*owner.uid == uid && owner.blocks))
        };
        self.dependents(uid).into_iter().filter(blocks).collect()
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    fn place(name: &str) -> Place {
        Place { resource: Resource::new("configmaps", ""), namespace: Arc::from("n"), name: Arc::from(name) }
    }

    fn owned_by(owners: &[(&str, bool)]) -> Vec<Owner> {
        let list = owners.iter().map(|(uid, blocks)| json!({"uid": (*uid), "blockOwnerDeletion": (*blocks)}));
        let metadata = json!({"ownerReferences": (list.collect::<Vec<_>>())});
        super::owners(metadata.as_object().expect("an object"))
    }

    #[test]
    fn dependents_are_found_by_the_uid_of_their_owner() {
        let mut graph = Graph::default();
        graph.set(&place("a"), owned_by(&[("1", true), ("2", false)]));
        graph.set(&place("b"), owned_by(&[("1", false)]));
        assert_eq!(graph.dependents("1"), [place("a"), place("b")]);
        assert_eq!(graph.blocking("1"), [place("a")]);
        let before = graph.set(&place("a"), owned_by(&[("2", true)]));
        assert_eq!(before.len(), 2);
        assert_eq!(graph.dependents("1"), [place("b")]);
        assert_eq!(graph.blocking("2"), [place("a")]);
        graph.set(&place("a"), Vec::new());
        graph.set(&place("b"), Vec::new());
        assert!(graph.is_empty() && graph.dependents.is_empty());
    }
}
