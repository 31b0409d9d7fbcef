//! Kubernetes' own API server with etcd beneath and the controllers that a plane without nodes needs, on
//! loopback, in a folder of its own that goes with it.
//!
//! # Flow
//! etcd, then kube-apiserver once etcd answers, then kube-controller-manager once `/readyz` says ok; ready
//! when the default service account is there. All of them end when the value is dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use allotment_pki::{
    CertificateAuthority, CertificatePair, KeySource, Kubeconfig, KubeconfigUser, Leaf, LeafUsage, RandomKeys,
    SubjectName,
};
use anyhow::{Context, Result, bail};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use tokio_rustls::TlsConnector;

use crate::client::Client;
use crate::ports;
use crate::process::Process;
use crate::target::{ADMIN, Target};

/// How long one program may take to answer; far beyond what it takes, for slow machines.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How often is looked whether it does.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long certificates hold, in seconds: longer than any run.
const LIFETIME: i64 = 7 * 24 * 60 * 60;
/// What service-account tokens name as their issuer.
const ISSUER: &str = "https://kubernetes.default.svc";
/// The controllers of kube-controller-manager that do something without nodes.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-controller,\
                           serviceaccount-token-controller,root-ca-certificate-publisher-controller,\
                           clusterrole-aggregation-controller,\
                           validatingadmissionpolicy-status-controller";

/// A running kube-apiserver.
#[derive(Debug)]
pub struct Kubernetes {
    // In the order in which they end: who asks before who answers.
    controller_manager: Option<Process>,
    apiserver: Option<Process>,
    etcd: Process,
    /// The program and the flags that it is started with again.
    again: (PathBuf, Vec<String>),
    target: Target,
    dir: PathBuf,
}

/// Where the programs are and what is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder with etcd, kube-apiserver and kube-controller-manager.
    pub programs: PathBuf,
    /// A folder for its data, logs and keys; made anew, and removed at the end.
    pub dir: PathBuf,
    /// Whether its controllers run too.
    pub controllers: bool,
    /// Whether the controller of quotas runs as well, which writes their status when it likes.
    pub quotas: bool,
    /// Whether etcd waits for the disk. A comparison of answers has no need of it, one of speed has.
    pub durable: bool,
    /// More flags of the API server.
    pub flags: Vec<String>,
}

impl Kubernetes {
    /// Starts all of it and waits until it is ready.
    ///
    /// # Errors
    /// A program is missing, ends, or does not become ready in time; the end of its log is shown.
    pub async fn start(options: &Options) -> Result<Kubernetes> {
        let dir = &options.dir;
        let _ = std::fs::remove_dir_all(dir);
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let [etcd_port, peer_port, port] = ports::unused()?;
        let etcd = Process::start(&options.programs.join("etcd"), &etcd_flags(options, etcd_port, peer_port), dir)?;
        let mut starting = Starting { etcd, dir: dir.clone() };
        starting.until_listening(etcd_port).await?;

        let files = Files::write(dir, port)?;
        let mut flags = apiserver_flags(dir, etcd_port, port);
        flags.extend_from_slice(&options.flags);
        let program = options.programs.join("kube-apiserver");
        let apiserver = Some(Process::start(&program, &flags, dir)?);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let target = Target { name: "kube-apiserver", address, tls: Some(files.tls), token: files.token };
        let Starting { etcd, .. } = starting;
        let again = (program, flags);
        let mut kubernetes = Kubernetes { controller_manager: None, apiserver, etcd, again, target, dir: dir.clone() };
        kubernetes.until_answers("/readyz", 200).await?;
        if options.controllers {
            let program = options.programs.join("kube-controller-manager");
            kubernetes.controller_manager = Some(Process::start(&program, &controller_flags(options.quotas), dir)?);
            kubernetes.until_answers("/api/v1/namespaces/default/serviceaccounts/default", 200).await?;
        }
        Ok(kubernetes)
    }

    /// Where it is, and who asks.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// An administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// The number of the API server's process, if it runs: whoever stops it has one that does not answer.
    pub fn api_server_id(&self) -> Option<u32> {
        self.apiserver.as_ref().map(Process::id)
    }

    /// Its folder: data, logs, `ca.crt`, `token`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Fails, with the end of its log, if one of the programs has ended.
    ///
    /// # Errors
    /// One has.
    pub fn check(&mut self) -> Result<()> {
        self.etcd.check()?;
        self.apiserver.as_mut().map_or(Ok(()), Process::check)?;
        self.controller_manager.as_mut().map_or(Ok(()), Process::check)
    }

    /// Kills the API server. What it stored stays.
    pub fn kill_apiserver(&mut self) {
        self.apiserver = None;
    }

    /// Starts the API server again, on the same address, and waits until it is ready.
    ///
    /// # Errors
    /// It does not become ready in time.
    pub async fn restart_apiserver(&mut self) -> Result<()> {
        let (program, flags) = &self.again;
        self.apiserver = Some(Process::start(program, flags, &self.dir)?);
        self.until_answers("/readyz", 200).await
    }

    async fn until_answers(&mut self, path: &str, wanted: u16) -> Result<()> {
        let deadline = tokio::time::Instant::now() + START_LIMIT;
        loop {
            self.check()?;
            let said = Client::new(self.target.clone()).get(path).await;
            if said.as_ref().is_ok_and(|reply| reply.status == wanted) {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                let log = self.apiserver.as_ref().map(Process::tail).unwrap_or_default();
                bail!("{path} answered {said:?} after {START_LIMIT:?}:\n{log}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        self.controller_manager = None;
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// What runs before there is a server to ask.
struct Starting {
    etcd: Process,
    dir: PathBuf,
}

impl Starting {
    async fn until_listening(&mut self, port: u16) -> Result<()> {
        let deadline = tokio::time::Instant::now() + START_LIMIT;
        while tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
            self.etcd.check()?;
            if tokio::time::Instant::now() > deadline {
                bail!("etcd in {} does not listen after {START_LIMIT:?}:\n{}", self.dir.display(), self.etcd.tail());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// What the programs and their clients read.
struct Files {
    tls: TlsConnector,
    token: Arc<str>,
}

impl Files {
    fn write(dir: &Path, port: u16) -> Result<Files> {
        let now = jiff::Timestamp::now().as_second();
        let keys = RandomKeys;
        let authority = CertificateAuthority::new("testkit", keys.generate()?, now, LIFETIME)?;
        let issue = |name: &str, group: Option<&str>, usage: LeafUsage| -> Result<CertificatePair> {
            let names = ["localhost", "127.0.0.1", "kubernetes.default.svc"].map(SubjectName::from).to_vec();
            let names = if usage == LeafUsage::Server { names } else { Vec::new() };
            let organization = group.map(str::to_owned);
            let leaf = Leaf { common_name: name.to_owned(), organization, usage, names, lifetime_secs: LIFETIME };
            Ok(authority.issue(&leaf, keys.generate()?, now)?)
        };
        let write = |name: &str, text: &str| {
            std::fs::write(dir.join(name), text).with_context(|| format!("cannot write {name} in {}", dir.display()))
        };
        let ca = authority.certificate().to_pem();
        let server = issue("kube-apiserver", None, LeafUsage::Server)?;
        let admin = issue(ADMIN, Some("system:masters"), LeafUsage::Client)?;
        let controllers = issue("system:kube-controller-manager", Some("system:masters"), LeafUsage::Client)?;
        let token = hex(keys.generate()?.public_key().der());
        write("ca.crt", &ca)?;
        write("server.crt", &server.certificate_pem())?;
        write("server.key", &server.key_pem())?;
        let service_accounts = keys.generate()?;
        write("service-accounts.key", &service_accounts.to_pem())?;
        write("service-accounts.pub", &service_accounts.public_key().to_pem())?;
        write("token", &token)?;
        write("tokens.csv", &format!("{token},{ADMIN},,system:masters\n"))?;
        for (name, pair) in [("kubeconfig", admin), ("controllers.kubeconfig", controllers)] {
            let kubeconfig = Kubeconfig {
                name: "kubernetes".to_owned(),
                server: format!("https://127.0.0.1:{port}"),
                ca_pem: Some(ca.clone()),
                tls_server_name: None,
                namespace: None,
                user: KubeconfigUser::ClientCertificate(pair),
            };
            write(name, &kubeconfig.to_yaml())?;
        }
        Ok(Files { tls: connector(authority.certificate().der())?, token: token.into() })
    }
}

/// A connector that trusts one authority.
fn connector(authority: &[u8]) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.to_vec()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The end of a new public key is as random as a token has to be here.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().rev().take(24).map(|byte| format!("{byte:02x}")).collect()
}

fn etcd_flags(options: &Options, port: u16, peer_port: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let mut flags = vec![
        "--data-dir=etcd".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--log-level=warn".to_owned(),
    ];
    if !options.durable {
        flags.push("--unsafe-no-fsync".to_owned());
    }
    flags
}

fn apiserver_flags(dir: &Path, etcd_port: u16, port: u16) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--token-auth-file={}", file("tokens.csv")),
        format!("--service-account-key-file={}", file("service-accounts.pub")),
        format!("--service-account-signing-key-file={}", file("service-accounts.key")),
        format!("--service-account-issuer={ISSUER}"),
        "--authorization-mode=RBAC".to_owned(),
        // As on every cluster that runs its own parts as pods.
        "--allow-privileged=true".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
        // Loopback is no address that endpoints may have.
        "--endpoint-reconciler-type=none".to_owned(),
        // Its finalizers wait for controllers that do not run beside it.
        "--disable-admission-plugins=StorageObjectInUseProtection".to_owned(),
        // One client asks much more than its share.
        "--enable-priority-and-fairness=false".to_owned(),
        "--max-requests-inflight=0".to_owned(),
        "--max-mutating-requests-inflight=0".to_owned(),
    ]
}

fn controller_flags(quotas: bool) -> Vec<String> {
    let quotas = if quotas { ",resourcequota-controller" } else { "" };
    vec![
        "--kubeconfig=controllers.kubeconfig".to_owned(),
        "--authentication-kubeconfig=controllers.kubeconfig".to_owned(),
        "--authorization-kubeconfig=controllers.kubeconfig".to_owned(),
        "--service-account-private-key-file=service-accounts.key".to_owned(),
        "--root-ca-file=ca.crt".to_owned(),
        "--use-service-account-credentials=false".to_owned(),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=1000".to_owned(),
        "--concurrent-namespace-syncs=20".to_owned(),
        format!("--controllers={CONTROLLERS}{quotas}"),
    ]
}
