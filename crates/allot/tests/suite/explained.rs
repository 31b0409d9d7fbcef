//! `allot catalog` and `explain` on a server: what they tell of profiles and Shoots, and what whoever may see little is told.

use std::path::PathBuf;

use allotment_api::catalog::{CloudProfile, PrivateCloudProfile, Shoot};
use allotment_machinery::yaml;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, ResourceExt};
use kube::config::Kubeconfig;
use serde_json::Value;

use crate::harness::{Folder, Up, allot, client, make_namespace, until};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/catalog/");

/// Puts the objects of an example there.
async fn apply(admin: &kube::Client, name: &str) {
    let text = std::fs::read_to_string(format!("{EXAMPLES}{name}")).expect("an example");
    for document in yaml::parse_stream(&text).expect("YAML") {
        let object: DynamicObject = serde_json::from_slice(&document.value.to_vec()).expect("an object");
        let types = object.types.clone().expect("a kind");
        let (group, version) = types.api_version.split_once('/').expect("a group");
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(admin.clone(), &namespace, &kind),
            None => Api::all_with(admin.clone(), &kind),
        };
        let params = PatchParams::apply("test");
        api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await.expect("it is accepted");
    }
}

/// A kubeconfig of the folder's platform that acts as somebody else.
fn acting_as(folder: &Folder, user: &str) -> PathBuf {
    let text = std::fs::read_to_string(folder.kubeconfig()).expect("the kubeconfig is there");
    let mut kubeconfig = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    for own in kubeconfig.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()) {
        own.impersonate = Some(user.to_owned());
    }
    let path = folder.0.join(format!("{user}.kubeconfig"));
    std::fs::write(&path, serde_json::to_string(&kubeconfig).expect("JSON")).expect("a file is written");
    path
}

/// Runs a command; gives its exit code, stdout and stderr.
fn run(folder: &Folder, kubeconfig: &PathBuf, words: &[&str]) -> (Option<i32>, String, String) {
    let output = allot(folder).args(words).env("KUBECONFIG", kubeconfig).output().expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn profiles_and_shoots_are_explained_as_far_as_they_may_be_seen() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team-green").await;
    for name in ["roles.yaml", "central.yaml", "longer.yaml", "shoot.yaml"] {
        apply(&admin, name).await;
    }
    let (own, ada, nobody) = (folder.kubeconfig(), acting_as(&folder, "ada"), acting_as(&folder, "nobody"));

    let (code, out, err) = run(&folder, &own, &["catalog", "diff", "own", "-n", "team-green", "--exit-code"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(out.contains("\n+ spec.machineTypes[m5.xlarge]\n") && err.is_empty(), "{out}{err}");

    let (code, out, err) = run(&folder, &own, &["explain", "cloudprofile", "central", "-o", "json"]);
    let told: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(told["privateCloudProfiles"], serde_json::json!(["team-green/own"]));
    assert_eq!(told["shoots"], serde_json::json!(["team-green/shop"]));

    // The team sees its own namespace, and is told what to do for it.
    let (code, _, err) = run(&folder, &ada, &["explain", "cloudprofile", "central"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(err.matches("; name a namespace of yours with -n").count(), 2, "{err}");
    let (code, out, err) = run(&folder, &ada, &["explain", "cloudprofile", "central", "-n", "team-green"]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("1 private profile (team-green/own) in namespace team-green"), "{out}");
    let (code, out, err) = run(&folder, &ada, &["explain", "shoot", "shop", "-n", "team-green", "-o", "json"]);
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!((code, &told["summary"]), (Some(0), &"all that it uses is given".into()));
    assert_eq!(
        (&told["couldChangeTo"][0]["name"], &told["couldChangeTo"][0]["allowed"]),
        (&"own".into(), &true.into())
    );
    let days = ["catalog", "expiring", "--within", "40000d", "-n", "team-green", "-o", "json"];
    let (code, out, err) = run(&folder, &ada, &days);
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!((code, &told["versions"][0]["shoots"][0]), (Some(0), &"team-green/shop".into()));

    // CloudProfiles are everybody's, and nothing else is told.
    let (code, out, err) = run(&folder, &nobody, &["explain", "cloudprofile", "central", "-n", "team-green"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("children   may not be seen") && !out.contains("team-green/"), "{out}");
    let (code, out, _) = run(&folder, &nobody, &["explain", "shoot", "shop", "-n", "team-green"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
}

#[tokio::test]
async fn what_may_not_be_seen_is_never_told_as_nothing() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team-green").await;
    for name in ["roles.yaml", "central.yaml", "longer.yaml", "shoot.yaml"] {
        apply(&admin, name).await;
    }
    let (ada, nobody) = (acting_as(&folder, "ada"), acting_as(&folder, "nobody"));
    until(&Api::<CloudProfile>::all(admin.clone()), "central", |profile| {
        profile.status.iter().flat_map(|status| &status.conditions).any(|one| one.message.starts_with("1 private"))
    })
    .await;
    let (_, out, _) = run(&folder, &nobody, &["explain", "cloudprofile", "central"]);
    assert!(out.contains("deletion   would wait for what may not be seen: 1 private profiles, 1 Shoots"), "{out}");
    let (_, out, _) = run(&folder, &nobody, &["explain", "cloudprofile", "central", "-o", "json"]);
    let told: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&told["deletionWaitsFor"], told.get("unseen").is_some()), (&Value::Null, true), "{told}");
    let near = ["catalog", "expiring", "--within", "1h"];
    let (code, out, err) = run(&folder, &nobody, &near);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    assert!(err.contains("nothing that may be seen expires until"), "{err}");

    // Without CloudProfiles nothing is known of dates.
    let bindings = Api::<ClusterRoleBinding>::all(admin.clone());
    bindings.delete("allotment:cloudprofiles-view", &DeleteParams::default()).await.expect("an admin may");
    let forbidden = async {
        while run(&folder, &ada, &["explain", "cloudprofile", "central"]).0 == Some(0) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::harness::LIMIT, forbidden).await.expect("the rights go");
    let (code, out, err) = run(&folder, &ada, &[near.as_slice(), &["-n", "team-green"]].concat());
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.starts_with("error: cannot list cloudprofiles: "), "{err}");
    assert!(err.contains("without CloudProfiles it cannot be told what expires"), "{err}");
    assert!(!err.contains("there is no CloudProfile") && !err.contains("nothing"), "{err}");
}

#[tokio::test]
async fn a_shoot_of_a_file_is_told_of_a_profile_that_goes_or_is_not_there() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team-green").await;
    for name in ["central.yaml", "longer.yaml", "shoot.yaml"] {
        apply(&admin, name).await;
    }
    let kubeconfig = folder.kubeconfig();
    let (code, out, err) = run(&folder, &kubeconfig, &["catalog", "diff", "own", "none", "-n", "team-green"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("+++ PrivateCloudProfile team-green/own\n"), "what is there is told: {out}");
    assert!(err.contains("PrivateCloudProfile team-green/none: "), "{err}");

    let on = |profile: &str| {
        let spec = serde_json::json!({"cloudProfile": {"kind": "PrivateCloudProfile", "name": profile}});
        serde_json::json!({"spec": spec})
    };
    let shoots = Api::<Shoot>::namespaced(admin.clone(), "team-green");
    let own = Patch::Merge(on("own"));
    shoots.patch("shop", &PatchParams::default(), &own).await.expect("it may change over");
    let private = Api::<PrivateCloudProfile>::namespaced(admin.clone(), "team-green");
    private.delete("own", &DeleteParams::default()).await.expect("it can be deleted");
    let explain = |profile: &str| {
        let text = std::fs::read_to_string(format!("{EXAMPLES}shoot.yaml")).expect("an example");
        let mut value: Value =
            serde_json::from_slice(&yaml::parse_stream(&text).expect("YAML")[0].value.to_vec()).expect("JSON");
        value["spec"]["cloudProfile"] = on(profile)["spec"]["cloudProfile"].clone();
        value["metadata"]["name"] = "another".into();
        let file = folder.0.join("another.json");
        std::fs::write(&file, value.to_string()).expect("a file is written");
        let (code, out, err) = run(&folder, &kubeconfig, &["explain", "shoot", "-f", file.to_str().expect("a path")]);
        assert_eq!(code, Some(0), "{err}");
        // A list of it alone, as kubectl prints it, is it.
        let lists = [
            serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [value]}),
            serde_json::json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ShootList",
                "items": [{"metadata": value["metadata"], "spec": value["spec"]}]}),
        ];
        for list in lists {
            std::fs::write(&file, list.to_string()).expect("a file is written");
            let listed = run(&folder, &kubeconfig, &["explain", "shoot", "-f", file.to_str().expect("a path")]);
            assert_eq!((listed.0, &listed.1), (Some(0), &out), "{}", listed.2);
        }
        out
    };
    let out = explain("own");
    let refused = "verdict    it would be refused: PrivateCloudProfile \"own\" is being deleted: name another profile";
    assert!(out.contains(refused), "{out}");
    let out = explain("none");
    assert!(out.contains("verdict    it would be refused: PrivateCloudProfile team-green/none is not there"), "{out}");
    let (_, out, _) = run(&folder, &kubeconfig, &["explain", "shoot", "shop", "-n", "team-green"]);
    assert!(out.contains("deletion   its profile is being deleted, and waits for this Shoot"), "{out}");
}

#[tokio::test]
async fn profiles_of_files_count_in_the_place_of_those_of_the_server() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team-green").await;
    for name in ["central.yaml", "longer.yaml"] {
        apply(&admin, name).await;
    }
    let example = |name: &str| -> Value {
        let text = std::fs::read_to_string(format!("{EXAMPLES}{name}")).expect("an example");
        serde_json::from_slice(&yaml::parse_stream(&text).expect("YAML")[0].value.to_vec()).expect("JSON")
    };
    let write = |name: &str, value: &Value| {
        let file = folder.0.join(name);
        std::fs::write(&file, value.to_string()).expect("a file is written");
        file.to_str().expect("a path").to_owned()
    };
    let kubeconfig = folder.kubeconfig();
    let explain = |files: &[&String]| {
        let words = ["explain", "shoot"].into_iter().chain(files.iter().flat_map(|file| ["-f", file.as_str()]));
        run(&folder, &kubeconfig, &words.collect::<Vec<_>>())
    };
    let check = |files: &[&String], expect: &str| {
        let (code, out, err) = explain(files);
        assert!(code == Some(0) && out.contains(&format!("verdict    {expect}")), "{expect}: {out}{err}");
    };
    let machine = serde_json::json!([{"name": "m9.large", "cpu": "4", "gpu": "0", "memory": "8Gi"}]);
    let mut shoot = example("shoot.yaml");
    shoot["spec"]["cloudProfile"] = serde_json::json!({"kind": "PrivateCloudProfile", "name": "own"});
    shoot["spec"]["provider"]["workers"][0]["machine"]["type"] = "m9.large".into();
    let (refused, given) =
        ("it would be refused: 1 thing that it asks for is not given", "all that it asks for is given");
    let of_shoot = write("shoot.json", &shoot);
    check(&[&of_shoot], refused);

    let mut own = example("longer.yaml");
    own["spec"]["machineTypes"] = machine.clone();
    // As it was printed of a server that has others of it.
    own["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    own["status"] = serde_json::json!({"cloudProfile": 1});
    let of_own = write("own.json", &own);
    check(&[&of_shoot, &of_own], given);
    own["metadata"].as_object_mut().expect("an object").remove("namespace");
    check(&[&of_shoot, &write("here.json", &own)], given);
    own["metadata"]["namespace"] = "team-blue".into();
    check(&[&of_shoot, &write("elsewhere.json", &own)], refused);

    // The parent may be of a file as well, beside the server's private profile, and all may be in one list.
    let mut central = example("central.yaml");
    central["spec"]["machineTypes"] = machine;
    check(&[&write("central.json", &central), &of_shoot], given);
    shoot["spec"]["cloudProfile"]["name"] = "new".into();
    (own["metadata"]["name"], own["metadata"]["namespace"]) = ("new".into(), "team-green".into());
    own["spec"].as_object_mut().expect("an object").remove("machineTypes");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [shoot, own, central]});
    check(&[&write("all.json", &list)], given);

    // As it is written for other landscapes, with a slip, in a large file: what stands at its end counts as well.
    shoot["spec"]["cloudProfile"]["kind"] = "NamespacedCloudProfile".into();
    own["kind"] = "NamespacedCloudProfile".into();
    central["spec"]["kubernetes"]["versions"][2]["expirationDate"] = "2098-01-1T00:00:00Z".into();
    let padding = "# padding\n".repeat(512 * 1024);
    let large = folder.0.join("large.yaml").to_str().expect("a path").to_owned();
    std::fs::write(&large, format!("{shoot}\n---\n{padding}---\n{own}\n---\n{central}\n")).expect("a file is written");
    check(&[&large], given);
    let (_, out, err) = explain(&[&large]);
    assert!(
        out.contains("the CloudProfile says 2098-01-01T00:00:00Z") && err.contains("write \"2098-01-01T00:00:00Z\""),
        "{out}{err}"
    );
    assert_eq!(err.matches("PrivateCloudProfile: write that here").count(), 2, "{err}");

    let (code, _, err) = explain(&[&of_shoot, &of_own, &of_own]);
    let twice = "PrivateCloudProfile team-green/own stands in the files more than once: take one out";
    assert!(code == Some(1) && err.contains(twice), "{err}");
    let (code, _, err) = explain(&[&of_own]);
    assert!(code == Some(1) && err.contains("own.json holds no Shoot"), "{err}");
}

#[tokio::test]
async fn lint_takes_parents_of_the_server_where_that_is_asked_for() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let kubeconfig = folder.kubeconfig();
    let file = format!("{EXAMPLES}longer.yaml");
    let lint = |more: &[&str]| run(&folder, &kubeconfig, &[&["catalog", "lint", file.as_str()], more].concat());
    let (code, out, _) = lint(&["--server"]);
    let missing = "CloudProfile \"central\" is neither in the files nor on the server: make it, or add its file";
    assert!(code == Some(1) && out.contains(missing), "{code:?} {out}");
    apply(&admin, "central.yaml").await;
    let (code, out, err) = lint(&["--server"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    let (code, out, _) = lint(&[]);
    assert!(code == Some(1) && out.contains("is in none of the files: add its file"), "{code:?} {out}");
    // No object is called so: it is told of, beside the others.
    let odd = folder.0.join("odd.yaml");
    let of = |name: &str, parent: &str| {
        format!(
            "---\n{{apiVersion: core.gardener.cloud/v1beta1, kind: PrivateCloudProfile, metadata: {{name: {name}, namespace: team}}, \
             spec: {{parent: '{parent}'}}}}\n"
        )
    };
    let text = [of("one", "a b"), of("two", "../../../api/v1/namespaces"), of("three", "none")].concat();
    std::fs::write(&odd, text).expect("a file is written");
    let odd = odd.to_str().expect("a path");
    let (code, out, err) = run(&folder, &kubeconfig, &["catalog", "lint", "--server", &file, odd]);
    assert_eq!((code, out.lines().count()), (Some(1), 3), "{out} {err}");
    for parent in ["a b", "../../../api/v1/namespaces"] {
        let told = format!("spec.parent: Invalid value: {parent:?}: a lowercase RFC 1123 subdomain");
        assert!(out.contains(&told), "{told:?} is not in {out}");
    }
    let nowhere = folder.0.join("nowhere");
    let (code, out, err) = run(&folder, &nowhere, &["catalog", "lint", "--server", &file]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
}
