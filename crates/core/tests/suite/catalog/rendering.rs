//! What comes of a private profile over its parent, field by field.

use allotment_api::catalog::{CloudProfileSpec, Conflict};
use allotment_core::catalog::{Parent, dropped_versions, faults_of_change, render};

use super::{at, cloud, parent, private, shown};

/// Checks what is rendered, and which conflicts there are as `path: parent | private`.
#[track_caller]
fn check(own: &str, added: &str, expect: &str, conflicts: &[&str]) {
    let rendered = render(&parent(own), &private(added));
    assert_eq!(shown(&rendered.spec), shown(&cloud(expect)), "{own} + {added}");
    let told = |conflict: &Conflict| {
        assert!(conflict.reason.ends_with("holds"), "{conflict:?}");
        format!("{}: {} | {}", conflict.path, conflict.parent_value, conflict.child_value)
    };
    assert_eq!(rendered.conflicts.iter().map(told).collect::<Vec<_>>(), conflicts, "{own} + {added}");
    assert_eq!(rendered.faults, []);
}

#[test]
fn of_two_dates_the_later_one_holds_and_none_is_the_latest() {
    let own = |date: &str| {
        format!(
            "{{type: t, kubernetes: {{versions: [{{version: 1.30.2{date}}}]}}, \
                 machineImages: [{{name: i, versions: [{{version: '1'{date}}}]}}]}}"
        )
    };
    let early = ", expirationDate: '2026-01-01T00:00:00Z'";
    let late = ", expirationDate: '2027-01-01T00:00:00Z'";
    for (parent, private, expect) in [
        (early, late, late),
        (late, early, late),
        (early, "", early),
        ("", late, ""),
        // The same point in time stays as the parent writes it.
        (early, ", expirationDate: '2026-01-01T01:00:00+01:00'", early),
    ] {
        let private = own(private).replace("type: t", "parent: central");
        check(&own(parent), &private, &own(expect), &[]);
    }
}

#[test]
fn new_entries_stand_behind_the_parents_in_their_order() {
    check(
        "{type: t, machineTypes: [{name: b, cpu: 1, memory: 1Gi}], volumeTypes: [{name: v, class: c}],
          machineImages: [{name: i, versions: [{version: '2'}]}], regions: [{name: r, zones: [{name: z}]}]}",
        "{parent: central, machineTypes: [{name: c, cpu: 1, memory: 1Gi}, {name: a, cpu: 1, memory: 1Gi}],
          volumeTypes: [{name: u, class: c}], machineImages: [{name: p, versions: [{version: '9'}]},
          {name: i, versions: [{version: '3'}, {version: '1'}]}], regions: [{name: q}, {name: r, zones: [{name: x}]}]}",
        "{type: t, machineTypes: [{name: b, cpu: 1, memory: 1Gi}, {name: c, cpu: 1, memory: 1Gi}, {name: a, cpu: 1, memory: 1Gi}],
          volumeTypes: [{name: v, class: c}, {name: u, class: c}],
          machineImages: [{name: i, versions: [{version: '2'}, {version: '3'}, {version: '1'}]},
          {name: p, versions: [{version: '9'}]}], regions: [{name: r, zones: [{name: z}, {name: x}]}, {name: q}]}",
        &[],
    );
}

#[test]
fn what_the_provider_says_is_inherited_whole() {
    let own =
        "{type: t, providerConfig: {a: [1, x]}, seedSelector: {matchLabels: {a: b}}, bastion: {machineType: {name: m}},
                machineCapabilities: [{name: architecture}]}";
    check(own, "{parent: central}", own, &[]);
    // Admission refuses them; where they are stored nevertheless they say nothing.
    check(own, "{parent: central, type: u, providerConfig: {}, seedSelector: {}, bastion: {}}", own, &[]);
    check(
        own,
        "{parent: central, machineCapabilities: [], more: 1}",
        own,
        &["spec.machineCapabilities: [{\"name\":\"architecture\"}] | []", "spec.more: null | 1"],
    );
}

#[test]
fn numbers_that_nobody_knows_the_meaning_of_come_out_as_they_are() {
    for number in ["1.2088995980580641", "0.00023308445025757262", "9007199254740993", "1.5"] {
        let spec = format!(r#"{{"type": "t", "providerConfig": {{"n": {number}}}}}"#);
        let spec: CloudProfileSpec = serde_json::from_str(&spec).expect("a profile");
        let rendered = render(&Parent::new("central", spec), &private("parent: central"));
        let text = serde_json::to_value(&rendered.spec).expect("JSON")["providerConfig"]["n"].to_string();
        assert_eq!(text, number);
    }
}

#[test]
fn the_same_in_other_words_is_no_conflict() {
    let own = "{type: t, machineTypes: [{name: m, cpu: '1', gpu: '0', memory: 8Gi, usable: true,
                storage: {class: c, type: d, size: 20Gi}}], volumeTypes: [{name: v, class: c, minSize: 1Gi}],
                machineImages: [{name: i, versions: [{version: '1', architectures: [amd64, arm64]}, {version: '2'}]}]}";
    check(
        own,
        "{parent: central, machineTypes: [{name: m, cpu: 1000m, memory: 8192Mi, architecture: amd64,
          storage: {class: c, type: d, size: 20480Mi}}], volumeTypes: [{name: v, class: c, usable: true, minSize: 1024Mi}],
          machineImages: [{name: i, updateStrategy: major, versions: [{version: '1', architectures: [arm64, amd64]},
          {version: '2', architectures: [amd64], cri: [{name: containerd}]}]}]}",
        own,
        &[],
    );
}

#[test]
fn what_a_runtime_runs_besides_is_a_set() {
    let own = "{type: t, machineImages: [{name: i, versions: [{version: '1',
        cri: [{name: containerd, containerRuntimes: [{type: a}, {type: b}]}]}, {version: '2', cri: [{name: containerd}]}]}]}";
    check(
        own,
        "{parent: central, machineImages: [{name: i, versions: [{version: '1',
          cri: [{name: containerd, containerRuntimes: [{type: b}, {type: a}]}]},
          {version: '2', cri: [{name: containerd, containerRuntimes: []}]}]}]}",
        own,
        &[],
    );
    let fewer = "{parent: central, machineImages: [{name: i, versions: [{version: '1',
        cri: [{name: containerd, containerRuntimes: [{type: b}]}]}]}]}";
    check(
        own,
        fewer,
        own,
        &[
            "spec.machineImages[i].versions[1]: {\"cri\":[{\"containerRuntimes\":[{\"type\":\"a\"},{\"type\":\"b\"}],\"name\":\"containerd\"}]} | \
             {\"cri\":[{\"containerRuntimes\":[{\"type\":\"b\"}],\"name\":\"containerd\"}]}",
        ],
    );
}

#[test]
fn what_means_something_else_is_told_by_key_and_the_parents_holds() {
    let own = "{type: t, machineTypes: [{name: m, cpu: 4, memory: 8Gi}, {name: k, cpu: 4, memory: 8Gi, capabilities: {a: [b]}}],
                volumeTypes: [{name: v, class: c, usable: false}],
                machineImages: [{name: custom, updateStrategy: minor, versions: [{version: 5.0.0, classification: supported}]}]}";
    check(
        own,
        "{parent: central, machineTypes: [{name: k, cpu: 4, memory: 8Gi}, {name: m, cpu: 2, gpu: 1, memory: 8Gi}],
          volumeTypes: [{name: v, class: c}], machineImages: [{name: custom, updateStrategy: major,
          versions: [{version: 5.0.0, architectures: [arm64], classification: preview}]}]}",
        own,
        &[
            "spec.machineImages[custom]: {\"updateStrategy\":\"minor\"} | {\"updateStrategy\":\"major\"}",
            "spec.machineImages[custom].versions[5.0.0]: {\"architectures\":[\"amd64\"],\"classification\":\"supported\"} | \
             {\"architectures\":[\"arm64\"],\"classification\":\"preview\"}",
            "spec.machineTypes[k]: {\"capabilities\":{\"a\":[\"b\"]}} | {\"capabilities\":null}",
            "spec.machineTypes[m]: {\"cpu\":\"4\",\"gpu\":null} | {\"cpu\":\"2\",\"gpu\":\"1\"}",
            "spec.volumeTypes[v]: {\"usable\":false} | {\"usable\":true}",
        ],
    );
}

#[test]
fn a_zone_never_gets_what_the_parent_says_it_lacks() {
    let own = "{type: t, regions: [{name: r1, labels: {a: b}, accessRestrictions: [{name: eu}],
                zones: [{name: r1a, unavailableMachineTypes: [m, k]}]}]}";
    let region = |zones: &str| format!("{{parent: central, regions: [{{name: r1, zones: {zones}}}]}}");
    check(own, &region("[{name: r1a, unavailableMachineTypes: [k, m]}]"), own, &[]);
    check(
        own,
        &region("[{name: r1a}]"),
        own,
        &[
            "spec.regions[r1].zones[r1a]: {\"unavailableMachineTypes\":[\"k\",\"m\"]} | {\"unavailableMachineTypes\":[]}",
        ],
    );
    check(
        own,
        "{parent: central, regions: [{name: r1, labels: {a: c}, accessRestrictions: []}]}",
        own,
        &["spec.regions[r1]: {\"accessRestrictions\":[{\"name\":\"eu\"}],\"labels\":{\"a\":\"b\"}} | \
             {\"accessRestrictions\":[],\"labels\":{\"a\":\"c\"}}"],
    );
    let more = own.replace("[m, k]}]", "[m, k]}, {name: r1b, unavailableMachineTypes: [m]}]");
    check(own, &region("[{name: r1b, unavailableMachineTypes: [m]}]"), &more, &[]);
}

#[test]
fn of_two_limits_the_lower_one_holds() {
    for (own, private, expect) in [
        ("{maxNodesTotal: 10}", "{maxNodesTotal: 5}", "{maxNodesTotal: 5}"),
        ("{maxNodesTotal: 5}", "{maxNodesTotal: 10}", "{maxNodesTotal: 5}"),
        ("{maxNodesTotal: 5}", "{}", "{maxNodesTotal: 5}"),
        ("null", "{maxNodesTotal: 10}", "{maxNodesTotal: 10}"),
    ] {
        check(
            &format!("{{type: t, limits: {own}}}"),
            &format!("{{parent: central, limits: {private}}}"),
            &format!("{{type: t, limits: {expect}}}"),
            &[],
        );
    }
}

#[test]
fn of_limits_what_is_unknown_is_the_parents_whether_it_has_limits_or_not() {
    for (own, private, expect, conflicts) in [
        ("", "{more: 1}", "", &["spec.limits.more: null | 1"][..]),
        ("", "{maxNodesTotal: 5, more: 1}", ", limits: {maxNodesTotal: 5}", &["spec.limits.more: null | 1"]),
        (", limits: {}", "{more: 1}", ", limits: {}", &["spec.limits.more: null | 1"]),
        (", limits: {more: 1}", "{more: 1}", ", limits: {more: 1}", &[]),
        ("", "{}", "", &[]),
    ] {
        let private = format!("{{parent: central, limits: {private}}}");
        check(&format!("{{type: t{own}}}"), &private, &format!("{{type: t{expect}}}"), conflicts);
    }
}

#[test]
fn a_version_that_the_parent_lost_is_a_fault_and_not_rendered() {
    let own = parent("{type: t, kubernetes: {versions: [{version: 1.30.1}, {version: 1.30.3}, {version: 1.29.0}]}}");
    let lost = private("{parent: central, kubernetes: {versions: [{version: 1.30.2}, {version: 1.31.0}]}}");
    let rendered = render(&own, &lost);
    assert_eq!(shown(&rendered.spec), shown(own.spec()));
    let texts: Vec<String> = rendered.faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "spec.kubernetes.versions[1.30.2].version: Invalid value: \"1.30.2\": CloudProfile \"central\" has no such version; \
             of 1.30 it has 1.30.1, 1.30.3; only dates of versions it has can be extended",
            "spec.kubernetes.versions[1.31.0].version: Invalid value: \"1.31.0\": CloudProfile \"central\" has no version of 1.31; \
             only dates of versions it has can be extended",
        ]
    );
}

#[test]
fn a_parent_that_gains_what_a_private_profile_adds_makes_no_difference_to_the_result() {
    let without = "{type: t, machineTypes: [{name: a, cpu: 1, memory: 1Gi}]}";
    let with = "{type: t, machineTypes: [{name: a, cpu: 1, memory: 1Gi}, {name: m, cpu: 4, memory: 8Gi}]}";
    let added = "{parent: central, machineTypes: [{name: m, cpu: 4000m, memory: 8Gi}]}";
    let (before, after) = (render(&parent(without), &private(added)), render(&parent(with), &private(added)));
    assert_eq!((before.conflicts.len(), after.conflicts.len()), (0, 0));
    assert_eq!(before.spec, after.spec);
    check(
        with,
        "{parent: central, machineTypes: [{name: m, cpu: 1, memory: 8Gi}]}",
        with,
        &["spec.machineTypes[m]: {\"cpu\":\"4\"} | {\"cpu\":\"1\"}"],
    );
}

#[test]
fn a_change_of_a_parent_tells_what_it_takes_away_and_whom_it_breaks() {
    let before = parent(
        "{type: t, kubernetes: {versions: [{version: 1.31.0}, {version: 1.30.2, expirationDate: '2026-01-01T00:00:00Z'}]},
          machineImages: [{name: i, versions: [{version: '1'}, {version: '2'}]}]}",
    );
    let after = parent(
        "{type: t, kubernetes: {versions: [{version: 1.31.0}]}, machineImages: [{name: i, versions: [{version: '2'}]}]}",
    );
    let dropped: Vec<String> = dropped_versions(before.spec(), after.spec()).iter().map(ToString::to_string).collect();
    assert_eq!(dropped, ["spec.kubernetes.versions[1.30.2]", "spec.machineImages[i].versions[1]"]);
    let broken = |added: &str, now: &str| faults_of_change(&before, &after, &private(added), at(now)).len();
    let extends =
        "{parent: central, kubernetes: {versions: [{version: 1.30.2, expirationDate: '2027-01-01T00:00:00Z'}]}}";
    assert_eq!(broken(extends, "2026-06-01T00:00:00Z"), 1);
    assert_eq!(broken(extends, "2027-01-01T00:00:00Z"), 0, "it has expired by then, and goes by itself");
    // An image version that the parent drops is the private profile's own from then on.
    assert_eq!(
        broken("{parent: central, machineImages: [{name: i, versions: [{version: '1'}]}]}", "2026-06-01T00:00:00Z"),
        0
    );
    // It was broken before.
    assert_eq!(broken("{parent: central, kubernetes: {versions: [{version: 1.29.0}]}}", "2026-06-01T00:00:00Z"), 0);
}

#[test]
fn a_conflict_shows_the_beginning_of_what_is_long() {
    let long = "ä".repeat(10_000);
    let own = parent(&format!("{{type: t, more: '{long}'}}"));
    let conflicts = render(&own, &private(&format!("{{parent: central, more: 'x{long}'}}"))).conflicts;
    assert!(
        conflicts.iter().all(|one| one.parent_value.len() < 1_100 && one.child_value.ends_with('…')),
        "{conflicts:?}"
    );
    assert_eq!(conflicts.len(), 1);
}

#[test]
fn of_many_versions_that_the_parent_lacks_the_first_are_told_in_full() {
    let versions = |numbers: std::ops::Range<u32>| {
        numbers.map(|number| format!("{{version: 1.30.{number}}}")).collect::<Vec<_>>().join(", ")
    };
    let parent = parent(&format!("{{type: t, kubernetes: {{versions: [{}]}}}}", versions(0..400)));
    let private = private(&format!("{{parent: central, kubernetes: {{versions: [{}]}}}}", versions(1_000..1_300)));
    let faults = allotment_core::catalog::render(&parent, &private).faults;
    assert_eq!(faults.len(), 300);
    let (first, last) = (faults[0].to_string(), faults[299].to_string());
    assert!(
        first.contains("of 1.30 it has 1.30.0, ") && first.contains(", 1.30.19 and 380 more; only dates"),
        "{first}"
    );
    let path = "spec.kubernetes.versions[1.30.1299].version: Invalid value: \"1.30.1299\": ";
    assert_eq!(last, format!("{path}CloudProfile \"central\" has no such version"));
}
