//! What a catalog means: how a private profile is rendered over its parent, what is wrong with either, who may use
//! which version, which Shoot may change its profile, what expires when.
//!
//! All pure; the time is an argument. Where profiles and Shoots come from, and who is told, is left to others.

mod certificates;
mod compare;
mod constraint;
mod dates;
mod diff;
mod effects;
mod entries;
mod expiring;
mod expiry;
mod explaining;
mod fitting;
mod index;
mod keyed;
mod lineage;
mod listed;
mod parent;
mod parts;
mod plan;
mod private;
mod profile;
mod reference;
mod render;
mod room;
mod slips;
mod status;
mod unread;
mod usage;
mod verbs;
mod versions;
mod within;

pub use dates::{corrected as corrected_date, later};
pub use diff::{Change, Difference, diff};
pub use effects::{Effect, effects};
pub use entries::Found;
pub use expiring::{Expiring, ProfileName, expiring, used_versions};
pub use expiry::{Expiry, expire_cloud_profile, expire_private_profile, removed_versions};
pub use explaining::{Candidate, Dates, Offered, Used, Verdict, candidates, explain_usage};
pub use index::{Catalog, KeptShoot, Offer, ProfileKey, says};
pub use lineage::{NoParent, why_no_parent};
pub use listed::listed;
pub use parent::Parent;
pub use parts::{Part, dropped_in_use};
pub use plan::{ProfilePlan, ProfileWrite, StatusBody, StatusWrite, Told, decide_profile};
pub use private::{PrivateWrite, gone_with, over, settled, validate_private_profile};
pub use profile::validate_cloud_profile;
pub use reference::{Going, ProfileKind, Reference, SwitchError, check_switch, reference, used_profile, written};
pub use render::{Rendered, faults_of_change, render, stands_alone};
pub use room::lacks_room;
pub use slips::{Slip, correct};
pub use status::{ParentView, PrivateView, private_status, recorded};
pub use unread::{Unclear, UnreadProfile};
pub use usage::{check_switch_usage, check_usage, last_meant, offers, used_kubernetes};
pub use verbs::{Verb, denial, needed};
pub use versions::{VersionKey, dropped_versions};
