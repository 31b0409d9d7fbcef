//! What expires soon, in which profiles, and who uses it.

use std::sync::Arc;

use allotment_api::catalog::{CloudProfile, KeptProfile, Shoot};
use allotment_core::catalog::{Catalog, Expiring, KeptShoot, Offer, expiring, used_versions};
use allotment_core::write::ObjectKey;
use allotment_machinery::yaml;
use serde::de::DeserializeOwned;

use super::at;

const NOW: &str = "2026-06-01T00:00:00Z";
const MONTH: &str = "2026-07-01T00:00:00Z";

fn read<T: DeserializeOwned>(value: &allotment_machinery::json::Value) -> T {
    serde_json::from_slice(&value.to_vec()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

pub(super) fn catalog(text: &str) -> Catalog {
    let mut catalog = Catalog::default();
    for document in yaml::parse_stream(text).expect("YAML") {
        let value = document.value;
        match value.at(&["kind"]).and_then(|kind| kind.as_str()) {
            Some("CloudProfile") => {
                let profile: CloudProfile = read(&value);
                catalog
                    .set_profile(&profile.metadata.name.clone().expect("a name"), Some(Arc::new(Offer::new(profile))));
            }
            Some("PrivateCloudProfile") => {
                let profile: KeptProfile = read(&value);
                catalog.set_private(&ObjectKey::of(&profile.metadata), Some(Arc::new(profile)));
            }
            Some("Shoot") => {
                let shoot: Shoot = read(&value);
                catalog.set_shoot(&ObjectKey::of(&shoot.metadata), Some(Arc::new(KeptShoot::read(&shoot))));
            }
            other => panic!("{other:?}"),
        }
    }
    catalog
}

const CATALOG: &str = "
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata: {name: central}
spec:
  type: aws
  kubernetes: {versions: [
    {version: 1.28.6, expirationDate: '2026-05-01T00:00:00Z'}, {version: 1.29.1, expirationDate: '2026-06-20T00:00:00Z'},
    {version: 1.30.2, expirationDate: '2027-01-01T00:00:00Z'}, {version: 1.31.0}]}
  machineImages: [{name: suse, versions: [{version: '15.4', expirationDate: '2026-06-10T00:00:00Z'}, {version: '16.0'}]}]
---
apiVersion: core.gardener.cloud/v1beta1
kind: PrivateCloudProfile
metadata: {name: longer, namespace: team}
spec:
  parent: central
  kubernetes: {versions: [{version: 1.28.6, expirationDate: '2026-06-25T00:00:00Z'}, {version: 1.29.1, expirationDate: '2026-06-10T00:00:00Z'}, {version: 1.27.9, expirationDate: '2026-06-12T00:00:00Z'}]}
  machineImages: [{name: own, versions: [{version: '1.0', expirationDate: '2026-05-15T00:00:00Z'}]}]
---
apiVersion: core.gardener.cloud/v1beta1
kind: PrivateCloudProfile
metadata: {name: plain, namespace: team}
spec: {parent: central}
---
apiVersion: core.gardener.cloud/v1beta1
kind: PrivateCloudProfile
metadata: {name: plain, namespace: other}
spec: {parent: central}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: everybodys, namespace: team}
spec: {cloudProfileName: central, kubernetes: {version: 1.28.6}}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: going, namespace: team, deletionTimestamp: '2026-05-31T00:00:00Z'}
spec: {cloudProfileName: central, kubernetes: {version: 1.28.6}}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: extended, namespace: team}
spec:
  cloudProfile: {kind: PrivateCloudProfile, name: longer}
  kubernetes: {version: 1.28.6}
  provider: {workers: [{name: w, machine: {type: m, image: {name: own, version: '1.0'}}}]}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: inheriting, namespace: team}
spec:
  cloudProfile: {kind: PrivateCloudProfile, name: plain}
  kubernetes: {version: 1.31.0}
  provider: {workers: [
    {name: w, kubernetes: {version: 1.29.1}, machine: {type: m, image: {name: suse, version: '15.4'}}}]}
";

fn lines(rows: &[Expiring]) -> Vec<String> {
    let line = |row: &Expiring| {
        let place = |name: &allotment_core::catalog::ProfileName| format!("{}/{}", name.namespace, name.name);
        let profiles: Vec<String> = row.profiles.iter().map(place).collect();
        let image = row.image.as_deref().unwrap_or("kubernetes");
        let date = row.expires.as_ref().map_or("never", |date| &date.text()[..10]);
        let passed = if row.expired { " passed" } else { "" };
        format!("{image} {} {date}{passed} [{}] [{}]", row.version, profiles.join(" "), row.shoots.join(" "))
    };
    rows.iter().map(line).collect()
}

#[test]
fn each_date_of_a_version_is_told_with_its_profiles_and_its_users() {
    let catalog = catalog(CATALOG);
    let parent = &catalog.profile("central").expect("it is there").parent;
    let rows = expiring(&catalog, parent, at(NOW), at(MONTH));
    assert_eq!(
        lines(&rows),
        [
            "kubernetes 1.28.6 2026-05-01 passed [/central] [team/everybodys]",
            "own 1.0 2026-05-15 passed [team/longer] [team/extended]",
            "suse 15.4 2026-06-10 [/central team/plain] [team/inheriting]",
            // The parent has dropped it: then the private profile's own date holds, by which the platform takes it out.
            "kubernetes 1.27.9 2026-06-12 [team/longer] []",
            // The private profile's own date is the earlier one, and does not hold.
            "kubernetes 1.29.1 2026-06-20 [/central team/longer team/plain] [team/inheriting]",
            "kubernetes 1.28.6 2026-06-25 [team/longer] [team/extended]",
        ]
    );
    assert_eq!(rows[0].path, "spec.kubernetes.versions[1.28.6]");
    let expect = serde_json::json!({"cloudProfile": "central", "image": "own", "version": "1.0",
        "path": "spec.machineImages[own].versions[1.0]", "expires": "2026-05-15T00:00:00Z", "expired": true,
        "profiles": [{"kind": "PrivateCloudProfile", "namespace": "team", "name": "longer"}],
        "shoots": ["team/extended"]});
    assert_eq!(serde_json::to_value(&rows[1]).expect("JSON"), expect);

    let passed = expiring(&catalog, parent, at(NOW), at(NOW));
    assert_eq!(passed.len(), 2, "{:?}", lines(&passed));
    assert_eq!(
        expiring(&catalog, parent, at("2026-05-01T00:00:00Z"), at("2026-05-01T00:00:00Z")).len(),
        1,
        "to the second"
    );
    assert_eq!(expiring(&catalog, parent, at("2026-04-01T00:00:00Z"), at("2026-04-30T23:59:59Z")), []);
    assert_eq!(
        lines(&used_versions(&catalog, parent, at(NOW))),
        [
            "kubernetes 1.28.6 2026-05-01 passed [/central] [team/everybodys]",
            "own 1.0 2026-05-15 passed [team/longer] [team/extended]",
            "suse 15.4 2026-06-10 [/central team/plain] [team/inheriting]",
            "kubernetes 1.29.1 2026-06-20 [/central team/longer team/plain] [team/inheriting]",
            "kubernetes 1.28.6 2026-06-25 [team/longer] [team/extended]",
            "kubernetes 1.31.0 never [/central team/plain] [team/inheriting]",
        ]
    );
    let all = expiring(&catalog, parent, at(NOW), at("2030-01-01T00:00:00Z"));
    assert!(all.iter().all(|row| row.version != "1.31.0" && row.version != "16.0"), "what has no date never expires");
}

#[test]
fn whoever_leaves_a_version_open_uses_the_one_that_lasts_longest() {
    let shoot = |name: &str, on: &str, kubernetes: &str, image: &str| {
        let kind = if on == "central" { "CloudProfile" } else { "PrivateCloudProfile" };
        format!(
            "
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {{name: {name}, namespace: team}}
spec:
  cloudProfile: {{kind: {kind}, name: {on}}}
  kubernetes: {{version: '{kubernetes}'}}
  provider: {{workers: [{{name: w, kubernetes: {{version: '{kubernetes}'}}, machine: {{type: m, image: {{name: {image}}}}}}}]}}
"
        )
    };
    let check = |added: &str, shoots: &[String], expect: &[&str]| {
        let catalog = catalog(&[CATALOG, added, &shoots.concat()].concat());
        let parent = &catalog.profile("central").expect("it is there").parent;
        let mut rows = lines(&used_versions(&catalog, parent, at(NOW)));
        rows.retain(|row| row.contains("team/open"));
        assert_eq!(rows, expect);
    };
    // On either kind the rows are those of the versions, be they the parent's or a private profile's own.
    check(
        "",
        &[shoot("open", "central", "1.30", "suse"), shoot("open-too", "plain", "1.31", "suse")],
        &[
            "kubernetes 1.30.2 2027-01-01 [/central] [team/open]",
            "kubernetes 1.31.0 never [/central team/plain] [team/inheriting team/open-too]",
            "suse 16.0 never [/central team/plain] [team/open team/open-too]",
        ],
    );
    check(
        "",
        &[shoot("open", "longer", "1.28", "own")],
        &[
            "own 1.0 2026-05-15 passed [team/longer] [team/extended team/open]",
            "kubernetes 1.28.6 2026-06-25 [team/longer] [team/extended team/open]",
        ],
    );
    // What the profile has not, or not any more, has no date, and is not told to last for ever.
    let gone = [shoot("open", "longer", "1.27", "none"), shoot("open-too", "plain", "1.27.9", "none")];
    check("", &gone, &[]);
    // Of several that last as long it is the highest.
    let many = "
---
apiVersion: core.gardener.cloud/v1beta1
kind: PrivateCloudProfile
metadata: {name: many, namespace: team}
spec:
  parent: central
  machineImages: [{name: many, versions: [{version: '9.0'}, {version: '10.0'}, {version: '11.0', expirationDate: '2026-07-01T00:00:00Z'}]}]
";
    check(many, &[shoot("open", "many", "", "many")], &["many 10.0 never [team/many] [team/open]"]);
}
