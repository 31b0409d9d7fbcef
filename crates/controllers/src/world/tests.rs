//! In which order what is due is handed out, and which Secret answers an AccessRequest.

use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use super::*;

fn world() -> World {
    World::new(Duration::from_secs(1800))
}

#[tokio::test(start_paused = true)]
async fn requests_are_handed_out_by_priority_and_age_however_many_came_before() {
    let world = world();
    for index in (0..40).rev() {
        let request = json!({"metadata": {"namespace": "team", "name": format!("r{index:02}"), "uid": format!("u{index}"),
            "resourceVersion": format!("{}", 100 - index), "creationTimestamp": format!("2026-01-01T00:00:{index:02}Z")},
            "spec": {"purposes": ["mcp"], "priority": if index == 37 { 100 } else { 0 }}});
        world.watched(Event::Apply(serde_json::from_value::<ClusterRequest>(request).expect("a request")));
    }
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.push(world.queues.requests.take().await.name);
    }
    assert_eq!(taken, ["r37", "r00", "r01"]);
}

fn secret(name: &str, owner_uid: &str, version: &str) -> AccessSecret {
    let owner = json!({"apiVersion": "v1", "kind": "AccessRequest", "name": "a", "uid": owner_uid});
    let secret = json!({"metadata": {"namespace": "team", "name": name, "uid": name, "resourceVersion": version,
        "ownerReferences": [owner]}});
    AccessSecret::read(&serde_json::from_value::<Secret>(secret).expect("a Secret"))
}

#[test]
fn the_secret_of_an_access_request_is_its_own_whatever_comes_and_goes_beside_it() {
    let world = world();
    let key = ObjectKey::new("team", "a");
    let found = |uid: &str| world.read().secret_of(&key, uid).map(|secret| secret.name_any());
    world.watched(Event::Apply(secret("a-kubeconfig", "new", "1")));
    world.watched(Event::Apply(secret("access-old", "old", "2")));
    assert_eq!(found("new").as_deref(), Some("a-kubeconfig"));
    world.watched(Event::Delete(secret("access-old", "old", "2")));
    assert_eq!(found("new").as_deref(), Some("a-kubeconfig"));
    world.watched(Event::Apply(secret("a-earlier", "old", "3")));
    assert_eq!(found("new").as_deref(), Some("a-kubeconfig"));
    world.watched(Event::Delete(secret("a-kubeconfig", "new", "1")));
    assert_eq!(found("new").as_deref(), Some("a-earlier"), "one that says it answers it is told of");
    world.watched(Event::Delete(secret("a-earlier", "old", "3")));
    assert_eq!(found("new"), None);
}
