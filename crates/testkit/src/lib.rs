//! For tests only: Kubernetes' own API server as a child process, ours in this process, and random
//! sequences of requests put to both, whose answers are compared.
//!
//! The programs are built by `cargo xtask assets`; `cargo xtask live` runs the binary of this crate.

pub mod client;

pub mod kubernetes;
pub mod ours;
mod process;

pub mod target;
