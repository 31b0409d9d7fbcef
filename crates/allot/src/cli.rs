//! The command line: what there is to type, and nothing of what it does.

mod asking;
mod catalog;
mod looking;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use allotment_machinery::names;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::duration;

pub(crate) use asking::{
    Access, Credential, Explain, ExplainProfile, ExplainRequest, ExplainShoot, Named, Request, Shape,
};
pub(crate) use catalog::{Catalog, CatalogDiff, CatalogExpiring, CatalogLint, CatalogRender, DocumentFormat};
pub(crate) use looking::{Section, Simulate, SortBy, Top, TopFormat, Tree};

/// Kubernetes clusters on request: in the right place, with no more access than was asked for.
#[derive(Debug, Parser)]
#[command(name = "allot", version, disable_help_subcommand = true)]
#[command(
    after_help = "Begin with `allot demo`, or `allot up` and then `allot request`. Exit codes: `allot help exit-codes`."
)]
pub(crate) struct Cli {
    /// Which API to talk to.
    #[command(flatten)]
    pub(crate) target: Target,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which API to talk to.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// Kubeconfig file of the platform; `up` writes one there [default: $KUBECONFIG, else that of `up`]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole landscape on this machine
    Up(Up),
    /// Run the controllers and admission beside a Kubernetes API server
    Controllers(Controllers),
    /// Watch the main job being done from nothing, in a temporary folder
    Demo(Demo),
    /// Ask for a cluster
    Request(Request),
    /// Print a kubeconfig for an AccessRequest
    Access(Access),
    /// Print the current token of an AccessRequest, as kubectl's exec plugins do
    #[command(hide = true)]
    Credential(Credential),
    /// Say why something is as it is, or what would be decided
    #[command(subcommand)]
    Explain(Explain),
    /// Show requests, clusters and access as one tree
    Tree(Tree),
    /// Show what is full, what waits and what is unwell
    Top(Top),
    /// Say what would come of more requests, on a copy of what is there
    Simulate(Simulate),
    /// Look at cloud profiles, in files before anybody applies them, or on a server
    #[command(subcommand)]
    Catalog(Catalog),
    /// Look at the store of a data folder, or repair it; nothing may be running on it
    #[command(subcommand)]
    Store(Store),
    /// Print the CustomResourceDefinitions
    Crds(Crds),
    /// List the known traits
    Traits(Traits),
    /// Print the version
    Version(Version),
    /// Print a completion script
    Completion(Completion),
    /// Run a provider for as long as the server that started it lives
    #[command(hide = true)]
    ProviderGuard(ProviderGuard),
    /// Print help of a command, or `exit-codes`
    Help(Help),
}

/// `allot up`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot up
  allot up --data-dir ./platform --kubeconfig platform.kubeconfig --listen 127.0.0.1:7443
  allot up --leaf-lifetime 7d --access-token-lifetime 1h

It runs until Ctrl-C. Started again on the same folder it serves what was there on the same address.")]
pub(crate) struct Up {
    /// Folder that keeps everything [default: allot's folder below the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address to serve on; port 0 takes a free one, which is kept [default: 127.0.0.1:7443]
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Write the process id there once everything is ready
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    /// Folder that executables of ClusterProviders may lie in; without it none is run. They run as the server's user and
    /// can read all that it can: put in only what you trust as you trust the server
    #[arg(long, value_name = "DIR")]
    pub(crate) provider_dir: Option<PathBuf>,
    /// What providers are told that this landscape is called
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = namespace)]
    pub(crate) environment: String,
    #[command(flatten)]
    pub(crate) lifetimes: Lifetimes,
}

/// How long what the controllers give or wait for lasts.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Lifetimes {
    /// Lifetime of the tokens that AccessRequests get, at most 24h
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) access_token_lifetime: Duration,
    /// How long a new cluster may take before requests look for another one
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) provisioning_deadline: Duration,
    /// Lifetime of the certificates that the process issues for itself, the admin's included, at least 60s; they are
    /// replaced while it runs
    #[arg(long, value_name = "DURATION", default_value = "90d", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) leaf_lifetime: Duration,
}

/// `allot controllers`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot controllers --data-dir ./clusters --kubeconfig cluster.kubeconfig
  allot controllers --data-dir /data --listen 0.0.0.0:7443 --url https://clusters.example.com:7443

The API server is that of --kubeconfig or $KUBECONFIG, else the one around this pod. Of several replicas one acts; all \
answer reviews. What rights are needed: docs/controllers.md.")]
pub(crate) struct Controllers {
    /// Folder that keeps the clusters of provider `local`; only the replica that acts uses it
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Address to serve these clusters on; port 0 takes a free one, which is kept [default: 127.0.0.1:7443]
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Where clients reach these clusters, if not there
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(crate) url: Option<String>,
    /// Address to serve admission webhooks on
    #[arg(long, value_name = "HOST:PORT", value_parser = address, default_value = "127.0.0.1:0")]
    pub(crate) webhook_listen: SocketAddr,
    /// Where the API server reaches the webhooks, if not there
    #[arg(long, value_name = "URL", value_parser = url, conflicts_with = "webhook_service")]
    pub(crate) webhook_url: Option<String>,
    /// The Service that leads to the webhooks of every replica
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", value_parser = service)]
    pub(crate) webhook_service: Option<Service>,
    /// How long the Lease holds that decides who acts: a replica that died is replaced after this time
    /// and a few seconds
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) lease_duration: Duration,
    /// Write the process id there once it acts or stands by
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    /// What providers are told that this landscape is called
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = namespace)]
    pub(crate) environment: String,
    /// Leave CloudProfiles, PrivateCloudProfiles and Shoots to whoever serves them there
    #[arg(long)]
    pub(crate) without_catalog: bool,
    #[command(flatten)]
    pub(crate) lifetimes: Lifetimes,
}

/// A Service of the API server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Its port.
    pub(crate) port: u16,
}

/// `allot demo`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot demo
  allot demo --keep")]
pub(crate) struct Demo {
    /// Keep the landscape running afterwards, until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,
}

/// `allot store`
#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Read everything and say what is there, or in which file and at which byte it is damaged
    Check(StoreCheck),
    /// Keep what is right of a damaged store, put the rest aside
    Repair(StoreRepair),
}

/// `allot store check`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot store check --data-dir ./platform")]
pub(crate) struct StoreCheck {
    /// The data folder [default: that of `allot up`]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    pub(crate) output: Option<Format>,
}

/// `allot store repair`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot store repair --data-dir ./platform
  allot store repair --data-dir ./platform --yes

Without --yes it says what would be kept and lost, changes nothing and ends with code 1. What is lost is \
kept in files `damaged-...` beside the store's own.")]
pub(crate) struct StoreRepair {
    /// The data folder [default: that of `allot up`]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The folder was restored from a backup: let revisions jump even if nothing is damaged
    #[arg(long)]
    pub(crate) restored: bool,
    /// Do it
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `allot crds`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot crds | kubectl apply -f -")]
pub(crate) struct Crds {
    /// How to print them
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "yaml")]
    pub(crate) output: Format,
}

/// `allot traits`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot traits
  allot traits -o name")]
pub(crate) struct Traits {
    /// How to print them
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    pub(crate) output: Option<Format>,
}

/// `allot version`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot version -o json")]
pub(crate) struct Version {
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    pub(crate) output: Option<Format>,
}

/// `allot completion`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  source <(allot completion bash)
  allot completion fish > ~/.config/fish/completions/allot.fish")]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `allot provider-guard`
#[derive(Clone, Debug, Args)]
pub(crate) struct ProviderGuard {
    /// A file that is locked while the program runs, and waited for: a guard that a killed server left may still end its program
    #[arg(long, value_name = "FILE")]
    pub(crate) lock: PathBuf,
    /// The program
    pub(crate) program: PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

/// `allot help`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot help explain request
  allot help exit-codes")]
pub(crate) struct Help {
    /// A command, or `exit-codes`
    pub(crate) topic: Vec<String>,
}

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// A table with more columns
    Wide,
    /// `resource/name`, one a line
    Name,
}

/// How an explanation is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// The same as YAML
    Yaml,
}

/// An address to listen on: `localhost` is loopback, other names are not looked up.
fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    numeric.parse().map_err(|_| "write an IP address or localhost, and a port: 127.0.0.1:7443, [::1]:0".to_owned())
}

/// The address of a server: `https://HOST[:PORT]`, nothing behind it.
fn url(text: &str) -> Result<String, String> {
    let trimmed = text.strip_suffix('/').unwrap_or(text);
    let host = trimmed.strip_prefix("https://").unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if host.is_empty() || !host.chars().all(plain) {
        return Err("write https://HOST or https://HOST:PORT".to_owned());
    }
    Ok(trimmed.to_owned())
}

/// `NAMESPACE/NAME[:PORT]`; the port of HTTPS where none is named.
fn service(text: &str) -> Result<Service, String> {
    let wrong = || "write NAMESPACE/NAME or NAMESPACE/NAME:PORT".to_owned();
    let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, port.parse().map_err(|_| wrong())?),
        None => (rest, 443),
    };
    let namespace = checked(namespace, names::dns1123_label(namespace))?;
    let name = checked(name, names::dns1123_label(name))?;
    Ok(Service { namespace, name, port })
}

/// A name that an object can have; anything else would be taken for a part of a path.
fn object_name(text: &str) -> Result<String, String> {
    checked(text, names::dns1123_subdomain(text))
}

/// A name that a namespace can have.
fn namespace(text: &str) -> Result<String, String> {
    checked(text, names::dns1123_label(text))
}

/// A Cluster: `NAMESPACE/NAME`.
fn place(text: &str) -> Result<String, String> {
    let (space, name) = text.split_once('/').ok_or_else(|| "write NAMESPACE/NAME".to_owned())?;
    namespace(space)?;
    object_name(name)?;
    Ok(text.to_owned())
}

fn checked(text: &str, faults: names::Faults) -> Result<String, String> {
    faults.into_iter().next().map_or_else(|| Ok(text.to_owned()), |fault| Err(fault.to_string()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_asked() {
        let parse =
            |words: &[&str]| super::Cli::command().try_get_matches_from(words).map_err(|error| error.to_string());
        let check = |words: &[&str], expect: Option<&str>| match (parse(words), expect) {
            (Ok(_), None) => {}
            (Err(text), Some(part)) => assert!(text.contains(part), "{words:?}: {text}"),
            (result, _) => panic!("{words:?}: {result:?}"),
        };
        check(&["allot", "up", "--listen", "localhost:0"], None);
        check(&["allot", "up", "--listen", "[::1]:7443"], None);
        check(&["allot", "up", "--listen", "127.0.0.1"], Some("127.0.0.1:7443"));
        check(&["allot", "up", "--listen", "example.com:1"], Some("IP address"));
        check(&["allot", "access", "a.b", "-n", "c"], None);
        check(&["allot", "access", "a", "-n", "c/d"], Some("RFC 1123 label"));
        check(&["allot", "access", "../a", "-n", "c"], Some("RFC 1123 subdomain"));
        check(&["allot", "tree", "-n", ".."], Some("RFC 1123 label"));
        check(&["allot", "access", "a", "--timeout", "-1s"], Some("\"-1s\" is negative; write a duration as 90s"));
        check(&["allot", "access", "a", "--timeout", "--wait"], Some("is no duration"));
        check(&["allot", "access", "a", "--yes"], Some("--merge"));
        check(&["allot", "explain", "request", "a"], None);
        check(&["allot", "explain", "request"], Some("<NAME>"));
        check(&["allot", "explain", "request", "a", "--dry-run"], Some("--purpose"));
        check(&["allot", "explain", "request", "a", "-p", "mcp"], Some("--dry-run"));
        check(&["allot", "explain", "request", "a", "-f", "x"], Some("--dry-run"));
        check(&["allot", "explain", "request", "--dry-run", "-f", "x", "-p", "mcp"], Some("cannot be used with"));
        check(
            &["allot", "explain", "request", "--dry-run", "-f", "x", "--version", "1.30"],
            Some("cannot be used with"),
        );
        check(&["allot", "simulate", "-f", "x", "--prefix", "a-"], Some("cannot be used with"));
        check(&["allot", "simulate", "--prefix", "a-"], Some("--purpose"));
        check(&["allot", "explain", "request", "--dry-run", "-p", "mcp", "--version", "1.30"], None);
        check(&["allot", "simulate", "--count", "5"], Some("--purpose"));
        check(&["allot", "simulate", "-p", "mcp", "--count", "100001"], Some("100000"));
        check(&["allot", "simulate", "--drain", "x"], Some("NAMESPACE/NAME"));
        check(&["allot", "simulate", "--drain", "n/x", "-p", "mcp"], None);
        check(&["allot", "catalog", "render", "--at", "2023-08-8", "x"], Some("write it as 2023-08-08T00:00:00Z"));
        check(&["allot", "catalog", "lint"], Some("<FILE>"));
        check(&["allot", "catalog", "render", "-o", "wide", "x"], Some("yaml, json"));
        check(&["allot", "top", "--watch=1ms"], Some("at least 1s"));
        check(&["allot", "top", "requests", "--watch", "--sort", "age"], None);
        let beside = ["allot", "controllers", "--data-dir", "d"];
        let with = |more: &[&'static str]| [beside.as_slice(), more].concat();
        check(&with(&["--webhook-service", "allot-system/webhooks:9443"]), None);
        check(&with(&["--webhook-service", "webhooks"]), Some("NAMESPACE/NAME"));
        check(&with(&["--webhook-service", "n/webhooks:x"]), Some("NAMESPACE/NAME"));
        check(&with(&["--webhook-url", "https://hooks.example.com:9443/"]), None);
        check(&with(&["--url", "http://example.com"]), Some("https://HOST"));
        check(&with(&["--url", "https://example.com/path"]), Some("https://HOST"));
        check(&["allot", "controllers"], Some("--data-dir"));
    }

    /// Every command that does something, by its words.
    fn leaves(command: &clap::Command, words: &[String], found: &mut Vec<(Vec<String>, clap::Command)>) {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let words = [words, &[below.get_name().to_owned()]].concat();
            match below.has_subcommands() {
                true => leaves(below, &words, found),
                false => found.push((words, below.clone())),
            }
        }
    }

    #[test]
    fn the_help_of_every_command_has_examples_and_each_is_taken() {
        let mut found = Vec::new();
        leaves(&super::Cli::command(), &["allot".to_owned()], &mut found);
        assert!(found.len() >= 15, "{found:?}");
        for (words, command) in found {
            let name = words.join(" ");
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let mut examples = 0;
            for line in help.lines().filter(|line| line.contains(&name)) {
                let Some(example) = line.strip_prefix("  ") else { continue };
                let typed = example.trim_start_matches("source <(").split(['>', '|', ')']).next().unwrap_or_default();
                let typed: Vec<String> = typed.split_whitespace().map(|word| word.replace('\'', "")).collect();
                let taken = super::Cli::command().try_get_matches_from(&typed);
                assert!(taken.is_ok(), "{example}: {}", taken.expect_err("refused"));
                examples += 1;
            }
            assert!(help.starts_with("Examples:\n") && examples > 0, "{name} has no example in its help: {help}");
        }
    }

    #[test]
    fn the_command_line_does_not_contradict_itself() {
        super::Cli::command().debug_assert();
    }
}
