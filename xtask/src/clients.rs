//! Scripts of real clients against `allot up`: kubectl and helm of several versions, the Python clients, an
//! operator on kopf. A matrix: a script more is a row more.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::assets::{self, Assets};
use crate::run::{cargo, root, run, say};
use crate::server::{Server, build};

/// Which clients a script runs with.
enum With {
    /// kubectl of every version.
    EveryKubectl,
    /// kubectl of the oldest and the newest version.
    OutermostKubectls,
    /// The newest kubectl.
    NewestKubectl,
    /// helm of every version, with the newest kubectl beside it.
    EveryHelm,
}

/// Scripts in `tests/clients`, those in Python by their ending.
const SCRIPTS: &[(&str, With)] = &[
    ("kubectl.sh", With::EveryKubectl),
    ("tour.sh", With::OutermostKubectls),
    ("day.sh", With::NewestKubectl),
    ("prefixes.sh", With::OutermostKubectls),
    ("documents.py", With::NewestKubectl),
    ("helm.sh", With::EveryHelm),
    ("python_client.py", With::NewestKubectl),
    ("python_dynamic.py", With::NewestKubectl),
    ("kopf_operator.py", With::NewestKubectl),
];

/// What a run's client is called, and the variables by which the script finds it.
type Client = (String, Vec<(&'static str, PathBuf)>);

/// Runs every script with every client meant for it, each on a server of its own. `only` names scripts.
pub(crate) fn check(only: &[String]) -> Result<()> {
    let assets = assets::install()?;
    let binary = build()?;
    for (script, with) in SCRIPTS.iter().filter(|(script, _)| only.is_empty() || only.iter().any(|name| name == script))
    {
        for (client, variables) in with.clients(&assets)? {
            say(&format!("{script} with {client}"));
            let server = Server::start(&binary, "clients")?;
            let program = if script.ends_with(".py") { assets.python.clone() } else { PathBuf::from("bash") };
            let mut command = Command::new(program);
            command.arg(root().join("tests/clients").join(script)).arg(root());
            command.envs(variables).env("ALLOT", &binary);
            command.current_dir(&server.dir).env("KUBECONFIG", &server.kubeconfig).env("HOME", &server.dir);
            run(&mut command).with_context(|| format!("with {client}; the server said:\n{}", server.log()))?;
        }
    }
    Ok(())
}

/// Runs what every provider has to do with those that need more than Rust: the example in Python, clusters that are there
/// already, and the program in kind's place.
pub(crate) fn example_provider() -> Result<()> {
    let assets = assets::install()?;
    let programs = assets.python.parent().context("python lies nowhere")?.to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&others)))?;
    let suite = ["test", "--locked", "-p", "allot", "--test", "suite", "--", "--include-ignored"];
    let programs = assets::kubernetes()?;
    run(cargo()
        .args(suite)
        .args(["children::", "contract::", "outside::"])
        .env("PATH", path)
        .env("ALLOTMENT_KUBERNETES", programs))
}

impl With {
    fn clients(&self, assets: &Assets) -> Result<Vec<Client>> {
        let kubectl =
            |(version, path): &(&str, PathBuf)| (format!("kubectl {version}"), vec![("KUBECTL", path.clone())]);
        let oldest = assets.kubectl.first().context("no kubectl is installed")?;
        let newest = assets.kubectl.last().context("no kubectl is installed")?;
        Ok(match self {
            With::EveryKubectl => assets.kubectl.iter().map(kubectl).collect(),
            With::OutermostKubectls => vec![kubectl(oldest), kubectl(newest)],
            With::NewestKubectl => vec![kubectl(newest)],
            With::EveryHelm => {
                let helm = |(version, path): &(&str, PathBuf)| {
                    (format!("helm {version}"), vec![("HELM", path.clone()), ("KUBECTL", newest.1.clone())])
                };
                assets.helm.iter().map(helm).collect()
            }
        })
    }
}
