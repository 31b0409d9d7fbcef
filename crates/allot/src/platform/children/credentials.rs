//! What a provider proves itself with: a kubeconfig that names a token file, and the token, renewed in time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use allotment_api::names::{SYSTEM_NAMESPACE, provider_object};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use super::ChildrenConfig;
use crate::platform::files::{make_dir, write_private};

/// How long a token is asked for.
const LIFETIME_SECS: i64 = 3600;
/// When it is renewed: clients read the file again about once a minute.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(2400);

/// A provider's own folder, for this user only: it begins there, and may keep there what it needs.
pub(super) struct Credentials {
    folder: PathBuf,
    client: Client,
    account: String,
}

impl Credentials {
    /// Makes the folder, writes the kubeconfig and the first token.
    pub(super) async fn prepare(config: &ChildrenConfig, provider: &str) -> anyhow::Result<Self> {
        let folder = config.folder.join(provider);
        make_dir(&config.folder)?;
        make_dir(&folder)?;
        let account = provider_object(provider);
        let credentials = Credentials { folder, client: config.client.clone(), account };
        credentials.renew().await?;
        // As JSON, which is YAML, so that nobody needs a reader of YAML.
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "platform",
            "clusters": [{ "name": "platform", "cluster": {
                "server": config.url, "certificate-authority-data": STANDARD.encode(config.root_ca_pem.as_bytes()) } }],
            "users": [{ "name": "provider", "user": { "tokenFile": credentials.token() } }],
            "contexts": [{ "name": "platform", "context": { "cluster": "platform", "user": "provider" } }],
        });
        write_private(&credentials.kubeconfig(), format!("{kubeconfig:#}\n").as_bytes())?;
        Ok(credentials)
    }

    /// Asks for a new token and puts it in the place of the old one.
    pub(super) async fn renew(&self) -> anyhow::Result<()> {
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let spec = Some(TokenRequestSpec { expiration_seconds: Some(LIFETIME_SECS), ..TokenRequestSpec::default() });
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = accounts.create_token_request(&self.account, &PostParams::default(), &request).await?;
        let token = answer.status.and_then(|status| status.token).unwrap_or_default();
        write_private(&self.token(), token.as_bytes())?;
        Ok(())
    }

    /// Its folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    fn token(&self) -> PathBuf {
        self.folder.join("token")
    }
}
