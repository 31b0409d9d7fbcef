//! Admission of our kinds: one handler, called in-process by the embedded API server and over HTTPS
//! by any other.
//!
//! It sees an object before it is stored: stamps who asks, refuses what can never work with the name
//! of the field and the reason, and warns of what is probably not meant. Whether a request is
//! *granted* is left to `allotment-core`.

#![warn(missing_docs)]

pub mod catalog;
mod configs;
mod definitions;
mod ownership;
mod providers;
mod review;
mod said;
mod selectors;
mod stamp;
mod traits;
mod validate;
mod warned;

pub use providers::is_watched;
pub use review::{Caller, Concerns, Config, Denial, Operation, Request, Reviewed, concerns, review, stamp};
