//! Who makes clusters: one small trait, and the providers in this process.

mod config;
mod configs;
mod directory;
pub mod existing;
mod gate;
pub mod kind;
mod kubeconfig;
pub mod local;
pub(crate) mod outside;
mod place;
mod reach;
pub(crate) mod recorded;
mod status;

use std::fmt::Debug;
use std::time::Duration;

use allotment_api::requests::{Cluster, OidcIssuer};
pub use allotment_core::providers::{Health, Readiness, Removal};
use allotment_core::requests::is_forced;
use async_trait::async_trait;
use kube::{Resource, ResourceExt};

pub use config::{AsConfig, Config, ConfigSettings};
pub(crate) use configs::Configs;
pub use directory::Directory;
pub use kubeconfig::KubeconfigFault;
pub(crate) use outside::provider_of_lease;
pub use outside::{Deployments, Nowhere, Outside, RunOrder, Runner, RunnerError, Told};
pub use status::Providers;

/// The package of provider `local`.
pub const LOCAL: &str = "builtin:local";
/// The package of provider `existing`.
pub const EXISTING: &str = "builtin:existing";
/// The package of provider `kind`.
pub const KIND: &str = "builtin:kind";

/// The shortest lifetime of a token that Kubernetes gives, as TokenRequest's validation has it.
const SHORTEST_FOREIGN_TOKEN_SECS: i64 = 600;

/// What a provider knows of the Cluster it works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The Cluster's namespace.
    pub namespace: String,
    /// The Cluster's name.
    pub name: String,
    /// The Cluster's UID; everything made for it is named by this.
    pub uid: String,
    /// The Kubernetes version that it should run.
    pub version: String,
    /// The Cluster is being deleted and still in use: what there is goes on, and nothing is made anew.
    pub going: bool,
    /// The Cluster is being deleted by force: what cannot be reached is left behind.
    pub forced: bool,
    /// Its ClusterProvider.
    pub provider: String,
    /// Its profile.
    pub profile: String,
    /// The ProviderConfig that its profile comes from, while that is there and belongs to its ClusterProvider.
    pub config: Option<Config>,
}

impl Order {
    /// What a provider has to know of that Cluster, whose profile comes from `config`.
    pub fn of(cluster: &Cluster, config: Option<Config>) -> Self {
        Order {
            namespace: cluster.namespace().unwrap_or_default(),
            name: cluster.name_any(),
            uid: cluster.uid().unwrap_or_default(),
            version: cluster.spec.kubernetes.version.clone().unwrap_or_default(),
            going: cluster.meta().deletion_timestamp.is_some(),
            forced: is_forced(cluster.meta()),
            provider: cluster.spec.cluster_provider_ref.name.clone(),
            profile: cluster.spec.cluster_provider_ref.profile.clone(),
            config,
        }
    }
}

/// How clients reach a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `https://HOST:PORT[/PATH]`, no trailing slash.
    pub server: String,
    /// The certificate authority to check it by, as PEM.
    pub certificate_authority: String,
    /// The name that its certificate has, where that is another than the server's.
    pub tls_server_name: Option<String>,
}

/// Admin rights on one cluster, in memory only.
pub struct AdminAccess {
    /// A client with all rights there. Every call of it ends in time, whatever becomes of the cluster.
    pub client: kube::Client,
    /// Where others reach it.
    pub endpoint: Endpoint,
    /// The shortest lifetime of a token that it takes, in seconds.
    pub shortest_token_secs: i64,
}

impl AdminAccess {
    /// Rights on a cluster of somebody else's server.
    pub(crate) fn foreign(client: kube::Client, endpoint: Endpoint) -> Self {
        AdminAccess { client, endpoint, shortest_token_secs: SHORTEST_FOREIGN_TOKEN_SECS }
    }
}

impl Debug for AdminAccess {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AdminAccess").field("server", &self.endpoint.server).finish_non_exhaustive()
    }
}

/// Why a provider could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// A call of the platform's API failed.
    #[error("a call of the platform's API failed")]
    Api(#[from] kube::Error),
    /// What was recorded of a cluster is not whole or not ours.
    #[error("Secret {name} in namespace {namespace} is {what}")]
    Record {
        /// Where it lies.
        namespace: String,
        /// What it is called.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Keys or certificates could not be made.
    #[error("cannot make keys or certificates")]
    Pki(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The runtime refused.
    #[error("the runtime of control planes refused")]
    Runtime(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A kubeconfig that somebody else wrote cannot be used.
    #[error("{whose} cannot be used")]
    Kubeconfig {
        /// `Secret allot-planes/access-p, key ...`
        whose: String,
        /// What is wrong with it.
        #[source]
        fault: KubeconfigFault,
    },
    /// The cluster cannot be reached, or not by these credentials.
    #[error("{0}")]
    Unreachable(String),
    /// A program that makes clusters failed.
    #[error("{0}")]
    Tool(String),
    /// A provider of another process gave no admin access.
    #[error("ClusterProvider {provider} {what}")]
    Unanswered {
        /// The ClusterProvider.
        provider: String,
        /// `has no heartbeat, and is not asked`
        what: String,
    },
    /// There is nothing of that Cluster.
    #[error("there is no control plane for Cluster {namespace}/{name}")]
    Absent {
        /// The Cluster's namespace.
        namespace: String,
        /// The Cluster's name.
        name: String,
    },
}

/// A version that a profile offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedVersion {
    /// `1.36.2`
    pub version: String,
    /// Whether it should no longer be chosen unasked.
    pub deprecated: bool,
}

/// What a ProviderConfig stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedProfile {
    /// The profile's name.
    pub name: String,
    /// The ProviderConfig that it was made from.
    pub config: String,
    /// Versions, oldest first.
    pub versions: Vec<OfferedVersion>,
    /// Traits that its clusters have.
    pub traits: Vec<String>,
    /// Most Clusters at a time.
    pub max_clusters: Option<i32>,
    /// The issuer that its clusters trust.
    pub oidc: Option<OidcIssuer>,
}

/// What ProviderConfigs stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offers {
    /// The profiles.
    pub profiles: Vec<OfferedProfile>,
    /// For people: what is wrong with ProviderConfigs, one sentence for each that cannot be used.
    pub unusable: Vec<String>,
    /// Whether all that it takes to say so is known; until then nothing is said.
    pub settled: bool,
}

impl Default for Offers {
    fn default() -> Self {
        Offers { profiles: Vec::new(), unusable: Vec::new(), settled: true }
    }
}

/// What came of a look at what a ProviderConfig stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Something is not as it was: what is offered, or how its Clusters do.
    pub changed: bool,
    /// When to look again.
    pub again: Option<Duration>,
}

/// Makes clusters, watches over them, takes them away. Every method can be called again at any time, and
/// after a crash at any point.
#[async_trait]
pub trait Provider: Debug + Send + Sync + 'static {
    /// The package that stands for it in `ClusterProvider.spec.package`: `builtin:NAME`.
    fn package(&self) -> &'static str;

    /// Its finalizer on Clusters. It tells whose a Cluster is even when its ClusterProvider is gone.
    fn finalizer(&self) -> &'static str;

    /// Whether it can work at all, and when to ask again.
    async fn readiness(&self) -> (Readiness, Option<Duration>) {
        (Readiness::Ready, None)
    }

    /// What these ProviderConfigs offer, as far as is known; asks nobody.
    fn offers(&self, configs: &[Config]) -> Offers;

    /// Looks at what a ProviderConfig stands for. Called when it changes, and then as often as asked for.
    async fn look(&self, _config: &Config) -> Result<Looked, ProviderError> {
        Ok(Looked::default())
    }

    /// A ProviderConfig is gone.
    fn forget(&self, _config: &str) {}

    /// Whether it calls servers or programs that may be slow: those are kept from holding up others.
    fn is_remote(&self) -> bool {
        false
    }

    /// Brings the cluster nearer to what is ordered, and says how it does.
    async fn ensure(&self, order: &Order) -> Result<Health, ProviderError>;

    /// Says how the cluster does, changing nothing.
    async fn observe(&self, order: &Order) -> Result<Health, ProviderError>;

    /// Takes the cluster away with all that was made for it.
    async fn remove(&self, order: &Order) -> Result<Removal, ProviderError>;

    /// Whether its clusters keep tenants to their prefixes by themselves. Into others the platform puts what makes their
    /// API server do it, before it gives access to one that is shared.
    fn keeps_prefixes(&self) -> bool {
        false
    }

    /// Admin rights on the cluster, for one operation.
    async fn admin_access(&self, order: &Order) -> Result<AdminAccess, ProviderError>;
}
