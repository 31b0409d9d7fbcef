//! The catalog: private profiles are rendered again when their CloudProfile changes, versions that expired are taken out,
//! a deletion waits for those who use the profile. What is to be done `allotment-core` decides.
//!
//! It has a world and queues of its own, so that neither waits for the other's locks nor its lists.

mod confirm;
mod dates;
mod followed;
mod profiles;
mod unread;
mod world;

pub(crate) use confirm::hear_of_users;
pub(crate) use dates::keep_dates;
pub(crate) use followed::{follow_private, follow_profiles, follow_shoots};
pub(crate) use profiles::Profiles;
pub(crate) use unread::UnreadShoots;
pub(crate) use world::CatalogWorld;

/// Kinds that are followed for the catalog.
pub(crate) const KINDS: usize = 3;
