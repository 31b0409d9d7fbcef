//! What a change of a CloudProfile means to private profiles that stay valid.

use allotment_core::catalog::{Effect, Parent, effects};
use allotment_core::write::ObjectKey;

use super::{at, parent, private};

const BEFORE: &str = "{type: t, kubernetes: {versions: [{version: 1.31.0}, {version: 1.30.2}]},
    machineImages: [{name: i, versions: [{version: '1', architectures: [arm64], expirationDate: '2027-01-01T00:00:00Z'},
    {version: '2'}]}], machineTypes: [{name: small, cpu: '2', gpu: '0', memory: 8Gi}], regions: [{name: here}]}";

/// Of one private profile, in January 2026.
#[track_caller]
fn check(after: &str, child: &str, expect: &[(&str, Effect)]) {
    let (before, after): (Parent, Parent) = (parent(BEFORE), parent(after));
    let (key, child) = (ObjectKey::new("team", "mine"), private(child));
    let told = effects(&before, &after, [(&key, &child)], at("2026-01-15T00:00:00Z"));
    let seen: Vec<(&str, Effect)> = told.keys().map(|(path, effect)| (path.as_str(), *effect)).collect();
    assert_eq!(seen, expect, "{child:?}");
    assert!(told.values().all(|children| *children == [&key]));
}

#[test]
fn what_a_parent_begins_to_say_of_what_private_profiles_say_otherwise_is_told() {
    let own = "{parent: central, machineTypes: [{name: large, cpu: '16', gpu: '0', memory: 64Gi}]}";
    let large = |cpu: &str| {
        BEFORE.replace(
            "machineTypes: [",
            &format!("machineTypes: [{{name: large, cpu: '{cpu}', gpu: '0', memory: 65536Mi}}, "),
        )
    };
    check(&large("12"), own, &[("spec.machineTypes[large]", Effect::Overruled)]);
    check(&large("16"), own, &[]);
    check(&large("12"), "{parent: central}", &[]);
    // What was in conflict before is no news.
    let other = "{parent: central, machineTypes: [{name: small, cpu: '4', gpu: '0', memory: 8Gi}]}";
    check(&BEFORE.replace("memory: 8Gi", "memory: 9Gi"), other, &[]);
    check(&BEFORE.replace("memory: 8Gi", "memory: 8192Mi"), other, &[]);
    check(&BEFORE.replace("cpu: '2'", "cpu: '4'"), other, &[]);
    // It had no say before.
    let without = BEFORE.replace("machineTypes: [{name: small, cpu: '2', gpu: '0', memory: 8Gi}], ", "");
    check(&without, other, &[("spec.machineTypes[small]", Effect::StandsAlone)]);
    check(&without, "{parent: central, machineTypes: [{name: small, cpu: '2', gpu: '0', memory: 8Gi}]}", &[]);
}

#[test]
fn a_region_that_was_listed_again_is_what_the_private_profile_says_once_the_parent_drops_it() {
    let lacks = |regions: &str| BEFORE.replace("[{name: here}]", regions);
    let before = "[{name: here}, {name: there, zones: [{name: a, unavailableMachineTypes: [small]}]}]";
    let (with, without) = (parent(&lacks(before)), parent(BEFORE));
    let key = ObjectKey::new("team", "mine");
    let told = |zones: &str| {
        let child = private(&format!("{{parent: central, regions: [{{name: there, zones: [{zones}]}}]}}"));
        let told = effects(&with, &without, [(&key, &child)], at("2026-01-15T00:00:00Z"));
        told.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(told("{name: a}"), [("spec.regions[there]".to_owned(), Effect::StandsAlone)]);
    assert_eq!(told("{name: a, unavailableMachineTypes: [small]}"), []);
}

#[test]
fn a_version_that_was_only_extended_becomes_another_one_when_the_parent_drops_it() {
    let dropped = BEFORE.replace("{version: '1', architectures: [arm64], expirationDate: '2027-01-01T00:00:00Z'},", "");
    let path = "spec.machineImages[i].versions[1]";
    let extends =
        |rest: &str| format!("{{parent: central, machineImages: [{{name: i, versions: [{{version: '1'{rest}}}]}}]}}");
    check(&dropped, &extends(", expirationDate: '2028-01-01T00:00:00Z'"), &[(path, Effect::StandsAlone)]);
    check(&dropped, &extends(", expirationDate: '2028-01-01T00:00:00Z', architectures: [arm64]"), &[]);
    check(&dropped, "{parent: central}", &[]);
}

#[test]
fn who_gives_a_version_for_longer_is_told_to_whoever_ends_it() {
    let ended = BEFORE.replace("{version: 1.30.2}", "{version: 1.30.2, expirationDate: '2026-01-14T00:00:00Z'}");
    let extends = |date: &str| {
        format!("{{parent: central, kubernetes: {{versions: [{{version: 1.30.2, expirationDate: '{date}'}}]}}}}")
    };
    let path = "spec.kubernetes.versions[1.30.2]";
    check(&ended, &extends("2026-02-01T00:00:00Z"), &[(path, Effect::GivesLonger)]);
    check(&ended, &extends("2026-01-15T00:00:00Z"), &[(path, Effect::Goes)]);
    check(&ended, "{parent: central}", &[]);
    // What it added itself, without a date, the parent has too from now on, and it has a date there.
    let own = "{parent: central, machineImages: [{name: i, versions: [{version: '3'}]}]}";
    let begun =
        BEFORE.replace("{version: '2'}", "{version: '2'}, {version: '3', expirationDate: '2026-01-01T00:00:00Z'}");
    check(&begun, own, &[("spec.machineImages[i].versions[3]", Effect::Goes)]);
    let ends_later = BEFORE.replace("{version: 1.30.2}", "{version: 1.30.2, expirationDate: '2026-01-16T00:00:00Z'}");
    check(&ends_later, &extends("2026-02-01T00:00:00Z"), &[]);
}
