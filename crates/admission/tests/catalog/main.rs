//! Writes of CloudProfiles, PrivateCloudProfiles and Shoots: what is looked up, changed, refused and warned of.

mod cloud;
mod private;
mod shoot;
mod unread;
mod world;
