//! A revisioned object store for many tenants: one trait, several engines.
//!
//! Every write gets the next value of one global revision, which is the object's `resourceVersion`.
//! Reads and watches see writes in that order. What objects mean is left to the API server: here they
//! are bytes in the stored form of [`allotment_machinery::object`].

mod bells;
mod body;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod cursor;
mod embedded;
mod history;
mod key;
mod memory;
mod model;
mod objects;
mod past;
mod shared;
mod state;
mod store;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "conformance"))]
pub use embedded::simulated::{Disk, DiskFaults};
pub use embedded::{
    Embedded, FileWriter, Files, Losses, OpenError, Options, Repair, Report, SegmentReport, check, plan_repair, repair,
};
pub use history::{EVENT_COST, HistoryLimits};

pub use key::{Key, Resource, Revision, Scope, Tenant};
pub use memory::{Faults, Memory, Observer, Seen};
pub use model::{
    Entry, Event, EventKind, Expect, ListQuery, Outcome, Page, Template, TemplateEntry, WatchScope, Write,
};
pub use store::{Store, StoreError, Watch};
