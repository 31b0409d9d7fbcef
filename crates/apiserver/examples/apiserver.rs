//! Serves the API on loopback, for trying it out and for replaying recorded conversations against it:
//! `cargo run --example apiserver -- --port 6443 --token secret [--data DIR] [--plain] [--dir OUT]`.
//!
//! Writes `kubeconfig`, `ca.crt` and `token` into OUT (a folder under `target` by default). The store is
//! in memory unless a data folder is given.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use allotment_apiserver::auth::{AccessConfig, GROUP_MASTERS, ServiceAccountIssuer, UserInfo};
use allotment_apiserver::builtin;
use allotment_apiserver::registry::Registry;
use allotment_apiserver::server::{ApiServer, ServerConfig, TenantConfig, bootstrap_template};
use allotment_apiserver::service::ApiService;
use allotment_apiserver::{listener, tls};
use allotment_machinery::seams::{Clock, Entropy};
use allotment_pki::{CertificateAuthority, KeySource, Leaf, LeafUsage, RandomKeys, ServiceAccountKeys, SubjectName};
use allotment_store::{Embedded, HistoryLimits, Memory, Options, Store, Tenant};
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct WallClock;

impl Clock for WallClock {
    #[expect(clippy::disallowed_methods, reason = "this is the real clock")]
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

#[derive(Debug)]
struct Random;

impl Entropy for Random {
    #[expect(clippy::disallowed_methods, reason = "this is the real source of randomness")]
    fn fill(&self, out: &mut [u8]) {
        for part in out.chunks_mut(16) {
            // Two UUIDs' worth of bits, since a version and a variant are fixed in each.
            let (left, right) = (uuid::Uuid::new_v4().as_u128(), uuid::Uuid::new_v4().as_u128());
            let bytes = (left ^ right.rotate_left(64)).to_le_bytes();
            part.copy_from_slice(&bytes[..part.len()]);
        }
    }
}

struct Flags {
    port: u16,
    token: String,
    data: Option<PathBuf>,
    plain: bool,
    dir: PathBuf,
}

fn flags() -> Result<Flags, String> {
    let mut flags = Flags {
        port: 0,
        token: "admin".to_owned(),
        data: None,
        plain: false,
        dir: PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into())).join("apiserver"),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--port" => flags.port = value()?.parse().map_err(|_| "--port needs a number".to_owned())?,
            "--token" => flags.token = value()?,
            "--data" => flags.data = Some(value()?.into()),
            "--dir" => flags.dir = value()?.into(),
            "--plain" => flags.plain = true,
            other => return Err(format!("unknown flag {other}")),
        }
    }
    Ok(flags)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    const YEAR: i64 = 365 * 24 * 60 * 60;
    let flags = flags()?;
    let store: Arc<dyn Store> = match &flags.data {
        Some(dir) => Arc::new(Embedded::open(dir, Options::default()).await?),
        None => Arc::new(Memory::new(0, HistoryLimits::default())),
    };
    let now = WallClock.now();
    let keys = RandomKeys;
    let authority = CertificateAuthority::new("example", keys.generate()?, now.as_second(), YEAR)?;
    let leaf = Leaf {
        common_name: "apiserver".to_owned(),
        organization: None,
        names: vec![SubjectName::Dns("localhost".to_owned()), SubjectName::Ip([127, 0, 0, 1].into())],
        usage: LeafUsage::Server,
        lifetime_secs: YEAR,
    };
    let pair = authority.issue(&leaf, keys.generate()?, now.as_second())?;
    let certificates = Arc::new(tls::ServingCertificates::new(&pair)?);
    let tls = if flags.plain { None } else { Some(tls::server_config(certificates)?) };

    let socket = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], flags.port))).await?;
    let address = socket.local_addr()?;
    let url = format!("{}://{address}", if flags.plain { "http" } else { "https" });

    let server = ApiServer::start(ServerConfig {
        store,
        clock: Arc::new(WallClock),
        entropy: Arc::new(Random),
        builtin: Registry::new(builtin::kinds()),
        admission: Vec::new(),
        readiness: Vec::new(),
    });
    let admin = UserInfo {
        name: "admin".to_owned(),
        groups: vec![GROUP_MASTERS.to_owned(), "system:authenticated".to_owned()],
        ..UserInfo::default()
    };
    let access = AccessConfig {
        static_tokens: vec![(flags.token.clone(), admin)],
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
            version: "1.36.0".to_owned(),
            server_url: url.clone(),
            root_ca_pem: Arc::from(authority.certificate().to_pem()),
            access,
            template: Arc::new(bootstrap_template(now)),
        })
        .await?;

    write_files(&flags, &url, &authority.certificate().to_pem())?;
    #[expect(clippy::print_stderr, reason = "an example tells where it serves")]
    {
        eprintln!("serving {url}, files in {}", flags.dir.display());
    }
    let stop = CancellationToken::new();
    let interrupted = stop.clone();
    let serving = listener::serve(socket, tls, ApiService::new(server.clone()), listener::Limits::default(), stop);
    tokio::select! {
        biased;
        result = serving => result?,
        result = tokio::signal::ctrl_c() => {
            result?;
            interrupted.cancel();
        }
    }
    server.stop().await;
    Ok(())
}

fn write_files(flags: &Flags, url: &str, ca: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(&flags.dir)?;
    std::fs::write(flags.dir.join("ca.crt"), ca)?;
    std::fs::write(flags.dir.join("token"), &flags.token)?;
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: example\nclusters:\n- name: example\n  cluster:\n    server: \
         {url}\n    certificate-authority: ca.crt\nusers:\n- name: admin\n  user:\n    token: {:?}\ncontexts:\n- name: \
         example\n  context: {{cluster: example, user: admin}}\n",
        flags.token
    );
    std::fs::write(flags.dir.join("kubeconfig"), kubeconfig)
}
