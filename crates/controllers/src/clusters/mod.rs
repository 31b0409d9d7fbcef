//! Clusters: the platform's part, as `allotment_core::requests` decides it, and the part of the providers
//! of this process.

mod insides;
mod lifecycle;
mod names;
mod plane;

pub(crate) use insides::Insides;
pub(crate) use lifecycle::Lifecycle;
pub(crate) use plane::Planes;
