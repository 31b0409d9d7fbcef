//! Writes among objects that are stored and cannot be read.

use allotment_api::catalog::{CloudProfile, KeptProfile, Shoot};
use allotment_machinery::json::Value;

use crate::world::*;

fn odd_shoot() -> Value {
    object("Shoot", "team", "odd", serde_json::json!({"cloudProfile": 5}))
}

fn odd_private() -> Value {
    object("PrivateCloudProfile", "team", "odd", serde_json::json!({"parent": 5}))
}

#[test]
fn others_are_written_and_who_may_use_something_is_told_of_it() {
    let world = World::default().profile(parent()).private(private(types("large")));
    let world = world.unread::<Shoot>("Shoot", odd_shoot()).unread::<KeptProfile>("PrivateCloudProfile", odd_private());
    world.write("alice", "Shoot", &Value::Null, &shoot("s", on_mine(), "1.31.0")).expect("accepted");
    world.write("alice", "PrivateCloudProfile", &private(types("large")), &private(types("huge"))).expect("accepted");
    let mut spec = parent_spec();
    spec["kubernetes"]["versions"] = serde_json::json!([{"version": "1.31.0"}]);
    let dropped = object("CloudProfile", "", "central", spec);
    let (_, warnings) = world.write("root", "CloudProfile", &parent(), &dropped).expect("accepted");
    let passed = "spec: it is not known whether they use one of the versions that are dropped: team/odd (cannot be read), team/odd (cannot be read)";
    assert!(warnings.iter().any(|text| text == passed), "{warnings:?}");
    let tells = |kind: &str, object: Value, expect: &str| {
        let (_, warnings) = world.write("root", kind, &object, &Value::Null).expect("accepted");
        assert!(warnings.iter().any(|text| text.contains(expect)), "{warnings:?}");
    };
    tells("PrivateCloudProfile", private(types("large")), "is used by Shoots odd (cannot be read)");
    let users = "is used by PrivateCloudProfiles team/mine and PrivateCloudProfiles team/odd (cannot be read) and Shoots team/odd \
                 (cannot be read)";
    tells("CloudProfile", parent(), users);
}

#[test]
fn of_a_profile_that_cannot_be_read_it_is_told_why_and_what_stays_passes() {
    let mut spec = parent_spec();
    spec["regions"] = serde_json::json!("here");
    let odd = object("CloudProfile", "", "central", spec);
    let world = World::default().unread::<CloudProfile>("CloudProfile", odd);
    let why = "spec.regions: invalid type: string \"here\", expected a sequence";
    world.refused("alice", "Shoot", &Value::Null, &shoot("s", on_central(), "1.31.0"), &["cannot be read", why]);
    world.refused(
        "alice",
        "PrivateCloudProfile",
        &Value::Null,
        &private(types("large")),
        &["spec.parent: Invalid value: \"central\": the CloudProfile is there and cannot be read", why],
    );
    let stored = shoot("s", on_central(), "1.31.0");
    world.write("alice", "Shoot", &stored, &annotated(&stored, "a", "b")).expect("accepted");
    let mut same = stored.clone();
    let spec = same.get_mut("spec").and_then(Value::as_object_mut).expect("a spec");
    spec.insert("purpose", "evaluation");
    world.write("alice", "Shoot", &stored, &same).expect("accepted");

    let world = World::default().profile(parent()).unread::<KeptProfile>(
        "PrivateCloudProfile",
        object("PrivateCloudProfile", "team", "mine", serde_json::json!({"parent": 5})),
    );
    world.refused(
        "alice",
        "Shoot",
        &Value::Null,
        &shoot("s", on_mine(), "1.31.0"),
        &["PrivateCloudProfile \"mine\" is there and cannot be read (spec.parent: "],
    );
}
