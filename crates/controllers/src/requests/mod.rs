//! ClusterRequests: carries out what `allotment_core::requests` decides.

mod scheduler;

pub(crate) use scheduler::Scheduler;
