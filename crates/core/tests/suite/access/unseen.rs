//! Whose the names are that begin with a tenant's prefix, where somebody else than the platform let the tenant in.

use allotment_core::write::ObjectKey;
use serde_json::json;

use super::delegated::{edit_profile, outside, turn};
use super::world::{World, access, cluster_of, pods};

#[test]
fn what_a_tenant_made_under_a_providers_access_is_its_own_when_the_platform_makes_the_access() {
    let mut world = outside();
    let ask = |world: &mut World, name: &str| {
        let permissions = json!([{"namespace": "foo-app", "rules": pods(&["get"])}]);
        world.store.put(access("team", name, json!({"requestRef": {"name": "shared"}, "permissions": permissions})));
        world.run("team", name);
    };
    let home = cluster_of(&world, "shared");
    let text = |field: &str| home[field].as_str().expect("a text").to_owned();
    let unseen = |world: &World| {
        let cluster = world.store.get("Cluster", &text("namespace"), &text("name")).expect("it is there");
        cluster["spec"]["tenants"][0]["unseen"] == json!(true)
    };
    ask(&mut world, "a");
    assert!(unseen(&world), "nobody is let in yet");
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
    assert!(!unseen(&world));
    let namespace = ObjectKey::new("", "foo-app");
    world
        .inside
        .entry(text("uid"))
        .or_default()
        .insert(("Namespace".to_owned(), namespace), json!({"metadata": {"name": "foo-app"}}));
    edit_profile(&mut world, &json!({"accessBy": "Platform"}));
    ask(&mut world, "b");
    world.expect("team", "b", ("Granted", "Success"));
}
