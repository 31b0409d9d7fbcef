//! What is put in force in Clusters, against API servers that answer as told.

use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest};
use allotment_core::access::guard::MOST_OF_TENANT;
use http::{Method, Request, Response};
use kube::client::Body;
use tower::service_fn;

use super::*;
use crate::frame::still;

/// A server that answers so, and the methods that it was asked with.
fn server(code: u16, body: Value) -> (Client, Arc<Mutex<Vec<Method>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let service = service_fn(move |request: Request<Body>| {
        locked(&seen).push(request.method().clone());
        let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
        async move { Ok::<_, std::io::Error>(answer.expect("an answer")) }
    });
    (Client::new(service, "default"), asked)
}

#[tokio::test]
async fn a_process_whose_term_ended_changes_nothing_and_finds_nothing_wrong_with_what_is_right() {
    let policy = |stamp: &str, holder: &str| {
        let [policy, _] = Policy { table: &Table::default(), stamp, holder }.objects();
        let mut policy = policy;
        policy["metadata"]["resourceVersion"] = json!("7");
        policy["metadata"]["uid"] = json!("u");
        policy
    };
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "metadata": {}, "spec": {}, "status": {"allowed": true}});
    let over = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "the Lease is held no longer"});
    for (there, code, answer, expect) in [
        (Some(policy("a", "me")), 403, &over, Some(vec![])),
        (Some(policy("b", "me")), 403, &over, None),
        // Who takes over writes once.
        (Some(policy("a", "before")), 403, &over, None),
        (Some(policy("a", "before")), 201, &review, Some(vec![Method::PATCH])),
        (Some(policy("b", "me")), 201, &review, Some(vec![Method::PATCH])),
        (None, 403, &over, None),
        (None, 201, &review, Some(vec![Method::POST])),
    ] {
        let (platform, _) = server(code, answer.clone());
        let (admin, asked) = server(200, policy("a", "me"));
        let writer = Writer { platform, holder: OnceLock::new() };
        let policies = all::<ValidatingAdmissionPolicy>(&admin);
        let object = there.clone().map(|there| serde_json::from_value(there).expect("an object"));
        let [wanted, _] = Policy { table: &Table::default(), stamp: "a", holder: "me" }.objects();
        let kept = writer.keep(&policies, &wanted, object).await;
        let refused = matches!(kept, Err(GuardError::NoTerm(_)));
        assert_eq!(refused, expect.is_none(), "{there:?} {code}: {kept:?}");
        assert_eq!(*locked(&asked), expect.unwrap_or_default(), "{there:?} {code}");
    }
}

/// An API server that has what is needed, stores what is made, and judges by the policy that it stores.
fn judging() -> (Client, Arc<Mutex<BTreeMap<String, Value>>>) {
    let stored = Arc::new(Mutex::new(BTreeMap::<String, Value>::new()));
    let kept = stored.clone();
    let service = service_fn(move |request: Request<Body>| {
        let kept = kept.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(std::io::Error::other)?;
            let answer = |code: u16, body: &Value| {
                let body = Body::from(body.to_string().into_bytes());
                Response::builder().status(code).body(body).map_err(std::io::Error::other)
            };
            let refused = |code: u16, message: &str| {
                answer(
                    code,
                    &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message,
"reason": if code == 404 { "NotFound" } else { "Forbidden" }}),
                )
            };
            let path = head.uri.path().to_owned();
            let mut kept = locked(&kept);
            if path.ends_with("/v1") {
                let resource = |name: &str| json!({"name": name, "singularName": "", "namespaced": false, "kind": "K", "verbs": []});
                return answer(
                    200,
                    &json!({"kind": "APIResourceList", "groupVersion": GROUP_VERSION, "resources": [
                    resource("validatingadmissionpolicies"), resource("validatingadmissionpolicybindings")]}),
                );
            }
            if head.method == Method::POST && head.uri.query().is_some_and(|query| query.contains("dryRun")) {
                let policy = kept.iter().find(|(path, _)| path.contains("policies/"));
                let stamp = policy.and_then(|(_, policy)| stamp_of(policy)).unwrap_or_default();
                return refused(403, &format!("denied request: prefixes are enforced as of {stamp};"));
            }
            if head.method == Method::POST {
                let mut object: Value = serde_json::from_slice(&body).map_err(std::io::Error::other)?;
                object["metadata"]["resourceVersion"] = json!("7");
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                kept.insert(format!("{path}/{name}"), object.clone());
                return answer(201, &object);
            }
            match kept.get(&path) {
                Some(object) => answer(200, object),
                None => refused(404, "not found"),
            }
        }
    });
    (Client::new(service, "default"), stored)
}

/// Guards of a world with one shared Cluster, `n/c` of UID `here`, with a tenant that has so many AccessRequests there.
fn guards(access: usize) -> Guards {
    let world = World::new(Duration::from_secs(1800));
    let version = "cluster.openmcp.cloud/v1alpha1";
    let put = |object: Value| serde_json::from_value(object).expect("an object of ours");
    world.written::<Cluster>(put(json!({"apiVersion": version, "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "n", "uid": "here", "resourceVersion": "1"},
        "spec": {"clusterProviderRef": {"name": "p", "profile": "p"}, "kubernetes": {}, "purposes": [], "dedicated": false,
            "tenants": [{"requestUID": "u-r", "namespace": "team", "name": "r", "prefix": "foo-"}]}})));
    let put = |object: Value| serde_json::from_value(object).expect("an object of ours");
    world.written::<ClusterRequest>(put(json!({"apiVersion": version, "kind": "ClusterRequest",
        "metadata": {"name": "r", "namespace": "team", "uid": "u-r", "resourceVersion": "1"}, "spec": {"purposes": ["w"]}})));
    for index in 0..access {
        let noted = json!({"cluster.openmcp.cloud/live-in": "here", "cluster.openmcp.cloud/live-in-name": "n/c"});
        let request = json!({"apiVersion": version, "kind": "AccessRequest", "metadata": {"name": format!("a{index}"),
            "namespace": "team", "uid": format!("u-{index:05}"), "resourceVersion": "1", "annotations": noted},
            "spec": {"requestRef": {"name": "r"}, "permissions": []}});
        world.written::<AccessRequest>(serde_json::from_value(request).expect("an object of ours"));
    }
    let review =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {}, "spec": {}});
    let (platform, _) = server(201, review);
    let seams = still();
    Guards::new(Tasks::default(), platform, Arc::new(world), seams)
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_was_deleted_comes_back_though_not_all_who_wait_have_room_in_it() {
    let guards = guards(MOST_OF_TENANT + 40);
    let (admin, stored) = judging();
    let key = ObjectKey::new("n", "c");
    let policy = |stored: &BTreeMap<String, Value>| {
        stored.iter().find(|(path, _)| path.contains("policies/")).map(|(_, policy)| policy.to_string())
    };
    for time in ["first", "once it was deleted"] {
        guards.admit(&key, "here", &admin, "u-00000").await.expect("it has room");
        let late = guards.admit(&key, "here", &admin, &format!("u-{:05}", MOST_OF_TENANT + 20)).await;
        assert!(matches!(late, Err(GuardError::NoRoom(NoRoom::OfTenant))), "{time}: {late:?}");
        assert_eq!(late.expect_err("it has none").reason(), AccessReason::PrefixTableFull);
        let text = policy(&locked(&stored)).expect("it is there");
        assert!(text.contains("'foo-':'team/r'") && text.contains("access-u-00000"), "{time}");
        assert!(!text.contains(&format!("access-u-{:05}", MOST_OF_TENANT + 20)), "{time}");
        locked(&stored).retain(|path, _| !path.contains(GUARD));
        // Whoever follows it has it looked at.
        let own = guards.of("here");
        own.lock().await.as_mut().expect("it was put in force").at = Timestamp::MIN;
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_given_rights_on_a_cluster_that_is_not_known() {
    let guards = guards(1);
    for (key, uid, known) in [("c", "here", true), ("c", "before", false), ("d", "here", false)] {
        let (admin, stored) = judging();
        let admitted = guards.admit(&ObjectKey::new("n", key), uid, &admin, "u-00000").await;
        assert_eq!(admitted.is_ok(), known, "{key} {uid}: {admitted:?}");
        assert!(known || matches!(admitted, Err(GuardError::Unknown)), "{key} {uid}: {admitted:?}");
        assert_eq!(locked(&stored).is_empty(), !known, "{key} {uid}");
    }
}

/// A server that refuses with the stamp, and before that many answers with it now and then not.
fn wavering(answers: usize, otherwise: u16) -> Client {
    let asked = Arc::new(Mutex::new(0));
    let service = service_fn(move |_: Request<Body>| {
        let index = {
            let mut asked = locked(&asked);
            *asked += 1;
            *asked
        };
        let status = |code: u16, message: &str| json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message});
        let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": GUARD}});
        let (code, body) = match (index < answers && index % 3 == 0, otherwise) {
            (true, 201) => (201, namespace),
            (true, code) => (code, status(code, "their/name is no name")),
            (false, _) => (403, status(403, "denied request: prefixes are enforced as of s;")),
        };
        let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
        async move { answer.map_err(std::io::Error::other) }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_was_not_there_is_in_force_once_it_was_heard_for_a_while() {
    let (now, settle) = (Duration::ZERO, SETTLE);
    for (server, stamp, settle, expect) in [
        (wavering(0, 201), "s", now, Ok(now)),
        (wavering(0, 201), "s", settle, Ok(settle)),
        // Several servers, one of which does not have it yet: what was heard before counts for nothing.
        (wavering(12, 201), "s", settle, Ok(settle + Duration::from_millis(660))),
        (wavering(12, 422), "s", settle, Ok(settle + Duration::from_millis(660))),
        (wavering(usize::MAX, 201), "s", settle, Err("it refuses nothing")),
        (wavering(0, 201), "another", now, Err(STALE)),
        (wavering(usize::MAX, 422), "s", settle, Err("something else refuses")),
    ] {
        let begin = tokio::time::Instant::now();
        let heard = wait_until_in_force(&server, stamp, settle).await;
        match expect {
            Ok(expect) => {
                heard.expect("it is in force");
                let took = begin.elapsed();
                let slack = Duration::from_millis(150);
                assert!(took >= expect.saturating_sub(slack) && took <= expect + slack, "{took:?}, not {expect:?}");
            }
            Err(says) => {
                let error = heard.expect_err("it is not").told();
                assert!(error.contains(says) && !error.contains("their/name"), "{error}");
            }
        }
    }
}
