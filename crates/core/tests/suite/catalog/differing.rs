//! In what two profiles differ: every kind of entry, by its key.

use allotment_core::catalog::{Change, Difference, diff, render};

use super::{cloud, parent, private};

/// A line for each difference, as `allot catalog diff` marks them.
fn lines(differences: &[Difference]) -> Vec<String> {
    let line = |one: &Difference| match &one.change {
        Change::Added { .. } => format!("+ {}", one.path),
        Change::Removed { .. } => format!("- {}", one.path),
        Change::Changed { before, after } => format!("~ {}: {before} -> {after}", one.path),
    };
    differences.iter().map(line).collect()
}

const CENTRAL: &str = "
type: aws
kubernetes: {versions: [{version: 1.30.1}, {version: 1.29.1, expirationDate: '2026-01-01T00:00:00Z'}]}
machineImages: [{name: suse, versions: [{version: '15.4', expirationDate: '2026-02-01T00:00:00Z'}]}]
machineTypes: [{name: m5.large, cpu: '4', memory: 8Gi}, {name: m5.huge, cpu: '64', memory: 1Ti}]
volumeTypes: [{name: gp3, class: standard}]
regions: [{name: eu, zones: [{name: a}]}]
limits: {maxNodesTotal: 100}
";

#[track_caller]
fn check(before: &str, after: &str, expect: &[&str]) {
    let (before, after) = (cloud(before), cloud(after));
    assert_eq!(lines(&diff(&before, &after)), expect);
    // The other way round the same is taken out.
    let signs: Vec<char> = lines(&diff(&after, &before)).iter().filter_map(|line| line.chars().next()).collect();
    let turned = |line: &&str| match line.chars().next() {
        Some('+') => '-',
        Some('-') => '+',
        _ => '~',
    };
    let mut turned: Vec<char> = expect.iter().map(turned).collect();
    let mut signs = signs;
    turned.sort_unstable();
    signs.sort_unstable();
    assert_eq!(signs, turned, "the other way round");
}

#[test]
fn what_a_private_profile_adds_and_extends_is_told_by_its_key() {
    let private = private(
        "
parent: central
kubernetes: {versions: [{version: 1.29.1, expirationDate: '2027-01-01T00:00:00Z'}]}
machineImages:
- {name: suse, versions: [{version: '15.4', expirationDate: '2027-02-01T00:00:00Z'}, {version: '16.4'}]}
- {name: own, versions: [{version: '1.0.0'}]}
machineTypes: [{name: m5.xlarge, cpu: '8', memory: 16Gi}, {name: m5.large, cpu: 4000m, memory: 8192Mi}]
volumeTypes: [{name: ab6, class: premium}]
regions: [{name: eu, zones: [{name: b}]}, {name: special, zones: [{name: s}]}]
limits: {maxNodesTotal: 10}
",
    );
    let central = parent(CENTRAL);
    let differences = diff(central.spec(), &render(&central, &private).spec);
    let expect = [
        r#"~ spec.kubernetes.versions[1.29.1].expirationDate: "2026-01-01T00:00:00Z" -> "2027-01-01T00:00:00Z""#,
        r#"~ spec.machineImages[suse].versions[15.4].expirationDate: "2026-02-01T00:00:00Z" -> "2027-02-01T00:00:00Z""#,
        "+ spec.machineImages[suse].versions[16.4]",
        "+ spec.machineImages[own]",
        "+ spec.machineTypes[m5.xlarge]",
        "+ spec.volumeTypes[ab6]",
        "+ spec.regions[eu].zones[b]",
        "+ spec.regions[special]",
        "~ spec.limits.maxNodesTotal: 100 -> 10",
    ];
    assert_eq!(lines(&differences), expect);
    let added = differences.iter().find(|one| one.path.ends_with("[m5.xlarge]")).expect("it is told");
    let told = serde_json::to_value(added).expect("JSON");
    let expect = serde_json::json!({"path": "spec.machineTypes[m5.xlarge]", "change": "added",
        "value": {"name": "m5.xlarge", "cpu": "8", "memory": "16Gi"}});
    assert_eq!(told, expect);
}

#[test]
fn every_field_of_a_profile_is_compared() {
    let with = |field: &str| format!("{CENTRAL}{field}\n");
    let replaced = |from: &str, to: &str| {
        assert!(CENTRAL.contains(from), "{from}");
        CENTRAL.replace(from, to)
    };
    for (after, expect) in [
        (CENTRAL.to_owned(), vec![]),
        (with("caBundle: x"), vec!["+ spec.caBundle"]),
        (with("seedSelector: {providerTypes: [aws]}"), vec!["+ spec.seedSelector"]),
        (with("providerConfig: {a: 1}"), vec!["+ spec.providerConfig"]),
        (with("bastion: {machineType: {name: m5.large}}"), vec!["+ spec.bastion"]),
        (with("else: 1"), vec!["+ spec.else"]),
        (replaced("type: aws", "type: gcp"), vec![r#"~ spec.type: "aws" -> "gcp""#]),
        (replaced("limits: {maxNodesTotal: 100}", ""), vec!["- spec.limits.maxNodesTotal"]),
        (replaced("maxNodesTotal: 100", "maxNodesTotal: 100, a: b"), vec!["+ spec.limits.a"]),
        (
            replaced("{version: 1.30.1}", "{version: 1.30.1, classification: preview, a: b}"),
            vec!["+ spec.kubernetes.versions[1.30.1].classification", "+ spec.kubernetes.versions[1.30.1].a"],
        ),
        (replaced("kubernetes: {", "kubernetes: {a: b, "), vec!["+ spec.kubernetes.a"]),
        (
            replaced("{name: suse, ", "{name: suse, updateStrategy: minor, a: b, "),
            vec!["+ spec.machineImages[suse].updateStrategy", "+ spec.machineImages[suse].a"],
        ),
        (
            replaced(
                "{version: '15.4', expirationDate: '2026-02-01T00:00:00Z'}",
                "{version: '15.4', classification: preview, cri: [{name: containerd}], architectures: [arm64], \
                 kubeletVersionConstraint: '< 1.30', a: b}",
            ),
            vec![
                "- spec.machineImages[suse].versions[15.4].expirationDate",
                "+ spec.machineImages[suse].versions[15.4].classification",
                "+ spec.machineImages[suse].versions[15.4].cri",
                "+ spec.machineImages[suse].versions[15.4].architectures",
                "+ spec.machineImages[suse].versions[15.4].kubeletVersionConstraint",
                "+ spec.machineImages[suse].versions[15.4].a",
            ],
        ),
        (
            replaced(
                "{name: m5.large, cpu: '4', memory: 8Gi}",
                "{name: m5.large, cpu: '8', memory: 8192Mi, gpu: 1, usable: false, architecture: arm64, \
                 storage: {class: a, type: b}, a: b}",
            ),
            vec![
                r#"~ spec.machineTypes[m5.large].cpu: "4" -> "8""#,
                "+ spec.machineTypes[m5.large].gpu",
                "+ spec.machineTypes[m5.large].usable",
                "+ spec.machineTypes[m5.large].architecture",
                "+ spec.machineTypes[m5.large].storage",
                "+ spec.machineTypes[m5.large].a",
            ],
        ),
        (replaced("memory: 8Gi", "memory: 9Gi"), vec![r#"~ spec.machineTypes[m5.large].memory: "8Gi" -> "9Gi""#]),
        (
            replaced("class: standard", "class: premium, usable: false, minSize: 1Gi, a: b"),
            vec![
                r#"~ spec.volumeTypes[gp3].class: "standard" -> "premium""#,
                "+ spec.volumeTypes[gp3].usable",
                "+ spec.volumeTypes[gp3].minSize",
                "+ spec.volumeTypes[gp3].a",
            ],
        ),
        (
            replaced("{name: eu, ", "{name: eu, labels: {a: b}, accessRestrictions: [{name: x}], a: b, "),
            vec!["+ spec.regions[eu].labels", "+ spec.regions[eu].accessRestrictions", "+ spec.regions[eu].a"],
        ),
        (
            replaced("{name: a}", "{name: a, unavailableMachineTypes: [x], unavailableVolumeTypes: [z], a: b}"),
            vec![
                "+ spec.regions[eu].zones[a].unavailableMachineTypes",
                "+ spec.regions[eu].zones[a].unavailableVolumeTypes",
                "+ spec.regions[eu].zones[a].a",
            ],
        ),
        // Entries are told apart by their keys and not by their places.
        (
            replaced("{name: m5.large, cpu: '4', memory: 8Gi}, ", "{name: new, cpu: '4', memory: 8Gi}, "),
            vec!["- spec.machineTypes[m5.large]", "+ spec.machineTypes[new]"],
        ),
        (
            replaced(
                "[{name: m5.large, cpu: '4', memory: 8Gi}, {name: m5.huge, cpu: '64', memory: 1Ti}]",
                "[{name: m5.huge, cpu: '64', memory: 1Ti}, {name: m5.large, cpu: '4', memory: 8Gi}]",
            ),
            vec![],
        ),
    ] {
        check(CENTRAL, &after, &expect);
    }
}
