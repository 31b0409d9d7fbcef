//! Which Cluster a request gets, case by case.

use serde_json::{Value, json};

use crate::store::{Names, Scheduler, Store, landscape, provider, purpose, request, settle};

fn status_of<'a>(store: &'a Store, namespace: &str, name: &str) -> &'a Value {
    &store.get("ClusterRequest", namespace, name).expect("the request")["status"]
}

fn settled(store: &mut Store) -> Scheduler {
    let mut scheduler = Scheduler::default();
    settle(store, &mut scheduler, &mut Names::default());
    scheduler
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// The ClusterRequest of the document that the kinds come from.
fn sample() -> Value {
    request(
        "bar",
        "foo",
        json!({"kubernetes": {"version": "1.30"}, "dedicated": false,
        "purposes": ["platform", "onboarding"], "traits": [{"trait": "foo/bar/baz", "optional": true, "negated": false}],
        "prefix": "foo-"}),
    )
}

#[test]
fn the_sample_is_granted_with_its_prefix_on_one_cluster_of_both_purposes() {
    let mut store = landscape();
    store.put(sample());
    let mut scheduler = settled(&mut store);
    let grant = store.get("ClusterRequestGrant", "bar", "foo").expect("granted");
    assert_eq!(grant["spec"]["prefix"], "foo-");
    assert_eq!(grant["spec"]["resolved"]["dedicated"], false);
    let request = store.get("ClusterRequest", "bar", "foo").expect("there");
    assert_eq!(grant["metadata"]["ownerReferences"][0]["uid"], request["metadata"]["uid"]);
    assert_eq!(grant["spec"]["requestUID"], request["metadata"]["uid"]);
    assert_eq!(grant["status"]["phase"], "Bound");
    assert_eq!(grant["status"]["request"]["spec"]["purposes"], json!(["platform", "onboarding"]));

    let clusters: Vec<_> = store.all("Cluster").collect();
    assert_eq!(clusters.len(), 1);
    let (key, cluster) = clusters[0];
    assert_eq!(key.namespace, "allot-clusters");
    assert_eq!(cluster["spec"]["purposes"], json!(["platform", "onboarding"]));
    assert_eq!(cluster["spec"]["kubernetes"]["version"], "1.30.4");
    assert_eq!(cluster["spec"]["dedicated"], false);
    assert_eq!(cluster["spec"]["clusterProviderRef"], json!({"name": "local", "profile": "local"}));

    let status = status_of(&store, "bar", "foo");
    assert_eq!((&status["status"], &status["reason"]), (&json!("Granted"), &json!("Success")));
    assert_eq!(status["message"], json!(format!("bound to {key}, being created")));
    assert_eq!(condition(status, "Ready").expect("Ready")["reason"], "ClusterCreating");
    assert_eq!(condition(status, "PrefixHonored").expect("PrefixHonored")["status"], "True");

    store.provision();
    settle(&mut store, &mut scheduler, &mut Names::default());
    let status = status_of(&store, "bar", "foo");
    assert_eq!(status["message"], "Cluster is ready");
    assert_eq!(condition(status, "Ready").expect("Ready")["reason"], "ClusterReady");
    assert_eq!(settle(&mut store, &mut scheduler, &mut Names::default()), 0, "deciding again changes nothing");
}

#[test]
fn shared_requests_join_a_cluster_that_covers_them_until_it_is_full() {
    let mut store = landscape();
    store.put(purpose("workload", json!({"dedicated": false, "maxTenants": 2})));
    for index in 0..5 {
        store.put(request("team", &format!("r{index}"), json!({"purposes": ["workload"]})));
    }
    settled(&mut store);
    let mut tenants: Vec<usize> = store
        .all("Cluster")
        .map(|(_, cluster)| cluster["spec"]["tenants"].as_array().expect("tenants").len())
        .collect();
    tenants.sort_unstable();
    assert_eq!(tenants, [1, 2, 2]);
}

#[test]
fn a_dedicated_request_gets_a_cluster_of_its_own_in_its_namespace_without_prefix() {
    let mut store = landscape();
    for name in ["a", "b"] {
        store.put(request("team", name, json!({"purposes": ["mcp"], "prefix": "mine-"})));
    }
    settled(&mut store);
    assert_eq!(store.all("Cluster").count(), 2);
    for (key, cluster) in store.all("Cluster") {
        assert_eq!(key.namespace, "team");
        assert_eq!(cluster["spec"]["tenants"][0]["prefix"], "");
    }
    let status = status_of(&store, "team", "a");
    assert_eq!(condition(status, "PrefixHonored").expect("proposed")["reason"], "Dedicated");
}

#[track_caller]
fn refused(store: &mut Store, spec: Value, expect: (&str, &str), message: &str) {
    store.put(request("team", "r", spec));
    settled(store);
    let status = status_of(store, "team", "r");
    assert_eq!((status["status"].as_str(), status["reason"].as_str()), (Some(expect.0), Some(expect.1)), "{status}");
    assert!(status["message"].as_str().expect("a message").contains(message), "{status}");
    assert_eq!(store.all("ClusterRequestGrant").count(), 0);
}

#[test]
fn what_cannot_be_is_denied_with_the_name_of_what_is_wrong() {
    refused(&mut landscape(), json!({"purposes": ["nope"]}), ("Denied", "UnknownPurpose"), "\"nope\"");
    refused(
        &mut landscape(),
        json!({"purposes": ["workload"], "traits": [{"trait": "kubernetes.io/apis/compute"}]}),
        ("Denied", "NoProfileWithTrait"),
        "kubernetes.io/apis/compute",
    );
    refused(
        &mut landscape(),
        json!({"purposes": ["workload"], "kubernetes": {"version": "1.3"}}),
        ("Denied", "VersionNotOffered"),
        "\"1.3\"",
    );
    let mut store = landscape();
    store.put(purpose("workload", json!({"allowedNamespaces": {"matchLabels": {"a": "b"}}})));
    refused(&mut store, json!({"purposes": ["workload"]}), ("Denied", "NamespaceNotAllowed"), "\"team\"");
    let mut store = landscape();
    store.edit("ClusterProvider", "", "local", &json!({"status": {"ready": false}}));
    refused(&mut store, json!({"purposes": ["workload"]}), ("Denied", "NoReadyProvider"), "ready");
    let mut store = landscape();
    store.put(provider(
        "local",
        json!([{"name": "local", "supportedVersions": [{"version": "1.19.9", "deprecated": true}]}]),
    ));
    refused(&mut store, json!({"purposes": ["workload"]}), ("Denied", "OnlyDeprecatedVersions"), "deprecated");
}

#[test]
fn what_is_not_there_is_listed_beside_what_is() {
    let findings = |store: &Store| status_of(store, "team", "r")["findings"].clone();
    let mut store = landscape();
    refused(
        &mut store,
        json!({"purposes": ["nope", "workload", "nada"]}),
        ("Denied", "UnknownPurpose"),
        "there is no Purpose \"nope\", \"nada\"; there are \"mcp\", \"onboarding\", \"platform\", \"workload\"",
    );
    let unknown = |name: &str| json!({"reason": "UnknownPurpose", "detail": name});
    assert_eq!(findings(&store), json!([unknown("nada"), unknown("nope")]));

    let mut store = landscape();
    store.put(purpose("workload", json!({"allowedNamespaces": {"matchLabels": {"a": "b"}}})));
    refused(&mut store, json!({"purposes": ["workload"]}), ("Denied", "NamespaceNotAllowed"), "\"workload\"");
    assert_eq!(findings(&store), json!([{"reason": "NamespaceNotAllowed", "detail": "workload"}]));

    let mut store = landscape();
    let version = |text: &str, deprecated: bool| json!({"version": text, "deprecated": deprecated});
    let versions = json!([version("1.9.0", false), version("1.31.0", true), version("1.30.2", false)]);
    store.put(provider("local", json!([{"name": "local", "supportedVersions": versions}])));
    refused(
        &mut store,
        json!({"purposes": ["workload"], "kubernetes": {"version": "1.99"}}),
        ("Denied", "VersionNotOffered"),
        "offers version \"1.99\"; offered: 1.30.2, 1.9.0",
    );
}

#[test]
fn a_request_waits_for_the_namespace_that_its_purpose_names() {
    let mut store = landscape();
    store.put(purpose("workload", json!({"dedicated": false, "namespace": "elsewhere"})));
    store.put(request("team", "r", json!({"purposes": ["workload"]})));
    let mut scheduler = settled(&mut store);
    let status = status_of(&store, "team", "r");
    assert_eq!((&status["status"], &status["reason"]), (&json!("Pending"), &json!("Scheduling")));
    assert!(status["message"].as_str().expect("a message").contains("\"elsewhere\""), "{status}");
    assert_eq!(store.all("Cluster").count(), 0);
    store.put(json!({"kind": "Namespace", "metadata": {"name": "elsewhere"}}));
    settle(&mut store, &mut scheduler, &mut Names(1000));
    assert_eq!(status_of(&store, "team", "r")["status"], "Granted");
    assert!(store.all("Cluster").all(|(key, _)| key.namespace == "elsewhere"));
}

#[test]
fn a_cluster_that_was_somebodys_own_is_never_shared_whatever_its_spec_says() {
    let mut store = landscape();
    store.put(request("team", "own", json!({"purposes": ["mcp"]})));
    let mut scheduler = settled(&mut store);
    let own = store.all("Cluster").next().expect("made").0.clone();
    let opened = json!({"spec": {"dedicated": false, "purposes": ["workload"]}});
    store.edit("Cluster", &own.namespace, &own.name, &opened);
    store.put(request("other", "shared", json!({"purposes": ["workload"]})));
    settle(&mut store, &mut scheduler, &mut Names(1000));
    assert_eq!(status_of(&store, "other", "shared")["status"], "Granted");
    let tenants = store.get("Cluster", &own.namespace, &own.name).expect("there")["spec"]["tenants"].clone();
    assert_eq!(tenants.as_array().expect("tenants").len(), 1, "{tenants}");
}

#[test]
fn a_denial_lists_per_candidate_what_is_unmet_and_ends_when_an_input_changes() {
    let mut store = landscape();
    store.put(request(
        "team",
        "r",
        json!({"purposes": ["workload"],
        "traits": [{"or": [{"trait": "x"}, {"trait": "y", "negated": true}]}, {"trait": "z", "negated": false}]}),
    ));
    let mut scheduler = settled(&mut store);
    let findings = status_of(&store, "team", "r")["findings"].clone();
    assert_eq!(
        findings,
        json!([{"provider": "local", "profile": "local", "reason": "NoProfileWithTrait", "detail": "z"}])
    );
    store.put(provider(
        "other",
        json!([{"name": "p", "supportedVersions": [{"version": "1.36.0"}],
        "supportedTraits": [{"name": "z"}]}]),
    ));
    settle(&mut store, &mut scheduler, &mut Names(1000));
    assert_eq!(status_of(&store, "team", "r")["status"], "Granted");
    assert!(status_of(&store, "team", "r").get("findings").is_none(), "findings go with the denial");
}

#[test]
fn beyond_max_clusters_a_request_waits_and_is_granted_when_one_goes() {
    let mut store = landscape();
    store.put(purpose("one", json!({"dedicated": true, "maxClusters": 1})));
    store.put(request("team", "a", json!({"purposes": ["one"]})));
    let mut scheduler = settled(&mut store);
    store.put(request("team", "b", json!({"purposes": ["one"]})));
    let mut names = Names(1000);
    settle(&mut store, &mut scheduler, &mut names);
    let status = status_of(&store, "team", "b");
    assert_eq!((&status["status"], &status["reason"]), (&json!("Pending"), &json!("MaxClustersReached")));
    store.edit("Purpose", "", "one", &json!({"spec": {"maxClusters": 2}}));
    settle(&mut store, &mut scheduler, &mut names);
    assert_eq!(status_of(&store, "team", "b")["status"], "Granted");
}

#[test]
fn a_profile_makes_no_more_clusters_than_it_says_and_requests_go_elsewhere_or_wait() {
    let offer = |name: &str, most: Value| {
        json!({"name": name, "supportedVersions": [{"version": "1.36.3"}], "maxClusters": most,
            "supportedTraits": [{"trait": "x"}]})
    };
    let mut store = landscape();
    store.put(provider("existing", json!([offer("one", json!(1)), offer("none", json!(0))])));
    store.put(purpose("own", json!({"dedicated": true, "traits": [{"trait": "x"}]})));
    for name in ["a", "b"] {
        store.put(request("team", name, json!({"purposes": ["own"]})));
    }
    let mut scheduler = settled(&mut store);
    assert_eq!(status_of(&store, "team", "a")["status"], "Granted");
    let status = status_of(&store, "team", "b");
    assert_eq!((&status["status"], &status["reason"]), (&json!("Pending"), &json!("MaxClustersReached")), "{status}");
    let finding = |profile: &str| {
        json!({"provider": "existing", "profile": profile, "reason": "MaxClustersReached",
        "detail": format!("existing/{profile}")})
    };
    let findings = status["findings"].as_array().expect("findings");
    assert!(findings.contains(&finding("one")) && findings.contains(&finding("none")), "{findings:?}");
    assert_eq!(store.all("Cluster").count(), 1);
    // What lacks more than room is no reason to wait.
    store.put(request("team", "old", json!({"purposes": ["own"], "kubernetes": {"version": "1.20"}})));
    store.put(provider("existing", json!([offer("one", json!(1)), offer("many", Value::Null)])));
    settle(&mut store, &mut scheduler, &mut Names(1000));
    assert_eq!(status_of(&store, "team", "old")["reason"], "VersionNotOffered");
    assert_eq!(status_of(&store, "team", "b")["status"], "Granted", "another profile is there by now");
}

#[test]
fn a_taken_prefix_is_replaced_and_a_former_tenants_stays_in_quarantine() {
    let mut store = landscape();
    for name in ["a", "b"] {
        store.put(request("team", name, json!({"purposes": ["workload"], "prefix": "foo-"})));
    }
    let mut scheduler = settled(&mut store);
    let prefix = |store: &Store, name: &str| {
        let grant = store.get("ClusterRequestGrant", "team", name).expect("granted");
        grant["spec"]["prefix"].as_str().expect("a prefix").to_owned()
    };
    let (a, b) = (prefix(&store, "a"), prefix(&store, "b"));
    assert_eq!(a, "foo-");
    assert!(b != "foo-" && b.len() == 11, "{b}");
    let reason = |store: &Store, name: &str| {
        condition(status_of(store, "team", name), "PrefixHonored").expect("proposed")["reason"].clone()
    };
    assert_eq!(reason(&store, "b"), "Taken");
    store.delete(&("ClusterRequest".into(), allotment_core::write::ObjectKey::new("team", "a")));
    let mut names = Names(1000);
    settle(&mut store, &mut scheduler, &mut names);
    assert!(store.get("ClusterRequest", "team", "a").is_none(), "deletion ends");
    store.put(request("team", "c", json!({"purposes": ["workload"], "prefix": "foo-"})));
    settle(&mut store, &mut scheduler, &mut names);
    assert_ne!(prefix(&store, "c"), "foo-");
    assert_eq!(reason(&store, "c"), "Quarantined");
}

#[test]
fn wishes_rank_profiles_and_the_purposes_preference_breaks_ties() {
    let profile = |name: &str, traits: Value| json!({"name": name, "supportedVersions": [{"version": "1.36.0"}], "supportedTraits": traits});
    let profiles = json!([
        profile("a", json!([])),
        profile("b", json!([{"trait": "x"}])),
        profile("c", json!([{"trait": "x"}])),
        profile("d", json!([{"trait": "y"}]))
    ]);
    for (traits, preferred, expect) in [
        (json!([]), json!([]), "a"),
        (json!([{"trait": "x", "optional": true}]), json!([]), "b"),
        (json!([{"trait": "x", "optional": true}]), json!(["p/c"]), "c"),
        (json!([{"trait": "x", "optional": true}, {"trait": "y", "optional": true, "weight": 5}]), json!(["c"]), "d"),
        (json!([{"trait": "x", "optional": true, "negated": true}]), json!(["d", "b"]), "d"),
        (json!([{"trait": "x"}]), json!(["a"]), "b"),
    ] {
        let mut store = Store::new();
        store.put(provider("p", profiles.clone()));
        store.put(purpose("x", json!({"profiles": preferred})));
        store.put(request("team", "r", json!({"purposes": ["x"], "traits": traits})));
        settled(&mut store);
        let (_, cluster) = store.all("Cluster").next().expect("a Cluster");
        assert_eq!(cluster["spec"]["clusterProviderRef"]["profile"], expect, "{traits} {preferred}");
    }
}

#[test]
fn a_lost_demand_of_a_purpose_is_told() {
    let mut store = landscape();
    store.put(purpose("nodes", json!({"traits": [{"trait": "kubernetes.io/apis/compute"}]})));
    store.put(request(
        "team",
        "r",
        json!({"purposes": ["nodes"],
        "traits": [{"trait": "kubernetes.io/apis/compute", "negated": true}]}),
    ));
    settled(&mut store);
    let overridden = condition(status_of(&store, "team", "r"), "TraitsOverridden").expect("told");
    assert_eq!(overridden["message"], "kubernetes.io/apis/compute: purpose nodes requires it");
}

#[test]
fn pack_fills_and_balanced_spreads() {
    for (strategy, expect) in [("Pack", vec![1, 4]), ("Balanced", vec![2, 3])] {
        let mut store = landscape();
        store.put(purpose("w", json!({"strategy": strategy, "maxTenants": 1})));
        store.put(request("team", "r0", json!({"purposes": ["w"]})));
        store.put(request("team", "r1", json!({"purposes": ["w"]})));
        let mut scheduler = settled(&mut store);
        store.edit("Purpose", "", "w", &json!({"spec": {"maxTenants": 9}}));
        let mut names = Names(1000);
        for index in 2..5 {
            store.put(request("team", &format!("r{index}"), json!({"purposes": ["w"]})));
            settle(&mut store, &mut scheduler, &mut names);
        }
        let mut tenants: Vec<usize> = store
            .all("Cluster")
            .map(|(_, cluster)| cluster["spec"]["tenants"].as_array().expect("list").len())
            .collect();
        tenants.sort_unstable();
        assert_eq!(tenants, expect, "{strategy}");
    }
}

#[test]
fn priority_goes_first_and_waiting_counts_a_step_a_minute() {
    let mut store = landscape();
    let mut scheduler = Scheduler::default();
    store.put(request("team", "old", json!({"purposes": ["workload"]})));
    store.now += 90;
    store.put(request("team", "urgent", json!({"purposes": ["workload"], "priority": 2})));
    store.put(request("team", "eager", json!({"purposes": ["workload"], "priority": 1})));
    scheduler.observe(&store, usize::MAX);
    let due: Vec<String> = scheduler.snapshot.take_due().requests.into_iter().map(|key| key.name).collect();
    assert_eq!(due, ["urgent", "old", "eager"]);
}
