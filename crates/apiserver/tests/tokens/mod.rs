//! Tokens of service accounts that are bound to something: they hold as long as that is there.

use allotment_apiserver::auth::{AccessConfig, ServiceAccountIssuer};
use allotment_machinery::json;
use allotment_machinery::json::Value;
use allotment_pki::{KeySource as _, RandomKeys, ServiceAccountKeys};
use allotment_store::Tenant;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use super::world::{Reply, World};

const ROOT: &str = "/clusters/a";

/// A world whose tenant a issues tokens.
pub(super) async fn world() -> World {
    let world = World::new().await;
    let access = AccessConfig {
        service_accounts: Some(ServiceAccountIssuer {
            issuer: "https://127.0.0.1:1".to_owned(),
            keys: ServiceAccountKeys::new(RandomKeys.generate().expect("a key"), &[]).expect("keys"),
            audiences: Vec::new(),
        }),
        ..AccessConfig::default()
    };
    world.admit(Tenant::logical("a"), access).await.expect("a tenant");
    let account = format!("{ROOT}/api/v1/namespaces/default/serviceaccounts/default");
    world.until(&account, |reply| reply.code == 200).await;
    world
}

async fn request_token(world: &World, reference: Value) -> Reply {
    let path = format!("{ROOT}/api/v1/namespaces/default/serviceaccounts/default/token");
    world.send("POST", &path, &json!({"spec": {"boundObjectRef": reference}})).await
}

/// Who the token says one is; the code where it says nothing.
async fn who(world: &World, token: &str) -> Result<Value, u16> {
    let request = Request::builder()
        .method("POST")
        .uri(format!("{ROOT}/apis/authentication.k8s.io/v1/selfsubjectreviews"))
        .header("authorization", format!("Bearer {token}"))
        .body(Full::new(Bytes::from_static(b"{}")))
        .expect("a request");
    let reply = world.answer(request).await;
    let user = reply.body.at(&["status", "userInfo"]).cloned();
    user.filter(|_| reply.code == 201).ok_or(reply.code)
}

fn extra(user: &Value, name: &str) -> String {
    let values = user.at(&["extra", &format!("authentication.kubernetes.io/{name}")]).and_then(Value::as_array);
    values.and_then(|values| values.first()).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_token_that_is_bound_to_a_node_holds_as_long_as_the_node_is_there() {
    let world = world().await;
    let node = json!({"metadata": {"name": "n"}});
    let nodes = format!("{ROOT}/api/v1/nodes");
    let uid = world.create(&nodes, node.clone()).await.text(&["metadata", "uid"]);
    let reference = |uid: &str| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid});
    let wrong = request_token(&world, reference("another")).await;
    assert_eq!((wrong.code, wrong.text(&["reason"]).as_str()), (409, "Conflict"), "{}", wrong.body);
    let missing = json!({"apiVersion": "v1", "kind": "Node", "name": "nobody"});
    assert_eq!(request_token(&world, missing).await.code, 404);

    let token = request_token(&world, reference(&uid)).await.text(&["status", "token"]);
    let user = who(&world, &token).await.expect("it holds");
    assert_eq!((extra(&user, "node-name"), extra(&user, "node-uid")), ("n".to_owned(), uid));
    world.delete(&format!("{nodes}/n")).await;
    assert_eq!(who(&world, &token).await, Err(401));
    world.create(&nodes, node).await;
    assert_eq!(who(&world, &token).await, Err(401), "another node of that name is another one");
}

#[tokio::test]
async fn a_token_that_is_bound_to_a_pod_names_the_node_that_the_pod_is_on() {
    let world = world().await;
    let uid = world.create(&format!("{ROOT}/api/v1/nodes"), json!({"metadata": {"name": "n"}})).await;
    let uid = uid.text(&["metadata", "uid"]);
    let spec = json!({
        "nodeName": "n", "serviceAccountName": "default", "containers": [{"name": "c", "image": "i"}]
    });
    let pods = format!("{ROOT}/api/v1/namespaces/default/pods");
    world.create(&pods, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let reply = request_token(&world, json!({"apiVersion": "v1", "kind": "Pod", "name": "p"})).await;
    let user = who(&world, &reply.text(&["status", "token"])).await.expect("it holds");
    assert_eq!((extra(&user, "node-name"), extra(&user, "node-uid")), ("n".to_owned(), uid));
    assert_eq!(extra(&user, "pod-name"), "p");
}
