//! A landscape with Clusters whose inside is modelled, and what the tests of access ask of it.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names;
use allotment_api::reasons::AccessReason;
use allotment_api::requests::{AccessRequest, AccessType};
use allotment_core::access::{
    AccessObserved, AccessPlan, Change, Inside, InsideState, Looked, PrefixSeen, SecretFacts, TargetCluster,
    decide_access, other_secret_name,
};
use allotment_core::write::ObjectKey;
use allotment_machinery::rbac::{PolicyRule, uncovered};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::store::{Names, Scheduler, Store, landscape, request, settle};

/// How long access is granted for where nothing else is said, in seconds.
pub(crate) const LIFETIME: i64 = 500;

/// A landscape with Clusters whose inside is modelled, and what was done in order.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) scheduler: Scheduler,
    pub(crate) names: Names,
    /// By Cluster UID, then kind and key.
    pub(crate) inside: BTreeMap<String, BTreeMap<(String, ObjectKey), Value>>,
    /// Clusters that do not answer.
    pub(crate) silent: BTreeSet<String>,
    /// Where Clusters are reached.
    pub(crate) endpoint: String,
    /// Whether nobody is kept to prefixes.
    pub(crate) unguarded: bool,
    pub(crate) secrets: BTreeMap<ObjectKey, SecretFacts>,
    /// What one process remembers of its looks, by UID of the AccessRequest.
    pub(crate) looks: BTreeMap<String, Looked>,
    pub(crate) done: Vec<String>,
    /// What a provider was let to last.
    pub(crate) rights: Vec<Value>,
    pub(crate) serial: usize,
}

impl World {
    pub(crate) fn new(store: Store) -> Self {
        let mut world = World {
            store,
            scheduler: Scheduler::default(),
            names: Names::default(),
            inside: BTreeMap::new(),
            silent: BTreeSet::new(),
            endpoint: "here".to_owned(),
            unguarded: false,
            secrets: BTreeMap::new(),
            looks: BTreeMap::new(),
            done: Vec::new(),
            rights: Vec::new(),
            serial: 0,
        };
        world.settle_requests();
        world.store.provision();
        world.settle_requests();
        world
    }

    pub(crate) fn settle_requests(&mut self) {
        settle(&mut self.store, &mut self.scheduler, &mut self.names);
    }

    pub(crate) fn uid(&mut self) -> String {
        self.serial += 1;
        format!("inside-{}", self.serial)
    }

    pub(crate) fn state(&self, cluster: &TargetCluster, request_uid: &str, wanted: &BTreeSet<String>) -> InsideState {
        let objects = self.inside.get(&cluster.uid);
        let label = "cluster.openmcp.cloud/access-request";
        let all = || objects.into_iter().flatten();
        InsideState {
            endpoint: self.endpoint.clone(),
            objects: all()
                .filter(|(place, object)| place.0 != "Namespace" && object["metadata"]["labels"][label] == request_uid)
                .map(|(_, object)| object.clone())
                .collect(),
            namespaces: all()
                .filter(|(place, _)| place.0 == "Namespace" && wanted.contains(&place.1.name))
                .map(|(place, _)| place.1.name.clone())
                .collect(),
            prefix: PrefixSeen::NotLooked,
        }
    }

    pub(crate) fn change(&mut self, cluster: &TargetCluster, change: &Change) {
        let key_of = crate::store::key_of;
        match change {
            Change::Delete { kind, key, uid, .. } => {
                let objects = self.inside.entry(cluster.uid.clone()).or_default();
                let removed = objects.remove(&(kind.clone(), key.clone())).expect("it was seen");
                assert_eq!(removed["metadata"]["uid"], json!(uid));
                self.done.push(format!("delete {kind}"));
            }
            Change::Apply(object) => {
                let kind = object["kind"].as_str().expect("a kind").to_owned();
                self.done.push(format!("apply {kind} {}", key_of(object).namespace));
                self.inside.entry(cluster.uid.clone()).or_default().insert((kind, key_of(object)), object.clone());
            }
            Change::Create(object) => {
                let mut object = object.clone();
                object["metadata"]["uid"] = json!(self.uid());
                let kind = object["kind"].as_str().expect("a kind").to_owned();
                self.done.push(format!("create {kind}"));
                let place = (kind, key_of(&object));
                self.inside.entry(cluster.uid.clone()).or_default().insert(place, object);
            }
        }
    }

    /// Does what is decided for an AccessRequest until nothing is left to do; gives when to look again.
    pub(crate) fn run(&mut self, namespace: &str, name: &str) -> Option<Timestamp> {
        let key = ObjectKey::new(namespace, name);
        let mut inside: Option<Option<InsideState>> = None;
        let mut unguarded = false;
        for _ in 0..40 {
            self.scheduler.observe(&self.store, usize::MAX);
            let object = self.store.get("AccessRequest", namespace, name)?.clone();
            let access: AccessRequest = serde_json::from_value(object).expect("an AccessRequest");
            let uid = access.metadata.uid.clone().expect("a UID");
            let secret = self.secret_of(&access);
            let observed = AccessObserved {
                request: &access,
                inside: match &inside {
                    None if unguarded => {
                        Inside::Unguarded(AccessReason::PrefixNotEnforced, "its API server is too old")
                    }
                    None => Inside::NotRead,
                    Some(None) => Inside::Unreachable(None),
                    Some(Some(state)) => Inside::Read(state),
                },
                secret: secret.as_ref(),
                looked: self.looks.get(&uid).copied(),
                now: self.store.time(),
                token_lifetime_secs: LIFETIME,
            };
            match decide_access(&self.scheduler.snapshot, &observed) {
                AccessPlan::Done { again } => {
                    if matches!(inside, Some(Some(_))) {
                        let looked = Looked { generation: access.metadata.generation, at: self.store.time() };
                        self.looks.insert(uid, looked);
                    }
                    return again;
                }
                AccessPlan::Observe { cluster, namespaces } => {
                    unguarded = false;
                    let reachable = !self.silent.contains(&cluster.uid);
                    inside = Some(reachable.then(|| self.state(&cluster, &uid, &namespaces)));
                }
                AccessPlan::LookForNames { cluster, prefix, tenant } => {
                    let Some(Some(state)) = &mut inside else { panic!("the Cluster was not read before") };
                    let places = self.inside.get(&cluster.uid).into_iter().flatten();
                    let own = |object: &Value| object["metadata"]["labels"][names::TENANT] == tenant;
                    let mut borne = places.filter(|(place, object)| {
                        place.1.namespace.is_empty() && place.1.name.starts_with(&prefix) && !own(object)
                    });
                    state.prefix =
                        borne.next().map_or(PrefixSeen::Free, |(place, _)| PrefixSeen::Borne(place.0.clone()));
                }
                AccessPlan::Change { cluster, takes, gives } => {
                    assert!(!takes.is_empty() || !gives.is_empty());
                    for change in &takes {
                        let before = self.effective(&cluster.uid);
                        self.change(&cluster, change);
                        for (place, rule) in self.effective(&cluster.uid) {
                            let held: Vec<_> =
                                before.iter().filter(|had| had.0 == place).map(|had| had.1.clone()).collect();
                            assert!(uncovered(&held, &[rule]).is_empty(), "{change:?} gives");
                        }
                    }
                    unguarded = self.unguarded && !gives.is_empty();
                    if !unguarded {
                        gives.iter().for_each(|change| self.change(&cluster, change));
                    }
                    inside = None;
                }
                AccessPlan::Mint { cluster, service_account, lifetime_secs, secret } => {
                    let place = ("ServiceAccount".to_owned(), service_account);
                    let account =
                        self.inside[&cluster.uid].get(&place).expect("the identity is there")["metadata"]["uid"]
                            .clone();
                    let now = self.store.time();
                    self.done.push(format!("mint {lifetime_secs}"));
                    let facts = SecretFacts {
                        uid: self.uid(),
                        name: secret.clone(),
                        owned: true,
                        opaque: true,
                        cluster_uid: cluster.uid.clone(),
                        holds: Some(AccessType::Token),
                        endpoint: self.endpoint.clone(),
                        fault: None,
                        issuer: None,
                        extra_scopes: Vec::new(),
                        service_account_uid: account.as_str().expect("a UID").to_owned(),
                        issued_at: now,
                        expires_at: Timestamp::from_second(now.as_second() + lifetime_secs).expect("a time"),
                    };
                    self.secrets.insert(ObjectKey::new(namespace, secret), facts);
                }
                AccessPlan::Describe { cluster, issuer, secret } => {
                    self.done.push("describe".to_owned());
                    let facts = SecretFacts {
                        uid: self.uid(),
                        name: secret.clone(),
                        owned: true,
                        opaque: true,
                        cluster_uid: cluster.uid.clone(),
                        holds: Some(AccessType::Oidc),
                        endpoint: self.endpoint.clone(),
                        fault: None,
                        issuer: Some((issuer.issuer, issuer.client_id)),
                        extra_scopes: issuer.extra_scopes,
                        service_account_uid: String::new(),
                        issued_at: Timestamp::UNIX_EPOCH,
                        expires_at: Timestamp::UNIX_EPOCH,
                    };
                    self.secrets.insert(ObjectKey::new(namespace, secret), facts);
                }
                AccessPlan::MakeSecret { cluster, secret } => self.make_secret(&uid, namespace, &cluster, &secret),
                AccessPlan::DeleteSecret { key, uid } => {
                    assert_eq!(self.secrets.remove(&key).expect("it was seen").uid, uid);
                    self.done.push("delete Secret".to_owned());
                }
                AccessPlan::LeaveBehind { write, .. } => {
                    self.done.push("leave behind".to_owned());
                    self.store.apply(&write).expect("nobody else writes");
                    inside = None;
                }
                AccessPlan::Forget(write) => {
                    self.done.push("forget".to_owned());
                    self.store.apply(&write).expect("nobody else writes");
                    inside = None;
                }
                AccessPlan::Approve { rights, write } => {
                    self.rights = rights;
                    self.store.apply(&write).expect("nobody else writes");
                }
                AccessPlan::Record(write) | AccessPlan::WriteStatus(write) | AccessPlan::RemoveFinalizer(write) => {
                    self.store.apply(&write).expect("nobody else writes");
                }
            }
        }
        panic!("{key} never settles: {:?}", self.done);
    }

    /// As the controller makes it: under its other name where there is one that is not the request's own, or of a type
    /// into which others write.
    fn make_secret(&mut self, request_uid: &str, namespace: &str, cluster: &TargetCluster, name: &str) {
        let taken = self.secrets.contains_key(&ObjectKey::new(namespace, name));
        let name = if taken { other_secret_name(request_uid) } else { name.to_owned() };
        let facts = SecretFacts {
            uid: self.uid(),
            name: name.clone(),
            owned: true,
            opaque: true,
            cluster_uid: cluster.uid.clone(),
            holds: None,
            endpoint: String::new(),
            fault: None,
            issuer: None,
            extra_scopes: Vec::new(),
            service_account_uid: String::new(),
            issued_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
        };
        let before = self.secrets.insert(ObjectKey::new(namespace, name), facts);
        assert!(before.is_none(), "made though it was there");
    }

    /// The Secret as the controller looks for it: the one that is noted, if it is the request's own, else one that is.
    fn secret_of(&self, access: &AccessRequest) -> Option<SecretFacts> {
        let namespace = access.metadata.namespace.clone().unwrap_or_default();
        let named = access.metadata.annotations.as_ref().and_then(|notes| notes.get(names::ACCESS_SECRET));
        let named = named.map(|name| ObjectKey::new(namespace.clone(), name.clone()));
        let named = named.and_then(|named| self.secrets.get(&named)).filter(|secret| secret.owned);
        // As the index there, which has what was written last.
        let own = || {
            let mine = self.secrets.iter().filter(|(at, secret)| at.namespace == namespace && secret.owned);
            mine.min_by_key(|(_, secret)| !secret.opaque)
        };
        named.or_else(|| own().map(|(_, secret)| secret)).cloned()
    }

    pub(crate) fn status(&self, namespace: &str, name: &str) -> Value {
        self.store.get("AccessRequest", namespace, name).expect("there")["status"].clone()
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, namespace: &str, name: &str, expect: (&str, &str)) -> Value {
        self.run(namespace, name);
        let status = self.status(namespace, name);
        assert_eq!(
            (status["status"].as_str(), status["reason"].as_str()),
            (Some(expect.0), Some(expect.1)),
            "{status}"
        );
        status
    }

    /// The rules that whoever is named in the bindings of an AccessRequest has inside, by namespace.
    pub(crate) fn effective(&self, cluster_uid: &str) -> Vec<(String, PolicyRule)> {
        let Some(objects) = self.inside.get(cluster_uid) else { return Vec::new() };
        let mut rules = Vec::new();
        for ((kind, key), binding) in objects.iter().filter(|(place, _)| place.0.ends_with("Binding")) {
            let role = binding["roleRef"]["kind"].as_str().expect("a kind").to_owned();
            let subject = &binding["subjects"][0];
            let account = ObjectKey::new(
                subject["namespace"].as_str().unwrap_or_default(),
                subject["name"].as_str().expect("a name"),
            );
            // A user of an issuer is there whatever lies inside.
            if subject["kind"] != "User" && !objects.contains_key(&("ServiceAccount".to_owned(), account)) {
                continue;
            }
            assert_eq!(kind == "RoleBinding", role == "Role");
            let Some(role) = objects.get(&(role, key.clone())) else { continue };
            for rule in role["rules"].as_array().into_iter().flatten() {
                rules.push((key.namespace.clone(), rule_of(rule)));
            }
        }
        rules
    }
}

pub(crate) fn rule_of(rule: &Value) -> PolicyRule {
    let list = |field: &str| {
        rule[field].as_array().into_iter().flatten().map(|item| item.as_str().expect("text").to_owned()).collect()
    };
    PolicyRule {
        verbs: list("verbs"),
        api_groups: list("apiGroups"),
        resources: list("resources"),
        resource_names: list("resourceNames"),
        non_resource_urls: list("nonResourceURLs"),
    }
}

pub(crate) fn access(namespace: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "cluster.openmcp.cloud/v1", "kind": "AccessRequest",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

pub(crate) fn pods(verbs: &[&str]) -> Value {
    json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}])
}

/// A shared Cluster with tenant `team/shared`, prefix `foo-`, and a dedicated one with `team/own`.
pub(crate) fn world() -> World {
    let mut store = landscape();
    store.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {}}}));
    store.put(
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "guest", "labels": {"trust": "yes"}}}),
    );
    store.put(request("team", "shared", json!({"purposes": ["workload"], "prefix": "foo-"})));
    store.put(request("team", "own", json!({"purposes": ["mcp"]})));
    World::new(store)
}

pub(crate) fn cluster_of(world: &World, request: &str) -> Value {
    world.store.get("ClusterRequestGrant", "team", request).expect("granted")["spec"]["clusterRef"].clone()
}
