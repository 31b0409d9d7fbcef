//! Clusters: the platform's part, as `allotment_core::requests` decides it, and the part of the providers
//! of this process.

mod lifecycle;
mod plane;

pub use lifecycle::Lifecycle;
pub use plane::Planes;
