//! Who gets which access to a Cluster, what lies in the Cluster for it, and when it ends.
//!
//! # Flow
//! Per AccessRequest, [`decide_access`] gives one [`AccessPlan`]: the next thing to do, on the
//! platform's API or in the Cluster. Once it is done, what is observed then gives the next, until
//! [`AccessPlan::Done`].

mod decide;
pub mod guard;
mod inside;
mod judge;
mod leftovers;
mod names;
mod plan;

pub use decide::{decide_access, other_secret_name};
pub use leftovers::{labelled, living, removal_of_leftovers, strike_leftovers};
pub use names::{NamesAllowed, names_allowed};
pub use plan::{
    AccessObserved, AccessPlan, Change, Inside, InsideState, LeftBehind, Looked, SecretFacts, TargetCluster,
};
