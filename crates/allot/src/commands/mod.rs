//! One file per command. A command reads its arguments, does its work and says with which code it ends.

mod access;
mod catalog;
mod controllers;
mod crds;
mod credential;
mod demo;
mod dry_run;
mod explain;
mod files;
mod help;
mod manifests;
mod merge;
mod profiles;
mod provider_guard;
mod reading;
mod request;
mod shape;
mod simulate;
mod store;
mod top;
mod traits;
mod tree;
mod up;
mod version;
mod versions;
mod waiting;

use crate::cli::{Catalog, Cli, Command, Explain, Store};
use crate::exit::Outcome;
pub(crate) use provider_guard::STOP_LIMIT;

/// Runs the command that was typed.
pub(crate) async fn run(cli: Cli) -> Outcome {
    let target = &cli.target;
    match cli.command {
        Command::Up(arguments) => up::run(target, arguments).await,
        Command::Controllers(arguments) => controllers::run(target, arguments).await,
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Request(arguments) => request::run(target, arguments).await,
        Command::Access(arguments) => access::run(target, arguments).await,
        Command::Credential(arguments) => credential::run(target, arguments).await,
        Command::Explain(Explain::Request(arguments)) => explain::run(target, arguments).await,
        Command::Explain(Explain::Shoot(arguments)) => explain::shoot::run(target, arguments).await,
        Command::Explain(Explain::CloudProfile(arguments)) => explain::profile::cloud_profile(target, arguments).await,
        Command::Explain(Explain::PrivateCloudProfile(arguments)) => {
            explain::profile::private_profile(target, arguments).await
        }
        Command::Tree(arguments) => tree::run(target, arguments).await,
        Command::Top(arguments) => top::run(target, arguments).await,
        Command::Simulate(arguments) => simulate::run(target, arguments).await,
        Command::Catalog(Catalog::Render(arguments)) => catalog::render(&arguments),
        Command::Catalog(Catalog::Lint(arguments)) => catalog::lint(target, &arguments).await,
        Command::Catalog(Catalog::Diff(arguments)) => catalog::diff(target, &arguments).await,
        Command::Catalog(Catalog::Expiring(arguments)) => catalog::expiring(target, &arguments).await,
        Command::Store(Store::Check(arguments)) => store::check(arguments).await,
        Command::Store(Store::Repair(arguments)) => store::repair(arguments).await,
        Command::Crds(arguments) => crds::run(arguments),
        Command::Traits(arguments) => traits::run(arguments),
        Command::Version(arguments) => version::run(arguments),
        Command::Completion(arguments) => help::completion(arguments),
        Command::ProviderGuard(arguments) => provider_guard::run(arguments).await,
        Command::Help(arguments) => help::run(&arguments),
    }
}
