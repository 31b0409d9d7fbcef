//! The one set of tasks that controllers run in: what is spawned here ends with it.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Tasks with one owner. Dropping a clone ends nothing; [`Tasks::stop`] ends all.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Runs `task` until it ends or the set is stopped; it is dropped at its next await then.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Runs `task` until it ends by itself; it looks at [`Tasks::stopping`] to know when it should.
    pub fn spawn_draining(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// Says that the set is being stopped.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Stops every task and waits until the last one is gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
