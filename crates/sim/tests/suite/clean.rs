//! Seeds with nothing planted: nothing is broken, and each seed is one trace.

use allotment_sim::{Outcome, simulate, simulate_catalog};

/// Seeds of an ordinary run: a few seconds each in a debug build.
const SEEDS: u64 = 6;
/// Seeds that found something once: at 35 the loops of the API server went round without a pause, since all their workers waited
/// while something was due, and no time passed any more.
const TELLING: [u64; 1] = [35];
/// Seeds of a soak.
const SOAK: u64 = 2_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[expect(clippy::print_stderr, reason = "whoever repeats a seed wants to see all of it")]
fn hold(seeds: impl Iterator<Item = u64>, run: impl Fn(u64) -> Outcome) {
    let mut failed = Vec::new();
    for seed in seeds {
        let outcome = run(seed);
        if !outcome.violations.is_empty() {
            eprintln!("seed {seed}: {:#?}", outcome.violations);
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "seeds {failed:?}; repeat one: cargo run -p allotment-sim --example seed -- N");
}

#[test]
fn the_platform_holds_what_it_promises_through_crashes_and_losses() {
    hold((1..=SEEDS).chain(TELLING), |seed| simulate(seed, None));
}

#[test]
fn the_catalog_holds_what_it_promises_through_crashes_and_losses() {
    hold(1..=SEEDS, |seed| simulate_catalog(seed, None));
}

#[test]
#[ignore = "long; part of the soak"]
fn the_platform_holds_what_it_promises_for_thousands_of_seeds() {
    let from = number("FROM", 1);
    hold(from..from + number("SEEDS", SOAK), |seed| simulate(seed, None));
}

#[test]
#[ignore = "long; part of the soak"]
fn the_catalog_holds_what_it_promises_for_thousands_of_seeds() {
    let from = number("FROM", 1);
    hold(from..from + number("SEEDS", SOAK), |seed| simulate_catalog(seed, None));
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let mut digests = Vec::new();
    for seed in [3, 5, 11] {
        let (first, second) = (simulate(seed, None).trace, simulate(seed, None).trace);
        assert_eq!(first.difference(&second), None, "seed {seed}");
        digests.push(first.digest());
    }
    digests.dedup();
    assert_eq!(digests.len(), 3, "different seeds did the same");
}
