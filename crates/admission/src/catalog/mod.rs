//! Admission of the catalog's kinds: CloudProfile, PrivateCloudProfile and Shoot.
//!
//! # Flow
//! A write is read at each stage, of which beside another API server each comes by itself, as far as that needs it
//! ([`Case::read_to_change`], [`Case::read`], [`Case::read_to_complete`]). It says what has to be looked up ([`Case::wants`]), again and again
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
