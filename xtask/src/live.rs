//! Kubernetes' own API server, alone or compared with ours: the program `live` of `crates/testkit`, with
//! the programs that it starts.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;

use crate::assets;
use crate::run::{cargo, root, run, target_dir};

/// How many sequences a soak compares, and the seed that decides them.
const SOAK: [&str; 4] = ["--seed", "2", "--count", "10000"];

/// Compares answers to many random sequences of requests.
pub(crate) fn soak() -> Result<()> {
    run_live(["compare", "--managed-fields", "--pending", "tests/live/pending.txt"].into_iter().chain(SOAK))
}

/// Runs `live` with these arguments.
pub(crate) fn run_live<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Result<()> {
    let programs = assets::kubernetes()?;
    run(cargo().args(["build", "--quiet", "--locked", "-p", "allotment-testkit"]))?;
    let dir = target_dir().join("test-servers").join(format!("live-{}", std::process::id()));
    let mut command = Command::new(target_dir().join("debug/live"));
    command.arg("--programs").arg(programs).arg("--dir").arg(&dir);
    let done = run(command.args(arguments.into_iter().map(Into::into)).current_dir(root()));
    let _ = std::fs::remove_dir_all(&dir);
    done
}
