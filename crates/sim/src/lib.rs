//! The whole platform in one process on a paused clock, seeded: for tests only.
//!
//! One thread, one seed, one trace: [`run`] gives a closure a thread of its own, a tokio runtime whose clock
//! moves only when everything waits, and a random source that the seed decides, down to the one that the
//! standard library's hash maps read. What it cannot decide are tokio's own dice, so nothing that it runs may
//! throw them: no `select!` without `biased`, no `sync::watch` that several wait on.

mod attachment;
mod bugs;
mod catalog;
mod chance;
mod judge;
mod keys;
mod known;
mod network;
mod random_source;
mod rest;
mod simulation;
mod thread;
mod time;
mod trace;
mod workload;
mod world;

pub use bugs::Bug;
pub use chance::{Chance, SeededEntropy};
pub use simulation::{Outcome, simulate, simulate_catalog};
pub use thread::run;
pub use time::SimulatedClock;
pub use trace::Trace;
