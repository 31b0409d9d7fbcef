//! Plays one seed and prints what was written and what was broken:
//! `cargo run -p allotment-sim --example seed -- SEED [BUG]`.

use std::process::ExitCode;

use allotment_sim::{Bug, simulate};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "what is printed is what this is for")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(seed) = arguments.next().and_then(|text| text.parse().ok()) else {
        eprintln!("usage: seed SEED [BUG]; the bugs: {:?}", Bug::ALL);
        return ExitCode::from(2);
    };
    let bug = match arguments.next() {
        None => None,
        Some(name) => match Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name) {
            Some(bug) => Some(bug),
            None => {
                eprintln!("no bug is called {name}; the bugs: {:?}", Bug::ALL);
                return ExitCode::from(2);
            }
        },
    };
    let outcome = simulate(seed, bug);
    outcome.trace.lines.iter().for_each(|line| println!("{line}"));
    if outcome.violations.is_empty() {
        return ExitCode::SUCCESS;
    }
    outcome.violations.iter().for_each(|violation| eprintln!("broken: {violation}"));
    ExitCode::FAILURE
}
