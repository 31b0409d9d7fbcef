//! What is refused and changed of PrivateCloudProfiles.

use allotment_core::catalog::Verb;
use allotment_machinery::json::{Value, parse};

use crate::world::*;

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
    assert_eq!(written.get("spec"), private(types("large")).get("spec"));
    assert_eq!(noted(&written), [("spec.kubernetes.versions[1.30.1]".to_owned(), date.to_owned())]);
    // A second and a third time, with something else beside it.
    for name in ["large", "huge"] {
        again["machineTypes"] = types(name)["machineTypes"].clone();
        let (next, _) = world
            .write_at(later, "alice", "PrivateCloudProfile", "", &written, &private(again.clone()))
            .expect("accepted");
        assert_eq!(next.get("spec"), private(types(name)).get("spec"));
        assert_eq!(noted(&next), noted(&written));
    }
    again["machineTypes"] = types("large")["machineTypes"].clone();
    // Somebody takes it out in the very write that comes after its date.
    let (written, _) =
        world.write_at(later, "alice", "PrivateCloudProfile", "", &stored, &private(types("large"))).expect("accepted");
    assert_eq!(noted(&written).len(), 1, "a manifest from before is known still");
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
    assert_eq!(written.get("spec"), private(types("large")).get("spec"));
}

#[test]
fn a_write_that_takes_out_more_than_can_be_noted_is_stored() {
    let world = World::default().profile(parent());
    let (date, later) = ("2026-07-01T00:00:00Z", "2026-08-01T00:00:00Z");
    let short = "spec.kubernetes.versions[1.2.3]";
    let before = serde_json::json!([{"path": short, "version": "1.2.3", "expiredAt": date, "removedAt": date}]);
    let mut has_short = Vec::new();
    for length in (100..200).step_by(20).chain([5]) {
        let version = |at: usize| serde_json::json!({"version": format!("1.0.{at}"), "expirationDate": date});
        let versions: Vec<serde_json::Value> = (0..900).map(version).collect();
        let images = serde_json::json!([{"name": "x".repeat(length), "versions": versions}]);
        let stored = annotated(&private(serde_json::json!({"machineImages": images})), REMOVED, &before.to_string());
        let bare = private(types("large"));
        let (written, _) = world
            .write_at(later, "alice", "PrivateCloudProfile", "", &stored, &bare)
            .unwrap_or_else(|why| panic!("{length}: {why}"));
        has_short.push(noted(&written).iter().any(|(path, _)| path == short));
    }
    assert_eq!(has_short, [false, false, false, false, false, true], "what went before makes room");
}

#[test]
fn the_annotation_and_the_finalizer_are_the_platforms() {
    let world = World::default().profile(parent());
    let bare = private(serde_json::json!({}));
    let forged = annotated(&bare, REMOVED, "[]");
    let removed =
        "metadata.annotations[allotment.dev/removed-versions] is written by the platform only, and was left out";
    for by in ["alice", "root"] {
        for old in [&Value::Null, &bare] {
            let (written, warnings) = world.write(by, "PrivateCloudProfile", old, &forged).expect("accepted");
            assert_eq!(written, bare, "nothing of it is believed");
            assert!(warnings.iter().any(|text| text.starts_with(removed)), "{warnings:?}");
        }
        for leaves in [Clone::clone as fn(&Value) -> Value, going] {
            let (had, other) = (leaves(&forged), leaves(&annotated(&bare, REMOVED, "[{}]")));
            let (written, _) = world.write(by, "PrivateCloudProfile", &had, &other).expect("accepted");
            assert_eq!(written, had);
            assert_eq!(world.write(by, "PrivateCloudProfile", &had, &leaves(&bare)).expect("accepted").0, had);
        }
    }
    assert_eq!(world.write("platform", "PrivateCloudProfile", &bare, &forged).expect("its own").0, forged);

    for (kind, whole) in [("PrivateCloudProfile", bare), ("CloudProfile", parent())] {
        let stripped = let_go(&whole);
        assert_eq!(world.write("root", kind, &Value::Null, &stripped).expect("made").0, whole);
        assert_eq!(world.write("root", kind, &whole, &stripped).expect("changed").0, whole);
    }
}

#[test]
fn a_profile_whose_parent_of_the_same_name_is_gone_is_told_so() {
    let named = |spec: serde_json::Value| {
        let mut spec = spec;
        spec["parent"] = serde_json::json!("central");
        object("PrivateCloudProfile", "team", "central", spec)
    };
    let (stored, changed) = (named(serde_json::json!({})), named(types("large")));
    let world = World::default().private(stored.clone());
    let gone = "spec.parent: Invalid value: \"central\": there is no CloudProfile of that name";
    world.refused("alice", "PrivateCloudProfile", &stored, &changed, &[gone]);
    // Another one may mean it by that name.
    let below = object("PrivateCloudProfile", "team", "below", serde_json::json!({"parent": "central"}));
    world.refused("alice", "PrivateCloudProfile", &Value::Null, &below, &["multi-level inheritance is not supported"]);
}

#[test]
fn what_goes_and_is_in_use_keeps_its_finalizer() {
    for (kind, whole, profile) in
        [("PrivateCloudProfile", private(serde_json::json!({})), on_mine()), ("CloudProfile", parent(), on_central())]
    {
        let (leaving, stripped) = (going(&whole), going(&let_go(&whole)));
        let unused = World::default().profile(parent());
        assert_eq!(unused.write("alice", kind, &leaving, &stripped).expect("goes").0, stripped);
        let used = World::default().profile(parent()).shoot(shoot("s", profile, "1.30.1"));
        used.refused(
            "alice",
            kind,
            &leaving,
            &stripped,
            &["403: metadata.finalizers: ", "is used by Shoots", "leave it on"],
        );
        let (written, warnings) = used.write("root", kind, &leaving, &stripped).expect("an administrator may");
        assert_eq!(written, stripped);
        assert!(warnings.iter().any(|text| text.contains("it goes in spite of that")), "{warnings:?}");
        assert!(used.write("platform", kind, &leaving, &stripped).is_ok());
        // Somebody else's finalizer is theirs to take off.
        let mut theirs = leaving.clone();
        let metadata = theirs.get_mut("metadata").and_then(Value::as_object_mut).expect("metadata");
        metadata.get_mut("finalizers").and_then(Value::as_array_mut).expect("a list").push(Value::from("a.b/c"));
        assert_eq!(used.write("alice", kind, &theirs, &leaving).expect("goes").0, leaving);
    }
}

#[test]
fn while_a_deletion_waits_a_spec_is_judged_as_ever() {
    let world = World::default()
        .profile(parent())
        .profile(object("CloudProfile", "", "second", parent_spec()))
        .shoot(shoot("s", on_mine(), "1.30.1"));
    let leaving = going(&private(types("large")));
    let mut versions = types("large");
    versions["kubernetes"] = extended("2099-01-01T00:00:00Z")["kubernetes"].clone();
    let denied = ["403: user \"alice\" is not allowed to modify .spec.kubernetes"];
    world.refused("alice", "PrivateCloudProfile", &leaving, &going(&private(versions)), &denied);
    let mut moved = types("large");
    moved["parent"] = serde_json::json!("second");
    world.refused("alice", "PrivateCloudProfile", &leaving, &going(&private(moved)), &["spec.parent", "is immutable"]);
    assert!(world.write("alice", "PrivateCloudProfile", &leaving, &going(&private(types("huge")))).is_ok());
}

/// What the annotation notes: paths, and dates.
fn noted(object: &Value) -> Vec<(String, String)> {
    let text = text(object, &["metadata", "annotations", REMOVED]);
    let all: Vec<allotment_api::catalog::RemovedVersion> = serde_json::from_str(&text).expect("a list");
    all.into_iter().map(|one| (one.path, one.expired_at.text().to_owned())).collect()
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
    // The private profile was there first: the parent's entry makes it no less valid, and both can be changed.
    let mut later = parent_spec();
    later["machineTypes"] = serde_json::json!([{"name": "large", "cpu": "1", "gpu": "0", "memory": "1Gi"}]);
    let (later, first) = (object("CloudProfile", "", "central", later), private(types("large")));
    let before = World::default().profile(parent()).private(first.clone());
    assert!(before.write("root", "CloudProfile", &parent(), &later).is_ok());
    let after = World::default().profile(later).private(first.clone());
    let mut more = types("large");
    more["volumeTypes"] = serde_json::json!([{"name": "v", "class": "c"}]);
    let (_, warnings) = after.write("alice", "PrivateCloudProfile", &first, &private(more)).expect("accepted");
    assert!(warnings.iter().any(|text| text.starts_with("spec.machineTypes[large]")), "{warnings:?}");
}

#[test]
fn who_drops_what_shoots_of_the_namespace_use_is_warned() {
    let mut spec = types("large");
    spec["machineImages"] =
        serde_json::json!([{"name": "own", "versions": [{"version": "1.0.0"}, {"version": "2.0.0"}]}]);
    spec["volumeTypes"] = serde_json::json!([{"name": "fast", "class": "premium"}]);
    spec["regions"] = serde_json::json!([{"name": "there"}]);
    let stored = private(spec.clone());
    let user = |name: &str| {
        let worker = serde_json::json!({"name": "w", "machine": {"type": "large", "image": {"name": "own", "version": "1.0.0"}},
            "dataVolumes": [{"type": "fast"}]});
        let spec = serde_json::json!({"cloudProfile": on_mine(), "region": "there", "provider": {"type": "local", "workers": [worker]}});
        object("Shoot", "team", name, spec)
    };
    let mut world = World::default().profile(parent()).private(stored.clone()).shoot(going(&user("gone")));
    for number in 0..12 {
        world = world.shoot(user(&format!("s{number:02}")));
    }
    let all = "s00, s01, s02, s03, s04, s05, s06, s07, s08, s09 and 2 more";
    let said = |what: &str| {
        format!("{what}: is dropped, and Shoots {all} use it: they stay as they are, and nothing new takes it")
    };
    let (_, warnings) = world
        .write(
            "platform-admin",
            "PrivateCloudProfile",
            &stored,
            &private(serde_json::json!({"machineImages": spec["machineImages"]})),
        )
        .expect("accepted");
    assert_eq!(
        warnings,
        ["spec.machineTypes[large]", "spec.regions[there]", "spec.volumeTypes[fast]"].map(said).as_slice()
    );
    spec["machineImages"] = serde_json::json!([{"name": "own", "versions": [{"version": "2.0.0"}]}]);
    let (_, warnings) = world.write("root", "PrivateCloudProfile", &stored, &private(spec.clone())).expect("accepted");
    assert_eq!(warnings, [said("spec.machineImages[own].versions[1.0.0]")]);
    // What was not used goes without a word, and what stays is not told.
    let (_, warnings) =
        world.write("root", "PrivateCloudProfile", &private(spec.clone()), &private(spec)).expect("accepted");
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn of_many_conflicts_as_many_are_told_as_there_is_room_for_and_then_how_many_more() {
    let types = |memory: &str| {
        let name = |number: usize| format!("t{number}-with-a-name-as-long-as-those-of-machine-types-are");
        let one = |number: usize| serde_json::json!({"name": name(number), "cpu": "2", "gpu": "0", "memory": memory});
        serde_json::json!((0..61).map(one).collect::<Vec<_>>())
    };
    let mut own = parent_spec();
    own["machineTypes"] = types("8Gi");
    let world = World::default().profile(object("CloudProfile", "", "central", own));
    let new = private(serde_json::json!({"machineTypes": types("16Gi")}));
    let (_, warnings) = world.write("alice", "PrivateCloudProfile", &Value::Null, &new).expect("accepted");
    let told = warnings.iter().filter(|warning| warning.contains("spec.machineTypes[")).count();
    let last = warnings.last().expect("some");
    assert!(last.starts_with(&format!("and {} more", 61 - told)) && last.contains("status.conflicts"), "{last}");
    assert!(warnings.iter().map(String::len).sum::<usize>() < 4096, "kube-apiserver shows no more");
}
