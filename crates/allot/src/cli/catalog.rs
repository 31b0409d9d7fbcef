//! What there is to type about catalogs: `catalog render`, `lint`, `diff`, `expiring`. They work on files, without a server; the
//! latter two on a server too.

use std::path::PathBuf;
use std::time::Duration;

use allotment_core::catalog::corrected_date;
use allotment_machinery::time;
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use super::{ExplainFormat, namespace};
use crate::duration;

/// `allot catalog`
#[derive(Debug, Subcommand)]
pub(crate) enum Catalog {
    /// Print what private cloud profiles in files come to, over their parents in the same files
    Render(CatalogRender),
    /// Say what is wrong with the cloud profiles in files
    Lint(CatalogLint),
    /// Show in what private cloud profiles differ from their parents
    Diff(CatalogDiff),
    /// List the versions that expire soon or have expired, and who uses them
    Expiring(CatalogExpiring),
}

/// `allot catalog render`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot catalog render central.yaml team.yaml
  allot catalog render --at 2027-01-01T00:00:00Z -o json central.yaml team.yaml

Every PrivateCloudProfile is rendered as if it were made at that time; parents may stand in any of the files. Versions \
that are written as numbers and dates that lack a digit are put right, and told on stderr like all warnings. A \
NamespacedCloudProfile is read as a PrivateCloudProfile, without its providerConfig. `-` reads stdin. It ends with code 1 \
if a profile would be refused; then nothing is printed.")]
pub(crate) struct CatalogRender {
    /// Files with CloudProfiles and PrivateCloudProfiles
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// When they are made, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) at: Option<Timestamp>,
    /// How to print them
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "yaml")]
    pub(crate) output: DocumentFormat,
}

/// `allot catalog lint`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot catalog lint central.yaml team.yaml
  allot catalog lint --strict --at 2027-01-01T00:00:00Z central.yaml team.yaml
  allot catalog lint --server team.yaml

With --server parents that stand in none of the files are those that the server has. It ends with code 0 if there are no errors, 1 if there are some, 2 if a file cannot be read or holds no profile, the \
server cannot be asked, or the command line is wrong. An error \
is what the API refuses, slips of the pen included; with --strict every warning is one.")]
pub(crate) struct CatalogLint {
    /// Files with CloudProfiles and PrivateCloudProfiles
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// When they are made, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) at: Option<Timestamp>,
    /// Take warnings for errors
    #[arg(long)]
    pub(crate) strict: bool,
    /// Ask the server for parents that are in none of the files
    #[arg(long)]
    pub(crate) server: bool,
}

/// `allot catalog diff`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot catalog diff central.yaml team.yaml
  allot catalog diff own -n team-a
  allot catalog diff own -n team-a -o json

A line for each entry or field by its key: `+` is added, `~` has another value, `!` stands in both and means different \
things, or cannot be meant: the parent's holds. With -n it asks the server, without it reads files as `allot catalog \
render` does. With --exit-code it ends with 0 if nothing differs, 1 if something does, 2 if that cannot be told.")]
pub(crate) struct CatalogDiff {
    /// Files with CloudProfiles and PrivateCloudProfiles; with -n names of PrivateCloudProfiles
    #[arg(required = true, value_name = "FILE|NAME")]
    pub(crate) what: Vec<String>,
    /// Namespace of the PrivateCloudProfiles on the server
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// When those of files are made, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "namespace")]
    pub(crate) at: Option<Timestamp>,
    /// Say by the exit code whether anything differs
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) output: ExplainFormat,
}

/// `allot catalog expiring`
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  allot catalog expiring --within 30d
  allot catalog expiring -n team-a -o json
  allot catalog expiring --at 2027-01-01T00:00:00Z central.yaml team.yaml shoots.yaml

Of a version that a private profile extends the later date counts, on a line of its own. A private profile is named if it \
names the version itself, or one of its Shoots uses it. Without files it asks the server; without the right to list in all \
namespaces name one with -n. What may not be seen is told on stderr, and in `unseen` with -o json.")]
pub(crate) struct CatalogExpiring {
    /// Files with CloudProfiles, PrivateCloudProfiles and Shoots [default: what the server has]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// How far ahead to look
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = duration::parse, allow_hyphen_values = true)]
    pub(crate) within: Duration,
    /// From when on, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) at: Option<Timestamp>,
    /// Only PrivateCloudProfiles and Shoots of this namespace of the server
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace, conflicts_with = "files")]
    pub(crate) namespace: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) output: ExplainFormat,
}

/// How documents are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// YAML, one document for each
    Yaml,
    /// JSON, a List where there are several
    Json,
}

/// A time, RFC 3339.
fn moment(text: &str) -> Result<Timestamp, String> {
    time::parse(text).map_err(|_| match corrected_date(text) {
        Some(corrected) => format!("write it as {corrected}"),
        None => "write it as 2006-01-02T15:04:05Z".to_owned(),
    })
}
