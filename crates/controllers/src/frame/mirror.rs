//! A copy of all objects of one kind, kept by a watch and by the replies to our own writes. Synchronous:
//! tested without a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Resource;
use kube::runtime::watcher::Event;

use super::ObjectKey;

/// What became of an object.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// Which object.
    pub key: ObjectKey,
    /// How it was; absent if it is new.
    pub before: Option<Arc<K>>,
    /// How it is; absent if it is gone.
    pub after: Option<Arc<K>>,
}

/// All objects of a kind, by key.
///
/// # Guarantees
/// An object never goes back to an older state, and one that the watch saw deleted does not come back
/// by the late reply to an own write. Resource versions are compared as numbers, as Kubernetes allows
/// since 1.35 (KEP-5504); where they are none, the watch alone counts.
///
/// # Caveats
/// The owners of fields (`metadata.managedFields`) are left out: no decision asks for them, and as trees of
/// values they would take more memory than all else. An update that leaves them out leaves them as they are.
#[derive(Debug)]
pub struct Mirror<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    /// Objects of a relist that is under way.
    incoming: Option<BTreeMap<ObjectKey, Arc<K>>>,
    /// The newest resource version that the watch has told of.
    watched: u64,
    synced: bool,
}

impl<K> Default for Mirror<K> {
    fn default() -> Self {
        Mirror { objects: BTreeMap::new(), incoming: None, watched: 0, synced: false }
    }
}

/// The object as it is kept.
fn kept<K: Resource>(mut object: K) -> Arc<K> {
    object.meta_mut().managed_fields = None;
    Arc::new(object)
}

fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl<K: Resource> Mirror<K> {
    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// All objects, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        self.objects.iter()
    }

    /// The objects of a namespace, in the order of their names.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        let namespace = namespace.to_owned();
        let first = ObjectKey::new(namespace.clone(), "");
        self.objects.range(first..).take_while(move |(key, _)| key.namespace == namespace)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// Takes in what a watch says.
    pub fn watched(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Apply(object) => self.apply(object).into_iter().collect(),
            Event::Delete(object) => self.delete(&object).into_iter().collect(),
            Event::Init => {
                self.begin_reset();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.reset_item(object);
                Vec::new()
            }
            Event::InitDone => self.end_reset(),
        }
    }

    /// The watch says that an object was added or changed.
    pub fn apply(&mut self, object: K) -> Option<Change<K>> {
        self.watched = self.watched.max(version(&object));
        self.store(object)
    }

    /// The reply to an own write; the watch will tell of it again, later. Anything that the watch has
    /// already passed is left alone: it knows better.
    pub fn written(&mut self, object: K) -> Option<Change<K>> {
        if version(&object) <= self.watched {
            return None;
        }
        let finished =
            object.meta().deletion_timestamp.is_some() && object.meta().finalizers.as_ref().is_none_or(Vec::is_empty);
        if finished {
            // Taking off the last finalizer answers with the object although it is gone.
            let key = ObjectKey::of(object.meta());
            return self.remove(&key);
        }
        self.store(object)
    }

    /// The watch says that an object was deleted.
    pub fn delete(&mut self, object: &K) -> Option<Change<K>> {
        let at = version(object);
        self.watched = self.watched.max(at);
        let key = ObjectKey::of(object.meta());
        match self.objects.get(&key) {
            // Another object of that name has been made since, and its reply was faster.
            Some(current) if at != 0 && version(current.as_ref()) > at => None,
            Some(_) => self.remove(&key),
            None => None,
        }
    }

    /// The object of that UID was deleted by us; the watch will say so too, later.
    pub fn forget(&mut self, key: &ObjectKey, uid: &str) -> Option<Change<K>> {
        let there = self.objects.get(key)?;
        if there.meta().uid.as_deref() == Some(uid) { self.remove(key) } else { None }
    }

    /// A relist begins.
    pub fn begin_reset(&mut self) {
        self.incoming = Some(BTreeMap::new());
    }

    /// An object of the relist. Until that is complete it counts for nothing: what is read meanwhile is newer than all that is
    /// kept.
    pub fn reset_item(&mut self, object: K) {
        let key = ObjectKey::of(object.meta());
        self.incoming.get_or_insert_default().insert(key, kept(object));
    }

    /// The relist is complete: what it lacks is gone, unless it is newer than all that the list showed.
    pub fn end_reset(&mut self) -> Vec<Change<K>> {
        let incoming = self.incoming.take().unwrap_or_default();
        let newest = incoming.values().map(|object| version(object.as_ref())).max().unwrap_or(0);
        self.watched = self.watched.max(newest);
        let mut changes = Vec::new();
        let gone: Vec<ObjectKey> = self
            .objects
            .iter()
            .filter(|(key, object)| !incoming.contains_key(*key) && version(object.as_ref()) <= self.watched)
            .map(|(key, _)| key.clone())
            .collect();
        changes.extend(gone.iter().filter_map(|key| self.remove(key)));
        for object in incoming.into_values() {
            changes.extend(self.store_shared(object));
        }
        self.synced = true;
        changes
    }

    fn store(&mut self, object: K) -> Option<Change<K>> {
        self.store_shared(kept(object))
    }

    fn store_shared(&mut self, object: Arc<K>) -> Option<Change<K>> {
        let key = ObjectKey::of(object.meta());
        let before = self.objects.get(&key).cloned();
        if let Some(before) = &before {
            let (old, new) = (version(before.as_ref()), version(object.as_ref()));
            if new != 0 && new <= old {
                return None;
            }
        }
        self.objects.insert(key.clone(), object.clone());
        Some(Change { key, before, after: Some(object) })
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Change<K>> {
        let before = self.objects.remove(key)?;
        Some(Change { key: key.clone(), before: Some(before), after: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn object(name: &str, version: u64) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.metadata.namespace = Some("n".to_owned());
        map.metadata.resource_version = Some(version.to_string());
        map
    }

    fn names(mirror: &Mirror<ConfigMap>) -> Vec<(String, u64)> {
        mirror.iter().map(|(key, object)| (key.name.clone(), version(object.as_ref()))).collect()
    }

    #[test]
    fn owners_of_fields_are_not_kept() {
        let owned = |name| {
            let mut object = object(name, 1);
            object.metadata.managed_fields = Some(vec![Default::default()]);
            object
        };
        let mut mirror = Mirror::default();
        mirror.apply(owned("a"));
        mirror.written(ConfigMap {
            metadata: kube::core::ObjectMeta { resource_version: Some("2".into()), ..owned("b").metadata },
            ..ConfigMap::default()
        });
        assert_eq!(names(&mirror).len(), 2);
        assert!(mirror.iter().all(|(_, object)| object.metadata.managed_fields.is_none()));
        mirror.begin_reset();
        mirror.reset_item(owned("c"));
        mirror.end_reset();
        assert!(mirror.iter().all(|(_, object)| object.metadata.managed_fields.is_none()));
    }

    #[test]
    fn an_object_never_goes_back_to_an_older_state() {
        let mut mirror = Mirror::default();
        assert!(mirror.apply(object("a", 5)).is_some());
        assert!(mirror.written(object("a", 7)).is_some());
        assert!(mirror.apply(object("a", 6)).is_none(), "the watch lags behind the reply");
        assert!(mirror.apply(object("a", 7)).is_none(), "told twice");
        assert_eq!(names(&mirror), [("a".to_owned(), 7)]);
    }

    #[test]
    fn a_late_reply_does_not_raise_the_dead() {
        let mut mirror = Mirror::default();
        mirror.apply(object("a", 5));
        mirror.apply(object("a", 7));
        assert!(mirror.delete(&object("a", 8)).is_some());
        assert!(mirror.written(object("a", 6)).is_none());
        assert!(mirror.is_empty());
    }

    #[test]
    fn a_late_deletion_does_not_remove_the_successor_of_that_name() {
        let mut mirror = Mirror::default();
        mirror.apply(object("a", 5));
        mirror.written(object("a", 9));
        assert!(mirror.delete(&object("a", 8)).is_none());
        assert_eq!(names(&mirror), [("a".to_owned(), 9)]);
    }

    #[test]
    fn a_relist_drops_what_is_gone_and_keeps_what_is_newer_than_the_list() {
        let mut mirror = Mirror::default();
        for (name, at) in [("gone", 3), ("same", 4), ("changed", 5)] {
            mirror.apply(object(name, at));
        }
        mirror.written(object("own", 12));
        mirror.begin_reset();
        for (name, at) in [("same", 4), ("changed", 8), ("new", 10)] {
            mirror.reset_item(object(name, at));
        }
        let changes: Vec<_> =
            mirror.end_reset().into_iter().map(|change| (change.key.name, change.after.is_some())).collect();
        assert_eq!(changes, [("gone".to_owned(), false), ("changed".to_owned(), true), ("new".to_owned(), true)]);
        assert_eq!(names(&mirror).len(), 4);
        assert!(mirror.is_synced());
    }

    #[test]
    fn what_is_read_while_a_relist_is_under_way_is_kept() {
        let mut mirror = Mirror::default();
        mirror.apply(object("a", 5));
        mirror.begin_reset();
        mirror.reset_item(object("b", 200));
        assert!(mirror.written(object("s", 100)).is_some(), "the relist may end in an hour, or never");
        assert!(mirror.get(&ObjectKey::new("n", "s")).is_some());
        mirror.begin_reset();
        assert!(mirror.written(object("t", 101)).is_some(), "the first relist broke off");
        for (name, at) in [("a", 5), ("b", 200), ("s", 100)] {
            mirror.reset_item(object(name, at));
        }
        mirror.end_reset();
        assert_eq!(names(&mirror), [("a".to_owned(), 5), ("b".to_owned(), 200), ("s".to_owned(), 100)], "t is gone");
        assert!(mirror.written(object("t", 101)).is_none(), "the watch has passed it");
    }

    #[test]
    fn the_reply_to_taking_off_the_last_finalizer_removes_the_object() {
        let mut mirror = Mirror::default();
        mirror.apply(object("a", 5));
        let mut last = object("a", 6);
        last.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(mirror.written(last).is_some_and(|change| change.after.is_none()));
        assert!(mirror.is_empty());
    }
}
