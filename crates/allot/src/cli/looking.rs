//! What there is to type for those who look after a landscape: `tree`, `top`, `simulate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use super::asking::WISHES;
use super::{ExplainFormat, Format, Shape, namespace, place};
use crate::duration;

/// `allot tree`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot tree
  allot tree -n team-a
  allot tree -o json
  allot tree -n team-a -o name | xargs kubectl get -n team-a
  allot tree -o name | xargs -L1 kubectl get

Below each Cluster stand those who have room on it or had, whose prefix is not free yet, and below these who has access \
and to whom an AccessPolicy opens it. Without the right to list in all namespaces, name one with -n; what may not be \
seen is told on stderr.

kubectl takes names without a namespace: with -n, -o name lists what is in that namespace, as kubectl does; without, \
each line has the namespace behind the name, as kubectl takes it one line at a time.")]
pub(crate) struct Tree {
    /// Only this namespace
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    pub(crate) output: Option<Format>,
}

/// `allot top`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot top
  allot top clusters --sort tenants --limit 0
  allot top requests -n team-a -o wide
  allot top --watch

What may not be seen is told on stderr, and in `unseen` with -o json. With --watch and no terminal, what changed is \
printed as it is, one document a line with -o json.")]
pub(crate) struct Top {
    /// What to show [default: all]
    #[arg(value_enum, value_name = "SECTION")]
    pub(crate) section: Option<Section>,
    /// Only requests and access of this namespace, and the Clusters that they use
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// What comes first
    #[arg(long, value_name = "BY", value_enum, default_value = "health")]
    pub(crate) sort: SortBy,
    /// Most rows of a section; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Look again and again, every so often; less often where looking takes long
    #[arg(long, value_name = "EVERY", num_args = 0..=1, require_equals = true, default_missing_value = "2s", value_parser = every, allow_hyphen_values = true)]
    pub(crate) watch: Option<Duration>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) output: TopFormat,
}

/// What `allot top` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// Clusters
    Clusters,
    /// Purposes
    Purposes,
    /// Requests that are not granted
    Requests,
    /// ClusterProviders
    Providers,
}

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// What is unwell, then the name
    Health,
    /// The name
    Name,
    /// The oldest; of requests, those that wait longest
    Age,
    /// The fullest; of Purposes and providers, those with most Clusters
    Tenants,
    /// Those with most access
    Access,
    /// Those that nobody uses, the longest first
    Idle,
}

/// How `allot top` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopFormat {
    /// For people
    Text,
    /// The same with more columns
    Wide,
    /// For programs
    Json,
}

/// `allot simulate`
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("asked").args(["file", "purposes"]))]
#[command(group = ArgGroup::new("wishes").args(WISHES).multiple(true).requires("purposes").conflicts_with("file"))]
#[command(after_help = "\
Examples:
  allot simulate -n team-a --purpose workload --count 500
  allot simulate -n team-a -f shape.yaml --count 500 --purpose-file purposes.yaml
  allot simulate --drain allot-clusters/workload-x7k2 --purpose workload --count 20
  allot simulate --without-provider local --purpose mcp -o json

With none of these it says what becomes of the requests that wait, as things are: allot simulate

What is there is read once and nothing is written. The scheduler's own decisions are carried out on the copy, to the \
end, those that wait already among them; time stands still meanwhile. Wants the right to list namespaces, ClusterProviders, Purposes, TraitEquivalences, \
Clusters, ClusterRequests and ClusterRequestGrants.")]
pub(crate) struct Simulate {
    /// Namespace of the requests [default: that of the file, else of the kubeconfig's context]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// How many requests come
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100_000), requires = "asked")]
    pub(crate) count: u32,
    /// File with a ClusterRequest to take for a model, as YAML or JSON; `-` reads it from stdin
    #[arg(short, long, value_name = "FILE", conflicts_with = "purposes")]
    pub(crate) file: Option<PathBuf>,
    /// What they ask for
    #[command(flatten)]
    pub(crate) shape: Shape,
    /// File with Purposes that are changed or new; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) purpose_file: Vec<PathBuf>,
    /// A Cluster that takes nothing new; may be repeated
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = place)]
    pub(crate) drain: Vec<String>,
    /// A ClusterProvider that is not ready; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) without_provider: Vec<String>,
    /// How long a new cluster may take before requests look for another one, as the platform was told
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) provisioning_deadline: Duration,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) output: ExplainFormat,
}

/// How often to look; what is faster only costs.
fn every(text: &str) -> Result<Duration, String> {
    let every = duration::parse(text)?;
    if every < Duration::from_secs(1) { Err("at least 1s".to_owned()) } else { Ok(every) }
}
