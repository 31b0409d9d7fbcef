//! Writes of CloudProfiles, PrivateCloudProfiles and Shoots: what is looked up, changed, refused and warned of.

use std::collections::BTreeMap;
use std::sync::Arc;

use allotment_admission::catalog::{Case, Facts, Family, Found, Lookup, Stage, Write, users_of};
use allotment_admission::{Caller, Config, Denial, Operation};
use allotment_api::catalog::{CloudProfile, KeptProfile, Shoot};
use allotment_core::catalog::{Catalog, KeptShoot, Offer, Verb};
use allotment_core::write::ObjectKey;
use allotment_machinery::json;
use allotment_machinery::json::{Value, parse};
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;

const NOW: &str = "2026-01-01T00:00:00Z";

fn value(object: serde_json::Value) -> Value {
    parse(object.to_string().as_bytes()).expect("JSON")
}

fn typed<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_slice(&object.to_vec()).expect("an object of the kind")
}

/// What there is.
#[derive(Default)]
struct World {
    catalog: Catalog,
    verbs: BTreeMap<String, Vec<Verb>>,
    source_verbs: BTreeMap<String, Vec<Verb>>,
    profiles: BTreeMap<String, Value>,
    private: BTreeMap<(String, String), Value>,
    shoots: BTreeMap<(String, String), Value>,
}

impl World {
    fn profile(mut self, object: Value) -> Self {
        let name = text(&object, &["metadata", "name"]);
        self.catalog.set_profile(&name, Some(Arc::new(Offer::new(typed::<CloudProfile>(&object)))));
        self.profiles.insert(name, object);
        self
    }

    fn private(mut self, object: Value) -> Self {
        let kept: KeptProfile = typed(&object);
        let key = ObjectKey::of(&kept.metadata);
        self.catalog.set_private(&key, Some(Arc::new(kept)));
        self.private.insert((key.namespace, key.name), object);
        self
    }

    fn shoot(mut self, object: Value) -> Self {
        let shoot: Shoot = typed(&object);
        let key = ObjectKey::of(&shoot.metadata);
        self.catalog.set_shoot(&key, Some(Arc::new(KeptShoot::read(&shoot))));
        self.shoots.insert((key.namespace, key.name), object);
        self
    }

    fn allow(mut self, user: &str, verb: Verb) -> Self {
        self.verbs.entry(user.to_owned()).or_default().push(verb);
        self
    }

    fn look(&self, lookup: &Lookup, user: &str) -> Found {
        let holds = |verbs: &BTreeMap<String, Vec<Verb>>, verb: &Verb| {
            Found::Allowed(verbs.get(user).is_some_and(|held| held.contains(verb)))
        };
        match lookup {
            Lookup::Profile(name) => Found::Profile(self.catalog.profile(name).cloned()),
            Lookup::Private(name) => Found::Private(self.catalog.private(&ObjectKey::new("team", name)).cloned()),
            Lookup::Family(name) => Found::Family(Family::of(&self.catalog, name)),
            Lookup::Users(name) => Found::Users(users_of(&self.catalog, &ObjectKey::new("team", name))),
            Lookup::Allowed(verb) => holds(&self.verbs, verb),
            Lookup::AllowedBySource(verb) => holds(&self.source_verbs, verb),
        }
    }

    fn facts(&self, case: &Case<'_>, stage: Stage, user: &str) -> Facts {
        let mut facts = Facts::default();
        for _ in 0..6 {
            let wanted = case.wants(stage, &facts);
            if wanted.is_empty() {
                return facts;
            }
            for lookup in wanted {
                let found = self.look(&lookup, user);
                facts.put(lookup, found);
            }
        }
        panic!("it never knows enough");
    }

    /// What is stored of it, and the warnings.
    fn write(&self, by: &str, kind: &str, old: &Value, new: &Value) -> Result<(Value, Vec<String>), Denial> {
        self.write_at(NOW, by, kind, "", old, new)
    }

    fn write_at(
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
        let namespace = if kind == "CloudProfile" { "" } else { "team" };
        let now: Timestamp = now.parse().expect("a time");
        let base =
            Write { operation, kind, subresource, namespace, name: &name, object: new, old, caller: &caller, now };
        if let Some(case) = Case::read(&config, &base)? {
            case.changes(&self.facts(&case, Stage::Mutate, by))?.apply(&mut object);
        }
        let last = Write { object: &object, ..base };
        let warnings = match Case::read(&config, &last)? {
            Some(case) => case.judge(&self.facts(&case, Stage::Validate, by))?,
            None => Vec::new(),
        };
        Ok((object, warnings))
    }

    #[track_caller]
    fn refused(&self, by: &str, kind: &str, old: &Value, new: &Value, expect: &[&str]) {
        let said = match self.write(by, kind, old, new).expect_err("refused") {
            Denial::Invalid(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            Denial::Forbidden(why) => format!("403: {why}"),
        };
        for part in expect {
            assert!(said.contains(part), "{part:?} is not in {said:?}");
        }
    }
}

fn text(object: &Value, path: &[&str]) -> String {
    object.at(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn object(kind: &str, namespace: &str, name: &str, spec: serde_json::Value) -> Value {
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

fn parent_spec() -> serde_json::Value {
    serde_json::json!({"type": "local",
        "kubernetes": {"versions": [{"version": "1.30.1", "expirationDate": "2026-06-01T00:00:00Z"}, {"version": "1.31.0"}]},
        "machineImages": [{"name": "linux", "versions": [{"version": "1.0.0"}, {"version": "1.1.0"}]}],
        "machineTypes": [{"name": "small", "cpu": "2", "gpu": "0", "memory": "8Gi"}],
        "regions": [{"name": "here"}]})
}

fn parent() -> Value {
    object("CloudProfile", "", "central", parent_spec())
}

fn private(spec: serde_json::Value) -> Value {
    let mut whole = serde_json::json!({"parent": "central"});
    whole.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    object("PrivateCloudProfile", "team", "mine", whole)
}

fn types(name: &str) -> serde_json::Value {
    serde_json::json!({"machineTypes": [{"name": name, "cpu": "16", "gpu": "0", "memory": "64Gi"}]})
}

fn extended(date: &str) -> serde_json::Value {
    serde_json::json!({"kubernetes": {"versions": [{"version": "1.30.1", "expirationDate": date}]}})
}

fn shoot(name: &str, profile: serde_json::Value, version: &str) -> Value {
    object(
        "Shoot",
        "team",
        name,
        serde_json::json!({"cloudProfile": profile, "region": "here", "kubernetes": {"version": version},
        "provider": {"type": "local", "workers": [{"name": "w", "machine": {"type": "small", "image": {"name": "linux", "version": "1.0.0"}}}]}}),
    )
}

fn on_central() -> serde_json::Value {
    serde_json::json!({"kind": "CloudProfile", "name": "central"})
}

fn on_mine() -> serde_json::Value {
    serde_json::json!({"kind": "PrivateCloudProfile", "name": "mine"})
}

fn going(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).expect("metadata");
    metadata.insert("deletionTimestamp", NOW);
    object
}

fn annotated(object: &Value, name: &str, text: &str) -> Value {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).expect("metadata");
    metadata.object_mut("annotations").expect("annotations").insert(name, text);
    object
}

const REMOVED: &str = "allotment.dev/removed-versions";

#[test]
fn a_parent_has_to_be_there_to_stay_and_to_be_a_cloud_profile() {
    let check = |world: &World, old: &Value, spec: serde_json::Value, expect: &[&str]| {
        let new = object("PrivateCloudProfile", "team", "mine", spec);
        world.refused("alice", "PrivateCloudProfile", old, &new, expect);
    };
    let nothing = World::default();
    check(
        &nothing,
        &Value::Null,
        serde_json::json!({"parent": "central"}),
        &["spec.parent: ", "no CloudProfile of that name"],
    );
    check(&nothing, &Value::Null, serde_json::json!({}), &["spec.parent: Required value"]);
    let leaving = World::default().profile(going(&parent()));
    check(
        &leaving,
        &Value::Null,
        serde_json::json!({"parent": "central"}),
        &["CloudProfile \"central\" is being deleted"],
    );
    let (there, changed) = (private(serde_json::json!({})), private(types("large")));
    assert!(
        leaving.write("alice", "PrivateCloudProfile", &there, &changed).is_ok(),
        "who was there before stays changeable"
    );

    let nested = World::default().profile(parent()).private(private(serde_json::json!({})));
    let other = |parent: serde_json::Value| {
        object("PrivateCloudProfile", "team", "other", serde_json::json!({"parent": parent}))
    };
    let level = "multi-level inheritance is not supported";
    nested.refused(
        "alice",
        "PrivateCloudProfile",
        &Value::Null,
        &other(serde_json::json!("mine")),
        &["spec.parent", level],
    );
    let by_kind = serde_json::json!({"kind": "PrivateCloudProfile", "name": "mine"});
    nested.refused("alice", "PrivateCloudProfile", &Value::Null, &other(by_kind), &["spec.parent.kind", level]);

    let two = World::default().profile(parent()).profile(object("CloudProfile", "", "second", parent_spec()));
    check(&two, &there, serde_json::json!({"parent": "second"}), &["spec.parent", "is immutable, and was \"central\""]);
    check(&two, &there, serde_json::json!({"parent": "third"}), &["is immutable"]);
    let form = object(
        "PrivateCloudProfile",
        "team",
        "mine",
        serde_json::json!({"parent": {"kind": "CloudProfile", "name": "central"}}),
    );
    assert!(two.write("alice", "PrivateCloudProfile", &there, &form).is_ok(), "the other form is no change");
}

#[test]
fn inherited_fields_are_refused_by_name() {
    let world = World::default().profile(parent());
    for field in ["type", "providerConfig", "seedSelector", "bastion"] {
        let new = private(serde_json::json!({(field): {}}));
        let expect = format!("spec.{field}: Forbidden: {field} is inherited");
        world.refused("alice", "PrivateCloudProfile", &Value::Null, &new, &[&expect]);
    }
}

#[test]
fn verbs_guard_versions_and_images_whole_and_only_where_they_change() {
    let world = World::default().profile(parent()).allow("ops", Verb::Kubernetes).allow("ops", Verb::MachineImages);
    let own = private(types("large"));
    for by in ["alice", "ops", "root"] {
        assert!(world.write(by, "PrivateCloudProfile", &Value::Null, &own).is_ok(), "{by}");
    }
    let mut both = types("large");
    both["kubernetes"] = extended("2027-01-01T00:00:00Z")["kubernetes"].clone();
    both["machineImages"] = serde_json::json!([{"name": "own", "versions": [{"version": "1.0.0"}]}]);
    let denied = [
        "403: user \"alice\" is not allowed to modify .spec.kubernetes for \"privatecloudprofiles\"",
        "user \"alice\" is not allowed to modify .spec.machineImages for \"privatecloudprofiles\"",
        "{apiGroups: [\"core.gardener.cloud\"], resources: [\"privatecloudprofiles\"], verbs: [\"modify-spec-kubernetes\"]}",
        "verbs: [\"modify-spec-machineImages\"]}",
    ];
    world.refused("alice", "PrivateCloudProfile", &Value::Null, &private(both.clone()), &denied);
    world.refused("alice", "PrivateCloudProfile", &own, &private(both.clone()), &denied);
    // Taking it out is a change, too.
    world.refused("alice", "PrivateCloudProfile", &private(both.clone()), &own, &denied);
    for by in ["ops", "root"] {
        assert!(world.write(by, "PrivateCloudProfile", &own, &private(both.clone())).is_ok(), "{by}");
    }
    let mut more = both.clone();
    more["machineTypes"] = types("huge")["machineTypes"].clone();
    assert!(world.write("alice", "PrivateCloudProfile", &private(both.clone()), &private(more)).is_ok());
    let kubernetes_only = World::default().profile(parent()).allow("bob", Verb::Kubernetes);
    let error = kubernetes_only.write("bob", "PrivateCloudProfile", &own, &private(both)).expect_err("half");
    assert!(
        !error.to_string().contains(".spec.kubernetes") && error.to_string().contains(".spec.machineImages"),
        "{error}"
    );
}

#[test]
fn a_rule_in_the_words_of_the_proposal_is_told_of() {
    let mut world = World::default().profile(parent());
    world.source_verbs.insert("alice".to_owned(), vec![Verb::Kubernetes]);
    let new = private(extended("2027-01-01T00:00:00Z"));
    let expect = "a bound rule has apiGroups: [\"\"], resources: [\"privatecloudprofile\"]";
    world.refused("alice", "PrivateCloudProfile", &Value::Null, &new, &[expect]);
    let error = world.write("bob", "PrivateCloudProfile", &Value::Null, &new).expect_err("denied").to_string();
    assert!(!error.contains("a bound rule"), "{error}");
}

#[test]
fn what_expired_and_is_applied_again_is_dropped_for_a_member_as_well() {
    let world = World::default().profile(parent());
    let date = "2026-07-01T00:00:00Z";
    let (stored, bare) = (private(extended(date)), private(serde_json::json!({})));
    let mut again = extended(date);
    again["machineTypes"] = types("large")["machineTypes"].clone();
    let later = "2026-08-01T00:00:00Z";
    // It stands there still.
    let (written, _) =
        world.write_at(later, "alice", "PrivateCloudProfile", "", &stored, &private(again.clone())).expect("accepted");
    assert_eq!(written, private(types("large")));
    // It was taken out.
    let removed = serde_json::json!([{"path": "spec.kubernetes.versions[1.30.1]", "version": "1.30.1", "expiredAt": date, "removedAt": date}]);
    let without = annotated(&bare, REMOVED, &removed.to_string());
    let (written, _) =
        world.write_at(later, "alice", "PrivateCloudProfile", "", &without, &private(again.clone())).expect("accepted");
    assert_eq!(written.get("spec"), private(types("large")).get("spec"));
    assert_eq!(written.at(&["metadata", "annotations", REMOVED]), Some(&Value::from(removed.to_string())), "put back");
    // It is new.
    let error =
        world.write_at(later, "root", "PrivateCloudProfile", "", &Value::Null, &private(again)).expect_err("refused");
    assert!(error.to_string().contains("is in the past"), "{error}");
}

#[test]
fn a_version_of_its_own_that_a_shoot_uses_stays() {
    let image = serde_json::json!([{"name": "own", "versions": [{"version": "1.0.0", "expirationDate": "2026-02-01T00:00:00Z"}]}]);
    let stored = private(serde_json::json!({"machineImages": image}));
    let mut user = shoot("s", on_mine(), "1.30.1");
    let spec = serde_json::json!({"cloudProfile": on_mine(), "provider": {"type": "local", "workers": [
        {"name": "w", "machine": {"type": "small", "image": {"name": "own", "version": "1.0.0"}}}]}});
    user.as_object_mut().expect("an object").insert("spec", value(spec));
    let mut again = types("large");
    again["machineImages"] = image;
    let later = "2026-03-01T00:00:00Z";
    let used = World::default().profile(parent()).private(stored.clone()).shoot(user.clone());
    let (written, _) =
        used.write_at(later, "alice", "PrivateCloudProfile", "", &stored, &private(again.clone())).expect("accepted");
    assert_eq!(written, private(again.clone()));
    let left = World::default().profile(parent()).private(stored.clone()).shoot(going(&user));
    let (written, _) =
        left.write_at(later, "alice", "PrivateCloudProfile", "", &stored, &private(again)).expect("accepted");
    assert_eq!(written, private(types("large")));
}

#[test]
fn the_annotation_and_the_finalizer_are_the_platforms() {
    let world = World::default().profile(parent());
    let bare = private(serde_json::json!({}));
    let forged = annotated(&bare, REMOVED, "[]");
    for by in ["alice", "root"] {
        world.refused(
            by,
            "PrivateCloudProfile",
            &Value::Null,
            &forged,
            &["403: metadata.annotations[allotment.dev/removed-versions]"],
        );
        world.refused(by, "PrivateCloudProfile", &bare, &forged, &["403: "]);
        let (written, _) =
            world.write(by, "PrivateCloudProfile", &forged, &annotated(&bare, REMOVED, "[{}]")).expect("accepted");
        assert_eq!(written, forged);
    }
    assert_eq!(world.write("platform", "PrivateCloudProfile", &bare, &forged).expect("its own").0, forged);

    for (kind, whole) in [("PrivateCloudProfile", bare), ("CloudProfile", parent())] {
        let mut stripped = whole.clone();
        stripped.get_mut("metadata").and_then(Value::as_object_mut).expect("metadata").remove("finalizers");
        assert_eq!(world.write("root", kind, &Value::Null, &stripped).expect("made").0, whole);
        assert_eq!(world.write("root", kind, &whole, &stripped).expect("changed").0, whole);
        let (leaving, let_go) = (going(&whole), going(&stripped));
        assert_eq!(world.write("root", kind, &leaving, &let_go).expect("goes").0, let_go);
    }
}

#[test]
fn statuses_are_the_platforms() {
    let world = World::default();
    let whole = parent();
    for kind in ["CloudProfile", "PrivateCloudProfile", "Shoot"] {
        let error = world.write_at(NOW, "alice", kind, "status", &whole, &whole).expect_err("refused");
        assert_eq!(error, Denial::Forbidden(format!("status of {kind} is written by the platform only")));
        assert!(world.write_at(NOW, "platform", kind, "status", &whole, &whole).is_ok());
    }
}

#[test]
fn numbers_and_what_nobody_knows_stay_as_they_were_written() {
    let world = World::default().profile(parent());
    let text = r#"{"metadata":{"name":"mine","namespace":"team"},"spec":{"limits":{"x":1.10},"odd":1180591620717411303424,"parent":"central"}}"#;
    let new = parse(text.as_bytes()).expect("JSON");
    let (written, _) = world.write("alice", "PrivateCloudProfile", &Value::Null, &new).expect("accepted");
    let expect = text.replace(r#""metadata":{"#, r#""metadata":{"finalizers":["allotment.dev/catalog"],"#);
    assert_eq!(written.to_string(), expect);
}

#[test]
fn a_conflict_is_warned_of_and_the_parent_may_come_later() {
    let world = World::default().profile(parent());
    let mut other = types("small");
    other["machineTypes"][0]["cpu"] = serde_json::json!("1");
    let (_, warnings) = world.write("alice", "PrivateCloudProfile", &Value::Null, &private(other)).expect("accepted");
    assert!(warnings.iter().any(|text| text.starts_with("spec.machineTypes[small]")), "{warnings:?}");
}

#[test]
fn a_cloud_profile_may_not_break_private_ones_unless_that_is_accepted() {
    let world = World::default().profile(parent()).private(private(extended("2027-01-01T00:00:00Z")));
    let mut spec = parent_spec();
    spec["kubernetes"]["versions"] = serde_json::json!([{"version": "1.31.0"}]);
    let dropped = object("CloudProfile", "", "central", spec);
    world.refused(
        "root",
        "CloudProfile",
        &parent(),
        &dropped,
        &[
            "spec: Forbidden",
            "1 PrivateCloudProfile invalid: team/mine (spec.kubernetes.versions[1.30.1]",
            "allotment.dev/accept-child-errors",
        ],
    );
    let accepted = annotated(&dropped, "allotment.dev/accept-child-errors", "true");
    let (_, warnings) = world.write("root", "CloudProfile", &parent(), &accepted).expect("accepted");
    assert!(warnings.iter().any(|text| text.contains("team/mine")), "{warnings:?}");
    let mut many = World::default().profile(parent());
    for number in 0..15 {
        let mut child = private(extended("2027-01-01T00:00:00Z"));
        child
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .expect("metadata")
            .insert("name", format!("p{number:02}"));
        many = many.private(child);
    }
    many.refused(
        "root",
        "CloudProfile",
        &parent(),
        &dropped,
        &["15 PrivateCloudProfiles invalid", "team/p09", "and 5 more"],
    );
}

#[test]
fn versions_in_use_stay_in_a_cloud_profile() {
    let mut spec = parent_spec();
    spec["kubernetes"]["versions"] = serde_json::json!([{"version": "1.31.0"}]);
    spec["machineImages"] = serde_json::json!([{"name": "linux", "versions": [{"version": "1.1.0"}]}]);
    spec["machineTypes"] = serde_json::json!([]);
    let dropped = object("CloudProfile", "", "central", spec);
    let user = shoot("s", on_central(), "1.30.1");
    let world = World::default().profile(parent()).shoot(user.clone());
    world.refused(
        "root",
        "CloudProfile",
        &parent(),
        &dropped,
        &[
            "spec.kubernetes.versions[1.30.1]: Forbidden: is used by Shoots team/s",
            "spec.machineImages[linux].versions[1.0.0]: Forbidden: is used by Shoots team/s",
        ],
    );
    let left = World::default().profile(parent()).shoot(going(&user));
    assert!(left.write("root", "CloudProfile", &parent(), &dropped).is_ok(), "who goes keeps nothing");
    // Through a private profile that has the image's version itself it is still found.
    let own = private(serde_json::json!({"machineImages": [{"name": "linux", "versions": [{"version": "1.0.0"}]}]}));
    let on_child = World::default().profile(parent()).private(own).shoot(shoot("s", on_mine(), "1.31.0"));
    assert!(on_child.write("root", "CloudProfile", &parent(), &dropped).is_ok());
}

#[test]
fn a_past_date_of_a_cloud_profile_is_warned_of_and_its_fields_are_checked() {
    let mut spec = parent_spec();
    spec["kubernetes"]["versions"][0]["expirationDate"] = serde_json::json!("2023-01-01T00:00:00Z");
    let (_, warnings) = World::default()
        .write("root", "CloudProfile", &Value::Null, &object("CloudProfile", "", "c", spec.clone()))
        .expect("accepted");
    assert!(warnings.iter().any(|text| text.contains("is in the past")), "{warnings:?}");
    spec["kubernetes"]["versions"][0]["expirationDate"] = serde_json::json!("2023-08-8T00:00:00Z");
    let new = object("CloudProfile", "", "c", spec);
    World::default().refused("root", "CloudProfile", &Value::Null, &new, &["expirationDate", "2023-08-08T00:00:00Z"]);
}

#[test]
fn a_deletion_tells_who_holds_it_up() {
    let world = World::default()
        .profile(parent())
        .private(private(serde_json::json!({})))
        .shoot(shoot("a", on_central(), "1.30.1"))
        .shoot(shoot("b", on_mine(), "1.30.1"));
    let warnings = |kind: &str, old: &Value| world.write("root", kind, old, &Value::Null).expect("accepted").1;
    assert_eq!(
        warnings("CloudProfile", &parent()),
        [
            "CloudProfile \"central\" is used by PrivateCloudProfiles team/mine and Shoots team/a: it goes when the last of them is gone"
        ]
    );
    assert_eq!(
        warnings("PrivateCloudProfile", &private(serde_json::json!({}))),
        ["PrivateCloudProfile \"mine\" is used by Shoots b: it goes when the last of them is gone"]
    );
    assert_eq!(warnings("CloudProfile", &object("CloudProfile", "", "unused", parent_spec())), Vec::<String>::new());
    assert_eq!(warnings("Shoot", &shoot("a", on_central(), "1.30.1")), Vec::<String>::new());
    // The same name in another namespace is another profile.
    let other = object("PrivateCloudProfile", "other", "unused", serde_json::json!({"parent": "central"}));
    assert_eq!(warnings("PrivateCloudProfile", &other), Vec::<String>::new());
}

#[test]
fn both_ways_of_naming_a_cloud_profile_say_the_same() {
    let world = World::default().profile(parent()).private(private(serde_json::json!({})));
    let stored = |old: &Value, spec: serde_json::Value| {
        let mut new = shoot("s", on_central(), "1.30.1");
        let members = new.get_mut("spec").and_then(Value::as_object_mut).expect("a spec");
        members.remove("cloudProfile");
        for (name, text) in spec.as_object().expect("an object") {
            members.insert(name.as_str(), value(text.clone()));
        }
        let (written, _) = world.write("alice", "Shoot", old, &new).expect("accepted");
        serde_json::json!([
            typed::<serde_json::Value>(written.at(&["spec", "cloudProfile"]).expect("one")),
            written.at(&["spec", "cloudProfileName"]).and_then(Value::as_str)
        ])
    };
    let both = serde_json::json!([on_central(), "central"]);
    assert_eq!(stored(&Value::Null, serde_json::json!({"cloudProfileName": "central"})), both);
    assert_eq!(stored(&Value::Null, serde_json::json!({"cloudProfile": {"name": "central"}})), both);
    assert_eq!(
        stored(&Value::Null, serde_json::json!({"cloudProfile": on_mine()})),
        serde_json::json!([on_mine(), null])
    );
    let legacy = shoot("s", on_central(), "1.30.1");
    assert_eq!(
        stored(&legacy, serde_json::json!({"cloudProfile": on_mine(), "cloudProfileName": "central"})),
        serde_json::json!([on_mine(), null])
    );
    assert_eq!(
        stored(
            &shoot("s", on_mine(), "1.30.1"),
            serde_json::json!({"cloudProfile": on_mine(), "cloudProfileName": "central"})
        ),
        both
    );

    let mut torn = shoot("s", on_mine(), "1.30.1");
    torn.get_mut("spec").and_then(Value::as_object_mut).expect("a spec").insert("cloudProfileName", "central");
    world.refused("alice", "Shoot", &Value::Null, &torn, &["spec.cloudProfile.name", "set one of the two"]);
}

#[test]
fn a_shoot_names_a_profile_that_is_there_to_stay() {
    let world = World::default().profile(going(&parent())).private(going(&private(serde_json::json!({}))));
    let new = |profile: serde_json::Value| shoot("s", profile, "1.30.1");
    world.refused(
        "alice",
        "Shoot",
        &Value::Null,
        &new(on_central()),
        &["spec.cloudProfile.name", "CloudProfile \"central\" is being deleted"],
    );
    world.refused("alice", "Shoot", &Value::Null, &new(on_mine()), &["PrivateCloudProfile \"mine\" is being deleted"]);
    let none = World::default().private(private(serde_json::json!({})));
    none.refused("alice", "Shoot", &Value::Null, &new(on_central()), &["there is no CloudProfile of that name"]);
    none.refused(
        "alice",
        "Shoot",
        &Value::Null,
        &new(on_mine()),
        &["CloudProfile \"central\", which it is made from, is not there"],
    );
    none.refused(
        "alice",
        "Shoot",
        &Value::Null,
        &new(serde_json::json!({"kind": "PrivateCloudProfile", "name": "x"})),
        &["no PrivateCloudProfile of that name in namespace \"team\""],
    );
    none.refused(
        "alice",
        "Shoot",
        &Value::Null,
        &new(serde_json::json!({"kind": "Seed", "name": "x"})),
        &["spec.cloudProfile.kind: Unsupported value"],
    );
}

#[test]
fn what_a_shoot_has_stays_usable_whatever_becomes_of_its_profile() {
    let old = shoot("s", on_central(), "1.29.0");
    let mut relabelled = old.clone();
    relabelled.get_mut("spec").and_then(Value::as_object_mut).expect("a spec").insert("purpose", "testing");
    for world in [World::default(), World::default().profile(parent()), World::default().profile(going(&parent()))] {
        assert!(world.write("alice", "Shoot", &old, &relabelled).is_ok());
        assert!(world.write("alice", "Shoot", &old, &Value::Null).is_ok());
    }
    let newer = shoot("s", on_central(), "1.31.0");
    assert!(World::default().profile(parent()).write("alice", "Shoot", &old, &newer).is_ok());
    World::default().refused(
        "alice",
        "Shoot",
        &old,
        &newer,
        &["there is no CloudProfile of that name, so spec.kubernetes.version can only stay"],
    );
    let unknown = shoot("s", on_central(), "1.28.0");
    World::default().profile(parent()).refused("alice", "Shoot", &old, &unknown, &["spec.kubernetes.version"]);
    let error = World::default().profile(parent()).write_at(
        "2026-07-01T00:00:00Z",
        "alice",
        "Shoot",
        "",
        &Value::Null,
        &shoot("s", on_central(), "1.30.1"),
    );
    assert!(error.expect_err("expired").to_string().contains("version 1.30.1 expired on 2026-06-01T00:00:00Z"));
}

#[test]
fn a_shoot_changes_within_a_family_only_and_takes_along_what_it_uses() {
    let mut second = parent_spec();
    second["machineTypes"][0]["name"] = serde_json::json!("other");
    let sibling = object("PrivateCloudProfile", "team", "sibling", serde_json::json!({"parent": "central"}));
    let foreign = object("PrivateCloudProfile", "team", "foreign", serde_json::json!({"parent": "second"}));
    let world = World::default()
        .profile(parent())
        .profile(object("CloudProfile", "", "second", second))
        .private(private(types("large")))
        .private(sibling)
        .private(foreign);
    let on = |kind: &str, name: &str| serde_json::json!({"kind": kind, "name": name});
    let named = |profile: serde_json::Value| shoot("s", profile, "1.30.1");
    let (parent, mine, sibling) =
        (on("CloudProfile", "central"), on("PrivateCloudProfile", "mine"), on("PrivateCloudProfile", "sibling"));
    for (from, to) in [(&parent, &mine), (&mine, &parent), (&mine, &sibling)] {
        assert!(world.write("alice", "Shoot", &named(from.clone()), &named(to.clone())).is_ok(), "{from} {to}");
    }
    for to in [on("CloudProfile", "second"), on("PrivateCloudProfile", "foreign")] {
        let expect = ["spec.cloudProfile.name", "of CloudProfile \"central\"", "of CloudProfile \"second\""];
        world.refused("alice", "Shoot", &named(mine.clone()), &named(to), &expect);
    }
    let large = |profile: &serde_json::Value| {
        let text = shoot("s", profile.clone(), "1.30.1").to_string().replace("\"small\"", "\"large\"");
        parse(text.as_bytes()).expect("JSON")
    };
    world.refused("alice", "Shoot", &large(&mine), &large(&sibling), &["machine type \"large\"", "sibling"]);
    // A write that changes only the legacy field is a change of the reference.
    let mut by_legacy = shoot("s", on_central(), "1.30.1");
    by_legacy.get_mut("spec").and_then(Value::as_object_mut).expect("a spec").insert("cloudProfileName", "second");
    world.refused("alice", "Shoot", &shoot("s", on_central(), "1.30.1"), &by_legacy, &["cannot change"]);
}

#[test]
fn what_an_overruled_webhook_left_out_is_refused() {
    let config = Config::default();
    let caller = Caller { username: "alice".to_owned(), ..Caller::default() };
    let world = World::default().profile(parent()).private(private(serde_json::json!({})));
    let unfinished = value(serde_json::json!({"metadata": {"name": "x"}, "spec": {"parent": "central"}}));
    let legacy = value(serde_json::json!({"metadata": {"name": "x"}, "spec": {"cloudProfileName": "central"}}));
    for (kind, object) in [("PrivateCloudProfile", &unfinished), ("Shoot", &legacy)] {
        let write = Write {
            operation: Operation::Create,
            kind,
            subresource: "",
            namespace: "team",
            name: "x",
            object,
            old: &Value::Null,
            caller: &caller,
            now: NOW.parse().expect("a time"),
        };
        let case = Case::read(&config, &write).expect("read").expect("one of ours");
        let facts = world.facts(&case, Stage::Validate, "alice");
        assert!(
            matches!(case.judge(&facts), Err(Denial::Forbidden(why)) if why.contains("MutatingWebhookConfiguration")),
            "{kind}"
        );
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_its_field() {
    let world = World::default().profile(parent());
    let new = private(serde_json::json!({"machineTypes": "many"}));
    world.refused("alice", "PrivateCloudProfile", &Value::Null, &new, &["spec: Invalid value"]);
    let legacy = json!({"metadata": {"name": "x"}, "spec": {"cloudProfileName": 3}});
    world.refused("alice", "Shoot", &Value::Null, &legacy, &["spec: Invalid value"]);
}
