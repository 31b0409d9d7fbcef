//! Build and check tasks of the project: `cargo xtask verify` is what CI and the README call.

mod assets;
mod clients;
mod edges;
mod generate;
mod golden;
mod house;
mod live;
mod openapi;
mod run;
mod server;
mod verify;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build and check tasks of the project")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check everything that CI checks; changes nothing in the work tree
    Verify {
        /// Only what needs nothing but Rust: format, lints, edges, docs, unit and in-process tests
        #[arg(long, conflicts_with = "soak")]
        quick: bool,
        /// Everything, and the long loops: more seeds, more crashes, more random cases
        #[arg(long)]
        soak: bool,
    },
    /// Format, and write generated files anew
    Fix,
    /// Install what tests need beyond Rust (kubectl, helm, Python packages, kube-apiserver and etcd) under target/assets
    Assets,
    /// Replay the recorded replies of kube-apiserver against `allot up`
    Golden {
        /// Only this area, or area/scenario; may be repeated. Differences are printed, the list of pending ones is not consulted
        #[arg(long)]
        only: Vec<String>,
        /// With --only: replay them below `/clusters/<id>` of a logical cluster
        #[arg(long, requires = "only")]
        tenant: bool,
        /// Write the list of pending scenarios anew; refused where it would grow
        #[arg(long)]
        update: bool,
    },
    /// Run the scripts of real clients (kubectl and helm of several versions, Python, kopf) against `allot up`
    Clients {
        /// Only this script of tests/clients; may be repeated
        #[arg(long)]
        only: Vec<String>,
    },
    /// Run Kubernetes' own API server (`live serve`), or compare ours with it (`live compare --count 1000`)
    #[command(disable_help_flag = true)]
    Live {
        /// Arguments of the program `live`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Run the cases of requests and access, and a document's commands, with `allot controllers` beside
    /// Kubernetes' own API server
    Beside,
    /// Make committed files anew from published sources
    #[command(subcommand)]
    Generate(Generate),
    /// Compare the OpenAPI documents of `allot up` with those that Kubernetes publishes
    Openapi,
    /// Check which crate uses which
    Edges,
    /// Check the house rules that no lint knows
    House,
}

#[derive(Subcommand)]
enum Generate {
    /// The table of the built-in types, from the Kubernetes Go modules
    Types {
        /// Only say whether the committed table is what the sources give
        #[arg(long)]
        check: bool,
    },
}

fn main() -> Result<()> {
    match Cli::parse().task {
        Task::Verify { quick: true, .. } => verify::quick(),
        Task::Verify { soak, .. } => verify::full(soak),
        Task::Fix => verify::fix(),
        Task::Assets => assets::show(),
        Task::Golden { only, tenant, update: false } if !only.is_empty() => golden::show(&only, tenant),
        Task::Golden { update, .. } => golden::check(update),
        Task::Clients { only } => clients::check(&only),
        Task::Live { arguments } => live::run_live(arguments),
        Task::Beside => live::cases().and_then(|()| live::document()),
        Task::Generate(Generate::Types { check }) => generate::types(check),
        Task::Openapi => openapi::check(),
        Task::Edges => edges::check(),
        Task::House => house::check(),
    }
}
