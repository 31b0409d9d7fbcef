//! Plays one seed and prints what was written and what was broken:
//! `cargo run -p allotment-sim --example seed -- SEED [BUG]`; `catalog` in the
//! place of a bug plays a run about the catalog, as its bugs do.

use std::process::ExitCode;

use allotment_sim::{Bug, simulate, simulate_catalog};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "what is printed is what this is for")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(seed) = arguments.next().and_then(|text| text.parse().ok()) else {
        eprintln!("usage: seed SEED [BUG]; the bugs: {:?}", Bug::ALL);
        return ExitCode::from(2);
    };
    let word = arguments.next();
    let of_catalog = word.as_deref() == Some("catalog");
    let bug = match word.filter(|_| !of_catalog) {
        None => None,
        Some(name) => match Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name) {
            Some(bug) => Some(bug),
            None => {
                eprintln!("no bug is called {name}; the bugs: {:?}", Bug::ALL);
                return ExitCode::from(2);
            }
        },
    };
    let of_catalog = of_catalog || bug.is_some_and(Bug::is_of_the_catalog);
    let outcome = if of_catalog { simulate_catalog(seed, bug) } else { simulate(seed, bug) };
    outcome.trace.lines.iter().for_each(|line| println!("{line}"));
    if outcome.violations.is_empty() {
        return ExitCode::SUCCESS;
    }
    outcome.violations.iter().for_each(|violation| eprintln!("broken: {violation}"));
    ExitCode::FAILURE
}
