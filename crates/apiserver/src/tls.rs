//! TLS of the shared listener: which certificate is served to whom, and what a client has to prove.
//!
//! One listener serves all tenants. Which tenant a request is for stands in its path, which the handshake
//! does not know; so a client certificate is asked for, never required, and the handshake checks only that
//! the client has its private key. Who issued it is checked for each request, against the CA of the tenant
//! that it names ([`crate::auth`]).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use allotment_pki::CertificatePair;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

use crate::auth::PeerCertificates;

/// What comes behind a tenant's id in the server name that selects its own certificate.
pub const TENANT_DOMAIN: &str = ".clusters.allotment.internal";

/// Sessions that clients may resume; the oldest are forgotten. A session takes about 2 KiB.
const MAX_SESSIONS: usize = 1024;
/// Certificates that a client may send: a leaf and the intermediates of a real chain.
const MAX_CHAIN: usize = 8;

/// Why a certificate cannot be served.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TlsError {
    /// The library does not take it.
    #[error("the serving certificate of {whose} cannot be used")]
    Certificate {
        /// `the platform`, or the tenant's id.
        whose: String,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The protocol versions that we want are not available.
    #[error("TLS cannot be set up")]
    Configuration(#[source] rustls::Error),
}

/// The certificates that are served: the platform's to everybody, a tenant's own to who asks for it by
/// name. They can be replaced at any time; handshakes from then on see the new one.
pub struct ServingCertificates {
    provider: Arc<CryptoProvider>,
    platform: RwLock<Arc<CertifiedKey>>,
    tenants: RwLock<BTreeMap<String, Arc<CertifiedKey>>>,
}

impl fmt::Debug for ServingCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificates").finish_non_exhaustive()
    }
}

impl ServingCertificates {
    /// Begins with the platform's certificate.
    pub fn new(platform: &CertificatePair) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = certified(&provider, platform, "the platform")?;
        Ok(ServingCertificates { provider, platform: RwLock::new(key), tenants: RwLock::default() })
    }

    /// Replaces the platform's certificate.
    pub fn set_platform(&self, pair: &CertificatePair) -> Result<(), TlsError> {
        let key = certified(&self.provider, pair, "the platform")?;
        *self.platform.write().unwrap_or_else(PoisonError::into_inner) = key;
        Ok(())
    }

    /// Serves `pair` to who asks for the tenant `id` by name.
    pub fn set_tenant(&self, id: &str, pair: &CertificatePair) -> Result<(), TlsError> {
        let key = certified(&self.provider, pair, id)?;
        self.tenants.write().unwrap_or_else(PoisonError::into_inner).insert(id.to_ascii_lowercase(), key);
        Ok(())
    }

    /// Serves the tenant's own certificate no longer.
    pub fn remove_tenant(&self, id: &str) {
        self.tenants.write().unwrap_or_else(PoisonError::into_inner).remove(&id.to_ascii_lowercase());
    }

    fn select(&self, server_name: Option<&str>) -> Arc<CertifiedKey> {
        let own = server_name
            .and_then(tenant_of_server_name)
            .and_then(|id| self.tenants.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned());
        own.unwrap_or_else(|| Arc::clone(&self.platform.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl ResolvesServerCert for ServingCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.select(hello.server_name()))
    }
}

fn certified(provider: &CryptoProvider, pair: &CertificatePair, whose: &str) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = pair.chain().iter().map(|certificate| CertificateDer::from(certificate.der().to_vec())).collect();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.key().pkcs8().to_vec()));
    let made = CertifiedKey::from_der(chain, key, provider);
    made.map(Arc::new).map_err(|source| TlsError::Certificate { whose: whose.to_owned(), source })
}

/// The tenant that a server name selects, in lower case; `None` for every other name.
pub fn tenant_of_server_name(server_name: &str) -> Option<String> {
    let name = server_name.to_ascii_lowercase();
    let id = name.strip_suffix(TENANT_DOMAIN)?;
    (!id.is_empty() && !id.contains('.')).then(|| id.to_owned())
}

/// TLS 1.2 and 1.3 over HTTP/2 and 1.1 with these certificates.
pub fn server_config(certificates: Arc<ServingCertificates>) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::clone(&certificates.provider);
    let verifier = Arc::new(PossessionVerifier { algorithms: provider.signature_verification_algorithms });
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Configuration)?;
    let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = ServerSessionMemoryCache::new(MAX_SESSIONS);
    // Clients of the API keep connections; one ticket each is enough to come back with.
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}

/// What the handshake told about a client.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The certificate chain whose private key the client has, if it showed one.
    pub certificates: Option<PeerCertificates>,
    /// The tenant that the server name selected; only this one may be asked for then.
    pub tenant: Option<String>,
}

impl Peer {
    /// Reads it off a connection whose handshake is done.
    pub fn of(connection: &rustls::ServerConnection) -> Self {
        let chain = connection.peer_certificates().filter(|chain| !chain.is_empty());
        Peer {
            certificates: chain.map(PeerCertificates::new),
            tenant: connection.server_name().and_then(tenant_of_server_name),
        }
    }
}

/// Lets every certificate pass whose private key the client has.
#[derive(Debug)]
struct PossessionVerifier {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for PossessionVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if intermediates.len() >= MAX_CHAIN {
            return Err(rustls::Error::General("the client sent too many certificates".to_owned()));
        }
        ParsedCertificate::try_from(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
