//! `allot credential`: the exec plugin that kubeconfigs of `allot access` name. Prints the current token
//! (`client.authentication.k8s.io/v1`).

use allotment_api::names::access_secret;
use allotment_api::requests::AccessRequest;
use anyhow::anyhow;
use kube::Api;
use serde_json::json;

use super::access::{holds_issuer, secret_of, text};
use crate::cli::{Credential, Target};
use crate::client::{self, Platform};
use crate::exit::Outcome;
use crate::output;

/// Prints an ExecCredential.
pub(crate) async fn run(target: &Target, arguments: Credential) -> Outcome {
    let platform = Platform::connect(target).await?;
    let namespace = arguments.object.namespace.clone().unwrap_or_else(|| platform.namespace.clone());
    let name = arguments.object.name.as_str();
    let requests = Api::<AccessRequest>::namespaced(platform.client.clone(), &namespace);
    let request = requests.get(name).await;
    let request = request.map_err(|error| anyhow!("AccessRequest {namespace}/{name}: {}", client::explain(&error)))?;
    let secret = secret_of(&platform, &request, &namespace).await?;
    if holds_issuer(&secret) {
        return Err(anyhow!(
            "AccessRequest {namespace}/{name} is of type OIDC and has no token: its user logs in at the issuer; print its \
             kubeconfig with allot access {name} -n {namespace}"
        )
        .into());
    }
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {
            "token": text(&secret, access_secret::TOKEN)?,
            // Clients ask again at this time; the token has been renewed long before.
            "expirationTimestamp": text(&secret, access_secret::EXPIRATION)?,
        }
    });
    output::data(&credential.to_string())
}
