//! Access of type OIDC that the platform makes: rights for the user of an issuer who asked, and for nobody else.

use serde_json::{Value, json};

use super::world::{World, access, cluster_of, pods, world};

/// A landscape whose clusters trust an issuer.
fn trusting(issuer: Value, types: Value) -> World {
    let mut world = world();
    let mut provider = world.store.get("ClusterProvider", "", "local").expect("there").clone();
    for (name, value) in [("oidc", issuer), ("accessTypes", types)] {
        if !value.is_null() {
            provider["status"]["profiles"][0][name] = value;
        }
    }
    world.store.put(provider);
    world
}

fn issuer() -> Value {
    json!({"issuer": "https://issuer.example.com", "clientID": "clusters", "usernamePrefix": "oidc:"})
}

fn ask(world: &mut World, type_: &str, user: &str) {
    world.store.put(access(
        "team",
        "a",
        json!({"requestRef": {"name": "own"}, "type": type_, "requestedBy": {"username": user, "groups": ["staff"]},
            "permissions": [{"namespace": "x", "rules": pods(&["get"])}]}),
    ));
}

#[test]
fn what_a_profile_supports_is_given_and_nothing_in_its_place() {
    let both = json!(["Token", "OIDC"]);
    let denied = ("Denied", "AccessTypeNotSupported");
    let granted = ("Granted", "Success");
    let with = |name: &str, value: &str| {
        let mut issuer = issuer();
        issuer[name] = json!(value);
        issuer
    };
    for (profile, types, asked, user, expect) in [
        (Value::Null, Value::Null, "Token", "jane", granted),
        (Value::Null, Value::Null, "OIDC", "jane", denied),
        (issuer(), Value::Null, "OIDC", "jane", denied),
        (issuer(), json!(["Token"]), "OIDC", "jane", denied),
        (issuer(), json!(["OIDC"]), "Token", "jane", denied),
        (Value::Null, both.clone(), "OIDC", "jane", denied),
        (issuer(), both.clone(), "OIDC", "jane", granted),
        (issuer(), both.clone(), "Token", "jane", granted),
        (issuer(), both.clone(), "OIDC", "", denied),
        (issuer(), both.clone(), "OIDC", "system:serviceaccount:team:bot", denied),
        (with("usernamePrefix", ""), both.clone(), "OIDC", "system:admin", denied),
        (with("usernamePrefix", "system:"), both.clone(), "OIDC", "jane", denied),
        (with("usernamePrefix", ""), both.clone(), "OIDC", "jane", granted),
        (with("requesterPrefix", "sso:"), both.clone(), "OIDC", "jane", denied),
        (with("requesterPrefix", "sso:"), both.clone(), "OIDC", "sso:", denied),
        (with("requesterPrefix", "sso:"), both.clone(), "OIDC", "sso:system:admin", denied),
        (with("requesterPrefix", "sso:"), both.clone(), "OIDC", "sso:jane", granted),
    ] {
        let mut world = trusting(profile.clone(), types.clone());
        ask(&mut world, asked, user);
        let status = world.expect("team", "a", expect);
        if expect == granted {
            assert_eq!(status["access"]["type"], asked, "never another type than was asked for");
        } else {
            assert!(world.inside.is_empty() && world.secrets.is_empty(), "{profile} {types} {asked} {user:?}");
        }
    }
}

#[test]
fn rights_go_to_the_user_who_asked_and_to_no_group() {
    let mut world = trusting(issuer(), json!(["OIDC"]));
    ask(&mut world, "OIDC", "jane");
    let status = world.expect("team", "a", ("Granted", "Success"));
    assert!(status["access"].get("notAfter").is_none(), "nothing of it ends by itself: {status}");
    let uid = cluster_of(&world, "own")["uid"].as_str().expect("a UID").to_owned();
    let objects = &world.inside[&uid];
    let subjects: Vec<&Value> = objects.values().filter_map(|object| object.get("subjects")).collect();
    assert_eq!(subjects, [&json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "oidc:jane"}])]);
    assert!(objects.keys().all(|(kind, key)| kind != "ServiceAccount" && key.name != "allot-access"), "{objects:?}");
    world.store.delete(&("AccessRequest".to_owned(), allotment_core::write::ObjectKey::new("team", "a")));
    world.run("team", "a");
    let left: Vec<&str> = world.inside[&uid].keys().map(|place| place.0.as_str()).collect();
    assert_eq!(left, ["Namespace"], "rights went, the namespace stays");
    assert!(world.secrets.is_empty());
}

#[test]
fn another_type_takes_the_first_one_away_with_its_secret() {
    let mut world = trusting(issuer(), json!(["Token", "OIDC"]));
    ask(&mut world, "Token", "jane");
    world.expect("team", "a", ("Granted", "Success"));
    for (type_, then) in [("OIDC", "describe"), ("Token", "mint 500")] {
        let before = world.done.len();
        let generation =
            world.store.get("AccessRequest", "team", "a").expect("there")["metadata"]["generation"].clone();
        let generation = generation.as_i64().expect("a number") + 1;
        let patch = json!({"metadata": {"generation": generation}, "spec": {"type": type_}});
        world.store.edit("AccessRequest", "team", "a", &patch);
        let status = world.expect("team", "a", ("Granted", "Success"));
        assert_eq!(status["access"]["type"], type_);
        let done = &world.done[before..];
        let at = |what: &str| done.iter().position(|done| done == what);
        assert!(at("delete Secret") < at(then) && at("delete Secret").is_some(), "{done:?}");
        assert_eq!(done.iter().any(|done| done == "delete ServiceAccount"), type_ == "OIDC", "{done:?}");
        assert_eq!(world.secrets.len(), 1);
    }
}

#[test]
fn another_issuer_is_named_in_the_secret_and_one_that_is_not_published_changes_nothing() {
    let mut world = trusting(issuer(), json!(["OIDC"]));
    ask(&mut world, "OIDC", "jane");
    world.expect("team", "a", ("Granted", "Success"));
    let mut provider = world.store.get("ClusterProvider", "", "local").expect("there").clone();
    provider["status"]["profiles"][0]["oidc"]["issuer"] = json!("https://other.example.com");
    world.store.put(provider.clone());
    world.expect("team", "a", ("Granted", "Success"));
    let issuers: Vec<_> = world.secrets.values().filter_map(|secret| secret.issuer.clone()).collect();
    assert_eq!(issuers, [("https://other.example.com".to_owned(), "clusters".to_owned())]);
    let before = (world.inside.clone(), world.secrets.clone());
    provider["status"]["profiles"] = json!([]);
    world.store.put(provider);
    world.expect("team", "a", ("Granted", "Success"));
    world.store.edit("AccessRequest", "team", "a", &json!({"status": null}));
    world.expect("team", "a", ("Granted", "Success"));
    assert_eq!((world.inside.clone(), world.secrets.clone()), before);
}

#[test]
fn a_cluster_that_moves_is_told_in_secrets_of_either_type_at_the_next_look() {
    for (type_, then) in [("Token", "mint 500"), ("OIDC", "describe")] {
        let mut world = trusting(issuer(), json!(["Token", "OIDC"]));
        ask(&mut world, type_, "jane");
        world.expect("team", "a", ("Granted", "Success"));
        let before = world.done.len();
        world.endpoint = "there".to_owned();
        // Before a token would be renewed: at 400 s, and a look is due after 600.
        world.looks.clear();
        world.expect("team", "a", ("Granted", "Success"));
        assert_eq!(world.done[before..], [then], "{type_}");
        assert!(world.secrets.values().all(|secret| secret.endpoint == "there"));
        let again = world.run("team", "a").expect("it is looked at again");
        assert_eq!(world.done.len(), before + 1, "written once");
        assert!(again.as_second() <= world.store.now + 600);
    }
}

#[test]
fn other_scopes_are_told_in_the_secret_and_stay_while_nobody_tells_them() {
    let mut world = trusting(issuer(), json!(["OIDC"]));
    ask(&mut world, "OIDC", "jane");
    world.expect("team", "a", ("Granted", "Success"));
    let mut provider = world.store.get("ClusterProvider", "", "local").expect("there").clone();
    provider["status"]["profiles"][0]["oidc"]["extraScopes"] = json!(["email", "groups"]);
    world.store.put(provider);
    world.expect("team", "a", ("Granted", "Success"));
    let scopes = |world: &World| world.secrets.values().next().expect("there").extra_scopes.clone();
    assert_eq!(scopes(&world), ["email", "groups"]);
    withdraw(&mut world);
    world.endpoint = "there".to_owned();
    world.looks.clear();
    world.expect("team", "a", ("Granted", "Success"));
    assert_eq!(scopes(&world), ["email", "groups"]);
    assert!(world.secrets.values().all(|secret| secret.endpoint == "there"));
}

/// The profile is published no more.
fn withdraw(world: &mut World) {
    let mut provider = world.store.get("ClusterProvider", "", "local").expect("there").clone();
    provider["status"]["profiles"] = json!([]);
    world.store.put(provider);
}

fn edit(world: &mut World, generation: i64, spec: &Value) {
    let patch = json!({"metadata": {"generation": generation}, "spec": spec});
    world.store.edit("AccessRequest", "team", "a", &patch);
}

#[test]
fn while_its_profile_is_not_published_access_follows_its_spec_for_the_user_who_has_it() {
    let at = |place: &str, verbs: &[&str]| json!({"namespace": place, "rules": pods(verbs)});
    for (asked, expect) in [
        (json!([at("x", &["list"])]), vec!["x list"]),
        (json!([at("y", &["get"])]), vec!["y get"]),
        (json!([at("x", &["get", "list", "watch"])]), vec!["x get", "x list", "x watch"]),
        (json!([]), vec![]),
    ] {
        let mut world = trusting(issuer(), json!(["OIDC"]));
        ask(&mut world, "OIDC", "jane");
        edit(&mut world, 1, &json!({"permissions": [at("x", &["get", "list"])]}));
        world.expect("team", "a", ("Granted", "Success"));
        withdraw(&mut world);
        edit(&mut world, 2, &json!({ "permissions": asked }));
        let status = world.expect("team", "a", ("Granted", "Success"));
        assert_eq!(status["observedGeneration"], 2);
        let uid = cluster_of(&world, "own")["uid"].as_str().expect("a UID").to_owned();
        let rights: Vec<String> = world
            .effective(&uid)
            .into_iter()
            .flat_map(|(place, rule)| rule.verbs.into_iter().map(move |verb| format!("{place} {verb}")))
            .collect();
        assert_eq!(rights, expect, "{asked}");
        let users = world.inside[&uid].values().filter_map(|object| object.get("subjects"));
        assert!(users.into_iter().all(|subjects| subjects[0]["name"] == "oidc:jane"), "nobody else");
    }
}

#[test]
fn another_type_of_which_nobody_knows_the_issuer_takes_away_what_there_was() {
    let mut world = trusting(issuer(), json!(["Token", "OIDC"]));
    ask(&mut world, "Token", "jane");
    world.expect("team", "a", ("Granted", "Success"));
    withdraw(&mut world);
    edit(&mut world, 2, &json!({"type": "OIDC"}));
    let status = world.expect("team", "a", ("Denied", "AccessTypeNotSupported"));
    assert!(status.get("access").is_none() && world.secrets.is_empty(), "{status}");
    let uid = cluster_of(&world, "own")["uid"].as_str().expect("a UID").to_owned();
    let left: Vec<&str> =
        world.inside[&uid].keys().map(|place| place.0.as_str()).filter(|kind| *kind != "Namespace").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_lost_status_says_nothing_of_a_cluster_that_does_not_answer() {
    let mut world = trusting(issuer(), json!(["OIDC"]));
    ask(&mut world, "OIDC", "jane");
    world.expect("team", "a", ("Granted", "Success"));
    withdraw(&mut world);
    let uid = cluster_of(&world, "own")["uid"].as_str().expect("a UID").to_owned();
    world.silent.insert(uid.clone());
    edit(&mut world, 2, &json!({"permissions": []}));
    let status = world.expect("team", "a", ("Granted", "Success"));
    assert_eq!(status["observedGeneration"], 1, "what was granted, and not what nobody did");
    world.store.edit("AccessRequest", "team", "a", &json!({"status": null}));
    world.expect("team", "a", ("Pending", "NoAdminAccess"));
    world.silent.clear();
    let status = world.expect("team", "a", ("Granted", "Success"));
    assert!(status["observedGeneration"] == 2 && world.effective(&uid).is_empty(), "{status}");
}

#[test]
fn on_a_shared_cluster_a_tenant_has_identities_of_its_own_only() {
    let mut world = trusting(issuer(), json!(["Token", "OIDC"]));
    let spec = json!({"requestRef": {"name": "shared"}, "type": "OIDC", "requestedBy": {"username": "jane"},
        "permissions": [{"namespace": "foo-x", "rules": pods(&["get"])}]});
    world.store.put(access("team", "a", spec));
    let status = world.expect("team", "a", ("Denied", "AccessTypeNotSupported"));
    assert!(status["message"].as_str().is_some_and(|text| text.contains("prefix")), "{status}");
}
