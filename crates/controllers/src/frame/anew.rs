//! Begins anew as a whole what broke in a part (docs/adr/0021-panics.md).

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::error;

use super::Tasks;

/// The first and the longest wait before what broke is begun anew: most of it broke by something that will be there again.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// What lasted so long before it broke waits shortly again.
const LASTED: Duration = Duration::from_secs(600);

/// How long to wait before what broke is begun anew: twice as long each time, unless it lasted in between.
#[derive(Debug, Default)]
pub struct Anew {
    breaks: u32,
}

impl Anew {
    /// It broke after so long.
    pub fn after(&mut self, lasted: Duration) -> Duration {
        self.breaks = if lasted >= LASTED { 0 } else { self.breaks };
        let wait = FIRST_WAIT.saturating_mul(1 << self.breaks.min(6)).min(LONGEST_WAIT);
        self.breaks = self.breaks.saturating_add(1);
        wait
    }
}

/// Does something in a part of `tasks`; each time that a task there panics, all of the part ends, `broke` is told, and after a pause
/// it is done again, in a new part. The last part goes on once it is done.
pub async fn keep<T, F>(tasks: &Tasks, mut begin: impl FnMut(Tasks) -> F, mut broke: impl FnMut()) -> T
where
    F: Future<Output = T>,
{
    let mut anew = Anew::default();
    loop {
        let (part, since) = (tasks.part(), Instant::now());
        let why = tokio::select! {
            biased;
            why = part.alarm().rung() => why,
            done = begin(part.clone()) => return done,
        };
        broke();
        part.stop().await;
        let wait = anew.after(since.elapsed());
        error!(?wait, "{why}: a fault of the program, told above and worth a report; all controllers begin anew");
        sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_breaks_again_and_again_is_begun_anew_less_and_less_often() {
        let mut anew = Anew::default();
        let mut waits = |lasted| anew.after(Duration::from_secs(lasted)).as_secs();
        let soon: Vec<u64> = (0..8).map(|_| waits(5)).collect();
        assert_eq!(soon, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!((waits(3600), waits(5)), (1, 2), "it lasted in between");
    }

    #[tokio::test(start_paused = true)]
    async fn all_of_a_part_ends_and_is_begun_anew_when_one_of_its_tasks_panics() {
        let tasks = Tasks::default();
        let (living, told) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        struct Lives(Arc<AtomicUsize>);
        impl Drop for Lives {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let (began, mut times) = (Instant::now(), 0);
        let begin = |part: Tasks| {
            times += 1;
            living.fetch_add(1, Ordering::Relaxed);
            let (lives, last) = (Lives(living.clone()), times == 3);
            part.spawn(async move {
                let _lives = lives;
                std::future::pending().await
            });
            async move {
                if last {
                    return began.elapsed();
                }
                part.spawn(async { panic!("planted") });
                std::future::pending().await
            }
        };
        let broke = || {
            told.fetch_add(1, Ordering::Relaxed);
        };
        let took = keep(&tasks, begin, broke).await;
        assert_eq!((took, told.load(Ordering::Relaxed)), (Duration::from_secs(1 + 2), 2));
        assert_eq!(living.load(Ordering::Relaxed), 1, "those of before are gone, the last goes on");
        tasks.stop().await;
        assert_eq!(living.load(Ordering::Relaxed), 0);
    }
}
