//! The life of one provider: `init`, then `run`, again and again until it is told to end.
//!
//! # Guarantees
//! - Between this process and the provider stands a guard (`allot provider-guard`), which ends the provider with all
//!   that it started once its standard input closes: when we say so, and when we die, however that comes.
//! - A provider that ends is started again after 1 s, then 2 s, up to 60 s; one that ran for a minute begins anew.

use std::panic::AssertUnwindSafe;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allotment_controllers::frame::chain;
use allotment_controllers::providers::{RunOrder, Told};
use allotment_core::providers::Run;
use allotment_machinery::seams::Clock as _;
use anyhow::Context as _;
use futures::FutureExt as _;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::credentials::{Credentials, LOOK_EVERY};
use super::{ChildrenConfig, admit, output, tell};
use crate::commands::STOP_LIMIT;
use crate::platform::seams::WallClock;

/// The first and the longest wait before a provider is started again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// What is said where a start of it failed in the program itself.
const PANICKED: &str = "the platform failed while it ran it";
/// How long `init` may take.
const INIT_LIMIT: Duration = Duration::from_secs(300);
/// What a guard is given beyond what it gives its provider.
const GUARD_LIMIT: Duration = Duration::from_secs(5);
/// How long output is waited for that comes after the end.
const OUTPUT_LIMIT: Duration = Duration::from_millis(500);
/// How soon a token that could not be renewed is asked for again.
const RENEW_AGAIN: Duration = Duration::from_secs(10);

/// One provider.
pub(super) struct Life {
    pub(super) config: Arc<ChildrenConfig>,
    pub(super) order: RunOrder,
    pub(super) stop: CancellationToken,
    pub(super) run: Arc<Mutex<Run>>,
    pub(super) told: Arc<Mutex<Option<Told>>>,
}

/// How one start went.
enum End {
    /// We ended it.
    Stopped,
    /// It ended, or could not be started.
    Failed { in_init: bool, why: String },
}

impl Life {
    /// Lives until it is told to end.
    pub(super) async fn live(self) {
        let provider = self.order.provider.clone();
        let mut wait = FIRST_RETRY;
        while !self.stop.is_cancelled() {
            let began = Instant::now();
            let once = AssertUnwindSafe(self.once()).catch_unwind().await;
            // One provider's trouble is not the others'.
            let (in_init, why) = match once.unwrap_or_else(|_| End::Failed { in_init: true, why: PANICKED.to_owned() })
            {
                End::Stopped => break,
                End::Failed { in_init, why } => (in_init, why),
            };
            if began.elapsed() >= LONGEST_RETRY {
                wait = FIRST_RETRY;
            }
            warn!(provider = %provider, "{why}; started again in {} s", wait.as_secs());
            let message =
                format!("{why}; started again within {} s; what it printed is in the server's log", wait.as_secs());
            self.say(Run::Failed { in_init, message });
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = sleep(wait) => {}
            }
            wait = (wait * 2).min(LONGEST_RETRY);
        }
        info!(provider = %provider, "ended");
    }

    fn say(&self, run: Run) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
        tell(&self.told, &self.order.provider);
    }

    /// Starts it once, and returns when it has ended.
    async fn once(&self) -> End {
        let provider = &self.order.provider;
        let prepared = async {
            let credentials = Credentials::prepare(&self.config, provider).await;
            credentials.context("its credentials cannot be made")
        };
        let credentials = tokio::select! {
            biased;
            () = self.stop.cancelled() => return End::Stopped,
            prepared = prepared => match prepared {
                Ok(credentials) => credentials,
                Err(error) => return End::Failed { in_init: true, why: chain(error.as_ref()) },
            },
        };
        match self.guarded("init", &credentials, Some(INIT_LIMIT)).await {
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => return End::Failed { in_init: true, why: format!("init ended with {}", said(status)) },
            Ok(None) => return End::Stopped,
            Err(error) => return End::Failed { in_init: true, why: chain(error.as_ref()) },
        }
        self.say(Run::Running);
        let renewals = async {
            let mut wait = LOOK_EVERY;
            loop {
                sleep(wait).await;
                wait = LOOK_EVERY;
                if !credentials.is_due(WallClock.now()) {
                    continue;
                }
                if let Err(error) = credentials.renew().await {
                    warn!(provider = %provider, error = %chain(error.as_ref()), "its token cannot be renewed, trying again");
                    wait = RENEW_AGAIN;
                }
            }
        };
        let ended = tokio::select! {
            biased;
            ended = self.guarded("run", &credentials, None) => ended,
            () = renewals => return End::Stopped,
        };
        match ended {
            Ok(Some(status)) => End::Failed { in_init: false, why: format!("run ended with {}", said(status)) },
            Ok(None) => End::Stopped,
            Err(error) => End::Failed { in_init: false, why: chain(error.as_ref()) },
        }
    }

    /// Runs the package with that verb until it ends, or is told to (then there is no status).
    async fn guarded(
        &self,
        verb: &str,
        credentials: &Credentials,
        limit: Option<Duration>,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let (provider, config) = (&self.order.provider, &self.config);
        // Looked at anew: the file may have changed since the ClusterProvider was judged.
        let dir = config.provider_dir.as_deref().context("there is no --provider-dir")?;
        let executable = admit::resolve(dir, &self.order.package).map_err(anyhow::Error::msg)?;
        let mut command = Command::new(own_executable()?);
        command.arg("provider-guard").arg("--lock").arg(credentials.lock()).arg("--").arg(&executable).arg(verb);
        command.args(["--provider-name", provider]).arg("--kubeconfig").arg(credentials.kubeconfig());
        command.args(["--environment", &config.environment]).current_dir(credentials.folder());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Not ours: Ctrl-C at our terminal ends us, and we end it.
        command.process_group(0);
        let mut guard = command.spawn().with_context(|| format!("cannot start {}", executable.display()))?;
        let line = guard.stdin.take();
        let (out, err) = (guard.stdout.take(), guard.stderr.take());
        let printed = async {
            let out = async {
                if let Some(out) = out {
                    output::log(provider, out).await
                }
            };
            let err = async {
                if let Some(err) = err {
                    output::log(provider, err).await
                }
            };
            tokio::join!(out, err);
        };
        let over = async {
            let too_long = async {
                match limit {
                    Some(limit) => sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            let stopped = tokio::select! {
                biased;
                status = guard.wait() => return Ok(Some(status?)),
                () = self.stop.cancelled() => true,
                () = too_long => false,
            };
            drop(line);
            if timeout(STOP_LIMIT + GUARD_LIMIT, guard.wait()).await.is_err() {
                warn!(provider = %provider, "its guard does not end and is killed");
                guard.kill().await?;
            }
            if stopped { Ok(None) } else { Err(anyhow::anyhow!("{verb} took longer than {} s", INIT_LIMIT.as_secs())) }
        };
        let mut printed = std::pin::pin!(printed);
        let mut over = std::pin::pin!(over);
        let ended = tokio::select! {
            biased;
            ended = &mut over => ended,
            () = &mut printed => return over.await,
        };
        let _ = timeout(OUTPUT_LIMIT, printed).await;
        ended
    }
}

/// This program, even if its file was replaced since it began.
fn own_executable() -> std::io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

fn said(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("code {code}"),
        None => status.to_string(),
    }
}
