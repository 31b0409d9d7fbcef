//! What is refused of CloudProfiles, and what holds for all three kinds.

use allotment_admission::catalog::{Case, Stage, Write};
use allotment_admission::{Caller, Config, Denial, Operation};
use allotment_machinery::json;
use allotment_machinery::json::Value;

use crate::world::*;

#[test]
fn statuses_are_the_platforms() {
    let world = World::default();
    let whole = parent();
    for kind in ["CloudProfile", "PrivateCloudProfile", "Shoot"] {
        let error = world.write_at(NOW, "alice", kind, "status", &whole, &whole).expect_err("refused");
        let expect = format!("status of {kind} is written by the platform only: leave it out, and change the spec");
        assert_eq!(error, Denial::Forbidden(expect));
        assert!(
            world.write_at(NOW, "root", kind, "status", &whole, &whole).is_ok(),
            "an administrator acts as the platform"
        );
        assert!(world.write_at(NOW, "platform", kind, "status", &whole, &whole).is_ok());
    }
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
fn what_a_change_means_to_private_profiles_is_told_to_whoever_makes_it() {
    let large = |cpu: &str| serde_json::json!([{"name": "large", "cpu": cpu, "gpu": "0", "memory": "64Gi"}]);
    let own = object(
        "PrivateCloudProfile",
        "team",
        "mine",
        serde_json::json!({"parent": "central", "machineTypes": large("16")}),
    );
    let world = World::default().profile(parent()).private(own);
    let mut spec = parent_spec();
    let types = spec["machineTypes"].as_array_mut().expect("a list");
    types.extend(large("12").as_array().expect("a list").clone());
    let changed = object("CloudProfile", "", "central", spec);
    let (_, warnings) = world.write("root", "CloudProfile", &parent(), &changed).expect("accepted");
    let told = "spec.machineTypes[large]: PrivateCloudProfiles team/mine say otherwise, which does not count: this holds there too";
    assert!(warnings.iter().any(|text| text == told), "{warnings:?}");

    let world = World::default().profile(parent()).private(private(extended("2027-01-01T00:00:00Z")));
    let mut spec = parent_spec();
    for version in spec["kubernetes"]["versions"].as_array_mut().expect("a list") {
        if version["version"] == "1.30.1" {
            version["expirationDate"] = serde_json::json!("2020-01-01T00:00:00Z");
        }
    }
    let ended = object("CloudProfile", "", "central", spec);
    let (_, warnings) = world.write("root", "CloudProfile", &parent(), &ended).expect("accepted");
    assert!(
        warnings.iter().any(|text| text.starts_with(
            "spec.kubernetes.versions[1.30.1]: PrivateCloudProfiles team/mine give it for longer, and new Shoots"
        )),
        "{warnings:?}"
    );
}

/// Machine types with names of some length, about 250 bytes each.
fn machines(count: usize) -> serde_json::Value {
    let machine = |number: usize| serde_json::json!({"name": format!("m{number}-{}", "x".repeat(190)), "cpu": "4", "memory": "8Gi"});
    (0..count).map(machine).collect()
}

#[test]
fn nothing_is_written_by_which_a_private_profile_outgrows_an_object() {
    let with = |count: usize| {
        let mut spec = parent_spec();
        spec["machineTypes"] = machines(count);
        object("CloudProfile", "", "central", spec)
    };
    let (small, large) = (with(100), with(4_990));
    let child = |count: usize| private(serde_json::json!({"parent": "central", "machineTypes": machines(count)}));
    let told = ["spec: Forbidden: ", "with which it would be an object of ", "API servers take no more than 1572864"];

    // Of its own it has what fits once, and not twice.
    let world = World::default().profile(small.clone());
    world.refused("root", "PrivateCloudProfile", &Value::Null, &child(4_000), &told);
    assert!(world.write("root", "PrivateCloudProfile", &Value::Null, &child(2_000)).is_ok());

    let world = World::default().profile(small.clone()).private(child(1_500));
    let list =
        ["1 PrivateCloudProfile invalid: team/mine (spec: Forbidden: what it is rendered to", "accept-child-errors"];
    world.refused("root", "CloudProfile", &small, &large, &list);
    assert!(world.write("root", "CloudProfile", &small, &with(2_000)).is_ok());
    let accepted = annotated(&large, "allotment.dev/accept-child-errors", "true");
    let (_, warnings) = world.write("root", "CloudProfile", &small, &accepted).expect("accepted");
    assert!(warnings.iter().any(|text| text.contains("team/mine")), "{warnings:?}");

    // What was so before is told, and refuses nothing: neither of it nor of its parent.
    let world = World::default().profile(large.clone()).private(child(1_500));
    let (_, warnings) = world.write("root", "PrivateCloudProfile", &child(1_500), &child(1_499)).expect("accepted");
    assert!(warnings.iter().any(|text| text.ends_with("it was so before")), "{warnings:?}");
    assert!(world.write("root", "CloudProfile", &large, &with(4_991)).is_ok());
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
}

#[test]
fn a_version_that_a_private_profile_has_itself_may_go_if_it_means_the_same() {
    let whole = |more: serde_json::Value| {
        let mut version = serde_json::json!({"version": "1.0.0"});
        version.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        serde_json::json!([{"name": "linux", "versions": [version]}])
    };
    let check = |own: serde_json::Value, child: serde_json::Value, is_found: bool| {
        let mut spec = parent_spec();
        spec["machineImages"] = own;
        let old = object("CloudProfile", "", "central", spec.clone());
        spec["machineImages"] = serde_json::json!([]);
        let dropped = object("CloudProfile", "", "central", spec);
        let child = private(serde_json::json!({"machineImages": child}));
        let world = World::default().profile(old.clone()).private(child).shoot(shoot("s", on_mine(), "1.31.0"));
        assert_eq!(world.write("root", "CloudProfile", &old, &dropped).is_ok(), is_found);
    };
    let (bare, arm) = (serde_json::json!({}), serde_json::json!({"architectures": ["arm64"]}));
    let dated = serde_json::json!({"expirationDate": "2030-01-01T00:00:00Z"});
    check(whole(bare.clone()), whole(bare.clone()), true);
    check(
        whole(serde_json::json!({"architectures": ["amd64"], "cri": [{"name": "containerd"}]})),
        whole(dated.clone()),
        true,
    );
    check(whole(arm.clone()), whole(arm.clone()), true);
    check(whole(arm.clone()), whole(dated.clone()), false);
    check(whole(serde_json::json!({"kubeletVersionConstraint": ">= 1.30"})), whole(dated.clone()), false);
    check(whole(serde_json::json!({"cri": [{"name": "docker"}]})), whole(dated.clone()), false);
    // What has expired the platform takes out of the private profile while the parent has it.
    let until = |date: &str| serde_json::json!({"expirationDate": date});
    let (passed, now) = (until("2025-12-31T00:00:00Z"), until(NOW));
    check(whole(passed.clone()), whole(passed.clone()), false);
    check(whole(passed.clone()), whole(now.clone()), false);
    check(whole(passed.clone()), whole(dated.clone()), true);
    check(whole(dated), whole(passed), true);
    check(whole(bare), whole(now), true);
    check(whole(arm), serde_json::json!([]), false);
}

#[test]
fn a_shoot_that_says_less_than_a_version_keeps_the_last_that_it_may_mean() {
    let world = |version: &str| {
        let text = shoot("s", on_mine(), version).to_string().replace(r#","version":"1.0.0""#, "");
        let world = World::default().profile(parent()).private(private(serde_json::json!({})));
        world.shoot(allotment_machinery::json::parse(text.as_bytes()).expect("JSON"))
    };
    let mut spec = parent_spec();
    spec["kubernetes"]["versions"] = serde_json::json!([{"version": "1.31.0"}]);
    let dropped = object("CloudProfile", "", "central", spec.clone());
    let expect =
        ["spec.kubernetes.versions: Forbidden: would have no version of 1.30 any more, which is used by Shoots team/s"];
    world("1.30").refused("root", "CloudProfile", &parent(), &dropped, &expect);
    assert!(world("1.31").write("root", "CloudProfile", &parent(), &dropped).is_ok());
    spec = parent_spec();
    spec["machineImages"] = serde_json::json!([{"name": "linux", "versions": [{"version": "1.1.0"}]}]);
    let fewer = object("CloudProfile", "", "central", spec.clone());
    assert!(world("1.31").write("root", "CloudProfile", &parent(), &fewer).is_ok());
    spec["machineImages"] = serde_json::json!([]);
    let none = object("CloudProfile", "", "central", spec);
    let expect = ["spec.machineImages[linux]: Forbidden: is used, without a version, by Shoots team/s"];
    world("1.31").refused("root", "CloudProfile", &parent(), &none, &expect);
}

#[test]
fn a_deletion_that_waits_frees_metadata_alone() {
    let user = shoot("s", on_central(), "1.30.1");
    let mut spec = parent_spec();
    spec["kubernetes"]["versions"] = serde_json::json!([{"version": "1.31.0"}]);
    let dropped = object("CloudProfile", "", "central", spec);
    let world = World::default().profile(going(&parent())).shoot(user);
    let expect = ["spec.kubernetes.versions[1.30.1]: Forbidden: is used by Shoots team/s"];
    world.refused("root", "CloudProfile", &going(&parent()), &going(&dropped), &expect);
}

#[test]
fn what_is_stored_and_cannot_be_read_is_for_an_operator_to_repair() {
    let world = World::default().profile(parent()).private(private(serde_json::json!({})));
    let broken = private(serde_json::json!({"machineTypes": "many"}));
    let repaired = private(types("large"));
    world.refused(
        "alice",
        "PrivateCloudProfile",
        &broken,
        &repaired,
        &["spec: Forbidden: what is stored cannot be read", "ask an operator"],
    );
    let (_, warnings) = world.write("root", "PrivateCloudProfile", &broken, &repaired).expect("accepted");
    assert!(warnings.iter().any(|text| text.contains("judged as if it were new")), "{warnings:?}");
    let labelled = annotated(&broken, "a", "b");
    assert!(world.write("alice", "PrivateCloudProfile", &broken, &labelled).is_ok(), "its spec stays");
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
    let other = object("PrivateCloudProfile", "other", "mine", serde_json::json!({"parent": "central"}));
    assert_eq!(warnings("PrivateCloudProfile", &other), Vec::<String>::new());
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
        let facts = world.facts(&case, Stage::Validate, "alice", "team");
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

#[test]
fn a_cloud_profile_stays_for_the_provider_of_those_who_use_it() {
    let mut spec = parent_spec();
    spec["type"] = serde_json::json!("other");
    let changed = object("CloudProfile", "", "central", spec);
    let user = shoot("s", on_central(), "1.31.0");
    let of_child = shoot("c", on_mine(), "1.31.0");
    let used = "spec.type: Invalid value: \"other\": it is used by";
    let world = World::default().profile(parent()).private(private(types("large"))).shoot(of_child);
    let both = format!("{used} PrivateCloudProfiles team/mine and Shoots team/c, for provider \"local\"");
    world.refused("root", "CloudProfile", &parent(), &changed, &[&both, "make another CloudProfile"]);
    let world = World::default().profile(parent()).shoot(user.clone());
    world.refused("root", "CloudProfile", &parent(), &changed, &[&format!("{used} Shoots team/s, for")]);
    let leaving = World::default().profile(parent()).shoot(going(&user)).private(going(&private(types("large"))));
    leaving.write("root", "CloudProfile", &parent(), &changed).expect("those that go do not count");
    World::default().profile(parent()).write("root", "CloudProfile", &parent(), &changed).expect("nobody uses it");
}

#[test]
fn who_drops_what_shoots_use_of_a_cloud_profile_is_warned() {
    let mut spec = parent_spec();
    spec["machineTypes"] = serde_json::json!([]);
    spec["regions"] = serde_json::json!([]);
    let dropped = object("CloudProfile", "", "central", spec);
    let user = shoot("s", on_central(), "1.31.0");
    let of_child = shoot("c", on_mine(), "1.31.0");
    let world = World::default().profile(parent()).private(private(types("small"))).shoot(of_child).shoot(user.clone());
    let (_, warnings) = world.write("root", "CloudProfile", &parent(), &dropped).expect("accepted");
    let stays = "they stay as they are, and nothing new takes it";
    let expect = [
        format!("spec.machineTypes[small]: is dropped, and Shoots team/s use it: {stays}"),
        format!("spec.regions[here]: is dropped, and Shoots team/s, team/c use it: {stays}"),
        "spec.machineTypes[small]: PrivateCloudProfiles team/mine have it of their own from now on, of which nothing holds but \
         what they say"
            .to_owned(),
    ];
    assert_eq!(warnings, expect, "the child has the machine type itself, and otherwise");
    let world = World::default().profile(parent()).shoot(going(&user));
    let (_, warnings) = world.write("root", "CloudProfile", &parent(), &dropped).expect("accepted");
    assert_eq!(warnings, [""; 0]);
}
