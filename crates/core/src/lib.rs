//! Every decision of the platform, pure: what is observed goes in, what to write comes out.
//!
//! No client, no clock, no randomness: the time, names and random proposals are arguments. Applying
//! what is decided is left to `allotment-controllers`.

#![warn(missing_docs)]

pub mod access;
pub mod catalog;
pub mod providers;
pub mod requests;
pub mod write;
