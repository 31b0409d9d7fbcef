//! The `allot` command: commands and wiring, nothing else.

mod cli;
mod duration;
mod exit;

fn main() {}
