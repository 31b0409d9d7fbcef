//! Our kinds: Rust types, conditions and reasons as enums, and their CustomResourceDefinitions.
//!
//! What the fields mean for a decision is left to `allotment-core`, what may be written to them to
//! `allotment-admission`.

#![warn(missing_docs)]

pub mod catalog;
mod crds;
pub mod names;
pub mod reasons;
pub mod requests;
pub mod traits;
mod yaml;

pub use crds::{catalog_crds, crds, crds_yaml, request_crds};
