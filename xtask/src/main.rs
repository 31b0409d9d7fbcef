//! Build and check tasks of the project.
fn main() {}
