//! The whole landscape in one process: store, API server, controllers, provider `local`. Wiring only.

mod files;
mod landscape;
mod seams;
mod tenants;

pub(crate) use seams::{RandomBytes, WallClock, seams};
