//! Build and check tasks of the project: `cargo xtask <task>`.

mod generate;

use clap::Parser;

/// Build and check tasks of the project.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Task {
    /// Makes committed files anew from published sources.
    #[command(subcommand)]
    Generate(Generate),
}

/// What can be made anew.
#[derive(Debug, clap::Subcommand)]
enum Generate {
    /// The table of the built-in types, from the Kubernetes Go modules.
    Types {
        /// Only say whether the committed table is what the sources give.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Generate(Generate::Types { check }) => generate::types(check),
    }
}
