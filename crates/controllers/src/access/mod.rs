//! AccessRequests: carries out what `allotment_core::access` decides, on the platform's API and inside
//! the Clusters.

mod given;
pub(crate) mod inside;
mod request;
mod secret;

pub use given::kubeconfig_fault;
pub(crate) use request::AccessRequests;
pub(crate) use secret::AccessSecret;
