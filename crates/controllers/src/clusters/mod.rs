//! Clusters: the platform's part, as `allotment_core::requests` decides it, and the part of the providers
//! of this process.

mod follow;
mod guard;
mod insides;
mod lifecycle;
mod names;
mod plane;

#[cfg(test)]
pub(crate) use guard::GuardError;
pub(crate) use guard::Guards;
pub use guard::take_out;
pub(crate) use insides::Insides;
pub(crate) use lifecycle::Lifecycle;
pub(crate) use names::{Bearer, bearer};
pub(crate) use plane::Planes;
