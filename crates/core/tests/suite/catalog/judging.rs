//! What is refused of either profile, in which words, and which verbs a change needs.

use allotment_api::catalog::{Date, PrivateCloudProfileSpec, RemovedVersion};
use allotment_core::catalog::{
    Found, Parent, PrivateWrite, Verb, denial, expire_private_profile, gone_with, needed, removed_versions, settled,
    validate_cloud_profile, validate_private_profile,
};
use k8s_openapi::jiff::{Span, Timestamp};
use proptest::prelude::*;

use super::{at, cloud, create, parent, private, shown};

const NOW: &str = "2026-06-01T00:00:00Z";
const OWN: &str =
    "{type: t, kubernetes: {versions: [{version: 1.31.0}, {version: 1.30.2, expirationDate: '2026-07-01T00:00:00Z'}]},
    machineImages: [{name: i, versions: [{version: '1', expirationDate: '2026-07-01T00:00:00Z'}, {version: '2'}]}]}";

fn texts(found: &Found) -> Vec<String> {
    found.errors.iter().map(ToString::to_string).collect()
}

#[test]
fn names_of_fields_that_nobody_knows_can_be_shown_at_every_level() {
    let unseen =
        "Invalid value: \"a\\\\u{1b}[2J\": a field's name has characters that are not seen: choose a name without them";
    let check = |place: &str, entries: &str| {
        refused(&entries.replace("BAD", "\"a\\e[2J\": 1"), &[&format!("{place}: {unseen}")]);
    };
    check("spec", "more: {inner: [{BAD}]}");
    check("spec", "BAD");
    check("spec.limits", "limits: {BAD}");
    check("spec.machineImages[i]", "machineImages: [{name: i, BAD, versions: [{version: '1'}]}]");
    check("spec.machineImages[i].versions[1]", "machineImages: [{name: i, versions: [{version: '1', BAD}]}]");
    let runtimes = "machineImages: [{name: i, versions: [{version: '1', cri: [{name: c, BAD}]}]}]";
    check("spec.machineImages[i].versions[1].cri[c]", runtimes);
    check("spec.machineTypes[m]", "machineTypes: [{name: m, cpu: 1, memory: 1Gi, BAD}]");
    let storage = "machineTypes: [{name: m, cpu: 1, memory: 1Gi, storage: {class: c, type: t, size: 1Gi, BAD}}]";
    check("spec.machineTypes[m].storage", storage);
    check("spec.volumeTypes[v]", "volumeTypes: [{name: v, class: c, BAD}]");
    check("spec.regions[r]", "regions: [{name: r, BAD}]");
    check("spec.regions[r].zones[z]", "regions: [{name: r, zones: [{name: z, BAD}]}]");
    check("spec.regions[r].accessRestrictions[a]", "regions: [{name: r, accessRestrictions: [{name: a, BAD}]}]");
    let long = format!("{}: 1", "x".repeat(254));
    let shown = "x".repeat(32);
    let expect =
        format!("spec: Invalid value: \"{shown}…\": a field has a name of more than 253 bytes: choose a shorter one");
    refused(&long, &[&expect]);

    // Of what a CloudProfile alone has, and of versions, which a private one does not add.
    let alone = |entries: &str| {
        let spec = format!("{{type: t, {}}}", entries.replace("BAD", "\"a\\e[2J\": 1"));
        texts(&validate_cloud_profile(&cloud(&spec), None, at(NOW)))
    };
    assert_eq!(alone("kubernetes: {BAD}"), [format!("spec.kubernetes: {unseen}")]);
    assert_eq!(
        alone("kubernetes: {versions: [{version: 1.30.1, BAD}]}"),
        [format!("spec.kubernetes.versions[1.30.1]: {unseen}")]
    );
    assert_eq!(alone("seedSelector: {BAD}"), [format!("spec.seedSelector: {unseen}")]);
    let bastion = "machineTypes: [{name: m, cpu: 1, memory: 1Gi}], bastion: {machineType: {name: m}, BAD}";
    assert_eq!(alone(bastion), [format!("spec.bastion: {unseen}")]);
    assert_eq!(alone("providerConfig: {BAD}"), [""; 0]);
}

#[test]
fn bastions_run_on_what_the_profile_has() {
    let check = |bastion: &str, expect: &[&str]| {
        let text = format!(
            "{{type: t, machineTypes: [{{name: m, cpu: 1, memory: 1Gi}}, {{name: arm, cpu: 1, memory: 1Gi, architecture: arm64}}],
            machineImages: [{{name: i, versions: [{{version: '1', architectures: [amd64, arm64]}}, {{version: '2'}}]}}, {{name: j,
            versions: [{{version: '1'}}]}}], bastion: {bastion}}}"
        );
        assert_eq!(texts(&validate_cloud_profile(&cloud(&text), None, at(NOW))), expect, "{bastion}");
    };
    check("{machineType: {name: m}}", &[]);
    check("{machineImage: {name: i}}", &[]);
    check("{machineType: {name: arm}, machineImage: {name: i}}", &[]);
    check("{machineType: {name: arm}, machineImage: {name: i, version: '1'}}", &[]);
    check("{}", &["spec.bastion: Required value: name a machineType, a machineImage or both, or leave bastion out"]);
    check(
        "{machineType: {name: q}, machineImage: {name: k, version: '1'}}",
        &[
            "spec.bastion.machineType.name: Invalid value: \"q\": is not in spec.machineTypes: add it there, or name one that is",
            "spec.bastion.machineImage.name: Invalid value: \"k\": is not in spec.machineImages: add it there, or name one that is",
        ],
    );
    check(
        "{machineImage: {name: i, version: '3'}}",
        &[
            "spec.bastion.machineImage.version: Invalid value: \"3\": has no entry in spec.machineImages: add it there, name one \
           that has, or leave it open",
        ],
    );
    check(
        "{machineType: {name: arm}, machineImage: {name: i, version: '2'}}",
        &[
            "spec.bastion.machineImage.version: Invalid value: \"2\": is not for arm64, which machine type \"arm\" has: name \
           another one",
        ],
    );
    check(
        "{machineType: {name: arm}, machineImage: {name: j}}",
        &[
            "spec.bastion.machineImage.name: Invalid value: \"j\": is not for arm64, which machine type \"arm\" has: name another one",
        ],
    );
    // One that was so before locks nobody out.
    let was = cloud("{type: t, bastion: {machineType: {name: q}}}");
    let found = validate_cloud_profile(
        &cloud("{type: t, limits: {maxNodesTotal: 3}, bastion: {machineType: {name: q}}}"),
        Some(&was),
        at(NOW),
    );
    assert!(found.errors.is_empty() && found.warnings[0].ends_with("it was so before"), "{found:?}");
}

#[test]
fn what_a_zone_lacks_is_looked_for_in_the_whole_profile() {
    let zones =
        "regions: [{name: r, zones: [{name: z, unavailableMachineTypes: [m, q, o], unavailableVolumeTypes: [v]}]}]";
    let place = "spec.regions[r].zones[z]";
    let told = [
        format!("{place}.unavailableMachineTypes: the profile has no machine type q, o"),
        format!("{place}.unavailableVolumeTypes: the profile has no volume type v"),
    ];
    let machine = "machineTypes: [{name: m, cpu: 1, memory: 1Gi}]";
    let found = validate_cloud_profile(&cloud(&format!("{{type: t, {machine}, {zones}}}")), None, at(NOW));
    assert_eq!((texts(&found).len(), found.warnings), (0, told.to_vec()));
    // A private profile's zone lacks what its parent has.
    let central = parent(&format!("{{type: t, {machine}}}"));
    let found = validate_private_profile(&private(&format!("{{parent: central, {zones}}}")), &create(&central, NOW));
    assert_eq!((texts(&found).len(), found.warnings), (0, told.to_vec()));
    let whole =
        format!("{{type: t, {machine}, regions: [{{name: r, zones: [{{name: z, unavailableMachineTypes: [m]}}]}}]}}");
    assert_eq!(validate_cloud_profile(&cloud(&whole), None, at(NOW)).warnings, [""; 0]);
}

/// Checks that a CloudProfile and a private profile with the same entries are refused in the same words.
#[track_caller]
fn refused(entries: &str, expect: &[&str]) {
    let found = validate_cloud_profile(&cloud(&format!("{{type: t, {entries}}}")), None, at(NOW));
    assert_eq!(texts(&found), expect, "{entries}");
    let central = parent("{type: t}");
    let found = validate_private_profile(&private(&format!("{{parent: central, {entries}}}")), &create(&central, NOW));
    assert_eq!(texts(&found), expect, "{entries}");
}

#[test]
fn entries_are_refused_by_field_with_reason_and_what_to_do() {
    refused(
        "machineTypes: [{name: a/b, cpu: 1, memory: 1Gi}, {cpu: 1, memory: 1Gi}, {name: c, cpu: x, gpu: -1},
          {name: d, cpu: 1, memory: 1Gi, architecture: riscv, storage: {class: c, size: 1Gi, minSize: 1Gi}}]",
        &[
            "spec.machineTypes[0].name: Invalid value: \"a/b\": must not contain '/': choose a name without it",
            "spec.machineTypes[1].name: Required value: every entry of the list needs one",
            "spec.machineTypes[c].cpu: Invalid value: \"x\": not a quantity: write it as 4, 500m or 8Gi",
            "spec.machineTypes[c].memory: Required value: say how much a machine has",
            "spec.machineTypes[c].gpu: Invalid value: \"-1\": must not be negative",
            "spec.machineTypes[d].architecture: Unsupported value: \"riscv\": supported values: \"amd64\", \"arm64\"",
            "spec.machineTypes[d].storage.type: Required value: a machine's own storage has one",
            "spec.machineTypes[d].storage: Required value: set either size or minSize",
        ],
    );
    refused(
        "volumeTypes: [{name: v}, {name: w, class: c, minSize: big}], regions: [{name: r, zones: [{name: z}, {name: z}],
          labels: {'a b': c}}, {name: r}]",
        &[
            "spec.volumeTypes[v].class: Required value: such as standard or premium",
            "spec.volumeTypes[w].minSize: Invalid value: \"big\": not a quantity: write it as 4, 500m or 8Gi",
            "spec.regions[r].zones[1].name: Duplicate value: \"z\": stands in the list already: take one of the two out",
            "spec.regions[r].labels[a b]: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', \
             and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
             validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            "spec.regions[1].name: Duplicate value: \"r\": stands in the list already: take one of the two out",
        ],
    );
    refused(
        "machineImages: [{name: i, updateStrategy: never, versions: [{version: latest}, {version: '1', cri: [{name: c}, {name: c}],
          architectures: [amd64, amd64], kubeletVersionConstraint: new, classification: old}]}]",
        &[
            "spec.machineImages[i].updateStrategy: Unsupported value: \"never\": supported values: \"major\", \"minor\", \"patch\"",
            "spec.machineImages[i].versions[latest].version: Invalid value: \"latest\": not a version: write it as \"15.4\" or \
             \"15.4.20220818\", with what semantic versioning allows behind it",
            "spec.machineImages[i].versions[1].classification: Unsupported value: \"old\": supported values: \"deprecated\", \
             \"preview\", \"supported\"",
            "spec.machineImages[i].versions[1].architectures[1]: Duplicate value: \"amd64\"",
            "spec.machineImages[i].versions[1].cri[1].name: Duplicate value: \"c\": stands in the list already: take one of the \
             two out",
            "spec.machineImages[i].versions[1].kubeletVersionConstraint: Invalid value: \"new\": not a constraint: write it as \
             \"< 1.26\" or \">= 1.25, < 1.28\"",
        ],
    );
    refused(
        "limits: {maxNodesTotal: 0}",
        &["spec.limits.maxNodesTotal: Invalid value: 0: must be at least 1; leave it out for no limit"],
    );
}

#[test]
fn a_bundle_is_refused_without_showing_what_is_in_it() {
    let key = "-----BEGIN PRIVATE KEY-----\\nc2VjcmV0\\n-----END PRIVATE KEY-----\\n";
    let found = validate_cloud_profile(&cloud(&format!("{{type: t, caBundle: \"{key}\"}}")), None, at(NOW));
    assert_eq!(
        texts(&found),
        ["spec.caBundle: Invalid value: block 1 holds a PRIVATE KEY, and only a CERTIFICATE belongs here: take it out"]
    );
    let central = parent("{type: t}");
    let added = private(&format!("{{parent: central, caBundle: \"{key}\"}}"));
    assert_eq!(texts(&validate_private_profile(&added, &create(&central, NOW))).len(), 1);
}

#[test]
fn cloud_profiles_need_a_type_and_full_kubernetes_versions_and_may_have_dates_in_the_past() {
    let check = |text: &str, errors: &[&str], warnings: &[&str]| {
        let found = validate_cloud_profile(&cloud(text), None, at(NOW));
        assert_eq!((texts(&found), found.warnings), (errors.map_owned(), warnings.map_owned()), "{text}");
    };
    check(
        "{}",
        &["spec.type: Required value: name the provider that the profile is for, such as aws, azure or gcp"],
        &[],
    );
    let full = |version: &str| {
        format!(
            "spec.kubernetes.versions[{version}].version: Invalid value: \"{version}\": a Kubernetes version is three numbers: write \
             it as \"1.30.2\""
        )
    };
    let versions = "{type: t, kubernetes: {versions: [{version: '1.30'}, {version: v1.30.2}, {version: 1.30.2-rc.1}]}}";
    check(versions, &[&full("1.30"), &full("v1.30.2"), &full("1.30.2-rc.1")], &[]);
    let past = "{type: t, kubernetes: {versions: [{version: 1.31.0}, {version: 1.30.2, expirationDate: '2026-01-01T00:00:00Z'}]}}";
    let told = "spec.kubernetes.versions[1.30.2].expirationDate: 2026-01-01T00:00:00Z is in the past: no new Shoot on it can use 1.30.2";
    check(past, &[], &[told]);
    let again = validate_cloud_profile(&cloud(past), Some(&cloud(past)), at(NOW));
    assert_eq!(again, Found::default(), "what stood there is not told again");
}

/// Texts as they are found.
trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for [&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

#[track_caller]
fn judged(text: &str, old: Option<&str>, expect: &[&str]) {
    let (own, old) = (parent(OWN), old.map(private));
    let write = PrivateWrite { old: old.as_ref(), ..create(&own, NOW) };
    assert_eq!(texts(&validate_private_profile(&private(text), &write)), expect.map_owned(), "{text}");
}

#[test]
fn what_the_provider_says_cannot_be_set_in_a_private_profile() {
    let inherited = |field: &str| {
        format!("spec.{field}: Forbidden: {field} is inherited from the parent CloudProfile: leave it out")
    };
    judged(
        "{parent: central, type: t, providerConfig: {}, seedSelector: {}, bastion: {}, more: kept}",
        None,
        &[&inherited("bastion"), &inherited("providerConfig"), &inherited("seedSelector"), &inherited("type")],
    );
    judged(
        "{parent: central, kubernetes: {versions: [{version: 1.30.2, classification: supported, lifecycle: []}]},
          machineImages: [{name: i}]}",
        None,
        &[
            "spec.kubernetes.versions[1.30.2].classification: Forbidden: only expirationDate may be set for a version of the \
             parent: leave it out",
            "spec.kubernetes.versions[1.30.2].lifecycle: Forbidden: only expirationDate may be set for a version of the parent: \
             leave it out",
            "spec.machineImages[i].versions: Required value: name the versions that are added or extended, or leave the image out",
        ],
    );
}

#[test]
fn a_parent_is_a_cloud_profile_in_either_form_and_stays() {
    judged("{parent: {kind: CloudProfile, name: central}}", Some("{parent: central}"), &[]);
    judged("{parent: {name: central}}", Some("{parent: {kind: CloudProfile, name: central}}"), &[]);
    judged("{}", None, &["spec.parent: Required value: name the CloudProfile that this adds to"]);
    judged(
        "{parent: {kind: PrivateCloudProfile, name: central}}",
        None,
        &[
            "spec.parent.kind: Invalid value: \"PrivateCloudProfile\": multi-level inheritance is not supported: name a CloudProfile",
        ],
    );
    judged(
        "{parent: other}",
        Some("{parent: {name: central}}"),
        &["spec.parent: Invalid value: \"other\": is immutable, and was \"central\": make another PrivateCloudProfile"],
    );
}

fn dated(version: &str, date: &str) -> String {
    format!("{{parent: central, kubernetes: {{versions: [{{version: {version}, expirationDate: '{date}'}}]}}}}")
}

#[test]
fn a_date_can_only_be_extended_and_only_a_new_one_is_judged() {
    let never = "spec.kubernetes.versions[1.31.0].expirationDate: Invalid value: \"2027-01-01T00:00:00Z\": CloudProfile \"central\" \
                 gives 1.31.0 without a date, so it never expires: leave the date out";
    judged(&dated("1.31.0", "2027-01-01T00:00:00Z"), None, &[never]);
    let shorter = "spec.kubernetes.versions[1.30.2].expirationDate: Invalid value: \"2026-06-30T00:00:00Z\": CloudProfile \"central\" \
                   gives it until 2026-07-01T00:00:00Z, and a date can only be extended: choose a later one";
    judged(&dated("1.30.2", "2026-06-30T00:00:00Z"), None, &[shorter]);
    judged(&dated("1.30.2", "2026-07-01T00:00:00Z"), None, &[]);
    judged(&dated("1.30.2", "2027-07-01T00:00:00Z"), None, &[]);
    // They came to be shorter since the parent changed; the same time in other words is no other date.
    judged(&dated("1.31.0", "2027-01-01T00:00:00Z"), Some(&dated("1.31.0", "2027-01-01T01:00:00+01:00")), &[]);
    judged(&dated("1.30.2", "2026-06-30T00:00:00Z"), Some(&dated("1.30.2", "2026-06-30T00:00:00Z")), &[]);
    judged(&dated("1.30.2", "2026-06-30T00:00:00Z"), Some(&dated("1.30.2", "2026-06-29T00:00:00Z")), &[shorter]);
    judged(
        "{parent: central, machineImages: [{name: i, versions: [{version: '2', expirationDate: '2027-01-01T00:00:00Z'},
          {version: '3', expirationDate: '2026-05-31T23:59:59Z'}]}]}",
        None,
        &[
            "spec.machineImages[i].versions[2].expirationDate: Invalid value: \"2027-01-01T00:00:00Z\": CloudProfile \"central\" gives \
             2 without a date, so it never expires: leave the date out",
            "spec.machineImages[i].versions[3].expirationDate: Invalid value: \"2026-05-31T23:59:59Z\": is in the past: choose a date \
             to come, or leave the version out",
        ],
    );
}

const OVER: &str = "2026-05-01T00:00:00Z";

fn image(version: &str, date: &str) -> String {
    format!(
        "{{parent: central, machineImages: [{{name: own, versions: [{{version: '{version}', expirationDate: '{date}'}}]}}]}}"
    )
}

#[test]
fn a_manifest_with_expired_entries_that_is_applied_again_neither_fails_nor_brings_them_back() {
    let own: Parent = parent(&OWN.replace("2026-07-01", "2026-04-01"));
    let removed = [RemovedVersion {
        path: "spec.machineImages[own].versions[5]".to_owned(),
        version: "5".to_owned(),
        expired_at: Date::new(OVER),
        own_date: None,
        removed_at: Date::new("2026-05-02T00:00:00Z"),
    }];
    let check = |text: &str, old: Option<&str>, removed: &[RemovedVersion], used: bool, expect: Option<&str>| {
        let old = old.map(private);
        let write = PrivateWrite { old: old.as_ref(), removed, in_use: &|_, _| used, ..create(&own, NOW) };
        let left = settled(&private(text), &write);
        assert_eq!(left.as_ref().map(shown), expect.map(|text| shown(&private(text))), "{text}");
        let errors = validate_private_profile(left.as_ref().unwrap_or(&private(text)), &write).errors;
        (left, errors.len())
    };
    let empty = Some("{parent: central}");
    let (text, kubernetes) = (image("5", OVER), dated("1.30.2", OVER));
    assert_eq!(check(&text, Some(&text), &[], false, empty).1, 0);
    assert_eq!(check(&kubernetes, Some(&kubernetes), &[], false, empty).1, 0);
    assert_eq!(check(&text, Some("{parent: central}"), &removed, false, empty).1, 0);
    // Nothing tells that it was there.
    assert_eq!(check(&text, Some("{parent: central}"), &[], false, None).1, 1);
    assert_eq!(check(&text, None, &[], false, None).1, 1);
    // Another date is a new one.
    assert_eq!(check(&image("5", "2026-05-01T00:00:01Z"), Some(&text), &removed, false, None).1, 1);
    // A Shoot needs it.
    assert_eq!(check(&text, Some(&text), &[], true, None).1, 0);
    assert_eq!(check(&kubernetes, Some(&kubernetes), &[], true, empty).1, 0);
}

/// What is remembered of versions that went by `own` date or by that of the parent, `parents`, if that was later.
fn remembered(own: &str, parents: &str) -> (Parent, Vec<RemovedVersion>) {
    let offered =
        parent(&format!("{{type: t, kubernetes: {{versions: [{{version: 1.30.2, expirationDate: '{parents}'}}]}}}}"));
    let expiry = expire_private_profile(&private(&dated("1.30.2", own)), &offered, |_, _| Vec::new(), at(NOW));
    let stored = private("{parent: central}");
    assert_eq!(expiry.spec.as_ref(), Some(&stored));
    // By whom it was taken out makes no difference.
    let before = private(&dated("1.30.2", own));
    let write = PrivateWrite { old: Some(&before), ..create(&offered, NOW) };
    assert_eq!(gone_with(&before, &write), expiry.removed);
    assert_eq!(gone_with(&stored, &write), expiry.removed);
    // And as it is read of the annotation.
    let text = serde_json::to_string(&removed_versions(&[], &expiry.removed)).expect("JSON");
    (offered, serde_json::from_str(&text).expect("a list"))
}

#[test]
fn of_what_went_only_its_own_date_and_the_one_by_which_it_went_are_known() {
    let check = |own: &str, parents: &str, again: &[(&str, bool)]| {
        let (offered, removed) = remembered(own, parents);
        let stored = private("{parent: central}");
        for (date, is_known) in again {
            let write = PrivateWrite { old: Some(&stored), removed: &removed, ..create(&offered, NOW) };
            let manifest = private(&dated("1.30.2", date));
            let left = settled(&manifest, &write);
            assert_eq!(left.is_some(), *is_known, "{own}, {parents}, again with {date}");
            let errors = texts(&validate_private_profile(left.as_ref().unwrap_or(&manifest), &write));
            assert_eq!(errors.is_empty(), *is_known, "{errors:?}");
        }
        let undated = private("{parent: central, kubernetes: {versions: [{version: 1.30.2}]}}");
        let write = PrivateWrite { old: Some(&stored), removed: &removed, ..create(&offered, NOW) };
        assert_eq!(settled(&undated, &write), Some(stored.clone()));
    };
    let longer = [
        ("2026-05-01T00:00:00Z", true),
        ("2026-05-01T02:00:00+02:00", true),
        ("2026-05-01T00:00:00.000Z", true),
        ("2026-04-30T23:59:59Z", false),
        ("2026-05-01T00:00:01Z", false),
        ("2025-06-01T00:00:00Z", false),
        ("2024-01-01T00:00:00Z", false),
    ];
    check("2026-05-01T00:00:00Z", "2025-06-01T00:00:00Z", &longer);
    // The parent gave it longer than the private profile said.
    let shorter = [
        ("2026-01-01T00:00:00Z", true),
        ("2026-01-01T01:00:00+01:00", true),
        ("2026-05-01T00:00:00Z", true),
        ("2026-01-01T00:00:01Z", false),
        ("2025-12-31T23:59:59Z", false),
        ("2026-05-01T00:00:01Z", false),
    ];
    check("2026-01-01T00:00:00Z", "2026-05-01T00:00:00Z", &shorter);
}

#[test]
fn every_way_in_which_a_guarded_field_changes_needs_its_verb() {
    let (kubernetes, images) = (dated("1.30.2", "2027-01-01T00:00:00Z"), image("5", "2027-01-01T00:00:00Z"));
    let types = "{parent: central, machineTypes: [{name: m, cpu: 1, memory: 1Gi}]}";
    let both = kubernetes
        .replace("parent: central", "parent: central, machineImages: [{name: i, versions: [{version: '9'}]}]");
    for (old, new, expect) in [
        (None, types, &[][..]),
        (None, both.as_str(), &[Verb::Kubernetes, Verb::MachineImages]),
        (Some(kubernetes.as_str()), types, &[Verb::Kubernetes]),
        (Some(types), images.as_str(), &[Verb::MachineImages]),
        (Some(images.as_str()), kubernetes.as_str(), &[Verb::Kubernetes, Verb::MachineImages]),
        (Some(images.as_str()), &image("5", "2027-01-01T00:00:01Z"), &[Verb::MachineImages]),
        (Some("{parent: central, kubernetes: {versions: []}}"), types, &[]),
        (Some(both.as_str()), both.as_str(), &[]),
    ] {
        let old: Option<PrivateCloudProfileSpec> = old.map(private);
        assert_eq!(needed(old.as_ref(), &private(new)), expect, "{new}");
    }
}

#[test]
fn a_denial_names_every_field_and_every_rule_that_lacks() {
    assert_eq!(
        denial("jane", &[Verb::Kubernetes, Verb::MachineImages], true),
        "user \"jane\" is not allowed to modify .spec.kubernetes for \"privatecloudprofiles\"; user \"jane\" is not allowed to modify \
         .spec.machineImages for \"privatecloudprofiles\"; a role with this would allow it: {apiGroups: [\"core.gardener.cloud\"], \
         resources: [\"privatecloudprofiles\"], verbs: [\"modify-spec-kubernetes\"]} and {apiGroups: [\"core.gardener.cloud\"], \
         resources: [\"privatecloudprofiles\"], verbs: [\"modify-spec-machineImages\"]}; a bound rule has apiGroups: [\"\"], resources: \
         [\"privatecloudprofile\"]"
    );
}

#[test]
fn what_stands_there_stays_as_long_as_its_parent_gives_it() {
    // The parent gave it longer, or for ever, after the private profile had its date.
    for own in [OWN.to_owned(), OWN.replace(", expirationDate: '2026-07-01T00:00:00Z'", "")] {
        let own = parent(&own);
        let manifest = private(&dated("1.30.2", OVER));
        let write = PrivateWrite { old: Some(&manifest), ..create(&own, NOW) };
        assert_eq!(settled(&manifest, &write), None);
        assert_eq!(texts(&validate_private_profile(&manifest, &write)), [""; 0]);
        assert_eq!(gone_with(&manifest, &write), []);
    }
}

#[test]
fn what_was_wrong_before_is_warned_of_and_does_not_lock_anybody_out() {
    let own = parent("{type: t, kubernetes: {versions: [{version: 1.31.0}]}}");
    let stored = "parent: central, type: t, kubernetes: {versions: [{version: 1.29.0}]}";
    let (stored, changed) = (
        private(&format!("{{{stored}}}")),
        private(&format!("{{{stored}, machineTypes: [{{name: m, cpu: 1, memory: 1Gi}}]}}")),
    );
    let write = PrivateWrite { old: Some(&stored), ..create(&own, NOW) };
    let found = validate_private_profile(&changed, &write);
    assert_eq!(texts(&found), [""; 0]);
    assert!(
        found.warnings.iter().any(|text| text.contains("versions[1.29.0]") && text.ends_with("; it was so before")),
        "{found:?}"
    );
    assert_eq!(texts(&validate_private_profile(&changed, &create(&own, NOW))).len(), 2, "to a new one it is an error");
    let more = private("{parent: central, type: t, kubernetes: {versions: [{version: 1.29.0}, {version: 1.28.0}]}}");
    let found = texts(&validate_private_profile(&more, &write));
    assert!(matches!(found.as_slice(), [only] if only.contains("versions[1.28.0]")), "{found:?}");

    let old = cloud("{type: t, machineTypes: [{name: m, cpu: x, memory: 1Gi}]}");
    let new = cloud("{type: t, machineTypes: [{name: m, cpu: x, memory: 1Gi}], volumeTypes: [{name: v}]}");
    let found = validate_cloud_profile(&new, Some(&old), at(NOW));
    assert_eq!(
        (texts(&found), found.warnings.len()),
        (vec!["spec.volumeTypes[v].class: Required value: such as standard or premium".to_owned()], 1)
    );
}

#[test]
fn a_fault_among_many_that_were_there_is_found() {
    let all = |bad: usize, more: &str| {
        let entry = |number: usize| format!("{{name: m{number}, cpu: x, memory: 1Gi}}");
        cloud(&format!("{{type: t, machineTypes: [{}{more}]}}", (0..bad).map(entry).collect::<Vec<_>>().join(", ")))
    };
    let found = validate_cloud_profile(&all(300, ", {name: last, cpu: z, memory: 1Gi}"), Some(&all(300, "")), at(NOW));
    assert_eq!(texts(&found).len(), 1, "{found:?}");
    assert_eq!((found.warnings.len(), found.unkept), (allotment_machinery::field::MAX_ERRORS, 200));
}

#[test]
fn names_are_no_longer_than_those_of_objects() {
    let long = "n".repeat(254);
    let found = validate_cloud_profile(
        &cloud(&format!("{{type: t, volumeTypes: [{{name: {long}, class: c}}]}}")),
        None,
        at(NOW),
    );
    let shown = format!("{}…", "n".repeat(32));
    assert_eq!(
        texts(&found),
        [format!(
            "spec.volumeTypes[0].name: Invalid value: \"{shown}\": must be no longer than 253 bytes: choose a shorter one"
        )]
    );
    let right = format!("{{type: t, volumeTypes: [{{name: {}, class: c}}]}}", "n".repeat(253));
    assert_eq!(texts(&validate_cloud_profile(&cloud(&right), None, at(NOW))), [""; 0]);
}

#[test]
fn names_hold_nothing_that_acts_on_a_terminal() {
    for (name, shown) in [("\\u001b[2J", "\\\\u{1b}[2J"), ("a\\nb", "a\\\\nb"), ("a\\u202eb", "a\\\\u{202e}b")] {
        let found = validate_cloud_profile(
            &cloud(&format!("{{type: t, volumeTypes: [{{name: \"{name}\", class: c}}]}}")),
            None,
            at(NOW),
        );
        let expect = format!(
            "spec.volumeTypes[0].name: Invalid value: \"{shown}\": must not contain characters that are not seen: choose a name without them"
        );
        assert_eq!(texts(&found), [expect]);
    }
}

proptest! {
    /// A tool applies a manifest again and again, at any time, while the platform takes out what has expired, or lags behind.
    #[test]
    fn a_manifest_that_was_accepted_once_always_is_and_what_expired_never_comes_back(
        own in 0..5_i64, date in prop::option::of(1..6_i64), of_image in any::<bool>(),
        steps in prop::collection::vec((0..3_i64, any::<bool>(), any::<bool>()), 1..12),
    ) {
        let day = |day: i64| format!("2026-06-{:02}T00:00:00Z", 2 + day);
        let offered = match own {
            0 => String::new(),
            own => format!(", expirationDate: '{}'", day(own)),
        };
        let parent = parent(&format!("{{type: t, kubernetes: {{versions: [{{version: 1.30.2{offered}}}]}}}}"));
        let said = date.map(|date| format!(", expirationDate: '{}'", day(date))).unwrap_or_default();
        let text = match of_image {
            true => format!("machineImages: [{{name: own, versions: [{{version: '5'{said}}}]}}]"),
            false => format!("kubernetes: {{versions: [{{version: 1.30.2{said}}}]}}"),
        };
        let mut stored: Option<PrivateCloudProfileSpec> = None;
        let mut removed: Vec<RemovedVersion> = Vec::new();
        let mut was_gone = false;
        let mut now: Timestamp = at(NOW);
        for (step, (days, is_lagging, is_changed)) in steps.into_iter().enumerate() {
            now = now.checked_add(Span::new().hours(24 * days)).expect("a time");
            let another = if is_changed { format!(", machineTypes: [{{name: m{step}, cpu: 1, memory: 1Gi}}]") } else { String::new() };
            let manifest = private(&format!("{{parent: central, {text}{another}}}"));
            let (before, known) = (stored.clone(), removed.clone());
            let write = PrivateWrite { old: before.as_ref(), removed: &known, now, ..create(&parent, NOW) };
            let left = settled(&manifest, &write).unwrap_or_else(|| manifest.clone());
            let faults = texts(&validate_private_profile(&left, &write));
            prop_assume!(stored.is_some() || faults.is_empty());
            prop_assert_eq!(&faults, &Vec::<String>::new());
            if let Some(before) = &before {
                let was = settled(before, &write).unwrap_or_else(|| before.clone());
                prop_assert_eq!(needed(Some(&was), &left), [], "no verb for what is the same");
            }
            removed = removed_versions(&known, &gone_with(&manifest, &write));
            let is_there = left.kubernetes.is_some() || !left.machine_images.is_empty();
            prop_assert!(!(was_gone && is_there), "it came back");
            was_gone |= !is_there;
            stored = Some(left);
            if !is_lagging {
                let expiry = expire_private_profile(stored.as_ref().expect("stored"), &parent, |_, _| Vec::new(), now);
                removed = removed_versions(&removed, &expiry.removed);
                was_gone |= expiry.spec.is_some();
                stored = expiry.spec.or(stored);
            }
            prop_assert_eq!(was_gone, !removed.is_empty(), "what went is told");
        }
    }
}
