//! ClusterRequests, and the spares that Purposes keep for them: carries out what `allotment_core::requests`
//! decides.

mod scheduler;
mod spares;

pub(crate) use scheduler::{Choosing, Scheduler};
pub(crate) use spares::Spares;
