//! What goes when, over years of simulated time.

use allotment_api::catalog::{Date, RemovedVersion};
use allotment_core::catalog::{
    Parent, PrivateWrite, expire_cloud_profile, expire_private_profile, over, removed_versions, render,
};
use k8s_openapi::jiff::Timestamp;

use super::{at, parent, private, shown};

const OWN: &str =
    "{type: t, kubernetes: {versions: [{version: 1.31.0}, {version: 1.30.2, expirationDate: '2026-01-01T00:00:00Z'},
    {version: 1.29.1, expirationDate: '2025-01-01T00:00:00Z'}]},
    machineImages: [{name: i, versions: [{version: '1', expirationDate: '2026-01-01T00:00:00Z'}, {version: '2'}]}]}";
const ADDED: &str =
    "{parent: central, kubernetes: {versions: [{version: 1.30.2, expirationDate: '2027-01-01T00:00:00Z'},
    {version: 1.29.1}]}, machineImages: [{name: i, versions: [{version: '1', expirationDate: '2026-06-01T00:00:00Z'}]},
    {name: own, versions: [{version: '5', expirationDate: '2026-03-01T00:00:00Z'}, {version: '6'}]}]}";

fn paths(removed: &[RemovedVersion]) -> Vec<&str> {
    removed.iter().map(|one| one.path.as_str()).collect()
}

#[test]
fn entries_go_one_by_one_as_their_dates_pass_and_the_next_date_is_told() {
    let own = parent(OWN);
    let mut spec = private(ADDED);
    let mut now = at("2024-06-01T00:00:00Z");
    let mut seen: Vec<(String, Vec<String>)> = Vec::new();
    // Nobody looks but at the times that it asks for.
    loop {
        let expiry = expire_private_profile(&spec, &own, |_, _| Vec::new(), now);
        seen.push((now.to_string(), paths(&expiry.removed).iter().map(|path| (*path).to_owned()).collect()));
        spec = expiry.spec.unwrap_or(spec);
        match expiry.next {
            Some(next) => now = next,
            None => break,
        }
    }
    let expect = [
        ("2024-06-01T00:00:00Z", &[][..]),
        ("2025-01-01T00:00:00Z", &["spec.kubernetes.versions[1.29.1]"]),
        // Who was admitted in the last instant is known then.
        ("2026-03-01T00:00:00Z", &[]),
        ("2026-03-01T00:00:02Z", &["spec.machineImages[own].versions[5]"]),
        ("2026-06-01T00:00:00Z", &["spec.machineImages[i].versions[1]"]),
        ("2027-01-01T00:00:00Z", &["spec.kubernetes.versions[1.30.2]"]),
    ];
    let seen: Vec<(&str, Vec<&str>)> =
        seen.iter().map(|(at, paths)| (at.as_str(), paths.iter().map(String::as_str).collect())).collect();
    assert_eq!(seen, expect.map(|(at, paths)| (at, paths.to_vec())));
    let left = "{parent: central, machineImages: [{name: own, versions: [{version: '6'}]}]}";
    assert_eq!(shown(&spec), shown(&private(left)), "an image without versions and an empty kubernetes go whole");
}

#[test]
fn what_the_private_profile_alone_has_stays_while_shoots_use_it() {
    let own = parent(OWN);
    let now = at("2028-01-01T00:00:00Z");
    let users =
        |_: &str, version: &str| if version == "5" { vec!["s1".to_owned(), "s2".to_owned()] } else { Vec::new() };
    let expiry = expire_private_profile(&private(ADDED), &own, users, now);
    let left = expiry.spec.expect("something went");
    assert_eq!(
        shown(&left.machine_images),
        shown(
            &private(
                "{parent: central, machineImages: [{name: own, versions: [{version: '5',
            expirationDate: '2026-03-01T00:00:00Z'}, {version: '6'}]}]}"
            )
            .machine_images
        )
    );
    let stays: Vec<(&str, &str, &[String])> =
        expiry.in_use.iter().map(|one| (one.path.as_str(), one.expired_at.text(), one.shoots.as_slice())).collect();
    let shoots = ["s1".to_owned(), "s2".to_owned()];
    assert_eq!(stays, [("spec.machineImages[own].versions[5]", "2026-03-01T00:00:00Z", shoots.as_slice())]);
    assert_eq!(render(&own, &left).faults, []);
    // What the parent has goes from the private profile however much it is used: the parent keeps it.
    let all = |_: &str, _: &str| shoots.to_vec();
    let expiry = expire_private_profile(&private(ADDED), &own, all, now);
    assert!(paths(&expiry.removed).contains(&"spec.machineImages[i].versions[1]"));
}

#[test]
fn whoever_leaves_the_version_of_an_image_open_is_left_one() {
    let spec = private(
        "{parent: central, machineImages: [{name: own, versions: [{version: '5', expirationDate: '2026-03-01T00:00:00Z'},
        {version: '6', expirationDate: '2026-04-01T00:00:00Z'}]}, {name: i, versions: [{version: '9',
        expirationDate: '2026-03-01T00:00:00Z'}]}]}",
    );
    let offered = parent(OWN);
    let check = |now: &str, named: &'static [(&str, &str)], goes: &[&str]| {
        let users = |image: &str, version: &str| {
            named.iter().filter(|used| **used == (image, version)).map(|_| "s".to_owned()).collect::<Vec<_>>()
        };
        let expiry = expire_private_profile(&spec, &offered, users, at(now));
        assert_eq!(paths(&expiry.removed), goes, "{now}, {named:?}");
        let in_use = |image: &str, version: &str| named.contains(&(image, version));
        let write = PrivateWrite { parent: &offered, old: Some(&spec), removed: &[], in_use: &in_use, now: at(now) };
        let over: Vec<String> = over(&spec, &write).iter().map(ToString::to_string).collect();
        assert_eq!(over, goes, "applied again: {now}, {named:?}");
    };
    let [five, six, nine] = ["own].versions[5]", "own].versions[6]", "i].versions[9]"]
        .map(|path| -> &'static str { format!("spec.machineImages[{path}").leak() });
    let open = &[("own", ""), ("i", "")];
    // There is another one, of its own or of its parent.
    check("2026-03-02T00:00:00Z", open, &[nine, five]);
    check("2027-01-01T00:00:00Z", open, &[nine]);
    check("2027-01-01T00:00:00Z", &[("own", ""), ("own", "6")], &[nine, five]);
    check("2027-01-01T00:00:00Z", &[], &[nine, five, six]);
}

#[test]
fn who_was_admitted_in_the_last_instant_is_waited_for() {
    let own = parent(OWN);
    let check = |now: &str, user: &str, goes: bool, stays: bool| {
        let users = |_: &str, version: &str| if version == user { vec!["s".to_owned()] } else { Vec::new() };
        let expiry = expire_private_profile(&private(ADDED), &own, users, at(now));
        let path = "spec.machineImages[own].versions[5]";
        assert_eq!(paths(&expiry.removed).contains(&path), goes, "{now}");
        assert_eq!(expiry.in_use.iter().any(|one| one.path == path), stays, "{now}");
    };
    check("2026-03-01T00:00:00Z", "", false, false);
    check("2026-03-01T00:00:01.999Z", "", false, false);
    // Its Shoot was stored meanwhile.
    check("2026-03-01T00:00:01.999Z", "5", false, true);
    check("2026-03-01T00:00:02Z", "5", false, true);
    check("2026-03-01T00:00:02Z", "", true, false);
}

#[test]
fn a_version_of_a_cloud_profile_goes_after_the_last_date_of_all_that_extend_it() {
    let own = parent(OWN);
    let (one, other) = (private(ADDED), private(&ADDED.replace("2027-01-01", "2030-01-01")));
    let check = |now: &str, used: &str, removed: &[&str], next: Option<&str>| {
        let expiry = expire_cloud_profile(&own, [&one, &other], |key| key.to_string() == used, at(now));
        assert_eq!(paths(&expiry.removed), removed, "{now}");
        assert_eq!(expiry.next, next.map(|text| text.parse::<Timestamp>().expect("a time")), "{now}");
        if let Some(left) = expiry.spec {
            let left = Parent::new("central", left);
            for profile in [&one, &other] {
                let profile = expire_private_profile(profile, &own, |_, _| Vec::new(), at(now)).spec;
                assert_eq!(render(&left, &profile.expect("it expired as well")).faults, [], "{now}");
            }
        }
    };
    check("2024-06-01T00:00:00Z", "", &[], Some("2025-01-01T00:00:00Z"));
    check("2025-06-01T00:00:00Z", "", &["spec.kubernetes.versions[1.29.1]"], Some("2026-06-01T00:00:00Z"));
    check("2025-06-01T00:00:00Z", "spec.kubernetes.versions[1.29.1]", &[], Some("2026-06-01T00:00:00Z"));
    let all =
        ["spec.kubernetes.versions[1.29.1]", "spec.kubernetes.versions[1.30.2]", "spec.machineImages[i].versions[1]"];
    check("2029-12-31T00:00:00Z", "", &[all[0], all[2]], Some("2030-01-01T00:00:00Z"));
    check("2030-01-01T00:00:00Z", "", &[all[0], all[2]], Some("2030-01-01T00:00:02Z"));
    check("2030-01-01T00:00:01Z", all[1], &[all[0], all[2]], None);
    check("2030-01-01T00:00:02Z", "", &all, None);
}

/// Only who writes past admission can have a version twice.
#[test]
fn a_version_that_stands_twice_goes_when_the_later_of_its_dates_has_passed() {
    let check = |dates: [&str; 2], expect: bool| {
        let entry = |date: &str| match date {
            "" => "{version: 1.30.0}".to_owned(),
            date => format!("{{version: 1.30.0, expirationDate: '{date}'}}"),
        };
        let versions = dates.map(entry).join(", ");
        let now = at("2030-01-01T00:00:00Z");
        let own = parent(&format!("{{type: t, kubernetes: {{versions: [{versions}]}}}}"));
        let expiry = expire_cloud_profile(&own, [], |_| false, now);
        assert_eq!(!expiry.removed.is_empty(), expect, "{dates:?}");
        if expect {
            assert_eq!(expiry.removed[0].expired_at.text(), "2026-01-01T00:00:00Z");
        }
        let images = versions.replace("1.30.0", "'1'");
        let own = parent("{type: t}");
        let spec = private(&format!(
            "{{parent: central, machineImages: [{{name: i, versions: [{images}]}}, {{name: i, versions: [{{version: '2'}}]}}]}}"
        ));
        let expiry = expire_private_profile(&spec, &own, |_, _| Vec::new(), now);
        assert_eq!(expiry.spec.is_some(), expect, "{dates:?}");
    };
    check(["2024-01-01T00:00:00Z", "2026-01-01T00:00:00Z"], true);
    check(["2026-01-01T00:00:00Z", "2024-01-01T00:00:00Z"], true);
    check(["2024-01-01T00:00:00Z", "2099-01-01T00:00:00Z"], false);
    check(["2099-01-01T00:00:00Z", "2024-01-01T00:00:00Z"], false);
    check(["2024-01-01T00:00:00Z", ""], false);
    check(["", "2024-01-01T00:00:00Z"], false);
    check(["2024-01-01T00:00:00Z", "yesterday"], false);
}

#[test]
fn of_a_version_that_stands_twice_the_later_date_is_remembered_as_its_own() {
    let own = parent("{type: t, kubernetes: {versions: [{version: 1.30.0, expirationDate: '2028-01-01T00:00:00Z'}]}}");
    let (early, late) = ("2024-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
    for dates in [[early, late], [late, early]] {
        let versions = dates.map(|date| format!("{{version: 1.30.0, expirationDate: '{date}'}}")).join(", ");
        let spec = private(&format!("{{parent: central, kubernetes: {{versions: [{versions}]}}}}"));
        let expiry = expire_private_profile(&spec, &own, |_, _| Vec::new(), at("2030-01-01T00:00:00Z"));
        let known = expiry.removed.iter().map(|gone| (gone.expired_at.text(), gone.own_date.as_ref().map(Date::text)));
        assert_eq!(known.collect::<Vec<_>>(), [("2028-01-01T00:00:00Z", Some(late))], "{dates:?}");
    }
}

#[test]
fn of_removed_versions_the_last_of_each_is_remembered_and_not_without_end() {
    let removed = |number: usize, day: usize| RemovedVersion {
        path: format!("spec.kubernetes.versions[1.{number}.0]"),
        version: format!("1.{number}.0"),
        expired_at: Date::new("2026-01-01T00:00:00Z"),
        own_date: None,
        removed_at: Date::new(format!("20{:02}-01-{:02}T00:00:00Z", 26 + day / 28, day % 28 + 1)),
    };
    let again = removed_versions(&[removed(1, 0), removed(2, 0)], &[removed(1, 5)]);
    assert_eq!(again, [removed(1, 5), removed(2, 0)]);
    let many: Vec<RemovedVersion> = (0..1_500).map(|number| removed(number, number)).collect();
    let kept = removed_versions(&many[..700], &many[700..]);
    assert_eq!(kept.len(), 1_000);
    assert!(kept.iter().all(|one| one.removed_at.at() >= many[500].removed_at.at()));
}
