//! An issuer of identities (OpenID Connect Discovery 1.0) on loopback, for API servers that trust one: its metadata and its
//! keys over TLS, and tokens for whoever is named.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use allotment_pki::{
    CertificateAuthority, ISSUER_DISCOVERY_PATH, JWKS_PATH, KeySource as _, Leaf, LeafUsage, RandomKeys,
    ServiceAccountKeys, SubjectName, issuer_metadata, jwks,
};
use anyhow::{Context as _, Result};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// How long certificate and tokens hold, in seconds: longer than any run.
const LIFETIME: i64 = 24 * 60 * 60;
/// The longest request that is read, in bytes.
const MOST_REQUEST: usize = 16 << 10;

/// A running issuer. It ends when this is dropped.
#[derive(Debug)]
pub struct Issuer {
    address: SocketAddr,
    keys: ServiceAccountKeys,
    authority: String,
    /// The client id that its tokens are for.
    pub client_id: &'static str,
    _serving: JoinSet<()>,
}

impl Issuer {
    /// Serves metadata and keys.
    ///
    /// # Errors
    /// No address is free, or no key can be made.
    pub async fn start(client_id: &'static str) -> Result<Issuer> {
        let keys = ServiceAccountKeys::new(RandomKeys.generate()?, &[])?;
        let (tls, authority) = certificates()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no address is free")?;
        let address = listener.local_addr()?;
        let url = url(address);
        let metadata = issuer_metadata(&url, &format!("{url}{JWKS_PATH}"), keys.verifying());
        let documents = Arc::new([(ISSUER_DISCOVERY_PATH, metadata), (JWKS_PATH, jwks(keys.verifying()))]);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut visits = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, documents) = (tls.clone(), documents.clone());
                // Who hangs up is no failure of ours.
                visits.spawn(async move { answer(&tls, stream, &*documents).await.ok() });
                while visits.try_join_next().is_some() {}
            }
        });
        Ok(Issuer { address, keys, authority, client_id, _serving: serving })
    }

    /// What tokens name as their issuer.
    pub fn url(&self) -> String {
        url(self.address)
    }

    /// Flags of a kube-apiserver that trusts it, with that before the names of its users. Its authority is written to `file`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn apiserver_flags(&self, file: &Path, username_prefix: &str) -> Result<Vec<String>> {
        std::fs::write(file, &self.authority).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(vec![
            format!("--oidc-issuer-url={}", self.url()),
            format!("--oidc-client-id={}", self.client_id),
            format!("--oidc-ca-file={}", file.display()),
            format!("--oidc-username-prefix={username_prefix}"),
            "--oidc-username-claim=sub".to_owned(),
            "--oidc-groups-claim=groups".to_owned(),
            "--oidc-signing-algs=ES256".to_owned(),
        ])
    }

    /// A token of that user, who is in the one group that all its users are in.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn token(&self, user: &str) -> Result<String> {
        self.signed_by(&self.keys, user)
    }

    /// What [`Issuer::token`] would be, but signed with keys that this issuer does not have.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn forged(&self, user: &str) -> Result<String> {
        self.signed_by(&ServiceAccountKeys::new(RandomKeys.generate()?, &[])?, user)
    }

    fn signed_by(&self, keys: &ServiceAccountKeys, user: &str) -> Result<String> {
        let now = jiff::Timestamp::now().as_second();
        let claims = json!({"iss": self.url(), "aud": self.client_id, "sub": user, "groups": ["everybody"], "iat": now,
            "exp": now + LIFETIME});
        Ok(keys.sign(&claims)?.to_string())
    }
}

fn url(address: SocketAddr) -> String {
    format!("https://{address}")
}

/// What it serves by, and the authority to check that by, as PEM.
fn certificates() -> Result<(TlsAcceptor, String)> {
    let (now, keys) = (jiff::Timestamp::now().as_second(), RandomKeys);
    let authority = CertificateAuthority::new("issuer", keys.generate()?, now, LIFETIME)?;
    let leaf = Leaf {
        common_name: "issuer".to_owned(),
        organization: None,
        usage: LeafUsage::Server,
        names: vec![SubjectName::from("127.0.0.1")],
        lifetime_secs: LIFETIME,
    };
    let pair = authority.issue(&leaf, keys.generate()?, now)?;
    let chain = pair.chain().iter().map(|certificate| CertificateDer::from(certificate.der().to_vec())).collect();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.key().pkcs8().to_vec()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok((TlsAcceptor::from(Arc::new(config)), authority.certificate().to_pem()))
}

/// Answers one request, and hangs up.
async fn answer(tls: &TlsAcceptor, stream: TcpStream, documents: &[(&str, String)]) -> std::io::Result<()> {
    let mut stream = tls.accept(stream).await?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && request.len() < MOST_REQUEST {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let found = documents.iter().find(|(known, _)| *known == path);
    let (status, body) = found.map_or(("404 Not Found", ""), |(_, document)| ("200 OK", document));
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
