//! Handshakes in memory: what is served to whom, and what a client proves.

use std::sync::Arc;

use allotment_pki::{CertificateAuthority, CertificatePair, KeySource as _, Leaf, LeafUsage, RandomKeys};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{Peer, ServingCertificates, server_config, tenant_of_server_name};

/// Certificates of the tests hold for ten years around the time they are run at, which rustls' client asks
/// the system for.
#[expect(clippy::disallowed_methods, reason = "the client under test has no other clock")]
fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

const YEARS: i64 = 10 * 365 * 86_400;

fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::new(name, RandomKeys.generate().expect("a key"), now(), YEARS).expect("a CA")
}

fn issue(ca: &CertificateAuthority, common_name: &str, usage: LeafUsage, names: &[&str]) -> CertificatePair {
    let leaf = Leaf {
        common_name: common_name.to_owned(),
        organization: None,
        usage,
        names: names.iter().map(|name| (*name).into()).collect(),
        lifetime_secs: YEARS,
    };
    ca.issue(&leaf, RandomKeys.generate().expect("a key"), now()).expect("a leaf")
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn der(pair: &CertificatePair) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = pair.chain().iter().map(|certificate| CertificateDer::from(certificate.der().to_vec())).collect();
    (chain, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.key().pkcs8().to_vec())))
}

#[derive(Clone, Copy)]
enum Versions {
    Tls12,
    Tls13,
}

/// A client that trusts `trusted` and shows `certificate` if it is asked.
fn client(trusted: &CertificateAuthority, certificate: Option<&CertificatePair>, versions: Versions) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(trusted.certificate().der())).expect("a root");
    let versions: &[&rustls::SupportedProtocolVersion] = match versions {
        Versions::Tls12 => &[&rustls::version::TLS12],
        Versions::Tls13 => &[&rustls::version::TLS13],
    };
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions).expect("versions");
    let builder = builder.with_root_certificates(roots);
    match certificate {
        Some(pair) => {
            let (chain, key) = der(pair);
            builder.with_client_auth_cert(chain, key).expect("a client certificate")
        }
        None => builder.with_no_client_auth(),
    }
}

/// Shakes hands and sends a byte each way; what the server learned, and the subject of its certificate.
async fn shake(server: Arc<ServerConfig>, client: ClientConfig, name: &'static str) -> std::io::Result<(Peer, String)> {
    let (near, far) = tokio::io::duplex(64 << 10);
    let serving = async move {
        let mut stream = TlsAcceptor::from(server).accept(far).await?;
        let peer = Peer::of(stream.get_ref().1);
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        stream.flush().await?;
        Ok::<_, std::io::Error>(peer)
    };
    let asking = async move {
        let connector = TlsConnector::from(Arc::new(client));
        let mut stream = connector.connect(ServerName::try_from(name).expect("a name"), near).await?;
        stream.write_u8(7).await?;
        stream.flush().await?;
        assert_eq!(stream.read_u8().await?, 7);
        let chain = stream.get_ref().1.peer_certificates().expect("the server's chain");
        Ok::<_, std::io::Error>(allotment_pki::Certificate::from_der(&chain[0]).expect("read").common_name().to_owned())
    };
    let (peer, served) = tokio::join!(serving, asking);
    Ok((peer?, served?))
}

fn serving(ca: &CertificateAuthority) -> Arc<ServingCertificates> {
    let platform = issue(ca, "platform", LeafUsage::Server, &["localhost", "one.clusters.allotment.internal"]);
    Arc::new(ServingCertificates::new(&platform).expect("serves"))
}

#[tokio::test]
async fn a_client_needs_no_certificate_and_any_certificate_whose_key_it_has_is_passed_on() {
    let (ca, stranger) = (authority("platform"), authority("stranger"));
    let config = server_config(serving(&ca)).expect("a configuration");
    for versions in [Versions::Tls12, Versions::Tls13] {
        let (peer, _) =
            shake(Arc::clone(&config), client(&ca, None, versions), "localhost").await.expect("shakes hands");
        assert!(peer.certificates.is_none());
        assert_eq!(peer.tenant, None);
        let alice = issue(&stranger, "alice", LeafUsage::Client, &[]);
        let shown = client(&ca, Some(&alice), versions);
        let (peer, _) = shake(Arc::clone(&config), shown, "localhost").await.expect("shakes hands");
        let shown = peer.certificates.expect("a certificate");
        let chain = shown.chain();
        assert_eq!(&*chain[0], alice.certificate().der(), "whoever issued it: that is checked per tenant");
        assert!(stranger.bundle().verify_client(chain, now()).is_ok());
        assert!(ca.bundle().verify_client(chain, now()).is_err());
    }
}

/// Shows a certificate and signs with a key that is not its own.
#[derive(Debug)]
struct Thief(Arc<rustls::sign::CertifiedKey>);

impl ResolvesClientCert for Thief {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_certificate_without_its_key_ends_the_handshake() {
    let ca = authority("platform");
    let config = server_config(serving(&ca)).expect("a configuration");
    for versions in [Versions::Tls12, Versions::Tls13] {
        let (chain, _) = der(&issue(&ca, "victim", LeafUsage::Client, &[]));
        let (_, key) = der(&issue(&ca, "thief", LeafUsage::Client, &[]));
        let signing = provider().key_provider.load_private_key(key).expect("a key");
        let mut thief = client(&ca, None, versions);
        thief.client_auth_cert_resolver = Arc::new(Thief(Arc::new(rustls::sign::CertifiedKey::new(chain, signing))));
        let refused = shake(Arc::clone(&config), thief, "localhost").await.expect_err("no possession");
        assert!(refused.to_string().contains("ignature") || refused.to_string().contains("DecryptError"), "{refused}");
    }
}

#[tokio::test]
async fn the_server_name_selects_a_tenants_own_certificate_and_fixes_the_tenant() {
    let (ca, tenant_ca) = (authority("platform"), authority("tenant"));
    let certificates = serving(&ca);
    let name = "one.clusters.allotment.internal";
    let own = issue(&tenant_ca, "kube-apiserver", LeafUsage::Server, &[name]);
    certificates.set_tenant("one", &own).expect("serves");
    let config = server_config(Arc::clone(&certificates)).expect("a configuration");
    let ask =
        |trusted: &CertificateAuthority, name| shake(Arc::clone(&config), client(trusted, None, Versions::Tls13), name);
    let (peer, served) = ask(&tenant_ca, name).await.expect("shakes hands");
    assert_eq!((peer.tenant.as_deref(), served.as_str()), (Some("one"), "kube-apiserver"));
    let (peer, served) = ask(&ca, "localhost").await.expect("shakes hands");
    assert_eq!((peer.tenant, served.as_str()), (None, "platform"));
    certificates.remove_tenant("one");
    let (peer, served) = ask(&ca, name).await.expect("shakes hands");
    assert_eq!((peer.tenant.as_deref(), served.as_str()), (Some("one"), "platform"), "the name still fixes the tenant");
}

#[tokio::test]
async fn replaced_certificates_are_served_from_the_next_handshake_on() {
    let (old, new) = (authority("old"), authority("new"));
    let certificates = serving(&old);
    let config = server_config(Arc::clone(&certificates)).expect("a configuration");
    let ask = |trusted: &CertificateAuthority| {
        shake(Arc::clone(&config), client(trusted, None, Versions::Tls13), "localhost")
    };
    assert_eq!(ask(&old).await.expect("shakes hands").1, "platform");
    let renewed = issue(&new, "renewed", LeafUsage::Server, &["localhost"]);
    certificates.set_platform(&renewed).expect("serves");
    assert_eq!(ask(&new).await.expect("shakes hands").1, "renewed");
    assert!(ask(&old).await.is_err());
}

#[test]
fn only_names_of_one_label_below_the_domain_name_a_tenant() {
    for (name, expect) in [
        ("3f0c.clusters.allotment.internal", Some("3f0c")),
        ("3F0C.Clusters.Allotment.Internal", Some("3f0c")),
        ("clusters.allotment.internal", None),
        (".clusters.allotment.internal", None),
        ("a.b.clusters.allotment.internal", None),
        ("3f0c.clusters.allotment.internal.example.com", None),
        ("localhost", None),
    ] {
        assert_eq!(tenant_of_server_name(name).as_deref(), expect, "{name}");
    }
}
