//! `allot provider-guard`: stands between a server and the provider that it started, and ends the provider once the server
//! says so, or is no more. Nobody types it.
//!
//! It holds a lock from before the provider begins until it is gone: a server that was killed and started again would else run
//! the next provider beside the last one, which has ten seconds to end.
//!
//! The server's sign is the end of our standard input: it closes when the server wants so, and when the server dies, even
//! by a signal that nothing can catch. The provider has a process group of its own, so that what it started ends with it.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use crate::cli::ProviderGuard;
use crate::exit::Outcome;
use crate::platform::try_lock;

/// How long a provider may take to end by itself.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How often it is tried to take the lock.
const LOCK_AGAIN: Duration = Duration::from_millis(50);
/// What the shell adds to the number of a signal.
const SIGNALLED: i32 = 128;

/// Runs the program, and ends with its exit code.
pub(crate) async fn run(arguments: ProviderGuard) -> Outcome {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to SIGINT")?;
    let lock = tokio::select! {
        biased;
        lock = locked(&arguments.lock) => lock?,
        () = input_ends() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let mut command = Command::new(&arguments.program);
    command.args(&arguments.arguments).stdin(Stdio::null()).process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", arguments.program.display()))?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let ended = tokio::select! {
        biased;
        status = child.wait() => Some(status),
        () = input_ends() => None,
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    let status = match ended {
        Some(status) => Some(status.context("cannot wait for the provider")?),
        None => {
            signal_all(group, Signal::TERM);
            timeout(STOP_LIMIT, child.wait()).await.ok().and_then(Result::ok)
        }
    };
    // What it started and left behind, and itself if it did not listen.
    signal_all(group, Signal::KILL);
    let status = match status {
        Some(status) => status,
        None => child.wait().await.context("cannot wait for the provider")?,
    };
    drop(lock);
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal)).unwrap_or(1);
    std::process::exit(code)
}

/// The lock on that file, once nobody else has it. What is started does not inherit it.
async fn locked(path: &Path) -> anyhow::Result<File> {
    let mut told = false;
    loop {
        if let Some(file) = try_lock(path).with_context(|| format!("cannot lock {}", path.display()))? {
            return Ok(file);
        }
        if !std::mem::replace(&mut told, true) {
            crate::output::note("waits for the process that an earlier server left, which is being ended");
        }
        sleep(LOCK_AGAIN).await;
    }
}

/// Waits until nobody holds the other end of our standard input any more.
async fn input_ends() {
    let own = std::io::stdin().as_fd().try_clone_to_owned();
    let Ok(mut input) = own.and_then(Receiver::from_owned_fd) else { return };
    let mut buffer = [0; 64];
    while input.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

fn signal_all(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // There may be nobody left in it.
        let _ = kill_process_group(group, signal);
    }
}
