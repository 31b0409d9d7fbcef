//! A revisioned object store for many tenants: one trait, several engines.
//!
//! Every write gets the next value of one global revision, which is the object's `resourceVersion`.
//! Reads and watches see writes in that order. What objects mean is left to the API server: here they
//! are bytes in the stored form of [`allotment_machinery::object`].

mod bells;
mod cursor;
mod history;
mod key;
mod memory;
mod model;
mod objects;
mod past;
mod shared;
mod state;
mod store;

pub use history::{EVENT_COST, HistoryLimits};

pub use key::{Key, Resource, Revision, Scope, Tenant};
pub use memory::{Faults, Memory};
pub use model::{
    Entry, Event, EventKind, Expect, ListQuery, Outcome, Page, Template, TemplateEntry, WatchScope, Write,
};
pub use store::{Store, StoreError, Watch};
