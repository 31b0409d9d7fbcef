//! Profiles and Shoots that are there, and what becomes of a write.

use std::collections::BTreeMap;
use std::sync::Arc;

use allotment_admission::catalog::{Case, Facts, Family, Found, Lookup, Stage, Write, users_of};
use allotment_admission::{Caller, Config, Denial, Operation};
use allotment_api::catalog::{CloudProfile, KeptProfile, Parts, RemovedVersion, Shoot, Stored};
use allotment_core::catalog::{Catalog, KeptShoot, Offer, ProfileKey, UnreadProfile, Verb};
use allotment_core::write::ObjectKey;
use allotment_machinery::json::{Value, parse};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;

pub(crate) const NOW: &str = "2026-01-01T00:00:00Z";

pub(crate) fn value(object: serde_json::Value) -> Value {
    parse(object.to_string().as_bytes()).expect("JSON")
}

pub(crate) fn typed<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_slice(&object.to_vec()).expect("an object of the kind")
}

/// What there is.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) catalog: Catalog,
    pub(crate) verbs: BTreeMap<String, Vec<Verb>>,
    pub(crate) source_verbs: BTreeMap<String, Vec<Verb>>,
    pub(crate) profiles: BTreeMap<String, Value>,
    pub(crate) private: BTreeMap<(String, String), Value>,
    pub(crate) shoots: BTreeMap<(String, String), Value>,
}

impl World {
    pub(crate) fn profile(mut self, object: Value) -> Self {
        let name = text(&object, &["metadata", "name"]);
        self.catalog.set_profile(&name, Some(Arc::new(Offer::new(typed::<CloudProfile>(&object)))));
        self.profiles.insert(name, object);
        self
    }

    pub(crate) fn private(mut self, object: Value) -> Self {
        let kept: KeptProfile = typed(&object);
        let key = ObjectKey::of(&kept.metadata);
        self.catalog.set_private(&key, Some(Arc::new(kept)));
        self.private.insert((key.namespace, key.name), object);
        self
    }

    pub(crate) fn shoot(mut self, object: Value) -> Self {
        let shoot: Shoot = typed(&object);
        let key = ObjectKey::of(&shoot.metadata);
        self.catalog.set_shoot(&key, Some(Arc::new(KeptShoot::read(&shoot))));
        self.shoots.insert((key.namespace, key.name), object);
        self
    }

    /// An object of which the spec cannot be read.
    pub(crate) fn unread<K: Parts>(mut self, kind: &str, object: Value) -> Self {
        let Stored::Unread(unread) = typed::<Stored<K>>(&object) else { panic!("it can be read: {object}") };
        let key = ObjectKey::of(&unread.metadata);
        match kind {
            "CloudProfile" => self.catalog.set_unread_profile(&key.name, Arc::new(UnreadProfile::read(*unread))),
            "PrivateCloudProfile" => self.catalog.set_unread_private(&key, Arc::new(UnreadProfile::read(*unread))),
            _ => self.catalog.set_shoot(&key, Some(Arc::new(KeptShoot::unread(&unread)))),
        }
        self
    }

    pub(crate) fn allow(mut self, user: &str, verb: Verb) -> Self {
        self.verbs.entry(user.to_owned()).or_default().push(verb);
        self
    }

    pub(crate) fn look(&self, lookup: &Lookup, user: &str, namespace: &str) -> Found {
        let holds = |verbs: &BTreeMap<String, Vec<Verb>>, verb: &Verb| {
            Found::Allowed(verbs.get(user).is_some_and(|held| held.contains(verb)))
        };
        let unread = |key: ProfileKey| self.catalog.unread(&key).map(|unread| Found::Unread(unread.why.clone()));
        let unread = match lookup {
            Lookup::Profile(name) => unread(ProfileKey::Cloud(name.clone())),
            Lookup::Private(name) => unread(ProfileKey::Private(ObjectKey::new(namespace, name))),
            _ => None,
        };
        if let Some(unread) = unread {
            return unread;
        }
        match lookup {
            Lookup::Profile(name) => Found::Profile(self.catalog.profile(name).cloned()),
            Lookup::Private(name) => Found::Private(self.catalog.private(&ObjectKey::new(namespace, name)).cloned()),
            Lookup::Family(name) => Found::Family(Family::of(&self.catalog, name)),
            Lookup::Users(name) => Found::Users(users_of(&self.catalog, &ObjectKey::new(namespace, name))),
            Lookup::Allowed(verb) => holds(&self.verbs, verb),
            Lookup::AllowedBySource(verb) => holds(&self.source_verbs, verb),
        }
    }

    pub(crate) fn facts(&self, case: &Case<'_>, stage: Stage, user: &str, namespace: &str) -> Facts {
        let mut facts = Facts::default();
        for _ in 0..6 {
            let wanted = case.wants(stage, &facts);
            if wanted.is_empty() {
                return facts;
            }
            for lookup in wanted {
                let found = self.look(&lookup, user, namespace);
                facts.put(lookup, found);
            }
        }
        panic!("it never knows enough");
    }

    /// What is stored of it, and the warnings.
    pub(crate) fn write(&self, by: &str, kind: &str, old: &Value, new: &Value) -> Result<(Value, Vec<String>), Denial> {
        self.write_at(NOW, by, kind, "", old, new)
    }

    pub(crate) fn write_at(
        &self,
        now: &str,
        by: &str,
        kind: &str,
        subresource: &str,
        old: &Value,
        new: &Value,
    ) -> Result<(Value, Vec<String>), Denial> {
        let operation = match (old.is_null(), new.is_null()) {
            (_, true) => Operation::Delete,
            (true, false) => Operation::Create,
            (false, false) => Operation::Update,
        };
        let groups = if by == "root" { vec!["system:masters".to_owned()] } else { Vec::new() };
        let caller = Caller { username: by.to_owned(), uid: String::new(), groups };
        let name = text(if new.is_null() { old } else { new }, &["metadata", "name"]);
        let mut object = new.clone();
        let config = Config { platform_users: ["platform".to_owned()].into() };
        let namespace = text(if new.is_null() { old } else { new }, &["metadata", "namespace"]);
        let now: Timestamp = now.parse().expect("a time");
        let namespace = namespace.as_str();
        let base =
            Write { operation, kind, subresource, namespace, name: &name, object: new, old, caller: &caller, now };
        let mut warnings = Vec::new();
        if let Some(case) = Case::read_to_change(&config, &base)? {
            let changes = case.changes(&self.facts(&case, Stage::Mutate, by, namespace));
            let whole = Case::read(&config, &base)?.expect("it is judged");
            let by_whole = whole.changes(&self.facts(&whole, Stage::Mutate, by, namespace));
            assert_eq!(changes, by_whole, "what was not read has no part in it");
            changes.apply(&mut object);
            warnings.extend(changes.warnings);
        }
        // Beside another API server time passes between the two.
        let last = Write { object: &object, now: now + SignedDuration::from_secs(1), ..base };
        if let Some(case) = Case::read(&config, &last)? {
            warnings.extend(case.judge(&self.facts(&case, Stage::Validate, by, namespace))?);
        }
        if let Some(case) = Case::read_to_complete(&last) {
            let status = case.status(&self.facts(&case, Stage::Complete, by, namespace)).expect("a status");
            let noted = text(&object, &["metadata", "annotations", REMOVED]);
            let noted: Vec<RemovedVersion> = serde_json::from_str(&noted).unwrap_or_default();
            assert_eq!(status.removed, noted, "the status says what the annotation does");
        }
        Ok((object, warnings))
    }

    #[track_caller]
    pub(crate) fn refused(&self, by: &str, kind: &str, old: &Value, new: &Value, expect: &[&str]) {
        let said = match self.write(by, kind, old, new).expect_err("refused") {
            Denial::Invalid(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            Denial::Forbidden(why) => format!("403: {why}"),
        };
        for part in expect {
            assert!(said.contains(part), "{part:?} is not in {said:?}");
        }
    }
}

pub(crate) fn text(object: &Value, path: &[&str]) -> String {
    object.at(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) fn object(kind: &str, namespace: &str, name: &str, spec: serde_json::Value) -> Value {
    let mut metadata = serde_json::json!({"name": name});
    if kind != "Shoot" {
        metadata["finalizers"] = serde_json::json!(["allotment.dev/catalog"]);
    }
    if !namespace.is_empty() {
        metadata["namespace"] = serde_json::json!(namespace);
    }
    value(
        serde_json::json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}),
    )
}

pub(crate) fn parent_spec() -> serde_json::Value {
    serde_json::json!({"type": "local",
        "kubernetes": {"versions": [{"version": "1.30.1", "expirationDate": "2026-06-01T00:00:00Z"}, {"version": "1.31.0"}]},
        "machineImages": [{"name": "linux", "versions": [{"version": "1.0.0"}, {"version": "1.1.0"}]}],
        "machineTypes": [{"name": "small", "cpu": "2", "gpu": "0", "memory": "8Gi"}],
        "regions": [{"name": "here"}]})
}

pub(crate) fn parent() -> Value {
    object("CloudProfile", "", "central", parent_spec())
}

pub(crate) fn private(spec: serde_json::Value) -> Value {
    let mut whole = serde_json::json!({"parent": "central"});
    whole.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    object("PrivateCloudProfile", "team", "mine", whole)
}

pub(crate) fn types(name: &str) -> serde_json::Value {
    serde_json::json!({"machineTypes": [{"name": name, "cpu": "16", "gpu": "0", "memory": "64Gi"}]})
}

pub(crate) fn extended(date: &str) -> serde_json::Value {
    serde_json::json!({"kubernetes": {"versions": [{"version": "1.30.1", "expirationDate": date}]}})
}

pub(crate) fn shoot(name: &str, profile: serde_json::Value, version: &str) -> Value {
    object(
        "Shoot",
        "team",
        name,
        serde_json::json!({"cloudProfile": profile, "region": "here", "kubernetes": {"version": version},
        "provider": {"type": "local", "workers": [{"name": "w", "machine": {"type": "small", "image": {"name": "linux", "version": "1.0.0"}}}]}}),
    )
}

pub(crate) fn on_central() -> serde_json::Value {
    serde_json::json!({"kind": "CloudProfile", "name": "central"})
}

pub(crate) fn on_mine() -> serde_json::Value {
    serde_json::json!({"kind": "PrivateCloudProfile", "name": "mine"})
}

pub(crate) fn going(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).expect("metadata");
    metadata.insert("deletionTimestamp", NOW);
    object
}

/// Without finalizers.
pub(crate) fn let_go(object: &Value) -> Value {
    let mut object = object.clone();
    object.get_mut("metadata").and_then(Value::as_object_mut).expect("metadata").remove("finalizers");
    object
}

pub(crate) fn annotated(object: &Value, name: &str, text: &str) -> Value {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).expect("metadata");
    metadata.object_mut("annotations").expect("annotations").insert(name, text);
    object
}

pub(crate) const REMOVED: &str = "allotment.dev/removed-versions";
