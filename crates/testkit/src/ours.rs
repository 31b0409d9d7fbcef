//! Our API server in this process, behind its own listener: the store on disk, no kind of ours, no
//! controllers but the server's own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use allotment_apiserver::auth::{AccessConfig, GROUP_MASTERS, ServiceAccountIssuer, UserInfo};
use allotment_apiserver::builtin;
use allotment_apiserver::listener;
use allotment_apiserver::registry::Registry;
use allotment_apiserver::server::{ApiServer, ServerConfig, TenantConfig, bootstrap_template};
use allotment_apiserver::service::ApiService;
use allotment_machinery::seams::{Clock, Entropy};
use allotment_pki::{CertificateAuthority, KeySource, RandomKeys, ServiceAccountKeys};
use allotment_store::{Embedded, Options, Tenant};
use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::target::{ADMIN, Target};

/// The token of the administrator; the server listens on loopback for as long as a test runs.
const TOKEN: &str = "administrator";
/// How long its authority holds, in seconds: longer than any run.
const LIFETIME: i64 = 7 * 24 * 60 * 60;

/// A running server of ours. Ends when dropped.
#[derive(Debug)]
pub struct Ours {
    target: Target,
    stop: CancellationToken,
    server: ApiServer,
    tasks: JoinSet<()>,
    dir: PathBuf,
}

#[derive(Debug)]
struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

#[derive(Debug)]
struct Random;

impl Entropy for Random {
    fn fill(&self, out: &mut [u8]) {
        aws_lc_rs::rand::fill(out).expect("the system gives randomness");
    }
}

impl Ours {
    /// Starts it over a store in `dir`, which is made anew and removed at the end.
    ///
    /// # Errors
    /// The folder cannot be used, or the server does not start.
    pub async fn start(dir: &Path) -> Result<Ours> {
        let _ = std::fs::remove_dir_all(dir);
        let store = Embedded::open(dir, Options::default()).await.context("cannot open a store")?;
        let keys = RandomKeys;
        let now = WallClock.now();
        let authority = CertificateAuthority::new("testkit", keys.generate()?, now.as_second(), LIFETIME)?;
        let socket = tokio::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = socket.local_addr()?;
        let server = ApiServer::start(ServerConfig {
            store: Arc::new(store),
            clock: Arc::new(WallClock),
            entropy: Arc::new(Random),
            builtin: Registry::new(builtin::kinds()),
            admission: Vec::new(),
            readiness: Vec::new(),
        });
        let admin = UserInfo {
            name: ADMIN.to_owned(),
            groups: vec![GROUP_MASTERS.to_owned(), "system:authenticated".to_owned()],
            ..UserInfo::default()
        };
        let access = AccessConfig {
            static_tokens: vec![(TOKEN.to_owned(), admin)],
            client_authorities: authority.bundle(),
            service_accounts: Some(ServiceAccountIssuer {
                issuer: "https://kubernetes.default.svc".to_owned(),
                keys: ServiceAccountKeys::new(keys.generate()?, &[])?,
                audiences: Vec::new(),
            }),
            anonymous: false,
        };
        server
            .ensure_tenant(TenantConfig {
                tenant: Tenant::platform(),
                version: "1.36.3".to_owned(),
                server_url: format!("http://{address}"),
                root_ca_pem: Arc::from(authority.certificate().to_pem()),
                access,
                template: Arc::new(bootstrap_template(now)),
            })
            .await
            .map_err(|error| anyhow::anyhow!("cannot serve: {error:?}"))?;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let serving =
            listener::serve(socket, None, ApiService::new(server.clone()), listener::Limits::default(), stop.clone());
        tasks.spawn(async move {
            // It ends with its owner; a listener that fails shows as requests without answers.
            let _ = serving.await;
        });
        let target = Target { name: "ours", address, tls: None, token: TOKEN.into() };
        Ok(Ours { target, stop, server, tasks, dir: dir.to_owned() })
    }

    /// Where it is, and who asks.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Ends it and waits until it has.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.server.stop().await;
        self.tasks.shutdown().await;
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.cancel();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
