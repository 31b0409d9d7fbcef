//! A store with the rules that decisions rest on, and schedulers whose view of it may lag.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use allotment_core::requests::{
    ClusterPlan, Object, ObjectKind, Plan, Snapshot, choose_together, decide_cluster, decide_purpose, decide_request,
};
use allotment_core::write::{Kind, ObjectKey, Write, merge_apply};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// The kinds of the store, as the paths of manifests name them.
pub(crate) type Place = (String, ObjectKey);

#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    pub(crate) objects: BTreeMap<Place, Value>,
    pub(crate) log: Vec<(Place, Option<Value>)>,
    revision: u64,
    pub(crate) now: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    NotFound,
    Conflict,
    AlreadyExists,
}

pub(crate) fn key_of(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    ObjectKey::new(text("namespace"), text("name"))
}

impl Store {
    pub(crate) fn new() -> Self {
        Store { now: 1_800_000_000, ..Store::default() }
    }

    pub(crate) fn time(&self) -> Timestamp {
        Timestamp::from_second(self.now).expect("a time")
    }

    /// Puts a manifest as somebody with all rights would, its status included.
    pub(crate) fn put(&mut self, mut object: Value) {
        let place = (object["kind"].as_str().expect("a kind").to_owned(), key_of(&object));
        match self.objects.get(&place) {
            Some(old) => {
                for field in ["uid", "creationTimestamp", "annotations", "finalizers", "deletionTimestamp"] {
                    if object["metadata"].get(field).is_none() && old["metadata"].get(field).is_some() {
                        object["metadata"][field] = old["metadata"][field].clone();
                    }
                }
                if object.get("status").is_none() && old.get("status").is_some() {
                    object["status"] = old["status"].clone();
                }
            }
            None => self.stamp(&mut object),
        }
        self.commit(place, object);
    }

    fn stamp(&mut self, object: &mut Value) {
        object["metadata"]["uid"] = json!(format!("uid-{}", self.revision + 1));
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["creationTimestamp"] = json!(self.time().to_string());
    }

    fn commit(&mut self, place: Place, mut object: Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if object["metadata"].get("deletionTimestamp").is_some() && !finalizers {
            self.remove(&place);
            return;
        }
        self.log.push((place.clone(), Some(object.clone())));
        self.objects.insert(place, object);
    }

    fn remove(&mut self, place: &Place) {
        let Some(object) = self.objects.remove(place) else { return };
        self.revision += 1;
        self.log.push((place.clone(), None));
        let owned: Vec<Place> = self
            .objects
            .iter()
            .filter(|(_, other)| {
                let owners = other["metadata"]["ownerReferences"].as_array();
                owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == object["metadata"]["uid"]))
            })
            .map(|(place, _)| place.clone())
            .collect();
        for place in owned {
            self.delete(&place);
        }
    }

    pub(crate) fn delete(&mut self, place: &Place) {
        let Some(mut object) = self.objects.get(place).cloned() else { return };
        if object["metadata"].get("deletionTimestamp").is_none() {
            object["metadata"]["deletionTimestamp"] = json!(self.time().to_string());
            self.commit(place.clone(), object);
        }
    }

    /// Applies a write of a decision.
    pub(crate) fn apply(&mut self, write: &Write) -> Result<(), Failure> {
        let place = |kind: &Kind, key: &ObjectKey| (kind.as_str().to_owned(), key.clone());
        match write {
            Write::Create { kind, key, object } => {
                let place = place(kind, key);
                if self.objects.contains_key(&place) {
                    return Err(Failure::AlreadyExists);
                }
                let mut object = object.to_value();
                assert_eq!(key_of(&object), *key);
                object.as_object_mut().expect("an object").remove("status");
                self.stamp(&mut object);
                self.commit(place, object);
            }
            Write::Apply { kind, key, object } => {
                let object = object.to_value();
                assert_eq!(key_of(&object), *key);
                let (place, old) = self.checked(place(kind, key), &object["metadata"])?;
                let mut new = old.clone();
                for member in ["annotations", "labels"] {
                    if let Some(applied) = object["metadata"].get(member) {
                        merge_apply(&mut new["metadata"][member], applied);
                    }
                }
                let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
                let mut all = old["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
                all.extend(finalizers.into_iter().filter(|one| !all.contains(one)).collect::<Vec<_>>());
                new["metadata"]["finalizers"] = json!(all);
                self.commit(place, new);
            }
            Write::ApplyStatus { kind, key, object } => {
                let object = object.to_value();
                let (place, old) = self.checked(place(kind, key), &object["metadata"])?;
                let mut new = old.clone();
                let mut status = object["status"].clone();
                // Conditions are told apart by their type; those that are not applied are somebody else's.
                let applied = status["conditions"].as_array().cloned().unwrap_or_default();
                let mut conditions = old["status"]["conditions"].as_array().cloned().unwrap_or_default();
                conditions.retain(|have| applied.iter().all(|condition| have["type"] != condition["type"]));
                conditions.extend(applied);
                if status.get("conditions").is_some() {
                    status["conditions"] = json!(conditions);
                }
                merge_apply(&mut new["status"], &status);
                self.commit(place, new);
            }
            Write::Patch { kind, key, patch } => {
                let patch = patch.to_value();
                let (place, old) = self.checked(place(kind, key), &patch["metadata"])?;
                let mut new = old.clone();
                merge_apply(&mut new, &patch);
                new["status"] = old["status"].clone();
                if new["spec"] != old["spec"] {
                    new["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
                }
                self.commit(place, new);
            }
            Write::PatchStatus { kind, key, patch } => {
                let patch = patch.to_value();
                let (place, old) = self.checked(place(kind, key), &patch["metadata"])?;
                let mut new = old.clone();
                merge_apply(&mut new["status"], &patch["status"]);
                self.commit(place, new);
            }
            Write::Delete { kind, key, uid, resource_version } => {
                let conditions = match resource_version {
                    Some(version) => json!({"uid": uid, "resourceVersion": version}),
                    None => json!({"uid": uid}),
                };
                let (place, _) = self.checked(place(kind, key), &conditions)?;
                self.delete(&place);
            }
        }
        Ok(())
    }

    fn checked(&self, place: Place, conditions: &Value) -> Result<(Place, Value), Failure> {
        let object = self.objects.get(&place).ok_or(Failure::NotFound)?.clone();
        for field in ["uid", "resourceVersion"] {
            if conditions.get(field).is_some_and(|wanted| *wanted != object["metadata"][field]) {
                return Err(Failure::Conflict);
            }
        }
        Ok((place, object))
    }

    pub(crate) fn all(&self, kind: &str) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        self.objects.iter().filter(move |(place, _)| place.0 == kind).map(|(place, object)| (&place.1, object))
    }

    pub(crate) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind.to_owned(), ObjectKey::new(namespace, name)))
    }

    pub(crate) fn edit(&mut self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        let place = (kind.to_owned(), ObjectKey::new(namespace, name));
        let mut object = self.objects.get(&place).expect("the object to edit").clone();
        merge_apply(&mut object, patch);
        self.commit(place, object);
    }

    /// What a provider does: every Cluster becomes healthy.
    pub(crate) fn provision(&mut self) {
        let keys: Vec<ObjectKey> = self.all("Cluster").map(|(key, _)| key.clone()).collect();
        for key in keys {
            let place = ("Cluster".to_owned(), key);
            let mut object = self.objects[&place].clone();
            let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.retain(|condition| condition["type"] != "ClusterHealthy");
            conditions.push(json!({"type": "ClusterHealthy", "status": "True", "reason": "AllGood", "message": "",
                "lastTransitionTime": self.time().to_string()}));
            object["status"]["conditions"] = json!(conditions);
            object["status"]["kubernetes"] = object["spec"]["kubernetes"].clone();
            self.commit(place, object);
        }
    }
}

/// A scheduler with its own, possibly old, view of the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scheduler {
    pub(crate) snapshot: Snapshot,
    /// Requests that the API lets nobody take over.
    pub(crate) refused: BTreeSet<ObjectKey>,
    seen: usize,
}

fn object_of(kind: &str, object: &Value) -> Option<Object> {
    fn read<T: serde::de::DeserializeOwned>(object: &Value) -> Arc<T> {
        Arc::new(serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}")))
    }
    Some(match kind {
        "ClusterProvider" => Object::Provider(read(object)),
        "Purpose" => Object::Purpose(read(object)),
        "TraitEquivalence" => Object::Equivalence(read(object)),
        "Cluster" => Object::Cluster(read(object)),
        "ClusterRequest" => Object::Request(read(object)),
        "ClusterRequestGrant" => Object::Grant(read(object)),
        "AccessRequest" => Object::Access(read(object)),
        "AccessPolicy" => Object::Policy(read(object)),
        "Namespace" => Object::Namespace {
            name: key_of(object).name,
            labels: serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default(),
        },
        _ => return None,
    })
}

fn kind_of(kind: &str) -> Option<ObjectKind> {
    Some(match kind {
        "ClusterProvider" => ObjectKind::Provider,
        "Purpose" => ObjectKind::Purpose,
        "TraitEquivalence" => ObjectKind::Equivalence,
        "Cluster" => ObjectKind::Cluster,
        "ClusterRequest" => ObjectKind::Request,
        "ClusterRequestGrant" => ObjectKind::Grant,
        "AccessRequest" => ObjectKind::Access,
        "AccessPolicy" => ObjectKind::Policy,
        "Namespace" => ObjectKind::Namespace,
        _ => return None,
    })
}

impl Scheduler {
    /// Takes in up to `most` events.
    pub(crate) fn observe(&mut self, store: &Store, most: usize) {
        let until = store.log.len().min(self.seen.saturating_add(most));
        for ((kind, key), object) in &store.log[self.seen..until] {
            match object {
                Some(object) => {
                    if let Some(object) = object_of(kind, object) {
                        self.snapshot.apply(object);
                    }
                }
                None => {
                    if let Some(kind) = kind_of(kind) {
                        self.snapshot.delete(kind, key);
                    }
                }
            }
        }
        self.seen = until;
    }

    /// Decides one request on what was seen, and makes the write.
    pub(crate) fn step(&self, store: &mut Store, key: &ObjectKey, names: &mut Names) -> Option<Result<(), Failure>> {
        let plan = decide_request(&self.snapshot, key, store.time(), names);
        plan.write().map(|write| store.apply(write))
    }

    /// Chooses for several requests on what was seen, and makes the writes.
    pub(crate) fn choose(
        &mut self,
        store: &mut Store,
        keys: &[ObjectKey],
        names: &mut Names,
    ) -> Vec<Result<(), Failure>> {
        let before = format!("{:?}", self.snapshot);
        let steps = choose_together(&mut self.snapshot, keys.iter().cloned(), store.time(), names);
        assert_eq!(format!("{:?}", self.snapshot), before, "the snapshot is as before");
        steps.iter().map(|step| store.apply(step.write())).collect()
    }

    /// Decides one Purpose on what was seen, and makes the write.
    pub(crate) fn step_purpose(&self, store: &mut Store, name: &str, names: &mut Names) -> Option<Result<(), Failure>> {
        let plan = decide_purpose(&self.snapshot, name, store.time(), names);
        plan.write().map(|write| store.apply(write))
    }

    /// Decides one Cluster on what was seen, and makes the write.
    pub(crate) fn step_cluster(&self, store: &mut Store, key: &ObjectKey) -> Option<Result<(), Failure>> {
        let plan = decide_cluster(&self.snapshot, key, store.time());
        if let ClusterPlan::ReleaseOrphan { confirm, .. } = &plan {
            let place = ("ClusterRequest".to_owned(), confirm.request.clone());
            if store.objects.get(&place).is_some_and(|request| request["metadata"]["uid"] == json!(confirm.uid)) {
                return None;
            }
        }
        plan.write().map(|write| store.apply(write))
    }
}

/// Random proposals from a counter: distinct, and the same every time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(pub(crate) u64);

impl Iterator for Names {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz";
        self.0 += 1;
        let mut rest = self.0;
        let mut text = String::new();
        for _ in 0..10 {
            text.insert(0, char::from(LETTERS[usize::try_from(rest % 20).expect("small")]));
            rest /= 20;
        }
        // The counter moves the front, which names of Clusters are cut from.
        Some(text.chars().rev().collect())
    }
}

/// Lets one scheduler that sees everything work until nothing is left to do, always at the first of what is due; gives
/// the number of writes.
pub(crate) fn settle(store: &mut Store, scheduler: &mut Scheduler, names: &mut Names) -> usize {
    let (mut requests, mut clusters, mut purposes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for writes in 0..10_000 {
        scheduler.observe(store, usize::MAX);
        let due = scheduler.snapshot.take_due();
        requests.extend(due.requests.iter().filter_map(|key| scheduler.snapshot.turn(key)));
        clusters.extend(due.clusters);
        purposes.extend(due.purposes);
        // Whoever has nothing to do is done with.
        let written = loop {
            if let Some(key) = requests.first().map(|turn| turn.key().clone()) {
                let plan = decide_request(&scheduler.snapshot, &key, store.time(), names);
                if matches!(plan, Plan::AddFinalizer(_)) && scheduler.refused.contains(&key) {
                    scheduler.snapshot.was_refused(&key);
                    requests.pop_first();
                    break Some(Ok(()));
                }
                if let Some(write) = plan.write() {
                    break Some(store.apply(write));
                }
                requests.pop_first();
            } else if let Some(key) = clusters.first() {
                if let Some(written) = scheduler.step_cluster(store, key) {
                    break Some(written);
                }
                clusters.pop_first();
            } else if let Some(key) = purposes.first() {
                if let Some(written) = scheduler.step_purpose(store, &key.name, names) {
                    break Some(written);
                }
                purposes.pop_first();
            } else {
                break None;
            }
        };
        match written {
            Some(written) => written.expect("nobody else writes"),
            None => return writes,
        }
    }
    panic!("it never settles: {requests:?} {clusters:?} {purposes:?}");
}

/// Whether a plan says there is nothing to do.
pub(crate) fn is_done(plan: &Plan) -> bool {
    matches!(plan, Plan::Done { .. })
}

pub(crate) fn purpose(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Purpose", "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn request(namespace: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

pub(crate) fn provider(name: &str, profiles: Value) -> Value {
    json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterProvider", "metadata": {"name": name},
        "spec": {"package": format!("builtin:{name}")},
        "status": {"ready": true, "reason": "AllGood", "message": "The provider is ready.", "profiles": profiles}})
}

/// What a new landscape has: provider `local` and the four Purposes.
pub(crate) fn landscape() -> Store {
    let mut store = Store::new();
    store.put(provider(
        "local",
        json!([{"name": "local", "providerConfigRef": {"name": "local"},
        "supportedVersions": [{"version": "1.30.4"}, {"version": "1.35.1"}, {"version": "1.36.3"}],
        "supportedTraits": [{"trait": "cluster.openmcp.cloud/workerless"}, {"trait": "infrastructure/vendor/local"}]}]),
    ));
    store.put(purpose("platform", json!({"dedicated": false, "maxClusters": 1})));
    store.put(purpose(
        "onboarding",
        json!({"dedicated": false, "maxClusters": 1,
        "traits": [{"trait": "cluster.openmcp.cloud/workerless", "optional": true}]}),
    ));
    store.put(purpose(
        "workload",
        json!({"dedicated": false, "maxTenants": 20, "permissionCeiling": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "scope": "PrefixedNamespaces"},
        {"apiGroups": ["", "apiextensions.k8s.io"], "resources": ["namespaces", "customresourcedefinitions"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]}]}),
    ));
    store.put(purpose(
        "mcp",
        json!({"dedicated": true,
        "traits": [{"name": "cluster.openmcp.cloud/workerless", "optional": true, "negated": false}]}),
    ));
    store
}
