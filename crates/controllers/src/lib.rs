//! The controllers: observe → decide (in `allotment-core`) → apply, over any Kubernetes API. One folder
//! per area, one file per kind inside. They hold no state but copies of the API's objects.

mod access;
mod catalog;
mod clusters;
pub mod frame;
pub mod providers;
mod requests;
pub mod runtimes;
mod start;
mod world;

pub use access::kubeconfig_fault;
pub use clusters::take_out as take_prefixes_out;
pub use start::{Controllers, Settings, observe, start};
