//! What is refused, stamped and warned of, field by field.

use std::sync::Arc;

use allotment_admission::{Caller, Config, Denial, Operation, Request, Reviewed, review};
use allotment_core::requests::{Object, Snapshot};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

fn config() -> Config {
    Config { platform_users: ["allotment".to_owned()].into() }
}

fn caller(name: &str) -> Caller {
    Caller { username: name.to_owned(), uid: "u1".to_owned(), groups: vec!["team".to_owned()] }
}

struct Write<'a> {
    by: &'a str,
    kind: &'a str,
    subresource: &'a str,
    new: Value,
    old: Value,
    dry_run: bool,
}

impl<'a> Write<'a> {
    fn create(kind: &'a str, spec: Value) -> Self {
        let new = json!({"metadata": {"name": "x", "namespace": "ns"}, "spec": spec});
        Write { by: "alice", kind, subresource: "", new, old: Value::Null, dry_run: false }
    }

    fn review(&self, snapshot: Option<&Snapshot>) -> Result<Reviewed, Denial> {
        let operation = if self.old.is_null() { Operation::Create } else { Operation::Update };
        review(
            &config(),
            snapshot,
            &Request {
                operation,
                group: "cluster.openmcp.cloud",
                kind: self.kind,
                resource: "",
                subresource: self.subresource,
                namespace: "ns",
                name: "x",
                object: &self.new,
                old_object: &self.old,
                caller: &caller(self.by),
                dry_run: self.dry_run,
                now: Timestamp::UNIX_EPOCH,
            },
        )
    }
}

#[track_caller]
fn invalid(kind: &str, spec: Value, expect: &[&str]) {
    match Write::create(kind, spec.clone()).review(None) {
        Err(Denial::Invalid(errors)) => {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{spec}");
        }
        other => panic!("{spec}: {other:?}"),
    }
}

fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::new();
    let provider = json!({"metadata": {"name": "p"}, "spec": {"package": "builtin:p"}, "status": {"ready": true,
        "profiles": [{"name": "q", "supportedVersions": [{"version": "1.30.1", "deprecated": true}, {"version": "1.31.0"}],
            "supportedTraits": [{"trait": "a"}]}]}});
    snapshot.apply(Object::Provider(Arc::new(
        serde_json::from_value(with_type(provider, "ClusterProvider")).expect("reads"),
    )));
    let purpose = json!({"metadata": {"name": "w"}, "spec": {"traits": [{"trait": "a", "optional": true}]}});
    snapshot.apply(Object::Purpose(Arc::new(serde_json::from_value(with_type(purpose, "Purpose")).expect("reads"))));
    let same = json!({"metadata": {"name": "e"}, "spec": {"traits": ["a", "b"]}});
    snapshot.apply(Object::Equivalence(Arc::new(
        serde_json::from_value(with_type(same, "TraitEquivalence")).expect("reads"),
    )));
    snapshot
}

fn with_type(mut object: Value, kind: &str) -> Value {
    object["apiVersion"] = json!("cluster.openmcp.cloud/v1alpha1");
    object["kind"] = json!(kind);
    object
}

#[test]
fn wrong_fields_are_named_with_the_reason() {
    let request = |more: Value| {
        let mut spec = json!({"purposes": ["w"]});
        for (key, value) in more.as_object().expect("fields") {
            spec[key] = value.clone();
        }
        spec
    };
    invalid("ClusterRequest", json!({"purposes": []}), &["spec.purposes: Required value: at least one"]);
    invalid("ClusterRequest", json!({"purposes": ["a", "a"]}), &["spec.purposes[1]: Duplicate value: \"a\""]);
    let prefix = "must be a lowercase letter, then at most 18 lowercase letters and digits, then one hyphen";
    for bad in ["foo", "Foo-", "fo-o-", "-", "0ab-"] {
        invalid(
            "ClusterRequest",
            request(json!({"prefix": bad})),
            &[&format!("spec.prefix: Invalid value: \"{bad}\": {prefix}")],
        );
    }
    let version = "must be up to three numbers with dots between, such as 1, 1.30 or 1.30.2";
    for bad in ["1.30.x", "latest", "1.2.3.4"] {
        invalid(
            "ClusterRequest",
            request(json!({"kubernetes": {"version": bad}})),
            &[&format!("spec.kubernetes.version: Invalid value: \"{bad}\": {version}")],
        );
    }
    let a = || json!({"trait": "a"});
    for (entries, expect) in [
        (json!([{"xor": [a(), a()]}]), "spec.traits[0].xor: Forbidden: can never hold"),
        (json!([{"and": [a(), {"not": a()}]}]), "spec.traits[0].and: Forbidden: can never hold"),
        (json!([{"or": [a(), {"trait": "a", "negated": true}]}]), "spec.traits[0].or: Forbidden: always holds"),
        (json!([a(), {"name": "a"}]), "spec.traits[1].trait: Duplicate value: \"a\""),
        (json!([{"or": []}]), "spec.traits[0].or: Required value: at least one entry"),
        (
            json!([{"trait": "a", "or": [a()]}]),
            "spec.traits[0]: Required value: exactly one of trait, or, and, xor, not",
        ),
        (json!([{}]), "spec.traits[0]: Required value: exactly one of trait, or, and, xor, not"),
        (
            json!([{"trait": "a", "weight": 101}]),
            "spec.traits[0].weight: Invalid value: 101: must be between 1 and 100, inclusive",
        ),
        (
            json!([{"or": [a()], "negated": true}]),
            "spec.traits[0].negated: Forbidden: only a trait may be negated; use not",
        ),
    ] {
        invalid("ClusterRequest", request(json!({"traits": entries})), &[expect]);
    }
    let deep = (0..9).fold(a(), |inner, _| json!({"not": inner}));
    invalid(
        "ClusterRequest",
        request(json!({"traits": [deep]})),
        &["spec.traits[0]: Invalid value: expression: nested 9 deep, at most 6"],
    );
    let wide: Vec<Value> = (0..40).map(|index| json!({"trait": format!("t{index}")})).collect();
    invalid(
        "ClusterRequest",
        request(json!({"traits": [{"or": wide}]})),
        &["spec.traits[0]: Invalid value: expression: 40 leaves, at most 32"],
    );
    invalid(
        "Purpose",
        json!({"traits": [{"or": [a()]}]}),
        &["spec.traits[0]: Forbidden: or, and, xor and not are for ClusterRequests"],
    );
    invalid(
        "Purpose",
        json!({"idleGrace": "5"}),
        &["spec.idleGrace: Invalid value: \"5\": time: missing unit in duration \"5\""],
    );
    invalid(
        "AccessRequest",
        json!({"permissions": []}),
        &["spec: Required value: exactly one of clusterRef and requestRef"],
    );
    invalid(
        "AccessRequest",
        json!({"clusterRef": {"name": "c"}, "requestRef": {"name": "r"}}),
        &["spec.requestRef: Forbidden: may not be set together with clusterRef"],
    );
    invalid(
        "AccessRequest",
        json!({"clusterRef": {"name": "c"}, "ttl": "0s"}),
        &["spec.ttl: Invalid value: \"0s\": must be greater than 0"],
    );
    invalid(
        "AccessRequest",
        json!({"clusterRef": {"name": "c"}, "permissions": [{"rules": [{"verbs": []}]}]}),
        &[
            "spec.permissions[0].rules[0].verbs: Required value: verbs must contain at least one value",
            "spec.permissions[0].rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "spec.permissions[0].rules[0].resources: Required value: resource rules must supply at least one resource",
        ],
    );
}

#[test]
fn rules_of_ceilings_and_permissions_say_what_they_are_about() {
    let at = |field: &str, rest: &str| format!("spec.permissionCeiling[0].{field}: {rest}");
    for (rule, expect) in [
        (
            json!({"verbs": ["get"]}),
            vec![
                at("apiGroups", "Required value: resource rules must supply at least one api group"),
                at("resources", "Required value: resource rules must supply at least one resource"),
            ],
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "scope": "PrefixedNamespaces"}),
            vec![at("nonResourceURLs", "Forbidden: namespaced rules cannot apply to non-resource URLs")],
        ),
        (
            json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}),
            vec![at(
                "nonResourceURLs",
                "Forbidden: rules cannot apply to both regular resources and non-resource URLs",
            )],
        ),
    ] {
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        invalid("Purpose", json!({"permissionCeiling": [rule]}), &expect);
    }
    let empty = "spec.permissions[0].rules: Required value: at least one rule";
    for permission in [json!({}), json!({"namespace": "a"}), json!({"rules": []})] {
        invalid("AccessRequest", json!({"clusterRef": {"name": "c"}, "permissions": [permission]}), &[empty]);
        invalid("AccessPolicy", json!({"from": [{"namespace": "a"}], "permissions": [permission]}), &[empty]);
    }
}

#[test]
fn types_inside_trait_expressions_are_checked_field_by_field() {
    for (entry, expect) in [
        (json!("a"), "spec.traits[0]: Invalid value: string: must be an object"),
        (json!(["a"]), "spec.traits[0]: Invalid value: array: must be an object"),
        (json!({"or": {"trait": "a"}}), "spec.traits[0].or: Invalid value: object: must be a list of entries"),
        (json!({"or": [["a", "b"]]}), "spec.traits[0].or[0]: Invalid value: array: must be an object"),
        (json!({"or": [null]}), "spec.traits[0].or[0]: Invalid value: null: must be an object"),
        (json!({"not": {"trait": 5}}), "spec.traits[0].not.trait: Invalid value: number: must be a string"),
        (
            json!({"and": [{"trait": "a", "optional": "yes"}]}),
            "spec.traits[0].and[0].optional: Invalid value: string: must be true or false",
        ),
        (
            json!({"trait": "a", "weight": 1.5}),
            "spec.traits[0].weight: Invalid value: number: must be a number from 1 to 100",
        ),
        (json!({"or": [{"trait": "a", "optionl": true}]}), "spec.traits[0].or[0].optionl: Forbidden: unknown field"),
        (
            json!({"or": [{"trait": " a"}, {"trait": "b"}]}),
            "spec.traits[0].or[0].trait: Invalid value: \" a\": must not begin or end with white space, nor contain \
             control characters",
        ),
    ] {
        invalid("ClusterRequest", json!({"purposes": ["w"], "traits": [entry]}), &[expect]);
    }
}

#[test]
fn names_that_no_object_can_have_are_refused_where_they_are_referred_to() {
    for (kind, spec, field) in [
        ("ClusterRequest", json!({"purposes": ["Mcp"]}), "spec.purposes[0]"),
        (
            "Cluster",
            json!({"clusterProviderRef": {"name": "a/b", "profile": "q"}, "kubernetes": {}, "purposes": []}),
            "spec.clusterProviderRef.name",
        ),
        ("AccessRequest", json!({"requestRef": {"name": "a b"}}), "spec.requestRef.name"),
        ("AccessPolicy", json!({"names": ["A"]}), "spec.names[0]"),
        ("ClusterProvider", json!({"package": "a b"}), "spec.package"),
        (
            "ClusterProvider",
            json!({"package": "x", "packagePullSecret": [{"name": "X"}]}),
            "spec.packagePullSecret[0].name",
        ),
        ("Purpose", json!({"profiles": ["a/b/c"]}), "spec.profiles[0]"),
        ("TraitEquivalence", json!({"traits": ["a", "\u{7}"]}), "spec.traits[1]"),
    ] {
        match Write::create(kind, spec.clone()).review(None) {
            Err(Denial::Invalid(errors)) => {
                assert!(errors.iter().all(|error| error.to_string().starts_with(field)), "{spec}: {errors:?}");
            }
            other => panic!("{spec}: {other:?}"),
        }
    }
}

#[test]
fn selectors_of_namespaces_are_checked() {
    for (requirement, field) in [
        (json!({"key": "a", "operator": "Is", "values": ["b"]}), "operator"),
        (json!({"key": "a", "operator": "In"}), "values"),
        (json!({"key": "a", "operator": "Exists", "values": ["b"]}), "values"),
        (json!({"key": "", "operator": "Exists"}), "key"),
        (json!({"key": "a", "operator": "NotIn", "values": ["b c"]}), "values[0]"),
    ] {
        let selector = json!({"matchExpressions": [requirement]});
        let policy = json!({"from": [{"namespaceSelector": selector}]});
        for (kind, spec, at) in [
            ("Purpose", json!({"allowedNamespaces": selector}), "spec.allowedNamespaces"),
            ("AccessPolicy", policy, "spec.from[0].namespaceSelector"),
        ] {
            match Write::create(kind, spec.clone()).review(None) {
                Err(Denial::Invalid(errors)) => {
                    let expect = format!("{at}.matchExpressions[0].{field}: ");
                    assert!(errors.iter().all(|error| error.to_string().starts_with(&expect)), "{spec}: {errors:?}");
                }
                other => panic!("{spec}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_new_object_that_says_it_is_being_deleted_is_judged_and_stamped_all_the_same() {
    let mut write = Write::create("AccessRequest", json!({"clusterRef": {"name": "c"}, "ttl": "x"}));
    write.new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(matches!(write.review(None), Err(Denial::Invalid(_))));
    write.new["spec"] = json!({"clusterRef": {"name": "c"}, "requestedBy": {"username": "somebody else"}});
    let stored = write.review(None).expect("admitted").object.expect("stamped");
    assert_eq!(stored["spec"]["requestedBy"]["username"], "alice");
}

#[test]
fn the_creator_is_stamped_whatever_was_sent_and_stays() {
    let spec = json!({"clusterRef": {"name": "c"}, "requestedBy": {"username": "root"}});
    let created = Write::create("AccessRequest", spec).review(None).expect("admitted").object.expect("stamped");
    let stamp = json!({"username": "alice", "uid": "u1", "groups": ["team"]});
    assert_eq!(created["spec"]["requestedBy"], stamp);
    let mut again = created.clone();
    again["spec"].as_object_mut().expect("a spec").remove("requestedBy");
    again["spec"]["ttl"] = json!("1h");
    let update =
        |new: Value| Write { new, old: created.clone(), by: "bob", ..Write::create("AccessRequest", json!({})) };
    let kept = update(again).review(None).expect("absence is no change").object.expect("put back");
    assert_eq!(kept["spec"]["requestedBy"], stamp);
    let mut forged = created.clone();
    forged["spec"]["requestedBy"]["username"] = json!("bob");
    assert!(matches!(update(forged).review(None), Err(Denial::Invalid(_))));
}

#[test]
fn what_is_the_platforms_is_written_by_the_platform_only() {
    let with = |patch: Value| {
        let mut object = json!({"metadata": {"name": "x", "namespace": "ns", "annotations": {}, "finalizers": []}, "spec": {
            "clusterProviderRef": {"name": "p", "profile": "q"}, "purposes": ["w"]}});
        for (place, value) in patch.as_object().expect("places") {
            *object.pointer_mut(place).expect(place) = value.clone();
        }
        object
    };
    let tenant = || {
        json!({"clusterProviderRef": {"name": "p", "profile": "q"}, "purposes": ["w"],
        "tenants": [{"requestUID": "u", "namespace": "n", "name": "r", "prefix": ""}]})
    };
    let cases = [
        ("Cluster", "", with(json!({"/spec": tenant()})), false),
        ("Cluster", "", with(json!({"/metadata/annotations": {"cluster.openmcp.cloud/draining": "x"}})), false),
        ("Cluster", "", with(json!({"/metadata/annotations": {"cluster.openmcp.cloud/force-delete": "true"}})), true),
        ("Cluster", "", with(json!({"/metadata/annotations": {"mine": "x"}})), true),
        ("Cluster", "", with(json!({"/metadata/finalizers": ["cluster.openmcp.cloud/cluster"]})), false),
        ("Cluster", "", with(json!({"/metadata/finalizers": ["mine.example/hold"]})), true),
        ("Cluster", "status", with(json!({})), false),
        ("ClusterRequestGrant", "", with(json!({})), false),
    ];
    for (kind, subresource, new, expect) in cases {
        for (by, allowed) in [("alice", expect), ("allotment", true)] {
            let write = Write { by, subresource, new: new.clone(), ..Write::create(kind, json!({})) };
            let result = write.review(None);
            assert_eq!(
                !matches!(result, Err(Denial::Forbidden(_))),
                allowed,
                "{by} {kind} {subresource} {new}: {result:?}"
            );
        }
    }
    let masters = Caller { groups: vec!["system:masters".to_owned()], ..caller("root") };
    let write = Write::create("ClusterRequestGrant", json!({}));
    let repaired = review(
        &config(),
        None,
        &Request {
            operation: Operation::Create,
            group: "cluster.openmcp.cloud",
            kind: "ClusterRequestGrant",
            resource: "",
            subresource: "",
            namespace: "ns",
            name: "x",
            object: &write.new,
            old_object: &Value::Null,
            caller: &masters,
            dry_run: false,
            now: Timestamp::UNIX_EPOCH,
        },
    );
    assert!(repaired.is_ok(), "system:masters may repair");
}

#[test]
fn finalizers_of_the_platform_and_of_providers_are_not_for_others() {
    for (finalizer, kind, theirs) in [
        ("cluster.openmcp.cloud/cluster", "Cluster", false),
        ("local.cluster.openmcp.cloud/plane", "Cluster", false),
        ("existing.cluster.openmcp.cloud/cluster", "Cluster", false),
        ("kind.cluster.openmcp.cloud/cluster", "Cluster", false),
        ("provider.cluster.openmcp.cloud/planes", "Cluster", false),
        ("provider.cluster.openmcp.cloud/planes", "ClusterRequest", false),
        ("access.cluster.openmcp.cloud/planes", "AccessRequest", false),
        ("planes.cluster.openmcp.cloud/anything", "Cluster", false),
        ("example.com/cluster.openmcp.cloud", "Cluster", true),
        ("notcluster.openmcp.cloud/x", "Cluster", true),
        ("cluster.openmcp.cloud.example.com/x", "Cluster", true),
        ("foregroundDeletion", "Cluster", true),
    ] {
        let held = |list: Value| {
            json!({"metadata": {"name": "x", "namespace": "ns", "finalizers": list,
            "deletionTimestamp": "2027-01-01T00:00:00Z"}, "spec": {}})
        };
        let (without, with) = (held(json!(["example.com/a"])), held(json!(["example.com/a", finalizer])));
        for (by, new, old, allowed) in [
            ("alice", &without, &with, theirs),
            ("alice", &with, &without, theirs),
            ("alice", &with, &with, true),
            ("allotment", &without, &with, true),
        ] {
            let write = Write { by, new: new.clone(), old: old.clone(), ..Write::create(kind, json!({})) };
            match write.review(None) {
                Ok(_) => assert!(allowed, "{by} {kind} {finalizer}"),
                Err(Denial::Forbidden(why)) => {
                    assert!(!allowed && why.contains(finalizer) && why.contains("force-delete"), "{by}: {why}");
                }
                Err(other) => panic!("{by} {kind} {finalizer}: {other}"),
            }
        }
    }
}

#[test]
fn where_a_cluster_stands_is_not_changed_by_others_once_the_platform_relies_on_it() {
    let spec = json!({"clusterProviderRef": {"name": "p", "profile": "q"}, "purposes": ["w"], "dedicated": true,
        "kubernetes": {"version": "1.30"}});
    let by_hand = json!({"metadata": {"name": "x", "namespace": "ns"}, "spec": spec});
    let mut made = by_hand.clone();
    made["spec"]["deletionPolicy"] = json!("WhenIdle");
    let mut taken = by_hand.clone();
    taken["spec"]["tenants"] = json!([{"requestUID": "u", "namespace": "n", "name": "r", "prefix": ""}]);
    for (field, value) in [
        ("dedicated", json!(false)),
        ("purposes", json!(["w", "v"])),
        ("purposes", json!([])),
        ("kubernetes", json!({"version": "1.31"})),
        ("clusterConfigRef", json!({"apiGroup": "a.b", "kind": "C", "name": "d"})),
        ("clusterProviderRef", json!({"name": "p", "profile": "other"})),
    ] {
        for (old, by, allowed) in
            [(&made, "alice", false), (&taken, "alice", false), (&taken, "allotment", field != "clusterProviderRef")]
        {
            let mut new = old.clone();
            new["spec"][field] = value.clone();
            let write = Write { by, new, old: old.clone(), ..Write::create("Cluster", json!({})) };
            let refused = write.review(None).is_err();
            assert_eq!(refused, !allowed, "{by} changes {field} of {old}");
        }
        let mut new = by_hand.clone();
        new["spec"][field] = value;
        let write = Write { new, old: by_hand.clone(), ..Write::create("Cluster", json!({})) };
        let refused = match write.review(None) {
            Ok(_) => None,
            Err(Denial::Invalid(errors)) => Some(errors.iter().map(ToString::to_string).collect::<Vec<_>>()),
            Err(other) => panic!("{field}: {other:?}"),
        };
        let expect = (field == "clusterProviderRef")
            .then(|| vec!["spec.clusterProviderRef: Forbidden: never changes; make another Cluster".to_owned()]);
        assert_eq!(refused, expect, "{field}");
    }
}

#[test]
fn a_grant_is_deleted_by_the_platform_and_by_what_cleans_up_only() {
    for (by, kind, expect) in [
        ("alice", "ClusterRequestGrant", false),
        ("allotment", "ClusterRequestGrant", true),
        ("system:serviceaccount:kube-system:generic-garbage-collector", "ClusterRequestGrant", true),
        ("system:serviceaccount:kube-system:namespace-controller", "ClusterRequestGrant", true),
        ("system:kube-controller-manager", "ClusterRequestGrant", true),
        ("system:serviceaccount:team:namespace-controller", "ClusterRequestGrant", false),
        ("alice", "ClusterRequest", true),
        ("alice", "Cluster", true),
    ] {
        let request = Request {
            operation: Operation::Delete,
            group: "cluster.openmcp.cloud",
            kind,
            resource: "",
            subresource: "",
            namespace: "ns",
            name: "x",
            object: &Value::Null,
            old_object: &json!({"metadata": {"name": "x", "namespace": "ns"}}),
            caller: &caller(by),
            dry_run: false,
            now: Timestamp::UNIX_EPOCH,
        };
        let result = review(&config(), None, &request);
        assert_eq!(result.is_ok(), expect, "{by} deletes a {kind}: {result:?}");
    }
}

#[test]
fn a_grant_is_never_changed_not_even_by_the_platform() {
    let grant = |prefix: &str| json!({"metadata": {"name": "x"}, "spec": {"prefix": prefix}});
    let write =
        Write { by: "allotment", old: grant("a"), new: grant("b"), ..Write::create("ClusterRequestGrant", json!({})) };
    assert!(matches!(write.review(None), Err(Denial::Invalid(_))));
    let same = Write { new: grant("a"), ..write };
    assert_eq!(same.review(None), Ok(Reviewed::default()));
}

#[test]
fn a_garbage_collector_takes_the_owner_off_a_grant_and_changes_nothing_else() {
    let grant = |prefix: &str, owners: Value| json!({"metadata": {"name": "x", "ownerReferences": owners}, "spec": {"prefix": prefix}});
    let owned = || json!([{"kind": "ClusterRequest", "name": "x", "uid": "u"}]);
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    for (by, new, expect) in [
        (collector, grant("a", json!([])), true),
        (collector, grant("b", json!([])), false),
        ("alice", grant("a", json!([])), false),
    ] {
        let old = grant("a", owned());
        let write = Write { by, old, new, ..Write::create("ClusterRequestGrant", json!({})) };
        let result = write.review(None);
        assert_eq!(result.is_ok(), expect, "{by}: {result:?}");
    }
}

#[test]
fn what_is_probably_not_meant_is_warned_of() {
    let snapshot = snapshot();
    let warnings = |write: Write<'_>| write.review(Some(&snapshot)).expect("admitted").warnings;
    let request = |spec: Value| Write::create("ClusterRequest", spec);
    for (write, expect) in [
        (
            request(json!({"purposes": ["w"], "traits": [{"trait": "zzz", "optional": true}]})),
            vec!["spec.traits[0].trait: UnknownTrait: no profile publishes \"zzz\""],
        ),
        (request(json!({"purposes": ["w"], "traits": [{"trait": "b"}]})), vec![]),
        (
            request(json!({"purposes": ["w"], "traits": [{"or": [{"trait": "a", "optional": true}]}]})),
            vec!["spec.traits[0].or[0].optional is ignored"],
        ),
        (
            request(json!({"purposes": ["w"], "traits": [{"xor": [{"trait": "a"}, {"trait": "b"}]}]})),
            vec!["spec.traits[0].xor: can never hold, since some of its traits mean the same"],
        ),
        (
            request(json!({"purposes": ["w"], "traits": [{"trait": "a", "negated": true}]})),
            vec!["spec.traits: a wish is lost: a: purpose w prefers it"],
        ),
        (
            request(json!({"purposes": ["w"], "kubernetes": {"version": "1.30.1"}})),
            vec!["spec.kubernetes.version: 1.30.1 is deprecated"],
        ),
        (Write { dry_run: true, ..request(json!({"purposes": ["w"]})) }, vec!["would create a Cluster from p/q"]),
        (
            Write { dry_run: true, ..request(json!({"purposes": ["w"], "prefix": "a-"})) },
            vec!["would create a Cluster from p/q", "spec.prefix: would not be honored: TooShort"],
        ),
        (
            Write { dry_run: true, ..request(json!({"purposes": ["no"]})) },
            vec![
                "would be Denied: UnknownPurpose",
                "why: there is no Purpose \"no\"; there is \"w\"",
                "finding: UnknownPurpose: no",
            ],
        ),
        (
            Write { dry_run: true, ..request(json!({"purposes": ["w"], "kubernetes": {"version": "1.99"}})) },
            vec![
                "would be Denied: VersionNotOffered",
                "why: no profile with the traits required offers version \"1.99\"; offered: 1.31.0",
                "finding: p/q VersionNotOffered: 1.99",
            ],
        ),
        (
            Write::create("Purpose", json!({"dedicated": false})),
            vec!["spec.permissionCeiling is unset: tenants of a shared Cluster may be granted whatever they ask for"],
        ),
        (Write::create("Purpose", json!({"dedicated": true})), vec![]),
    ] {
        let shown = write.new.clone();
        assert_eq!(warnings(write), expect, "{shown}");
    }
    let waiting = json!({"metadata": {"name": "x", "uid": "u"}, "spec": {"purposes": ["no"]}});
    let again = Write { old: waiting, dry_run: true, ..request(json!({"purposes": ["w"]})) };
    assert_eq!(warnings(again), ["would create a Cluster from p/q"], "a change that is tried out");
    let granted = json!({"metadata": {"name": "x"}, "spec": {"purposes": ["w"]}, "status": {"status": "Granted"}});
    let edit = Write { old: granted, ..request(json!({"purposes": ["w"], "priority": 3})) };
    assert_eq!(
        warnings(edit),
        ["the request is granted already: a change of its spec changes neither Grant nor Cluster"]
    );
}

#[test]
fn the_sample_request_passes() {
    let sample = json!({"kubernetes": {"version": "1.30"}, "dedicated": false, "purposes": ["platform", "onboarding"],
        "traits": [{"trait": "foo/bar/baz", "optional": true, "negated": false}], "prefix": "foo-"});
    assert_eq!(Write::create("ClusterRequest", sample).review(None), Ok(Reviewed::default()));
}
