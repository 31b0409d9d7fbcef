//! Access that a provider makes: what it is told, what of its answers counts, and what becomes of what it made.

use allotment_api::requests::AccessType;
use allotment_core::access::SecretFacts;
use allotment_core::write::ObjectKey;
use allotment_machinery::rbac::{PolicyRule, uncovered};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{World, access, cluster_of, pods, rule_of, world};
use crate::store::purpose;

const FINALIZER: &str = "access.cluster.openmcp.cloud/local";
const LABEL: &str = "cluster.openmcp.cloud/access-by";
const SECRET: &str = "cluster.openmcp.cloud/access-secret";
/// How long the double's tokens last, in seconds.
const LASTS: i64 = 3600;

/// What the double does otherwise than it should.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Faults {
    generation: i64,
    type_: Option<&'static str>,
    cluster: bool,
    secret: Option<&'static str>,
    empty: bool,
    runs: bool,
    no_access: bool,
    ends: Option<i64>,
}

/// A landscape whose provider makes access itself.
pub(super) fn outside() -> World {
    let mut world = world();
    let types = json!(["Token", "OIDC"]);
    edit_profile(&mut world, &json!({"accessBy": "Provider", "accessTypes": types}));
    world
}

pub(super) fn edit_profile(world: &mut World, change: &Value) {
    let mut provider = world.store.get("ClusterProvider", "", "local").expect("there").clone();
    let profile = &mut provider["status"]["profiles"][0];
    for (name, value) in change.as_object().expect("an object") {
        profile[name.as_str()] = value.clone();
    }
    world.store.put(provider);
}

fn ready(world: &mut World, ready: bool) {
    let status = if ready {
        json!({"ready": true, "reason": "AllGood"})
    } else {
        json!({"ready": false, "reason": "HeartbeatMissed", "message": "no beat"})
    };
    world.store.edit("ClusterProvider", "", "local", &json!({ "status": status }));
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let list = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    list.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// One turn of the provider on what it last saw of an AccessRequest, as the contract has it; it may see something old.
fn provider_turn(world: &mut World, seen: &Value, faults: Faults) {
    let (namespace, name) = ("team", seen["metadata"]["name"].as_str().expect("a name").to_owned());
    let Some(current) = world.store.get("AccessRequest", namespace, &name).cloned() else { return };
    if current["metadata"]["uid"] != seen["metadata"]["uid"] || seen["metadata"]["labels"][LABEL] != "local" {
        return;
    }
    let uid = seen["metadata"]["uid"].as_str().expect("a UID").to_owned();
    let home = seen["metadata"]["annotations"]["cluster.openmcp.cloud/live-in"].as_str().unwrap_or_default().to_owned();
    let approved = condition(seen, "Approved");
    let wanted = approved["status"] == "True"
        && approved["observedGeneration"] == seen["metadata"]["generation"]
        && seen["metadata"].get("deletionTimestamp").is_none();
    let finalizers = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let held = finalizers(&current).contains(&json!(FINALIZER));
    let generation = seen["metadata"]["generation"].as_i64().expect("a generation") + faults.generation;
    let say = |world: &mut World, status: &str, access: Value| {
        let Some(current) = world.store.get("AccessRequest", namespace, &name) else { return };
        let mut conditions = current["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "Provided");
        conditions.push(json!({"type": "Provided", "status": status, "reason": "Made", "message": "",
            "observedGeneration": generation, "lastTransitionTime": world.store.time().to_string()}));
        let patch = json!({"status": {"conditions": conditions, "access": access}});
        world.store.edit("AccessRequest", namespace, &name, &patch);
    };
    if !wanted {
        if !held {
            return;
        }
        for objects in world.inside.values_mut() {
            objects
                .retain(|_, object| object["metadata"]["labels"]["cluster.openmcp.cloud/access-request"] != json!(uid));
        }
        let made = seen["metadata"]["annotations"][SECRET].as_str().unwrap_or_default();
        if let Some(secret) = world.secrets.get_mut(&ObjectKey::new(namespace, made)) {
            secret.holds = None;
        }
        say(world, "False", Value::Null);
        let current = world.store.get("AccessRequest", namespace, &name).expect("there").clone();
        let rest: Vec<Value> = finalizers(&current).into_iter().filter(|one| one != FINALIZER).collect();
        world.store.edit("AccessRequest", namespace, &name, &json!({"metadata": {"finalizers": rest}}));
        return;
    }
    if current["metadata"].get("deletionTimestamp").is_some() && !held {
        return; // The API lets nobody add a finalizer any more.
    }
    if current["metadata"]["labels"][LABEL] != "local" && !held {
        return; // Admission lets it hold only what it is asked to fulfil as of now.
    }
    if !held {
        let mut all = finalizers(&current);
        all.push(json!(FINALIZER));
        world.store.edit("AccessRequest", namespace, &name, &json!({"metadata": {"finalizers": all}}));
    }
    make(world, seen, &uid, &home);
    let ends = faults.ends.unwrap_or(LASTS);
    let type_ = faults.type_.unwrap_or_else(|| {
        seen["spec"]["type"].as_str().map_or("Token", |text| if text == "OIDC" { "OIDC" } else { "Token" })
    });
    let made = seen["metadata"]["annotations"][SECRET].as_str().expect("told with the approval").to_owned();
    let secret = faults.secret.map_or(made.clone(), str::to_owned);
    let end = Timestamp::from_second(world.store.now + ends).expect("a time");
    // It may write that one, and make none.
    if let Some(there) = world.secrets.get_mut(&ObjectKey::new(namespace, made)) {
        there.holds = (!faults.empty).then_some(if type_ == "OIDC" { AccessType::Oidc } else { AccessType::Token });
        there.fault = faults.runs.then(|| "it uses users[0].user.exec, which is not allowed".to_owned());
    }
    let cluster = if faults.cluster { "another".to_owned() } else { home };
    let told =
        json!({"type": type_, "secretRef": {"name": secret}, "clusterUID": cluster, "notAfter": end.to_string()});
    say(world, "True", if faults.no_access { Value::Null } else { told });
}

/// Identity, roles and bindings inside, exactly what is asked for.
fn make(world: &mut World, seen: &Value, uid: &str, home: &str) {
    let inside = world.inside.entry(home.to_owned()).or_default();
    let labels = json!({"cluster.openmcp.cloud/access-request": uid});
    inside.retain(|_, object| object["metadata"]["labels"] != labels);
    let name = format!("access-{uid}");
    let mut put = |kind: &str, namespace: &str, more: Value| {
        let mut object =
            json!({"kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": labels, "uid": name}});
        object.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        inside.insert((kind.to_owned(), ObjectKey::new(namespace, &name)), object);
    };
    put("ServiceAccount", "allot-access", json!({}));
    for permission in seen["spec"]["permissions"].as_array().into_iter().flatten() {
        let namespace = permission["namespace"].as_str().unwrap_or_default();
        let (role, binding) =
            if namespace.is_empty() { ("ClusterRole", "ClusterRoleBinding") } else { ("Role", "RoleBinding") };
        put(role, namespace, json!({"rules": permission["rules"]}));
        let subject = json!({"kind": "ServiceAccount", "namespace": "allot-access", "name": name});
        put(binding, namespace, json!({"roleRef": {"kind": role, "name": name}, "subjects": [subject]}));
    }
}

fn current(world: &World) -> Value {
    world.store.get("AccessRequest", "team", "a").expect("there").clone()
}

pub(super) fn turn(world: &mut World) {
    let seen = current(world);
    provider_turn(world, &seen, Faults::default());
}

fn ask(world: &mut World, more: &Value) {
    let mut spec = json!({"requestRef": {"name": "own"}, "permissions": [{"namespace": "x", "rules": pods(&["get"])}]});
    spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    world.store.put(access("team", "a", spec));
}

fn home(world: &World) -> String {
    cluster_of(world, "own")["uid"].as_str().expect("a UID").to_owned()
}

#[test]
fn the_platform_approves_the_provider_provides_and_only_then_it_is_granted() {
    let mut world = outside();
    ask(&mut world, &json!({}));
    world.expect("team", "a", ("Pending", "NotProvided"));
    let told = current(&world);
    assert_eq!(told["metadata"]["labels"][LABEL], "local");
    let approved = condition(&told, "Approved");
    assert_eq!((&approved["status"], &approved["observedGeneration"]), (&json!("True"), &json!(1)));
    assert!(world.done.is_empty() && world.inside.is_empty(), "the platform makes nothing itself: {:?}", world.done);
    let [role, binding] = world.rights.as_slice() else { panic!("{:?}", world.rights) };
    assert_eq!(
        role["rules"],
        json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a-kubeconfig"],
            "verbs": ["get", "update", "patch"]}]),
        "no rule is without the name, and none creates"
    );
    assert_eq!(told["metadata"]["annotations"][SECRET], "a-kubeconfig");
    let uid = told["metadata"]["uid"].as_str().expect("a UID");
    assert_eq!(binding["subjects"][0]["name"], "provider-local");
    assert_eq!(role["metadata"]["ownerReferences"][0]["uid"], uid, "they go with it");
    turn(&mut world);
    let status = world.expect("team", "a", ("Granted", "Success"));
    assert_eq!(status["access"]["secretRef"]["name"], "a-kubeconfig", "what the provider says stays");
    assert_eq!(condition(&current(&world), "Ready")["status"], "True");
    let before = current(&world);
    let again = world.run("team", "a").expect("its token ends");
    assert_eq!(again.as_second(), world.store.now + LASTS);
    assert_eq!(current(&world), before, "deciding again changes nothing");
}

#[test]
fn what_the_provider_says_counts_only_where_it_is_what_was_approved() {
    let good = Faults::default();
    for (faults, spec, told) in [
        (Faults { generation: -1, ..good }, json!({}), "its last answer is to generation 0"),
        (Faults { type_: Some("OIDC"), ..good }, json!({}), "type is OIDC, and Token was asked for"),
        (Faults { type_: Some("Token"), ..good }, json!({"type": "OIDC"}), "type is Token, and OIDC was asked for"),
        (Faults { cluster: true, ..good }, json!({}), "clusterUID is not that of Cluster"),
        (Faults { secret: Some("other"), ..good }, json!({}), "names \"other\", and Secret \"a-kubeconfig\" was made"),
        (Faults { empty: true, ..good }, json!({}), "Secret \"a-kubeconfig\" is not what"),
        (
            Faults { runs: true, ..good },
            json!({}),
            "key kubeconfig of Secret \"a-kubeconfig\" cannot be trusted: it uses",
        ),
        (Faults { runs: true, ..good }, json!({"type": "OIDC"}), "users[0].user.exec"),
        (Faults { no_access: true, ..good }, json!({}), "status.access is absent"),
        (Faults { ends: Some(0), ..good }, json!({}), "is over"),
        (Faults { ends: Some(600), ..good }, json!({"ttl": "5m"}), "is after the end of spec.ttl"),
        (Faults { ends: Some(300), ..good }, json!({"ttl": "5m"}), ""),
        (good, json!({"type": "OIDC"}), ""),
    ] {
        let mut world = outside();
        ask(&mut world, &spec);
        world.run("team", "a");
        let seen = current(&world);
        provider_turn(&mut world, &seen, faults);
        let expect = if told.is_empty() { ("Granted", "Success") } else { ("Pending", "NotProvided") };
        let status = world.expect("team", "a", expect);
        let message = status["message"].as_str().expect("a message");
        assert!(message.contains(told), "{faults:?}: {message}");
    }
}

#[test]
fn a_secret_of_somebody_else_is_not_the_providers_to_touch() {
    let facts = |owned: bool, opaque: bool| SecretFacts {
        name: "a-kubeconfig".to_owned(),
        uid: "theirs".to_owned(),
        owned,
        opaque,
        cluster_uid: String::new(),
        holds: Some(AccessType::Token),
        endpoint: String::new(),
        fault: None,
        issuer: None,
        extra_scopes: Vec::new(),
        service_account_uid: String::new(),
        issued_at: Timestamp::UNIX_EPOCH,
        expires_at: Timestamp::MAX,
    };
    // Such as the administrator's kubeconfig of a Cluster API cluster of that name, or one that the server fills with a
    // token though it says that it is the request's.
    for theirs in [facts(false, true), facts(true, false)] {
        let mut world = outside();
        world.secrets.insert(ObjectKey::new("team", "a-kubeconfig"), theirs.clone());
        ask(&mut world, &json!({}));
        world.expect("team", "a", ("Pending", "NotProvided"));
        let other = format!("access-{}", current(&world)["metadata"]["uid"].as_str().expect("a UID"));
        assert_eq!(current(&world)["metadata"]["annotations"][SECRET], other);
        assert_eq!(world.rights[0]["rules"][0]["resourceNames"], json!([other]));
        turn(&mut world);
        let status = world.expect("team", "a", ("Granted", "Success"));
        assert_eq!(status["access"]["secretRef"]["name"], other);
        assert_eq!(world.secrets[&ObjectKey::new("team", "a-kubeconfig")], theirs);
    }
}

#[test]
fn a_secret_that_somebody_deleted_is_made_again_and_the_provider_fills_it() {
    let mut world = outside();
    ask(&mut world, &json!({}));
    world.run("team", "a");
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
    world.secrets.clear();
    let status = world.expect("team", "a", ("Pending", "NotProvided"));
    assert!(status["message"].as_str().is_some_and(|text| text.contains("is not what access")), "{status}");
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
}

#[test]
fn no_longer_allowed_is_said_at_once_and_what_was_made_is_waited_for() {
    let mut world = outside();
    ask(&mut world, &json!({}));
    world.run("team", "a");
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
    let old = current(&world);
    let lower = |rules: Value| purpose("mcp", json!({"dedicated": true, "permissionCeiling": rules}));
    world.store.put(lower(json!([])));
    let status = world.expect("team", "a", ("Denied", "ExceedsCeiling"));
    assert!(status.get("access").is_some(), "it says what the provider has to take away");
    assert_eq!(condition(&current(&world), "Approved")["status"], "False");
    let lives = "cluster.openmcp.cloud/live-in";
    assert!(current(&world)["metadata"]["annotations"].get(lives).is_some(), "the Cluster knows whom it waits for");
    // The provider lags behind and makes it once more on what it saw before: it is believed in nothing.
    provider_turn(&mut world, &old, Faults::default());
    world.expect("team", "a", ("Denied", "ExceedsCeiling"));
    turn(&mut world);
    let status = world.expect("team", "a", ("Denied", "ExceedsCeiling"));
    let now = current(&world);
    assert!(status.get("access").is_none() && now["metadata"]["labels"].get(LABEL).is_none(), "{now}");
    assert!(now["metadata"]["annotations"].get(lives).is_none());
    assert!(world.secrets.is_empty() && world.effective(&home(&world)).is_empty());
    world.store.put(lower(Value::Null));
    world.expect("team", "a", ("Pending", "NotProvided"));
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
}

#[test]
fn what_it_said_of_an_approval_before_is_none_of_the_next_one() {
    let mut world = outside();
    ask(&mut world, &json!({}));
    world.run("team", "a");
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
    world.store.put(purpose("mcp", json!({"dedicated": true, "permissionCeiling": []})));
    world.expect("team", "a", ("Denied", "ExceedsCeiling"));
    world.store.put(purpose("mcp", json!({"dedicated": true})));
    // It may be half way through taking things away: its old word does not make this Granted.
    world.expect("team", "a", ("Pending", "NotProvided"));
    assert_eq!(*condition(&current(&world), "Provided"), Value::Null);
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
}

#[test]
fn a_provider_that_does_not_answer_holds_up_no_deletion_and_what_is_left_is_listed() {
    for (is_ready, patience) in [(true, 60), (false, 10)] {
        let mut world = outside();
        ask(&mut world, &json!({}));
        world.run("team", "a");
        turn(&mut world);
        world.expect("team", "a", ("Granted", "Success"));
        ready(&mut world, is_ready);
        world.expect("team", "a", ("Granted", "Success"));
        world.store.delete(&("AccessRequest".to_owned(), ObjectKey::new("team", "a")));
        let again = world.run("team", "a").expect("its time ends");
        assert_eq!(again.as_second(), world.store.now + patience);
        assert!(world.done.is_empty(), "{:?}", world.done);
        world.store.now = again.as_second();
        world.run("team", "a");
        assert!(world.store.get("AccessRequest", "team", "a").is_none(), "its finalizer held up the deletion");
        assert_eq!(world.done, ["delete Secret", "leave behind"]);
    }
}

#[test]
fn force_waits_for_nobody() {
    let mut world = outside();
    ask(&mut world, &json!({}));
    world.run("team", "a");
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
    let force = json!({"metadata": {"annotations": {"cluster.openmcp.cloud/force-delete": "true"}}});
    world.store.edit("AccessRequest", "team", "a", &force);
    world.store.delete(&("AccessRequest".to_owned(), ObjectKey::new("team", "a")));
    world.run("team", "a");
    assert!(world.store.get("AccessRequest", "team", "a").is_none());
    assert_eq!(world.done, ["delete Secret", "leave behind"]);
}

#[test]
fn a_provider_that_comes_back_takes_away_what_was_left_and_is_asked_no_more() {
    let mut world = outside();
    ask(&mut world, &json!({}));
    world.run("team", "a");
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
    ready(&mut world, false);
    world.store.put(purpose("mcp", json!({"dedicated": true, "permissionCeiling": []})));
    let again = world.run("team", "a").expect("its time ends");
    world.store.now = again.as_second();
    let status = world.expect("team", "a", ("Denied", "ExceedsCeiling"));
    assert_eq!(world.done, ["delete Secret", "leave behind"]);
    assert!(status.get("access").is_none(), "{status}");
    let held = current(&world);
    assert_eq!(held["metadata"]["labels"][LABEL], "local", "the provider finds it by its label");
    assert!(held["metadata"]["annotations"].get("cluster.openmcp.cloud/live-in").is_none(), "nothing waits for it");
    ready(&mut world, true);
    turn(&mut world);
    world.expect("team", "a", ("Denied", "ExceedsCeiling"));
    assert!(current(&world)["metadata"]["labels"].get(LABEL).is_none());
    assert!(world.effective(&home(&world)).is_empty());
}

#[test]
fn a_provider_that_is_gone_or_not_ready_is_named() {
    for (change, told) in [("gone", "there is no ClusterProvider"), ("silent", "HeartbeatMissed")] {
        let mut world = outside();
        ask(&mut world, &json!({}));
        world.expect("team", "a", ("Pending", "NotProvided"));
        match change {
            "gone" => world.store.delete(&("ClusterProvider".to_owned(), ObjectKey::cluster_wide("local"))),
            _ => ready(&mut world, false),
        }
        let status = world.expect("team", "a", ("Pending", "NotProvided"));
        assert!(status["message"].as_str().is_some_and(|text| text.contains(told)), "{status}");
    }
}

#[test]
fn a_profile_that_changes_who_makes_access_has_the_other_one_take_its_own_away_first() {
    let mut world = outside();
    ask(&mut world, &json!({}));
    world.run("team", "a");
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
    edit_profile(&mut world, &json!({"accessBy": "Platform"}));
    world.expect("team", "a", ("Pending", "NotProvided"));
    assert!(world.done.is_empty(), "the platform makes nothing beside it: {:?}", world.done);
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
    assert!(world.done.iter().any(|done| done.starts_with("mint")), "{:?}", world.done);
    edit_profile(&mut world, &json!({"accessBy": "Provider"}));
    world.expect("team", "a", ("Pending", "NotProvided"));
    assert!(world.effective(&home(&world)).is_empty(), "taken away before it is asked");
    let holds: Vec<_> = world.secrets.values().map(|secret| secret.holds).collect();
    assert_eq!(holds, [None], "it has an empty one to fill");
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
}

#[test]
fn a_wiped_status_is_made_again_and_revokes_nothing() {
    let mut world = outside();
    ask(&mut world, &json!({}));
    world.run("team", "a");
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
    let before = world.effective(&home(&world));
    world.store.edit("AccessRequest", "team", "a", &json!({"status": null}));
    world.expect("team", "a", ("Pending", "NotProvided"));
    assert_eq!(world.effective(&home(&world)), before);
    turn(&mut world);
    world.expect("team", "a", ("Granted", "Success"));
}

#[derive(Clone, Debug)]
enum Step {
    Platform,
    Provider { lag: usize },
    Permissions(usize),
    Ceiling(Option<usize>),
    Type(&'static str),
    Wipe,
    Late(i64),
    Silent(bool),
    Delete,
    Forge,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Platform),
        4 => (0..4_usize).prop_map(|lag| Step::Provider { lag }),
        1 => (0..3_usize).prop_map(Step::Permissions),
        2 => prop::option::of(0..3_usize).prop_map(Step::Ceiling),
        1 => prop::sample::select(&["Token", "OIDC"][..]).prop_map(Step::Type),
        1 => Just(Step::Wipe),
        1 => (1..90_i64).prop_map(Step::Late),
        1 => any::<bool>().prop_map(Step::Silent),
        1 => Just(Step::Delete),
        1 => Just(Step::Forge),
    ];
    prop::collection::vec(step, 1..40)
}

fn verbs(index: usize) -> Value {
    pods([&["get"][..], &["get", "list"], &["*"]][index])
}

fn ceiling_of(world: &World) -> Option<Vec<PolicyRule>> {
    let ceiling = &world.store.get("Purpose", "", "mcp").expect("there")["spec"]["permissionCeiling"];
    ceiling.as_array().map(|rules| rules.iter().map(rule_of).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_nothing_is_granted_that_is_not_approved_and_nothing_outlives_it(steps in steps()) {
        let mut world = outside();
        ask(&mut world, &json!({}));
        let home = home(&world);
        let mut seen: Vec<Value> = Vec::new();
        let mut turns = 0;
        for step in &steps {
            let there = world.store.get("AccessRequest", "team", "a").cloned();
            seen.extend(there.clone());
            match step {
                Step::Platform => _ = world.run("team", "a"),
                Step::Provider { lag } => {
                    if let Some(old) = seen.len().checked_sub(lag + 1).and_then(|at| seen.get(at)).cloned() {
                        provider_turn(&mut world, &old, Faults::default());
                        turns += 1;
                    }
                }
                Step::Ceiling(ceiling) => {
                    let rules = ceiling.map_or(Value::Null, verbs);
                    world.store.edit("Purpose", "", "mcp", &json!({"spec": {"permissionCeiling": rules}}));
                }
                Step::Late(seconds) => world.store.now += seconds,
                Step::Silent(silent) => ready(&mut world, !silent),
                Step::Permissions(_) | Step::Type(_) | Step::Wipe | Step::Delete | Step::Forge if there.is_none() => {}
                Step::Permissions(index) => {
                    let generation = there.map_or(1, |it| it["metadata"]["generation"].as_i64().unwrap_or(1) + 1);
                    let permissions = json!([{"namespace": "x", "rules": verbs(*index)}]);
                    let patch = json!({"metadata": {"generation": generation}, "spec": {"permissions": permissions}});
                    world.store.edit("AccessRequest", "team", "a", &patch);
                }
                Step::Type(type_) => {
                    let generation = there.map_or(1, |it| it["metadata"]["generation"].as_i64().unwrap_or(1) + 1);
                    let patch = json!({"metadata": {"generation": generation}, "spec": {"type": type_}});
                    world.store.edit("AccessRequest", "team", "a", &patch);
                }
                Step::Wipe => world.store.edit("AccessRequest", "team", "a", &json!({"status": null})),
                Step::Delete => world.store.delete(&("AccessRequest".to_owned(), ObjectKey::new("team", "a"))),
                Step::Forge => {
                    // As if admission had let it through: all that says that it is granted.
                    let forged = |kind: &str| json!({"type": kind, "status": "True", "reason": "Success", "message": "",
                        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
                    let access = json!({"type": "Token", "secretRef": {"name": "theirs"}, "clusterUID": home,
                        "notAfter": "2099-01-01T00:00:00Z"});
                    let status = json!({"status": "Granted", "reason": "Success", "access": access,
                        "conditions": [forged("Ready"), forged("Approved"), forged("Provided")]});
                    world.store.edit("AccessRequest", "team", "a", &json!({ "status": status }));
                }
            }
            if matches!(step, Step::Platform) && let Some(object) = world.store.get("AccessRequest", "team", "a") {
                let granted = object["status"]["status"] == "Granted";
                let named = object["status"]["access"]["secretRef"]["name"].as_str().unwrap_or_default();
                let own = world.secrets.get(&ObjectKey::new("team", named)).is_some_and(|secret| secret.owned);
                prop_assert!(!granted || (turns > 0 && own), "granted with nothing to show for it: {object}");
                if let (true, Some(held)) = (granted, ceiling_of(&world)) {
                    let wanted: Vec<PolicyRule> = object["spec"]["permissions"][0]["rules"].as_array()
                        .into_iter().flatten().map(rule_of).collect();
                    prop_assert!(uncovered(&held, &wanted).is_empty(), "granted beyond the ceiling: {object}");
                }
            }
        }
        // All answer again: what is there is what is approved, and nothing else.
        ready(&mut world, true);
        for _ in 0..6 {
            world.run("team", "a");
            if let Some(object) = world.store.get("AccessRequest", "team", "a").cloned() {
                provider_turn(&mut world, &object, Faults::default());
            }
        }
        world.run("team", "a");
        let Some(object) = world.store.get("AccessRequest", "team", "a").cloned() else {
            let left = world.done.iter().any(|done| done == "leave behind");
            prop_assert!(world.secrets.is_empty(), "a Secret outlived its AccessRequest");
            prop_assert!(left || world.effective(&home).is_empty(), "what is left is listed nowhere: {:?}", world.done);
            return Ok(());
        };
        let effective = world.effective(&home);
        let granted = object["status"]["status"] == "Granted";
        prop_assert_eq!(granted, !effective.is_empty(), "{}", object);
        // An empty one may wait for a provider that is still to be heard.
        let filled = world.secrets.values().any(|secret| secret.holds.is_some());
        prop_assert_eq!(granted, filled, "{}", object);
        prop_assert_eq!(condition(&object, "Approved")["status"] == "True", granted, "{}", object);
        let wanted: Vec<PolicyRule> = object["spec"]["permissions"][0]["rules"].as_array()
            .into_iter().flatten().map(rule_of).collect();
        for (_, rule) in effective {
            prop_assert!(uncovered(&wanted, std::slice::from_ref(&rule)).is_empty(), "{rule} was not asked for");
            if let Some(held) = ceiling_of(&world) {
                prop_assert!(uncovered(&held, std::slice::from_ref(&rule)).is_empty(), "{rule} exceeds the ceiling");
            }
        }
        let before = world.store.log.len();
        world.run("team", "a");
        prop_assert_eq!(world.store.log.len(), before, "deciding again writes");
    }
}
