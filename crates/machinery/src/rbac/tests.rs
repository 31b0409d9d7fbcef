//! Rules against requests and against each other.

use proptest::prelude::*;

use super::*;
use crate::json;
use crate::json::parse;

fn rule(text: &str) -> PolicyRule {
    PolicyRule::from_json(&parse(text.as_bytes()).expect(text))
}

#[track_caller]
fn allows(rule_text: &str, verb: &str, resource: &str, name: &str, expect: bool) {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (api_group, resource) = resource.split_once(':').unwrap_or(("", resource));
    let request = ResourceRequest { verb, api_group, resource, subresource, name };
    assert_eq!(rule(rule_text).allows(&request), expect, "{rule_text}: {request:?}");
}

#[test]
fn a_rule_allows_what_all_its_lists_name() {
    let pods = r#"{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","pods/log"]}"#;
    allows(pods, "get", "pods", "a", true);
    allows(pods, "list", "pods", "", true);
    allows(pods, "get", "pods/log", "a", true);
    allows(pods, "get", "pods/exec", "a", false);
    allows(pods, "delete", "pods", "a", false);
    allows(pods, "get", "apps:pods", "a", false);
    let named = r#"{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"resourceNames":["a"]}"#;
    allows(named, "get", "apps:pods/log", "a", true);
    allows(named, "get", "pods", "b", false);
    allows(named, "list", "pods", "", false);
    let scales = r#"{"verbs":["get"],"apiGroups":["apps"],"resources":["*/scale"]}"#;
    allows(scales, "get", "apps:deployments/scale", "a", true);
    allows(scales, "get", "apps:deployments", "a", false);
    allows(scales, "get", "apps:deployments/status", "a", false);
    allows(r#"{"verbs":["get"],"apiGroups":[""]}"#, "get", "pods", "a", false);
}

#[test]
fn paths_are_allowed_whole_or_by_their_beginning() {
    let healthy = rule(r#"{"verbs":["get"],"nonResourceURLs":["/healthz","/livez/*"]}"#);
    for (verb, path, expect) in [
        ("get", "/healthz", true),
        ("get", "/healthz/etcd", false),
        ("get", "/livez/etcd", true),
        ("get", "/livez", false),
        ("post", "/healthz", false),
    ] {
        assert_eq!(healthy.allows_path(verb, path), expect, "{verb} {path}");
    }
    assert!(rule(r#"{"verbs":["*"],"nonResourceURLs":["*"]}"#).allows_path("get", "/anything"));
}

#[track_caller]
fn check_uncovered(held: Value, wanted: Value, expect: &[&str]) {
    let (held, wanted) = (PolicyRule::list_from_json(Some(&held)), PolicyRule::list_from_json(Some(&wanted)));
    let shown: Vec<String> = compact(&uncovered(&held, &wanted)).iter().map(ToString::to_string).collect();
    assert_eq!(shown, expect);
}

#[test]
fn rules_cover_others_only_together_where_no_single_one_does() {
    let rule = |verbs: Value, resources: Value| json!({"verbs": verbs, "apiGroups": [""], "resources": resources});
    check_uncovered(
        json!([(rule(json!(["get"]), json!(["pods", "secrets"]))), (rule(json!(["list"]), json!(["pods"])))]),
        json!([(rule(json!(["get", "list"]), json!(["pods", "secrets"])))]),
        &[r#"{APIGroups:[""], Resources:["secrets"], Verbs:["list"]}"#],
    );
    check_uncovered(
        json!([(rule(json!(["*"]), json!(["*/status"])))]),
        json!([(rule(json!(["get", "update"]), json!(["pods/status", "pods"])))]),
        &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "update"]}"#],
    );
    check_uncovered(
        json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]}]),
        json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
        ]),
        &[
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#,
        ],
    );
    check_uncovered(
        json!([{"verbs": ["get"], "nonResourceURLs": ["/livez/*"]}]),
        json!([{"verbs": ["get"], "nonResourceURLs": ["/livez/a", "/livez/*", "/metrics"]}]),
        &[r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#],
    );
    check_uncovered(json!([]), json!([{"verbs": [], "apiGroups": ["*"], "resources": ["*"]}]), &[]);
    check_uncovered(
        json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]),
        json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}]),
        &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#],
    );
}

#[test]
fn a_rule_that_stands_for_too_many_permissions_is_not_covered() {
    let many = |prefix: &str| (0..1_000).map(|index| format!("{prefix}{index}")).collect::<Vec<_>>();
    let mut wide = PolicyRule {
        verbs: many("v"),
        api_groups: many("g"),
        resources: many("r"),
        resource_names: many("n"),
        ..PolicyRule::default()
    };
    let all = rule(r#"{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}"#);
    assert_eq!(uncovered(std::slice::from_ref(&all), std::slice::from_ref(&wide)), []);
    let pods = rule(r#"{"verbs":["*"],"apiGroups":["*"],"resources":["pods"]}"#);
    assert_eq!(uncovered(std::slice::from_ref(&pods), std::slice::from_ref(&wide)), [wide.clone()]);
    wide.verbs.truncate(1);
    wide.api_groups.truncate(1);
    wide.resource_names.clear();
    assert_eq!(uncovered(&[pods], &[wide]).len(), 1_000);
}

#[test]
fn the_message_on_escalation_lists_each_rule_once() {
    let missing = [
        rule(r#"{"verbs":["*"],"nonResourceURLs":["*"]}"#),
        rule(r#"{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}"#),
        rule(r#"{"verbs":["*"],"nonResourceURLs":["*"]}"#),
    ];
    assert_eq!(
        escalation_message("jane", &["system:authenticated".to_owned()], &missing),
        "user \"jane\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"
    );
}

fn rules() -> impl Strategy<Value = Vec<PolicyRule>> {
    let list = |pattern: &'static str, least: usize| proptest::collection::vec(pattern, least..3);
    let rule = (list("[gl*]", 1), list("(|apps|[*])", 1), list("(pods|pods/log|[*]/log|[*])", 1), list("[ab]", 0))
        .prop_map(|(verbs, api_groups, resources, resource_names)| PolicyRule {
            verbs,
            api_groups,
            resources,
            resource_names,
            ..PolicyRule::default()
        });
    proptest::collection::vec(rule, 0..4)
}

proptest! {
    #[test]
    fn rules_survive_json(rules in rules()) {
        for rule in rules {
            prop_assert_eq!(PolicyRule::from_json(&rule.to_json()), rule);
        }
    }

    #[test]
    fn rules_cover_themselves_and_what_is_broken_down(rules in rules()) {
        prop_assert_eq!(uncovered(&rules, &rules), []);
        let single: Vec<PolicyRule> = rules.iter().flat_map(PolicyRule::break_down).collect();
        prop_assert_eq!(uncovered(&rules, &single), []);
    }

    #[test]
    fn nothing_is_allowed_by_covered_rules_that_their_holder_may_not(
        held in rules(),
        wanted in rules(),
        verb in "[gl]",
        api_group in "(|apps)",
        subresource in "(|log)",
        name in "(|a|b|c)",
    ) {
        prop_assume!(uncovered(&held, &wanted).is_empty());
        let request = ResourceRequest { verb: &verb, api_group: &api_group, resource: "pods", subresource: &subresource, name: &name };
        if wanted.iter().any(|rule| rule.allows(&request)) {
            prop_assert!(held.iter().any(|rule| rule.allows(&request)));
        }
    }
}
