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
