//! A whole landscape in one process, over any store: API server, admission of our kinds, controllers,
//! provider `local`; and the same beside an API server of somebody else's, with admission as webhooks.
//! Wiring only, shared by the binary and the simulation; files, sockets and TLS are the binary's.

mod admission;
mod beside;
mod catalog;
mod client;
mod foreign;
mod installed;
mod landscape;
mod lately;
mod manifests;
mod planes;
mod prefixes;
mod readiness;
mod rights;
mod roles;
mod tenants;
mod turns;
pub mod webhook;

pub use admission::CONTROLLERS;
pub use beside::{Beside, BesideConfig, LEASE};
pub use client::client_of;
pub use landscape::{Config, Landscape, LandscapeError};
pub use planes::{Planes, PlanesConfig};
