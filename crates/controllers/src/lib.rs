//! The controllers: observe → decide (in `allotment-core`) → apply, over any Kubernetes API. One folder
//! per area, one file per kind inside. They hold no state but copies of the API's objects.

pub mod frame;
pub mod providers;
pub mod runtimes;
mod world;
