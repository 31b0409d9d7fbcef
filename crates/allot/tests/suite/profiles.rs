//! CloudProfiles and PrivateCloudProfiles in a landscape: what is rendered follows the parent, what expired goes, a deletion
//! waits for those who use the profile.

use std::time::{Duration, SystemTime};

use allotment_api::catalog::{
    ACCEPT_CHILD_ERRORS, CloudProfile, CloudProfileSpec, Date, FINALIZER, PrivateCloudProfile,
    PrivateCloudProfileStatus, REMOVE_EXPIRED_VERSIONS, Shoot,
};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::harness::{Folder, Up, client, create, make_namespace, until, until_gone};

/// A date so many seconds ahead.
fn ahead(seconds: u64) -> String {
    let since =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970") + Duration::from_secs(seconds);
    let at = Timestamp::from_second(i64::try_from(since.as_secs()).expect("small")).expect("a time");
    Date::of(at).text().to_owned()
}

fn central(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "local",
        "kubernetes": {"versions": [{"version": "1.30.1"}, {"version": "1.29.1"}]},
        "machineImages": [{"name": "linux", "versions": [{"version": "1.0.0", "cri": [{"name": "containerd"}], "architectures": ["amd64"]}]}],
        "machineTypes": [{"name": "small", "cpu": "2", "gpu": "0", "memory": "8Gi"}],
        "volumeTypes": [{"name": "disk", "class": "standard"}], "regions": [{"name": "r1", "zones": [{"name": "a"}]}],
        "providerConfig": {"kind": "Anything"}}})
}

fn shoot(name: &str, kind: &str, profile: &str, image: &str, version: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"cloudProfile": {"kind": kind, "name": profile}, "region": "r1",
        "kubernetes": {"version": "1.30.1"}, "provider": {"type": "local", "workers": [{"name": "w",
            "machine": {"type": "small", "image": {"name": image, "version": version}}, "volume": {"type": "disk", "size": "20Gi"},
            "minimum": 1, "maximum": 1, "zones": ["a"]}]}}})
}

struct Landscape {
    admin: Client,
    profiles: Api<CloudProfile>,
    _up: Up,
    _folder: Folder,
}

impl Landscape {
    async fn start() -> Self {
        let folder = Folder::new();
        let up = Up::start(&folder).await;
        let admin = client(&folder.kubeconfig()).await;
        let profiles = Api::all(admin.clone());
        create(&profiles, central("central")).await;
        make_namespace(&admin, "one").await;
        make_namespace(&admin, "two").await;
        Landscape { admin, profiles, _up: up, _folder: folder }
    }

    fn private(&self, namespace: &str) -> Api<PrivateCloudProfile> {
        Api::namespaced(self.admin.clone(), namespace)
    }

    fn shoots(&self, namespace: &str) -> Api<Shoot> {
        Api::namespaced(self.admin.clone(), namespace)
    }

    async fn change_parent(&self, patch: Value) {
        self.profiles.patch("central", &PatchParams::default(), &Patch::Merge(patch)).await.expect("it is accepted");
    }

    async fn until_event(&self, namespace: &str, reason: &str) -> Event {
        let events = Api::<Event>::namespaced(self.admin.clone(), namespace);
        let found = async {
            loop {
                let params = ListParams::default().fields(&format!("reason={reason}"));
                let there = events.list(&params).await.expect("an admin may list").items;
                if let Some(event) = there.into_iter().next() {
                    break event;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(crate::harness::LIMIT, found).await.expect("the event comes")
    }
}

fn added(name: &str, machine: &str) -> Value {
    let machine = json!({"name": machine, "cpu": "4", "gpu": "0", "memory": "16Gi"});
    json!({"metadata": {"name": name}, "spec": {"parent": "central", "machineTypes": [machine]}})
}

fn status(profile: &PrivateCloudProfile) -> PrivateCloudProfileStatus {
    profile.status.clone().unwrap_or_default()
}

fn rendered(profile: &PrivateCloudProfile) -> CloudProfileSpec {
    status(profile).cloud_profile.map(|rendered| rendered.spec).unwrap_or_default()
}

fn machine_types(profile: &PrivateCloudProfile) -> Vec<String> {
    rendered(profile).machine_types.iter().map(|entry| entry.name.clone()).collect()
}

fn says(conditions: &[Condition], kind: &str, reason: &str, message: &str) -> bool {
    conditions.iter().any(|one| one.type_ == kind && one.reason == reason && one.message.contains(message))
}

fn conditions(profile: &CloudProfile) -> Vec<Condition> {
    profile.status.clone().unwrap_or_default().conditions
}

#[tokio::test]
async fn what_is_rendered_follows_the_parent_and_a_wiped_status_comes_back() {
    let landscape = Landscape::start().await;
    let private = landscape.private("one");
    create(&private, added("own", "big")).await;
    let profile = until(&private, "own", |profile| machine_types(profile) == ["small", "big"]).await;
    assert_eq!(profile.finalizers(), [FINALIZER]);
    assert_eq!(status(&profile).observed_generation, profile.metadata.generation);

    let entry = |name: &str| json!({"name": name, "cpu": "2", "gpu": "0", "memory": "8Gi"});
    landscape.change_parent(json!({"spec": {"machineTypes": [entry("small"), entry("big")]}})).await;
    let profile = until(&private, "own", |profile| status(profile).conflicts.len() == 1).await;
    assert_eq!(status(&profile).conflicts[0].path, "spec.machineTypes[big]");
    assert_eq!(json!(rendered(&profile).machine_types[1].cpu), json!("2"), "the parent's holds");

    let wipe = Patch::Merge(json!({"status": null}));
    private.patch_status("own", &PatchParams::default(), &wipe).await.expect("an admin may");
    let again = until(&private, "own", |profile| !machine_types(profile).is_empty()).await;
    assert_eq!(rendered(&again), rendered(&profile));

    until(&landscape.profiles, "central", |profile| {
        says(&conditions(profile), "InUse", "InUse", "1 private profiles, 0 Shoots")
    })
    .await;
}

#[tokio::test]
async fn of_two_profiles_of_one_name_the_unused_one_goes_and_the_used_one_waits_for_its_last_shoot() {
    let landscape = Landscape::start().await;
    for namespace in ["one", "two"] {
        create(&landscape.private(namespace), added("own", "big")).await;
        until(&landscape.private(namespace), "own", |profile| !machine_types(profile).is_empty()).await;
    }
    create(&landscape.shoots("one"), shoot("s", "PrivateCloudProfile", "own", "linux", "1.0.0")).await;
    for namespace in ["one", "two"] {
        landscape.private(namespace).delete("own", &DeleteParams::default()).await.expect("it can be deleted");
    }
    until_gone(&landscape.private("two"), "own").await;
    until(&landscape.private("one"), "own", |profile| {
        says(&status(profile).conditions, "InUse", "DeletionBlocked", "Shoots s")
    })
    .await;
    let event = landscape.until_event("one", "DeletionBlocked").await;
    assert_eq!(event.involved_object.name.as_deref(), Some("own"));

    landscape.profiles.delete("central", &DeleteParams::default()).await.expect("it can be deleted");
    until(&landscape.profiles, "central", |profile| {
        says(&conditions(profile), "InUse", "DeletionBlocked", "1 private profiles, 1 Shoots; it goes once")
    })
    .await;
    landscape.shoots("one").delete("s", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&landscape.private("one"), "own").await;
    until_gone(&landscape.profiles, "central").await;
}

#[tokio::test]
async fn a_version_goes_at_its_date_unless_a_shoot_uses_it() {
    let landscape = Landscape::start().await;
    let private = landscape.private("one");
    let soon = ahead(4);
    let image = json!({"name": "own", "versions": [
        {"version": "1.0.0", "expirationDate": soon, "cri": [{"name": "containerd"}], "architectures": ["amd64"]},
        {"version": "2.0.0", "expirationDate": soon, "cri": [{"name": "containerd"}], "architectures": ["amd64"]}]});
    let spec = json!({"parent": "central", "machineImages": [image]});
    create(&private, json!({"metadata": {"name": "own"}, "spec": spec})).await;
    create(&landscape.shoots("one"), shoot("s", "PrivateCloudProfile", "own", "own", "1.0.0")).await;

    let profile = until(&private, "own", |profile| {
        status(profile).removed.len() == 1 && status(profile).expired_in_use.len() == 1
    })
    .await;
    let said = status(&profile);
    assert_eq!(said.removed[0].path, "spec.machineImages[own].versions[2.0.0]");
    assert_eq!(said.expired_in_use[0].path, "spec.machineImages[own].versions[1.0.0]");
    assert_eq!(said.expired_in_use[0].shoots, ["s"]);
    assert_eq!(rendered(&profile).machine_images[1].versions.len(), 1, "what is used stays");
    let event = landscape.until_event("one", "VersionsRemoved").await;
    assert!(event.message.unwrap_or_default().contains("spec.machineImages[own].versions[2.0.0]"));

    landscape.shoots("one").delete("s", &DeleteParams::default()).await.expect("it can be deleted");
    let profile = until(&private, "own", |profile| status(profile).removed.len() == 2).await;
    assert!(profile.spec.machine_images.is_empty(), "an image that is left without versions goes whole");
    let profile = until(&private, "own", |profile| rendered(profile).machine_images.len() == 1).await;
    assert!(status(&profile).expired_in_use.is_empty());
}

#[tokio::test]
async fn of_a_cloud_profile_versions_go_where_its_operator_lets_them() {
    let landscape = Landscape::start().await;
    create(&landscape.private("one"), added("own", "big")).await;
    let versions = json!([{"version": "1.30.1"}, {"version": "1.29.1", "expirationDate": ahead(2)}]);
    landscape.change_parent(json!({"spec": {"kubernetes": {"versions": versions}}})).await;
    let kubernetes = |spec: &CloudProfileSpec| {
        let versions = spec.kubernetes.iter().flat_map(|kubernetes| kubernetes.versions.iter());
        versions.map(|entry| entry.version.clone()).collect::<Vec<_>>()
    };
    tokio::time::sleep(Duration::from_secs(3)).await;
    let there = landscape.profiles.get("central").await.expect("it is there");
    assert_eq!(kubernetes(&there.spec), ["1.30.1", "1.29.1"], "nothing goes unasked");

    landscape.change_parent(json!({"metadata": {"annotations": {REMOVE_EXPIRED_VERSIONS: "true"}}})).await;
    until(&landscape.profiles, "central", |profile| kubernetes(&profile.spec) == ["1.30.1"]).await;
    let event = landscape.until_event("default", "VersionsRemoved").await;
    assert!(event.message.unwrap_or_default().contains("providerConfig"));
    until(&landscape.private("one"), "own", |profile| kubernetes(&rendered(profile)) == ["1.30.1"]).await;
}

#[tokio::test]
async fn a_parent_that_breaks_its_private_profiles_with_consent_is_told_how_many() {
    let landscape = Landscape::start().await;
    let versions = json!([{"version": "1.30.1"}, {"version": "1.29.1", "expirationDate": ahead(3600)}]);
    landscape.change_parent(json!({"spec": {"kubernetes": {"versions": versions}}})).await;
    let private = landscape.private("one");
    let extended = json!({"versions": [{"version": "1.29.1", "expirationDate": ahead(7200)}]});
    let spec = json!({"parent": "central", "kubernetes": extended});
    create(&private, json!({"metadata": {"name": "own"}, "spec": spec})).await;
    until(&private, "own", |profile| says(&status(profile).conditions, "Rendered", "AllGood", "")).await;

    let versions = json!([{"version": "1.30.1"}]);
    let annotations = json!({ACCEPT_CHILD_ERRORS: "true"});
    landscape
        .change_parent(
            json!({"metadata": {"annotations": annotations}, "spec": {"kubernetes": {"versions": versions}}}),
        )
        .await;
    until(&private, "own", |profile| says(&status(profile).conditions, "Rendered", "Invalid", "1.29.1")).await;
    until(&landscape.profiles, "central", |profile| {
        let said = conditions(profile);
        says(&said, "ChildrenValid", "Invalid", "1 of 1 private profile is invalid")
            && !json!(said).to_string().contains("own")
    })
    .await;
}
