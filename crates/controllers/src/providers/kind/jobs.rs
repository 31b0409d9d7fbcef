//! Commands that take minutes and are waited for by nobody: one for each Cluster at a time, few at once on the machine.

use std::collections::BTreeMap;
use std::future::Future;

use allotment_core::providers::{FORCED_WAIT, Job, make_again};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

/// What is said of a command whose task ended with a fault of the program itself.
const PANICKED: &str = "the platform failed while it ran the command; its log says how";

/// Commands of Clusters, by UID. They end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    running: JoinSet<(String, Result<(), String>)>,
    states: BTreeMap<String, State>,
}

#[derive(Debug)]
struct State {
    /// Whether the last command makes the cluster, rather than deleting it.
    makes: bool,
    failures: u32,
    now: Now,
}

#[derive(Debug)]
enum Now {
    Running { task: AbortHandle, since: Instant },
    Well,
    Badly { message: String, due: Instant },
}

impl State {
    fn failed(&mut self, message: String) {
        self.failures = self.failures.saturating_add(1);
        self.now = Now::Badly { message, due: Instant::now() + make_again(self.failures) };
    }
}

impl Jobs {
    /// How the command of that Cluster does.
    pub(super) fn of(&mut self, uid: &str) -> Job {
        self.reap();
        let Some(State { makes, now, .. }) = self.states.get(uid) else { return Job::None };
        match now {
            Now::Well => Job::None,
            Now::Running { since, .. } => Job::Running { makes: *makes, long: since.elapsed() >= FORCED_WAIT },
            Now::Badly { message, due } => {
                Job::Failed { made: *makes, message: message.clone(), due: Instant::now() >= *due }
            }
        }
    }

    /// Begins a command for that Cluster, unless one runs.
    pub(super) fn start(
        &mut self,
        uid: &str,
        makes: bool,
        work: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        if matches!(self.of(uid), Job::Running { .. }) {
            return;
        }
        let failures = self.states.get(uid).map_or(0, |state| state.failures);
        let task = {
            let uid = uid.to_owned();
            self.running.spawn(async move { (uid, work.await) })
        };
        let now = Now::Running { task, since: Instant::now() };
        self.states.insert(uid.to_owned(), State { makes, failures, now });
    }

    /// Ends the command of that Cluster, with the programs that it runs. It counts as running until it has ended.
    pub(super) fn abort(&self, uid: &str) {
        if let Some(State { now: Now::Running { task, .. }, .. }) = self.states.get(uid) {
            task.abort();
        }
    }

    /// Forgets how it went.
    pub(super) fn forget(&mut self, uid: &str) {
        self.reap();
        if self.states.get(uid).is_some_and(|state| !matches!(state.now, Now::Running { .. })) {
            self.states.remove(uid);
        }
    }

    fn reap(&mut self) {
        while let Some(ended) = self.running.try_join_next() {
            match ended {
                Ok((uid, outcome)) => {
                    let Some(state) = self.states.get_mut(&uid) else { continue };
                    match outcome {
                        Ok(()) => (state.failures, state.now) = (0, Now::Well),
                        Err(message) => state.failed(message),
                    }
                }
                Err(error) => self.broke(&error),
            }
        }
    }

    /// One was ended, or failed in the program itself: nobody would hear of it otherwise, and it would run for ever.
    fn broke(&mut self, error: &JoinError) {
        let is_it = |state: &State| matches!(&state.now, Now::Running { task, .. } if task.id() == error.id());
        let Some((uid, state)) = self.states.iter_mut().find(|(_, state)| is_it(state)) else { return };
        if error.is_cancelled() {
            let uid = uid.clone();
            self.states.remove(&uid);
        } else {
            state.failed(PANICKED.to_owned());
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
        jobs.start("a", true, async { Err("no disk".to_owned()) });
        jobs.start("a", true, async { panic!("two at once") });
        assert_eq!(jobs.of("a"), Job::Running { makes: true, long: false });
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        assert_eq!(jobs.of("a"), Job::Failed { made: true, message: "no disk".to_owned(), due: false });
        tokio::time::sleep(make_again(1)).await;
        assert_eq!(jobs.of("a"), Job::Failed { made: true, message: "no disk".to_owned(), due: true });
        jobs.start("a", true, async { Ok(()) });
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        assert_eq!(jobs.of("a"), Job::None);
        jobs.forget("a");
        assert!(jobs.states.is_empty());
    }
    #[tokio::test(start_paused = true)]
    async fn one_that_failed_in_the_program_itself_is_a_failure_and_one_that_was_ended_is_none() {
        let mut jobs = Jobs::default();
        jobs.start("a", true, async { panic!("a fault") });
        jobs.start("b", false, std::future::pending());
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        assert_eq!(jobs.of("a"), Job::Failed { made: true, message: PANICKED.to_owned(), due: false });
        tokio::time::sleep(FORCED_WAIT).await;
        assert_eq!(jobs.of("b"), Job::Running { makes: false, long: true });
        jobs.abort("b");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        assert_eq!(jobs.of("b"), Job::None);
        jobs.forget("a");
        assert!(jobs.states.is_empty());
    }
}
