//! Secrets of type `kubernetes.io/service-account-token`: filled with a token of their account, the
//! certificates of the API and the namespace; taken away with the account.

use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_mut;
use allotment_pki::BoundObject;
use allotment_store::Resource;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::graph::Place;
use super::objects::{Failure, Object, Objects};
use crate::auth::mint_secret_token;

/// The type of these Secrets.
pub(super) const TYPE: &str = "kubernetes.io/service-account-token";
/// The annotation that names the account.
pub(super) const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Fills a Secret, or takes it away where its account is gone.
pub(super) async fn ensure(objects: &Objects, secret: &Place) -> Result<(), Failure> {
    let Some(found) = objects.get(secret).await? else { return Ok(()) };
    if found.is_deleting() || found.content.get("type").and_then(Value::as_str) != Some(TYPE) {
        return Ok(());
    }
    let name = annotation(&found, ACCOUNT);
    if name.is_empty() {
        return Ok(());
    }
    let account = Place {
        resource: Resource::new("serviceaccounts", ""),
        namespace: secret.namespace.clone(),
        name: name.as_str().into(),
    };
    let wanted = annotation(&found, ACCOUNT_UID);
    match objects.get(&account).await? {
        Some(account) if wanted.is_empty() || wanted == account.uid() => fill(objects, secret, &found, &account).await,
        // The account is gone, or another one has its name.
        _ => objects.delete(&found.entry, None).await,
    }
}

async fn fill(objects: &Objects, secret: &Place, found: &Object, account: &Object) -> Result<(), Failure> {
    let mut content = found.content.clone();
    let have = content.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    let missing = |key: &str| have.get(key).and_then(Value::as_str).is_none_or(str::is_empty);
    let mut data = have.clone();
    data.insert("ca.crt", STANDARD.encode(&*objects.tenant().root_ca_pem));
    if missing("namespace") {
        data.insert("namespace", STANDARD.encode(&*secret.namespace));
    }
    if missing("token") {
        let account = BoundObject { name: account.entry.name.to_string(), uid: account.uid().to_owned() };
        let token = mint_secret_token(objects.tenant(), &secret.namespace, account, &secret.name)?;
        // Without keys there are no tokens, and a Secret without one would be of no use.
        let Some(token) = token else { return Ok(()) };
        data.insert("token", STANDARD.encode(token.as_bytes()));
    }
    content.insert("data", data);
    if let Some(metadata) = metadata_mut(&mut content)
        && let Some(annotations) = metadata.object_mut("annotations")
    {
        annotations.insert(ACCOUNT_UID, account.uid());
    }
    if content == found.content { Ok(()) } else { objects.update(found, content).await }
}

fn annotation(object: &Object, name: &str) -> String {
    object.metadata().map(|metadata| annotation_of(metadata, name)).unwrap_or_default()
}

/// An annotation in metadata; empty where there is none.
pub(super) fn annotation_of(metadata: &Map, name: &str) -> String {
    let annotations = metadata.get("annotations").and_then(Value::as_object);
    annotations.and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default().to_owned()
}
