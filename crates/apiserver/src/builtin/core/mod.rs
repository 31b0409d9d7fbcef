//! The kinds of the core group, with Leases, Endpoints' second form and Events' second form, which share
//! their rules with kinds that stand here.

pub(super) mod account;
pub(super) mod config;
pub(super) mod endpoints;
pub(super) mod event;
pub(super) mod namespace;
pub(super) mod node;
pub(super) mod pod;
pub(super) mod quota;
pub(super) mod resources;
pub(super) mod service;
