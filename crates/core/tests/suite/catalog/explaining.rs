//! How each thing stands that a Shoot uses, and what it could change to.

use allotment_core::catalog::{
    Candidate, Offered, Reference, Used, Verdict, candidates, check_usage, explain_usage, reference, render,
};
use allotment_core::write::ObjectKey;

use super::expiring::catalog;
use super::{at, shoot};

const NOW: &str = "2026-06-01T00:00:00Z";

const CATALOG: &str = "
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata: {name: central}
spec:
  type: aws
  kubernetes: {versions: [
    {version: 1.28.6, expirationDate: '2026-05-01T00:00:00Z'}, {version: 1.29.1, expirationDate: '2026-06-20T00:00:00Z'},
    {version: 1.30.2, expirationDate: '2027-01-01T00:00:00Z'}, {version: 1.30.5}]}
  machineImages: [{name: suse, versions: [{version: '15.4', expirationDate: '2026-05-10T00:00:00Z'}, {version: '16.0', architectures: [arm64]}]}]
  machineTypes: [{name: m, cpu: '1', memory: 1Gi}, {name: old, cpu: '1', memory: 1Gi, usable: false}]
  volumeTypes: [{name: gp3, class: standard}, {name: gp2, class: standard, usable: false}]
  regions: [{name: eu, zones: [{name: a}, {name: b, unavailableMachineTypes: [m]}]}]
---
apiVersion: core.gardener.cloud/v1beta1
kind: PrivateCloudProfile
metadata: {name: longer, namespace: team}
spec:
  parent: central
  kubernetes: {versions: [{version: 1.28.6, expirationDate: '2026-08-01T00:00:00Z'}]}
  machineTypes: [{name: own, cpu: '8', memory: 16Gi}]
---
apiVersion: core.gardener.cloud/v1beta1
kind: PrivateCloudProfile
metadata: {name: going, namespace: team, deletionTimestamp: '2026-05-31T00:00:00Z', finalizers: [x]}
spec: {parent: central}
---
apiVersion: core.gardener.cloud/v1beta1
kind: PrivateCloudProfile
metadata: {name: elsewhere, namespace: other}
spec: {parent: central}
";

/// What is said of a Shoot of namespace `team`.
fn explained(text: &str) -> (Vec<Used>, Vec<Candidate>) {
    let (catalog, shoot) = (catalog(CATALOG), shoot(text));
    let name = reference(&shoot, None).expect("a profile");
    let parent = &catalog.profile("central").expect("it is there").parent;
    let private = catalog.private(&ObjectKey::new("team", name.name.clone()));
    let rendered = private.map(|private| render(parent, &private.spec).spec);
    let rendered = rendered.as_ref().unwrap_or(parent.spec());
    let offered = Offered { name: &name, parent, private: private.map(|private| &private.spec), rendered };
    let used = explain_usage(&shoot, &offered, at(NOW));
    // It is what admission says of a new Shoot, all of it and nothing else.
    let refused: usize = used.iter().map(|used| used.why.len()).sum();
    assert_eq!(refused, check_usage(&shoot, None, rendered, &name, at(NOW)).len(), "{used:#?}");
    assert!(used.iter().all(|used| used.why.is_empty() == (used.verdict == Verdict::Ok)));
    let found = candidates(&catalog, "team", &shoot, &name, at(NOW));
    (used, found)
}

#[track_caller]
fn check(shoot: &str, expect: &[(&str, &str, Verdict)]) {
    let (used, _) = explained(shoot);
    let found: Vec<_> = used.iter().map(|used| (used.path.as_str(), used.value.as_str(), used.verdict)).collect();
    assert_eq!(found, expect);
}

#[test]
fn everything_that_a_shoot_uses_has_its_verdict() {
    use Verdict::{Expired, Mismatch, Ok, Unavailable, Unknown, Unusable};
    check("{cloudProfileName: central}", &[]);
    check(
        "
cloudProfileName: central
kubernetes: {version: 1.28.6}
region: eu
provider: {type: aws, workers: [{name: w, machine: {type: m}, volume: {type: gp3}, zones: [a, b, c]}]}
",
        &[
            ("spec.provider.type", "aws", Ok),
            ("spec.kubernetes.version", "1.28.6", Expired),
            ("spec.region", "eu", Ok),
            ("spec.provider.workers[w].machine.type", "m", Ok),
            ("spec.provider.workers[w].volume.type", "gp3", Ok),
            ("spec.provider.workers[w].zones[0]", "a", Ok),
            ("spec.provider.workers[w].zones[1]", "b", Unavailable),
            ("spec.provider.workers[w].zones[2]", "c", Unknown),
        ],
    );
    check(
        "{cloudProfileName: central, kubernetes: {version: '1.28'}}",
        &[("spec.kubernetes.version", "1.28", Expired)],
    );
    check(
        "{cloudProfileName: central, kubernetes: {version: '1.99'}}",
        &[("spec.kubernetes.version", "1.99", Unknown)],
    );
    check(
        "
cloudProfileName: central
kubernetes: {version: 1.99.0}
region: us
provider:
  type: gcp
  workers:
  - {name: w, machine: {type: old, image: {name: suse, version: '15.4'}}, volume: {type: gp2}, dataVolumes: [{type: none}], zones: [a]}
  - {name: x, kubernetes: {version: 1.29.1}, machine: {type: none, image: {name: suse, version: '16.0'}}}
  - {name: v, machine: {type: m, architecture: arm64, image: {name: flat}}}
  - {name: z, machine: {type: '', image: {name: suse, version: '17.0'}}}
",
        &[
            ("spec.provider.type", "gcp", Mismatch),
            ("spec.kubernetes.version", "1.99.0", Unknown),
            ("spec.region", "us", Unknown),
            ("spec.provider.workers[w].machine.type", "old", Unusable),
            ("spec.provider.workers[w].machine.image", "suse 15.4", Expired),
            ("spec.provider.workers[w].volume.type", "gp2", Unusable),
            ("spec.provider.workers[w].dataVolumes[0].type", "none", Unknown),
            ("spec.provider.workers[x].kubernetes.version", "1.29.1", Ok),
            ("spec.provider.workers[x].machine.type", "none", Unknown),
            ("spec.provider.workers[x].machine.image", "suse 16.0", Mismatch),
            ("spec.provider.workers[v].machine.type", "m", Mismatch),
            ("spec.provider.workers[v].machine.image", "flat", Unknown),
            ("spec.provider.workers[z].machine.type", "", Unknown),
            ("spec.provider.workers[z].machine.image", "suse 17.0", Unknown),
        ],
    );
}

#[test]
fn versions_are_told_with_the_dates_of_both_profiles() {
    let dates = |text: &str| {
        let dates = explained(text).0.into_iter().find_map(|used| used.dates);
        let dates = dates.map(|dates| [dates.parent, dates.private, dates.holds]);
        dates.map(|dates| dates.map(|date| date.map_or_else(|| "-".to_owned(), |date| date.text()[..10].to_owned())))
    };
    let own = "cloudProfile: {kind: PrivateCloudProfile, name: longer}";
    for (text, expect) in [
        (format!("{{{own}, kubernetes: {{version: 1.28.6}}}}"), Some(["2026-05-01", "2026-08-01", "2026-08-01"])),
        (format!("{{{own}, kubernetes: {{version: 1.29.1}}}}"), Some(["2026-06-20", "-", "2026-06-20"])),
        (
            "{cloudProfileName: central, kubernetes: {version: 1.28.6}}".to_owned(),
            Some(["2026-05-01", "-", "2026-05-01"]),
        ),
        ("{cloudProfileName: central, kubernetes: {version: 1.30.5}}".to_owned(), Some(["-", "-", "-"])),
        // Of a family the version that lasts longest counts.
        ("{cloudProfileName: central, kubernetes: {version: '1.29'}}".to_owned(), Some(["-", "-", "2026-06-20"])),
        ("{cloudProfileName: central, kubernetes: {version: '1.30'}}".to_owned(), Some(["-", "-", "-"])),
        ("{cloudProfileName: central, kubernetes: {version: 1.99.0}}".to_owned(), None),
        // No version of the profile, and no beginning of one.
        ("{cloudProfileName: central, kubernetes: {version: v1.30.2}}".to_owned(), None),
        ("{cloudProfileName: central, kubernetes: {version: 1.29.1+x}}".to_owned(), None),
    ] {
        assert_eq!(dates(&text), expect.map(|dates| dates.map(str::to_owned)), "{text}");
    }
}

#[test]
fn what_a_shoot_could_change_to_is_of_its_root_and_its_namespace() {
    let shown = |text: &str| {
        let line = |one: Candidate| (one.name, one.allowed, one.lacks.join("; "), one.refused.len());
        explained(text).1.into_iter().map(line).collect::<Vec<_>>()
    };
    let going =
        |refused| ("going".to_owned(), false, format!("{} is being deleted", Reference::private("going")), refused);
    assert_eq!(
        shown("{cloudProfileName: central, kubernetes: {version: 1.28.6}}"),
        [going(1), ("longer".to_owned(), true, String::new(), 0)]
    );
    let on_own = "
cloudProfile: {kind: PrivateCloudProfile, name: longer}
kubernetes: {version: 1.28.6}
provider: {type: aws, workers: [{name: w, machine: {type: own}}]}
";
    let found = shown(on_own);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[0].0.as_str(), found[0].1, found[0].3), ("central", false, 2), "{found:?}");
    assert!(found[0].2.starts_with("spec.provider.workers[w].machine.type: "), "{found:?}");
    assert!(!found[1].1 && found[1].2.contains("being deleted"), "{found:?}");
    assert_eq!(shown("{cloudProfileName: nowhere, kubernetes: {version: 1.28.6}}"), []);
}

#[test]
fn nothing_leads_to_a_profile_whose_cloud_profile_goes() {
    let going = CATALOG.replacen(
        "metadata: {name: central}",
        "metadata: {name: central, deletionTimestamp: '2026-05-31T00:00:00Z'}",
        1,
    );
    let catalog = catalog(&going);
    let shoot = shoot("{cloudProfile: {kind: PrivateCloudProfile, name: going}, kubernetes: {version: 1.30.2}}");
    let name = reference(&shoot, None).expect("a profile");
    let found = candidates(&catalog, "team", &shoot, &name, at(NOW));
    let told: Vec<(bool, &str)> = found.iter().map(|one| (one.allowed, one.lacks[0].as_str())).collect();
    let parent = "CloudProfile \"central\", which PrivateCloudProfile \"longer\" is made from, is being deleted";
    assert_eq!(told, [(false, "CloudProfile \"central\" is being deleted"), (false, parent)]);
}
