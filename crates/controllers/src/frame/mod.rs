//! What every controller stands on: mirrors of the API's objects fed by watches, a work queue per
//! controller, the loop that works it off, and guarded writes. What a controller decides is none of this
//! module's business.

mod alarm;
mod anew;
mod events;
mod execute;
mod lanes;
mod lease;
mod mirror;
mod queue;
mod seams;
mod shared;
mod tasks;
mod troubles;
mod watch;
mod whole;
mod worker;
mod write;

pub use alarm::Alarm;
pub(crate) use alarm::{caught, caught_at_once};
pub use allotment_core::write::ObjectKey;
pub use anew::{Anew, keep};
pub use events::warn_of;
pub use execute::{Written, execute};
pub use lanes::Lane;
pub use lease::{Acquired, Candidate, Holdings, Pace, Term, TermEnded};
pub use mirror::{Change, Mirror};
pub use queue::Queue;
pub use seams::Seams;
#[cfg(test)]
pub(crate) use seams::still;
pub(crate) use shared::Shared;
pub use tasks::Tasks;
pub use troubles::Troubles;
pub use watch::chain;
pub(crate) use watch::told;
pub use watch::{Synced, advice, follow, follow_paged, tell};
pub use whole::{Kept, Mended, Whole};
pub(crate) use worker::AT_ONCE;
pub use worker::{Next, Reconcile, ReconcileError, work};
pub use write::{Writer, is_conflict, is_gone};
