//! The API as its clients see it, in one process on a store in memory: what recorded conversations do not
//! hold. Single rules are tested where they are written.

mod disk;
mod evictions;
mod hostile;
mod kinds;
mod openapi;
mod shares;
mod tenants;
mod tokens;
mod world;

use std::io::Read as _;
use std::time::Duration;

use allotment_apiserver::service::ConnectionTenant;
use allotment_machinery::json;
use allotment_machinery::json::{Number, Value, parse};
use allotment_store::conformance::noise;
use allotment_store::{Faults, Store as _, Tenant};
use http_body_util::BodyExt as _;
use world::{Reply, World};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str, text: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"text": text}})
}

fn names(list: &Value) -> Vec<String> {
    let items = list.get("items").and_then(Value::as_array).unwrap_or_default();
    items.iter().filter_map(|item| item.at(&["metadata", "name"])?.as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn pages_show_one_revision_until_it_is_compacted_and_go_on_inconsistently_if_asked() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.create(CONFIG_MAPS, config_map(name, "")).await;
    }
    let first = world.get(&format!("{CONFIG_MAPS}?limit=2")).await;
    assert_eq!(names(&first.body), ["a", "b"]);
    let token = first.text(&["metadata", "continue"]);
    world.delete(&format!("{CONFIG_MAPS}/c")).await;
    let second = world.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await;
    assert!(names(&second.body).contains(&"c".to_owned()), "the page shows the first page's revision");

    world.store.compact(world.revision().await);
    let gone = world.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await;
    assert_eq!((gone.code, gone.text(&["reason"]).as_str()), (410, "Expired"));
    let token = gone.text(&["metadata", "continue"]);
    let rest = world.get(&format!("{CONFIG_MAPS}?continue={token}")).await;
    assert!(!names(&rest.body).contains(&"c".to_owned()), "the newest state has no c");
    assert_eq!(world.get(&format!("{CONFIG_MAPS}?continue=nonsense")).await.code, 400);
}

#[tokio::test]
async fn a_watch_from_before_the_history_is_told_so_in_a_frame() {
    let world = World::new().await;
    let created = world.create(CONFIG_MAPS, config_map("a", "")).await;
    world.create(CONFIG_MAPS, config_map("b", "")).await;
    world.store.compact(world.revision().await);
    let from = created.text(&["metadata", "resourceVersion"]).parse::<u64>().expect("a revision") - 1;
    let mut watch = world.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}")).await;
    let frame = world::next(&mut watch).await.expect("a frame");
    assert_eq!(frame.at(&["type"]), Some(&Value::from("ERROR")));
    assert_eq!(frame.at(&["object", "code"]).and_then(Value::as_i64), Some(410));
    assert!(world::next(&mut watch).await.is_none(), "the watch ends");
}

#[tokio::test]
async fn a_lost_reply_is_found_out() {
    let world = World::new().await;
    world.store.set_faults(Faults { lost_replies: 1000, ..Faults::default() });
    let created = world.create(CONFIG_MAPS, config_map("a", "1")).await;
    let version = created.text(&["metadata", "resourceVersion"]);
    let mut changed = config_map("a", "2");
    changed.get_mut("metadata").and_then(Value::as_object_mut).expect("metadata").insert("resourceVersion", version);
    let updated = world.send("PUT", &format!("{CONFIG_MAPS}/a"), &changed).await;
    assert_eq!((updated.code, updated.text(&["data", "text"]).as_str()), (200, "2"));
    assert_eq!(world.delete(&format!("{CONFIG_MAPS}/a")).await.code, 200);
    // A request that did not arrive is no success.
    world.store.set_faults(Faults { lost_requests: 1000, ..Faults::default() });
    assert_eq!(world.send("POST", CONFIG_MAPS, &config_map("b", "")).await.code, 504);
}

#[tokio::test]
async fn a_dropped_caller_does_not_cancel_a_write() {
    let world = World::new().await;
    world.store.set_faults(Faults { delay: Duration::from_millis(300), ..Faults::default() });
    let object = config_map("a", "");
    let pending = world.send("POST", CONFIG_MAPS, &object);
    assert!(tokio::time::timeout(Duration::from_millis(1), pending).await.is_err(), "the write takes longer");
    world.store.set_faults(Faults::default());
    world.until(&format!("{CONFIG_MAPS}/a"), |reply| reply.code == 200).await;
}

#[tokio::test]
async fn tenants_see_nothing_of_each_other() {
    let world = World::new().await;
    world.tenant("one").await;
    world.tenant("two").await;
    let of = |tenant: &str| format!("/clusters/{tenant}{CONFIG_MAPS}");
    world.create(&of("one"), config_map("a", "one")).await;
    world.create(&of("two"), config_map("a", "two")).await;
    for tenant in ["one", "two"] {
        assert_eq!(world.get(&format!("{}/a", of(tenant))).await.text(&["data", "text"]), tenant);
    }
    assert_eq!(world.get(&format!("{CONFIG_MAPS}/a")).await.code, 404);
    assert_eq!(world.get(&of("three")).await.code, 404);
    assert_eq!(world.get(&of("platform")).await.code, 404, "the platform's key space has no prefix");
    world.server.remove_tenant(&Tenant::logical("one")).await.expect("removed");
    assert_eq!(world.get(&of("one")).await.code, 404);
    assert_eq!(world.get(&format!("{}/a", of("two"))).await.code, 200);
}

/// Whoever still asks for it decided so before it was removed, and would leave a key space that belongs to
/// nothing.
#[tokio::test]
async fn a_tenant_that_was_removed_is_not_served_again() {
    let world = World::new().await;
    world.tenant("one").await;
    world.server.remove_tenant(&Tenant::logical("one")).await.expect("removed");
    let error = world.ensure(Tenant::logical("one")).await.expect_err("it is gone");
    assert_eq!(error.message, "tenant one was removed");
    assert_eq!(world.store.tenants().await.expect("answers"), [Tenant::platform()]);
}

/// Clients, the loops and the aggregation write into tenants while these are removed, each time at another
/// moment: the drop of the key space is the last that happens to it.
#[tokio::test(start_paused = true)]
async fn nothing_is_written_into_a_tenant_once_it_is_removed() {
    let world = World::new().await;
    world.store.set_faults(Faults { delay: Duration::from_millis(20), ..Faults::default() });
    // What the platform's own key space gets is there by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for round in 0..40 {
        let id = format!("t{round}");
        world.tenant(&id).await;
        let object = |name: usize| json!({"metadata": {"name": (format!("n{name}"))}});
        let part = |name: usize| {
            let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
            let rule = json!({"apiGroups": [""], "resources": [(format!("n{name}"))], "verbs": ["get"]});
            json!({"metadata": {"name": (format!("n{name}")), "labels": labels}, "rules": [rule]})
        };
        let namespaces = format!("/clusters/{id}/api/v1/namespaces");
        let roles = format!("/clusters/{id}/apis/rbac.authorization.k8s.io/v1/clusterroles");
        let writes = (0..8).flat_map(|name| [(&namespaces, object(name)), (&roles, part(name))]);
        let writes =
            futures::future::join_all(writes.map(async |(path, object)| world.send("POST", path, &object).await.code));
        let removal = async {
            tokio::time::sleep(Duration::from_millis(5 * round)).await;
            world.server.remove_tenant(&Tenant::logical(&id)).await.expect("removed");
            world.revision().await
        };
        let (codes, dropped) = futures::future::join(writes, removal).await;
        assert!(codes.iter().all(|code| [201, 404].contains(code)), "{codes:?}");
        // Whoever would still write does so within this time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let tenants = world.store.tenants().await.expect("answers");
        assert_eq!(tenants, [Tenant::platform()], "after {round} rounds");
        assert_eq!(world.revision().await, dropped, "after {round} rounds");
    }
}

#[tokio::test]
async fn a_connection_bound_to_a_tenant_leads_nowhere_else() {
    let world = World::new().await;
    world.tenant("one").await;
    world.tenant("two").await;
    let bound = |path: &str| {
        let mut request = world.request("GET", path, &Value::Null);
        request.extensions_mut().insert(ConnectionTenant(Tenant::logical("one")));
        request
    };
    assert_eq!(world.answer(bound(CONFIG_MAPS)).await.code, 200);
    assert_eq!(world.answer(bound(&format!("/clusters/one{CONFIG_MAPS}"))).await.code, 200);
    assert_eq!(world.answer(bound(&format!("/clusters/two{CONFIG_MAPS}"))).await.code, 404);
}

#[tokio::test]
async fn large_replies_are_compressed_for_those_who_can_read_it() {
    let world = World::new().await;
    world.create(CONFIG_MAPS, config_map("big", &"x".repeat(200_000))).await;
    let mut request = world.request("GET", &format!("{CONFIG_MAPS}/big"), &Value::Null);
    request.headers_mut().insert("accept-encoding", "gzip".parse().expect("a value"));
    let response = world.raw(request).await;
    assert_eq!(response.headers().get("content-encoding").map(|value| value.as_bytes()), Some(&b"gzip"[..]));
    let packed = response.into_body().collect().await.expect("infallible").to_bytes();
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&*packed).read_to_end(&mut plain).expect("is gzip");
    assert_eq!(parse(&plain).expect("JSON").at(&["metadata", "name"]), Some(&Value::from("big")));
    let small = world.request("GET", CONFIG_MAPS, &Value::Null);
    assert!(world.raw(small).await.headers().get("content-encoding").is_none());
}

#[tokio::test]
async fn discovery_is_not_sent_twice() {
    let world = World::new().await;
    let ask = |etag: Option<&str>| {
        let mut request = world.request("GET", "/apis", &Value::Null);
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        request.headers_mut().insert("accept", accept.parse().expect("a value"));
        if let Some(etag) = etag {
            request.headers_mut().insert("if-none-match", etag.parse().expect("a value"));
        }
        request
    };
    let first = world.raw(ask(None)).await;
    let etag = first.headers().get("etag").and_then(|value| value.to_str().ok()).expect("an ETag").to_owned();
    let second = world.raw(ask(Some(&etag))).await;
    assert_eq!(second.status(), 304);
    assert!(second.into_body().collect().await.expect("infallible").to_bytes().is_empty(), "304 has no body");
}

#[tokio::test]
async fn malformed_bodies_are_a_status_and_the_server_lives() {
    let world = World::new().await;
    let deep = "[".repeat(10_000);
    let huge = format!("{{\"a\":\"{}\"}}", "x".repeat(4 << 20));
    for (media, body, code) in [
        ("application/json", "{".to_owned(), 400),
        ("application/json", deep.clone(), 400),
        ("application/json", "[]".to_owned(), 400),
        ("application/json", "null".to_owned(), 422),
        ("application/json", String::new(), 400),
        ("application/json", huge, 413),
        ("application/yaml", "a: [".to_owned(), 400),
        ("application/yaml", deep, 400),
        ("application/yaml", "a: &a [x, *a]".to_owned(), 400),
        ("application/vnd.kubernetes.protobuf", "k8s\0\u{7f}\u{7f}\u{7f}".to_owned(), 400),
        ("application/xml", "<a/>".to_owned(), 415),
    ] {
        let shown: String = body.chars().take(20).collect();
        let mut request = world.request("POST", CONFIG_MAPS, &Value::Null);
        *request.body_mut() = http_body_util::Full::new(body.into());
        request.headers_mut().insert("content-type", media.parse().expect("a value"));
        let reply = world.answer(request).await;
        assert_eq!((reply.code, reply.text(&["kind"]).as_str()), (code, "Status"), "{media} {shown}");
    }
    assert_eq!(world.get("/readyz").await.code, 200);
}

#[tokio::test]
async fn a_definition_is_served_once_its_create_is_answered_and_gone_once_it_is_deleted() {
    let world = World::new().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.create(definitions, definition("things", "Thing")).await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    let one = Value::Number(Number::parse("1.5").expect("a number"));
    let thing =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": (one)}});
    let created = world.create(things, thing).await;
    assert_eq!(
        created.body.at(&["spec", "x"]).map(ToString::to_string).as_deref(),
        Some("1.5"),
        "a fraction stays one"
    );
    world.delete(&format!("{definitions}/things.example.com")).await;
    world.until(&format!("{definitions}/things.example.com"), |reply| reply.code == 404).await;
    world.until(things, |reply| reply.code == 404).await;
}

#[tokio::test]
async fn no_object_is_made_of_a_definition_that_is_going_and_it_goes_with_its_last_object() {
    let world = World::new().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.create(definitions, definition("things", "Thing")).await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    let thing = |name: &str, finalizers: Value| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "finalizers": finalizers}
        })
    };
    world.create(things, thing("held", json!(["example.com/held"]))).await;
    world.delete(&format!("{definitions}/things.example.com")).await;
    let refused = world.send("POST", things, &thing("late", json!([]))).await;
    assert_eq!((refused.code, refused.text(&["reason"]).as_str()), (403, "Forbidden"), "{}", refused.body);
    let put = world.send("PUT", &format!("{things}/late"), &thing("late", json!([]))).await;
    assert_eq!(put.code, 404, "{}", put.body);
    world
        .until(&format!("{definitions}/things.example.com"), |reply| {
            reply.body.to_string().contains("InstanceDeletionInProgress")
        })
        .await;
    // What is there can be changed, or its finalizers could never go.
    let released = world.patch(&format!("{things}/held"), &json!({"metadata": {"finalizers": (Value::Null)}})).await;
    assert_eq!(released.code, 200, "{}", released.body);
    world.until(&format!("{definitions}/things.example.com"), |reply| reply.code == 404).await;
    world.create(definitions, definition("things", "Thing")).await;
    assert_eq!(names(&world.get(things).await.body), Vec::<String>::new(), "nothing outlived the definition");
}

#[tokio::test]
async fn names_that_a_definition_gives_back_go_to_the_one_that_waits_for_them() {
    let world = World::new().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    // A kind of which no version is served has its names all the same.
    let text = definition("things", "Thing").to_string().replace("\"served\":true", "\"served\":false");
    let first = parse(text.as_bytes()).expect("JSON");
    world.create(definitions, first).await;
    world.create(definitions, definition("others", "Thing")).await;
    let waiting = world.get(&format!("{definitions}/others.example.com")).await;
    let reasons = waiting.body.at(&["status", "conditions"]).map(ToString::to_string).unwrap_or_default();
    assert!(reasons.contains("KindConflict") && reasons.contains("NotAccepted"), "{reasons}");
    assert_eq!(world.get("/apis/example.com/v1/others").await.code, 404);
    world.delete(&format!("{definitions}/things.example.com")).await;
    world.until("/apis/example.com/v1/others", |reply| reply.code == 200).await;
}

#[tokio::test]
async fn of_definitions_that_ask_for_one_name_at_once_one_gets_it() {
    let world = World::new().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let creates = (0..8).map(|number| world.create(definitions, definition(&format!("things{number}"), "Thing")));
    futures::future::join_all(creates).await;
    let list = world.get(definitions).await.body;
    let items = list.get("items").and_then(Value::as_array).unwrap_or_default();
    let accepted = items.iter().filter(|item| item.to_string().contains("InitialNamesAccepted")).count();
    assert_eq!((items.len(), accepted), (8, 1), "{list}");
}

#[tokio::test]
async fn an_object_that_is_too_large_with_its_owners_is_stored_without_them() {
    let world = World::new().await;
    // A field is named once in the object and once more by who owns it.
    let data = (0..5_000).map(|number| (format!("{number:0>200}"), Value::from(""))).collect();
    let large = json!({"metadata": {"name": "large"}, "data": (Value::Object(data))});
    let created = world.create(CONFIG_MAPS, large).await;
    assert_eq!(created.body.at(&["metadata", "managedFields"]), None);
    let small = config_map("small", "");
    world.create(CONFIG_MAPS, small).await;
    let data = (0..5_000).map(|number| (format!("{number:0>200}"), Value::from(""))).collect();
    let changed = world.patch(&format!("{CONFIG_MAPS}/small"), &json!({"data": (Value::Object(data))})).await;
    assert_eq!((changed.code, changed.body.at(&["metadata", "managedFields"])), (200, None));
}

#[tokio::test]
async fn a_watch_list_from_a_version_to_come_ends_with_an_event() {
    let world = World::new().await;
    let to_come = world.revision().await.0 + 1_000;
    let query = format!("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={to_come}");
    let mut watch = world.watch(&format!("{CONFIG_MAPS}?{query}&allowWatchBookmarks=true")).await;
    let frame = world::next(&mut watch).await.expect("a frame");
    assert_eq!(frame.at(&["type"]), Some(&Value::from("ERROR")));
    assert_eq!(frame.at(&["object", "code"]).and_then(Value::as_i64), Some(504));
    assert!(world::next(&mut watch).await.is_none(), "the watch ends");
}

#[tokio::test]
async fn a_page_goes_on_only_where_it_began() {
    let world = World::new().await;
    world.tenant("one").await;
    world.tenant("two").await;
    let of = |tenant: &str| format!("/clusters/{tenant}{CONFIG_MAPS}");
    for tenant in ["one", "two"] {
        for name in ["a", "b", "c"] {
            world.create(&of(tenant), config_map(name, "")).await;
        }
    }
    let token = world.get(&format!("{}?limit=1", of("one"))).await.text(&["metadata", "continue"]);
    for (place, code) in [(of("one"), 200), (of("two"), 400), (CONFIG_MAPS.to_owned(), 400)] {
        assert_eq!(world.get(&format!("{place}?limit=1&continue={token}")).await.code, code, "{place}");
    }
}

#[tokio::test]
async fn the_kind_of_a_definition_is_served_when_its_creation_is_answered() {
    let world = World::new().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    // The answer shows what Kubernetes' does: nobody has looked at the definition yet.
    let unobserved = r#"{"storedVersions":["v1"],"conditions":null,"acceptedNames":{"plural":"","kind":""}}"#;
    let unobserved = parse(unobserved.as_bytes()).expect("JSON");
    let dry = world.create(&format!("{definitions}?dryRun=All"), definition("things", "Thing")).await;
    let made = world.create(definitions, definition("things", "Thing")).await;
    for answer in [&dry, &made] {
        assert_eq!(answer.body.at(&["status"]), Some(&unobserved));
    }
    assert_eq!(world.get("/apis/example.com/v1/things").await.code, 200);
    let stored = world.get(&format!("{definitions}/things.example.com")).await;
    let version = ["metadata", "resourceVersion"];
    assert_eq!(stored.text(&version), made.text(&version), "it is one write");
    let conditions = stored.body.at(&["status", "conditions"]).map(ToString::to_string).unwrap_or_default();
    assert!(conditions.contains("Established") && conditions.contains("InitialNamesAccepted"), "{conditions}");
}

/// A definition of `PLURAL.example.com` that takes anything.
fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "metadata": {"name": (format!("{plural}.example.com"))},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true
            }}}]
        }
    })
}

#[tokio::test]
async fn a_watch_sees_objects_come_into_and_go_out_of_its_selection() {
    let world = World::new().await;
    let start = world.get(CONFIG_MAPS).await.text(&["metadata", "resourceVersion"]);
    let selector = "labelSelector=color%3Dred";
    let mut watch = world.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}&{selector}")).await;
    world.create(CONFIG_MAPS, config_map("a", "")).await;
    for labels in [json!({"color": "red"}), json!({"color": "blue"})] {
        let patch = json!({"metadata": {"labels": labels}});
        let reply: Reply = world.patch(&format!("{CONFIG_MAPS}/a"), &patch).await;
        assert_eq!(reply.code, 200);
    }
    let mut seen = Vec::new();
    for _ in 0..2 {
        let frame = world::next(&mut watch).await.expect("a frame");
        let text = |path: &[&str]| frame.at(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        seen.push((text(&["type"]), text(&["object", "metadata", "labels", "color"])));
    }
    let pair = |kind: &str| (kind.to_owned(), "red".to_owned());
    assert_eq!(seen, [pair("ADDED"), pair("DELETED")]);
}

#[tokio::test]
async fn a_watch_that_is_not_read_is_dropped_by_the_history_and_nobody_else_feels_it() {
    const UPDATES: usize = 40;
    let world = World::new().await;
    world.until(&format!("{CONFIG_MAPS}/kube-root-ca.crt"), |reply| reply.code == 200).await;
    world.create(CONFIG_MAPS, config_map("a", "")).await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", world.revision().await);
    let (mut slow, mut quick) = (world.watch(&path).await, world.watch(&path).await);
    // Twice as much as the history of a small landscape keeps.
    let text = |number: usize| format!("{number} {}", noise(100_000, 1));
    for number in 0..UPDATES {
        world.patch(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"text": (text(number))}})).await;
        let event = world::next(&mut quick).await.expect("goes on");
        assert_eq!(event.at(&["object", "data", "text"]), Some(&Value::from(text(number))));
    }
    let mut seen = 0;
    let end = loop {
        let event = world::next(&mut slow).await.expect("an error before the end");
        match event.at(&["type"]).and_then(Value::as_str) {
            Some("MODIFIED") => seen += 1,
            _ => break event,
        }
    };
    assert_eq!(end.at(&["object", "code"]).and_then(Value::as_i64), Some(410), "{end}");
    assert!(world::next(&mut slow).await.is_none(), "the watch ends");
    assert_eq!(seen, 0, "nothing was kept for it");
}

#[tokio::test]
async fn large_objects_that_are_held_packed_are_shown_as_all_others() {
    let world = World::new().await;
    world.until(&format!("{CONFIG_MAPS}/kube-root-ca.crt"), |reply| reply.code == 200).await;
    let from = world.revision().await;
    // One is packed to nearly nothing, one to half, one not at all, and one is small.
    let half = noise(30_000, 1);
    let texts = [("a", "x".repeat(300_000)), ("b", half.repeat(2)), ("c", noise(100_000, 2)), ("d", "x".to_owned())];
    for (name, text) in &texts {
        let metadata = json!({"name": (*name), "labels": {"of": "the-test"}});
        let made = world.create(CONFIG_MAPS, json!({"metadata": metadata, "data": {"text": (text.as_str())}})).await;
        let read = world.get(&format!("{CONFIG_MAPS}/{name}")).await;
        assert_eq!(made.body, read.body, "{name}");
        assert_eq!(read.body.at(&["data", "text"]), Some(&Value::from(text.as_str())), "{name}");
        let again = world.patch(&format!("{CONFIG_MAPS}/{name}"), &json!({"data": {"text": (text.as_str())}})).await;
        assert_eq!(again.body, read.body, "{name}: nothing changed");
    }
    let shown = |object: &Value| object.at(&["data", "text"]).and_then(Value::as_str).unwrap_or_default().to_owned();
    let wanted: Vec<String> = texts.iter().map(|(_, text)| text.clone()).collect();
    for query in ["labelSelector=of%3Dthe-test", "fieldSelector=metadata.name!%3Dkube-root-ca.crt"] {
        let list = world.get(&format!("{CONFIG_MAPS}?{query}")).await;
        let items = list.body.get("items").and_then(Value::as_array).expect("a list");
        assert_eq!(items.iter().map(shown).collect::<Vec<_>>(), wanted, "{query}");
        let mut watch = world.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}&{query}")).await;
        for text in &wanted {
            let event = world::next(&mut watch).await.expect("goes on");
            assert_eq!(event.get("object").map(shown).as_ref(), Some(text), "{query}");
        }
    }
    // It leaves the selection: the watch shows it as it was, at the revision of the change.
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}&labelSelector=of%3Dthe-test", world.revision().await);
    let mut watch = world.watch(&path).await;
    let small = json!({"metadata": {"labels": {"of": null}}, "data": {"text": "small"}});
    let changed = world.patch(&format!("{CONFIG_MAPS}/a"), &small).await.body;
    let event = world::next(&mut watch).await.expect("goes on");
    let object = event.get("object").expect("an object");
    assert_eq!((event.at(&["type"]), shown(object)), (Some(&Value::from("DELETED")), wanted[0].clone()));
    let revision = ["metadata", "resourceVersion"];
    assert_eq!(object.at(&revision), changed.at(&revision));
}

#[tokio::test]
async fn a_watch_takes_all_that_is_at_hand_in_one_frame() {
    let world = World::new().await;
    world.until(&format!("{CONFIG_MAPS}/kube-root-ca.crt"), |reply| reply.code == 200).await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", world.revision().await);
    let response = world.raw(world.request("GET", &path, &Value::Null)).await;
    for name in ["a", "b", "c"] {
        world.create(CONFIG_MAPS, config_map(name, "")).await;
    }
    let mut body = response.into_body();
    let frame = body.frame().await.expect("goes on").expect("infallible").into_data().expect("data");
    assert_eq!(frame.iter().filter(|byte| **byte == b'\n').count(), 3, "one line an event");
}
