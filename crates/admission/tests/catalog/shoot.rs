//! What is refused of Shoots, and how they name their profile.

use allotment_machinery::json::{Value, parse};

use crate::world::*;

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
fn nobody_comes_to_a_private_profile_whose_parent_goes() {
    let world = World::default().profile(going(&parent())).private(private(serde_json::json!({})));
    let expect = ["CloudProfile \"central\", which PrivateCloudProfile \"mine\" is made from, is being deleted"];
    world.refused("alice", "Shoot", &Value::Null, &shoot("s", on_mine(), "1.31.0"), &expect);
    // Who was there before stays changeable.
    let (old, new) = (shoot("s", on_mine(), "1.30.1"), shoot("s", on_mine(), "1.31.0"));
    assert!(world.write("alice", "Shoot", &old, &new).is_ok());
}

/// Names that API servers would take for `name`, or for something else that is there, if they stood in a path.
fn not_names(name: &str) -> Vec<String> {
    let suffixes = ["?", "?x=1", "#x", "/", "/status", " ", "\n"].map(|suffix| format!("{name}{suffix}"));
    let first = name.bytes().next().expect("a name");
    let others = [format!("%{first:x}{}", &name[1..]), format!("../team/{name}"), ".".to_owned(), "..".to_owned()];
    suffixes.into_iter().chain(others).collect()
}

#[test]
fn names_that_no_profile_can_have_are_refused_where_they_are_new() {
    let world = World::default().profile(parent()).private(private(serde_json::json!({})));
    let rule = "a lowercase RFC 1123 subdomain must consist of";
    for name in not_names("central") {
        let new = shoot("s", serde_json::json!({"name": name}), "1.30.1");
        let expect = [format!("spec.cloudProfile.name: Invalid value: {name:?}: {rule}")];
        world.refused("alice", "Shoot", &Value::Null, &new, &[&expect[0]]);
        let mut by_legacy = new.clone();
        let spec = by_legacy.get_mut("spec").and_then(Value::as_object_mut).expect("a spec");
        spec.remove("cloudProfile");
        spec.insert("cloudProfileName", name.as_str());
        let expect = [format!("spec.cloudProfileName: Invalid value: {name:?}: {rule}")];
        world.refused("alice", "Shoot", &Value::Null, &by_legacy, &[&expect[0]]);

        // What was stored while nothing judged it can be changed elsewhere, put right and deleted.
        assert!(world.write("alice", "Shoot", &new, &let_go(&new)).is_ok(), "{name}");
        assert!(world.write("alice", "Shoot", &new, &Value::Null).is_ok(), "{name}");
        let mut relabelled = new.clone();
        relabelled.get_mut("spec").and_then(Value::as_object_mut).expect("a spec").insert("purpose", "testing");
        assert!(world.write("alice", "Shoot", &new, &relabelled).is_ok(), "{name}");

        let own = object("PrivateCloudProfile", "team", "other", serde_json::json!({"parent": name}));
        let expect = format!("spec.parent: Invalid value: {name:?}: {rule}");
        world.refused("alice", "PrivateCloudProfile", &Value::Null, &own, &[&expect]);
        assert!(world.write("alice", "PrivateCloudProfile", &own, &Value::Null).is_ok(), "{name}");
        assert!(world.write("platform", "PrivateCloudProfile", &own, &let_go(&own)).is_ok(), "{name}");
    }
    for name in not_names("mine") {
        let profile = serde_json::json!({"kind": "PrivateCloudProfile", "name": name});
        let expect = format!("spec.cloudProfile.name: Invalid value: {name:?}: {rule}");
        world.refused("alice", "Shoot", &Value::Null, &shoot("s", profile, "1.30.1"), &[&expect]);
    }
}
