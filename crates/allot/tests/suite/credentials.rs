//! What can mint admin rights lies in one namespace: everything else that is stored, said or counted is read.

use kube::api::{DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::access::granted;
use crate::harness::{Folder, Up, client, is_beside};

/// "PRIVATE KEY" as it stands in PEM, and in base64 at each of its three alignments.
const KEYS: [&str; 4] = ["PRIVATE KEY", "UFJJVkFURSBLRV", "BSSVZBVEUgS0VZ", "QUklWQVRFIEtFW"];
/// The beginning of a JSON web token, and of its base64.
const TOKENS: [&str; 2] = ["eyJhbGciOi", "ZXlKaGJHY2lPa"];

fn holds(text: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| text.contains(sign))
}

/// Every object that the platform stores: kind, namespace, name and all of its text.
async fn everything(admin: &Client) -> Vec<(String, String, String, String)> {
    let discovery = Discovery::new(admin.clone()).run_aggregated().await.expect("discovery");
    let mut found = Vec::new();
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.resources_by_stability()) {
        if !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let objects = Api::<DynamicObject>::all_with(admin.clone(), &resource);
        for object in objects.list(&ListParams::default()).await.expect("an admin may list").items {
            let text = serde_json::to_string(&object).expect("JSON");
            let namespace = object.namespace().unwrap_or_default();
            found.push((resource.kind.clone(), namespace, object.name_any(), text));
        }
    }
    found
}

#[tokio::test]
async fn nothing_outside_one_namespace_can_mint_admin_rights() {
    let folder = Folder::new();
    let up = Up::start_with(&folder, &["--access-token-lifetime", "10m"]).await;
    let admin = client(&folder.kubeconfig()).await;
    granted(&admin, "team").await;

    let all = everything(&admin).await;
    let kinds: std::collections::BTreeSet<&str> = all.iter().map(|(kind, ..)| kind.as_str()).collect();
    for kind in ["Secret", "Cluster", "ClusterRequestGrant", "AccessRequest", "ConfigMap", "ClusterProvider"] {
        assert!(kinds.contains(kind), "{kind} is read too: {kinds:?}");
    }
    let mut planes = 0;
    let mut answers = 0;
    for (kind, namespace, name, text) in &all {
        if kind == "Secret" && namespace == "allot-planes" {
            planes += usize::from(holds(text, &KEYS));
            continue;
        }
        assert!(!holds(text, &KEYS), "{kind} {namespace}/{name} holds a private key");
        if holds(text, &TOKENS) {
            assert_eq!((kind.as_str(), namespace.as_str()), ("Secret", "team"), "{name} holds a token");
            answers += 1;
        }
    }
    // Beside another API server the authority of the webhooks lies there too.
    assert_eq!((planes, answers), (1 + usize::from(is_beside()), 1), "the signs find what is known to be there");

    // The one token is that of the identity asked for, and of nobody else.
    let (_, _, _, secret) = all.iter().find(|(kind, at, ..)| kind == "Secret" && at == "team").expect("the answer");
    let secret: Value = serde_json::from_str(secret).expect("JSON");
    let token = secret["data"]["token"].as_str().expect("a token");
    let token: k8s_openapi::ByteString = serde_json::from_value(token.into()).expect("base64");
    let token = String::from_utf8(token.0).expect("text");
    let claims = token.split('.').nth(1).expect("claims");
    // The same text by the other alphabet, padded.
    let padded = format!("{}{}", claims.replace('-', "+").replace('_', "/"), "=".repeat((4 - claims.len() % 4) % 4));
    let claims: k8s_openapi::ByteString = serde_json::from_value(padded.into()).expect("base64");
    let claims: Value = serde_json::from_slice(&claims.0).expect("claims");
    let subject = claims["sub"].as_str().expect("a subject");
    assert!(subject.starts_with("system:serviceaccount:allot-access:access-"), "{subject}");

    let request = http::Request::get("/metrics").body(Vec::new()).expect("a request");
    let metrics = admin.request_text(request).await.expect("metrics");
    assert!(metrics.contains("# TYPE"), "metrics are read: {metrics}");
    assert!(!holds(&metrics, &KEYS) && !holds(&metrics, &TOKENS) && !metrics.contains(&token), "metrics tell a secret");
    assert!(up.interrupt().await.success());
    let log = std::fs::read_to_string(folder.0.join("log")).expect("the log");
    assert!(!log.is_empty() && !holds(&log, &KEYS) && !holds(&log, &TOKENS), "the log tells a secret");
}
