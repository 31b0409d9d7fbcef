//! `allot up`: the whole landscape on this machine, until Ctrl-C.

use std::path::{Path, PathBuf};
use std::time::Duration;

use allotment_controllers::frame::Alarm;
use anyhow::anyhow;

use crate::cli::{Lifetimes, Target, Up};
use crate::exit::{Code, Failure, Outcome};
use crate::folder;
use crate::output::note;
use crate::platform::{Options, Platform, check_place, within, write_private};

/// Tokens live no longer than this, whatever is asked for.
const LONGEST_TOKEN_SECS: u64 = 24 * 3600;
/// The shortest lifetime that leaves time to renew.
const SHORTEST_TOKEN_SECS: u64 = 5;

/// A shorter deadline would count every new cluster as late before it can be there.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(1);
/// The shortest lifetime of a certificate that leaves time to issue another one, and the longest: that of the
/// authority.
const SHORTEST_LEAF: Duration = Duration::from_secs(60);
const LONGEST_LEAF: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Serves until it is told to stop.
pub(crate) async fn run(target: &Target, arguments: Up) -> Outcome {
    let started = tokio::time::Instant::now();
    check_lifetimes(arguments.lifetimes)?;
    if let Some(path) = &arguments.pid_file {
        check_place("--pid-file", path)?;
    }
    let data_dir = match arguments.data_dir {
        Some(dir) => dir,
        None => folder::default_data_dir()
            .ok_or_else(|| anyhow!("there is no home folder to keep data in; name a folder with --data-dir"))?,
    };
    let stop = stop_signal()?;
    let options = Options {
        data_dir,
        listen: arguments.listen,
        access_token_lifetime: arguments.lifetimes.access_token_lifetime,
        provisioning_deadline: arguments.lifetimes.provisioning_deadline,
        leaf_lifetime: arguments.lifetimes.leaf_lifetime,
        kubeconfig: target.kubeconfig.clone(),
        provider_dir: arguments.provider_dir,
        environment: arguments.environment,
    };
    let alarm = Alarm::default();
    let ended = within(&alarm, serve(options, &alarm, stop, arguments.pid_file.as_ref(), started)).await;
    if let Some(path) = &arguments.pid_file {
        remove_own_pid_file(path);
    }
    ended
}

async fn serve(
    options: Options,
    alarm: &Alarm,
    stop: impl Future<Output = ()>,
    pid_file: Option<&PathBuf>,
    started: tokio::time::Instant,
) -> Outcome {
    let mut stop = std::pin::pin!(stop);
    let platform = tokio::select! {
        biased;
        platform = Platform::start(options, alarm.clone()) => platform?,
        () = &mut stop => return Err(Failure::new(Code::Interrupted, "stopped before it was ready")),
    };
    if let Some(path) = pid_file {
        let written = write_private(path, format!("{}\n", std::process::id()).as_bytes());
        if let Err(error) = written {
            platform.stop().await;
            return Err(anyhow!("cannot write --pid-file {}: {error}", path.display()).into());
        }
    }
    announce(&platform, started.elapsed());
    tokio::select! {
        biased;
        _ = alarm.rung() => {}
        () = stop => note("stopping"),
    }
    platform.stop().await;
    Ok(())
}

/// Refuses what could not work.
pub(super) fn check_lifetimes(lifetimes: Lifetimes) -> Result<(), Failure> {
    let Lifetimes { access_token_lifetime, provisioning_deadline, leaf_lifetime } = lifetimes;
    if !(SHORTEST_TOKEN_SECS..=LONGEST_TOKEN_SECS).contains(&access_token_lifetime.as_secs()) {
        let message = "--access-token-lifetime must lie between 5s and 24h";
        return Err(Failure::new(Code::Usage, message));
    }
    if provisioning_deadline < SHORTEST_DEADLINE {
        return Err(Failure::new(Code::Usage, "--provisioning-deadline must be at least 1s"));
    }
    if !(SHORTEST_LEAF..=LONGEST_LEAF).contains(&leaf_lifetime) {
        return Err(Failure::new(Code::Usage, "--leaf-lifetime must lie between 60s and 3650d"));
    }
    Ok(())
}

fn announce(platform: &Platform, took: std::time::Duration) {
    // In full, since the terminal that uses it may stand elsewhere.
    let kubeconfig = std::path::absolute(platform.kubeconfig()).unwrap_or_else(|_| platform.kubeconfig().to_owned());
    let kubeconfig = shell_word(&kubeconfig);
    note(&format!(
        "  API server   {}  (all in this process; {})",
        platform.url(),
        if platform.is_loopback() { "only this machine can reach it" } else { "other machines can reach it" }
    ));
    note(&format!("  data         {}  (store, keys; readable by this user only)", platform.data_dir().display()));
    note("  controllers  scheduler, clusters, access, providers, catalog");
    note("  provider     local: clusters are logical control planes below the same address");
    note(&format!("  kubeconfig   {kubeconfig}"));
    note(&format!("ready in {}; Ctrl-C stops it", crate::duration::human(took)));
    note(&format!("\n  export KUBECONFIG={kubeconfig}\n  allot request try -n default --purpose mcp --wait\n"));
}

/// The path as a shell takes it.
fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@".contains(c));
    if plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

pub(super) fn remove_own_pid_file(path: &PathBuf) {
    let ours = std::fs::read_to_string(path).is_ok_and(|text| text.trim() == std::process::id().to_string());
    if ours {
        // Nobody is helped by an error now; a stale file names a process that is gone.
        let _ = std::fs::remove_file(path);
    }
}

/// Ends when the process is told to stop.
pub(super) fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_printed_so_that_a_shell_takes_them() {
        assert_eq!(shell_word(Path::new("/a/b.c")), "/a/b.c");
        assert_eq!(shell_word(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
