//! A landscape on a data folder, served over TLS. Wiring only; what runs in it is put together by
//! `allotment-landscape`.

mod beside;
mod broken;
mod certificates;
mod children;
mod duty;
mod files;
mod holder;
mod listen;
mod outputs;
mod programs;
mod seams;
mod service;
mod webhooks;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use allotment_apiserver::server::ApiServer;
use allotment_apiserver::tls::{ServingCertificates, server_config};
use allotment_controllers::Settings;
use allotment_controllers::frame::{Alarm, Tasks};
use allotment_landscape::{Config, Landscape};
use allotment_pki::{CertificatePair, Kubeconfig, KubeconfigUser, RandomKeys, SubjectName};
use allotment_store::{Embedded, OpenError};
use anyhow::Context as _;
use tracing::warn;

use crate::exit::{Code, Failure};
pub(crate) use beside::{Replica, ReplicaOptions, Role};
pub(crate) use broken::within;
use certificates::Issuer;
pub(crate) use children::try_lock;
use children::{Children, ChildrenConfig};
pub(crate) use files::{DataFolder, write_private};
pub(crate) use outputs::{check_place, is_written_by_up};
pub(crate) use seams::seams;

/// What the platform is called in kubeconfigs.
const CLUSTER_NAME: &str = "allotment";

/// What a platform is started with.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Where everything is kept.
    pub(crate) data_dir: PathBuf,
    /// Where to serve; unset: where it served last, else the default.
    pub(crate) listen: Option<SocketAddr>,
    /// Lifetime of the tokens of AccessRequests.
    pub(crate) access_token_lifetime: Duration,
    /// How long a new Cluster may take before requests look for another one.
    pub(crate) provisioning_deadline: Duration,
    /// Lifetime of the listener's and the admin's certificates; they are issued anew at each start and long before
    /// they end.
    pub(crate) leaf_lifetime: Duration,
    /// Where to write the admin's kubeconfig besides.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Where executables of providers may lie; unset: none is run.
    pub(crate) provider_dir: Option<PathBuf>,
    /// What providers are told that the landscape is called.
    pub(crate) environment: String,
}

/// A running platform.
pub(crate) struct Platform {
    folder: DataFolder,
    kubeconfig: PathBuf,
    address: SocketAddr,
    url: String,
    server: ApiServer,
    store: Embedded,
    tasks: Tasks,
}

impl Platform {
    /// Starts everything, and returns when all is ready: the controllers have seen everything, the
    /// kubeconfig is on disk. `alarm` rings once a part broke without which nothing can be served, also before.
    pub(crate) async fn start(options: Options, alarm: Alarm) -> Result<Self, Failure> {
        if let Some(path) = &options.kubeconfig {
            outputs::check_kubeconfig(path)?;
        }
        let provider_dir = options.provider_dir.as_deref().map(children::provider_dir).transpose()?;
        let folder = DataFolder::inspect(&options.data_dir)?;
        folder.check_own()?;
        let seams = seams();
        // Before the store is opened, which may write: what cannot be used stays as it is.
        let known = folder.identity()?;
        let (listener, store) = listen::claim(&folder, options.listen).await?;
        let address = listener.local_addr().context("cannot tell the address")?;
        folder.set_address(address)?;
        let now = seams.now();
        let identity = known.map_or_else(|| folder.new_identity(&RandomKeys, now.as_second()), Ok)?;
        let url = format!("https://{address}");
        let issuer = Issuer::new(&identity.authority, &[SubjectName::Ip(address.ip())], options.leaf_lifetime);
        let (serving, admin) = (issuer.serving(now)?, issuer.admin(now)?);
        let root_ca_pem: Arc<str> = identity.authority.certificate().to_pem().into();

        let config = Config {
            store: Arc::new(store.clone()),
            seams: seams.clone(),
            keys: Arc::new(RandomKeys),
            authority: identity.authority.clone(),
            service_account_key: identity.service_account_key.clone(),
            created: identity.created()?,
            url: url.clone(),
            programs: Arc::new(programs::MachinePrograms),
        };
        let landscape = Landscape::serve(config).await.map_err(anyhow::Error::from)?;
        let server = landscape.server().clone();

        let tasks = Tasks::ringing(alarm);
        broken::listen(&tasks, &server, &store);
        let children = Children::new(ChildrenConfig {
            provider_dir,
            folder: folder.providers()?,
            client: landscape.client().clone(),
            url: url.clone(),
            root_ca_pem: root_ca_pem.clone(),
            environment: options.environment,
            tasks: tasks.clone(),
        });
        let landscape = landscape.with_runner(Arc::new(children));
        let certificates = Arc::new(ServingCertificates::new(&serving)?);
        service::serve(&tasks, listener, server_config(certificates.clone())?, &server);
        landscape.ensure().await.map_err(anyhow::Error::from)?;
        let settings = Settings {
            access_token_lifetime: options.access_token_lifetime,
            provisioning_deadline: options.provisioning_deadline,
            without_catalog: false,
        };
        landscape.keep_controllers(&tasks, settings).await;

        let own = folder.kubeconfig();
        let paths: Vec<PathBuf> = [Some(own.clone()), options.kubeconfig.clone()].into_iter().flatten().collect();
        let text = kubeconfig(&url, &root_ca_pem, admin);
        for path in &paths {
            let Err(error) = write_private(path, text.as_bytes()) else { continue };
            if outputs::keeps_working(path, &error, &url, &root_ca_pem, now.as_second()) {
                // What is there leads here too; a platform that can be read is better than none.
                warn!(path = %path.display(), %error, "the kubeconfig cannot be written anew; the one of before is kept");
                continue;
            }
            let message = format!("cannot write the kubeconfig {}: {error}", path.display());
            return Err(Failure::new(Code::Failed, message));
        }
        let admins = Admins { issuer: issuer.clone(), url: url.clone(), root_ca_pem, paths };
        let write = move |now| std::future::ready(admins.write(now));
        tasks.spawn(certificates::renew(issuer, certificates, seams, now, write));
        let kubeconfig = options.kubeconfig.unwrap_or(own);
        Ok(Platform { folder, kubeconfig, address, url, server, store, tasks })
    }

    /// The admin's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where the API is served.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where everything is kept.
    pub(crate) fn data_dir(&self) -> &Path {
        self.folder.root()
    }

    /// Whether only this machine can reach it.
    pub(crate) fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// Stops controllers, then the server, then the store.
    pub(crate) async fn stop(self) {
        // Both at once: the listener waits for running requests, and watches end with the server.
        tokio::join!(self.tasks.stop(), self.server.stop());
        self.store.close().await;
    }
}

/// The admin's kubeconfigs.
struct Admins {
    issuer: Issuer,
    url: String,
    root_ca_pem: Arc<str>,
    paths: Vec<PathBuf>,
}

impl Admins {
    /// Writes them anew. What was put in the place of one meanwhile is somebody's own.
    fn write(&self, now: jiff::Timestamp) -> anyhow::Result<()> {
        let text = kubeconfig(&self.url, &self.root_ca_pem, self.issuer.admin(now)?);
        for path in &self.paths {
            outputs::check_kubeconfig(path).map_err(|failure| failure.error)?;
            let written = write_private(path, text.as_bytes());
            written.with_context(|| format!("cannot write the kubeconfig {}", path.display()))?;
        }
        Ok(())
    }
}

fn kubeconfig(url: &str, root_ca_pem: &str, admin: CertificatePair) -> String {
    let kubeconfig = Kubeconfig {
        name: CLUSTER_NAME.to_owned(),
        server: url.to_owned(),
        ca_pem: Some(root_ca_pem.to_owned()),
        tls_server_name: None,
        namespace: None,
        user: KubeconfigUser::ClientCertificate(admin),
    };
    kubeconfig.to_yaml().to_string()
}

/// What an error of the store means for whoever typed the command.
pub(crate) fn store_failure(error: OpenError) -> Failure {
    let code = match &error {
        OpenError::Locked { path } => {
            let who = holder::describe(Path::new(path));
            return Failure::new(Code::FolderInUse, format!("{error}{who}"));
        }
        OpenError::Foreign { .. } => Code::FolderForeign,
        OpenError::Newer { .. } => Code::FolderNewer,
        OpenError::TooWide { .. } | OpenError::Format { .. } | OpenError::Damaged { .. } | OpenError::Io { .. } => {
            Code::FolderUnusable
        }
    };
    Failure { code, error: error.into() }
}
