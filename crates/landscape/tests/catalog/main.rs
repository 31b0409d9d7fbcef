//! Writes of the catalog's kinds on a whole landscape in this process: who may write what, what is stored, and what is
//! answered to those who may not.
mod moment;
mod world;

use std::time::Duration;

use allotment_machinery::json;
use allotment_machinery::json::Value;

use crate::world::{Answer, PROFILES, ROLES, World, large, object, of, private, shoot_spec};

#[tokio::test]
async fn a_member_adds_machine_types_and_a_shoot_uses_them_at_once() {
    let world = World::new().await;
    world.parent().await;
    world.member().await;
    let spec = json!({"parent": "central", "machineTypes": (large())});
    let made = world.by("alice", "POST", &of("team", "privatecloudprofiles"), private("mine", spec)).await.accepted();
    assert_eq!(made.at(&["metadata", "finalizers"]), Some(&json!(["allotment.dev/catalog"])));
    // Its status is there by the same write.
    assert_eq!(made.at(&["status", "observedGeneration"]), Some(&json!(1)));
    let types = made.at(&["status", "cloudProfile", "spec", "machineTypes"]).and_then(Value::as_array).expect("types");
    assert_eq!(
        types.iter().map(|one| one.get("name").and_then(Value::as_str)).collect::<Vec<_>>(),
        [Some("small"), Some("large")]
    );
    let uses = shoot_spec(json!({"kind": "PrivateCloudProfile", "name": "mine"}));
    let shoot = world.by("alice", "POST", &of("team", "shoots"), object("Shoot", "s", uses)).await.accepted();
    assert_eq!(shoot.at(&["spec", "cloudProfileName"]), None);
}

#[tokio::test]
async fn names_of_profiles_are_not_taken_for_paths() {
    let world = World::new().await;
    world.parent().await;
    world.member().await;
    let (profiles, shoots) = (of("team", "privatecloudprofiles"), of("team", "shoots"));
    let spec = json!({"parent": "central", "machineTypes": (large())});
    world.by("alice", "POST", &profiles, private("mine", spec)).await.accepted();
    let rule = "a lowercase RFC 1123 subdomain";
    for spelling in ["?", "?x=1", "#x", "/", "/status", "%20", " "] {
        let (central, mine) = (format!("central{spelling}"), format!("mine{spelling}"));
        let other = private("other", json!({"parent": (central.as_str())}));
        world.by("alice", "POST", &profiles, other).await.refused(422, &["spec.parent: ", rule]);
        for (kind, name) in [("CloudProfile", &central), ("PrivateCloudProfile", &mine)] {
            let uses = shoot_spec(json!({"kind": kind, "name": (name.as_str())}));
            let refused = world.by("alice", "POST", &shoots, object("Shoot", "s", uses)).await;
            refused.refused(422, &["spec.cloudProfile.name: ", rule]);
        }
    }
}

#[tokio::test]
async fn versions_and_images_are_for_those_who_hold_the_verbs() {
    let world = World::new().await;
    world.parent().await;
    world.member().await;
    let profiles = of("team", "privatecloudprofiles");
    let versions = json!({"versions": [{"version": "1.30.1", "expirationDate": "2027-01-01T00:00:00Z"}]});
    let spec = json!({"parent": "central", "kubernetes": (versions), "machineTypes": (large()),
        "machineImages": [{"name": "own", "versions": [{"version": "1.0.0"}]}]});
    let both = [
        "user \"alice\" is not allowed to modify .spec.kubernetes for \"privatecloudprofiles\"",
        "user \"alice\" is not allowed to modify .spec.machineImages for \"privatecloudprofiles\"",
    ];
    let denied = world.by("alice", "POST", &profiles, private("mine", spec.clone())).await.refused(403, &both);
    assert!(!denied.text.contains("a bound rule"), "{}", denied.text);
    // The rule as the proposal of private profiles has it allows nothing, which is said.
    let rule = json!({"apiGroups": [""], "resources": ["privatecloudprofile"], "verbs": ["modify-spec-kubernetes"]});
    world.post(ROLES, json!({"metadata": {"name": "source"}, "rules": [rule]})).await.accepted();
    world.bind("alice", "source").await;
    let hint = "a bound rule has apiGroups: [\"\"], resources: [\"privatecloudprofile\"]";
    world.by("alice", "POST", &profiles, private("mine", spec.clone())).await.refused(403, &[hint]);
    // The role that comes with the platform does.
    world.bind("alice", "privatecloudprofile-modify-special-fields").await;
    world.by("alice", "POST", &profiles, private("mine", spec.clone())).await.accepted();
    // In its namespace alone.
    world.by("alice", "POST", &of("other", "privatecloudprofiles"), private("mine", spec)).await.refused(403, &[]);
}

#[tokio::test]
async fn who_may_edit_a_namespace_may_edit_its_profiles_and_everybody_reads_those_for_everybody() {
    let world = World::new().await;
    world.parent().await;
    world.bind("ed", "edit").await;
    world.bind("vi", "view").await;
    let profiles = of("team", "privatecloudprofiles");
    let new = private("mine", json!({"parent": "central", "machineTypes": (large())}));
    // Roles that are made of others follow within moments.
    let edits = async {
        while world.by("ed", "POST", &profiles, new.clone()).await.code != 201 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), edits).await.expect("edit has the rule");
    let views = async {
        while world.by("vi", "GET", &format!("{profiles}/mine"), Value::Null).await.code != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), views).await.expect("view has the rule");
    world.by("vi", "DELETE", &format!("{profiles}/mine"), Value::Null).await.refused(403, &[]);
    for user in ["ed", "vi", "nobody-in-particular"] {
        world.by(user, "GET", &format!("{PROFILES}/central"), Value::Null).await.accepted();
        world.by(user, "DELETE", &format!("{PROFILES}/central"), Value::Null).await.refused(403, &[]);
    }
    // A role has to allow the write of a status, and even then it is the platform's.
    let rule =
        json!({"apiGroups": ["core.gardener.cloud"], "resources": ["privatecloudprofiles/status"], "verbs": ["*"]});
    world.post(ROLES, json!({"metadata": {"name": "status"}, "rules": [rule]})).await.accepted();
    world.bind("ed", "status").await;
    let forged =
        world.by("ed", "PATCH", &format!("{profiles}/mine/status"), json!({"status": {"observedGeneration": 7}})).await;
    forged.refused(403, &["status of PrivateCloudProfile is written by the platform only"]);
}

#[tokio::test]
async fn what_nobody_knows_is_stored_as_it_was_written() {
    let world = World::new().await;
    // The API server settles numbers as Kubernetes does; from then on they stay as they are.
    let odd = r#"{"a":1.10,"b":1180591620717411303424,"c":[1e3,-0]}"#;
    let settled = r#"{"a":1.1,"b":1.1805916207174113e+21,"c":[1000,0]}"#;
    let central = format!(
        r#"{{"apiVersion":"core.gardener.cloud/v1beta1","kind":"CloudProfile","metadata":{{"name":"central"}},"spec":{{"type":"local","providerConfig":{odd},"odd":{odd},
            "machineTypes":[{{"name":"small","cpu":"2","gpu":"0","memory":"8Gi","odd":{odd}}}]}}}}"#
    );
    world.ask("admin", "POST", PROFILES, central.as_bytes()).await.accepted();
    let stored = world.by("admin", "GET", &format!("{PROFILES}/central"), Value::Null).await.accepted();
    assert_eq!(stored.text.matches(settled).count(), 3, "{}", stored.text);
    let mine = format!(
        r#"{{"apiVersion":"core.gardener.cloud/v1beta1","kind":"PrivateCloudProfile","metadata":{{"name":"mine"}},"spec":{{"parent":"central","machineTypes":[{{"name":"large","cpu":"2","gpu":"0",
            "memory":"8Gi","odd":{odd}}}]}}}}"#
    );
    let profiles = of("team", "privatecloudprofiles");
    let made = world.ask("admin", "POST", &profiles, mine.as_bytes()).await.accepted();
    let spec = made.at(&["spec"]).expect("a spec").to_string();
    assert_eq!(spec.matches(settled).count(), 1, "{spec}");
    let access = format!(
        r#"{{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Shoot","metadata":{{"name":"s"}},"spec":{{"cloudProfileName":"central","odd":{odd},"provider":{{"type":"local"}}}}}}"#
    );
    let shoot = world.ask("admin", "POST", &of("team", "shoots"), access.as_bytes()).await.accepted();
    assert!(shoot.text.contains(settled), "{}", shoot.text);
    assert_eq!(shoot.at(&["spec", "cloudProfile"]), Some(&json!({"kind": "CloudProfile", "name": "central"})));
}

#[tokio::test]
async fn a_write_carries_its_status_and_a_dry_run_shows_it() {
    let world = World::new().await;
    world.parent().await;
    let profiles = of("team", "privatecloudprofiles");
    world.post(&profiles, private("mine", json!({"parent": "central"}))).await.accepted();
    let change = json!({"spec": {"machineTypes": (large())}});
    let count = |answer: &Answer| {
        let types = answer.at(&["status", "cloudProfile", "spec", "machineTypes"]).and_then(Value::as_array);
        (types.map(<[Value]>::len), answer.at(&["status", "observedGeneration"]).and_then(Value::as_i64))
    };
    let path = format!("{profiles}/mine");
    let tried = world.by("admin", "PATCH", &format!("{path}?dryRun=All"), change.clone()).await.accepted();
    assert_eq!(count(&tried), (Some(2), Some(2)));
    assert_eq!(count(&world.by("admin", "GET", &path, Value::Null).await.accepted()), (Some(1), Some(1)));
    assert_eq!(count(&world.by("admin", "PATCH", &path, change).await.accepted()), (Some(2), Some(2)));
    // What a client sends as status counts for nothing.
    let forged = json!({"spec": {"machineTypes": null}, "status": {"observedGeneration": 9}});
    assert_eq!(count(&world.by("admin", "PATCH", &path, forged).await.accepted()), (Some(1), Some(3)));
}

#[tokio::test]
async fn the_controllers_find_nothing_to_do_after_a_write_that_was_admitted() {
    let world = World::new().await;
    let controllers = world.controllers();
    controllers.synced().await;
    world.parent().await;
    let profiles = of("team", "privatecloudprofiles");
    let mut other = large();
    other.as_array_mut().expect("a list").push(json!({"name": "small", "cpu": "1", "gpu": "0", "memory": "8Gi"}));
    let made =
        world.post(&profiles, private("mine", json!({"parent": "central", "machineTypes": other}))).await.accepted();
    assert!(made.warnings.contains("spec.machineTypes[small]"), "{}", made.warnings);
    let path = format!("{profiles}/mine");
    // A Shoot changes the status, so that the controller was there.
    let uses = shoot_spec(json!({"kind": "PrivateCloudProfile", "name": "mine"}));
    let before = world.by("admin", "GET", &path, Value::Null).await.accepted();
    assert_eq!(before.at(&["metadata", "resourceVersion"]), made.at(&["metadata", "resourceVersion"]));
    world.post(&of("team", "shoots"), object("Shoot", "s", uses)).await.accepted();
    let in_use = async {
        loop {
            let now = world.by("admin", "GET", &path, Value::Null).await.accepted();
            if now.text.contains("Shoots s") {
                return now;
            }
            tokio::task::yield_now().await;
        }
    };
    let used = tokio::time::timeout(Duration::from_secs(20), in_use).await.expect("it is told");
    assert_eq!(used.at(&["status", "cloudProfile"]), made.at(&["status", "cloudProfile"]));
    // The conflict goes with its cause, by the write itself, and nothing is left for others to put right.
    let change = json!({"spec": {"machineTypes": (large())}});
    let changed = world.by("admin", "PATCH", &path, change).await.accepted();
    assert_eq!(changed.at(&["status", "conflicts"]), None, "{}", changed.text);
    assert!(changed.text.contains("Shoots s"), "{}", changed.text);
    let idle = async {
        while !controllers.is_idle() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), idle).await.expect("they come to rest");
    let after = world.by("admin", "GET", &path, Value::Null).await.accepted();
    assert_eq!(after.at(&["metadata", "resourceVersion"]), changed.at(&["metadata", "resourceVersion"]));
}

#[tokio::test]
async fn who_uses_a_profile_is_told_to_whoever_deletes_it_and_takes_it_from_them() {
    let world = World::new().await;
    world.parent().await;
    let profiles = of("team", "privatecloudprofiles");
    let versions = json!({"versions": [{"version": "1.30.1", "expirationDate": "2027-01-01T00:00:00Z"}]});
    let spec = json!({"parent": "central", "kubernetes": (versions), "machineTypes": (large())});
    world.post(&profiles, private("mine", spec)).await.accepted();
    world.post(&profiles, private("unused", json!({"parent": "central"}))).await.accepted();
    let uses = shoot_spec(json!({"kind": "PrivateCloudProfile", "name": "mine"}));
    world.post(&of("team", "shoots"), object("Shoot", "s", uses.clone())).await.accepted();

    let path = format!("{PROFILES}/central");
    let dropped = json!({"spec": {"kubernetes": {"versions": [{"version": "1.31.0"}]}}});
    let refused = world.by("admin", "PATCH", &path, dropped.clone()).await;
    refused.refused(422, &["is used by Shoots team/s", "1 PrivateCloudProfile invalid: team/mine"]);
    let gone = world.by("admin", "DELETE", &path, Value::Null).await.accepted();
    assert!(gone.warnings.contains("PrivateCloudProfiles team/mine, team/unused"), "{}", gone.warnings);
    let still = world.by("admin", "GET", &path, Value::Null).await.accepted();
    assert!(still.at(&["metadata", "deletionTimestamp"]).is_some());
    world.post(&profiles, private("late", json!({"parent": "central"}))).await.refused(422, &["is being deleted"]);

    let all = world.by("admin", "DELETE", &profiles, Value::Null).await.accepted();
    assert!(all.warnings.contains("PrivateCloudProfile \\\"mine\\\" is used by Shoots s"), "{}", all.warnings);
    assert!(!all.warnings.contains("unused"), "{}", all.warnings);
    world.post(&of("team", "shoots"), object("Shoot", "late", uses)).await.refused(422, &["is being deleted"]);
}

#[tokio::test]
async fn a_date_that_passes_is_refused_when_it_is_new() {
    let world = World::new().await;
    world.parent().await;
    let versions = json!({"versions": [{"version": "1.30.1", "expirationDate": "2026-07-01T00:00:00Z"}]});
    let new = || private("mine", json!({"parent": "central", "kubernetes": (versions.clone())}));
    let profiles = of("team", "privatecloudprofiles");
    world.post(&format!("{profiles}?dryRun=All"), new()).await.accepted();
    world.clock.pass(200 * 24 * 3600);
    world
        .post(&profiles, new())
        .await
        .refused(422, &["spec.kubernetes.versions[1.30.1].expirationDate", "is in the past"]);
}

#[tokio::test]
async fn whichever_way_a_profile_is_written_it_is_judged() {
    let world = World::new().await;
    world.parent().await;
    world.member().await;
    let profiles = of("team", "privatecloudprofiles");
    let path = format!("{profiles}/mine");
    let made = world.by("alice", "POST", &profiles, private("mine", json!({"parent": "central"}))).await.accepted();
    let versions = json!({"versions": [{"version": "1.30.1", "expirationDate": "2027-01-01T00:00:00Z"}]});
    let spec = json!({"parent": "central", "kubernetes": (versions.clone())});
    let mut replaced = made.body.clone();
    replaced.as_object_mut().expect("an object").insert("spec", spec.clone());
    let operations = json!([{"op": "add", "path": "/spec/kubernetes", "value": (versions)}]);
    let made_up = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "PrivateCloudProfile",
        "metadata": {"generateName": "p-"}, "spec": (spec.clone())});
    let ways = [
        ("PUT", path.clone(), "application/json", replaced),
        ("PATCH", path.clone(), "application/json-patch+json", operations),
        (
            "PATCH",
            format!("{path}?fieldManager=tool&force=true"),
            "application/apply-patch+yaml",
            private("mine", spec.clone()),
        ),
        (
            "PATCH",
            format!("{profiles}/applied?fieldManager=tool"),
            "application/apply-patch+yaml",
            private("applied", spec),
        ),
        ("POST", profiles, "application/json", made_up),
    ];
    let denied = "user \"alice\" is not allowed to modify .spec.kubernetes for \"privatecloudprofiles\"";
    for (method, path, media, body) in &ways {
        world.send("alice", method, path, media, &body.to_vec()).await.refused(403, &[denied]);
    }
    world.bind("alice", "privatecloudprofile-modify-special-fields").await;
    for (method, path, media, body) in &ways {
        let written = world.send("alice", method, path, media, &body.to_vec()).await.accepted();
        assert_eq!(
            written.at(&["metadata", "finalizers"]),
            Some(&json!(["allotment.dev/catalog"])),
            "{method} {media}"
        );
        let rendered =
            written.at(&["status", "cloudProfile", "spec", "kubernetes", "versions"]).and_then(Value::as_array);
        let extended = rendered.and_then(|all| all.first()?.get("expirationDate")?.as_str());
        assert_eq!(extended, Some("2027-01-01T00:00:00Z"), "{method} {media}");
    }
}

#[tokio::test]
async fn before_everything_was_seen_users_are_listed_to_the_last() {
    let world = World::new().await;
    world.parent().await;
    let (profiles, shoots) = (of("team", "privatecloudprofiles"), of("team", "shoots"));
    world.post(&profiles, private("mine", json!({"parent": "central", "machineTypes": (large())}))).await.accepted();
    let uses = shoot_spec(json!({"kind": "PrivateCloudProfile", "name": "mine"}));
    for number in 0..105 {
        world.post(&shoots, object("Shoot", &format!("s{number:03}"), uses.clone())).await.accepted();
    }
    let tried = world.by("admin", "DELETE", &format!("{profiles}/mine?dryRun=All"), Value::Null).await.accepted();
    assert!(tried.warnings.contains("s009 and 95 more"), "{}", tried.warnings);
    let tried = world.by("admin", "PATCH", &format!("{PROFILES}/central"), json!({"spec": {"kubernetes": null}})).await;
    tried.refused(422, &["team/s009 and 95 more"]);
}

#[tokio::test]
async fn a_manifest_is_applied_again_and_again_after_its_date() {
    let world = World::new().await;
    world.parent().await;
    world.member().await;
    let path = format!("{}/mine", of("team", "privatecloudprofiles"));
    let versions = json!({"versions": [{"version": "1.30.1", "expirationDate": "2026-07-01T00:00:00Z"}]});
    let manifest = |name: &str| {
        let types = json!([{"name": (name), "cpu": "1", "gpu": "0", "memory": "1Gi"}]);
        json!({"spec": {"parent": "central", "kubernetes": (versions.clone()), "machineTypes": (types)}})
    };
    let spec = manifest("a").at(&["spec"]).expect("a spec").clone();
    world.post(&of("team", "privatecloudprofiles"), private("mine", spec)).await.accepted();
    world.clock.pass(200 * 24 * 3600);
    for name in ["b", "b", "c", "d"] {
        let written = world.by("alice", "PATCH", &path, manifest(name)).await.accepted();
        assert_eq!(written.at(&["spec", "kubernetes"]), None, "{}", written.text);
        let removed = written.at(&["status", "removed"]).and_then(Value::as_array).unwrap_or_default();
        assert_eq!(removed.len(), 1, "it is told: {}", written.text);
        assert_eq!(removed[0].get("removedAt"), Some(&json!("2026-07-20T00:00:00Z")), "once");
    }
}
