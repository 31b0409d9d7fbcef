//! Who gets which access to a Cluster, what lies in the Cluster for it, and when it ends.
//!
//! # Flow
//! Per AccessRequest, [`decide_access`] gives one [`AccessPlan`]: the next thing to do, on the
//! platform's API or in the Cluster. Once it is done, what is observed then gives the next, until
//! [`AccessPlan::Done`].
//!
//! Where the profile says so, the provider makes everything (`accessBy: Provider`): the platform decides and says so
//! in a label and a condition, and derives the answer from what the provider says and what can be seen of it.

mod decide;
mod delegated;
pub mod guard;
mod inside;
mod judge;
mod leftovers;
mod means;
mod names;
mod plan;
mod rights;
mod status;
mod table;
pub mod why;

pub use decide::{decide_access, other_secret_name};
pub use delegated::secret_rights;
pub(crate) use leftovers::standing_by_provider;
pub use leftovers::{labelled, living, removal_of_leftovers, strike_leftovers};
pub use means::is_accessed_by_provider;
pub use names::{NamesAllowed, kept_prefixes, names_allowed};
pub use plan::{
    AccessObserved, AccessPlan, Change, Inside, InsideState, Left, LeftBehind, Looked, PrefixSeen, SecretFacts,
    TargetCluster,
};
pub use rights::Writing;
