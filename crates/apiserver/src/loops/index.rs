//! What the loops know of all tenants' objects, and which work an event makes. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use allotment_store::{Entry, Event, EventKind, Resource, Tenant};

use super::defaults::{DEFAULT_ACCOUNT, ROOT_CERTIFICATES};
use super::graph::{self, Graph, Place};
use super::published;
use super::queue::Work;
use super::token_secrets::{self, annotation_of};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// What is known, by tenant.
#[derive(Debug, Default)]
pub(super) struct Index {
    tenants: BTreeMap<Tenant, Objects>,
}

/// What is known of one tenant's objects.
#[derive(Debug, Default)]
struct Objects {
    graph: Graph,
    /// Owners that wait for the garbage collector, by UID.
    waiting: BTreeMap<Arc<str>, Place>,
    /// Namespaces that are being deleted.
    terminating: BTreeSet<Arc<str>>,
    /// Definitions that are being deleted; a definition's name is that of the collection of its objects.
    cleaned_up: BTreeSet<Arc<str>>,
    /// Secrets for tokens, by namespace and name, and their accounts.
    token_secrets: BTreeMap<(Arc<str>, Arc<str>), Arc<str>>,
}

impl Index {
    /// Follows a change; the work that it makes.
    pub(super) fn apply(&mut self, event: &Event) -> Vec<Work> {
        let objects = self.tenants.entry(event.tenant.clone()).or_default();
        match event.kind {
            EventKind::Deleted => objects.gone(&event.entry),
            EventKind::Added | EventKind::Modified => objects.changed(&event.entry, event.kind == EventKind::Added),
        }
    }

    /// Takes in an object that is there when the loops begin; the work that it makes.
    pub(super) fn present(&mut self, tenant: &Tenant, entry: &Entry) -> Vec<Work> {
        self.tenants.entry(tenant.clone()).or_default().changed(entry, true)
    }

    /// Forgets all tenants but these; gives those that it knew.
    pub(super) fn forget_others(&mut self, kept: &BTreeSet<Tenant>) -> BTreeSet<Tenant> {
        self.tenants.extract_if(.., |tenant, _| !kept.contains(tenant)).map(|(tenant, _)| tenant).collect()
    }

    /// The objects that the object with this UID owns.
    pub(super) fn dependents(&self, tenant: &Tenant, uid: &str) -> Vec<Place> {
        self.tenants.get(tenant).map(|objects| objects.graph.dependents(uid)).unwrap_or_default()
    }

    /// Those of them that its deletion in the foreground waits for.
    pub(super) fn blocking(&self, tenant: &Tenant, uid: &str) -> Vec<Place> {
        self.tenants.get(tenant).map(|objects| objects.graph.blocking(uid)).unwrap_or_default()
    }

    /// Whether the object at this place waits for its own dependents to go.
    pub(super) fn is_waiting(&self, tenant: &Tenant, place: &Place) -> bool {
        self.tenants.get(tenant).is_some_and(|objects| objects.waiting.values().any(|waiting| waiting == place))
    }
}

impl Objects {
    fn gone(&mut self, entry: &Entry) -> Vec<Work> {
        let place = Place::of(entry);
        let mut work = self.of_kind(entry, None, false);
        for owner in self.graph.set(&place, Vec::new()) {
            work.extend(self.waiting.get(&owner.uid).cloned().map(Work::Owner));
        }
        if !self.graph.is_empty() || !self.waiting.is_empty() {
            let body = entry.body();
            let uid = uid(entry, &body);
            self.waiting.remove(uid);
            work.extend(self.graph.dependents(uid).into_iter().map(Work::Dependent));
        }
        work
    }

    fn changed(&mut self, entry: &Entry, new: bool) -> Vec<Work> {
        let place = Place::of(entry);
        let body = entry.body();
        // Most objects have none of what matters here, and are not parsed.
        let deleting = is_marked(entry, &body);
        let owned = contains(head(entry, &body), b"\"ownerReferences\"");
        let metadata = if deleting || owned { metadata(&body) } else { None };
        let mut work = self.of_kind(entry, Some(deleting), new);
        if owned || self.graph.knows(&place) {
            let owners = metadata.as_ref().map(graph::owners).unwrap_or_default();
            let owned_now = !owners.is_empty();
            let before = self.graph.set(&place, owners.clone());
            if before != owners || deleting {
                for owner in &before {
                    work.extend(self.waiting.get(&owner.uid).cloned().map(Work::Owner));
                }
            }
            if owned_now && (new || before != owners) {
                work.push(Work::Dependent(place.clone()));
            }
        }
        if let Some(metadata) = metadata.filter(|_| deleting) {
            let waits = has_finalizer(&metadata, FINALIZER_FOREGROUND) || has_finalizer(&metadata, FINALIZER_ORPHAN);
            let uid: Arc<str> = Arc::from(uid(entry, &body));
            if waits {
                let first = self.waiting.insert(Arc::clone(&uid), place.clone()).is_none();
                work.push(Work::Owner(place));
                if first {
                    work.extend(self.graph.dependents(&uid).into_iter().map(Work::Dependent));
                }
            } else {
                self.waiting.remove(&uid);
            }
        }
        work
    }

    /// The Secrets for tokens of an account.
    fn token_secrets_of(&self, namespace: &Arc<str>, account: &str) -> impl Iterator<Item = Work> {
        let first = (Arc::clone(namespace), Arc::from(""));
        let there = self.token_secrets.range(first..).take_while(move |((place, _), _)| place == namespace);
        there.filter(move |(_, of)| ***of == *account).map(|((namespace, name), _)| {
            let resource = Resource::new("secrets", "");
            Work::TokenSecret(Place { resource, namespace: Arc::clone(namespace), name: Arc::clone(name) })
        })
    }

    /// Work that has to do with the kind of an object. `deleting` is `None` for objects that are gone.
    fn of_kind(&mut self, entry: &Entry, deleting: Option<bool>, new: bool) -> Vec<Work> {
        let mut work = Vec::new();
        let (name, gone) = (&entry.name, deleting.is_none());
        match (entry.resource.as_str(), deleting) {
            ("namespaces", Some(true)) => {
                self.terminating.insert(Arc::clone(name));
                work.push(Work::Namespace(Arc::clone(name)));
            }
            ("namespaces", Some(false)) if new => work.push(Work::Defaults(Arc::clone(name))),
            ("namespaces", None) => drop(self.terminating.remove(name)),
            (DEFINITIONS, Some(true)) => {
                self.cleaned_up.insert(Arc::clone(name));
                work.push(Work::Definition(Arc::clone(name)));
            }
            (DEFINITIONS, None) => drop(self.cleaned_up.remove(name)),
            ("serviceaccounts", _) if gone && **name == *DEFAULT_ACCOUNT => {
                work.push(Work::Defaults(Arc::clone(&entry.namespace)));
            }
            // Others are free to change it; where it leads is looked at again when the server starts.
            ("services" | "endpoints" | "endpointslices.discovery.k8s.io", None)
                if **name == *published::NAME && *entry.namespace == *published::NAMESPACE =>
            {
                work.push(Work::Defaults(Arc::clone(&entry.namespace)));
            }
            ("secrets", Some(_)) if contains(&entry.body(), token_secrets::TYPE.as_bytes()) => {
                let account = metadata(&entry.body()).map(|metadata| annotation_of(&metadata, token_secrets::ACCOUNT));
                let key = (Arc::clone(&entry.namespace), Arc::clone(name));
                self.token_secrets.insert(key, Arc::from(account.unwrap_or_default()));
                work.push(Work::TokenSecret(Place::of(entry)));
            }
            ("secrets", None) if !self.token_secrets.is_empty() => {
                self.token_secrets.remove(&(Arc::clone(&entry.namespace), Arc::clone(name)));
            }
            ("configmaps", _) if !new && **name == *ROOT_CERTIFICATES => {
                work.push(Work::Defaults(Arc::clone(&entry.namespace)));
            }
            _ => {}
        }
        if !new && entry.resource.as_str() == DEFINITIONS {
            // Names may have been given back.
            work.push(Work::Names(Arc::from(name.split_once('.').map_or("", |(_, group)| group))));
        }
        if gone && entry.resource.as_str() == "serviceaccounts" {
            work.extend(self.token_secrets_of(&entry.namespace, name));
        }
        if self.terminating.contains(&entry.namespace) {
            work.push(Work::Namespace(Arc::clone(&entry.namespace)));
        }
        if let Some(definition) = self.cleaned_up.get(entry.resource.as_str()) {
            work.push(Work::Definition(Arc::clone(definition)));
        }
        work
    }
}

/// Whether an object has a time of deletion, or looks like it; told without parsing it.
pub(super) fn may_be_deleting(entry: &Entry) -> bool {
    is_marked(entry, &entry.body())
}

fn is_marked(entry: &Entry, body: &[u8]) -> bool {
    contains(head(entry, body), b"\"deletionTimestamp\"")
}

/// The stored form up to the resource version, with which all members of the metadata lie that matter here.
fn head<'a>(entry: &Entry, body: &'a [u8]) -> &'a [u8] {
    body.get(..entry.splice()).unwrap_or(body)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

fn metadata(body: &[u8]) -> Option<Map> {
    match json::parse(body).ok()? {
        Value::Object(mut object) => match object.remove("metadata") {
            Some(Value::Object(metadata)) => Some(metadata),
            _ => None,
        },
        _ => None,
    }
}

/// Whether metadata has this finalizer.
pub(super) fn has_finalizer(metadata: &Map, finalizer: &str) -> bool {
    let list = metadata.get("finalizers").and_then(Value::as_array).unwrap_or_default();
    list.iter().any(|have| have.as_str() == Some(finalizer))
}

/// The UID, which follows the resource version in the stored form.
pub(super) fn uid<'a>(entry: &Entry, body: &'a [u8]) -> &'a str {
    const MARK: &str = "\"uid\":\"";
    let tail = body.get(entry.splice()..).unwrap_or_default();
    let text = std::str::from_utf8(tail.get(..tail.len().min(256)).unwrap_or_default())
        .unwrap_or_else(|error| std::str::from_utf8(&tail[..error.valid_up_to()]).unwrap_or_default());
    let Some(start) = text.find(MARK) else { return "" };
    text[start + MARK.len()..].split('"').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {

    use allotment_machinery::json;
    use allotment_machinery::object::Encoded;
    use allotment_store::{Key, Revision};

    use super::*;

    fn event(kind: EventKind, resource: Resource, object: Value) -> Event {
        let object = object.as_object().expect("an object").clone();
        let text =
            |field: &str| Arc::from(allotment_machinery::object::metadata_str(&object, field).unwrap_or_default());
        let encoded = Encoded::of(&object).expect("has a uid");
        let tenant = Tenant::platform();
        let key = Key { tenant, resource, namespace: text("namespace"), name: text("name") };
        let entry = Entry::of(key, Revision(7), encoded);
        Event { tenant: Tenant::platform(), revision: Revision(7), kind, entry: Arc::new(entry), previous: None }
    }

    fn config_map(kind: EventKind, name: &str, more: Value) -> Event {
        let mut metadata = json!({"name": name, "namespace": "n", "uid": (format!("uid-{name}"))});
        for (key, value) in more.as_object().expect("an object").iter() {
            metadata.as_object_mut().expect("an object").insert(key, value.clone());
        }
        event(kind, Resource::new("configmaps", ""), json!({"metadata": metadata}))
    }

    fn place(name: &str) -> Place {
        Place { resource: Resource::new("configmaps", ""), namespace: Arc::from("n"), name: Arc::from(name) }
    }

    #[test]
    fn dependents_are_looked_at_when_they_come_and_when_their_owner_goes() {
        let mut index = Index::default();
        assert_eq!(index.apply(&config_map(EventKind::Added, "o", json!({}))), []);
        let owned = json!({"ownerReferences": [{"uid": "uid-o", "kind": "ConfigMap", "name": "o"}]});
        let dependent = [Work::Dependent(place("d"))];
        assert_eq!(index.apply(&config_map(EventKind::Added, "d", owned.clone())), dependent);
        assert_eq!(index.apply(&config_map(EventKind::Modified, "d", owned)), [], "nothing new about its owners");
        assert_eq!(index.apply(&config_map(EventKind::Deleted, "o", json!({}))), dependent);
    }

    #[test]
    fn a_waiting_owner_is_looked_at_when_a_dependent_goes() {
        let mut index = Index::default();
        let owned = json!({"ownerReferences": [{"uid": "uid-o", "blockOwnerDeletion": true}]});
        index.apply(&config_map(EventKind::Added, "d", owned.clone()));
        let waits = json!({"deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]});
        assert_eq!(
            index.apply(&config_map(EventKind::Modified, "o", waits)),
            [Work::Owner(place("o")), Work::Dependent(place("d"))]
        );
        assert!(index.is_waiting(&Tenant::platform(), &place("o")));
        assert_eq!(index.apply(&config_map(EventKind::Deleted, "d", owned)), [Work::Owner(place("o"))]);
    }

    #[test]
    fn namespaces_get_their_defaults_and_are_emptied() {
        let mut index = Index::default();
        let namespace = |kind, metadata| event(kind, Resource::new("namespaces", ""), json!({"metadata": metadata}));
        let name: Arc<str> = Arc::from("n");
        let added = namespace(EventKind::Added, json!({"name": "n", "uid": "1"}));
        assert_eq!(index.apply(&added), [Work::Defaults(name.clone())]);
        let account = event(
            EventKind::Deleted,
            Resource::new("serviceaccounts", ""),
            json!({"metadata": {"name": "default", "namespace": "n", "uid": "2"}}),
        );
        assert_eq!(index.apply(&account), [Work::Defaults(name.clone())]);
        let deleting = json!({"name": "n", "uid": "1", "deletionTimestamp": "2020-01-01T00:00:00Z"});
        assert_eq!(index.apply(&namespace(EventKind::Modified, deleting)), [Work::Namespace(name.clone())]);
        assert_eq!(index.apply(&config_map(EventKind::Deleted, "a", json!({}))), [Work::Namespace(name)]);
    }
}
