//! Server-side apply of profiles: whoever applied a manifest may apply it again, whatever the platform took out of the object
//! meanwhile. On every backend alike.

use std::time::{Duration, SystemTime};

use allotment_api::catalog::{
    CloudProfile, Date, Kubernetes, MachineImage, PrivateCloudProfile, REMOVE_EXPIRED_VERSIONS, Shared,
};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::admission::ask;
use crate::harness::{Folder, Up, client, create, make_namespace, until};

/// A date so many seconds ahead.
fn ahead(seconds: u64) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let at = (since + Duration::from_secs(seconds)).as_secs();
    let at = Timestamp::from_second(i64::try_from(at).expect("small")).expect("a time");
    Date::of(at).text().to_owned()
}

fn image(version: &str) -> Value {
    json!({"version": version, "cri": [{"name": "containerd"}], "architectures": ["amd64"]})
}

/// One version whose private date is to matter, and one that never expires.
fn central(until: &str) -> Value {
    let mut inherited = image("1.0.0");
    inherited["expirationDate"] = json!(until);
    json!({"metadata": {"name": "central"}, "spec": {"type": "local",
        "kubernetes": {"versions": [
            {"version": "1.30.1", "expirationDate": until}, {"version": "1.30.2", "expirationDate": until}, {"version": "1.31.0"}]},
        "machineImages": [{"name": "linux", "versions": [inherited, image("2.0.0")]}],
        "machineTypes": [{"name": "small", "cpu": "2", "gpu": "0", "memory": "8Gi"}],
        "regions": [{"name": "here"}]}})
}

fn own(kubernetes: &Value, images: &Value) -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "PrivateCloudProfile", "metadata": {"name": "own"},
        "spec": {"parent": "central", "kubernetes": {"versions": kubernetes}, "machineImages": images}})
}

/// A platform, and the private profiles of its namespace `team`.
async fn landscape() -> (Client, Api<PrivateCloudProfile>, Up, Folder) {
    let folder = Folder::new();
    let up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    (admin.clone(), Api::namespaced(admin, "team"), up, folder)
}

/// The versions that a profile names itself.
fn names(profile: &PrivateCloudProfile) -> Vec<String> {
    versions(profile.spec.kubernetes.as_ref(), &profile.spec.machine_images)
}

/// The same of a CloudProfile.
fn offers(profile: &CloudProfile) -> Vec<String> {
    versions(profile.spec.kubernetes.as_ref(), &profile.spec.machine_images)
}

fn versions(kubernetes: Option<&Shared<Kubernetes>>, images: &[Shared<MachineImage>]) -> Vec<String> {
    let kubernetes = kubernetes.iter().flat_map(|own| own.versions.iter().map(|own| own.version.clone()));
    let images = images
        .iter()
        .flat_map(|image| image.versions.iter().map(|version| format!("{} {}", image.name, version.version)));
    kubernetes.chain(images).collect()
}

fn removed(profile: &PrivateCloudProfile) -> usize {
    profile.status.as_ref().map_or(0, |status| status.removed.len())
}

#[tokio::test]
async fn a_manifest_is_applied_again_after_some_of_its_versions_were_taken_out() {
    let (admin, private, _up, _folder) = landscape().await;
    // The parent's dates pass first, so that a later one of the child's is what holds.
    let soon = ahead(5);
    create(&Api::<CloudProfile>::all(admin), central(&ahead(2))).await;
    let late = "2099-01-01T00:00:00Z";
    let dated = |version: &str, date: &str| {
        let mut version = image(version);
        version["expirationDate"] = json!(date);
        version
    };
    let kubernetes =
        json!([{"version": "1.30.1", "expirationDate": soon}, {"version": "1.30.2", "expirationDate": late}]);
    let images = json!([
        {"name": "linux", "versions": [{"version": "1.0.0", "expirationDate": soon}]},
        {"name": "own", "versions": [dated("1.0.0", &soon), dated("2.0.0", late)]}]);
    let manifest = own(&kubernetes, &images);
    let apply = || async {
        let params = PatchParams::apply("gitops");
        private.patch("own", &params, &Patch::Apply(&manifest)).await.expect("it is accepted without force")
    };
    let all = ["1.30.1", "1.30.2", "linux 1.0.0", "own 1.0.0", "own 2.0.0"];
    assert_eq!(names(&apply().await), all);

    let left = ["1.30.2", "own 2.0.0"];
    until(&private, "own", |profile| removed(profile) == 3).await;
    let again = apply().await;
    assert_eq!(names(&again), left, "an entry came back");
    let still = apply().await;
    assert_eq!((names(&still), removed(&still)), (names(&again), 3));
}

#[tokio::test]
async fn nobody_owns_what_was_taken_out_of_what_they_sent() {
    let (admin, private, _up, _folder) = landscape().await;
    let soon = ahead(5);
    create(&Api::<CloudProfile>::all(admin), central(&ahead(2))).await;
    let mut alone = image("1.0.0");
    alone["expirationDate"] = json!(soon);
    let kubernetes = json!([{"version": "1.30.1", "expirationDate": soon}]);
    let manifest = own(&kubernetes, &json!([{"name": "own", "versions": [alone, image("2.0.0")]}]));
    let apply = async |manager: &str| {
        let params = PatchParams::apply(manager);
        private.patch("own", &params, &Patch::Apply(&manifest)).await.expect("it is accepted without force")
    };
    assert_eq!(names(&apply("gitops").await).len(), 3);
    until(&private, "own", |profile| removed(profile) == 2).await;
    // Somebody writes the same by hand, in all other ways; nothing of that holds up those who apply.
    for way in ["replace", "merge", "apply"] {
        let by_hand = match way {
            "replace" => {
                let stored = private.get("own").await.expect("it is there");
                let mut whole = manifest.clone();
                whole["metadata"]["resourceVersion"] = json!(stored.metadata.resource_version);
                let whole = serde_json::from_value(whole).expect("a profile");
                let params = PostParams { field_manager: Some("person".to_owned()), ..PostParams::default() };
                private.replace("own", &params, &whole).await.expect("it is accepted")
            }
            "merge" => {
                let params = PatchParams { field_manager: Some("person".to_owned()), ..PatchParams::default() };
                private.patch("own", &params, &Patch::Merge(&manifest)).await.expect("it is accepted")
            }
            _ => apply("person").await,
        };
        assert_eq!(names(&by_hand), ["own 2.0.0"], "{way}: an entry came back");
        let again = apply("gitops").await;
        assert_eq!(names(&again), ["own 2.0.0"], "{way}: an entry came back");
        let still = apply("gitops").await;
        assert_eq!(still.metadata.resource_version, again.metadata.resource_version, "{way}: nothing changed");
    }
}

#[tokio::test]
async fn a_private_profile_whose_versions_all_went_is_applied_again() {
    let (admin, private, _up, _folder) = landscape().await;
    let soon = ahead(5);
    create(&Api::<CloudProfile>::all(admin), central(&ahead(2))).await;
    let mut alone = image("1.0.0");
    alone["expirationDate"] = json!(soon);
    let kubernetes = json!([{"version": "1.30.1", "expirationDate": soon}]);
    let manifest = own(&kubernetes, &json!([{"name": "own", "versions": [alone]}]));
    let apply = || async {
        let params = PatchParams::apply("gitops");
        private.patch("own", &params, &Patch::Apply(&manifest)).await.expect("it is accepted without force")
    };
    assert_eq!(names(&apply().await), ["1.30.1", "own 1.0.0"]);
    until(&private, "own", |profile| removed(profile) == 2).await;
    for _ in 0..3 {
        assert_eq!(names(&apply().await), [""; 0], "an entry came back");
    }
}

/// What a CloudProfile that lets its expired versions go is left with, and that a tool may apply its old manifest again and
/// again: each time they come back, and go by one write.
async fn is_applied_again(admin: &Client, name: &str, spec: Value, left: &[&str]) {
    let profiles = Api::<CloudProfile>::all(admin.clone());
    let manifest = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile",
        "metadata": {"name": name, "annotations": {REMOVE_EXPIRED_VERSIONS: "true"}}, "spec": spec});
    let apply = || async {
        let params = PatchParams::apply("gitops");
        profiles.patch(name, &params, &Patch::Apply(&manifest)).await.expect("it is accepted without force")
    };
    let generation = |profile: &CloudProfile| profile.metadata.generation.expect("a generation");
    let all = offers(&apply().await).len();
    let mut gone = until(&profiles, name, |profile| offers(profile) == left).await;
    for _ in 0..3 {
        let again = apply().await;
        assert_eq!((offers(&again).len(), generation(&again)), (all, generation(&gone) + 1), "{name}");
        let before = generation(&again);
        gone = until(&profiles, name, |profile| offers(profile) == left).await;
        assert_eq!(generation(&gone), before + 1, "{name}: it was taken out by more than one write");
    }
}

#[tokio::test]
async fn a_cloud_profile_is_applied_again_after_its_expired_versions_were_taken_out() {
    let (admin, _, _up, _folder) = landscape().await;
    let dated = |version: &str| {
        let mut version = image(version);
        version["expirationDate"] = json!("2023-02-02T01:02:03Z");
        version
    };
    let expired = json!({"version": "1.30.1", "expirationDate": "2023-02-02T01:02:03Z"});
    let images = json!([
        {"name": "linux", "updateStrategy": "major", "versions": [dated("1.0.0"), image("2.0.0")]},
        {"name": "old", "versions": [dated("1.0.0")]}]);
    let some =
        json!({"type": "local", "kubernetes": {"versions": [expired, {"version": "1.31.0"}]}, "machineImages": images});
    is_applied_again(&admin, "some", some, &["1.31.0", "linux 2.0.0"]).await;
    let images = json!([{"name": "old", "versions": [dated("1.0.0"), dated("2.0.0")]}]);
    let all = json!({"type": "local", "kubernetes": {"versions": [expired]}, "machineImages": images});
    is_applied_again(&admin, "all", all, &[]).await;
}

#[tokio::test]
async fn entries_that_cannot_be_told_apart_are_refused_by_their_field() {
    let (admin, _, _up, _folder) = landscape().await;
    create(&Api::<CloudProfile>::all(admin.clone()), central("2098-01-01T00:00:00Z")).await;
    let path = "/apis/core.gardener.cloud/v1beta1/namespaces/team/privatecloudprofiles";
    // The embedded server names entries by their keys, kube-apiserver by their places.
    let refused = |kubernetes: Value, images: Value, expect: [&'static str; 2]| {
        let admin = admin.clone();
        async move {
            let answer = ask(&admin, "POST", path, &own(&kubernetes, &images)).await;
            let message = answer.body["message"].as_str().unwrap_or_default().to_owned();
            let is_said = expect.iter().all(|part| message.contains(part));
            assert!(answer.code == 422 && is_said, "{expect:?}: {} {message}", answer.code);
        }
    };
    let version = json!({"version": "1.30.1", "expirationDate": "2099-01-01T00:00:00Z"});
    refused(json!([version, version]), json!([]), ["spec.kubernetes.versions[1]", "Duplicate value"]).await;
    let nameless = json!([{"expirationDate": "2099-01-01T00:00:00Z"}]);
    refused(nameless, json!([]), ["spec.kubernetes.versions[0].version", "Required value"]).await;
    let images = json!([{"name": "own", "versions": [image("1.0.0")]}, {"name": "own", "versions": [image("2.0.0")]}]);
    refused(json!([]), images, ["spec.machineImages[1]", "Duplicate value"]).await;
    refused(json!([]), json!([{"versions": [image("1.0.0")]}]), ["spec.machineImages[0].name", "Required value"]).await;
    let twice = json!([{"name": "own", "versions": [image("1.0.0"), image("1.0.0")]}]);
    refused(json!([]), twice, [".versions[1]", "Duplicate value"]).await;
    let nameless = json!([{"name": "own", "versions": [{"architectures": ["amd64"]}]}]);
    refused(json!([]), nameless, [".versions[0].version", "Required value"]).await;
}

#[tokio::test]
async fn what_is_more_than_a_definition_allows_is_refused_by_its_field() {
    let (admin, _, _up, _folder) = landscape().await;
    let path = "/apis/core.gardener.cloud/v1beta1/cloudprofiles";
    let refused = |field: &'static str, value: Value, expect: &'static str| {
        let admin = admin.clone();
        async move {
            let mut profile = central("2099-01-01T00:00:00Z");
            profile["apiVersion"] = json!("core.gardener.cloud/v1beta1");
            profile["kind"] = json!("CloudProfile");
            profile["spec"][field] = value;
            let answer = ask(&admin, "POST", path, &profile).await;
            let message = answer.body["message"].as_str().unwrap_or_default().to_owned();
            assert!(answer.code == 422 && message.contains(expect), "{expect:?}: {} {message}", answer.code);
        }
    };
    let machine = |number: usize| json!({"name": format!("m{number}"), "cpu": 1, "memory": "1Gi"});
    let many: Vec<Value> = (0..=5000).map(machine).collect();
    refused("machineTypes", json!(many), "spec.machineTypes: Too many: 5001: must have at most 5000 items").await;
    let digits = "1".repeat(65);
    let long = json!([{"name": "m", "cpu": digits, "memory": "1Gi"}]);
    refused("machineTypes", long, "spec.machineTypes[0].cpu: Too long: may not be more than 64 bytes").await;
    refused("type", json!("t".repeat(254)), "spec.type: Too long: may not be more than 253 bytes").await;
    let labels: Value = (0..=100).map(|number| (format!("l{number}"), json!("v"))).collect();
    let regions = json!([{"name": "here", "labels": labels}]);
    refused("regions", regions, "spec.regions[0].labels: Too many: 101: must have at most 100 items").await;
}
