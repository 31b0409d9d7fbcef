//! Built-in kinds that nothing acts on: what is made of a rich object of each, as kube-apiserver answers
//! (`tests/defaults`), and that the addresses of Services are had once.

use std::collections::BTreeSet;
use std::path::Path;

use allotment_machinery::json;
use allotment_machinery::json::{Value, parse};

use crate::world::World;

/// Members that the server gives: any value of the right form does.
const GIVEN: [&str; 5] = ["clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort", "lastPhaseTransitionTime"];
/// Labels with a UID in them.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// Replaces what differs from run to run by what it is.
fn settle(name: &str, value: &mut Value) {
    let given = GIVEN.contains(&name) && *value != Value::from("None") && *value != json!(["None"]);
    if given || UID_LABELS.contains(&name) {
        *value = Value::from("(given)");
        return;
    }
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(name, value)| settle(name, value)),
        Value::Array(items) => items.iter_mut().for_each(|item| settle("", item)),
        _ => {}
    }
}

/// What a table shows, without what differs from run to run.
fn shown(cells: &[Value]) -> Vec<Value> {
    let moves = |cell: &Value| {
        let text = cell.as_str().unwrap_or_default();
        let age = text.strip_suffix('s').is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let port = text.contains(":3") && text.contains("/TCP");
        age || port || text.starts_with("10.0.") || text.starts_with("20") || text.contains("controller-uid=")
    };
    cells.iter().map(|cell| if moves(cell) { Value::from("(moves)") } else { cell.clone() }).collect()
}

#[tokio::test]
async fn rich_objects_of_every_kind_are_completed_and_shown_as_kubernetes_does() {
    let world = World::new().await;
    // The recordings are of a server that mounts no tokens.
    let account = |name: &str| json!({"metadata": {"name": name}, "automountServiceAccountToken": false});
    world.create("/api/v1/namespaces/default/serviceaccounts", account("sa")).await;
    let default = "/api/v1/namespaces/default/serviceaccounts/default";
    world.answer(world.request("PUT", default, &account("default"))).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/defaults");
    let (mut differ, mut count) = (Vec::new(), 0);
    for file in std::fs::read_dir(folder).expect("the folder is there").map(|file| file.expect("a file").path()) {
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        count += 1;
        let case = parse(&std::fs::read(&file).expect("is read")).expect("is JSON");
        let path = case.at(&["path"]).and_then(Value::as_str).expect("a path").to_owned();
        let object = case.at(&["object"]).expect("an object").clone();
        let name = object.at(&["metadata", "name"]).and_then(Value::as_str).expect("a name").to_owned();
        let (mut got, mut expect) =
            (world.create(&path, object).await.body, case.at(&["expect"]).expect("a reply").clone());
        if let Some(metadata) = got.get_mut("metadata").and_then(Value::as_object_mut) {
            ["uid", "resourceVersion", "creationTimestamp", "managedFields"].iter().for_each(|name| {
                metadata.remove(name);
            });
        }
        settle("", &mut got);
        settle("", &mut expect);
        if got != expect {
            differ.push(format!("{}\n  got    {got}\n  expect {expect}", file.display()));
        }
        let mut request = world.request("GET", &format!("{path}/{name}"), &Value::Null);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io".parse().expect("a value");
        request.headers_mut().insert("accept", table);
        let table = world.answer(request).await.body;
        let row =
            table.at(&["rows"]).and_then(Value::as_array).and_then(|rows| rows.first()).cloned().unwrap_or_default();
        let cells = |row: &Value| shown(row.get("cells").and_then(Value::as_array).unwrap_or_default());
        if cells(&row) != cells(&case) {
            differ.push(format!("{}\n  shows  {:?}\n  expect {:?}", file.display(), cells(&row), cells(&case)));
        }
    }
    assert!(count >= 35, "{count} cases");
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
}

/// Address and node port of every Service.
async fn taken(world: &World) -> Vec<(String, i64)> {
    let list = world.get("/api/v1/services").await.body;
    let items = list.get("items").and_then(Value::as_array).unwrap_or_default();
    let of = |item: &Value| {
        let address = item.at(&["spec", "clusterIP"])?.as_str()?.to_owned();
        let ports = item.at(&["spec", "ports"])?.as_array()?;
        Some((address, ports.first()?.get("nodePort")?.as_i64()?))
    };
    items.iter().filter_map(of).collect()
}

#[tokio::test]
async fn services_made_at_once_and_after_a_restart_share_no_address() {
    const PATH: &str = "/api/v1/namespaces/default/services";
    let world = World::new().await;
    let creates = (0..60).map(|number| world.create(PATH, service(&format!("a{number}"))));
    futures::future::join_all(creates).await;
    // A server that begins knows only what lies in the store.
    let world = world.restarted().await;
    let creates = (0..60).map(|number| world.create(PATH, service(&format!("b{number}"))));
    futures::future::join_all(creates).await;
    let all = taken(&world).await;
    assert_eq!(all.len(), 120);
    let (addresses, ports): (BTreeSet<_>, BTreeSet<_>) = all.iter().cloned().unzip();
    assert_eq!((addresses.len(), ports.len()), (120, 120));

    let (address, port) = all[0].clone();
    let mut asked = service("asked");
    if let Some(spec) = asked.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("clusterIP", address.as_str());
    }
    let reply = world.send("POST", PATH, &asked).await;
    assert_eq!(reply.code, 422, "{}", reply.body);
    assert!(reply.text(&["message"]).contains("provided IP is already allocated"), "{}", reply.body);
    let port = json!({"spec": {"ports": [{"port": 80, "nodePort": port}]}});
    let reply = world.patch(&format!("{PATH}/b59"), &port).await;
    let other = all.iter().all(|(have, _)| *have != address) || reply.code == 422;
    assert!(other, "{}", reply.body);

    // What a Service had is free once it is gone.
    world.delete(&format!("{PATH}/a0")).await;
    assert_eq!(taken(&world).await.len(), 119);
}

#[tokio::test]
async fn a_service_that_is_only_tried_takes_nothing() {
    const PATH: &str = "/api/v1/namespaces/default/services";
    let world = World::new().await;
    let mut tried = service("tried");
    if let Some(spec) = tried.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("clusterIP", "10.0.7.7");
    }
    assert_eq!(world.send("POST", &format!("{PATH}?dryRun=All"), &tried).await.code, 201);
    assert_eq!(world.send("POST", PATH, &tried).await.code, 201);
}

#[tokio::test]
async fn a_change_of_a_workloads_spec_counts_and_one_of_its_status_does_not() {
    const PATH: &str = "/apis/apps/v1/namespaces/default/deployments";
    let world = World::new().await;
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    }});
    world.create(PATH, deployment).await;
    let generation = |body: &Value| body.at(&["metadata", "generation"]).and_then(Value::as_i64);
    let path = format!("{PATH}/d");
    let scaled = world.patch(&format!("{path}/scale"), &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scaled.code, 200, "{}", scaled.body);
    assert_eq!(generation(&world.get(&path).await.body), Some(2));
    let status = json!({"status": {"replicas": 3}, "spec": {"replicas": 9}});
    let reply = world.patch(&format!("{path}/status"), &status).await;
    assert_eq!((generation(&reply.body), reply.body.at(&["spec", "replicas"])), (Some(2), Some(&Value::from(3))));
    let selector = json!({"spec": {"selector": {"matchLabels": {"a": "c"}}}});
    let reply = world.patch(&path, &selector).await;
    assert_eq!(reply.code, 422);
    assert!(reply.text(&["message"]).contains("spec.selector: Invalid value"), "{}", reply.body);
}

#[tokio::test]
async fn a_limit_range_without_a_name_is_called_by_a_uid() {
    const PATH: &str = "/api/v1/namespaces/default/limitranges";
    let world = World::new().await;
    let made = world.create(PATH, json!({"metadata": {}, "spec": {"limits": []}})).await;
    let name = made.text(&["metadata", "name"]).to_owned();
    assert_eq!(name.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{name}");
    assert_eq!(world.get(&format!("{PATH}/{name}")).await.code, 200);
    let other = world.create(PATH, json!({"metadata": {}, "spec": {"limits": []}})).await;
    assert_ne!(other.text(&["metadata", "name"]), name);
    let prefixed = world.create(PATH, json!({"metadata": {"generateName": "a-"}, "spec": {"limits": []}})).await;
    assert!(prefixed.text(&["metadata", "name"]).starts_with("a-"), "{}", prefixed.body);
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let refused = world.send("POST", quotas, &json!({"metadata": {}, "spec": {}})).await;
    assert_eq!(refused.code, 422, "other kinds have to be named: {}", refused.body);
}

#[tokio::test]
async fn annotations_of_services_that_mean_the_same_say_the_same() {
    const PATH: &str = "/api/v1/namespaces/default/services";
    const OLD: &str = "service.kubernetes.io/topology-aware-hints";
    const NEW: &str = "service.kubernetes.io/topology-mode";
    let world = World::new().await;
    let annotated = |name: &str, annotations: Value| json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"ports": [{"port": 80}]}});
    for (name, annotations) in
        [("a", json!({OLD: "Auto"})), ("b", json!({NEW: "Auto"})), ("c", json!({OLD: "Auto", NEW: "Auto"}))]
    {
        assert_eq!(world.create(PATH, annotated(name, annotations)).await.code, 201, "{name}");
    }
    let refused = world.send("POST", PATH, &annotated("d", json!({OLD: "Auto", NEW: "Disabled"}))).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    let told = format!(
        "metadata.annotations[{NEW}]: Invalid value: \"Disabled\": must match annotations[{OLD}] when both are specified"
    );
    assert!(refused.text(&["message"]).contains(&told), "{}", refused.body);
}
