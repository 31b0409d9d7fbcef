//! Which profile a Shoot means, which it may change to, and what of it the Shoot may use.

use allotment_core::catalog::{
    Reference, VersionKey, check_switch, check_switch_usage, check_usage, last_meant, offers, reference,
    used_kubernetes, written,
};
use allotment_machinery::field::FieldError;

use super::{at, cloud, shoot};

#[test]
fn a_reference_is_read_from_either_field_and_a_change_of_one_is_a_change() {
    let cloud_a = Some("{cloudProfile: {kind: CloudProfile, name: a}, cloudProfileName: a}");
    let private_p = Some("{cloudProfile: {kind: PrivateCloudProfile, name: p}}");
    let (a, b, p) = (Reference::cloud_profile("a"), Reference::cloud_profile("b"), Reference::private("p"));
    let differ = "set one of the two";
    for (old, new, expect) in [
        (None, "{cloudProfileName: a}", Ok(&a)),
        (None, "{cloudProfile: {name: a}}", Ok(&a)),
        (None, "{cloudProfile: {name: a}, cloudProfileName: a}", Ok(&a)),
        (None, "{cloudProfile: {kind: PrivateCloudProfile, name: p}}", Ok(&p)),
        (None, "{cloudProfile: {name: a}, cloudProfileName: b}", Err(differ)),
        (None, "{cloudProfile: {kind: PrivateCloudProfile, name: a}, cloudProfileName: a}", Err(differ)),
        (None, "{}", Err("Required value")),
        (None, "{cloudProfile: {kind: Seed, name: a}}", Err("Unsupported value")),
        (None, "{cloudProfile: {kind: CloudProfile}}", Err("spec.cloudProfile.name: Required value")),
        // Clients that know one field only.
        (cloud_a, "{cloudProfileName: a}", Ok(&a)),
        (cloud_a, "{cloudProfileName: b}", Ok(&b)),
        (cloud_a, "{cloudProfile: {name: b}}", Ok(&b)),
        (cloud_a, "{cloudProfile: {kind: CloudProfile, name: a}, cloudProfileName: b}", Ok(&b)),
        (cloud_a, "{cloudProfile: {kind: CloudProfile, name: b}, cloudProfileName: a}", Ok(&b)),
        (cloud_a, "{cloudProfile: {kind: PrivateCloudProfile, name: p}, cloudProfileName: a}", Ok(&p)),
        (cloud_a, "{cloudProfile: {kind: CloudProfile, name: b}, cloudProfileName: c}", Err(differ)),
        (cloud_a, "{}", Err("Required value")),
        (private_p, "{cloudProfile: {kind: PrivateCloudProfile, name: p}, cloudProfileName: a}", Ok(&a)),
        (private_p, "{cloudProfile: {kind: PrivateCloudProfile, name: p}}", Ok(&p)),
        (private_p, "{}", Err("Required value")),
        (Some("{cloudProfileName: a}"), "{cloudProfileName: a}", Ok(&a)),
        (Some("{cloudProfileName: a?}"), "{cloudProfileName: a?}", Ok(&Reference::cloud_profile("a?"))),
        (
            cloud_a,
            "{cloudProfile: {name: A}}",
            Err("spec.cloudProfile.name: Invalid value: \"A\": a lowercase RFC 1123"),
        ),
        (
            cloud_a,
            "{cloudProfile: {name: a}, cloudProfileName: a?}",
            Err("spec.cloudProfileName: Invalid value: \"a?\""),
        ),
        (Some("{cloudProfileName: a?}"), "{cloudProfileName: a}", Ok(&a)),
    ] {
        let found = reference(&shoot(new), old.map(shoot).as_ref());
        match (&found, expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found, expect, "{old:?} {new}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{new}: {error}"),
            _ => panic!("{old:?} {new}: {found:?}"),
        }
    }
    assert_eq!((written(&a).1, written(&p).1), (Some("a".to_owned()), None));
}

#[test]
fn a_shoot_changes_between_profiles_of_one_root_only() {
    let parent_of = |name: &str| match name {
        "a1" | "a2" => Some("a".to_owned()),
        "b1" => Some("b".to_owned()),
        _ => None,
    };
    let (a, b) = (Reference::cloud_profile("a"), Reference::cloud_profile("b"));
    let (a1, a2, b1, lost) =
        (Reference::private("a1"), Reference::private("a2"), Reference::private("b1"), Reference::private("lost"));
    for (from, to, allowed) in [
        (&a, &a, true),
        (&a, &a1, true),
        (&a1, &a, true),
        (&a1, &a2, true),
        (&a, &b, false),
        (&a, &b1, false),
        (&a1, &b1, false),
        (&a1, &b, false),
        (&lost, &a, false),
        (&a, &lost, false),
        (&lost, &lost, true),
    ] {
        assert_eq!(check_switch(from, to, parent_of).is_ok(), allowed, "{from} to {to}");
    }
    // A CloudProfile that is called as a private one is another.
    assert!(check_switch(&Reference::cloud_profile("a1"), &a1, parent_of).is_err());
    assert_eq!(
        check_switch(&a1, &b, parent_of).expect_err("refused").to_string(),
        "a Shoot on PrivateCloudProfile \"a1\" (of CloudProfile \"a\") cannot change to CloudProfile \"b\" (of CloudProfile \"b\"): only to \
         the CloudProfile that its profile is made from, or to a PrivateCloudProfile of the same one; make a new Shoot"
    );
}

const PROFILE: &str = "{type: aws, kubernetes: {versions: [{version: 1.28.6}, {version: 1.27.1, expirationDate: '2024-01-02T00:00:00Z'}]},
    machineImages: [{name: suse, versions: [{version: '15.4'}, {version: '14.4', expirationDate: '2024-01-02T00:00:00Z'},
    {version: '16.4', architectures: [arm64]}]}], machineTypes: [{name: m5, cpu: 4, memory: 8Gi}, {name: g6, cpu: 4, memory: 8Gi,
    architecture: arm64}, {name: m4, cpu: 4, memory: 8Gi, usable: false}], volumeTypes: [{name: gp3, class: c}],
    regions: [{name: r, zones: [{name: ra}, {name: rb, unavailableMachineTypes: [m5]}]}]}";

fn with(kubernetes: &str, machine: &str, rest: &str) -> String {
    format!(
        "{{region: r, kubernetes: {{version: {kubernetes}}}, provider: {{type: aws, workers: [{{name: w, machine: {{{machine}}}{rest}}}]}}}}"
    )
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(new: &str, old: Option<&str>, expect: &[&str]) {
    let name = Reference::cloud_profile("x");
    let errors = check_usage(&shoot(new), old.map(shoot).as_ref(), &cloud(PROFILE), &name, at("2025-01-01T00:00:00Z"));
    assert_eq!(texts(&errors), expect, "{new}");
}

const MACHINE: &str = "spec.provider.workers[w].machine";

#[test]
fn a_version_is_refused_as_expired_or_unknown_or_of_another_architecture() {
    check(&with("1.28.6", "type: m5, image: {name: suse, version: '15.4'}", ", zones: [ra]"), None, &[]);
    check(&with("'1.28'", "type: m5", ""), None, &[]);
    check(
        &with("1.27.1", "type: m5", ""),
        None,
        &[
            "spec.kubernetes.version: Invalid value: \"1.27.1\": version 1.27.1 expired on 2024-01-02T00:00:00Z; CloudProfile \"x\" offers \
           1.28.6",
        ],
    );
    check(
        &with("'1.27'", "type: m5", ""),
        None,
        &[
            "spec.kubernetes.version: Invalid value: \"1.27\": every version of 1.27 expired: 1.27.1 on 2024-01-02T00:00:00Z; \
             CloudProfile \"x\" offers 1.28.6",
        ],
    );
    check(
        &with("'1.26'", "type: m5", ""),
        None,
        &[
            "spec.kubernetes.version: Invalid value: \"1.26\": there is no version 1.26; CloudProfile \"x\" offers 1.28.6",
        ],
    );
    let image = |version: &str, text: &str| format!("{MACHINE}.image.version: Invalid value: \"{version}\": {text}");
    check(
        &with("1.28.6", "type: m5, image: {name: suse, version: '14.4'}", ""),
        None,
        &[&image(
            "14.4",
            "version 14.4 of machine image \"suse\" expired on 2024-01-02T00:00:00Z; offered for amd64: 15.4",
        )],
    );
    check(
        &with("1.28.6", "type: m5, image: {name: suse, version: '1'}", ""),
        None,
        &[&image("1", "machine image \"suse\" has no version 1; offered for amd64: 15.4")],
    );
    check(
        &with("1.28.6", "type: m5, image: {name: suse, version: '16.4'}", ""),
        None,
        &[&image(
            "16.4",
            "version 16.4 of machine image \"suse\" is not for architecture amd64, it is for arm64; offered for amd64: 15.4",
        )],
    );
    check(
        &with("1.28.6", "type: m5, image: {name: flat}", ""),
        None,
        &[&format!(
            "{MACHINE}.image.name: Invalid value: \"flat\": there is no machine image \"flat\"; CloudProfile \"x\" offers suse"
        )],
    );
    check(&with("1.28.6", "type: g6, architecture: arm64, image: {name: suse, version: '16.4'}", ""), None, &[]);
}

#[test]
fn machine_types_volumes_and_zones_are_those_of_the_profile() {
    let machine = |name: &str, text: &str| format!("{MACHINE}.type: Invalid value: \"{name}\": {text}");
    check(
        &with("1.28.6", "type: x1", ""),
        None,
        &[&machine("x1", "there is no machine type \"x1\"; CloudProfile \"x\" offers m5, g6, m4")],
    );
    check(
        &with("1.28.6", "type: m4", ""),
        None,
        &[&machine("m4", "machine type \"m4\" is not usable any more: choose another one")],
    );
    check(
        &with("1.28.6", "type: g6", ""),
        None,
        &[&machine(
            "g6",
            "machine type \"g6\" has architecture arm64, and the pool asks for amd64: change one of them",
        )],
    );
    check(
        &with("1.28.6", "type: m5", ", volume: {type: io1}, zones: [rb, rc]"),
        None,
        &[
            "spec.provider.workers[w].volume.type: Invalid value: \"io1\": there is no volume type \"io1\"; CloudProfile \"x\" offers gp3",
            "spec.provider.workers[w].zones[0]: Invalid value: \"rb\": machine type \"m5\" is not available in this zone: choose another \
             zone or type",
            "spec.provider.workers[w].zones[1]: Invalid value: \"rc\": region \"r\" has no such zone; it has ra, rb",
        ],
    );
    check(
        &with("1.28.6", "type: m5", "").replace("region: r,", "region: s,").replace("type: aws", "type: gcp"),
        None,
        &[
            "spec.provider.type: Invalid value: \"gcp\": CloudProfile \"x\" is for provider \"aws\": use that, or another profile",
            "spec.region: Invalid value: \"s\": there is no region \"s\"; CloudProfile \"x\" offers r",
        ],
    );
}

/// What of a pool is refused by a profile in which versions of images work with some kubelets and volumes have a least size.
#[track_caller]
fn fits(new: &str, old: Option<&str>, expect: &[&str]) {
    let profile = cloud(
        "{type: aws, kubernetes: {versions: [{version: 1.30.2}, {version: 1.29.1}, {version: 1.28.6, expirationDate: '2024-01-02T00:00:00Z'}]},
          machineImages: [{name: suse, versions: [{version: '15', kubeletVersionConstraint: '< 1.30'},
          {version: '16', kubeletVersionConstraint: '>= 1.30'}, {version: '17', architectures: [arm64]}, {version: '18'},
          {version: '19', expirationDate: '2024-01-02T00:00:00Z'}]}],
          machineTypes: [{name: m5, cpu: 4, memory: 8Gi}, {name: m6, cpu: 4, memory: 8Gi, storage: {class: c, type: gp3, minSize: 50Gi}}],
          volumeTypes: [{name: gp3, class: c, minSize: 30Gi}, {name: gp2, class: c}], regions: [{name: r, zones: [{name: ra}]}]}",
    );
    let name = Reference::cloud_profile("x");
    let errors = check_usage(&shoot(new), old.map(shoot).as_ref(), &profile, &name, at("2025-01-01T00:00:00Z"));
    assert_eq!(texts(&errors), expect, "{new}");
}

#[test]
fn an_image_works_with_the_kubelets_of_the_pool() {
    let pool = |kubernetes: &str, image: &str, own: &str| {
        with(kubernetes, &format!("type: m5, image: {{name: suse, version: '{image}'}}"), own)
    };
    let told = |image: &str, works: &str, kubelet: &str, offered: &str| {
        format!(
            "{MACHINE}.image.version: Invalid value: \"{image}\": version {image} of machine image \"suse\" works with kubelets \
             \"{works}\" only, and those of the pool are {kubelet}; offered for {kubelet}: {offered}"
        )
    };
    fits(&pool("1.29.1", "15", ""), None, &[]);
    fits(&pool("1.30.2", "16", ""), None, &[]);
    fits(&pool("1.30.2", "15", ""), None, &[&told("15", "< 1.30", "1.30.2", "16, 18")]);
    fits(&pool("1.29.1", "16", ""), None, &[&told("16", ">= 1.30", "1.29.1", "15, 18")]);
    // Of `1.29` the version is open; none of it fits.
    fits(&pool("'1.29'", "16", ""), None, &[&told("16", ">= 1.30", "1.29", "15, 18")]);
    fits(&pool("'1.29'", "15", ""), None, &[]);
    fits(&pool("'1'", "15", ""), None, &[]);
    // The pool's own version counts.
    let own = ", kubernetes: {version: 1.29.1}";
    fits(&pool("1.30.2", "15", own), None, &[]);
    fits(&pool("1.30.2", "16", own), None, &[&told("16", ">= 1.30", "1.29.1", "15, 18")]);
    // What it was it may stay, with whatever else changes; a new kubelet or image is judged.
    let stored = pool("1.30.2", "15", "");
    fits(&stored, Some(&stored), &[]);
    fits(&pool("1.30.2", "15", ", zones: [ra]"), Some(&stored), &[]);
    let before = pool("1.29.1", "15", "");
    fits(&stored, Some(&before), &[&told("15", "< 1.30", "1.30.2", "16, 18")]);
    fits(&pool("1.30.2", "18", ""), Some(&stored), &[]);
    // The one reason is enough.
    let expired = "version 19 of machine image \"suse\" expired on 2024-01-02T00:00:00Z; offered for amd64: 15, 16, 18";
    fits(&pool("1.30.2", "19", ""), None, &[&format!("{MACHINE}.image.version: Invalid value: \"19\": {expired}")]);
}

#[test]
fn a_volume_is_as_large_as_its_type_asks() {
    let pool =
        |machine: &str, volume: &str| with("1.30.2", &format!("type: {machine}"), &format!(", volume: {{{volume}}}"));
    let told = |size: &str, what: &str| {
        format!(
            "spec.provider.workers[w].volume.size: Invalid value: \"{size}\": {what}: ask for that much, or choose another type"
        )
    };
    for volume in [
        "type: gp3, size: 30Gi",
        "type: gp3, size: 30720Mi",
        "type: gp3",
        "size: 1Gi",
        "type: gp2, size: 1Gi",
        "type: gp3, size: big",
    ] {
        fits(&pool("m5", volume), None, &[]);
    }
    let least = "a volume of type \"gp3\" has at least 30Gi";
    fits(&pool("m5", "type: gp3, size: 20Gi"), None, &[&told("20Gi", least)]);
    fits(&pool("m5", "type: gp3, size: 30G"), None, &[&told("30G", least)]);
    let of_machine = "with machine type \"m6\" a volume of type \"gp3\" has at least 50Gi";
    fits(&pool("m6", "type: gp3, size: 40Gi"), None, &[&told("40Gi", of_machine)]);
    fits(&pool("m6", "type: gp2, size: 1Gi"), None, &[]);
    let stored = pool("m5", "type: gp3, size: 20Gi");
    fits(&stored, Some(&stored), &[]);
    fits(&pool("m5", "type: gp3, size: 20480Mi"), Some(&stored), &[]);
    fits(&pool("m5", "type: gp3, size: 25Gi"), Some(&stored), &[&told("25Gi", least)]);
    fits(&stored, Some(&pool("m5", "type: gp2, size: 20Gi")), &[&told("20Gi", least)]);
    fits(
        &pool("m6", "type: gp3, size: 40Gi"),
        Some(&pool("m5", "type: gp3, size: 40Gi")),
        &[&told("40Gi", of_machine)],
    );
}

#[test]
fn what_a_shoot_uses_already_it_may_go_on_using() {
    let gone = with("1.27.1", "type: x1, image: {name: flat, version: '1'}", ", volume: {type: io1}, zones: [rc]")
        .replace("region: r,", "region: s,");
    check(&gone, Some(&gone), &[]);
    let more = gone.replace("zones: [rc]", "zones: [rc], maximum: 5");
    check(&more, Some(&gone), &[]);
    // A new pool is new in all that it uses.
    let pool = gone.replace("name: w,", "name: v,");
    assert!(pool != gone);
    let errors = check_usage(
        &shoot(&pool),
        Some(&shoot(&gone)),
        &cloud(PROFILE),
        &Reference::cloud_profile("x"),
        at("2025-01-01T00:00:00Z"),
    );
    assert_eq!(errors.len(), 4, "{:?}", texts(&errors));
    // So is the version that was changed.
    let old = with("1.28.6", "type: m5, image: {name: suse, version: '15.4'}", "");
    check(
        &old.replace("15.4", "14.4"),
        Some(&old),
        &[
            "spec.provider.workers[w].machine.image.version: Invalid value: \"14.4\": version 14.4 of machine image \"suse\" expired on \
         2024-01-02T00:00:00Z; offered for amd64: 15.4",
        ],
    );
}

#[test]
fn a_profile_to_change_to_has_all_that_is_used_expired_or_not() {
    let used =
        shoot(&with("1.27.1", "type: m4, image: {name: suse, version: '14.4'}", ", volume: {type: gp3}, zones: [ra]"));
    let target = Reference::private("p");
    assert_eq!(check_switch_usage(&used, &cloud(PROFILE), &target), []);
    let errors = texts(&check_switch_usage(&used, &cloud("{type: aws, machineImages: [{name: suse}]}"), &target));
    let fields: Vec<&str> = errors.iter().filter_map(|text| text.split(": ").next()).collect();
    assert_eq!(
        fields,
        [
            "spec.region",
            "spec.provider.workers[w].machine.type",
            "spec.provider.workers[w].machine.image.version",
            "spec.provider.workers[w].volume.type"
        ]
    );
    assert!(errors[0].contains("PrivateCloudProfile \"p\" offers none"), "{errors:?}");
}

#[test]
fn an_empty_version_is_none() {
    let pool = |version: &str| with("", "type: m5", &format!(", kubernetes: {{version: '{version}'}}"));
    assert_eq!(used_kubernetes(&shoot(&pool(""))).collect::<Vec<_>>(), Vec::<&str>::new());
    assert_eq!(used_kubernetes(&shoot(&pool("1.28.6"))).collect::<Vec<_>>(), ["1.28.6"]);
    check(&pool(""), None, &[]);
    check(&with("", "type: m5", ""), Some(&pool("1.28.6")), &[]);
}

#[test]
fn shoots_of_a_landscape_without_private_profiles_are_judged_by_their_cloud_profile_alone() {
    let old = with("1.27.1", "type: m5", "").replacen('{', "{cloudProfileName: x, ", 1);
    let (before, after) = (shoot(&old), shoot(&old.replace("1.27.1", "1.28.6")));
    let meant = reference(&after, Some(&before)).expect("a reference");
    assert_eq!(meant, Reference::cloud_profile("x"));
    assert_eq!(check_switch(&reference(&before, None).expect("a reference"), &meant, |_| None), Ok(()));
    assert_eq!(check_usage(&after, Some(&before), &cloud(PROFILE), &meant, at("2025-01-01T00:00:00Z")), []);
}

#[test]
fn a_provider_is_compared_whenever_it_is_said() {
    let check = |old: Option<&str>, new: &str, expect: usize| {
        let old = old.map(shoot);
        let found = check_usage(
            &shoot(new),
            old.as_ref(),
            &cloud("{type: aws}"),
            &Reference::cloud_profile("c"),
            at("2025-01-01T00:00:00Z"),
        );
        let types = found.iter().filter(|error| error.path.to_string() == "spec.provider.type").count();
        assert_eq!(types, expect, "{new}");
    };
    check(None, "{provider: {type: gcp}}", 1);
    check(Some("{}"), "{provider: {type: gcp}}", 1);
    check(Some("{provider: {type: aws}}"), "{provider: {type: gcp}}", 1);
    check(Some("{provider: {type: gcp}}"), "{provider: {type: gcp}}", 0);
    check(Some("{}"), "{provider: {type: aws}}", 0);
}

#[test]
fn many_pools_with_as_many_zones_are_judged_at_once_and_told_of_by_the_first() {
    let pools = |zone: &str| {
        let pool = |number: usize| {
            let zones: Vec<String> = (0..3).map(|place| format!("{zone}{place}")).collect();
            format!("{{name: p{number}, machine: {{type: m4}}, zones: [{}]}}", zones.join(", "))
        };
        let all: Vec<String> = (0..30_000).map(pool).collect();
        shoot(&format!("{{region: r, provider: {{type: aws, workers: [{}]}}}}", all.join(", ")))
    };
    let (old, new) = (pools("a"), pools("b"));
    let found =
        check_usage(&new, Some(&old), &cloud(PROFILE), &Reference::cloud_profile("c"), at("2025-01-01T00:00:00Z"));
    assert!(found.len() <= allotment_machinery::field::MAX_ERRORS, "{}", found.len());
    assert_eq!(
        check_usage(&old, Some(&old), &cloud(PROFILE), &Reference::cloud_profile("c"), at("2025-01-01T00:00:00Z")),
        []
    );
}

#[test]
fn whoever_says_less_than_a_version_keeps_the_last_that_it_may_mean() {
    let own = cloud(
        "{type: t, kubernetes: {versions: [{version: 1.30.1, expirationDate: '2026-01-01T00:00:00Z'}, {version: 1.30.2,
          expirationDate: '2026-02-01T00:00:00Z'}, {version: 1.31.0}]},
          machineImages: [{name: i, versions: [{version: '1', expirationDate: '2026-01-01T00:00:00Z'}]}]}",
    );
    let kept = |wanted: &[VersionKey<'_>], now: &str| {
        let kept = last_meant(&own, &wanted.iter().copied().collect(), at(now));
        kept.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (minor, image) = (VersionKey::Kubernetes("1.30"), VersionKey::Image("i", ""));
    let both = ["spec.kubernetes.versions[1.30.1]", "spec.kubernetes.versions[1.30.2]"];
    assert_eq!(kept(&[minor], "2026-01-15T00:00:00Z"), Vec::<String>::new(), "one is left");
    assert_eq!(kept(&[minor], "2026-03-01T00:00:00Z"), both);
    let used = VersionKey::Kubernetes("1.30.2");
    assert_eq!(kept(&[minor, used], "2026-03-01T00:00:00Z"), Vec::<String>::new(), "what is used by name stays anyhow");
    assert_eq!(kept(&[image], "2026-03-01T00:00:00Z"), ["spec.machineImages[i].versions[1]"]);
    assert_eq!(
        kept(&[VersionKey::Kubernetes("1.29"), VersionKey::Image("j", "")], "2026-03-01T00:00:00Z"),
        Vec::<String>::new()
    );
    assert!(offers(&own, &minor) && offers(&own, &image) && offers(&own, &used));
    assert!(!offers(&own, &VersionKey::Kubernetes("1.29")) && !offers(&own, &VersionKey::Image("i", "2")));
}

#[test]
fn no_name_of_a_pool_newly_stands_twice() {
    let pools = |names: &[&str]| {
        let pool = |name: &&str| format!("{{name: {name}, machine: {{type: m5}}}}");
        shoot(&format!(
            "{{provider: {{type: aws, workers: [{}]}}}}",
            names.iter().map(pool).collect::<Vec<_>>().join(", ")
        ))
    };
    let check = |old: Option<&[&str]>, new: &[&str], expect: &[&str]| {
        let old = old.map(pools);
        let found = check_usage(
            &pools(new),
            old.as_ref(),
            &cloud(PROFILE),
            &Reference::cloud_profile("c"),
            at("2025-01-01T00:00:00Z"),
        );
        assert_eq!(texts(&found), expect, "{new:?}");
    };
    let twice = "spec.provider.workers[1].name: Duplicate value: \"w\": stands in the list already: choose another one for one of the two";
    check(None, &["w", "v"], &[]);
    check(None, &["w", "w"], &[twice]);
    check(Some(&["w"]), &["w", "w"], &[twice]);
    check(Some(&["w", "w"]), &["w", "w"], &[]);
    check(Some(&["w", "w"]), &["w"], &[]);
}
