//! A server that requests are put to: where it is, and who asks.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_rustls::TlsConnector;

/// The user that asks, on every server: an administrator by `system:masters`.
pub const ADMIN: &str = "admin";

/// A server on loopback, asked by bearer token.
#[derive(Clone)]
pub struct Target {
    /// What differences call it.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    /// How TLS is spoken; `None`: not at all.
    pub tls: Option<TlsConnector>,
    /// The administrator's token.
    pub token: Arc<str>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Target")
            .field("name", &self.name)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
