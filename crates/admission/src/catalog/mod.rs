//! Admission of the catalog's kinds: CloudProfile, PrivateCloudProfile and Shoot.
//!
//! # Flow
//! A write is read once for each stage ([`Case::read`]). It says what has to be looked up ([`Case::wants`]), again and again
//! until it knows all that it is judged by ([`Facts`]); then it says how the object has to be changed ([`Case::changes`]),
//! or whether it may go on ([`Case::judge`]). Looking things up is left to others.

mod case;
mod changes;
mod cloud;
mod facts;
mod named;
mod private;
mod shoot;

pub use case::{Case, Stage, Write, is_judged};
pub use changes::Changes;
pub use facts::{Facts, Family, Found, Lookup, Users, users_of};
