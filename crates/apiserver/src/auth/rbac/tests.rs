//! What roles and bindings allow, by tables and against an evaluation that knows no index.

use std::sync::Arc;

use allotment_machinery::json;
use allotment_machinery::json::{Value, parse};
use allotment_machinery::object::Encoded;
use allotment_machinery::rbac::{PolicyRule, ResourceRequest};
use allotment_store::{Entry, Key, Resource, Revision, Tenant};
use proptest::prelude::*;

use super::aggregate::aggregated_rules;
use super::binding::{Binding, Subject};
use super::policy::Policy;
use super::{RBAC_GROUP, bootstrap_policy};
use crate::auth::{Action, Decision, UserInfo, What};

fn entry(plural: &str, object: &Value) -> Arc<Entry> {
    let text = |field: &str| object.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default();
    let (resource, tenant) = (Resource::new(plural, RBAC_GROUP), Tenant::platform());
    let key = Key { tenant, resource, namespace: text("namespace").into(), name: text("name").into() };
    // Right behind the brace; these objects have no UID.
    Arc::new(Entry::of(key, Revision(1), Encoded { bytes: object.to_vec(), splice: 1 }))
}

fn add(policy: &mut Policy, plural: &str, object: &Value) {
    let entry = entry(plural, object);
    let name = (Arc::clone(&entry.namespace), Arc::clone(&entry.name));
    if plural.ends_with("bindings") {
        policy.put_binding(name.clone(), Binding::of(object, &name.0));
    } else {
        policy.put_role(name, entry);
    }
}

fn role(namespace: &str, name: &str, rules: Value) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name}, "rules": rules})
}

fn binding(namespace: &str, name: &str, role_kind: &str, role: &str, subjects: Value) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": role},
        "subjects": subjects
    })
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..UserInfo::default()
    }
}

/// `verb group/resource/subresource name @namespace`, or `verb /path`.
fn action(text: &str) -> Action<'_> {
    let mut words = text.split(' ');
    let verb = words.next().expect("a verb");
    let what = words.next().expect("a resource or path");
    if what.starts_with('/') {
        return Action { namespace: "", what: What::Path { verb, path: what } };
    }
    let mut parts = what.split('/');
    let api_group = parts.next().filter(|group| *group != "core").unwrap_or_default();
    let resource = parts.next().expect("a resource");
    let subresource = parts.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let name = rest.iter().find(|word| !word.starts_with('@')).copied().unwrap_or_default();
    let namespace = rest.iter().find_map(|word| word.strip_prefix('@')).unwrap_or_default();
    Action { namespace, what: What::Resource(ResourceRequest { verb, api_group, resource, subresource, name }) }
}

fn allowed(policy: &Policy, who: &UserInfo, what: &str) -> bool {
    matches!(policy.decide(who, &action(what)), Decision::Allow { .. })
}

fn bob_may(rules: Value) -> Policy {
    let mut policy = Policy::default();
    add(&mut policy, "roles", &role("ns", "r", rules));
    add(&mut policy, "rolebindings", &binding("ns", "b", "Role", "r", json!([{"kind": "User", "name": "bob"}])));
    policy
}

#[test]
fn a_role_allows_what_it_says_in_its_namespace() {
    let policy = bob_may(json!([
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log", "configmaps"]},
        {"verbs": ["update"], "apiGroups": ["apps"], "resources": ["*/scale"]},
        {"verbs": ["delete"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]},
        {"verbs": ["*"], "apiGroups": ["example.com"], "resources": ["*"]}
    ]));
    let bob = user("bob", &[]);
    for (what, expect) in [
        ("get core/configmaps a @ns", true),
        ("get core/configmaps a @other", false),
        ("get core/configmaps a", false),
        ("list core/configmaps @ns", false),
        ("get core/pods a @ns", false),
        ("get core/pods/log a @ns", true),
        ("get core/pods/exec a @ns", false),
        ("get core/configmaps/status a @ns", false),
        ("update apps/deployments/scale a @ns", true),
        ("update apps/deployments a @ns", false),
        ("update core/replicationcontrollers/scale a @ns", false),
        ("delete core/secrets mine @ns", true),
        ("delete core/secrets yours @ns", false),
        ("deletecollection core/secrets @ns", false),
        ("delete core/secrets @ns", false),
        ("patch example.com/things/status a @ns", true),
        ("patch example.org/things a @ns", false),
        ("get /version", false),
    ] {
        assert_eq!(allowed(&policy, &bob, what), expect, "{what}");
    }
    assert!(!allowed(&policy, &user("eve", &["bob"]), "get core/configmaps a @ns"), "a group is no user");
}

#[test]
fn paths_are_allowed_by_cluster_roles_bound_to_the_cluster() {
    let mut policy = Policy::default();
    let rules = json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/apis/*"]}]);
    add(&mut policy, "clusterroles", &role("", "paths", rules));
    let everyone = json!([{"kind": "Group", "name": "g"}]);
    add(&mut policy, "clusterrolebindings", &binding("", "b", "ClusterRole", "paths", everyone.clone()));
    let member = user("x", &["g"]);
    for (what, expect) in [
        ("get /healthz", true),
        ("get /healthz/etcd", false),
        ("get /apis/", true),
        ("get /apis/apps/v1", true),
        ("get /apis", false),
        ("post /healthz", false),
    ] {
        assert_eq!(allowed(&policy, &member, what), expect, "{what}");
    }
    let mut local = Policy::default();
    add(&mut local, "clusterroles", &role("", "paths", json!([{"verbs": ["get"], "nonResourceURLs": ["*"]}])));
    add(&mut local, "rolebindings", &binding("ns", "b", "ClusterRole", "paths", everyone));
    assert!(!allowed(&local, &member, "get /healthz"), "a RoleBinding gives no right to paths");
}

#[test]
fn service_accounts_are_bound_by_name_and_by_their_groups() {
    let mut policy = Policy::default();
    let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]);
    add(&mut policy, "clusterroles", &role("", "r", rules));
    let account = |namespace: Value| json!([{"kind": "ServiceAccount", "name": "s", "namespace": namespace}]);
    let here = binding("here", "named", "ClusterRole", "r", account("home".into()));
    add(&mut policy, "rolebindings", &here);
    add(&mut policy, "rolebindings", &binding("there", "local", "ClusterRole", "r", account(Value::Null)));
    add(&mut policy, "clusterrolebindings", &binding("", "nowhere", "ClusterRole", "r", account(Value::Null)));
    let all = json!([{"kind": "Group", "name": "system:serviceaccounts:home"}]);
    add(&mut policy, "rolebindings", &binding("shared", "group", "ClusterRole", "r", all));
    let account = |namespace| UserInfo::service_account(namespace, "s", "u");
    for (who, what, expect) in [
        (account("home"), "list core/pods @here", true),
        (account("there"), "list core/pods @here", false),
        (account("there"), "list core/pods @there", true),
        (account("home"), "list core/pods @there", false),
        (account("home"), "list core/pods @shared", true),
        (account("there"), "list core/pods @shared", false),
        (account("home"), "list core/pods", false),
        (account(""), "list core/pods", false),
    ] {
        assert_eq!(allowed(&policy, &who, what), expect, "{} {what}", who.name);
    }
}

#[test]
fn decisions_say_which_binding_allowed_and_which_role_is_missing() {
    let mut policy = Policy::default();
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    add(&mut policy, "clusterroles", &role("", "r", rules));
    let subjects = json!([
        {"kind": "Group", "name": "others"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "home"},
        {"kind": "Group", "name": "system:serviceaccounts"}
    ]);
    add(&mut policy, "clusterrolebindings", &binding("", "crb", "ClusterRole", "r", subjects.clone()));
    add(&mut policy, "rolebindings", &binding("ns", "rb", "ClusterRole", "r", subjects));
    let account = UserInfo::service_account("home", "s", "u");
    let allow = |reason: &str| Decision::Allow { reason: reason.to_owned() };
    assert_eq!(
        policy.decide(&account, &action("get core/pods a @ns")),
        allow("RBAC: allowed by ClusterRoleBinding \"crb\" of ClusterRole \"r\" to ServiceAccount \"s/home\"")
    );
    policy.remove_binding(&("".into(), "crb".into()));
    assert_eq!(
        policy.decide(&account, &action("get core/pods a @ns")),
        allow("RBAC: allowed by RoleBinding \"rb/ns\" of ClusterRole \"r\" to ServiceAccount \"s/home\"")
    );
    let bob = json!([{"kind": "User", "name": "bob"}]);
    add(&mut policy, "rolebindings", &binding("ns", "x", "Role", "gone", bob.clone()));
    let none = |reason: &str| Decision::NoOpinion { reason: reason.to_owned() };
    let bob_user = user("bob", &[]);
    assert_eq!(
        policy.decide(&bob_user, &action("get core/pods a @ns")),
        none("RBAC: role.rbac.authorization.k8s.io \"gone\" not found")
    );
    add(&mut policy, "rolebindings", &binding("ns", "y", "ClusterRole", "lost", bob));
    assert_eq!(
        policy.decide(&bob_user, &action("get core/pods a @ns")),
        none(
            "RBAC: [role.rbac.authorization.k8s.io \"gone\" not found, \
             clusterrole.rbac.authorization.k8s.io \"lost\" not found]"
        )
    );
    assert_eq!(policy.decide(&bob_user, &action("get core/pods a @other")), none(""));
}

#[test]
fn a_changed_binding_forgets_whom_it_was_for() {
    let mut policy = bob_may(json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
    let (bob, eve) = (user("bob", &[]), user("eve", &[]));
    assert!(allowed(&policy, &bob, "get core/pods a @ns"));
    add(&mut policy, "rolebindings", &binding("ns", "b", "Role", "r", json!([{"kind": "User", "name": "eve"}])));
    assert!(!allowed(&policy, &bob, "get core/pods a @ns"));
    assert!(allowed(&policy, &eve, "get core/pods a @ns"));
    add(&mut policy, "roles", &role("ns", "r", json!([])));
    assert!(!allowed(&policy, &eve, "get core/pods a @ns"), "a changed role is read again");
}

fn bootstrapped() -> (Policy, Vec<(String, Value)>) {
    let mut policy = Policy::default();
    let mut objects = Vec::new();
    for made in bootstrap_policy("2026-07-01T00:00:00Z".parse().expect("a time")) {
        let object = parse(&made.body.bytes).expect("JSON");
        let plural = made.resource.as_str().trim_end_matches(&format!(".{RBAC_GROUP}")).to_owned();
        add(&mut policy, &plural, &object);
        objects.push((plural, object));
    }
    (policy, objects)
}

fn name_of(object: &Value) -> &str {
    object.at(&["metadata", "name"]).and_then(Value::as_str).expect("a name")
}

#[test]
fn the_bootstrap_policy_has_what_clients_expect() {
    let (policy, objects) = bootstrapped();
    let count = |wanted: &str| objects.iter().filter(|(plural, _)| plural == wanted).count();
    let counts = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"].map(count);
    assert_eq!(counts, [69, 50, 7, 7], "as many as kube-apiserver 1.36 makes");
    let (anyone, nobody) = (user("x", &["system:authenticated"]), user("x", &["system:unauthenticated"]));
    for (who, what, expect) in [
        (&user("x", &["system:masters"]), "delete core/nodes n", true),
        (&anyone, "get /api", true),
        (&anyone, "get /openapi/v3", true),
        (&anyone, "get /metrics", false),
        (&anyone, "create authorization.k8s.io/selfsubjectaccessreviews", true),
        (&anyone, "create authentication.k8s.io/selfsubjectreviews", true),
        (&anyone, "create authorization.k8s.io/subjectaccessreviews", false),
        (&anyone, "list core/pods @default", false),
        (&nobody, "get /version", true),
        (&nobody, "get /apis", false),
        (&UserInfo::service_account("a", "b", "c"), "get /openid/v1/jwks", true),
        (&user("system:kube-controller-manager", &[]), "list example.com/things", true),
        (
            &user("system:kube-controller-manager", &[]),
            "get core/configmaps extension-apiserver-authentication @kube-system",
            true,
        ),
    ] {
        assert_eq!(allowed(&policy, who, what), expect, "{} {what}", who.name);
    }
}

#[test]
fn the_bootstrap_policy_is_sound() {
    let (_, objects) = bootstrapped();
    let roles: Vec<&Value> =
        objects.iter().filter(|(plural, _)| plural.ends_with("roles")).map(|(_, role)| role).collect();
    for role in &roles {
        for rule in PolicyRule::list_from_json(role.get("rules")) {
            let on_paths = !rule.non_resource_urls.is_empty();
            assert!(!rule.verbs.is_empty(), "{}", name_of(role));
            assert_eq!(on_paths, rule.resources.is_empty() && rule.api_groups.is_empty(), "{}: {rule}", name_of(role));
            let words = rule.verbs.iter().chain(&rule.resources).chain(&rule.api_groups).chain(&rule.resource_names);
            assert!(words.clone().all(|word| !word.contains([' ', ',', '='])), "{}: {rule}", name_of(role));
        }
    }
    for (plural, bound) in objects.iter().filter(|(plural, _)| plural.ends_with("bindings")) {
        let wanted = bound.at(&["roleRef", "name"]).and_then(Value::as_str).expect("a role");
        let namespace = bound.at(&["metadata", "namespace"]);
        let found =
            roles.iter().any(|role| name_of(role) == wanted && role.at(&["metadata", "namespace"]) == namespace);
        assert!(found, "{plural} {} refers to {wanted}, which is absent", name_of(bound));
    }
    let mut uids: Vec<&Value> = objects.iter().filter_map(|(_, object)| object.at(&["metadata", "uid"])).collect();
    uids.sort_by_key(|uid| uid.to_string());
    uids.dedup();
    assert_eq!(uids.len(), objects.len());
    let again = bootstrap_policy("2026-07-01T00:00:00Z".parse().expect("a time"));
    let bodies: Vec<&Encoded> = again.iter().map(|entry| &entry.body).collect();
    let first: Vec<Value> = objects.into_iter().map(|(_, object)| object).collect();
    assert!(bodies.iter().zip(&first).all(|(body, object)| parse(&body.bytes).expect("JSON") == *object));
}

#[test]
fn admin_covers_edit_covers_view() {
    let (_, objects) = bootstrapped();
    let rules = |name: &str| {
        let role = objects.iter().find(|(plural, role)| plural == "clusterroles" && name_of(role) == name);
        PolicyRule::list_from_json(role.expect("the role").1.get("rules"))
    };
    let (admin, edit, view) = (rules("admin"), rules("edit"), rules("view"));
    assert!(!view.is_empty());
    for (name, held, wanted) in [
        ("edit has view", &edit, &view),
        ("admin has edit", &admin, &edit),
        ("view is what aggregates to it", &view, &rules("system:aggregate-to-view")),
    ] {
        assert_eq!(allotment_machinery::rbac::uncovered(held, wanted), [], "{name}");
    }
    assert_ne!(allotment_machinery::rbac::uncovered(&view, &edit), []);
    assert_ne!(allotment_machinery::rbac::uncovered(&edit, &admin), []);
}

#[test]
fn aggregates_take_each_rule_once_in_order_of_the_roles() {
    let get = |resource: &str| json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]});
    let part = |name: &str, label: &str, rules: Value| json!({"metadata": {"name": name, "labels": {label: "true"}}, "rules": rules});
    let select = |label: &str| json!({"matchLabels": {label: "true"}});
    let aggregate = json!({
        "metadata": {"name": "all", "labels": {"x": "true"}},
        "aggregationRule": {"clusterRoleSelectors": [(select("x")), (select("y"))]},
        "rules": [(get("old"))]
    });
    let roles = [
        part("b", "x", json!([(get("b"))])),
        part("a", "x", json!([(get("a")), (get("b"))])),
        part("c", "y", json!([(get("a")), (get("c"))])),
        part("d", "z", json!([(get("d"))])),
        aggregate.clone(),
    ];
    assert_eq!(aggregated_rules(&aggregate, &roles), Some(vec![get("a"), get("b"), get("c")]));
    assert_eq!(aggregated_rules(&roles[0], &roles), None);
}

/// Everything there is, for the evaluation without an index.
#[derive(Clone, Debug)]
struct World {
    roles: Vec<Value>,
    bindings: Vec<Value>,
}

impl World {
    fn policy(&self) -> Policy {
        let mut policy = Policy::default();
        for role in &self.roles {
            add(&mut policy, if namespace_of(role).is_empty() { "clusterroles" } else { "roles" }, role);
        }
        for bound in &self.bindings {
            let plural = if namespace_of(bound).is_empty() { "clusterrolebindings" } else { "rolebindings" };
            add(&mut policy, plural, bound);
        }
        policy
    }

    /// By looking at every binding and every rule.
    fn allows(&self, who: &UserInfo, what: &Action<'_>) -> bool {
        self.bindings.iter().any(|bound| {
            let home = namespace_of(bound);
            let in_scope = home.is_empty() || home == what.namespace;
            let applies = Subject::all_of(bound, home).iter().any(|subject| match subject {
                Subject::User(name) => *name == who.name,
                Subject::Group(name) => who.groups.contains(name),
                Subject::ServiceAccount { namespace, name } => {
                    who.name == format!("system:serviceaccount:{namespace}:{name}")
                }
            });
            let wanted = bound.at(&["roleRef", "name"]);
            let role_home = if bound.at(&["roleRef", "kind"]) == Some(&"ClusterRole".into()) { "" } else { home };
            let role = self
                .roles
                .iter()
                .find(|role| role.at(&["metadata", "name"]) == wanted && namespace_of(role) == role_home);
            let rules = PolicyRule::list_from_json(role.and_then(|role| role.get("rules")));
            in_scope && applies && rules.iter().any(|rule| what.is_allowed_by(rule))
        })
    }
}

fn namespace_of(object: &Value) -> &str {
    object.at(&["metadata", "namespace"]).and_then(Value::as_str).unwrap_or_default()
}

fn pick(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

fn some_rule() -> impl Strategy<Value = Value> {
    let list = |words| prop::collection::vec(pick(words), 1..3);
    let names = prop::collection::vec(pick(&["a", "b"]), 0..2);
    let on = (list(&["get", "list", "*"]), list(&["", "apps", "*"]), list(&["pods", "pods/log", "*", "*/log"]), names);
    let on = on.prop_map(|(verbs, groups, resources, names)| {
        let values = |words: Vec<&str>| words.into_iter().map(Value::from).collect::<Vec<_>>();
        json!({
            "verbs": (values(verbs)), "apiGroups": (values(groups)), "resources": (values(resources)),
            "resourceNames": (values(names))
        })
    });
    let paths = pick(&["/version", "/api*", "*"]).prop_map(|path| json!({"verbs": ["get"], "nonResourceURLs": [path]}));
    prop_oneof![4 => on, 1 => paths]
}

fn some_role() -> impl Strategy<Value = Value> {
    let rules = prop::collection::vec(some_rule(), 0..3);
    (pick(&["", "n1", "n2"]), pick(&["r1", "r2"]), rules)
        .prop_map(|(namespace, name, rules)| role(namespace, name, Value::Array(rules)))
}

fn some_subject() -> impl Strategy<Value = Value> {
    prop_oneof![
        pick(&["u1", "u2"]).prop_map(|name| json!({"kind": "User", "name": name})),
        pick(&["g1", "g2"]).prop_map(|name| json!({"kind": "Group", "name": name})),
        (pick(&["s1"]), pick(&["", "n1", "n2"]))
            .prop_map(|(name, namespace)| json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})),
    ]
}

fn some_binding() -> impl Strategy<Value = Value> {
    let subjects = prop::collection::vec(some_subject(), 0..3);
    let place = (pick(&["", "n1", "n2"]), pick(&["b1", "b2", "b3"]));
    (place, pick(&["Role", "ClusterRole"]), pick(&["r1", "r2", "r3"]), subjects).prop_map(
        |((namespace, name), kind, role, subjects)| {
            let kind = if namespace.is_empty() { "ClusterRole" } else { kind };
            binding(namespace, name, kind, role, Value::Array(subjects))
        },
    )
}

/// Of objects of one name the last counts, as when they are written one after another.
fn distinct(objects: Vec<Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for object in objects {
        out.retain(|have| (namespace_of(have), name_of(have)) != (namespace_of(&object), name_of(&object)));
        out.push(object);
    }
    out
}

proptest! {
    #[test]
    fn the_index_decides_as_a_look_at_every_rule_does(
        roles in prop::collection::vec(some_role(), 0..6),
        bindings in prop::collection::vec(some_binding(), 0..8),
        who in pick(&["u1", "u2", "system:serviceaccount:n1:s1", "system:serviceaccount:n2:s1"]),
        groups in prop::collection::vec(pick(&["g1", "g2", "u1"]), 0..3),
        what in pick(&[
            "get core/pods a @n1", "get core/pods/log a @n1", "list apps/pods @n2", "get core/pods a", "list core/pods/log",
            "get /version", "get /apis", "delete apps/pods b @n1",
        ]),
    ) {
        let whole = World { roles: distinct(roles.clone()), bindings: distinct(bindings.clone()) };
        let who = user(who, &groups);
        let what = action(what);
        // Written one after another, replacing what was there, the index has to end where the whole does.
        let written = World { roles, bindings };
        for policy in [whole.policy(), written.policy()] {
            let decided = matches!(policy.decide(&who, &what), Decision::Allow { .. });
            prop_assert_eq!(decided, whole.allows(&who, &what));
        }
        // Taken away again, nothing is left that allows anything.
        let mut emptied = written.policy();
        for bound in &whole.bindings {
            emptied.remove_binding(&(namespace_of(bound).into(), name_of(bound).into()));
        }
        prop_assert_eq!(emptied.decide(&who, &what), Decision::NoOpinion { reason: String::new() });
    }
}
