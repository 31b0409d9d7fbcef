//! What would come of changes: decisions made and carried out on a copy of what is there. Nothing is written
//! anywhere.
//!
//! # Guarantees
//! The decisions are those of the scheduler and of the spares, one after another, until nothing is left to do. The
//! same copy, the same time and the same changes give the same end.
//!
//! # Caveats
//! Time stands still: nothing goes for being idle, nothing comes up, and a Cluster that is made counts as one that is
//! on its way. Access is not decided, nor is what becomes of Clusters that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use allotment_api::names;
use allotment_api::reasons::Verdict;
use allotment_api::requests::{ClusterRequest, ClusterRequestGrant, ClusterRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::conditions::whole_seconds;
use super::request::{decide_request, to_value};
use super::snapshot::{Object, ObjectKind, Snapshot};
use super::spares::decide_purpose;
use crate::write::{Kind, ObjectKey, Write, merge_apply};

/// Writes for one request before others are let in; one that makes its own Cluster takes seven.
const MOST_STEPS: usize = 16;
/// Writes for the spares of one Purpose, two a spare.
const MOST_SPARE_STEPS: usize = 20_000;
/// How often one object is decided. It is again as others change; more means that decisions undo each other.
const MOST_TURNS: usize = 10_000;

/// A copy of what is there, on which decisions are carried out.
#[derive(Clone, Debug)]
pub struct Trial {
    snapshot: Snapshot,
    now: Timestamp,
    names: Counter,
    revision: u64,
    made: Vec<ObjectKey>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has a Grant.
    Granted {
        /// Of this Cluster.
        cluster: ObjectKey,
    },
    /// Its status says why not.
    Refused {
        /// Denied or Pending.
        verdict: Verdict,
        /// For machines.
        reason: String,
        /// For people.
        message: String,
    },
    /// It was not decided, or is not there.
    Undecided,
}

/// A write that could not be carried out on the copy.
#[derive(Debug, thiserror::Error)]
pub enum NotCarriedOut {
    /// What is to be created is there, or what is to be changed is not, or is another one.
    #[error("{kind} {key} is not as the decision saw it")]
    Changed {
        /// Its kind.
        kind: &'static str,
        /// Its namespace and name.
        key: ObjectKey,
    },
    /// The object that came of it cannot be read.
    #[error("what was decided for {kind} {key} cannot be read")]
    Unreadable {
        /// Its kind.
        kind: &'static str,
        /// Its namespace and name.
        key: ObjectKey,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// Decisions that came to no end.
#[derive(Debug, thiserror::Error)]
pub enum Unending {
    /// A write failed.
    #[error("a decision could not be carried out")]
    Write(#[from] NotCarriedOut),
    /// One object was decided over and over.
    #[error("{kind} {key} was decided {times} times and is not done")]
    Steps {
        /// Its kind.
        kind: &'static str,
        /// Which.
        key: ObjectKey,
        /// How often.
        times: usize,
    },
}

/// What is decided.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Request,
    Purpose,
}

impl Subject {
    fn kind(self) -> &'static str {
        match self {
            Subject::Request => "ClusterRequest",
            Subject::Purpose => "Purpose",
        }
    }

    /// How many writes may come of it before something is wrong.
    fn most_steps(self) -> usize {
        match self {
            Subject::Request => MOST_STEPS,
            Subject::Purpose => MOST_SPARE_STEPS,
        }
    }
}

impl Trial {
    /// Begins with this copy at this time. What is bound already is not decided again unless it changes.
    pub fn new(mut snapshot: Snapshot, now: Timestamp) -> Self {
        snapshot.only_unbound_are_due();
        Trial { snapshot, now, names: Counter::default(), revision: 0, made: Vec::new() }
    }

    /// What is there now.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Clusters that were made, in this order; spares too.
    pub fn made(&self) -> &[ObjectKey] {
        &self.made
    }

    /// Puts an object as somebody with all rights would.
    pub fn put(&mut self, object: Object) {
        self.snapshot.apply(object);
    }

    /// The Cluster takes nothing new from now on; false if there is none.
    pub fn drain(&mut self, cluster: &ObjectKey) -> bool {
        let Some(drained) = self.snapshot.clusters.get(cluster) else { return false };
        let mut drained = drained.as_ref().clone();
        let since = whole_seconds(self.now).to_string();
        drained.metadata.annotations.get_or_insert_default().insert(names::DRAINING.to_owned(), since);
        self.snapshot.apply(Object::Cluster(Arc::new(drained)));
        true
    }

    /// The ClusterProvider is not ready from now on; false if there is none.
    pub fn stop_provider(&mut self, name: &str) -> bool {
        let Some(mut provider) = self.snapshot.providers.get(name).cloned() else { return false };
        provider.status.get_or_insert_default().ready = false;
        self.snapshot.apply(Object::Provider(Arc::new(provider)));
        true
    }

    /// Adds that many requests alike, made now, with names that nobody has; gives their keys.
    pub fn ask(&mut self, namespace: &str, stem: &str, spec: &ClusterRequestSpec, count: usize) -> Vec<ObjectKey> {
        let width = count.to_string().len();
        let mut keys = Vec::with_capacity(count);
        let mut number = 0_usize;
        while keys.len() < count {
            number += 1;
            let key = ObjectKey::new(namespace, format!("{stem}-{number:0width$}"));
            if self.snapshot.requests.contains_key(&key) || self.snapshot.grants.contains_key(&key) {
                continue;
            }
            let mut request = ClusterRequest::new(&key.name, spec.clone());
            request.metadata.namespace = Some(namespace.to_owned());
            request.metadata.uid = Some(self.next("uid"));
            request.metadata.resource_version = Some(self.next("revision"));
            request.metadata.generation = Some(1);
            request.metadata.creation_timestamp = Some(Time(whole_seconds(self.now)));
            self.snapshot.apply(Object::Request(Arc::new(request)));
            keys.push(key);
        }
        keys
    }

    /// Decides and carries out until nothing is left to do; gives the number of writes.
    ///
    /// # Errors
    /// Decisions come to no end: a fault of theirs.
    pub fn run(&mut self) -> Result<usize, Unending> {
        self.run_telling(|_, _| {})
    }

    /// The same, told how many requests were decided, and how many are known to be due beside these.
    ///
    /// # Errors
    /// As for [`Trial::run`].
    pub fn run_telling(&mut self, mut told: impl FnMut(usize, usize)) -> Result<usize, Unending> {
        let (mut requests, mut purposes) = (BTreeSet::new(), BTreeSet::new());
        let (mut writes, mut decided, mut turns) = (0, 0, BTreeMap::<ObjectKey, usize>::new());
        loop {
            let due = self.snapshot.take_due();
            requests.extend(due.requests.iter().filter_map(|key| self.snapshot.turn(key)));
            purposes.extend(due.purposes);
            // Requests first, in the order of the queue, whatever the last one made due: nobody waits for a spare.
            if let Some(next) = requests.pop_first() {
                told(decided, requests.len());
                decided += 1;
                let turns = turns.entry(next.key().clone()).or_insert(0);
                *turns += 1;
                if *turns > MOST_TURNS {
                    let kind = Subject::Request.kind();
                    return Err(Unending::Steps { kind, key: next.key().clone(), times: MOST_TURNS });
                }
                writes += self.decide(Subject::Request, next.key())?;
            } else if let Some(next) = purposes.pop_first() {
                writes += self.decide(Subject::Purpose, &next)?;
            } else {
                return Ok(writes);
            }
        }
    }

    fn decide(&mut self, subject: Subject, key: &ObjectKey) -> Result<usize, Unending> {
        let most = subject.most_steps();
        for step in 0..most {
            let write = match subject {
                Subject::Request => decide_request(&self.snapshot, key, self.now, &mut self.names).write().cloned(),
                Subject::Purpose => {
                    decide_purpose(&self.snapshot, &key.name, self.now, &mut self.names).write().cloned()
                }
            };
            match write {
                Some(write) => self.carry_out(&write)?,
                None => return Ok(step),
            }
        }
        Err(Unending::Steps { kind: subject.kind(), key: key.clone(), times: most })
    }

    /// What became of a request.
    pub fn fate(&self, key: &ObjectKey) -> Fate {
        let Some(request) = self.snapshot.requests.get(key) else { return Fate::Undecided };
        let own = |grant: &&Arc<ClusterRequestGrant>| Some(&grant.spec.request_uid) == request.metadata.uid.as_ref();
        if let Some(grant) = self.snapshot.grants.get(key).filter(own) {
            let bound = &grant.spec.cluster_ref;
            return Fate::Granted { cluster: ObjectKey::new(bound.namespace.clone(), bound.name.clone()) };
        }
        match request.status.as_ref().and_then(|status| status.status.map(|verdict| (verdict, status))) {
            Some((verdict, status)) => {
                Fate::Refused { verdict, reason: status.reason.clone(), message: status.message.clone() }
            }
            None => Fate::Undecided,
        }
    }

    /// Carries a write out, as the Kubernetes API does: compare-and-swap, UIDs, finalizers.
    ///
    /// # Errors
    /// The write does not fit what is there.
    pub fn carry_out(&mut self, write: &Write) -> Result<(), NotCarriedOut> {
        match write {
            Write::Create { kind, key, object } => {
                if self.value(*kind, key).is_some() {
                    return Err(changed(*kind, key));
                }
                let mut object = object.to_value();
                if let Some(members) = object.as_object_mut() {
                    members.remove("status");
                }
                object["metadata"]["uid"] = json!(self.next("uid"));
                object["metadata"]["generation"] = json!(1);
                object["metadata"]["creationTimestamp"] = json!(whole_seconds(self.now).to_string());
                if *kind == Kind::Cluster {
                    self.made.push(key.clone());
                }
                self.store(*kind, key, object)
            }
            Write::Apply { kind, key, object } => {
                let object = object.to_value();
                let old = self.seen(*kind, key, &object["metadata"])?;
                let mut new = old.clone();
                if let Some(annotations) = object["metadata"].get("annotations") {
                    merge_apply(&mut new["metadata"]["annotations"], annotations);
                }
                let mut finalizers = old["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
                for finalizer in object["metadata"]["finalizers"].as_array().into_iter().flatten() {
                    if !finalizers.contains(finalizer) {
                        finalizers.push(finalizer.clone());
                    }
                }
                new["metadata"]["finalizers"] = Value::Array(finalizers);
                self.store(*kind, key, new)
            }
            Write::ApplyStatus { kind, key, object } => {
                let object = object.to_value();
                let mut new = self.seen(*kind, key, &object["metadata"])?;
                let mut status = object["status"].clone();
                if let Some(applied) = status["conditions"].as_array_mut() {
                    // Those that are not applied are somebody else's.
                    let others = new["status"]["conditions"].as_array().into_iter().flatten();
                    let kept: Vec<Value> =
                        others.filter(|have| applied.iter().all(|own| own["type"] != have["type"])).cloned().collect();
                    applied.splice(0..0, kept);
                }
                merge_apply(&mut new["status"], &status);
                self.store(*kind, key, new)
            }
            Write::Patch { kind, key, patch } => {
                let patch = patch.to_value();
                let old = self.seen(*kind, key, &patch["metadata"])?;
                let mut new = old.clone();
                merge_apply(&mut new, &patch);
                if let Some(members) = new.as_object_mut() {
                    members.insert("status".to_owned(), old["status"].clone());
                }
                if new["spec"] != old["spec"] {
                    new["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
                }
                self.store(*kind, key, new)
            }
            Write::PatchStatus { kind, key, patch } => {
                let patch = patch.to_value();
                let mut new = self.seen(*kind, key, &patch["metadata"])?;
                merge_apply(&mut new["status"], &patch["status"]);
                self.store(*kind, key, new)
            }
            Write::Delete { kind, key, uid, resource_version } => {
                let mut conditions = json!({ "uid": uid });
                if let Some(version) = resource_version {
                    conditions["resourceVersion"] = json!(version);
                }
                let mut new = self.seen(*kind, key, &conditions)?;
                new["metadata"]["deletionTimestamp"] = json!(whole_seconds(self.now).to_string());
                self.store(*kind, key, new)
            }
        }
    }

    /// The object, if it is the one that a write is about.
    fn seen(&self, kind: Kind, key: &ObjectKey, conditions: &Value) -> Result<Value, NotCarriedOut> {
        let object = self.value(kind, key).ok_or_else(|| changed(kind, key))?;
        let differs = |field| conditions.get(field).is_some_and(|wanted| *wanted != object["metadata"][field]);
        match differs("uid") || differs("resourceVersion") {
            true => Err(changed(kind, key)),
            false => Ok(object),
        }
    }

    fn value(&self, kind: Kind, key: &ObjectKey) -> Option<Value> {
        let snapshot = &self.snapshot;
        match kind {
            Kind::ClusterProvider => snapshot.providers.get(&key.name).map(to_value),
            Kind::Purpose => snapshot.purposes.get(&key.name).map(to_value),
            Kind::Cluster => snapshot.clusters.get(key).map(|it| to_value(it.as_ref())),
            Kind::ClusterRequest => snapshot.requests.get(key).map(|it| to_value(it.as_ref())),
            Kind::ClusterRequestGrant => snapshot.grants.get(key).map(|it| to_value(it.as_ref())),
            Kind::AccessRequest => snapshot.access.get(key).map(|it| to_value(it.as_ref())),
        }
    }

    /// Stores what a write made; an object that is deleted and has no finalizer goes.
    fn store(&mut self, kind: Kind, key: &ObjectKey, mut object: Value) -> Result<(), NotCarriedOut> {
        let metadata = &object["metadata"];
        let held = metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()) && !held {
            self.snapshot.delete(object_kind(kind), key);
            return Ok(());
        }
        object["metadata"]["resourceVersion"] = json!(self.next("revision"));
        let unreadable = |source| NotCarriedOut::Unreadable { kind: kind.as_str(), key: key.clone(), source };
        self.snapshot.apply(read_object(kind, object).map_err(unreadable)?);
        Ok(())
    }

    fn next(&mut self, what: &str) -> String {
        self.revision += 1;
        format!("trial-{what}-{}", self.revision)
    }
}

fn changed(kind: Kind, key: &ObjectKey) -> NotCarriedOut {
    NotCarriedOut::Changed { kind: kind.as_str(), key: key.clone() }
}

fn object_kind(kind: Kind) -> ObjectKind {
    match kind {
        Kind::ClusterProvider => ObjectKind::Provider,
        Kind::Purpose => ObjectKind::Purpose,
        Kind::Cluster => ObjectKind::Cluster,
        Kind::ClusterRequest => ObjectKind::Request,
        Kind::ClusterRequestGrant => ObjectKind::Grant,
        Kind::AccessRequest => ObjectKind::Access,
    }
}

fn read_object(kind: Kind, object: Value) -> Result<Object, serde_json::Error> {
    fn read<T: DeserializeOwned>(object: Value) -> Result<Arc<T>, serde_json::Error> {
        serde_json::from_value(object).map(Arc::new)
    }
    Ok(match kind {
        Kind::ClusterProvider => Object::Provider(read(object)?),
        Kind::Purpose => Object::Purpose(read(object)?),
        Kind::Cluster => Object::Cluster(read(object)?),
        Kind::ClusterRequest => Object::Request(read(object)?),
        Kind::ClusterRequestGrant => Object::Grant(read(object)?),
        Kind::AccessRequest => Object::Access(read(object)?),
    })
}

/// Proposals from a counter: distinct, and the same every time. Its front moves, from which names are cut.
#[derive(Clone, Debug, Default)]
struct Counter(u64);

impl Iterator for Counter {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        const LETTERS: &[u8; 20] = b"bcdfghjklmnpqrstvwxz";
        self.0 += 1;
        let mut rest = self.0;
        let mut text = String::new();
        for _ in 0..10 {
            let letter = usize::try_from(rest % 20).ok().and_then(|index| LETTERS.get(index));
            text.push(char::from(*letter.unwrap_or(&b'b')));
            rest /= 20;
        }
        Some(text)
    }
}
