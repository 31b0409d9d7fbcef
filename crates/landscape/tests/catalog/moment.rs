//! Writes of the same moment, and of the moment before, which no watch has told yet.

use std::sync::Arc;

use allotment_machinery::json;
use allotment_machinery::json::Value;

use crate::world::{Answer, PROFILES, World, large, object, of, parent_spec, private, shoot_spec};

/// A Shoot that begins to use a version in the moment in which it is dropped: one of both is refused, whoever comes first. In
/// two of ten rounds that is known.
async fn one_of_both_is_refused(world: World) {
    const ROUNDS: usize = 100;
    world.parent().await;
    let (profiles, shoots) = (of("team", "privatecloudprofiles"), of("team", "shoots"));
    world.post(&profiles, private("mine", json!({"parent": "central", "machineTypes": (large())}))).await.accepted();
    let world = Arc::new(world);
    let parent = format!("{PROFILES}/central");
    let spec = shoot_spec(json!({"kind": "PrivateCloudProfile", "name": "mine"}));
    for round in 0..ROUNDS {
        let first = Some(round % 10).filter(|first| *first < 2);
        let begins = Arc::new(tokio::sync::Barrier::new(2));
        let made = tokio::spawn({
            let (world, begins, shoots) = (world.clone(), begins.clone(), shoots.clone());
            let shoot = object("Shoot", &format!("s{round}"), spec.clone());
            async move { in_turn(first == Some(0), &begins, world.post(&shoots, shoot)).await }
        });
        let gone = tokio::spawn({
            let (world, parent) = (world.clone(), parent.clone());
            let dropped = json!({"spec": {"kubernetes": {"versions": [{"version": "1.31.0"}]}}});
            async move { in_turn(first == Some(1), &begins, world.by("admin", "PATCH", &parent, dropped)).await }
        });
        let (made, gone) = (made.await.expect("an answer"), gone.await.expect("an answer"));
        let accepted = [made.code < 300, gone.code < 300];
        match first {
            Some(0) => assert_eq!(accepted, [true, false], "{} {}", made.text, gone.text),
            Some(_) => assert_eq!(accepted, [false, true], "{} {}", made.text, gone.text),
            None => assert_ne!(accepted[0], accepted[1], "round {round}: {} {}", made.text, gone.text),
        }
        world.by("admin", "PATCH", &parent, json!({"spec": (parent_spec())})).await.accepted();
        world.by("admin", "DELETE", &format!("{shoots}/s{round}"), Value::Null).await;
    }
}

/// Does it before the other one begins, or when that does.
async fn in_turn(is_first: bool, begins: &tokio::sync::Barrier, what: impl Future<Output = Answer>) -> Answer {
    if !is_first {
        begins.wait().await;
        return what.await;
    }
    let answer = what.await;
    begins.wait().await;
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_uses_what_goes_in_the_same_moment_is_told_or_the_other_is() {
    one_of_both_is_refused(World::new().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_uses_what_goes_is_seen_at_once_beside_controllers_too() {
    let world = World::new().await;
    let controllers = world.controllers();
    controllers.synced().await;
    one_of_both_is_refused(world).await;
}

/// What a private profile came to say a moment ago counts, though no watch has told it yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn children_of_this_moment_count_beside_controllers_too() {
    const ROUNDS: usize = 50;
    let world = World::new().await;
    let controllers = world.controllers();
    controllers.synced().await;
    world.parent().await;
    let (profiles, parent) = (of("team", "privatecloudprofiles"), format!("{PROFILES}/central"));
    let versions = json!({"versions": [{"version": "1.30.1", "expirationDate": "2027-01-01T00:00:00Z"}]});
    let dropped = json!({"spec": {"kubernetes": {"versions": [{"version": "1.31.0"}]}}});
    world.post(&profiles, private("changed", json!({"parent": "central"}))).await.accepted();
    for round in 0..ROUNDS {
        let new = private(&format!("new{round}"), json!({"parent": "central", "kubernetes": (versions.clone())}));
        world.post(&profiles, new).await.accepted();
        let refused = world.by("admin", "PATCH", &parent, dropped.clone()).await;
        refused.refused(422, &[&format!("PrivateCloudProfile invalid: team/new{round}")]);
        world.by("admin", "DELETE", &format!("{profiles}/new{round}"), Value::Null).await.accepted();
        while world.by("admin", "GET", &format!("{profiles}/new{round}"), Value::Null).await.code != 404 {
            tokio::task::yield_now().await;
        }

        let path = format!("{profiles}/changed");
        let named = json!({"spec": {"kubernetes": (versions.clone())}});
        world.by("admin", "PATCH", &path, named).await.accepted();
        world.by("admin", "PATCH", &parent, dropped.clone()).await.refused(422, &["team/changed"]);
        world.by("admin", "PATCH", &path, json!({"spec": {"kubernetes": null}})).await.accepted();
        // It does not stand in the way any more.
        world.by("admin", "PATCH", &parent, dropped.clone()).await.accepted();
        world.by("admin", "PATCH", &parent, json!({"spec": (parent_spec())})).await.accepted();
    }
}

/// Of many who change the same profile, and name no version of it, each gets its turn and none is turned away.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_that_come_together_are_all_made() {
    const MANY: usize = 48;
    let world = World::new().await;
    world.parent().await;
    let profiles = of("team", "privatecloudprofiles");
    world.post(&profiles, private("mine", json!({"parent": "central"}))).await.accepted();
    let world = Arc::new(world);
    for path in [format!("{PROFILES}/central"), format!("{profiles}/mine")] {
        let all = (0..MANY).map(|number| {
            let (world, path) = (world.clone(), path.clone());
            let noted = json!({"metadata": {"annotations": {(format!("example.com/n{number}")): ""}}});
            tokio::spawn(async move { world.by("admin", "PATCH", &path, noted).await })
        });
        for answer in futures::future::join_all(all.collect::<Vec<_>>()).await {
            answer.expect("an answer").accepted();
        }
        let text = world.by("admin", "GET", &path, Value::Null).await.accepted().text;
        assert!((0..MANY).all(|number| text.contains(&format!("example.com/n{number}\""))), "{text}");
    }
}
