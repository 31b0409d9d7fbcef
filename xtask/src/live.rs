//! Kubernetes' own API server, alone or compared with ours: the program `live` of `crates/testkit`, with
//! the programs that it starts.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;

use crate::assets;
use crate::run::{cargo, root, run, target_dir};

/// How many sequences a soak compares, and the seed that decides them.
const SOAK: [&str; 4] = ["--seed", "2", "--count", "10000"];

/// Cases of the suite of `allot` that run on both backends, and those that are about `allot controllers` alone.
const CASES: [&str; 7] =
    ["access::", "admission::", "beside::", "credentials::", "deletion::", "prefixes::", "requests::"];
/// Kubernetes' servers at once; each takes most of a core while it starts.
const AT_ONCE: &str = "--test-threads=2";

/// Runs the cases with `allot controllers` beside Kubernetes' own API server.
pub(crate) fn cases() -> Result<()> {
    let programs = assets::kubernetes()?;
    let suite = ["test", "--locked", "-p", "allot", "--test", "suite", "--", "--include-ignored", AT_ONCE];
    let mut command = cargo();
    command.args(suite).args(CASES).env("ALLOTMENT_KUBERNETES", programs).env("ALLOTMENT_BESIDE", "1");
    run(&mut command)
}

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
