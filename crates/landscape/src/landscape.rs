//! The server and what runs over it, in the order in which they start.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use allotment_apiserver::auth::{GROUP_MASTERS, UserInfo};
use allotment_apiserver::server::{ApiServer, TenantConfig};
use allotment_apiserver::status::ApiError;
use allotment_controllers::frame::{Seams, Tasks, keep};
use allotment_controllers::providers::Runner;
use allotment_controllers::providers::kind::Programs;
use allotment_controllers::{Controllers, Settings, start};
use allotment_pki::{CertificateAuthority, KeySource, PkiError, PrivateKey};
use allotment_store::{Store, Tenant};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::admission::{CONTROLLERS, OurKinds};
use crate::client::{client_of, weak_client_of};
use crate::manifests::Setup;
use crate::planes::{Planes, PlanesConfig};
use crate::readiness::ControllersSynced;
use crate::tenants::access;

/// What the platform's own `/version` answers.
const PLATFORM_VERSION: &str = "1.36.3";
/// Who makes what a landscape begins with, in `managedFields`.
const MANAGER: &str = "allot-up";

/// What a landscape is made from.
#[derive(Debug)]
pub struct Config {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Time, names and UIDs.
    pub seams: Seams,
    /// Where the keys of new control planes come from.
    pub keys: Arc<dyn KeySource>,
    /// The platform's certificate authority.
    pub authority: CertificateAuthority,
    /// What the platform's service-account tokens are signed with.
    pub service_account_key: PrivateKey,
    /// When the landscape was made: the age of what every cluster begins with.
    pub created: jiff::Timestamp,
    /// Where clients reach it: `https://HOST:PORT`.
    pub url: String,
    /// Runs programs of this machine.
    pub programs: Arc<dyn Programs>,
}

/// Why a landscape does not start.
#[derive(Debug, thiserror::Error)]
pub enum LandscapeError {
    /// The platform's own API cannot be served.
    #[error("cannot serve the platform's API")]
    Serve(#[source] ApiError),
    /// The platform's keys cannot be used.
    #[error("cannot use the platform's keys")]
    Keys(#[from] PkiError),
    /// An object that a landscape begins with cannot be made.
    #[error("cannot {what}")]
    Call {
        /// `make Purpose mcp`
        what: String,
        /// What the API answered.
        #[source]
        source: kube::Error,
    },
    /// What was made does not come into force.
    #[error("{what} does not come into force")]
    Wait {
        /// `the definition purposes.cluster.openmcp.cloud`
        what: String,
        /// What was heard last.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A server that does not say by which name it knows us.
    #[error(
        "the API server does not say who we are there (SelfSubjectReview has no username); without that admission \
         cannot tell the platform's writes from others'"
    )]
    Nobody,
    /// The catalog's kinds are somebody else's.
    #[error(
        "the API server has kinds of core.gardener.cloud that are not of this platform: {found}; start with \
         --without-catalog to leave CloudProfiles, PrivateCloudProfiles and Shoots to whoever serves them, or take them away \
         before, or choose another API server"
    )]
    ForeignCatalog {
        /// What was found.
        found: String,
    },
    /// Kinds that the platform cannot do without are somebody else's.
    #[error(
        "the API server leaves kinds of this platform to another server: {found}; take that away before, or choose another \
         API server"
    )]
    Foreign {
        /// What was found.
        found: String,
    },
    /// A manifest in the program cannot be read.
    #[error("the embedded {kind} cannot be read")]
    Manifest {
        /// Its kind.
        kind: &'static str,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A landscape that is served.
pub struct Landscape {
    planes: Planes,
    client: Client,
    admission: Arc<OurKinds>,
    readiness: Arc<ControllersSynced>,
    runner: Option<Arc<dyn Runner>>,
}

impl fmt::Debug for Landscape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Landscape").field("planes", &self.planes).finish_non_exhaustive()
    }
}

impl Landscape {
    /// Serves the platform's own API in this process. Call it within a tokio runtime.
    ///
    /// # Errors
    /// The store does not answer, or the keys cannot be used.
    pub async fn serve(config: Config) -> Result<Self, LandscapeError> {
        let Config { store, seams, keys, authority, service_account_key, created, url, programs } = config;
        let admission = Arc::new(OurKinds::new(CONTROLLERS, seams.clock.clone()));
        let readiness = Arc::new(ControllersSynced::default());
        let access = access(authority.bundle(), service_account_key, &url)?;
        let planes = PlanesConfig {
            store,
            seams,
            keys,
            root_ca_pem: authority.certificate().to_pem().into(),
            created,
            url,
            home: String::new(),
            programs,
        };
        let planes = Planes::serve(planes, Some(admission.clone()), vec![readiness.clone()]);
        let platform = TenantConfig {
            tenant: Tenant::platform(),
            version: PLATFORM_VERSION.to_owned(),
            server_url: planes.url().to_owned(),
            root_ca_pem: Arc::clone(planes.root_ca_pem()),
            access,
            template: Arc::clone(planes.template()),
        };
        planes.server().ensure_tenant(platform).await.map_err(LandscapeError::Serve)?;
        let user = UserInfo::in_process(CONTROLLERS, &[GROUP_MASTERS]);
        // Admission is the server's, and must not keep it.
        admission.set_client(weak_client_of(planes.server().downgrade(), user.clone()));
        let client = client_of(planes.server(), &Tenant::platform(), user);
        Ok(Landscape { planes, client, admission, readiness, runner: None })
    }

    /// The same, with who runs providers of other processes. Without, none is run.
    #[must_use]
    pub fn with_runner(self, runner: Arc<dyn Runner>) -> Self {
        Landscape { runner: Some(runner), ..self }
    }

    /// Makes what a landscape begins with, as far as it is missing.
    ///
    /// # Errors
    /// The API refuses, or does not answer.
    pub async fn ensure(&self) -> Result<(), LandscapeError> {
        Setup::new(self.client.clone(), MANAGER).ensure().await
    }

    /// Starts all controllers in `tasks`, which reach the platform by `client`. Instances beside them do
    /// no harm; admission and readiness ask those started last.
    pub fn start_controllers(&self, tasks: &Tasks, client: &Client, settings: &Settings) -> Arc<Controllers> {
        let directory = self.planes.providers(self.client.clone());
        let directory = match &self.runner {
            Some(runner) => directory.with_runner(runner.clone()),
            None => directory,
        };
        let controllers = Arc::new(start(tasks, client, directory, self.planes.seams(), settings));
        self.admission.set_controllers(controllers.clone());
        self.planes.set_controllers(&controllers);
        self.readiness.set_controllers(controllers.clone());
        controllers
    }

    /// Starts all controllers, and returns once they have seen everything, or broke before. When something of them panics, all of
    /// them are begun anew over what the API says, after a pause; what is served is served meanwhile.
    pub async fn keep_controllers(self, tasks: &Tasks, settings: Settings) {
        self.keep_each(tasks, settings, |_| {}).await;
    }

    /// The same; `begun` is told each set of controllers, which ends when a task in it panics.
    async fn keep_each(self, tasks: &Tasks, settings: Settings, mut begun: impl FnMut(&Tasks) + Send + 'static) {
        let (first, all, landscape) = (CancellationToken::new(), tasks.clone(), Arc::new(self));
        let ready = first.clone();
        tasks.spawn(async move {
            let begin = |part: Tasks| {
                let controllers = landscape.start_controllers(&part, &landscape.client, &settings);
                let ready = ready.clone();
                begun(&part);
                async move {
                    controllers.synced().await;
                    ready.cancel();
                    std::future::pending().await
                }
            };
            let broke = || {
                landscape.rest();
                ready.cancel();
            };
            keep(&all, begin, broke).await
        });
        first.cancelled().await;
    }

    /// Nothing that is known is relied on any more.
    fn rest(&self) {
        self.admission.clear_controllers();
        self.readiness.clear_controllers();
    }

    /// The controllers' own client: no socket, no TLS.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The API server.
    pub fn server(&self) -> &ApiServer {
        self.planes.server()
    }
}
