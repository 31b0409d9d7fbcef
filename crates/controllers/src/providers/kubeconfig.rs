//! A kubeconfig that somebody else wrote, as far as the platform trusts it: an address, what to check it by, and a
//! credential, all of them written out in it.
//!
//! # Guarantees
//! - Nothing is run and no file is read: `exec`, `auth-provider`, `certificate-authority`, `client-certificate`,
//!   `client-key`, `tokenFile` are refused. No proxy is used, neither one that it names nor the environment's, and no
//!   identity is put on (`as`).
//! - The server is checked: `https` only, with an authority of its own, never `insecure-skip-tls-verify`.
//! - What the server answers is bounded in size. How long it may take is for the caller to bound.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use allotment_machinery::yaml;
use allotment_pki::Certificate;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Limited;
use kube::client::ClientBuilder;
use kube::config::AuthInfo;
use serde_json::{Value, json};
use tower::util::MapResponseLayer;

use super::Endpoint;

/// The longest kubeconfig: a Secret holds 1 MiB, and one credential with its authorities takes some KiB.
const LONGEST: usize = 256 * 1024;
/// The longest answer that is read: far more than a page of anything that access consists of.
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;

/// A kubeconfig that can be used.
pub(crate) struct ForeignKubeconfig {
    /// `https://HOST:PORT[/PATH]`, no trailing slash.
    pub(crate) server: String,
    /// The certificate authorities to check it by, as PEM.
    pub(crate) certificate_authority: String,
    /// The name to ask for and to expect in TLS, where it is not the URL's host.
    pub(crate) tls_server_name: Option<String>,
    authorities: Vec<Certificate>,
    auth: AuthInfo,
}

impl fmt::Debug for ForeignKubeconfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ForeignKubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}

/// What is wrong with a kubeconfig. Says nothing of what stands in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigFault {
    /// It is longer than one with one credential is.
    #[error("the kubeconfig is longer than {LONGEST} bytes")]
    TooLong,
    /// It cannot be read as YAML.
    #[error("the kubeconfig is no YAML document")]
    Unreadable,
    /// Something is not there or not of the right form.
    #[error("the kubeconfig {what}")]
    Wrong {
        /// `has no current-context`
        what: String,
    },
    /// It asks for what the platform does not do for others.
    #[error("the kubeconfig uses {member}, which is not followed: write the {instead} into it")]
    NotInline {
        /// `users[].user.exec`
        member: String,
        /// What to write instead.
        instead: &'static str,
    },
    /// No client can be made from it.
    #[error("the kubeconfig's certificates and key do not make a client")]
    NoClient,
}

/// Members of a cluster and of a user that lead elsewhere, and what to write instead.
const CLUSTER_OUTSIDE: [(&str, &str); 3] = [
    ("certificate-authority", "certificate-authority-data"),
    ("proxy-url", "address of the server itself"),
    ("insecure-skip-tls-verify", "certificate-authority-data"),
];
const USER_OUTSIDE: [(&str, &str); 11] = [
    ("exec", "token"),
    ("auth-provider", "token"),
    ("tokenFile", "token"),
    ("client-certificate", "client-certificate-data"),
    ("client-key", "client-key-data"),
    ("username", "token"),
    ("password", "token"),
    ("as", "credential of the identity itself"),
    ("as-uid", "credential of the identity itself"),
    ("as-groups", "credential of the identity itself"),
    ("as-user-extra", "credential of the identity itself"),
];

impl ForeignKubeconfig {
    /// Reads the current context of a kubeconfig, as YAML or JSON.
    ///
    /// # Errors
    /// It cannot be read, or asks for more than what stands in it.
    pub(crate) fn read(text: &str) -> Result<Self, KubeconfigFault> {
        if text.len() > LONGEST {
            return Err(KubeconfigFault::TooLong);
        }
        let document = yaml::parse(text).map_err(|_| KubeconfigFault::Unreadable)?;
        let document: Value = serde_json::from_slice(&document.to_vec()).map_err(|_| KubeconfigFault::Unreadable)?;
        let context = document["current-context"].as_str().ok_or_else(|| wrong("has no current-context"))?;
        let context = entry(&document, "contexts", "context", context)?;
        let name = |member: &str| {
            context[member].as_str().ok_or_else(|| wrong(format!("names no {member} in its current context")))
        };
        let cluster = entry(&document, "clusters", "cluster", name("cluster")?)?;
        let user = entry(&document, "users", "user", name("user")?)?;
        refuse_outside(cluster, "clusters[].cluster", &CLUSTER_OUTSIDE)?;
        refuse_outside(user, "users[].user", &USER_OUTSIDE)?;
        let server = cluster["server"].as_str().unwrap_or_default().trim_end_matches('/').to_owned();
        let plain =
            server.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', '?', '#']));
        if !plain || server.parse::<http::Uri>().is_err() {
            return Err(wrong("has no clusters[].cluster.server of the form https://HOST[:PORT][/PATH]"));
        }
        let certificate_authority = decoded(cluster, "certificate-authority-data")?
            .ok_or_else(|| wrong("has no clusters[].cluster.certificate-authority-data"))?;
        let authorities = Certificate::all_from_pem(&certificate_authority).unwrap_or_default();
        if authorities.is_empty() {
            return Err(wrong("has no certificate in clusters[].cluster.certificate-authority-data"));
        }
        let tls_server_name = cluster["tls-server-name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        Ok(ForeignKubeconfig { server, certificate_authority, tls_server_name, authorities, auth: auth(user)? })
    }

    /// A client with that credential. It uses no proxy.
    ///
    /// # Errors
    /// Certificate and key do not belong together.
    pub(crate) fn client(&self) -> Result<kube::Client, KubeconfigFault> {
        self.client_noting(Arc::default())
    }

    /// A client with that credential, which sets `refused` once the server does not know the credential (401). It uses
    /// no proxy.
    ///
    /// # Errors
    /// Certificate and key do not belong together.
    pub(crate) fn client_noting(&self, refused: Arc<AtomicBool>) -> Result<kube::Client, KubeconfigFault> {
        let url = self.server.parse().map_err(|_| wrong("has no usable server"))?;
        let mut config = kube::Config::new(url);
        config.root_cert = Some(self.authorities.iter().map(|authority| authority.der().to_vec()).collect());
        config.tls_server_name = self.tls_server_name.clone();
        config.auth_info = self.auth.clone();
        config.proxy_url = None;
        let builder = ClientBuilder::try_from(config).map_err(|_| KubeconfigFault::NoClient)?;
        let bounded = MapResponseLayer::new(move |answer: http::Response<_>| {
            if answer.status() == http::StatusCode::UNAUTHORIZED {
                refused.store(true, Ordering::Relaxed);
            }
            // Whoever answers may be anybody: an answer without end must not fill our memory.
            answer.map(|body| Limited::new(body, LONGEST_ANSWER))
        });
        Ok(builder.with_layer(&bounded).build())
    }

    /// Where others reach the server.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            server: self.server.clone(),
            certificate_authority: self.certificate_authority.clone(),
            tls_server_name: self.tls_server_name.clone(),
        }
    }
}

fn wrong(what: impl Into<String>) -> KubeconfigFault {
    KubeconfigFault::Wrong { what: what.into() }
}

/// The entry of that name in one of the three lists.
fn entry<'a>(document: &'a Value, list: &str, member: &str, name: &str) -> Result<&'a Value, KubeconfigFault> {
    let entries = document[list].as_array().into_iter().flatten();
    let found = entries.into_iter().find(|entry| entry["name"].as_str() == Some(name));
    let found = found.and_then(|entry| entry.get(member)).filter(|value| value.is_object());
    found.ok_or_else(|| wrong(format!("lacks the entry in {list} that its current context names")))
}

fn refuse_outside(value: &Value, place: &str, members: &[(&str, &'static str)]) -> Result<(), KubeconfigFault> {
    let said = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    match members.iter().find(|(member, _)| said(&value[*member])) {
        Some((member, instead)) => Err(KubeconfigFault::NotInline { member: format!("{place}.{member}"), instead }),
        None => Ok(()),
    }
}

/// A member in base64, decoded as text.
fn decoded(value: &Value, member: &str) -> Result<Option<String>, KubeconfigFault> {
    let Some(text) = value[member].as_str().filter(|text| !text.is_empty()) else { return Ok(None) };
    let bytes = STANDARD.decode(text.trim()).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Some).ok_or_else(|| wrong(format!("has a {member} that is no text in base64")))
}

fn auth(user: &Value) -> Result<AuthInfo, KubeconfigFault> {
    let token = user["token"].as_str().map(str::trim).filter(|token| !token.is_empty());
    // It goes into a header (RFC 6750), and making a client with one that cannot panics.
    if token.is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err(wrong("has a users[].user.token with blanks, line breaks or what is not ASCII in it"));
    }
    let certificate = decoded(user, "client-certificate-data")?;
    let key = decoded(user, "client-key-data")?;
    let auth = match (token, certificate, key) {
        (Some(token), _, _) => json!({ "token": token }),
        (None, Some(_), Some(_)) => json!({ "client-certificate-data": user["client-certificate-data"],
            "client-key-data": user["client-key-data"] }),
        _ => return Err(wrong("has neither a token nor client-certificate-data with client-key-data")),
    };
    serde_json::from_value(auth).map_err(|_| wrong("has a credential that cannot be read"))
}

#[cfg(test)]
mod tests {
    use allotment_pki::{CertificateAuthority, KeySource, RandomKeys};

    use super::*;

    fn authority() -> String {
        let key = RandomKeys.generate().expect("a key");
        let authority = CertificateAuthority::new("test", key, 1_800_000_000, 3600).expect("an authority");
        STANDARD.encode(authority.certificate().to_pem())
    }

    fn kubeconfig(cluster: &Value, user: &Value) -> String {
        let mut whole = json!({"server": "https://127.0.0.1:6443/x/", "certificate-authority-data": authority()});
        for (key, value) in cluster.as_object().expect("members") {
            whole[key] = value.clone();
        }
        json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": whole}], "users": [{"name": "u", "user": user}]})
        .to_string()
    }

    #[test]
    fn what_stands_in_it_is_taken() {
        let read = ForeignKubeconfig::read(&kubeconfig(&json!({}), &json!({"token": "t"}))).expect("can be read");
        assert_eq!(read.server, "https://127.0.0.1:6443/x");
        assert!(!format!("{read:?}").contains("token"));
    }

    #[tokio::test]
    async fn a_client_comes_of_it() {
        // Files end with a line break.
        for token in ["t", "a.b-c_d~e+f/g==", "t\n"] {
            let read = ForeignKubeconfig::read(&kubeconfig(&json!({}), &json!({"token": token}))).expect("can be read");
            read.client().expect("a client");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        let none = json!({});
        let token = json!({"token": "t"});
        let with = |member: &str, value: Value| {
            let mut user = token.clone();
            user[member] = value;
            user
        };
        for (cluster, user, says) in [
            (none.clone(), with("exec", json!({"command": "sh"})), "users[].user.exec"),
            (none.clone(), with("auth-provider", json!({"name": "x"})), "auth-provider"),
            (none.clone(), with("tokenFile", json!("/etc/shadow")), "tokenFile"),
            (none.clone(), with("client-certificate", json!("/c")), "client-certificate-data"),
            (none.clone(), with("client-key", json!("/c")), "client-key-data"),
            (none.clone(), with("as", json!("root")), "users[].user.as"),
            (none.clone(), with("username", json!("root")), "username"),
            (none.clone(), none.clone(), "neither a token"),
            (none.clone(), json!({"token": "  "}), "neither a token"),
            (none.clone(), json!({"token": "SECRET\nTOKEN"}), "users[].user.token with"),
            (none.clone(), json!({"token": "a\rb"}), "users[].user.token with"),
            (none.clone(), json!({"token": "a\u{0}b"}), "users[].user.token with"),
            (none.clone(), json!({"token": "a b"}), "users[].user.token with"),
            (none.clone(), json!({"token": "\u{e9}"}), "users[].user.token with"),
            (none.clone(), json!({"client-certificate-data": "YQ=="}), "neither a token"),
            (none.clone(), json!({"client-certificate-data": "%", "client-key-data": "YQ=="}), "base64"),
            (json!({"certificate-authority": "/c"}), token.clone(), "certificate-authority-data"),
            (json!({"proxy-url": "http://p"}), token.clone(), "proxy-url"),
            (json!({"insecure-skip-tls-verify": true}), token.clone(), "insecure-skip-tls-verify"),
            (json!({"certificate-authority-data": ""}), token.clone(), "certificate-authority-data"),
            (json!({"certificate-authority-data": "YQ=="}), token.clone(), "no certificate"),
            (json!({"server": "http://127.0.0.1"}), token.clone(), "https://HOST"),
            (json!({"server": "https://u:p@127.0.0.1"}), token.clone(), "https://HOST"),
            (json!({"server": "https://"}), token.clone(), "https://HOST"),
        ] {
            let fault = ForeignKubeconfig::read(&kubeconfig(&cluster, &user)).expect_err(says);
            assert!(fault.to_string().contains(says), "{cluster} {user}: {fault}");
            assert!(!fault.to_string().contains("SECRET"), "{fault}");
        }
        for text in ["", "a: [", "current-context: x", "- a", &"x".repeat(LONGEST + 1)] {
            assert!(ForeignKubeconfig::read(text).is_err());
        }
        let off = kubeconfig(&json!({"insecure-skip-tls-verify": false}), &token);
        ForeignKubeconfig::read(&off).expect("what is off asks for nothing");
    }
}
