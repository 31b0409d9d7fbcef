//! What there is to type for those who want a cluster: `request`, `access`, `credential`, `explain`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use super::{ExplainFormat, Format, namespace, object_name};
use crate::duration;

/// A namespaced object.
#[derive(Clone, Debug, Args)]
pub(crate) struct Named {
    /// Name of the object
    #[arg(value_name = "NAME", value_parser = object_name)]
    pub(crate) name: String,
    /// Its namespace [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
}

/// Whether and how long to wait.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Waiting {
    /// Wait until it is ready
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) timeout: Duration,
}

/// What a request asks for.
#[derive(Clone, Debug, Args)]
pub(crate) struct Shape {
    /// What the cluster is for, in order of importance; may be repeated
    #[arg(short, long = "purpose", value_name = "PURPOSE")]
    pub(crate) purposes: Vec<String>,
    /// Kubernetes version, whole or in part: 1.33, 1.33.2
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// A trait that the cluster must have; `not:TRAIT` must not, `?TRAIT` would be liked; may be repeated
    #[arg(long = "trait", value_name = "TRAIT")]
    pub(crate) traits: Vec<String>,
    /// A cluster of one's own, or a shared one, whatever the purposes say
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(crate) dedicated: Option<bool>,
    /// Prefix to propose for names of cluster-scoped objects, as `team-`
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,
    /// Higher ones are decided first; a waiting request gains one per minute [default: 0]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(crate) priority: Option<i32>,
}

/// The flags of [`Shape`] that say what is asked for beside the purposes.
pub(super) const WISHES: [&str; 5] = ["version", "traits", "dedicated", "prefix", "priority"];

/// `allot request`
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("asked").args(["purposes"]).required(true))]
#[command(after_help = "\
Examples:
  allot request build -n team-a --purpose mcp --wait
  allot request shop -n team-a --purpose workload --version 1.36 --prefix shop-
  allot request fast -n team-a -p workload --trait '?infrastructure/vendor/local'

It ends with 0 once the cluster is ready, with 2 if the request is denied, with 1 at the time limit.")]
pub(crate) struct Request {
    /// What to call the request
    #[command(flatten)]
    pub(crate) object: Named,
    /// What it asks for
    #[command(flatten)]
    pub(crate) shape: Shape,
    /// Whether to wait for the cluster
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    /// How to print the request
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    pub(crate) output: Option<Format>,
}

/// `allot access`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot access build -n team-a --wait > build.kubeconfig
  kubectl --kubeconfig build.kubeconfig get namespaces
  allot access build -n team-a --merge
  kubectl --context team-a/build get namespaces

With --merge nothing is printed but the name of the context, NAMESPACE/NAME: it is put, with a cluster and a user of that \
name, into the file that kubectl would write to, of $KUBECONFIG or ~/.kube/config, and everything else there stays. It \
asks first; scripts agree with --yes, which replaces nothing that is not of this AccessRequest.

The kubeconfig calls `allot credential` for the token of now, so a copied file outlives renewals.")]
pub(crate) struct Access {
    /// The AccessRequest
    #[command(flatten)]
    pub(crate) object: Named,
    /// Whether to wait for it to be granted
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    /// Print the kubeconfig with the token in it, which ends with the token
    #[arg(long = "static")]
    pub(crate) fixed: bool,
    /// Put it into kubectl's own kubeconfig as a context, after asking
    #[arg(long)]
    pub(crate) merge: bool,
    /// Do not ask
    #[arg(long, requires = "merge")]
    pub(crate) yes: bool,
}

/// `allot credential`
#[derive(Clone, Debug, Args)]
pub(crate) struct Credential {
    /// The AccessRequest
    #[command(flatten)]
    pub(crate) object: Named,
}

/// `allot explain`
#[derive(Debug, Subcommand)]
pub(crate) enum Explain {
    /// Say how a ClusterRequest stands, or what would become of one, and what stands in the way
    Request(ExplainRequest),
    /// Say how each thing stands that a Shoot uses of its cloud profile, and what it could change to
    Shoot(ExplainShoot),
    /// Say who uses a CloudProfile, which versions of it until when, and what its deletion would wait for
    #[command(name = "cloudprofile")]
    CloudProfile(ExplainProfile),
    /// Say what is wrong with a PrivateCloudProfile, who uses it, and what its deletion would wait for
    #[command(name = "privatecloudprofile", visible_alias = "pcp")]
    PrivateCloudProfile(ExplainProfile),
}

/// `allot explain shoot`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot explain shoot web -n team-a
  allot explain shoot -n team-a -f shoot.yaml
  allot explain shoot -n team-a -f shoot.yaml -f profile.yaml
  allot explain shoot web -n team-a -o json

What is said of each thing is what admission would say of a new Shoot; one that is there keeps what it has. With -f it \
tells of a Shoot that is not there yet. CloudProfiles and PrivateCloudProfiles in the files count in the place of those that \
the server has by their names; whether it would take them `allot catalog lint` tells. What may not be seen is told on stderr, and in \
`unseen` with -o json. It ends with 0 whatever the answer is.")]
pub(crate) struct ExplainShoot {
    /// Name of the Shoot
    #[arg(value_name = "NAME", value_parser = object_name, required_unless_present = "files", conflicts_with = "files")]
    pub(crate) name: Option<String>,
    /// Its namespace [default: that of the file, else of the kubeconfig's context]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// File with the Shoot, or with profiles, as YAML or JSON; `-` reads stdin; may be given several times
    #[arg(short, long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) output: ExplainFormat,
}

/// `allot explain cloudprofile` and `privatecloudprofile`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot explain cloudprofile central
  allot explain cloudprofile central -n team-a
  allot explain privatecloudprofile own -n team-a

Who may not list PrivateCloudProfiles and Shoots in all namespaces sees those of a CloudProfile in one, named with -n. What \
may not be seen is told on stderr, and in `unseen` with -o json.")]
pub(crate) struct ExplainProfile {
    /// The profile; of a CloudProfile the namespace says where to look for those that use it
    #[command(flatten)]
    pub(crate) object: Named,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) output: ExplainFormat,
}

/// `allot explain request`
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("wishes").args(WISHES).multiple(true).requires("purposes").conflicts_with("file"))]
#[command(group = ArgGroup::new("asked").args(["purposes", "file"]).requires("dry_run"))]
#[command(after_help = "\
Examples:
  allot explain request build -n team-a
  allot explain request --dry-run -n team-a --purpose mcp --version 1.99
  allot explain request build -n team-a --dry-run -f request.yaml -o json

A dry run asks the platform itself, and wants the right to create ClusterRequests; nothing is stored. It ends with 0 \
whatever the answer is.")]
pub(crate) struct ExplainRequest {
    /// Name of the ClusterRequest
    #[arg(value_name = "NAME", value_parser = object_name, required_unless_present = "dry_run")]
    pub(crate) name: Option<String>,
    /// Its namespace [default: that of the file, else of the kubeconfig's context]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// Say what would be decided about one that asks for what is named here
    #[arg(long, requires = "asked")]
    pub(crate) dry_run: bool,
    /// File with the ClusterRequest, as YAML or JSON; `-` reads it from stdin
    #[arg(short, long, value_name = "FILE", conflicts_with = "purposes")]
    pub(crate) file: Option<PathBuf>,
    /// What it asks for
    #[command(flatten)]
    pub(crate) shape: Shape,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) output: ExplainFormat,
}
