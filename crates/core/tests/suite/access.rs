//! Who gets which access, what lies in the Cluster for it, and when it ends.

mod delegated;
mod oidc;
mod unseen;
mod world;

use allotment_api::reasons::AccessReason;
use allotment_core::access::guard::table;
use allotment_core::access::{AccessObserved, AccessPlan, Inside, NamesAllowed, decide_access, names_allowed};
use allotment_core::write::ObjectKey;
use allotment_machinery::rbac::{PolicyRule, uncovered};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use self::world::{LIFETIME, World, access, cluster_of, pods, rule_of, world};
use crate::store::{landscape, purpose, request};

#[test]
fn access_has_exactly_what_was_asked_for_and_the_secret_says_until_when() {
    let mut world = world();
    world.store.put(access(
        "team",
        "a",
        json!({"requestRef": {"name": "own"}, "permissions": [
        {"namespace": "mine", "rules": pods(&["get"])}, {"namespace": "mine", "rules": pods(&["list"])},
        {"rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}]}]}),
    ));
    let again = world.run("team", "a").expect("it is renewed");
    let status = world.expect("team", "a", ("Granted", "Success"));
    let cluster = cluster_of(&world, "own");
    assert_eq!(status["access"]["clusterUID"], cluster["uid"]);
    assert_eq!(status["access"]["secretRef"]["name"], "a-kubeconfig");
    assert_eq!(again.as_second(), world.store.now + LIFETIME * 80 / 100);
    assert_eq!(status["access"]["renewAfter"], json!(again.to_string()));
    let effective = world.effective(cluster["uid"].as_str().expect("a UID"));
    let words: Vec<String> = effective.iter().map(|(place, rule)| format!("{place}: {rule}")).collect();
    assert_eq!(
        words,
        [
            ": {APIGroups:[\"\"], Resources:[\"namespaces\"], Verbs:[\"list\"]}",
            "mine: {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}",
            "mine: {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}",
        ]
    );
    let minted = world.done.iter().filter(|done| done.starts_with("mint")).count();
    assert_eq!(minted, 1);
    let before = world.done.len();
    world.run("team", "a");
    assert_eq!(world.done.len(), before, "deciding again changes nothing");

    world.store.now = again.as_second();
    world.run("team", "a");
    assert_eq!(world.done[before..], ["mint 500"], "renewed, and nothing else");
}

#[test]
fn what_is_in_the_way_is_told() {
    let own = |permissions: Value| json!({"requestRef": {"name": "own"}, "permissions": permissions});
    let any = json!([{"rules": pods(&["get"])}]);
    for (spec, expect) in [
        (json!({"requestRef": {"name": "nope"}, "permissions": any}), ("Pending", "RequestNotFound")),
        (json!({"clusterRef": {"name": "nope"}, "permissions": any}), ("Pending", "ClusterNotFound")),
        (json!({"requestRef": {"name": "own", "namespace": "other"}, "permissions": any}), ("Denied", "NotAllowed")),
        (json!({"requestRef": {"name": "own", "namespace": "other"}, "permissions": []}), ("Denied", "NotAllowed")),
        (json!({"requestRef": {"name": "denied"}, "permissions": any}), ("Pending", "RequestNotGranted")),
        (
            json!({"requestRef": {"name": "own"}, "type": "OIDC", "permissions": any}),
            ("Denied", "AccessTypeNotSupported"),
        ),
        (json!({"requestRef": {"name": "shared"}, "permissions": any}), ("Denied", "ExceedsCeiling")),
        (
            json!({"requestRef": {"name": "shared"}, "permissions": [{"namespace": "bar-x", "rules": pods(&["get"])}]}),
            ("Denied", "ExceedsCeiling"),
        ),
        (
            json!({"requestRef": {"name": "shared"}, "permissions": [{"namespace": "foo-x", "rules": pods(&["*"])}]}),
            ("Granted", "Success"),
        ),
        (own(any.clone()), ("Granted", "Success")),
    ] {
        let mut world = world();
        world.store.put(request("team", "denied", json!({"purposes": ["nope"]})));
        world.settle_requests();
        world.store.put(access("team", "a", spec));
        world.expect("team", "a", expect);
    }
}

#[test]
fn by_cluster_reference_a_shared_cluster_has_no_prefix_and_a_dedicated_one_all_namespaces() {
    for (which, expect) in [("shared", ("Denied", "ExceedsCeiling")), ("own", ("Granted", "Success"))] {
        let mut world = world();
        world.store.edit(
            "Purpose",
            "",
            "mcp",
            &json!({"spec": {"permissionCeiling": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "scope": "PrefixedNamespaces"}]}}),
        );
        let cluster = cluster_of(&world, which);
        let namespace = cluster["namespace"].as_str().expect("a namespace").to_owned();
        world.store.put(access(
            &namespace,
            "a",
            json!({"clusterRef": {"name": cluster["name"]},
            "permissions": [{"namespace": "foo-x", "rules": pods(&["get"])}]}),
        ));
        world.expect(&namespace, "a", expect);
    }
}

#[test]
fn policies_let_other_namespaces_in_as_far_as_they_go_and_taking_one_away_revokes() {
    let mut world = world();
    let cluster = cluster_of(&world, "own");
    let uid = cluster["uid"].as_str().expect("a UID").to_owned();
    world.store.put(access(
        "guest",
        "a",
        json!({"requestRef": {"name": "own", "namespace": "team"}, "permissions": [
        {"namespace": "x", "rules": pods(&["get", "list"])}]}),
    ));
    let policy = |name: &str, verbs: &[&str], from: Value| {
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"from": [from], "names": ["own"], "permissions": [{"rules": pods(verbs)}]}})
    };
    world.expect("guest", "a", ("Denied", "NotAllowed"));
    world.store.put(policy("one", &["get"], json!({"namespace": "guest"})));
    world.expect("guest", "a", ("Denied", "NotAllowed"));
    world.store.put(policy("two", &["list"], json!({"namespaceSelector": {"matchLabels": {"trust": "yes"}}})));
    world.expect("guest", "a", ("Granted", "Success"));
    assert_eq!(world.effective(&uid).len(), 1);
    world.store.delete(&("AccessPolicy".to_owned(), ObjectKey::new("team", "two")));
    world.expect("guest", "a", ("Denied", "NotAllowed"));
    assert!(world.effective(&uid).is_empty());
    assert!(world.secrets.is_empty());
    assert!(world.status("guest", "a").get("access").is_none());
}

#[test]
fn a_ceiling_that_is_lowered_revokes_and_raised_grants_again() {
    let mut world = world();
    world.store.put(access(
        "team",
        "a",
        json!({"requestRef": {"name": "own"}, "permissions": [{"rules": pods(&["*"])}]}),
    ));
    world.expect("team", "a", ("Granted", "Success"));
    world.store.edit(
        "Purpose",
        "",
        "mcp",
        &json!({"spec": {"permissionCeiling": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]}}),
    );
    world.expect("team", "a", ("Denied", "ExceedsCeiling"));
    assert_eq!(world.secrets.len(), 0);
    world.store.edit("Purpose", "", "mcp", &json!({"spec": {"permissionCeiling": null}}));
    world.expect("team", "a", ("Granted", "Success"));
}

#[test]
fn narrowing_takes_away_before_it_gives() {
    let mut world = world();
    world.store.put(access(
        "team",
        "a",
        json!({"requestRef": {"name": "own"}, "permissions": [
        {"namespace": "a", "rules": pods(&["get"])}, {"namespace": "b", "rules": pods(&["get", "list"])},
        {"rules": pods(&["get"])}]}),
    ));
    world.expect("team", "a", ("Granted", "Success"));
    let before = world.done.len();
    world.store.edit(
        "AccessRequest",
        "team",
        "a",
        &json!({"metadata": {"generation": 2}, "spec": {"permissions": [
        {"namespace": "a", "rules": pods(&["get", "list"])}, {"namespace": "b", "rules": pods(&["get"])},
        {"namespace": "c", "rules": pods(&["get"])}]}}),
    );
    world.expect("team", "a", ("Granted", "Success"));
    assert_eq!(
        world.done[before..],
        [
            "delete ClusterRoleBinding",
            "delete ClusterRole",
            "apply Role b",
            "create Namespace",
            "apply Role a",
            "create Role",
            "create RoleBinding"
        ]
    );
    assert_eq!(world.status("team", "a")["observedGeneration"], 2);
}

#[test]
fn what_is_changed_inside_is_found_by_a_look_and_repaired() {
    let mut world = world();
    world.store.put(access(
        "team",
        "a",
        json!({"requestRef": {"name": "own"}, "permissions": [{"rules": pods(&["get"])}]}),
    ));
    world.expect("team", "a", ("Granted", "Success"));
    let uid = cluster_of(&world, "own")["uid"].as_str().expect("a UID").to_owned();
    let (before, granted) = (world.effective(&uid), world.store.now);
    let ours = |world: &World, kind: &str| {
        world.inside[&uid]
            .keys()
            .find(|(have, key)| have == kind && key.name.starts_with("access-"))
            .cloned()
            .expect(kind)
    };
    // A token lasts longer than it takes to look: nothing but the look would find it.
    for (kind, repaired) in
        [("ClusterRole", vec!["create ClusterRole"]), ("ClusterRoleBinding", vec!["create ClusterRoleBinding"])]
    {
        world.secrets.values_mut().for_each(|secret| secret.expires_at = Timestamp::MAX);
        world.expect("team", "a", ("Granted", "Success"));
        let place = ours(&world, kind);
        world.inside.get_mut(&uid).expect("inside").remove(&place);
        let done = world.done.len();
        world.store.now += 60;
        let again = world.run("team", "a").expect("a look");
        assert_eq!(world.done.len(), done, "not looked at yet");
        world.store.now = again.as_second();
        world.run("team", "a");
        assert_eq!(world.done[done..], repaired);
        assert_eq!(world.effective(&uid), before);
    }
    assert!(world.store.now - granted <= 2 * 600 + 120, "looks come every ten minutes");

    let (done, revision) = (world.done.len(), world.store.log.len());
    for _ in 0..5 {
        world.store.now = world.run("team", "a").expect("a look").as_second();
    }
    assert_eq!(
        (world.done.len(), world.store.log.len()),
        (done, revision),
        "looks that find all in order write nothing"
    );
}

#[test]
fn what_a_process_made_inside_for_an_older_generation_is_looked_at_again() {
    let mut world = world();
    world.store.put(access(
        "team",
        "a",
        json!({"requestRef": {"name": "own"}, "permissions": [{"rules": pods(&["get", "list"])}]}),
    ));
    world.expect("team", "a", ("Granted", "Success"));
    let uid = cluster_of(&world, "own")["uid"].as_str().expect("a UID").to_owned();
    let (wide, looks) = (world.inside.clone(), world.looks.clone());
    let narrow = json!({"metadata": {"generation": 2}, "spec": {"permissions": [{"rules": pods(&["get"])}]}});
    world.store.edit("AccessRequest", "team", "a", &narrow);
    world.expect("team", "a", ("Granted", "Success"));
    let narrowed = world.effective(&uid);

    // Another process, which last looked at generation 1, undid that before it knew of generation 2.
    (world.inside, world.looks) = (wide, looks);
    world.expect("team", "a", ("Granted", "Success"));
    assert_eq!(world.effective(&uid), narrowed, "more than what is asked for stays inside");
}

#[test]
fn deletion_takes_identity_then_secret_and_then_lets_go() {
    let mut world = world();
    world.store.put(access(
        "team",
        "a",
        json!({"requestRef": {"name": "own"}, "permissions": [
        {"namespace": "x", "rules": pods(&["get"])}]}),
    ));
    world.expect("team", "a", ("Granted", "Success"));
    let before = world.done.len();
    world.store.delete(&("AccessRequest".to_owned(), ObjectKey::new("team", "a")));
    world.run("team", "a");
    assert!(world.store.get("AccessRequest", "team", "a").is_none());
    assert_eq!(
        world.done[before..],
        ["delete ServiceAccount", "delete RoleBinding", "delete Role", "delete Secret", "forget"]
    );
    let uid = cluster_of(&world, "own")["uid"].as_str().expect("a UID").to_owned();
    let left: Vec<&str> = world.inside[&uid].keys().map(|place| place.0.as_str()).collect();
    assert_eq!(left, ["Namespace", "Namespace"], "namespaces are kept");
}

#[test]
fn deletion_ends_though_the_cluster_does_not_answer() {
    let mut world = world();
    world.store.put(access("team", "a", json!({"requestRef": {"name": "own"}, "permissions": []})));
    world.expect("team", "a", ("Granted", "Success"));
    world.silent.insert(cluster_of(&world, "own")["uid"].as_str().expect("a UID").to_owned());
    world.store.delete(&("AccessRequest".to_owned(), ObjectKey::new("team", "a")));
    let before = world.done.len();
    world.run("team", "a");
    assert!(world.store.get("AccessRequest", "team", "a").is_none());
    assert_eq!(world.done[before..], ["delete Secret", "leave behind"]);
}

#[test]
fn a_silent_or_unhealthy_cluster_revokes_nothing_and_begins_nothing() {
    let mut world = world();
    let cluster = cluster_of(&world, "own");
    world.store.put(access("team", "a", json!({"requestRef": {"name": "own"}, "permissions": []})));
    world.expect("team", "a", ("Granted", "Success"));
    world.store.edit("Cluster", "team", cluster["name"].as_str().expect("a name"), &json!({"status": {"conditions": [
        {"type": "ClusterHealthy", "status": "False", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Provisioned", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}));
    world.expect("team", "a", ("Granted", "Success"));
    let mut fresh = self::world();
    fresh.silent.insert(cluster_of(&fresh, "own")["uid"].as_str().expect("a UID").to_owned());
    fresh.store.put(access("team", "a", json!({"requestRef": {"name": "own"}, "permissions": []})));
    fresh.expect("team", "a", ("Pending", "NoAdminAccess"));
}

#[test]
fn a_shared_cluster_that_keeps_nobody_to_prefixes_gives_no_access_and_takes_none_that_was_given() {
    let mut world = world();
    world.store.put(access("team", "a", json!({"requestRef": {"name": "own"}, "permissions": []})));
    let says = |world: &mut World| {
        world.scheduler.observe(&world.store, usize::MAX);
        let object = world.store.get("AccessRequest", "team", "a").expect("there").clone();
        let request = serde_json::from_value(object).expect("an AccessRequest");
        let observed = AccessObserved {
            request: &request,
            inside: Inside::Unguarded(AccessReason::PrefixNotEnforced, "its API server is too old"),
            secret: None,
            looked: None,
            now: world.store.time(),
            token_lifetime_secs: 3600,
        };
        decide_access(&world.scheduler.snapshot, &observed)
    };
    let AccessPlan::WriteStatus(write) = says(&mut world) else { panic!("it is told") };
    world.store.apply(&write).expect("nobody else writes");
    let status = world.store.get("AccessRequest", "team", "a").expect("there")["status"].clone();
    assert_eq!((&status["status"], &status["reason"]), (&json!("Pending"), &json!("PrefixNotEnforced")));
    let message = status["message"].as_str().expect("a message");
    assert!(message.contains("is shared, and its API server is too old"), "{message}");
    assert!(matches!(says(&mut world), AccessPlan::Done { .. }), "told once");
    world.expect("team", "a", ("Granted", "Success"));
    assert!(matches!(says(&mut world), AccessPlan::Done { .. }), "what was granted stays");
}

#[test]
fn narrower_permissions_take_rights_away_though_nobody_is_kept_to_prefixes() {
    let own = json!([{"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "list"]}]);
    for (place, asked, expect, observed) in [
        ("foo-a", pods(&["get"]), vec!["foo-a: pods get"], 2),
        ("foo-a", json!([]), vec![], 2),
        ("foo-b", pods(&["get"]), vec![], 1),
        // What is swapped is taken and not given; what both have in common stays.
        ("foo-a", pods(&["get", "watch"]), vec!["foo-a: pods get"], 1),
        ("foo-a", pods(&["*"]), vec!["foo-a: pods get", "foo-a: pods list"], 1),
        ("foo-a", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]), vec![], 1),
    ] {
        let mut world = world();
        let permissions = |place: &str, rules: &Value| json!([{"namespace": place, "rules": rules}]);
        let spec = json!({"requestRef": {"name": "shared"}, "permissions": permissions("foo-a", &own)});
        world.store.put(access("team", "a", spec));
        world.expect("team", "a", ("Granted", "Success"));
        let uid = cluster_of(&world, "shared")["uid"].as_str().expect("a UID").to_owned();
        world.unguarded = true;
        let patch = json!({"metadata": {"generation": 2}, "spec": {"permissions": permissions(place, &asked)}});
        world.store.edit("AccessRequest", "team", "a", &patch);
        let status = world.expect("team", "a", ("Granted", "Success"));
        let singles = |world: &World| {
            let singles = world.effective(&uid).into_iter().flat_map(|(place, rule)| {
                let words = |rule: PolicyRule| format!("{place}: {} {}", rule.resources[0], rule.verbs[0]);
                rule.break_down().map(words).collect::<Vec<_>>()
            });
            singles.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(singles(&world), expect, "{place} {asked}");
        assert_eq!(status["observedGeneration"], observed, "{place} {asked}: said of what was done only");
        world.unguarded = false;
        let status = world.expect("team", "a", ("Granted", "Success"));
        assert_eq!(status["observedGeneration"], 2);
        let rules = asked.as_array().expect("a list").iter().map(rule_of);
        let all: Vec<String> = rules
            .flat_map(|rule| rule.break_down().collect::<Vec<_>>())
            .map(|rule| format!("{place}: {} {}", rule.resources[0], rule.verbs[0]))
            .collect();
        assert_eq!(singles(&world), all);
    }
}

#[test]
fn at_the_end_of_its_ttl_the_identity_goes_until_the_spec_changes() {
    let mut world = world();
    world.store.put(access("team", "a", json!({"requestRef": {"name": "own"}, "ttl": "5m", "permissions": []})));
    let end = world.run("team", "a").expect("it ends");
    assert_eq!(end.as_second(), world.store.now + 300);
    assert!(world.done.contains(&"mint 300".to_owned()), "no token outlives the access: {:?}", world.done);
    assert_eq!(world.status("team", "a")["access"]["notAfter"], json!(end.to_string()));
    world.store.now = end.as_second();
    world.expect("team", "a", ("Denied", "Expired"));
    assert!(world.secrets.is_empty());
    world.store.now += 10_000;
    world.expect("team", "a", ("Denied", "Expired"));
    world.store.edit("AccessRequest", "team", "a", &json!({"metadata": {"generation": 2}, "spec": {"ttl": "6m"}}));
    world.expect("team", "a", ("Granted", "Success"));
}

#[test]
fn a_deleted_request_revokes_and_a_new_one_of_its_name_is_granted_anew() {
    let mut world = world();
    world.store.put(access("team", "a", json!({"requestRef": {"name": "own"}, "permissions": []})));
    world.expect("team", "a", ("Granted", "Success"));
    let first = cluster_of(&world, "own")["uid"].clone();
    world.store.delete(&("ClusterRequest".to_owned(), ObjectKey::new("team", "own")));
    world.settle_requests();
    assert!(world.store.get("ClusterRequest", "team", "own").is_some(), "waits for the access");
    world.expect("team", "a", ("Pending", "RequestNotFound"));
    world.settle_requests();
    assert!(world.store.get("ClusterRequest", "team", "own").is_none());
    world.store.put(request("team", "own", json!({"purposes": ["mcp"]})));
    world.settle_requests();
    world.expect("team", "a", ("Pending", "ClusterNotReady"));
    world.store.provision();
    world.settle_requests();
    let status = world.expect("team", "a", ("Granted", "Success"));
    assert_ne!(status["access"]["clusterUID"], first, "a new Cluster, and new credentials");
}

#[test]
fn a_forged_grant_gives_no_access() {
    let mut world = world();
    let victim = cluster_of(&world, "own");
    world.store.put(request("guest", "mine", json!({"purposes": ["nope"]})));
    world.settle_requests();
    let uid = world.store.get("ClusterRequest", "guest", "mine").expect("there")["metadata"]["uid"].clone();
    world.store.put(json!({"apiVersion": "cluster.openmcp.cloud/v1", "kind": "ClusterRequestGrant",
        "metadata": {"name": "mine", "namespace": "guest"},
        "spec": {"clusterRef": victim, "requestUID": uid, "resolved": {"purposes": ["mcp"], "dedicated": true}}}));
    world.store.put(access(
        "guest",
        "a",
        json!({"requestRef": {"name": "mine"}, "permissions": [{"rules": pods(&["*"])}]}),
    ));
    world.expect("guest", "a", ("Pending", "RequestNotGranted"));
    assert!(world.inside.is_empty());
}

fn words(among: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_set(prop::sample::select(among), 1..3)
        .prop_map(|set| set.into_iter().map(str::to_owned).collect())
}

fn rules() -> impl Strategy<Value = Value> {
    let rule =
        (words(&["", "apps", "*"]), words(&["pods", "secrets", "*"]), words(&["get", "list", "*"]), any::<bool>());
    let rule = rule.prop_map(|(groups, resources, verbs, prefixed)| {
        json!({"apiGroups": groups, "resources": resources, "verbs": verbs,
            "scope": if prefixed { "PrefixedNamespaces" } else { "Any" }})
    });
    prop::collection::vec(rule, 0..3).prop_map(|rules| json!(rules))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn effective_permissions_are_within_what_was_asked_for_and_the_ceiling(
        asked in prop::collection::vec((prop::option::of(prop::sample::select(&["foo-a", "bar-b"][..])), rules()), 0..3),
        ceiling in prop::option::of(rules()),
        raised in prop::option::of(rules()),
    ) {
        let mut store = landscape();
        store.put(purpose("p", json!({"permissionCeiling": ceiling})));
        store.put(request("team", "r", json!({"purposes": ["p"], "prefix": "foo-"})));
        let mut world = World::new(store);
        let uid = cluster_of(&world, "r")["uid"].as_str().expect("a UID").to_owned();
        for name in ["foo-a", "bar-b"] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name}});
            let place = ("Namespace".to_owned(), ObjectKey::cluster_wide(name));
            world.inside.entry(uid.clone()).or_default().insert(place, object);
        }
        let permissions: Vec<Value> = asked.iter().map(|(namespace, rules)| {
            let mut rules = rules.clone();
            for rule in rules.as_array_mut().expect("a list") {
                rule.as_object_mut().expect("a rule").remove("scope");
            }
            match namespace {
                Some(namespace) => json!({"namespace": namespace, "rules": rules}),
                None => json!({"rules": rules}),
            }
        }).collect();
        world.store.put(access("team", "a", json!({"requestRef": {"name": "r"}, "permissions": permissions})));
        for ceiling in [ceiling, raised] {
            world.store.edit("Purpose", "", "p", &json!({"spec": {"permissionCeiling": ceiling}}));
            world.run("team", "a");
            for (namespace, rule) in world.effective(&uid) {
                let wanted: Vec<PolicyRule> = permissions.iter()
                    .filter(|permission| permission["namespace"].as_str().unwrap_or_default() == namespace)
                    .flat_map(|permission| permission["rules"].as_array().cloned().unwrap_or_default())
                    .map(|rule| rule_of(&rule)).collect();
                prop_assert!(uncovered(&wanted, std::slice::from_ref(&rule)).is_empty(), "{rule} was not asked for");
                if let Some(ceiling) = &ceiling {
                    let held: Vec<PolicyRule> = ceiling.as_array().into_iter().flatten()
                        .filter(|rule| rule["scope"] == "Any" || namespace.starts_with("foo-"))
                        .map(rule_of).collect();
                    prop_assert!(uncovered(&held, std::slice::from_ref(&rule)).is_empty(), "{rule} exceeds the ceiling in {namespace:?}");
                }
            }
            let granted = world.status("team", "a")["status"] == "Granted";
            prop_assert_eq!(granted, world.secrets.len() == 1);
            prop_assert!(granted || world.effective(&uid).is_empty());
        }
    }
}

#[test]
fn nobody_is_given_access_by_a_prefix_that_names_of_others_begin_with() {
    let mut world = world();
    let home = cluster_of(&world, "shared");
    let text = |field: &str| home[field].as_str().expect("a text").to_owned();
    let (key, uid) = (ObjectKey::new(text("namespace"), text("name")), text("uid"));
    let allowed = |world: &World, user: &str| {
        let names = names_allowed(&world.scheduler.snapshot, &key, &uid, &format!("system:serviceaccount:{user}"));
        let table = table(&world.scheduler.snapshot, &key, &uid).table().expect("the Cluster is shared");
        assert_eq!(table.is_empty(), names == NamesAllowed::Any, "{user}");
        names
    };
    let namespace =
        |name: &str| (("Namespace".to_owned(), ObjectKey::new("", name)), json!({"metadata": {"name": name}}));
    let (place, theirs) = namespace("foo-theirs");
    world.inside.entry(uid.clone()).or_default().insert(place.clone(), theirs);
    let asked =
        json!({"requestRef": {"name": "shared"}, "permissions": [{"namespace": "foo-a", "rules": pods(&["get"])}]});
    world.store.put(access("team", "a", asked.clone()));
    let status = world.expect("team", "a", ("Pending", "PrefixTaken"));
    let message = status["message"].as_str().expect("a message");
    assert!(message.contains("kind Namespace") && message.contains("\"foo-\""), "{message}");
    assert!(!message.contains("foo-theirs"), "whose names there are is nobody's to know: {message}");
    assert_eq!(world.inside[&uid].len(), 1, "nothing was made");
    assert_eq!(allowed(&world, "foo-theirs:default"), NamesAllowed::Any, "what was there keeps to nothing");

    world.inside.get_mut(&uid).expect("inside").remove(&place);
    world.expect("team", "a", ("Granted", "Success"));
    assert!(matches!(allowed(&world, "foo-a:default"), NamesAllowed::Prefix { .. }));
    // From now on what bears it is the tenant's.
    let (place, own) = namespace("foo-own");
    world.inside.get_mut(&uid).expect("inside").insert(place, own);
    world.store.put(access("team", "b", asked.clone()));
    world.expect("team", "b", ("Granted", "Success"));

    // A platform that lost the note, as one from a backup, takes nothing away, and finds the prefix to be the tenant's.
    let unseen = |world: &World| {
        let cluster = world.store.get("Cluster", &key.namespace, &key.name).expect("it is there");
        cluster["spec"]["tenants"].clone()
    };
    let mut tenants = unseen(&world);
    tenants[0]["unseen"] = json!(true);
    world.store.edit("Cluster", &key.namespace, &key.name, &json!({"spec": {"tenants": tenants.clone()}}));
    world.looks.clear();
    let done = world.done.len();
    world.expect("team", "a", ("Granted", "Success"));
    let taken = world.done[done..].iter().filter(|done| done.starts_with("delete")).collect::<Vec<_>>();
    assert!(taken.is_empty(), "{taken:?}");
    assert_eq!(unseen(&world)[0]["unseen"], Value::Null);

    // Who was not granted access by then waits until somebody says whose it is.
    world.store.edit("Cluster", &key.namespace, &key.name, &json!({"spec": {"tenants": tenants.clone()}}));
    world.store.put(access("team", "c", asked));
    world.expect("team", "c", ("Pending", "PrefixTaken"));
    let own = world.inside.get_mut(&uid).expect("inside").values_mut();
    own.filter(|object| object["metadata"]["name"] == "foo-own" || object["metadata"]["name"] == "foo-a").for_each(
        |object| object["metadata"]["labels"] = json!({"cluster.openmcp.cloud/tenant": tenants[0]["requestUID"]}),
    );
    world.expect("team", "c", ("Granted", "Success"));
}
