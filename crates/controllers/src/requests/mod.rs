//! ClusterRequests: carries out what `allotment_core::requests` decides.

mod scheduler;

pub use scheduler::Scheduler;
