//! Planted bugs are found. The bugs are listed at [`allotment_sim::Bug`].

use allotment_sim::{Bug, simulate, simulate_catalog};

/// Seeds within which every bug has to be found.
const WITHIN: u64 = 1_000;
/// Seeds from the one recorded on that are tried before a bug counts as not found: what the platform
/// does with a seed changes with its code.
const AROUND: u64 = 100;

/// The seed at which a bug is found, and what the invariant says that finds it.
const FOUND_AT: [(Bug, u64, &str); 14] = [
    (Bug::LostUpdate, 1, "lost the record of"),
    (Bug::DoubleGrant, 2, "was replaced by another"),
    (Bug::RevokeForgotten, 3, "bindings.rbac.authorization.k8s.io"),
    (Bug::StaleRead, 3, "took the room of"),
    (Bug::EventDropped, 9, "is being deleted for ever"),
    (Bug::WriteForgotten, 1, "that it has no room on"),
    (Bug::StatusBeforeGrant, 1, "is said to be Granted, and has no Grant"),
    (Bug::FinalizerDropped, 3, "and its identity inside the Cluster is not"),
    (Bug::PrefixShared, 1, "are not free of each other"),
    (Bug::RoomMiscounted, 1, "tenants, and room for"),
    (Bug::TokenKept, 2, "is left of an AccessRequest that is gone"),
    (Bug::QuarantineForgotten, 1, "lost the record of"),
    (Bug::ProfileFinalizerDropped, 1, "is gone, and Shoots use it"),
    (Bug::RenderingForgotten, 3, "is left though nobody uses it"),
];

/// Whether what was broken first is what the bug breaks, and nothing is broken without it: any other finding
/// proves nothing about the bug.
fn is_found(bug: Bug, seed: u64, invariant: &str) -> bool {
    let run = if bug.is_of_the_catalog() { simulate_catalog } else { simulate };
    run(seed, Some(bug)).violations.first().is_some_and(|first| first.contains(invariant))
        && run(seed, None).violations.is_empty()
}

#[test]
fn every_bug_has_the_invariant_that_finds_it() {
    let mut settled: Vec<Bug> = FOUND_AT.iter().map(|(bug, ..)| *bug).collect();
    settled.sort();
    let mut all = Bug::ALL.to_vec();
    all.sort();
    assert_eq!(settled, all);
}

#[test]
fn planted_bugs_are_found_by_their_invariants_at_their_seeds_or_near() {
    let missed: Vec<_> = FOUND_AT
        .iter()
        .filter(|(bug, seed, invariant)| !(*seed..*seed + AROUND).any(|seed| is_found(*bug, seed, invariant)))
        .collect();
    assert!(
        missed.is_empty(),
        "not found any more: {missed:?}; look for new seeds: cargo test -p allotment-sim looks_for -- --ignored --nocapture"
    );
}

#[test]
#[ignore = "long; part of the soak"]
#[expect(clippy::print_stderr, reason = "the seeds found are what this is for")]
fn looks_for_every_planted_bug_within_a_thousand_seeds() {
    let found = |(bug, _, invariant): &(Bug, u64, &str)| (1..=WITHIN).find(|seed| is_found(*bug, *seed, invariant));
    let mut missed = Vec::new();
    for planted in &FOUND_AT {
        let seed = found(planted);
        eprintln!("{:?}: {seed:?}", planted.0);
        if seed.is_none() {
            missed.push(planted.0);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
