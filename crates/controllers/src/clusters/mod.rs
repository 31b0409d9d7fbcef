//! Clusters: the platform's part, as `allotment_core::requests` decides it, and the part of the providers
//! of this process.

mod lifecycle;
mod plane;

pub(crate) use lifecycle::Lifecycle;
pub(crate) use plane::Planes;
