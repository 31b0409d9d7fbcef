//! For tests only: Kubernetes' own API server as a child process, ours in this process, and random
//! sequences of requests put to both, whose answers are compared.
//!
//! The programs are built by `cargo xtask assets`; `cargo xtask live` runs the binary of this crate.
//! `generate` makes sequences, `run` puts them to both servers, `compare` pairs the answers, `deliberate`
//! knows the differences that are meant, `shrink` makes the others small, `scenario` writes them down in the
//! form of `tests/golden`.

pub mod campaign;
mod chance;
pub mod client;
pub mod compare;
mod deliberate;
pub mod generate;
pub mod issuer;
pub mod kubernetes;
pub mod ours;
pub mod ports;
mod process;
pub mod run;
pub mod scenario;
pub mod sequence;
pub mod shrink;
pub mod target;
