//! Scripts of real clients against `allot up`: kubectl of several versions, the Python client.

use std::process::Command;

use anyhow::{Context, Result};

use crate::assets;
use crate::run::{root, run, say};
use crate::server::{Server, build};

/// Runs every script with every client, each on a server of its own.
pub(crate) fn check() -> Result<()> {
    let assets = assets::install()?;
    let binary = build()?;
    for (version, kubectl) in &assets.kubectl {
        for script in ["kubectl.sh", "tour.sh"] {
            say(&format!("kubectl {version}: {script}"));
            let server = Server::start(&binary, &format!("kubectl-{version}"))?;
            let mut command = Command::new("bash");
            command.arg(root().join("tests/clients").join(script)).env("KUBECTL", kubectl).env("ALLOT", &binary);
            run_beside(&server, &mut command)?;
        }
    }
    say("the README's tour");
    let server = Server::start(&binary, "readme")?;
    let (_, kubectl) = assets.kubectl.last().context("no kubectl is installed")?;
    let mut command = Command::new(&assets.python);
    command.arg(root().join("tests/clients/readme.py")).arg(root()).env("KUBECTL", kubectl).env("ALLOT", &binary);
    run_beside(&server, &mut command)?;
    say("Python client");
    let server = Server::start(&binary, "python")?;
    run_beside(&server, Command::new(&assets.python).arg(root().join("tests/clients/python_client.py")))
}

fn run_beside(server: &Server, command: &mut Command) -> Result<()> {
    let command = command.current_dir(&server.dir).env("KUBECONFIG", &server.kubeconfig).env("HOME", &server.dir);
    run(command).with_context(|| format!("the server said:\n{}", server.log()))
}
