//! Who makes clusters: one small trait, and the providers in this process.

mod directory;
mod kubeconfig;
pub mod local;
mod status;

use std::fmt::Debug;

use allotment_api::requests::Cluster;
pub use allotment_core::providers::{Health, Removal};
use async_trait::async_trait;
use kube::{Resource, ResourceExt};

pub use directory::Directory;
pub use kubeconfig::KubeconfigFault;
pub use status::Providers;

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
}

impl Order {
    /// What a provider has to know of that Cluster.
    pub fn of(cluster: &Cluster) -> Self {
        Order {
            namespace: cluster.namespace().unwrap_or_default(),
            name: cluster.name_any(),
            uid: cluster.uid().unwrap_or_default(),
            version: cluster.spec.kubernetes.version.clone().unwrap_or_default(),
            going: cluster.meta().deletion_timestamp.is_some(),
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
}

/// Admin rights on one cluster, in memory only.
pub struct AdminAccess {
    /// A client with all rights there.
    pub client: kube::Client,
    /// Where others reach it.
    pub endpoint: Endpoint,
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
}

/// Makes clusters, watches over them, takes them away. Every method can be called again at any time, and
/// after a crash at any point.
#[async_trait]
pub trait Provider: Debug + Send + Sync + 'static {
    /// The package that stands for it in `ClusterProvider.spec.package`: `builtin:NAME`.
    fn package(&self) -> &'static str;

    /// Its finalizer on Clusters. It tells whose a Cluster is even when its ClusterProvider is gone.
    fn finalizer(&self) -> &'static str;

    /// What each of these ProviderConfigs, given by name, offers.
    fn profiles(&self, configs: &[String]) -> Vec<OfferedProfile>;

    /// Brings the cluster nearer to what is ordered, and says how it does.
    async fn ensure(&self, order: &Order) -> Result<Health, ProviderError>;

    /// Says how the cluster does, changing nothing.
    async fn observe(&self, order: &Order) -> Result<Health, ProviderError>;

    /// Takes the cluster away with all that was made for it.
    async fn remove(&self, order: &Order) -> Result<Removal, ProviderError>;

    /// Admin rights on the cluster, for one operation.
    async fn admin_access(&self, order: &Order) -> Result<AdminAccess, ProviderError>;
}
