//! Commands that take minutes and are waited for by nobody: one for each Cluster at a time, few at once on the machine.

use std::collections::BTreeMap;
use std::future::Future;

use allotment_core::providers::{Job, make_again};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Commands of Clusters, by UID. They end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    running: JoinSet<(String, Result<(), String>)>,
    states: BTreeMap<String, State>,
}

#[derive(Debug)]
struct State {
    failures: u32,
    ended: Option<Ended>,
}

#[derive(Debug)]
enum Ended {
    Well,
    Badly { message: String, due: Instant },
}

impl Jobs {
    /// How the command of that Cluster does.
    pub(super) fn of(&mut self, uid: &str) -> Job {
        self.reap();
        match self.states.get(uid).map(|state| &state.ended) {
            None | Some(Some(Ended::Well)) => Job::None,
            Some(None) => Job::Running,
            Some(Some(Ended::Badly { message, due })) => {
                Job::Failed { message: message.clone(), due: Instant::now() >= *due }
            }
        }
    }

    /// Begins a command for that Cluster, unless one runs.
    pub(super) fn start(&mut self, uid: &str, work: impl Future<Output = Result<(), String>> + Send + 'static) {
        if self.of(uid) == Job::Running {
            return;
        }
        let state = self.states.entry(uid.to_owned()).or_insert(State { failures: 0, ended: None });
        state.ended = None;
        let uid = uid.to_owned();
        self.running.spawn(async move { (uid, work.await) });
    }

    /// Forgets how it went.
    pub(super) fn forget(&mut self, uid: &str) {
        self.reap();
        if self.states.get(uid).is_some_and(|state| state.ended.is_some()) {
            self.states.remove(uid);
        }
    }

    fn reap(&mut self) {
        while let Some(ended) = self.running.try_join_next() {
            // None is aborted but all of them, with this; one that panicked is tried again by the next process.
            let Ok((uid, outcome)) = ended else { continue };
            let Some(state) = self.states.get_mut(&uid) else { continue };
            state.ended = Some(match outcome {
                Ok(()) => {
                    state.failures = 0;
                    Ended::Well
                }
                Err(message) => {
                    state.failures = state.failures.saturating_add(1);
                    Ended::Badly { message, due: Instant::now() + make_again(state.failures) }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_command_runs_for_a_cluster_and_a_failure_is_due_again_after_a_while() {
        let mut jobs = Jobs::default();
        assert_eq!(jobs.of("a"), Job::None);
        jobs.start("a", async { Err("no disk".to_owned()) });
        jobs.start("a", async { panic!("two at once") });
        assert_eq!(jobs.of("a"), Job::Running);
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        assert_eq!(jobs.of("a"), Job::Failed { message: "no disk".to_owned(), due: false });
        tokio::time::sleep(make_again(1)).await;
        assert_eq!(jobs.of("a"), Job::Failed { message: "no disk".to_owned(), due: true });
        jobs.start("a", async { Ok(()) });
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        assert_eq!(jobs.of("a"), Job::None);
        jobs.forget("a");
        assert!(jobs.states.is_empty());
    }
}
