//! What a provider proves itself with: a kubeconfig that names a token file, and the token, renewed in time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use allotment_api::names::{SYSTEM_NAMESPACE, provider_object};
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use super::{ChildrenConfig, lock};
use crate::platform::files::{make_dir, write_private};

/// How long a token is asked for.
const LIFETIME_SECS: i64 = 3600;
/// What clocks may differ by.
const CLOCKS_DIFFER_SECS: i64 = 60;
/// How long before its end it is renewed: clients read the file again about once a minute.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_mins(20);
/// How often it is looked whether it is time. Timers stand still while the machine sleeps, and tokens do not.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The folder of locks, beside those of providers: no ClusterProvider is called so.
const LOCKS: &str = ".locks";

/// A provider's own folder, for this user only: it begins there, and may keep there what it needs.
pub(super) struct Credentials {
    folder: PathBuf,
    client: Client,
    account: String,
    lock: PathBuf,
    /// When the token ends.
    ends: Mutex<Timestamp>,
}

impl Credentials {
    /// Makes the folder, writes the kubeconfig and the first token.
    pub(super) async fn prepare(config: &ChildrenConfig, provider: &str) -> anyhow::Result<Self> {
        let folder = config.folder.join(provider);
        make_dir(&config.folder)?;
        make_dir(&folder)?;
        let account = provider_object(provider);
        let locks = config.folder.join(LOCKS);
        make_dir(&locks)?;
        let (lock, ends) = (locks.join(provider), Mutex::new(Timestamp::MIN));
        let credentials = Credentials { folder, client: config.client.clone(), account, lock, ends };
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
        let (token, ends) = answered(answer)?;
        write_private(&self.token(), token.as_bytes())?;
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = ends;
        Ok(())
    }

    /// Whether it is time for a new token.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        is_due(*self.ends.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// The file that is locked while the provider runs.
    pub(super) fn lock(&self) -> &Path {
        &self.lock
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

/// Takes away the folder of a provider that is gone for good, and the file that was locked.
///
/// # Errors
/// Somebody else holds the lock: what an earlier server ran is still being ended, and works in that folder. Or it cannot be
/// taken away.
pub(super) fn forget(folder: &Path, provider: &str) -> io::Result<()> {
    let path = folder.join(LOCKS).join(provider);
    let held = match lock::try_lock(&path) {
        Ok(Some(held)) => Some(held),
        Ok(None) => {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "what an earlier server ran is still being ended"));
        }
        // Nothing ever ran here.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    match std::fs::remove_dir_all(folder.join(provider)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    held.map_or(Ok(()), |held| lock::remove(held, &path))
}

/// The token that was asked for, and when it ends.
fn answered(answer: TokenRequest) -> anyhow::Result<(String, Timestamp)> {
    let without = "the TokenRequest was answered without a token";
    let status = answer.status.context(without)?;
    let token = status.token.filter(|token| !token.is_empty()).context(without)?;
    let ends = status.expiration_timestamp.context("the TokenRequest was answered without an end of the token")?;
    Ok((token, ends.0))
}

/// Whether a token that ends then is to be replaced. One that was asked for while the clock was ahead is not waited for either.
fn is_due(ends: Timestamp, now: Timestamp) -> bool {
    let left = ends.duration_since(now);
    left <= RENEW_BEFORE || left > SignedDuration::from_secs(LIFETIME_SECS + CLOCKS_DIFFER_SECS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_whose_last_process_is_still_being_ended_is_forgotten_afterwards() {
        let folder = std::env::temp_dir().join(format!("allot-forget-{}", std::process::id()));
        let (own, locks) = (folder.join("p"), folder.join(LOCKS));
        forget(&folder, "p").expect("nothing ever ran");
        make_dir(&own).expect("a folder");
        make_dir(&locks).expect("a folder");
        let held = lock::try_lock(&locks.join("p")).expect("a lock").expect("it is free");
        let refused = forget(&folder, "p").expect_err("it is held");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert!(own.exists(), "whoever runs there keeps its folder");
        assert!(
            lock::try_lock(&locks.join("p")).expect("a lock").is_none(),
            "and its lock, against the next of that name"
        );
        drop(held);
        forget(&folder, "p").expect("nothing runs");
        assert!(!own.exists() && !locks.join("p").exists());
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn an_answer_without_a_token_is_none_and_leaves_the_last_one_where_it_is() {
        let ends = "2027-01-01T00:00:00Z";
        let check = |status: serde_json::Value, expect: Result<&str, &str>| {
            let answer =
                serde_json::from_value(json!({"spec": {"audiences": []}, "status": status})).expect("an answer");
            let found = answered(answer).map(|(token, _)| token).map_err(|error| error.to_string());
            match (found, expect) {
                (Ok(token), Ok(wanted)) => assert_eq!(token, wanted, "{status}"),
                (Err(message), Err(part)) => assert!(message.contains(part), "{status}: {message}"),
                (found, _) => panic!("{status}: {found:?}"),
            }
        };
        check(json!({"token": "t", "expirationTimestamp": ends}), Ok("t"));
        check(json!({"token": "", "expirationTimestamp": ends}), Err("without a token"));
        check(json!({"expirationTimestamp": ends}), Err("without a token"));
        check(json!({"token": "t"}), Err("without an end"));
        check(json!(null), Err("without a token"));
    }

    #[test]
    fn a_token_is_renewed_by_the_clock_whatever_timers_say() {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        for (left_secs, expect) in
            [(3600, false), (1201, false), (1200, true), (0, true), (-7200, true), (3660, false), (7200, true)]
        {
            assert_eq!(is_due(now + SignedDuration::from_secs(left_secs), now), expect, "{left_secs} s are left");
        }
    }
}
