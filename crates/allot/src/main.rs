//! The `allot` command.
fn main() {}
