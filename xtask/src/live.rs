//! Kubernetes' own API server, alone or compared with ours: the program `live` of `crates/testkit`, with
//! the programs that it starts.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::assets;
use crate::run::{cargo, root, run, target_dir};
use crate::server::build;

/// How many sequences a soak compares, and the seed that decides them.
const SOAK: [&str; 4] = ["--seed", "2", "--count", "10000"];

/// Cases of the suite of `allot` that run on both backends, and those that are about `allot controllers` alone.
const CASES: [&str; 16] = [
    "access::",
    "admission::",
    "beside::",
    "catalog_admission::",
    "catalog_applied::",
    "contract::",
    "credentials::",
    "deletion::",
    "existing::",
    "oidc::",
    "outside::",
    "policy::",
    "prefixes::",
    "profiles::",
    "requests::",
    "trouble::",
];
/// Kubernetes' servers at once; each takes most of a core while it starts.
const AT_ONCE: &str = "--test-threads=2";

/// Runs the cases with `allot controllers` beside Kubernetes' own API server.
pub(crate) fn cases() -> Result<()> {
    let programs = assets::kubernetes()?;
    let suite = ["test", "--locked", "-p", "allot", "--test", "suite", "--", "--include-ignored", AT_ONCE];
    let mut command = cargo();
    command.args(suite).args(CASES).env("ALLOTMENT_KUBERNETES", &programs).env("ALLOTMENT_BESIDE", "1");
    run(&mut command)?;
    // Replicas of this process, whose controllers a test breaks.
    let own = ["test", "--locked", "-p", "allot", "--bin", "allot", "--", "--include-ignored", "platform::beside::"];
    run(cargo().args(own).env("ALLOTMENT_KUBERNETES", programs))
}

/// Runs the commands of the documents about `allot controllers` and the catalog.
pub(crate) fn document() -> Result<()> {
    let (assets, binary) = (assets::install()?, build()?);
    let kubectl = &assets.kubectl.last().context("no kubectl is installed")?.1;
    let (mut live, dir) = live("document")?;
    let serving = live.arg("serve").current_dir(root()).stderr(Stdio::piped()).spawn().context("cannot start live")?;
    let mut serving = Serving { serving, dir };
    // Its first line says that it is ready; the pipe stays open for what may come.
    let mut said = BufReader::new(serving.serving.stderr.take().context("live says nothing")?);
    let mut ready = String::new();
    said.read_line(&mut ready)?;
    if !ready.starts_with("serving") {
        bail!("kube-apiserver does not start: {ready}");
    }
    let here = serving.dir.join("document");
    std::fs::create_dir_all(&here)?;
    let mut command = Command::new(&assets.python);
    command.arg(root().join("tests/clients/documents.py")).arg(root()).arg("beside").current_dir(&here);
    command.env("ALLOT", binary).env("KUBECTL", kubectl).env("HOME", &here);
    run(command.env("KUBECONFIG", serving.dir.join("kubeconfig")))
}

/// A running `live serve`; ended, with all that it started, when dropped.
struct Serving {
    serving: Child,
    dir: PathBuf,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Asked, not killed, so that it ends what it started.
        let _ = Command::new("kill").arg(self.serving.id().to_string()).status();
        let _ = self.serving.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Compares answers to many random sequences of requests.
pub(crate) fn soak() -> Result<()> {
    run_live(["compare", "--managed-fields", "--pending", "tests/live/pending.txt"].into_iter().chain(SOAK))
}

/// Runs `live` with these arguments.
pub(crate) fn run_live<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Result<()> {
    let (mut command, dir) = live("live")?;
    let done = run(command.args(arguments.into_iter().map(Into::into)).current_dir(root()));
    let _ = std::fs::remove_dir_all(&dir);
    done
}

/// The program `live`, built, with a folder of its own.
fn live(name: &str) -> Result<(Command, PathBuf)> {
    let programs = assets::kubernetes()?;
    run(cargo().args(["build", "--quiet", "--locked", "-p", "allotment-testkit"]))?;
    let dir = target_dir().join("test-servers").join(format!("{name}-{}", std::process::id()));
    let mut command = Command::new(target_dir().join("debug/live"));
    command.arg("--programs").arg(programs).arg("--dir").arg(&dir);
    Ok((command, dir))
}
