//! The one set of tasks that controllers run in: what is spawned here ends with it, and does not end unseen.

use std::future::Future;
use std::panic::{AssertUnwindSafe, Location};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Alarm;

/// Tasks with one owner. Dropping a clone ends nothing; [`Tasks::stop`] ends all.
///
/// # Guarantees
/// A task that panics rings the alarm of its set: the others go on, and whoever owns the set decides what becomes of them.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    alarm: Alarm,
    /// The set that this one is a part of, whose end waits for this one's.
    whole: Option<TaskTracker>,
}

impl Tasks {
    /// A set whose panics ring that alarm.
    pub fn ringing(alarm: Alarm) -> Self {
        Tasks { alarm, ..Tasks::default() }
    }

    /// A part of this set: it may be stopped by itself, ends with this one at the latest, and has an alarm of its own.
    pub fn part(&self) -> Self {
        let stop = self.stop.child_token();
        Tasks { stop, whole: Some(self.tracker.clone()), ..Tasks::default() }
    }

    /// What rings when a task panics.
    pub fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// Runs `task` until it ends or the set is stopped; it is dropped at its next await then.
    #[track_caller]
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.spawn_draining(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Runs `task` until it ends by itself; it looks at [`Tasks::stopping`] to know when it should.
    #[track_caller]
    pub fn spawn_draining(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (alarm, begun, held) =
            (self.alarm.clone(), Location::caller(), self.whole.as_ref().map(TaskTracker::token));
        self.tracker.spawn(async move {
            // What it changed when it panicked is nobody's any more: who hears the alarm ends or begins anew all of the set.
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                alarm.ring(format!("the task begun at {}:{} panicked", begun.file(), begun.line()));
            }
            drop(held);
        });
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_rings_the_alarm_of_its_set_and_ends_nothing_else() {
        let tasks = Tasks::default();
        let (other, ended) = (Arc::new(tokio::sync::Notify::new()), Arc::new(AtomicBool::new(false)));
        let (part, waits, ends) = (tasks.part(), other.clone(), ended.clone());
        part.spawn(async move {
            waits.notified().await;
            ends.store(true, Ordering::Relaxed);
            std::future::pending().await
        });
        part.spawn(async { panic!("planted") });
        let why = part.alarm().rung().await;
        assert!(why.starts_with("the task begun at ") && why.contains("tasks.rs:"), "{why}");
        assert_eq!(tasks.alarm().why(), None, "a part's trouble is its owner's");
        other.notify_one();
        tokio::task::yield_now().await;
        assert!(ended.load(Ordering::Relaxed), "the other one goes on");
        tasks.spawn_draining(async { panic!("planted") });
        tasks.alarm().rung().await;
        tasks.stop().await;
    }

    #[tokio::test]
    async fn the_end_of_a_set_waits_for_its_parts_and_a_part_ends_alone() {
        struct Last(Arc<AtomicBool>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let tasks = Tasks::default();
        let spawn = |part: &Tasks| {
            let gone = Arc::new(AtomicBool::new(false));
            let last = Last(gone.clone());
            part.spawn(async move {
                let _last = last;
                std::future::pending().await
            });
            gone
        };
        let (one, two) = (tasks.part(), tasks.part());
        let (of_one, of_two) = (spawn(&one), spawn(&two));
        one.stop().await;
        assert_eq!((of_one.load(Ordering::Relaxed), of_two.load(Ordering::Relaxed)), (true, false));
        tasks.stop().await;
        assert!(of_two.load(Ordering::Relaxed));
    }
}
