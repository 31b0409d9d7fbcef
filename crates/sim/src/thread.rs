//! A thread and a runtime for one simulation.

use std::future::Future;

use crate::chance::Chance;
use crate::random_source::seed_this_thread;

/// The stream of a seed that the process's random source is fed from.
const RANDOM_SOURCE: u64 = 1;

/// A simulation's stack: deep enough for debug builds of deeply nested futures.
const STACK_BYTES: usize = 16 << 20;

/// Runs one simulation to its end: a thread of its own (hash keys are cached by thread), a
/// single-threaded runtime, a clock that moves only when everything waits. A panic inside is the caller's.
pub fn run<T, F>(seed: u64, simulation: impl FnOnce() -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let body = move || {
        seed_this_thread(Chance::new(seed, RANDOM_SOURCE));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs nothing from the system");
        runtime.block_on(simulation())
    };
    let thread = std::thread::Builder::new().name(format!("seed {seed}")).stack_size(STACK_BYTES).spawn(body);
    match thread.expect("a test machine can start a thread").join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn order(seed: u64) -> Vec<u32> {
        run(seed, || async { (0..100).collect::<HashSet<u32>>().into_iter().collect() })
    }

    #[test]
    fn one_seed_gives_one_order_of_a_hash_set_and_another_seed_another() {
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn time_moves_only_when_everything_waits() {
        let elapsed = run(1, || async {
            let clock = crate::SimulatedClock::new();
            tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
            clock.elapsed()
        });
        assert!(elapsed >= std::time::Duration::from_secs(3600) && elapsed < std::time::Duration::from_secs(3601));
    }
}
